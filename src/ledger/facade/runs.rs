//! Operations on runs, their plans, variables and questions.
//!
//! # Errors
//! Every method that writes fails with `Rejected` and the reason if the command is invalid, and
//! with the other errors that [`Ledger::execute`] lists.

use std::collections::BTreeMap;

use crate::error::{ErrorKind, Result};
use crate::ledger::codec::hash::{plan_draft, plan_hash};
use crate::ledger::transaction::commit::Commit;
use crate::ledger::transaction::fork;
use crate::ledger::transaction::fork::ForkPoint;
use crate::plan::{
    ApprovalPolicy, Command, ContentHash, Decision, Event, Json, Limits, Origin, Plan, PlanDraft,
    Question, QuestionId, Rejection, ReplanTrigger, ResolvedOutcome, RunId, RunPolicy, State,
    StepNumber, StepStatus,
};

use super::ledger::Ledger;

/// An open question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenQuestion {
    /// Its number.
    pub id: QuestionId,
    /// The run that waits for it.
    pub run: RunId,
    /// The question.
    pub question: Question,
}

/// The answer of a person to a question. [`Reply::to`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// One of the question's options; where one of them is `value`, the value itself.
    pub answer: String,
    /// The person.
    pub by: String,
    /// The person's reason.
    pub note: String,
    /// Hash of the question as the person saw it. The question's own hash differs if it changed in
    /// the meantime.
    pub shown: ContentHash,
}

impl Reply {
    /// The answer of a person who has seen this question. `answer` is one of its
    /// [options](crate::plan::QuestionBody::options).
    ///
    /// ```
    /// # fn main() -> plan_ledger::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let ledger = plan_ledger::Ledger::open(folder.path().join("ledger"))?;
    /// # let plan = r#"{"steps": [{"id": "send", "gate": {"question": "Send it?"}}]}"#;
    /// # let plan = serde_json::from_str(plan).unwrap();
    /// use plan_ledger::{Claim, Reply};
    ///
    /// let run = ledger.start_or_resume("mail", &plan)?;
    /// for open in ledger.questions()? {
    ///     let reply = Reply { note: "read it".to_owned(), ..Reply::to(&open, "yes", "ana") };
    ///     ledger.answer(open.id, reply)?;
    /// }
    /// assert!(matches!(ledger.claim(run, "worker-1")?, Claim::Task(_)));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn to(open: &OpenQuestion, answer: &str, by: &str) -> Self {
        let shown = open.question.asked.shown;
        Self { answer: answer.to_owned(), by: by.to_owned(), note: String::new(), shown }
    }
}

/// Runs and plans.
impl Ledger {
    /// Start a run of a plan. With automatic approval the plan is active on return.
    ///
    /// # Errors
    /// `BadPlan` with all problems of the plan; `Rejected` if the name is taken or not allowed.
    pub fn start_run(&self, name: &str, plan: &Plan, policy: RunPolicy) -> Result<RunId> {
        self.start_run_with(name, plan, policy, BTreeMap::new())
    }

    /// As [`Ledger::start_run`], with values for inputs of the plan, which become variables.
    ///
    /// # Errors
    /// As [`Ledger::start_run`]; `Rejected` with `MissingInputs` or `InvalidInput`.
    pub fn start_run_with(
        &self,
        name: &str,
        plan: &Plan,
        policy: RunPolicy,
        inputs: BTreeMap<String, Json>,
    ) -> Result<RunId> {
        self.start_run_of(name, plan_draft(plan)?, policy, inputs)
    }

    /// As [`Ledger::start_run_with`], for a plan that was checked before.
    #[doc(hidden)]
    pub fn start_run_of(
        &self,
        name: &str,
        draft: PlanDraft,
        policy: RunPolicy,
        inputs: BTreeMap<String, Json>,
    ) -> Result<RunId> {
        let (name, reason) = (name.to_owned(), String::new());
        let commit = self.execute(&Command::StartRun { name, policy, reason, draft, inputs })?;
        Ok(started_run(&commit))
    }

    /// Start a run of a plan with the default policy, or return the run that has this name. A program
    /// that calls this at its start continues its run after a crash, also if the run has a newer
    /// version of the plan by now.
    ///
    /// # Errors
    /// `Rejected` with `DifferentPlan` if no version of the run is this plan: [propose](Ledger::propose)
    /// it, or start a run of another name. As [`Ledger::start_run`] and [`Ledger::run`].
    pub fn start_or_resume(&self, name: &str, plan: &Plan) -> Result<RunId> {
        let Some(id) = self.find_run(name)? else {
            return self.start_run(name, plan, RunPolicy::default());
        };
        match self.run(id) {
            Ok(run) => {
                let hash = plan_hash(plan);
                if run.versions.iter().any(|version| version.hash == hash) {
                    return Ok(id);
                }
                Err(Rejection::DifferentPlan(id).into())
            }
            // The run has ended, and its plan is no longer known.
            Err(error) if error.kind() == ErrorKind::Pruned => Ok(id),
            Err(error) => Err(error),
        }
    }

    /// The run with this name, whether or not it has ended; `None` if it was never started.
    ///
    /// # Errors
    /// As [`Ledger::state`].
    pub fn find_run(&self, name: &str) -> Result<Option<RunId>> {
        self.read(|state| state.names.get(name).copied()).wait()
    }

    /// Propose the next version of a run's plan, and return its number. With automatic approval it is
    /// active on return.
    ///
    /// # Errors
    /// `BadPlan` with all problems of the plan; `Rejected`.
    pub fn propose(&self, run: RunId, plan: &Plan, reason: &str) -> Result<u32> {
        self.propose_for(run, plan, reason, None)
    }

    /// As [`Ledger::propose`]. `trigger` is recorded as the cause of the new version, unless a
    /// replan request is open.
    ///
    /// # Errors
    /// `BadPlan` with all problems of the plan; `Rejected`, with `ReplanLimit` if the plan allows no
    /// more versions.
    pub fn propose_for(
        &self,
        run: RunId,
        plan: &Plan,
        reason: &str,
        trigger: Option<ReplanTrigger>,
    ) -> Result<u32> {
        self.propose_with(run, plan_draft(plan)?, reason, trigger, ApprovalPolicy::Automatic)
    }

    /// As [`Ledger::propose`], for a plan that was checked before.
    #[doc(hidden)]
    pub fn propose_draft(&self, run: RunId, draft: PlanDraft, reason: &str) -> Result<u32> {
        self.propose_with(run, draft, reason, None, ApprovalPolicy::Automatic)
    }

    /// As [`Ledger::propose`], but the version always needs a review, regardless of the run's
    /// policy.
    ///
    /// # Errors
    /// As [`Ledger::propose_for`].
    pub fn propose_for_review(&self, run: RunId, plan: &Plan, reason: &str) -> Result<u32> {
        self.propose_with(run, plan_draft(plan)?, reason, None, ApprovalPolicy::Required)
    }

    /// As [`Ledger::propose_for`], for a plan that was checked before.
    ///
    /// # Errors
    /// As [`Ledger::propose_for`].
    #[doc(hidden)]
    pub fn propose_with(
        &self,
        run: RunId,
        draft: PlanDraft,
        reason: &str,
        trigger: Option<ReplanTrigger>,
        approval: ApprovalPolicy,
    ) -> Result<u32> {
        let reason = reason.to_owned();
        let commit =
            self.execute(&Command::ProposePlan { run, draft, reason, trigger, approval })?;
        let version = commit.events.iter().find_map(|(_, event)| match event {
            Event::PlanProposed(proposed) => Some(proposed.version),
            _ => None,
        });
        Ok(version.expect("an accepted proposal has an event"))
    }

    /// Request another plan version, and return the record of the request.
    ///
    /// # Errors
    /// `Rejected`: with `ReplanIsOpen`, naming the record, if a request is open already.
    pub fn request_replan(
        &self,
        run: RunId,
        trigger: ReplanTrigger,
        from: Option<StepNumber>,
        reason: &str,
    ) -> Result<u64> {
        let reason = reason.to_owned();
        let commit = self.execute(&Command::RequestReplan { run, trigger, from, reason })?;
        let is_request = |event: &Event| matches!(event, Event::ReplanRequested(_));
        let request = commit.events.iter().find(|(_, event)| is_request(event));
        Ok(request.expect("an accepted request has an event").0)
    }

    /// Withdraw the open request for another plan version, so that the run continues with its
    /// current version. There are two exceptions: if the request was made because a precondition or
    /// a plan criterion does not hold, the step or the run fails; and if it asked for more steps of a
    /// plan with `continues`, none follow, and the run ends after its last open step.
    ///
    /// # Errors
    /// `Rejected`: with `NoReplanRequested` if no request is open.
    pub fn withdraw_replan(&self, run: RunId, by: &str, reason: &str) -> Result<Commit> {
        let (by, reason) = (by.to_owned(), reason.to_owned());
        self.execute(&Command::WithdrawReplan { run, by, reason })
    }

    /// Fork a run: start a run of this name with the plan versions, accepted work and variables of
    /// the parent. Attempts and questions start again, and the parent's spending does not count
    /// against the budget of the fork.
    ///
    /// # Errors
    /// `OutOfRange` past the last durable record; `Rejected` with `NoSuchRun`, even if the parent
    /// started only after that record, `NoSuchStep`, `RunExists`, or `NoActivePlan`.
    pub fn fork(&self, parent: RunId, point: ForkPoint, name: &str) -> Result<RunId> {
        let commit = self.execute(&self.fork_command(parent, point, name, "")?)?;
        Ok(started_run(&commit))
    }

    /// The command that forks a run.
    #[doc(hidden)]
    pub fn fork_command(
        &self,
        parent: RunId,
        point: ForkPoint,
        name: &str,
        by: &str,
    ) -> Result<Command> {
        fork::fork_command(&self.engine, parent, point, (name, by))
    }

    /// Stop dispatching in a run. Attempts in flight continue.
    pub fn pause(&self, run: RunId, by: &str, reason: &str) -> Result<Commit> {
        self.execute(&Command::Pause { run, by: by.to_owned(), reason: reason.to_owned() })
    }

    /// Allow dispatching in a paused run again.
    ///
    /// # Errors
    /// `Rejected`: with `NotPaused`, and with `Paused` while a budget is used up.
    pub fn unpause(&self, run: RunId, by: &str) -> Result<Commit> {
        self.execute(&Command::Unpause { run, by: by.to_owned() })
    }

    /// Cancel a run. Attempts in flight are revoked.
    ///
    /// # Errors
    /// `Rejected`: with `RunHasEnded`.
    pub fn cancel(&self, run: RunId, by: &str, reason: &str) -> Result<Commit> {
        self.execute(&Command::CancelRun { run, by: by.to_owned(), reason: reason.to_owned() })
    }

    /// Give a failed or skipped step new attempts, and reopen the run if it failed because of it.
    pub fn retry(&self, run: RunId, step: StepNumber, by: &str) -> Result<Commit> {
        self.execute(&Command::Retry { run, step, by: by.to_owned() })
    }

    /// Skip a step: the steps after it no longer wait for it.
    pub fn skip(&self, run: RunId, step: StepNumber, by: &str, reason: &str) -> Result<Commit> {
        let (by, reason) = (by.to_owned(), reason.to_owned());
        self.execute(&Command::Skip { run, step, by, reason })
    }

    /// Set the budget of a run or, with `None`, of the whole ledger. The limits are totals that
    /// include past spending. Runs that were paused only because of the budget continue.
    pub fn set_budget(
        &self,
        run: Option<RunId>,
        limits: Option<Limits>,
        by: &str,
    ) -> Result<Commit> {
        self.execute(&Command::SetBudget { run, limits, by: by.to_owned() })
    }

    /// Set a variable, and return its new version. `expected_version` is the version that the
    /// caller read: 0 if the variable was not set, `None` to set it unconditionally.
    ///
    /// # Errors
    /// `Rejected` with `VersionDiffers`.
    pub fn set_variable(
        &self,
        run: RunId,
        name: &str,
        value: impl Into<Json>,
        expected_version: Option<u64>,
        by: &str,
    ) -> Result<u64> {
        let (name, value) = (name.to_owned(), value.into());
        let origin = Origin::person(by);
        let command = Command::SetVariable { run, name, value, expected_version, origin };
        let commit = self.execute(&command)?;
        let version = commit.events.iter().find_map(|(_, event)| match event {
            Event::VariableSet(set) => Some(set.version),
            _ => None,
        });
        Ok(version.expect("an accepted value has an event"))
    }

    /// The open questions of all runs, the oldest first.
    ///
    /// # Errors
    /// As [`Ledger::state`].
    pub fn questions(&self) -> Result<Vec<OpenQuestion>> {
        let state = self.state()?;
        let open = |(id, run): (&QuestionId, &RunId)| {
            let question = state.runs.get(run)?.questions.get(id)?.clone();
            Some(OpenQuestion { id: *id, run: *run, question })
        };
        Ok(state.questions.iter().filter_map(open).collect())
    }

    /// Answer a question, with [`Reply::to`].
    ///
    /// # Errors
    /// `Rejected`: with `NoSuchQuestion` if it is no longer open, `HashDiffers` if the person saw
    /// another question, `NotAnOption`.
    pub fn answer(&self, question: QuestionId, reply: Reply) -> Result<Commit> {
        let Reply { answer, by, note, shown } = reply;
        self.execute(&Command::Answer { question, answer, by, note, shown })
    }

    /// Decide how a step continues after a failed attempt, for example by a retry or a replan. Only
    /// a plan with an external decider ([`Decider::External`](crate::plan::Decider::External))
    /// leaves this decision to the caller. `rule` and `reason` are recorded with it. Returns the
    /// step's status after the decision.
    ///
    /// # Errors
    /// `Rejected`: with `DecidedByRules` if the rules of the plan decide; `NothingFailed` if no failed
    /// attempt waits for a decision; `NoFallback` if the step has no usable fallback;
    /// `MustNotBeRepeated` for a retry of work that must not be repeated.
    pub fn decide_failure(
        &self,
        run: RunId,
        step: StepNumber,
        decision: Decision,
        rule: &str,
        reason: &str,
    ) -> Result<StepStatus> {
        let (rule, reason) = (rule.to_owned(), reason.to_owned());
        let (class, from, by) = (None, None, rule.clone());
        let command = Command::DecideFailure { run, step, decision, class, from, rule, reason, by };
        self.execute_and_read(&command, |state| status_of_step(state, run, step))
    }

    /// Resolve the unknown outcome of a step that must not be repeated, after its attempt was lost:
    /// either its work was done, and the step is accepted, or it was not, and the step is dispatched
    /// again. `evidence` is recorded. Returns the step's status.
    ///
    /// [`Run::outcome_unknown`](crate::Run::outcome_unknown) lists the steps that wait for this.
    ///
    /// ```
    /// # fn main() -> plan_ledger::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let ledger = plan_ledger::Ledger::open(folder.path().join("ledger"))?;
    /// # let plan = serde_json::from_str(r#"{"steps": [{"id": "mail", "idempotent": "no"}]}"#).unwrap();
    /// use plan_ledger::{Claim, Ending, ResolvedOutcome};
    ///
    /// let run = ledger.start_or_resume("demo", &plan)?;
    /// # let _ = ledger.claim(run, "worker-1")?;
    /// ledger.recover_abandoned(run)?;
    /// for step in ledger.run(run)?.outcome_unknown {
    ///     let evidence = "the mail is in the outbox";
    ///     ledger.resolve_outcome(run, step, ResolvedOutcome::Landed, "ana", evidence)?;
    /// }
    /// assert!(matches!(ledger.claim(run, "worker-1")?, Claim::Done(Ending::Done)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Rejected`: with `NotReady` if the step has no unknown outcome.
    pub fn resolve_outcome(
        &self,
        run: RunId,
        step: StepNumber,
        finding: ResolvedOutcome,
        by: &str,
        evidence: &str,
    ) -> Result<StepStatus> {
        let (by, evidence) = (by.to_owned(), evidence.to_owned());
        let command = Command::ResolveOutcome { run, step, finding, by, evidence };
        self.execute_and_read(&command, |state| status_of_step(state, run, step))
    }
}

fn status_of_step(state: &State, run: RunId, step: StepNumber) -> StepStatus {
    let step = state.runs.get(&run).and_then(|run| run.step(step));
    step.map_or(StepStatus::Removed, |step| step.status)
}

fn started_run(commit: &Commit) -> RunId {
    let started = commit.events.iter().find_map(|(_, event)| match event {
        Event::RunStarted(started) => Some(started.run),
        _ => None,
    });
    started.expect("an accepted run has an event")
}
