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

mod account;
mod apply;
mod barrier_state;
mod canonical;
mod command;
mod compact;
mod control_event;
mod criterion;
mod cycle;
mod decide;
mod defaults;
mod diff;
mod enrich;
mod event;
mod execute;
mod explain;
mod expression;
mod forest;
mod glance;
mod graph;
mod ids;
mod json;
mod links;
mod lint;
mod model;
mod names;
mod nearest;
mod numbers;
mod output;
mod policy;
mod problem;
mod question;
mod ready;
mod rejection;
mod replan;
mod run;
mod runs;
mod seldom;
mod settle;
mod state;
mod step;
mod step_event;
mod step_state;
mod step_status;
#[cfg(test)]
mod tests;
mod transition;
mod validate;
mod view;
mod work_event;

pub use account::{Account, BudgetPart, Limits};
pub use barrier_state::*;
pub use command::*;
pub use compact::{CompactPlan, CompactStep, Texts};
pub use control_event::*;
pub use criterion::Criterion;
pub use decide::{MAX_BATCH_EVENTS, decide};
pub use diff::{ChangedStep, FieldChange, PlanDiff, WorkChange, diff};
pub use enrich::{Tool, ToolRegistry, enrich};
pub use event::*;
pub use execute::execute;
pub use explain::{Explanation, Holder, Line, MissingAt, Reason, Shortage, StepReasons, explain};
pub use forest::{Branch, forest};
pub use glance::Glance;
pub use ids::*;
pub use json::{JSON_DEPTH_MAX, Json, canonical};
pub use links::{Dependency, Near, SharedLinks};
pub use lint::lint;
pub use model::*;
#[doc(hidden)]
pub use names::number_meant;
pub use names::{Named, name_fault};
#[cfg(feature = "plan-files")]
#[doc(hidden)]
pub use nearest::nearest;
#[doc(hidden)]
pub use numbers::{long_number, with_long_as_text};
pub use output::{BlobOutput, Output};
pub use policy::*;
pub use problem::Problem;
pub use question::*;
pub use ready::Ready;
pub use rejection::Rejection;
pub use run::*;
pub use runs::{Form, PackedPlan, PackedRun, PlanKey, Runs};
pub use seldom::{Blank, Seldom};
pub(crate) use settle::declared;
#[doc(hidden)]
pub use settle::is_said_to_have_landed;
pub use settle::settle;
pub use state::*;
pub use step::*;
pub use step_event::*;
pub use step_state::*;
pub use step_status::*;
pub use validate::{STEPS_MAX, VALUE_DEPTH_MAX, validate};
pub use view::*;
pub use work_event::*;
