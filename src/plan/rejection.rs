//! Why a command is refused: typed for programs, in words for people.
//!
//! Invariant: whoever is refused is told what is missing, and who holds it.

use std::fmt;

use crate::plan::event::question::QuestionId;
use crate::plan::event::run_event::{CapScope, Ending, PauseCause};
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::budget::{BudgetPart, Cost};
use crate::plan::model::policy::Disposition;
use crate::plan::model::problem::Problem;
use crate::plan::state::ENDED_KEPT;
use crate::plan::value::ids::{AttemptToken, ContentHash, Micros, RunId, StepNumber};
use crate::plan::value::json::{JSON_DEPTH_MAX, Json};

/// Why a command was refused. Nothing was written but, where a receipt is refused with
/// [`Rejection::StaleToken`], that receipt: what a worker did is kept, also if it does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// The plan is not valid: all its problems.
    InvalidPlan(Vec<Problem>),
    /// Nothing new may be called that: why.
    BadName(&'static str),
    /// There is a run of that name.
    RunExists(RunId),
    /// There is no such run.
    NoSuchRun,
    /// The run has ended.
    RunHasEnded(Ending),
    /// The run has ended, and so have [`crate::plan::ENDED_KEPT`] others after it: a summary is left of it.
    RunRetired(Ending),
    /// The run has no active plan version yet.
    NoActivePlan,
    /// There is no such version, or it is not waiting for a review.
    NoSuchVersion(u32),
    /// The reviewer was shown another plan than the one proposed.
    HashDiffers {
        /// The hash of the proposed plan.
        expected: ContentHash,
        /// The hash that the reviewer was shown.
        found: ContentHash,
    },
    /// There is no such step in the active version.
    NoSuchStep(StepNumber),
    /// The step is not ready, and this is its status.
    NotReady(StepNumber, StepStatus),
    /// Somebody has it.
    HeldBy {
        /// The step.
        step: StepNumber,
        /// Who.
        worker: String,
        /// Until when, without a sign of life.
        lease_until: Micros,
    },
    /// A cap is reached.
    CapReached {
        /// What it holds for.
        scope: CapScope,
        /// How many attempts may be in flight.
        limit: u32,
    },
    /// Nothing is ready.
    NothingReady {
        /// Attempts in flight in this run.
        in_flight: u32,
        /// Steps that wait for verdicts.
        reported: u32,
        /// Steps in doubt.
        in_doubt: u32,
    },
    /// The token is not that of a live attempt.
    StaleToken(AttemptToken),
    /// There is no such criterion, or it has been judged.
    NoSuchCriterion(u32),
    /// The worker may not judge its own work.
    JudgedByWorker(String),
    /// The variable has another version.
    VersionDiffers {
        /// The version that the caller saw.
        expected: u64,
        /// The version that it has.
        found: u64,
    },
    /// The same plan is active already.
    SamePlan(u32),
    /// A cap of 0 would stop everything for ever.
    ZeroCap,
    /// Nothing that could be retried.
    NothingFailed,
    /// That barrier was not released in time and fails the run, whatever is tried again.
    BarrierLate(String),
    /// The run pauses.
    Paused(PauseCause),
    /// The run does not pause.
    NotPaused,
    /// What is left of a budget is set aside for attempts in flight.
    BudgetReserved(BudgetPart),
    /// What that attempt cost was not estimated: the caller must say what was charged.
    NotEstimated(AttemptToken),
    /// The attempt is charged with something else than the caller says.
    ChargedDiffers {
        /// What the caller says.
        expected: Cost,
        /// What it is charged with.
        found: Cost,
    },
    /// There is no such open question.
    NoSuchQuestion(QuestionId),
    /// The answer is none of the question's options.
    NotAnOption {
        /// What was answered.
        answer: String,
        /// What could have been.
        options: Vec<String>,
    },
    /// A request for another plan is open already, made by this record.
    ReplanIsOpen(u64),
    /// No request for another plan is open.
    NoReplanRequested,
    /// The plan allows no more later versions than these.
    ReplanLimit(u32),
    /// The plan's rules decide about failures.
    DecidedByRules,
    /// The failed attempt may have done what must not be done twice.
    MustNotBeRepeated(StepNumber, Disposition),
    /// The step has no fallback that could stand in now.
    NoFallback(StepNumber),
    /// There is such a side effect already; done by that record, or 0 if it is only meant.
    EffectKnown {
        /// Its key.
        key: String,
        /// The record that says that it was done.
        committed: u64,
    },
    /// Nobody said before that they would do this.
    NoSuchEffect(String),
    /// A value nests deeper than it could be read again.
    TooDeep {
        /// How many levels it has.
        found: usize,
        /// How many it may have.
        limit: usize,
    },
    /// The ledger keeps no output of that hash and length.
    NoSuchOutput(ContentHash),
    /// The command would lead to more events than one batch holds.
    TooManyEvents {
        /// How many events it would take.
        events: usize,
        /// How many a batch holds.
        limit: usize,
    },
}

impl Rejection {
    /// Its name for programs, which never changes: `format/cli-json.md` lists them.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::InvalidPlan(_) => "invalid_plan",
            Self::BadName(_) => "bad_name",
            Self::RunExists(_) => "run_exists",
            Self::NoSuchRun => "no_such_run",
            Self::RunHasEnded(_) => "run_has_ended",
            Self::RunRetired(_) => "run_retired",
            Self::NoActivePlan => "no_active_plan",
            Self::NoSuchVersion(_) => "no_such_version",
            Self::HashDiffers { .. } => "hash_differs",
            Self::NoSuchStep(_) => "no_such_step",
            Self::NotReady(..) => "not_ready",
            Self::HeldBy { .. } => "held_by",
            Self::CapReached { .. } => "cap_reached",
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
            Self::ChargedDiffers { .. } => "charged_differs",
            Self::NoSuchQuestion(_) => "no_such_question",
            Self::NotAnOption { .. } => "not_an_option",
            Self::ReplanIsOpen(_) => "replan_is_open",
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
    #[expect(clippy::too_many_lines, reason = "one arm for each reason, so that none is forgotten")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidPlan(problems) => match problems.as_slice() {
                [one] => write!(f, "the plan is not valid: {one}"),
                many => {
                    write!(f, "the plan is not valid, {} problems:", many.len())?;
                    many.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
                }
            },
            Self::BadName(fault) => f.write_str(fault),
            Self::RunExists(run) => {
                write!(f, "there is a run of that name already (run {run}); choose another name")
            }
            Self::NoSuchRun => f.write_str("there is no such run"),
            Self::RunHasEnded(Ending::Failed) => f.write_str(
                "the run has ended: it failed; retry what failed, or propose another plan",
            ),
            Self::RunHasEnded(ending) => {
                write!(f, "the run has ended: it {}; start another one, or fork it", how(*ending))
            }
            Self::RunRetired(ending) => write!(
                f,
                "the run has ended: it {}; so have {} others since, and only a summary is left of \
                 it; start another one, or fork it",
                how(*ending),
                ENDED_KEPT
            ),
            Self::NoActivePlan => {
                f.write_str("the run has no active plan version yet; approve one first")
            }
            Self::NoSuchVersion(version) => {
                write!(f, "there is no version {version} that waits for a review")
            }
            Self::HashDiffers { expected, found } => write!(
                f,
                "the review is bound to plan {}, but the proposed plan is {}; look at it again",
                found.short(),
                expected.short()
            ),
            Self::NoSuchStep(step) => write!(f, "the active plan has no step {step}"),
            Self::NotReady(step, status) => write!(f, "step {step} is not ready: it is {status}"),
            Self::HeldBy { step, worker, lease_until } => {
                write!(f, "step {step} is held by {worker} until {lease_until} (microseconds)")
            }
            Self::CapReached { scope, limit } => {
                write!(
                    f,
                    "the cap of {limit} attempts in flight is reached for {scope}; ask again when one \
                     has reported, or raise it"
                )
            }
            Self::NothingReady { in_flight, reported, in_doubt } => write!(
                f,
                "nothing is ready: {in_flight} in flight, {reported} waiting for verdicts, \
                 {in_doubt} in doubt"
            ),
            Self::StaleToken(token) => {
                write!(
                    f,
                    "attempt {token} is over, or never was: its lease ran out, it has reported, its \
                     run ended long ago, or nothing was dealt under this number; claim its step again"
                )
            }
            Self::NoSuchCriterion(index) => {
                write!(f, "there is no criterion {index} that waits for a verdict")
            }
            Self::JudgedByWorker(worker) => {
                write!(f, "{worker} did the work and may not judge it: somebody else must")
            }
            Self::VersionDiffers { expected, found } => {
                write!(f, "the variable has version {found}, expected {expected}; read it again")
            }
            Self::SamePlan(version) => {
                write!(f, "this plan is active already, as version {version}")
            }
            Self::ZeroCap => f.write_str("a cap of 0 would stop everything; use pause or lift it"),
            Self::NothingFailed => f.write_str("no step of the run has failed"),
            Self::BarrierLate(id) => write!(
                f,
                "barrier {id} was not released in time, and fails the run whatever is tried again; \
                 propose a plan that gives it more time, or says `on_break: wait`"
            ),
            Self::TooDeep { found, limit } => write!(
                f,
                "a value with {found} levels of lists and objects within each other: expected at \
                 most {limit}; bring it as text, or in a file"
            ),
            Self::NoSuchOutput(hash) => write!(
                f,
                "the ledger keeps no output of hash {hash} and that length: bring the output itself"
            ),
            Self::TooManyEvents { events, limit } => {
                write!(f, "{events} events at once: expected at most {limit}; ask in parts")
            }
            Self::Paused(cause) => {
                write!(f, "the run pauses: {cause}; raise the budget or resume it")
            }
            Self::NotPaused => f.write_str("the run does not pause"),
            Self::BudgetReserved(part) => write!(
                f,
                "what is left of the budget of {part} is set aside for attempts in flight; ask \
                 again when one has reported"
            ),
            Self::NotEstimated(token) => write!(
                f,
                "what attempt {token} cost was said by its receipt; say what was charged, too"
            ),
            Self::ChargedDiffers { expected, found } => write!(
                f,
                "the attempt is charged with {} millionths and {} tokens, expected {} and {}; look \
                 at its records again",
                found.money_micros, found.tokens, expected.money_micros, expected.tokens
            ),
            Self::NoSuchQuestion(question) => {
                write!(
                    f,
                    "there is no open question {}: it was answered, or is about what is over",
                    question.0
                )
            }
            Self::NotAnOption { answer, options } => {
                write!(f, "`{answer}` is no answer, expected one of: {}", options.join(", "))
            }
            Self::ReplanIsOpen(seq) => {
                write!(
                    f,
                    "another plan was asked for already, by record {seq}; propose it, or withdraw that"
                )
            }
            Self::NoReplanRequested => f.write_str("no other plan was asked for"),
            Self::ReplanLimit(max) => write!(
                f,
                "the plan allows {max} later versions and had them; propose it as a change of \
                 scope, or cancel the run"
            ),
            Self::DecidedByRules => {
                f.write_str("the plan's rules decide about failures, not somebody outside")
            }
            Self::MustNotBeRepeated(step, disposition) => {
                let what = match disposition {
                    Disposition::Landed => "did",
                    Disposition::InDoubt | Disposition::DidNotHappen => "may have done",
                };
                write!(
                    f,
                    "the failed attempt of step {step} {what} its work, which must not be done \
                     twice: decide `doubt`, and say then what happened"
                )
            }
            Self::NoFallback(step) => {
                write!(f, "step {step} has no fallback that could stand in now; decide otherwise")
            }
            Self::EffectKnown { key, committed: 0 } => {
                write!(f, "side effect {key} is meant to happen already")
            }
            Self::EffectKnown { key, committed } => {
                write!(f, "side effect {key} was done, says record {committed}: do not do it again")
            }
            Self::NoSuchEffect(key) => {
                write!(f, "nobody said that side effect {key} is meant; say so before it is done")
            }
        }
    }
}

/// How a run ended, behind "it".
fn how(ending: Ending) -> &'static str {
    match ending {
        Ending::Done => "is done",
        Ending::Failed => "failed",
        Ending::Cancelled => "was cancelled",
        Ending::Aborted => "was aborted",
    }
}

impl Json {
    /// That [`Json::value`] gives back what it was made of.
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
