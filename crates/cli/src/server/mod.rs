//! Acts: what somebody wants of a ledger, as data, carried out by whoever holds it.
//!
//! A command line makes an [`Act`] and hands it over ([`hand_over`]): to the process that holds the
//! ledger and serves it ([`while_serving`]) through a socket in the ledger's folder, or, where
//! nobody does, to itself. The [`Answer`] is the same.
//!
//! Invariants:
//! - An act is one commit at most, judged by the state that it is carried out on.
//! - Only the holder of the lock makes the socket, and only it removes one.
//! - An act whose answer was lost is asked again under its key, and so is done once.
//! - Nothing that comes through the socket is believed before it is checked, and all of it is
//!   bounded: the length of a message, the number of connections, the time that one may be silent.
//!
//! The form of messages and acts is `format/socket.md`. Left out on purpose: reading, which needs
//! nobody's leave (`ledger inspect` and its like look beside whoever holds the ledger).

mod act;
mod answer;
mod bell;
mod carry_out;
mod client;
mod connection;
mod failure;
mod find;
mod people;
mod plans;
mod reception;
mod retention;
mod server;
mod socket;
mod steer;
mod words;
mod work;

pub use act::{
    Act, Approval, BudgetChange, EffectState, Extent, NextStep, OnFailureWord, Policy, RulingWord,
    Scope, TextWord, Word, Work,
};
pub use answer::Answer;
pub use client::{Client, PATIENCE, Request, hand_over, open_in_turn};
pub use failure::{Code, Failure, code_of};
pub(crate) use failure::{expect_short_numbers, too_long};
pub(crate) use find::{check_name, run_of, run_or_only, step_hint};
pub(crate) use plans::question_about;
pub(crate) use retention::{Prune, prune_json, prune_text};
pub use server::{CONNECTIONS_MAX, while_serving};
pub use socket::{MESSAGE_LENGTH_MAX, SOCKET_NAME};
pub(crate) use words::{count, counted, size};
