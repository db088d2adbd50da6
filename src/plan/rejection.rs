//! Rejections: why a command is not executed, as a type for programs and as a message for people.
//!
//! Each message states what happened, what was expected and found, and what to do next.

use std::fmt;

use crate::plan::event::question::QuestionId;
use crate::plan::event::run_event::{CapScope, Ending, PauseCause};
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::budget::{BudgetPart, Cost};
use crate::plan::model::policy::Disposition;
use crate::plan::model::problem::Problem;
use crate::plan::model::route::is_person;
use crate::plan::state::ENDED_KEPT;
use crate::plan::value::ids::{AttemptToken, ContentHash, RunId, StepNumber, Timestamp};
use crate::plan::value::json::{JSON_DEPTH_MAX, Json};

/// Why a command was rejected. A rejected command changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// The plan is invalid; all its problems.
    InvalidPlan(Vec<Problem>),
    /// The name is invalid; why.
    InvalidName(&'static str),
    /// A run with this name exists.
    RunExists(RunId),
    /// The run with this name executes another plan.
    DifferentPlan(RunId),
    /// Inputs of the plan without a value.
    MissingInputs(Vec<String>),
    /// The value of an input is invalid.
    InvalidInput {
        /// The input.
        name: String,
        /// Why.
        problem: String,
    },
    /// The run does not exist.
    NoSuchRun,
    /// The run has ended.
    RunHasEnded(Ending),
    /// The run ended long ago, and only its summary remains.
    RunRetired(Ending),
    /// The run has no active plan version yet.
    NoActivePlan,
    /// The version does not exist, or it does not wait for a review.
    NoSuchVersion(u32),
    /// The reviewer saw another plan than the proposed one.
    HashDiffers {
        /// The hash of the proposed plan.
        expected: ContentHash,
        /// Hash of the plan that the reviewer saw.
        found: ContentHash,
    },
    /// The active version has no such step.
    NoSuchStep(StepNumber),
    /// The step is not ready; its status.
    NotReady(StepNumber, StepStatus),
    /// The step is in flight: a worker holds its lease.
    Leased {
        /// The step.
        step: StepNumber,
        /// The worker.
        worker: String,
        /// End of the lease.
        lease_until: Timestamp,
    },
    /// A cap is reached.
    CapReached {
        /// Scope of the cap.
        scope: CapScope,
        /// Maximum number of attempts in flight.
        limit: u32,
        /// Whether the plan sets it: then no other cap can raise it.
        is_of_plan: bool,
    },
    /// The step is for another owner.
    OtherOwner {
        /// The step.
        step: StepNumber,
        /// Its owner.
        owner: String,
    },
    /// Steps are ready, but none that the worker takes.
    NoneForWorker {
        /// Number of ready steps.
        ready: u32,
        /// Their owners.
        owners: Vec<String>,
    },
    /// No step is ready.
    NothingReady {
        /// Attempts in flight in this run.
        in_flight: u32,
        /// Steps that wait for verdicts.
        reported: u32,
        /// Steps with an unknown outcome.
        outcome_unknown: u32,
    },
    /// The attempt of the token is not in flight.
    StaleToken(AttemptToken),
    /// The criterion does not exist, or has a verdict.
    NoSuchCriterion(u32),
    /// A worker must not judge its own work.
    JudgedByWorker(String),
    /// The variable has another version.
    VersionDiffers {
        /// The expected version.
        expected: u64,
        /// The current version.
        found: u64,
    },
    /// The same plan is already active.
    SamePlan(u32),
    /// The cap is 0, which would block every step.
    ZeroCap,
    /// There is nothing to retry.
    NothingFailed,
    /// The deadline of this barrier has passed, so the run would fail again after a retry.
    BarrierLate(String),
    /// The run is paused.
    Paused(PauseCause),
    /// The run is not paused.
    NotPaused,
    /// The rest of a budget is reserved for attempts in flight.
    BudgetReserved(BudgetPart),
    /// The cost of the attempt is not an estimate: the caller must pass the current charge.
    NotEstimated(AttemptToken),
    /// The attempt has another charge than the caller expects.
    ChargeDiffers {
        /// The expected charge.
        expected: Cost,
        /// The current charge.
        found: Cost,
    },
    /// The question is not open.
    NoSuchQuestion(QuestionId),
    /// The answer is not an option of the question.
    NotAnOption {
        /// The answer.
        answer: String,
        /// The options.
        options: Vec<String>,
    },
    /// A replan request is already open, made by this record.
    ReplanIsOpen(u64),
    /// An open replan request holds the steps that could be dispatched.
    HeldForReplan {
        /// Sequence number of the request.
        request: u64,
    },
    /// No replan request is open.
    NoReplanRequested,
    /// The replan limit of the plan is reached.
    ReplanLimit(u32),
    /// The rules of the plan decide about failures, not an external decider.
    DecidedByRules,
    /// The failed attempt may have done work that must not be repeated.
    MustNotBeRepeated(StepNumber, Disposition),
    /// The step has no available fallback.
    NoFallback(StepNumber),
    /// The side effect is already announced or confirmed.
    EffectKnown {
        /// Key of the side effect.
        key: String,
        /// Sequence number of the record that confirmed it; 0 if it is only announced.
        committed: u64,
    },
    /// The side effect was not announced.
    NoSuchEffect(String),
    /// A value nests too deeply to be parsed again.
    TooDeep {
        /// Nesting depth of the value.
        found: usize,
        /// Maximum nesting depth.
        limit: usize,
    },
    /// The ledger has no output with this hash and length.
    NoSuchOutput(ContentHash),
    /// The command produces more events than fit into a batch.
    TooManyEvents {
        /// Number of events.
        events: usize,
        /// Maximum number of events of a batch.
        limit: usize,
    },
}

impl Rejection {
    /// The stable name for programs, listed in `format/cli-json.md`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::InvalidPlan(_) => "invalid_plan",
            Self::InvalidName(_) => "bad_name",
            Self::RunExists(_) => "run_exists",
            Self::DifferentPlan(_) => "different_plan",
            Self::MissingInputs(_) => "missing_inputs",
            Self::InvalidInput { .. } => "invalid_input",
            Self::NoSuchRun => "no_such_run",
            Self::RunHasEnded(_) => "run_has_ended",
            Self::RunRetired(_) => "run_retired",
            Self::NoActivePlan => "no_active_plan",
            Self::NoSuchVersion(_) => "no_such_version",
            Self::HashDiffers { .. } => "hash_differs",
            Self::NoSuchStep(_) => "no_such_step",
            Self::NotReady(..) => "not_ready",
            Self::Leased { .. } => "held_by",
            Self::CapReached { .. } => "cap_reached",
            Self::OtherOwner { .. } => "other_owner",
            Self::NoneForWorker { .. } => "none_for_worker",
            Self::NothingReady { .. } => "nothing_ready",
            Self::StaleToken(_) => "stale_token",
            Self::NoSuchCriterion(_) => "no_such_criterion",
            Self::JudgedByWorker(_) => "judged_by_worker",
            Self::VersionDiffers { .. } => "version_differs",
            Self::SamePlan(_) => "same_plan",
            Self::ZeroCap => "zero_cap",
            Self::NothingFailed => "nothing_failed",
            Self::BarrierLate(_) => "barrier_late",
            Self::Paused(_) => "paused",
            Self::NotPaused => "not_paused",
            Self::BudgetReserved(_) => "budget_reserved",
            Self::NotEstimated(_) => "not_estimated",
            Self::ChargeDiffers { .. } => "charged_differs",
            Self::NoSuchQuestion(_) => "no_such_question",
            Self::NotAnOption { .. } => "not_an_option",
            Self::ReplanIsOpen(_) => "replan_is_open",
            Self::HeldForReplan { .. } => "held_for_replan",
            Self::NoReplanRequested => "no_replan_requested",
            Self::ReplanLimit(_) => "replan_limit",
            Self::DecidedByRules => "decided_by_rules",
            Self::MustNotBeRepeated(..) => "must_not_be_repeated",
            Self::NoFallback(_) => "no_fallback",
            Self::EffectKnown { .. } => "effect_known",
            Self::NoSuchEffect(_) => "no_such_effect",
            Self::TooDeep { .. } => "too_deep",
            Self::NoSuchOutput(_) => "no_such_output",
            Self::TooManyEvents { .. } => "too_many_events",
        }
    }
}

impl fmt::Display for Rejection {
    #[expect(clippy::too_many_lines, reason = "one arm per rejection")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidPlan(problems) => match problems.as_slice() {
                [one] => write!(f, "invalid plan: {one}"),
                many => {
                    write!(f, "invalid plan, {} problems:", many.len())?;
                    many.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
                }
            },
            Self::InvalidName(fault) => f.write_str(fault),
            Self::RunExists(run) => {
                write!(f, "a run with this name already exists (run #{run}); choose another name")
            }
            Self::DifferentPlan(run) => write!(
                f,
                "the run with this name (run #{run}) has another plan; propose this plan as its next \
                 version, or choose another name"
            ),
            Self::MissingInputs(names) => {
                write!(f, "the plan needs values for its inputs: {}; set them", names.join(", "))
            }
            Self::InvalidInput { name, problem } => write!(f, "input {name}: {problem}"),
            Self::NoSuchRun => f.write_str("the run was not found"),
            Self::RunHasEnded(Ending::Failed) => {
                f.write_str("the run has failed; retry the failed steps, or propose a new plan")
            }
            Self::RunHasEnded(ending) => {
                write!(f, "the run {}; start or fork another run", how(*ending))
            }
            Self::RunRetired(ending) => write!(
                f,
                "the run {}, and only its summary remains, since {} others ended later; start or \
                 fork another run",
                how(*ending),
                ENDED_KEPT
            ),
            Self::NoActivePlan => {
                f.write_str("the run has no active plan version: a person approves one first")
            }
            Self::NoSuchVersion(version) => {
                write!(f, "version {version} does not wait for a review")
            }
            Self::HashDiffers { expected, found } => write!(
                f,
                "the review is for plan {}, but the proposed plan is {}; review that one",
                found.short(),
                expected.short()
            ),
            Self::NoSuchStep(step) => write!(f, "the active plan has no step #{step}"),
            Self::NotReady(step, status) => write!(f, "step #{step} is not ready: it is {status}"),
            Self::Leased { step, worker, lease_until } => {
                write!(
                    f,
                    "step #{step} is in flight: {worker} holds its lease until {lease_until} (Unix time in \
                     microseconds)"
                )
            }
            Self::CapReached { scope, limit, is_of_plan } => {
                let attempts = if *limit == 1 { "attempt" } else { "attempts" };
                let scope = match scope {
                    // The claim names it.
                    CapScope::Run { .. } => "the run".to_owned(),
                    scope => scope.to_string(),
                };
                let raise = if *is_of_plan { "raise it in the plan" } else { "raise the cap" };
                write!(
                    f,
                    "the cap of {limit} {attempts} in flight is reached for {scope}; claim again later, or \
                     {raise}"
                )
            }
            Self::OtherOwner { step, owner } if is_person(owner) => write!(
                f,
                "step #{step} is for a person ({owner}), not for an agent; claim it as that owner"
            ),
            Self::OtherOwner { step, owner } => {
                write!(f, "step #{step} is for the owner {owner}; claim it as that owner")
            }
            Self::NoneForWorker { ready, owners } => {
                let steps = if *ready == 1 { "step is" } else { "steps are" };
                let owners = match owners.as_slice() {
                    [] => String::new(),
                    owners => format!(" (owners: {})", owners.join(", ")),
                };
                write!(f, "{ready} {steps} ready{owners}, but none that this worker takes")
            }
            Self::NothingReady { in_flight, reported, outcome_unknown } => {
                let parts = [
                    (*in_flight, "in flight"),
                    (*reported, "waiting for verdicts"),
                    (*outcome_unknown, "of unknown outcome"),
                ];
                let parts = parts.iter().filter(|(count, _)| *count > 0);
                let parts: Vec<String> =
                    parts.map(|(count, what)| format!("{count} {what}")).collect();
                let joint = if parts.is_empty() { "" } else { ": " };
                write!(f, "no step is ready{joint}{}", parts.join(", "))
            }
            Self::StaleToken(token) => {
                write!(
                    f,
                    "attempt {token} is not active: it has ended, or there never was one with this \
                     token"
                )
            }
            Self::NoSuchCriterion(index) => {
                write!(f, "criterion {} does not wait for a verdict", u64::from(*index) + 1)
            }
            Self::JudgedByWorker(worker) => {
                write!(f, "{worker} did the work and must not judge it; use another judge")
            }
            Self::VersionDiffers { expected, found } => {
                write!(f, "the variable has version {found}, expected {expected}; read it again")
            }
            Self::SamePlan(version) => {
                write!(f, "this plan is already active as version {version}")
            }
            Self::ZeroCap => {
                f.write_str("a cap of 0 would block everything; pause the run, or remove the cap")
            }
            Self::NothingFailed => {
                f.write_str("nothing to retry: only a failed step can be retried")
            }
            Self::BarrierLate(id) => write!(
                f,
                "barrier {id} was not released in time, so a retry cannot save the run; propose a \
                 plan with a later deadline, or with `on_break: wait`"
            ),
            Self::TooDeep { found, limit } => write!(
                f,
                "a value nests {found} levels deep, expected at most {limit}; pass it as a string, or \
                 in a file"
            ),
            Self::NoSuchOutput(hash) => write!(
                f,
                "the ledger has no output with hash {hash} and this length; send the output itself"
            ),
            Self::TooManyEvents { events, limit } => {
                write!(f, "the command takes {events} events, expected at most {limit}; split it")
            }
            Self::Paused(cause) => {
                let what = match cause {
                    PauseCause::RunBudget { .. } | PauseCause::LedgerBudget { .. } => {
                        "raise the budget"
                    }
                    PauseCause::Person { .. }
                    | PauseCause::StepLimit { .. }
                    | PauseCause::Runner { .. } => "unpause the run",
                };
                write!(f, "the run is {cause}; {what}")
            }
            Self::NotPaused => f.write_str("the run is not paused"),
            Self::BudgetReserved(part) => write!(
                f,
                "the rest of the budget of {part} is reserved for attempts in flight; claim again \
                 later"
            ),
            Self::NotEstimated(token) => write!(
                f,
                "the receipt of attempt {token} states its cost; pass the current charge, too"
            ),
            Self::ChargeDiffers { expected, found } => write!(
                f,
                "the attempt is charged {} millionths and {} tokens, expected {} and {}; read its \
                 records again",
                found.money_micros, found.tokens, expected.money_micros, expected.tokens
            ),
            Self::NoSuchQuestion(question) => {
                write!(
                    f,
                    "question {} is not open: answered, timed out, withdrawn, or never asked",
                    question.0
                )
            }
            Self::NotAnOption { answer, options } => {
                write!(f, "`{answer}` is not an option, expected one of: {}", options.join(", "))
            }
            Self::ReplanIsOpen(seq) => {
                write!(
                    f,
                    "record {seq} already requested a new plan; propose it, or withdraw the request"
                )
            }
            Self::HeldForReplan { request } => write!(
                f,
                "record {request} requested a new plan, which holds the steps that it may change; \
                 propose a version, or withdraw the request"
            ),
            Self::NoReplanRequested => f.write_str("no replan request is open"),
            Self::ReplanLimit(max) => write!(
                f,
                "replan limit reached ({max}); propose the plan as a change of scope, or cancel the \
                 run"
            ),
            Self::DecidedByRules => {
                f.write_str("the rules of the plan decide about failures, not an external decider")
            }
            Self::MustNotBeRepeated(step, disposition) => {
                let what = match disposition {
                    Disposition::Landed => "did",
                    Disposition::Unknown | Disposition::DidNotHappen => "may have done",
                };
                write!(
                    f,
                    "the failed attempt of step #{step} {what} its work, which must not be repeated; \
                     decide `outcome_unknown`, then resolve the outcome"
                )
            }
            Self::NoFallback(step) => {
                write!(f, "step #{step} has no available fallback; choose another decision")
            }
            Self::EffectKnown { key, committed: 0 } => {
                write!(f, "side effect {key} is already announced")
            }
            Self::EffectKnown { key, committed } => {
                write!(f, "record {committed} confirms side effect {key}; do not repeat it")
            }
            Self::NoSuchEffect(key) => {
                write!(f, "side effect {key} was not announced; announce it before it happens")
            }
        }
    }
}

/// How a run ended, as a predicate.
fn how(ending: Ending) -> &'static str {
    match ending {
        Ending::Done => "is done",
        Ending::Failed => "failed",
        Ending::Cancelled => "was cancelled",
        Ending::Aborted => "was aborted",
    }
}

impl Json {
    /// Rejects a value that nests too deeply to be parsed again.
    ///
    /// # Errors
    /// `TooDeep`.
    pub fn expect_readable(&self) -> Result<(), Rejection> {
        match self.depth() {
            found if found > JSON_DEPTH_MAX => {
                Err(Rejection::TooDeep { found, limit: JSON_DEPTH_MAX })
            }
            _ => Ok(()),
        }
    }
}
