//! Commands: requests to change the ledger.
//!
//! [`crate::plan::decide`] checks a command against the state and returns events or a rejection. A
//! command changes nothing until its events are applied.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::plan::event::plan_event::{CommandsApproval, HashedStep, Provenance, Review};
use crate::plan::event::question::QuestionId;
use crate::plan::event::receipt::Receipt;
use crate::plan::event::run_event::{
    ApprovalPolicy, CapScope, HelperRole, Origin, ReplanTrigger, RunPolicy,
};
use crate::plan::event::step_event::{Decision, LostCause, ResolvedOutcome, Verdict};
use crate::plan::model::budget::{Cost, Limits};
use crate::plan::model::plan::Plan;
use crate::plan::model::policy::FailureSettings;
use crate::plan::model::route::Route;
use crate::plan::model::step::FailureClass;
use crate::plan::state::compact::plan::CompactPlan;
use crate::plan::state::run::Run;
use crate::plan::value::detached::Salt;
use crate::plan::value::ids::{
    AttemptToken, ContentHash, Micros, RunId, StepNumber, WorkerProcess,
};
use crate::plan::value::json::Json;
use crate::plan::value::token::{Proof, SecretHash};

/// A request to change the ledger.
#[derive(Debug, Clone)]
pub enum Command {
    /// Start a run and propose its first plan version; activate it if approval is automatic.
    StartRun {
        /// Name of the run, unique in the ledger.
        name: String,
        /// Policy of the run.
        policy: RunPolicy,
        /// Reason of the first plan version; may be empty.
        reason: String,
        /// The first plan version.
        draft: PlanDraft,
        /// The values of its inputs.
        inputs: BTreeMap<String, Json>,
    },
    /// Propose the next plan version of a run.
    ProposePlan {
        /// The run.
        run: RunId,
        /// The proposed version.
        draft: PlanDraft,
        /// Human-readable reason.
        reason: String,
        /// Why a new version is needed; used if no replan request is open.
        trigger: Option<ReplanTrigger>,
        /// Approval policy of this plan, in addition to those of the run and of the plan file.
        approval: ApprovalPolicy,
    },
    /// Approve the commands of an approved version, as a person.
    ApproveCommands {
        /// The run.
        run: RunId,
        /// The version.
        version: u32,
        /// Its commands that the person saw, and the person.
        commands: CommandsApproval,
    },
    /// Approve or reject a proposed version. An approved version is activated.
    ReviewPlan {
        /// The run.
        run: RunId,
        /// The version.
        version: u32,
        /// Hash of the plan that the reviewer saw.
        hash: ContentHash,
        /// The decision.
        review: Review,
        /// The reviewer.
        by: String,
        /// Note of the reviewer.
        note: String,
    },
    /// Dispatch a ready step to a worker.
    Dispatch {
        /// The run.
        run: RunId,
        /// The step; `None` dispatches the first ready step within all caps.
        step: Option<StepNumber>,
        /// The worker.
        worker: String,
        /// The steps that the worker takes.
        route: Route,
        /// Length of the lease; `None` uses the plan's.
        lease: Option<Micros>,
        /// Hash of the secret of the attempt's token.
        secret: SecretHash,
        /// The process of the worker, if the attempt ends with it.
        process: Option<WorkerProcess>,
    },
    /// Extend the lease of an attempt.
    Renew {
        /// The attempt.
        token: AttemptToken,
        /// Why the command is believed.
        proof: Proof,
        /// Length of the lease from now; `None` uses the plan's. A lease is never shortened.
        lease: Option<Micros>,
    },
    /// Report that an attempt is lost: it will never return a receipt.
    ReportLost {
        /// The attempt.
        token: AttemptToken,
        /// Why the command is believed.
        proof: Proof,
        /// Why.
        cause: LostCause,
        /// Human-readable details.
        detail: String,
    },
    /// Record the receipt of a worker. A late receipt is recorded as refused.
    RecordReceipt {
        /// The attempt.
        token: AttemptToken,
        /// Why the command is believed.
        proof: Proof,
        /// The receipt.
        receipt: Receipt,
    },
    /// Record verdicts on criteria of a reported step.
    Judge {
        /// The attempt whose work is judged.
        token: AttemptToken,
        /// The verdicts.
        verdicts: Vec<Verdict>,
    },
    /// Record verdicts on criteria of the whole plan.
    JudgePlan {
        /// The run.
        run: RunId,
        /// The verdicts.
        verdicts: Vec<Verdict>,
    },
    /// Accept steps that were done before the run began.
    MarkDoneBefore {
        /// The run.
        run: RunId,
        /// The steps, each with the source that lists it as done.
        steps: Vec<(StepNumber, String)>,
    },
    /// Skip a step that is not in flight.
    Skip {
        /// The run.
        run: RunId,
        /// The step.
        step: StepNumber,
        /// Actor.
        by: String,
        /// Why.
        reason: String,
    },
    /// Resolve the unknown outcome of an attempt whose step must not be repeated.
    ResolveOutcome {
        /// The run.
        run: RunId,
        /// The step.
        step: StepNumber,
        /// The outcome that was found.
        finding: ResolvedOutcome,
        /// Actor.
        by: String,
        /// Evidence: the output of a probe, or an observation.
        evidence: String,
    },
    /// Reopen all failed steps of a run.
    RetryFailed {
        /// The run.
        run: RunId,
        /// Actor.
        by: String,
    },
    /// Reopen one failed step. If the run has failed, reopen the run, too.
    Retry {
        /// The run.
        run: RunId,
        /// The step.
        step: StepNumber,
        /// Actor.
        by: String,
    },
    /// Set a variable if it still has the expected version.
    SetVariable {
        /// The run.
        run: RunId,
        /// Its name.
        name: String,
        /// The value.
        value: Json,
        /// Expected version; 0 for a variable that is not set yet, `None` to skip the check.
        expected_version: Option<u64>,
        /// The source of the value. An attempt sets variables of its own run.
        origin: Origin,
    },
    /// Set or remove a cap.
    SetCap {
        /// Scope of the cap.
        scope: CapScope,
        /// The cap; `None` removes it.
        limit: Option<u32>,
        /// Actor.
        by: String,
    },
    /// Record the end of a planner, judge or decider, with its cost.
    ReportHelper {
        /// The run.
        run: RunId,
        /// The task of the helper.
        role: HelperRole,
        /// Its name.
        by: String,
        /// Cost of the helper.
        cost: Cost,
        /// How long it took.
        duration: Micros,
    },
    /// Pause a run, and ask a person, if the money or the tokens of its budget, or of the ledger's, are used up: before
    /// a planner, judge or decider is asked. Rejected with the pause if the run is paused for that already.
    CheckBudget {
        /// The run.
        run: RunId,
    },
    /// Cancel a run.
    CancelRun {
        /// The run.
        run: RunId,
        /// Actor.
        by: String,
        /// Why.
        reason: String,
    },
    /// Fire the timers that are due: leases, delays, questions, barriers, wall time.
    Tick,
    /// Record (announce) the intent of a side effect, before it happens.
    IntendEffect {
        /// The attempt.
        token: AttemptToken,
        /// Why the command is believed.
        proof: Proof,
        /// Description of the side effect.
        effect: String,
        /// Idempotency key of the side effect.
        key: String,
    },
    /// Record (confirm) that a side effect has happened.
    CommitEffect {
        /// The attempt.
        token: AttemptToken,
        /// Why the command is believed.
        proof: Proof,
        /// Key of the announced side effect.
        key: String,
    },
    /// Answer a question.
    Answer {
        /// The question.
        question: QuestionId,
        /// One of the options of the question.
        answer: String,
        /// Author of the answer.
        by: String,
        /// Note of the author.
        note: String,
        /// Hash of the question as the author saw it.
        shown: ContentHash,
    },
    /// Set a budget. Runs that were paused because a budget was exhausted are unpaused if the
    /// budgets now cover another attempt.
    SetBudget {
        /// The run; `None` is the whole ledger.
        run: Option<RunId>,
        /// Total limits, past spending included; `None` uses the plan's budget.
        limits: Option<Limits>,
        /// Actor.
        by: String,
    },
    /// Correct the cost of a finished attempt.
    CorrectCost {
        /// The attempt.
        token: AttemptToken,
        /// The actual cost.
        cost: Cost,
        /// The current charge: the cost in the receipt, or the last correction. Optional for a lost
        /// attempt. It is verified here for lost attempts only; see
        /// [`crate::ledger::Ledger::correct_cost`].
        charged: Option<Cost>,
        /// Actor.
        by: String,
    },
    /// Stop dispatching steps of a run.
    Pause {
        /// The run.
        run: RunId,
        /// Actor.
        by: String,
        /// Why.
        reason: String,
    },
    /// Pause a run because its runner found that more work would only fail. A person unpauses it.
    PauseByRunner {
        /// The run.
        run: RunId,
        /// Why.
        reason: String,
    },
    /// End the delay of a step before it is due, for example because a person removed the cause of
    /// the delay.
    EndDelay {
        /// The run.
        run: RunId,
        /// The step; nothing happens if it is not delayed.
        step: StepNumber,
        /// The person, or the runner.
        by: String,
    },
    /// Unpause a run.
    Unpause {
        /// The run.
        run: RunId,
        /// Actor.
        by: String,
    },
    /// Request a new plan version.
    RequestReplan {
        /// The run.
        run: RunId,
        /// Why.
        trigger: ReplanTrigger,
        /// The first step whose work should be redone, if known.
        from: Option<StepNumber>,
        /// Reason, shown to people and to the planner.
        reason: String,
    },
    /// Change how a run handles failures that its plan does not cover.
    SetFailureSettings {
        /// The run.
        run: RunId,
        /// The settings.
        settings: FailureSettings,
        /// Actor.
        by: String,
    },
    /// Redo an accepted step and all work that depends on it: its plan becomes a new version.
    Redo {
        /// The run.
        run: RunId,
        /// The step.
        step: StepNumber,
        /// Actor.
        by: String,
        /// Why.
        reason: String,
    },
    /// Withdraw the open replan request.
    WithdrawReplan {
        /// The run.
        run: RunId,
        /// Actor.
        by: String,
        /// Why.
        reason: String,
    },
    /// Decide about a failed attempt whose plan has an external decider.
    DecideFailure {
        /// The run.
        run: RunId,
        /// The step whose attempt failed.
        step: StepNumber,
        /// The decision.
        decision: Decision,
        /// Class of the failure, if the decider knows better.
        class: Option<FailureClass>,
        /// For a replan: the first step to do again.
        from: Option<StepNumber>,
        /// Name of the rule, for the record.
        rule: String,
        /// Human-readable reason.
        reason: String,
        /// Actor.
        by: String,
    },
    /// Start a run as a copy of another run at a given record.
    ForkRun {
        /// Name of the new run.
        name: String,
        /// State of the parent run at that record.
        parent: Box<Run>,
        /// Sequence number of that record.
        at_seq: u64,
        /// Chain hash of the log at that record.
        chain: ContentHash,
        /// Actor.
        by: String,
    },
}

impl Command {
    /// Whether the command has values that can be erased.
    pub(crate) fn has_values(&self) -> bool {
        match self {
            Self::StartRun { inputs, .. } => !inputs.is_empty(),
            Self::SetVariable { .. } => true,
            Self::RecordReceipt { receipt, .. } => receipt.has_values(),
            _ => false,
        }
    }

    /// Sets the salt of its values.
    pub(crate) fn set_salt(&mut self, salt: Salt) {
        match self {
            Self::StartRun { inputs, .. } => inputs.values_mut().for_each(|each| each.salt(salt)),
            Self::SetVariable { value, .. } => value.salt(salt),
            Self::RecordReceipt { receipt, .. } => receipt.set_salt(salt),
            _ => {}
        }
    }
}

/// A plan that is ready to be proposed, with the hashes of the plan and of its steps.
///
/// [`crate::ledger::plan_draft`] is the only constructor: a snapshot of a plan with a wrong hash is
/// rejected when it is read.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanDraft {
    /// Hash of the whole plan's canonical bytes.
    pub(crate) hash: ContentHash,
    /// The plan without its steps.
    pub(crate) header: Box<Plan>,
    /// The steps in plan order.
    pub(crate) steps: Vec<HashedStep>,
    /// The source of the plan, if known.
    pub(crate) provenance: Option<Provenance>,
    /// The proposer's approval of the commands in the plan.
    pub(crate) commands: Option<CommandsApproval>,
}

impl PlanDraft {
    /// Hash of the whole plan.
    #[must_use]
    pub fn hash(&self) -> ContentHash {
        self.hash
    }

    /// The plan in the form of a run's version, and the hashes of its steps.
    pub(crate) fn compact(&self) -> (Arc<CompactPlan>, Vec<ContentHash>) {
        let mut plan = (*self.header).clone();
        plan.steps = self.steps.iter().map(|each| (*each.step).clone()).collect();
        (Arc::new(plan.into()), self.steps.iter().map(|each| each.hash).collect())
    }

    /// The same draft with the approval of its commands, which counts once the version is approved.
    #[must_use]
    pub fn with_commands(mut self, commands: Option<CommandsApproval>) -> Self {
        self.commands = commands;
        self
    }

    /// The same draft with its source. The confidence is taken from the plan.
    #[must_use]
    pub fn with_provenance(mut self, provenance: Provenance) -> Self {
        let confidence = self.header.extra.get("confidence").and_then(Value::as_f64);
        let percent = confidence.map(|value| if value <= 1.0 { value * 100.0 } else { value });
        // The text of a rounded number is that of a whole one.
        let confidence = percent.and_then(|value| format!("{value:.0}").parse().ok());
        let confidence = confidence.filter(|percent: &u8| *percent <= 100);
        self.provenance = Some(Provenance { confidence, ..provenance });
        self
    }
}
