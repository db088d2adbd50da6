//! The domain: plans, commands, events, and the state of runs, as pure functions and values.
//!
//! [`validate()`] checks a [`Plan`]. [`decide()`] checks a [`Command`] against the [`State`] and returns
//! events or a [`Rejection`]; [`State::apply`] folds an [`Event`] into the state; [`settle()`] derives
//! the events that follow from the state without a command. [`execute()`] combines them into one batch,
//! and [`explain()`] says why a step cannot be dispatched. A [`Ledger`](crate::Ledger) does all of it
//! durably; this module is for programs that read events, build commands, or compute on states.
//!
//! ```
//! use plan_ledger::plan::QuestionBody;
//! use plan_ledger::{Ledger, Plan, Reply};
//!
//! # fn main() -> plan_ledger::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let dir = folder.path().join("ledger");
//! let steps = r#"{"steps": [{"id": "send", "gate": {"question": "Send it?"}}]}"#;
//! let plan: Plan = serde_json::from_str(steps).expect("a plan");
//! let ledger = Ledger::open(&dir)?;
//! let run = ledger.start_or_resume("mail", &plan)?;
//! for open in ledger.questions()? {
//!     let QuestionBody { text, options, .. } = &open.question.asked;
//!     println!("{text} ({})", options.join(", "));
//!     ledger.answer(open.id, Reply::to(&open, "yes", "ana"))?;
//! }
//! # let Some(task) = ledger.dispatch(run, "worker-1")? else { panic!() };
//! # assert_eq!(task.step.id, "send");
//! # ledger.close()
//! # }
//! ```
//!
//! Times ([`Timestamp`]) are microseconds since the Unix epoch, durations ([`Micros`]) are microseconds,
//! and money is counted in millionths of the currency unit. `format/plan.md` describes the parts of a
//! plan, and `format/events.md` the events.
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
mod validate;
mod value;
#[expect(missing_docs, reason = "it has no page")]
mod view;

pub use command::{Command, PlanDraft};
pub use decide::{MAX_BATCH_EVENTS, decide};
pub use event::Event;
pub use event::plan_event::{
    CommandsApproval, HashedStep, PlanActivated, PlanProposed, PlanReviewed, PlanSteps,
    PlanVerdict, Provenance, Review,
};
pub use event::question::{
    ABORT, FAIL, NO, Question, QuestionAnswer, QuestionBody, QuestionExpiry, QuestionId,
    QuestionSubject, RAISE, RELEASE, REPLAN, RETRY, SKIP, VALUE, WAIT, WITHDRAWN, YES,
};
pub use event::receipt::{
    Artifact, BACKOFF, BlobOutput, Outcome, Output, RETRY_AFTER, Receipt, ReplanKind, USAGE_LIMIT,
    UsageLimit,
};
pub use event::run_event::{
    ApprovalPolicy, BarrierChange, BarrierChanged, BudgetChanged, CapChanged, CapScope, Ending,
    FailureSettingsChanged, HelperEnded, HelperRole, InheritedStep, OnFailure, Origin, PauseCause,
    QuestionAnswered, QuestionAsked, QuestionExpired, ReplanRequested, ReplanTrigger,
    ReplanWithdrawn, RunEnded, RunForked, RunPaused, RunPolicy, RunReopened, RunResumed,
    RunStarted, StepsInherited, TextPolicy, VariableSet,
};
pub use event::step_event::{
    Accepted, AcceptedBasis, AfterFailure, AfterLoss, AttemptLost, Condition, ConditionJudged,
    CostCorrected, Decision, DelayElapsed, Dispatched, EffectCommitted, EffectIntended,
    FailureDecided, LeaseRenewed, LostCause, OutcomeResolved, ReceiptRecorded, ReceiptRefused,
    Reopened, ResolvedOutcome, Ruling, Skipped, StepFailed, Verdict, VerdictRecorded,
};
pub use event::step_status::StepStatus;
pub use event::table::{StepEvent, StepRecord};
pub use execute::execute;
pub use explain::explain;
pub use explain::explanation::{Explanation, StepReasons};
#[doc(hidden)]
pub use explain::reason::ProposedVersion;
pub use explain::reason::{BlockReason, BlockingAttempt, BlockingBarrier, BudgetShortage};
pub use explain::text::ExplanationLine;
pub use model::budget::{Budget, BudgetPart, Cost, Limits};
pub use model::criterion::Criterion;
pub use model::diff::{ChangedStep, FieldChange, PlanDiff, WorkChange, diff};
pub use model::fields::Extra;
pub use model::input::{InputType, PlanInput};
pub use model::plan::{Barrier, BarrierNeeds, Caps, Defaults, OnBreak, Phase, Plan};
pub use model::policy::{
    Decider, Disposition, FailureAction, FailureMatch, FailurePolicy, FailureRule, FailureSettings,
    OnStale, OnUnknown,
};
pub use model::problem::Problem;
pub use model::route::{OwnerLimit, OwnerSettings, OwnersOfPlan, Route, Taker, is_person};
pub use model::step::{
    FailureClass, Fallback, Gate, Idempotence, OnFalse, OnTimeout, RetryPolicy, Step,
};
pub use rejection::Rejection;
pub use settle::settle;
pub use state::account::Account;
pub use state::barrier_state::{BarrierState, BarrierStatus};
pub use state::run::{
    Effect, PlanVersion, ReplanRequest, Run, RunCounters, RunStatus, Timer, Variable,
};
pub use state::runs::Runs;
pub use state::step_state::{Attempt, Hold, StepState};
#[doc(hidden)]
pub use state::steps::Steps;
pub use state::{ENDED_KEPT, State};
pub use validate::lint::lint;
pub use validate::{STEPS_MAX, validate};
pub use value::evaluator::{Evaluator, Exhausted};
pub use value::ids::{
    AttemptToken, ContentHash, Micros, RunId, StepNumber, Timestamp, WorkerProcess,
};
pub use value::json::Json;
pub use value::rare_field::RareField;
pub use value::text::Text;
pub use value::time::time_text;
pub use value::token::{Proof, Secret, SecretHash, Token};

/// How a state is packed and indexed, and what the program shows of plans and runs. There is no
/// promise of stability.
#[doc(hidden)]
pub use {
    event::question::TimeoutAction,
    model::diff::{ExecutedChange, ExecutedKind, ExecutedPart},
    model::enrich::{Tool, ToolRegistry},
    model::graph::tree::TreeNode,
    state::compact::bytes::Texts,
    state::compact::plan::CompactPlan,
    state::compact::step::CompactStep,
    state::links::{Dependency, Neighbours, SharedLinks},
    state::overview::{RunOverview, RunSummary},
    state::queue::Ready,
    state::replan_hold::ReplanHold,
    state::run::{Lane, Queue},
    state::runs::{PackedRun, StoredRun},
    validate::validator::VALUE_DEPTH_MAX,
    value::canonical::canonical,
    value::effort::EvaluationPool,
    value::expression::problem as expression_problem,
    value::json::JSON_DEPTH_MAX,
    value::names::{NameKind, parse_number},
    value::nearest::closest_name,
    value::numbers::{find_long_number, quote_long_numbers},
    value::rare_field::StaticDefault,
    value::time::{UtcTime, serialize as serialize_time},
    view::execution::{ExecutionState, Remaining},
    view::trusted::TrustedCheck,
    view::versions::VersionSummary,
    view::warnings::{SLOW_FACTOR, STALL_AFTER, Warning},
};

pub(crate) use event::table::with_events;
pub(crate) use execute::{Executed, execute_within};
pub(crate) use settle::variables::output_values;
pub(crate) use value::detached::{DetachedText, Salt, collect, supply, without_collecting};
pub(crate) use {
    state::fault::StateFault,
    state::packed::{PackedPart, UnpackedPlan},
    state::steps::StoredLeaf,
};
#[cfg(test)]
pub(crate) use {state::kept_hash::KeptHash, value::ids::SECOND};

#[cfg(test)]
mod tests;
