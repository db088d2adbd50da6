//! What may be asked of a ledger, and how it says no.

use std::fmt;

use super::{
    ApprovalPolicy, AttemptToken, CapScope, ContentHash, Finding, HashedStep, Json, LostCause,
    Micros, Plan, Receipt, Review, RunId, RunPolicy, StepNumber, Verdict,
};

/// A request. Deciding about it changes nothing; only the events that it leads to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Start a run and propose its first version; with automatic approval, activate it too.
    StartRun {
        /// Its name.
        name: String,
        /// Its policy.
        policy: RunPolicy,
        /// Its first version.
        draft: PlanDraft,
    },
    /// Propose the next version of a run's plan.
    ProposePlan {
        /// The run.
        run: RunId,
        /// The version.
        draft: PlanDraft,
        /// Why.
        reason: String,
    },
    /// Approve or reject a proposed version. Approval activates it.
    ReviewPlan {
        /// The run.
        run: RunId,
        /// The version.
        version: u32,
        /// The hash that the reviewer was shown.
        hash: ContentHash,
        /// What they say.
        review: Review,
        /// Who they are.
        by: String,
        /// Why.
        note: String,
    },
    /// Deal a ready step to a worker.
    Dispatch {
        /// The run.
        run: RunId,
        /// Which step, or the first in the queue.
        step: Option<StepNumber>,
        /// Who gets it.
        worker: String,
    },
    /// Keep an attempt for longer.
    Renew {
        /// The attempt.
        token: AttemptToken,
    },
    /// Say that an attempt will never report.
    ReportLost {
        /// The attempt.
        token: AttemptToken,
        /// Why.
        cause: LostCause,
        /// Details for people.
        detail: String,
    },
    /// Record what a worker returned. A receipt that may not count is recorded as refused.
    RecordReceipt {
        /// The attempt.
        token: AttemptToken,
        /// What it said.
        receipt: Receipt,
    },
    /// Judge criteria of a reported step.
    Judge {
        /// The attempt whose work is judged.
        token: AttemptToken,
        /// The judgements.
        verdicts: Vec<Verdict>,
    },
    /// Judge criteria of the plan as a whole.
    JudgePlan {
        /// The run.
        run: RunId,
        /// The judgements.
        verdicts: Vec<Verdict>,
    },
    /// Take a step over as done before the run began.
    TakeOver {
        /// The run.
        run: RunId,
        /// The steps, and where it is written that they are done.
        steps: Vec<(StepNumber, String)>,
    },
    /// Skip a step that is not in flight.
    Skip {
        /// The run.
        run: RunId,
        /// The step.
        step: StepNumber,
        /// Who says so.
        by: String,
        /// Why.
        reason: String,
    },
    /// Say what became of a lost attempt of a step that must not be done twice.
    ResolveDoubt {
        /// The run.
        run: RunId,
        /// The step.
        step: StepNumber,
        /// What happened.
        finding: Finding,
        /// Who says so.
        by: String,
    },
    /// Let the failed steps of a failed run be tried again.
    RetryFailed {
        /// The run.
        run: RunId,
        /// Who says so.
        by: String,
    },
    /// Set a variable, if it still has the version that the caller saw.
    SetVariable {
        /// The run.
        run: RunId,
        /// Its name.
        name: String,
        /// The value.
        value: Json,
        /// The version that the caller saw; 0 means not set yet, `None` sets it in any case.
        expected_version: Option<u64>,
        /// Who sets it.
        by: String,
    },
    /// Set or lift a cap.
    SetCap {
        /// What it holds for.
        scope: CapScope,
        /// The cap; `None` lifts it.
        limit: Option<u32>,
        /// Who says so.
        by: String,
    },
    /// End a run by hand.
    CancelRun {
        /// The run.
        run: RunId,
        /// Who says so.
        by: String,
        /// Why.
        reason: String,
    },
    /// Turn what is due into events: leases that have run out.
    Tick,
}

/// A plan ready to be proposed: its hashes were computed by the caller.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanDraft {
    /// Hash of the whole plan's canonical bytes.
    pub hash: ContentHash,
    /// The plan with its list of steps empty.
    pub header: Box<Plan>,
    /// The steps in plan order.
    pub steps: Vec<HashedStep>,
}

/// Why a command was refused. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// The plan is not valid: all its problems.
    InvalidPlan(Vec<super::Problem>),
    /// There is a run of that name.
    RunExists(RunId),
    /// There is no such run.
    NoSuchRun,
    /// The run has ended.
    RunHasEnded(super::Ending),
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
    NotReady(StepNumber, super::StepStatus),
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
    /// The approval policy does not let this happen.
    ApprovalPolicy(ApprovalPolicy),
    /// The command would lead to more events than one batch holds.
    TooManyEvents {
        /// How many events it would take.
        events: usize,
        /// How many a batch holds.
        limit: usize,
    },
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidPlan(problems) => match problems.as_slice() {
                [one] => write!(f, "the plan is not valid: {one}"),
                many => {
                    write!(f, "the plan is not valid, {} problems:", many.len())?;
                    many.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
                }
            },
            Self::RunExists(run) => write!(f, "there is a run of that name already (run {run})"),
            Self::NoSuchRun => f.write_str("there is no such run"),
            Self::RunHasEnded(ending) => write!(f, "the run has ended ({ending:?})"),
            Self::NoActivePlan => f.write_str("the run has no active plan version yet"),
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
                write!(f, "the cap of {limit} attempts in flight is reached for {scope}")
            }
            Self::NothingReady { in_flight, reported, in_doubt } => write!(
                f,
                "nothing is ready: {in_flight} in flight, {reported} waiting for verdicts, \
                 {in_doubt} in doubt"
            ),
            Self::StaleToken(token) => {
                write!(f, "attempt {token} is over: its lease ran out or it has reported")
            }
            Self::NoSuchCriterion(index) => {
                write!(f, "there is no criterion {index} that waits for a verdict")
            }
            Self::JudgedByWorker(worker) => {
                write!(f, "{worker} did the work and may not judge it")
            }
            Self::VersionDiffers { expected, found } => {
                write!(f, "the variable has version {found}, expected {expected}; read it again")
            }
            Self::SamePlan(version) => {
                write!(f, "this plan is active already, as version {version}")
            }
            Self::ZeroCap => f.write_str("a cap of 0 would stop everything; use pause or lift it"),
            Self::NothingFailed => f.write_str("no step of the run has failed"),
            Self::ApprovalPolicy(policy) => {
                write!(f, "the run's approval policy is {policy:?}")
            }
            Self::TooManyEvents { events, limit } => {
                write!(f, "{events} events at once: expected at most {limit}; ask in parts")
            }
        }
    }
}

impl fmt::Display for CapScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger => f.write_str("the ledger"),
            Self::Run(run) => write!(f, "run {run}"),
            Self::Owner(owner) => write!(f, "owner {owner}"),
        }
    }
}
