//! The protocol between a command and the process that has the writer lock: requests, responses,
//! failures and their encoding (`format/socket.md`).
//!
//! A request contains names of runs and steps and nothing specific to a machine, so every process
//! executes it with the same result.

mod answer;
mod failure;
mod message;
mod request;
mod units;

pub use answer::Answer;
pub use failure::{Code, Failure, code_of};
pub(crate) use failure::{expect_short_numbers, plan_too_long, too_long};
pub use message::MESSAGE_LENGTH_MAX;
pub(crate) use message::{encode, receive};
pub use request::{
    Approval, BudgetChange, EffectState, NextStep, OnFailureWord, Policy, PruneLimit, Request,
    ReviewDecision, RulingWord, Scope, TextWord, Work,
};
pub(crate) use units::{count, counted, size};
