//! What may be asked of a ledger.

use crate::plan::event::plan_event::{HashedStep, Review};
use crate::plan::event::question::QuestionId;
use crate::plan::event::receipt::Receipt;
use crate::plan::event::run_event::{ApprovalPolicy, CapScope, ReplanTrigger, RunPolicy};
use crate::plan::event::step_event::{Decision, Finding, LostCause, Verdict};
use crate::plan::model::budget::{Cost, Limits};
use crate::plan::model::plan::Plan;
use crate::plan::state::run::Run;
use crate::plan::value::ids::{AttemptToken, ContentHash, Micros, RunId, StepNumber};
use crate::plan::value::json::Json;

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
        /// Whether it waits for a person, where neither the run's policy nor the plan wants that.
        approval: ApprovalPolicy,
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
        /// For how long without a sign of life; `None` for as long as the plan says.
        lease: Option<Micros>,
    },
    /// Keep an attempt for longer.
    Renew {
        /// The attempt.
        token: AttemptToken,
        /// For how long from now; `None` for as long as the plan says. Never less than it has.
        lease: Option<Micros>,
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
    /// Let one failed step be tried again, and the run go on that failed by it.
    Retry {
        /// The run.
        run: RunId,
        /// The step.
        step: StepNumber,
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
        /// What it is charged with so far: what its receipt said, or the last correction. Not needed for
        /// a lost attempt. The rules know only of lost ones whether it is true; see
        /// [`crate::ledger::Ledger::correct_cost`].
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

/// A plan ready to be proposed, with the hashes that the rules need and do not compute: see
/// [`crate::ledger::plan_draft`]. Nobody else makes one, since a plan under a wrong hash is refused by
/// whoever reads a snapshot of it.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanDraft {
    /// Hash of the whole plan's canonical bytes.
    pub(crate) hash: ContentHash,
    /// The plan with its list of steps empty.
    pub(crate) header: Box<Plan>,
    /// The steps in plan order.
    pub(crate) steps: Vec<HashedStep>,
}
