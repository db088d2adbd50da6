//! The domain: plans, commands, events, and the state of runs.
//!
//! Three pure functions: [`decide()`] checks a command against the state and returns events or a
//! [`Rejection`]; [`State::apply`] folds an event into the state; [`settle()`] derives the events
//! that follow from the state without a command. [`execute()`] combines them into one batch.
//!
//! Invariants:
//! - No I/O, clock, randomness, byte format or hash algorithm: times and hashes are arguments.
//! - `apply` is total, infallible and deterministic, and makes no decisions. An event that does not
//!   fit the state, which only a forged log can contain, changes only sequence numbers and the
//!   time.
//! - A receipt is unverified. Only verdicts or an explicit policy accept a step.

mod apply;
mod command;
mod decide;
mod event;
mod execute;
mod explain;
mod model;
mod rejection;
mod settle;
mod state;
#[cfg(test)]
mod tests;
mod validate;
mod value;
mod view;

pub use command::{Command, PlanDraft};
pub use decide::{MAX_BATCH_EVENTS, decide};
pub use event::Event;
pub use event::plan_event::*;
pub use event::question::{
    ABORT, FAIL, NO, Question, QuestionAnswer, QuestionBody, QuestionExpiry, QuestionId,
    QuestionSubject, RELEASE, REPLAN, RETRY, SKIP, TimeoutAction, VALUE, WAIT, WITHDRAWN, YES,
};
pub use event::receipt::{
    Artifact, BACKOFF, BlobOutput, Outcome, Output, RETRY_AFTER, Receipt, ReplanKind, USAGE_LIMIT,
    UsageLimit,
};
pub use event::run_event::*;
pub use event::step_event::*;
pub use event::step_status::StepStatus;
pub(crate) use event::table::with_events;
pub use event::table::{StepEvent, StepRecord};

pub use execute::execute;
pub(crate) use execute::{Executed, execute_within};
pub use explain::explain;
pub use explain::explanation::{Explanation, StepReasons};
pub use explain::reason::{BlockReason, BlockingAttempt, BlockingBarrier, BudgetShortage};
pub use explain::text::ExplanationLine;
pub use model::budget::{Budget, BudgetPart, Cost, Limits};
pub use model::criterion::Criterion;
pub use model::diff::{
    ChangedStep, ExecutedChange, ExecutedKind, ExecutedPart, FieldChange, PlanDiff, WorkChange,
    diff, executed, executed_text,
};
pub use model::enrich::{Tool, ToolRegistry, enrich};
pub use model::fields::Extra;
pub use model::graph::tree::{TreeNode, plan_tree};
pub use model::input::{InputType, PlanInput};
pub use model::plan::{Barrier, BarrierNeeds, Caps, Defaults, OnBreak, Phase, Plan};
pub use model::policy::{
    Decider, Disposition, FailureAction, FailureMatch, FailurePolicy, FailureRule, FailureSettings,
    OnStale, OnUnknown,
};
pub use model::problem::Problem;
pub use model::route::{OwnerLimit, OwnerSettings, OwnersOfPlan, PERSON, Route, Taker, is_person};
pub use model::step::{
    FailureClass, Fallback, Gate, Idempotence, OnFalse, OnTimeout, RetryPolicy, Step,
};
pub use rejection::Rejection;
#[doc(hidden)]
pub use settle::disposition::worker_reported_landed;
pub use settle::opening::condition_problem;
pub use settle::reported::failure_of;
pub use settle::settle;
pub(crate) use settle::variables::output_values;
pub use state::account::Account;
pub use state::barrier_state::{BarrierState, BarrierStatus};
pub use state::compact::bytes::Texts;
pub use state::compact::plan::CompactPlan;
pub use state::compact::step::CompactStep;
pub use state::links::{Dependency, Neighbours, SharedLinks};
pub use state::overview::{RunOverview, RunSummary};
pub use state::queue::Ready;
#[doc(hidden)]
pub use state::replan_hold::ReplanHold;
pub use state::run::{
    Effect, Lane, PlanVersion, Queue, ReplanRequest, Run, RunCounters, RunStatus, Timer, Variable,
};
pub use state::runs::{PackedPlan, PackedRun, PlanKey, Runs, StoredRun};
pub use state::step_state::{Attempt, Hold, StepState};
pub use state::{ENDED_KEPT, State};
pub use validate::lint::lint;
pub use validate::validator::VALUE_DEPTH_MAX;
pub use validate::{STEPS_MAX, validate};
pub use value::canonical::canonical;
pub(crate) use value::detached::{DetachedText, Salt, collect, supply, without_collecting};
pub use value::effort::EvaluationPool;
pub use value::evaluator::{Evaluator, Exhausted};
#[cfg(feature = "plan-files")]
pub(crate) use value::expression::problem as expression_problem;
#[cfg(test)]
pub(crate) use value::ids::SECOND;
pub use value::ids::{
    AttemptToken, ContentHash, Micros, RunId, StepNumber, Timestamp, WorkerProcess,
};
pub use value::json::{JSON_DEPTH_MAX, Json};
#[doc(hidden)]
pub use value::names::parse_number;
pub use value::names::{NameKind, name_error};
#[doc(hidden)]
pub use value::nearest::closest_name;
#[doc(hidden)]
pub use value::numbers::{find_long_number, quote_long_numbers};
pub use value::rare_field::{RareField, StaticDefault};
pub use value::text::Text;
pub use value::time::{UtcTime, time_text};
pub use value::token::{Proof, Secret, SecretHash, Token};
pub use view::execution::{ExecutionState, Remaining, execution_state};
pub use view::operator::{
    AttemptSummary, BarrierSummary, OperatorView, VersionSummary, operator_view,
};
pub use view::trusted::{TrustedCheck, checks_to_trust, trusted_checks};
pub use view::user::{Activity, RequiredAction, UserView, continues, user_view};
pub use view::warnings::{SLOW_FACTOR, STALL_AFTER, Warning, is_slow, warnings};
