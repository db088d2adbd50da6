//! What may be asked of a ledger, and how it says no.

use std::fmt;

use super::{
    AttemptToken, BudgetPart, CapScope, ContentHash, Cost, Decision, Finding, HashedStep, Json,
    Limits, LostCause, Micros, PauseCause, Plan, QuestionId, Receipt, ReplanTrigger, Review, Run,
    RunId, RunPolicy, StepNumber, Verdict,
};

/// A request. Deciding about it changes nothing; only the events that it leads to do.
#[derive(Debug, Clone)]
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
        /// What it is an answer to, where no request for another plan is open.
        trigger: Option<ReplanTrigger>,
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
        /// On what grounds: what a probe found, or what they saw.
        evidence: String,
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
    /// Turn what is due into events: leases, delays, questions, barriers, wall time.
    Tick,
    /// Say that a worker is about to do something to the world.
    IntendEffect {
        /// Its attempt.
        token: AttemptToken,
        /// What.
        effect: String,
        /// The key that makes it happen once.
        key: String,
    },
    /// Say that a worker has done it.
    CommitEffect {
        /// Its attempt.
        token: AttemptToken,
        /// The key of the intent.
        key: String,
    },
    /// Answer a question.
    Answer {
        /// Which.
        question: QuestionId,
        /// One of its options.
        answer: String,
        /// Who answers.
        by: String,
        /// Why, in their words.
        note: String,
        /// Hash of what they were shown.
        shown: ContentHash,
    },
    /// Set what may be spent; what waits only for that goes on.
    SetBudget {
        /// By a run, or by the whole ledger.
        run: Option<RunId>,
        /// In all, what was spent before included; `None` leaves it to the plan.
        limits: Option<Limits>,
        /// Who says so.
        by: String,
    },
    /// Say what an attempt that is over really cost.
    CorrectCost {
        /// The attempt.
        token: AttemptToken,
        /// What it cost.
        cost: Cost,
        /// What its receipt said; not needed for a lost attempt.
        charged: Option<Cost>,
        /// Who says so.
        by: String,
    },
    /// Deal nothing more for now.
    Pause {
        /// The run.
        run: RunId,
        /// Who says so.
        by: String,
        /// Why.
        reason: String,
    },
    /// Go on.
    Resume {
        /// The run.
        run: RunId,
        /// Who says so.
        by: String,
    },
    /// Ask for another plan version.
    RequestReplan {
        /// The run.
        run: RunId,
        /// Why.
        trigger: ReplanTrigger,
        /// The step from which work is done anew, if it is known.
        from: Option<StepNumber>,
        /// Why, for people and for the planner.
        reason: String,
    },
    /// Say that no other plan version is needed after all.
    WithdrawReplan {
        /// The run.
        run: RunId,
        /// Who says so.
        by: String,
        /// Why.
        reason: String,
    },
    /// Decide about a failure, where the plan leaves that to somebody else.
    DecideFailure {
        /// The run.
        run: RunId,
        /// The step whose attempt failed.
        step: StepNumber,
        /// What is done about it.
        decision: Decision,
        /// The rule that decided, for the record.
        rule: String,
        /// Why, for people.
        reason: String,
    },
    /// Begin a run as another one was at some record.
    ForkRun {
        /// The new run's name.
        name: String,
        /// The other run as it was then.
        parent: Box<Run>,
        /// The record.
        at_seq: u64,
        /// The log's chain there.
        chain: ContentHash,
    },
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
    /// The run pauses.
    Paused(PauseCause),
    /// The run does not pause.
    NotPaused,
    /// What is left of a budget is set aside for attempts in flight.
    BudgetReserved(BudgetPart),
    /// What that attempt cost was not estimated: the caller must say what was charged.
    NotEstimated(AttemptToken),
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
            Self::NoSuchQuestion(question) => {
                write!(f, "there is no open question {}", question.0)
            }
            Self::NotAnOption { answer, options } => {
                write!(f, "`{answer}` is no answer, expected one of: {}", options.join(", "))
            }
            Self::ReplanIsOpen(seq) => {
                write!(f, "another plan was asked for already, by record {seq}")
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
            Self::NoFallback(step) => {
                write!(f, "step {step} has no fallback that could stand in now")
            }
            Self::EffectKnown { key, committed: 0 } => {
                write!(f, "side effect {key} is meant to happen already")
            }
            Self::EffectKnown { key, committed } => {
                write!(f, "side effect {key} was done, says record {committed}: do not do it again")
            }
            Self::NoSuchEffect(key) => write!(f, "nobody said that side effect {key} is meant"),
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
            Self::Tag(tag) => write!(f, "tag {tag}"),
        }
    }
}

impl fmt::Display for PauseCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(by) => write!(f, "{by} said so"),
            Self::RunBudget(part) => write!(f, "its budget of {part} is used up"),
            Self::LedgerBudget(part) => write!(f, "the ledger's budget of {part} is used up"),
            Self::StepLimit(step) => write!(f, "an attempt of step {step} cost more than it may"),
        }
    }
}
