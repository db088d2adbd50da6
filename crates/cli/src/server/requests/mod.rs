//! One function for each request, grouped by subject. A function builds the command from the state,
//! executes it through a [`RequestContext`], and renders the response.

mod context;
pub(crate) mod control;
mod find;
mod pending_answer;
pub(crate) mod plans;
pub(crate) mod retention;
pub(crate) mod review;
pub(crate) mod work;

pub(crate) use context::RequestContext;
pub(crate) use find::{check_name, run_of, run_or_only, step_hint};
pub(crate) use pending_answer::{PendingAnswer, QUICK_LENGTH_MAX};
pub(crate) use plans::{Proposal, question_about};
pub(crate) use retention::{Prune, prune_json, prune_text};
pub(crate) use review::Reply;
pub(crate) use work::Returned;
