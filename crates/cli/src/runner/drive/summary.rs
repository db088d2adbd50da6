//! How a run stands when its loop ends: read off the state, for people and for exit codes.

use plan_ledger::error::Error;
use plan_ledger::ledger::Task;
use plan_ledger::plan::{
    AcceptedBasis, Cost, Ending, FailureClass, Micros, Receipt, Run, RunStatus, State, StepNumber,
    StepStatus,
};

use crate::runner::drive::pending::{Pending, pending};
use crate::runner::progress::StepName;

/// What a loop did, and how the run stands.
#[derive(Debug)]
pub struct RunSummary {
    /// The run's name.
    pub run: String,
    /// How it stands.
    pub outcome: RunOutcome,
    /// What is counted over the whole run.
    pub counts: Counts,
    /// What is counted over this loop.
    pub session: Session,
    /// Steps that have failed for good: class and message of each.
    pub failures: Vec<(StepName, FailureClass, String)>,
    /// Criteria of the plan as a whole that do not hold, and why.
    pub failed_criteria: Vec<(String, String)>,
    /// What this loop noticed, and about which step.
    pub notes: Vec<(Option<StepName>, String)>,
    /// The last record when it was last looked what there is to do: whatever came after it may be work.
    pub seen: u64,
}

/// How a run stands when its loop ends.
#[derive(Debug)]
pub enum RunOutcome {
    /// Every step is accepted or skipped, and the plan's own criteria hold.
    Done,
    /// It cannot get there.
    Failed,
    /// Somebody ended it.
    Cancelled,
    /// A rule, or the answer to a question, ended the run.
    Aborted,
    /// Nothing can be dispatched until somebody answers.
    Waiting(Vec<Pending>),
    /// It was asked to stop, with work left.
    Interrupted,
    /// The ledger, or this machine, could not go on.
    Stopped {
        /// Why.
        error: Error,
        /// Receipts that could not be recorded.
        unrecorded: Vec<Unrecorded>,
    },
}

/// A receipt that could not be recorded: its attempt counts as lost, and the step is dispatched again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrecorded {
    /// The step.
    pub step: StepName,
    /// The receipt's attempt.
    pub token: plan_ledger::plan::AttemptToken,
    /// What it said.
    pub receipt: Receipt,
}

/// What is counted over a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps of the active version.
    pub steps: u32,
    /// Steps that count as done, those taken over included.
    pub accepted: u32,
    /// Steps that were done before the run began.
    pub taken_over: u32,
    /// Steps that were accepted on the worker's word.
    pub trusted: u32,
    /// Steps that will not be done, and that is all right.
    pub skipped: u32,
    /// Steps that have failed for good.
    pub failed: u32,
    /// Attempts of all steps.
    pub attempts: u64,
    /// What all receipts cost.
    pub cost: Cost,
    /// From the run's start to its last record, in microseconds.
    pub elapsed: Micros,
}

/// What is counted over one loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Session {
    /// Attempts that were dealt.
    pub dealt: u32,
    /// Receipts that were recorded.
    pub receipts: u32,
    /// Steps that go back to the queue after an attempt failed.
    pub retries: u32,
    /// Attempts that were lost, those of an earlier runner included.
    pub lost: u32,
    /// Receipts that came too late.
    pub refused: u32,
    /// How long the loop ran, in microseconds.
    pub duration: Micros,
}

impl StepName {
    /// The name of a dealt step.
    pub(crate) fn of_task(task: &Task) -> Self {
        Self { number: task.number, id: task.step.id.clone() }
    }

    /// The name of a step of a run.
    #[must_use]
    pub fn of(run: &Run, number: StepNumber) -> Self {
        let id = run.step(number).map_or_else(String::new, |step| step.id().to_owned());
        Self { number, id }
    }
}

impl Counts {
    /// Of a run's active version.
    #[must_use]
    pub fn of(state: &State, run: &Run) -> Self {
        let mut counts = Self {
            accepted: run.count(StepStatus::Accepted),
            skipped: run.count(StepStatus::Skipped),
            failed: run.count(StepStatus::Failed),
            attempts: run.account.attempts,
            cost: run.spent(),
            elapsed: state.time.saturating_sub(run.started),
            ..Self::default()
        };
        let Some(version) = run.active_version() else { return counts };
        counts.steps = version.step_count;
        for step in version.numbers.iter().filter_map(|number| run.step(*number)) {
            match step.accepted() {
                Some(AcceptedBasis::DoneBefore { .. }) => counts.taken_over += 1,
                Some(AcceptedBasis::WorkersWord) => counts.trusted += 1,
                _ => {}
            }
        }
        counts
    }
}

/// How a run stands, where nothing is in the way but the run itself.
pub(crate) fn standing(run: &Run) -> RunOutcome {
    match run.status {
        RunStatus::Ended(Ending::Done) => RunOutcome::Done,
        RunStatus::Ended(Ending::Failed) => RunOutcome::Failed,
        RunStatus::Ended(Ending::Cancelled) => RunOutcome::Cancelled,
        RunStatus::Ended(Ending::Aborted) => RunOutcome::Aborted,
        RunStatus::Proposed | RunStatus::Running => RunOutcome::Waiting(pending(run)),
    }
}

/// Steps of the active version that have failed for good.
pub(crate) fn failures(run: &Run) -> Vec<(StepName, FailureClass, String)> {
    let Some(version) = run.active_version() else { return Vec::new() };
    let failed = |number: &StepNumber| {
        let step = run.step(*number)?;
        (step.status == StepStatus::Failed).then(|| {
            let (class, message) = step.last_failure().cloned().unwrap_or_default();
            (StepName::of(run, *number), class, message)
        })
    };
    version.numbers.iter().filter_map(failed).collect()
}
