//! The domain: what an agent plan is, what can be asked of it, and what happened.
//!
//! Three steps, each a pure function: [`decide`] judges a command against the state and answers
//! with events or a [`Rejection`]; [`State::apply`] folds an event in; [`settle`] finds what
//! follows by itself. [`execute`] strings them together.
//!
//! Invariants:
//! - No I/O, no clock, no randomness, no bytes, no hash algorithm: all of these are arguments.
//! - `apply` is total, infallible and deterministic: it judges nothing. An event that makes no
//!   sense (only a forged log holds one) changes nothing but the sequence number.
//! - A receipt is a claim. Only verdicts, or a policy that is written down, accept a step.

mod canonical;
mod command;
mod criterion;
mod cycle;
mod diff;
mod event;
mod graph;
mod ids;
mod json;
mod model;
mod nearest;
mod problem;
mod state;
mod support;
mod validate;

pub use command::*;
pub use criterion::Criterion;
pub use diff::{ChangedStep, PlanDiff, WorkChange, diff};
pub use event::*;
pub use ids::*;
pub use json::{Json, canonical};
pub use model::*;
#[cfg(feature = "cli")]
pub(crate) use nearest::nearest;
pub use problem::Problem;
pub use state::*;
pub use support::{inert, unsupported};
pub use validate::{STEPS_MAX, validate};
