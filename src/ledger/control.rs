//! What people, planners and workers say about a run that goes on: answers, budgets, pauses, side
//! effects, other plans. Each method is one command.
//!
//! Invariant: nothing is decided here. What a method returns stands in the events of its commit.
//!
//! Left out on purpose: corrections of costs, which are held against the log (`books` does).
//!
//! # Errors
//! All methods: `Rejected`, with the reason, and what [`Ledger::execute`] says of the disk.

use crate::error::Result;
use crate::plan::{
    ApprovalPolicy, AttemptToken, Command, ContentHash, Decision, Event, Limits, Plan, Question,
    QuestionId, Rejection, ReplanTrigger, RunId, State, StepNumber, StepStatus,
};

use super::{Commit, Ledger, Task, hash};

/// A question that nobody has answered yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenQuestion {
    /// Its number.
    pub id: QuestionId,
    /// The run that waits for it.
    pub run: RunId,
    /// What was asked, of whom, until when.
    pub question: Question,
}

/// What somebody says to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// One of the question's options.
    pub answer: String,
    /// Who answers.
    pub by: String,
    /// Why, in their words.
    pub note: String,
    /// Hash of what they were shown: that of the question, if they saw the right thing.
    pub shown: ContentHash,
}

impl Ledger {
    /// Deal this step, and no other. Leases that have run out are turned into events first.
    ///
    /// # Errors
    /// `Rejected`: with `HeldBy` if somebody has it, saying who and until when; `NotReady`,
    /// `CapReached`, `BudgetReserved`; with `Paused` if a budget is used up, also where this claim
    /// found that out.
    pub fn claim(&self, run: RunId, step: StepNumber, worker: &str) -> Result<Task> {
        let claim = |_: &State| {
            let worker = worker.to_owned();
            Ok(Command::Dispatch { run, step: Some(step), worker, lease: None })
        };
        let dealt =
            self.deal(&claim, |state, task| task.ok_or_else(|| not_dealt(state, run, step)))?;
        Ok(self.with_earlier(dealt?))
    }

    /// The questions that are open, over all runs, the oldest first.
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

    /// Answer a question.
    ///
    /// # Errors
    /// `Rejected`: with `NoSuchQuestion` if it is not open any more (it was answered, somebody
    /// else is asked now, or it no longer matters), `HashDiffers` if something else was shown,
    /// `NotAnOption`.
    pub fn answer(&self, question: QuestionId, reply: Reply) -> Result<Commit> {
        let Reply { answer, by, note, shown } = reply;
        self.execute(&Command::Answer { question, answer, by, note, shown })
    }

    /// Set what a run, or with `None` the whole ledger, may spend in all, what was spent before
    /// included. Runs that wait only for that go on.
    pub fn set_budget(
        &self,
        run: Option<RunId>,
        limits: Option<Limits>,
        by: &str,
    ) -> Result<Commit> {
        self.execute(&Command::SetBudget { run, limits, by: by.to_owned() })
    }

    /// Deal nothing more in a run for now. What is in flight goes on.
    pub fn pause(&self, run: RunId, by: &str, reason: &str) -> Result<Commit> {
        self.execute(&Command::Pause { run, by: by.to_owned(), reason: reason.to_owned() })
    }

    /// Go on with a run that pauses.
    ///
    /// # Errors
    /// `Rejected`: with `NotPaused`, and with `Paused` as long as a budget is used up.
    pub fn resume(&self, run: RunId, by: &str) -> Result<Commit> {
        self.execute(&Command::Resume { run, by: by.to_owned() })
    }

    /// Say that a worker is about to do something to the world, under a key that makes it happen
    /// once.
    ///
    /// # Errors
    /// `Rejected`: with `EffectKnown` if it was done before, and then it must not be done again;
    /// `StaleToken`.
    pub fn intend_effect(&self, token: AttemptToken, effect: &str, key: &str) -> Result<Commit> {
        let (effect, key) = (effect.to_owned(), key.to_owned());
        self.execute(&Command::IntendEffect { token, effect, key })
    }

    /// Say that a worker has done what it intended under that key.
    pub fn commit_effect(&self, token: AttemptToken, key: &str) -> Result<Commit> {
        self.execute(&Command::CommitEffect { token, key: key.to_owned() })
    }

    /// Ask for another plan version; the record that asks.
    ///
    /// # Errors
    /// `Rejected`: with `ReplanIsOpen`, naming the record, if one is asked for already.
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
        let asked = commit.events.iter().find(|(_, event)| is_request(event));
        Ok(asked.expect("what was not refused was asked for").0)
    }

    /// Say that no other plan version is needed after all; for a plan that is extended as it goes,
    /// that there is no more to do.
    pub fn withdraw_replan(&self, run: RunId, by: &str, reason: &str) -> Result<Commit> {
        let (by, reason) = (by.to_owned(), reason.to_owned());
        self.execute(&Command::WithdrawReplan { run, by, reason })
    }

    /// Propose the next version of a run's plan and return its number; `trigger` is what it is an
    /// answer to, where no request for another plan is open. With automatic approval it is active
    /// on return.
    ///
    /// # Errors
    /// `BadPlan` with all problems of the plan; `Rejected`, with `ReplanLimit` if the plan allows
    /// no more versions.
    pub fn propose_for(
        &self,
        run: RunId,
        plan: &Plan,
        reason: &str,
        trigger: Option<ReplanTrigger>,
    ) -> Result<u32> {
        self.propose_as(run, plan, (reason, trigger), ApprovalPolicy::Automatic)
    }

    /// Propose the next version of a run's plan for somebody to review, whatever the run's policy
    /// says; its number.
    ///
    /// # Errors
    /// As [`Ledger::propose_for`].
    pub fn propose_for_review(&self, run: RunId, plan: &Plan, reason: &str) -> Result<u32> {
        self.propose_as(run, plan, (reason, None), ApprovalPolicy::Required)
    }

    fn propose_as(
        &self,
        run: RunId,
        plan: &Plan,
        (reason, trigger): (&str, Option<ReplanTrigger>),
        approval: ApprovalPolicy,
    ) -> Result<u32> {
        let draft = hash::draft(plan)?;
        let reason = reason.to_owned();
        let commit =
            self.execute(&Command::ProposePlan { run, draft, reason, trigger, approval })?;
        let proposed = commit.events.iter().find_map(|(_, event)| match event {
            Event::PlanProposed(proposed) => Some(proposed.version),
            _ => None,
        });
        Ok(proposed.expect("a version that was not refused was proposed"))
    }

    /// Decide about a failed attempt, where the plan leaves that to somebody else; how the step
    /// stands then.
    ///
    /// # Errors
    /// `Rejected`: with `DecidedByRules`, `NothingFailed`, `NoFallback`.
    pub fn decide_failure(
        &self,
        run: RunId,
        step: StepNumber,
        decision: Decision,
        rule: &str,
        reason: &str,
    ) -> Result<StepStatus> {
        let (rule, reason) = (rule.to_owned(), reason.to_owned());
        let command = Command::DecideFailure { run, step, decision, rule, reason };
        let (_, status) = self.carry_out(&command, |state, _| {
            let step = state.runs.get(&run).and_then(|run| run.step(step));
            step.map_or(StepStatus::Removed, |step| step.status)
        })?;
        Ok(status)
    }
}

/// Why a claim that was not refused dealt nothing: it found that a budget is used up.
fn not_dealt(state: &State, run: RunId, step: StepNumber) -> Rejection {
    let Some(run) = state.runs.get(&run) else { return Rejection::NoSuchRun };
    match (&run.pause, run.step(step)) {
        (Some(cause), _) => Rejection::Paused(cause.clone()),
        (None, Some(found)) => Rejection::NotReady(step, found.status),
        (None, None) => Rejection::NoSuchStep(step),
    }
}
