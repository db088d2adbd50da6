//! The summary of a run when its loop ends, derived from the state.

use plan_ledger::plan::{AcceptedBasis, Micros, Route, TrustedCheck};
use plan_ledger::{
    Cost, Ending, Error, FailureClass, Receipt, Run, RunStatus, State, StepNumber, StepStatus,
    Timestamp,
};
use plan_ledger_views::{StepName, WaitingItem, waiting_items};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// The result of a loop and the state of its run.
#[derive(Debug)]
pub struct RunSummary {
    /// The name of the run.
    pub run: String,
    /// The state of the run.
    pub outcome: RunOutcome,
    /// Totals of the whole run.
    pub counts: Counts,
    /// Totals of this loop.
    pub session: Session,
    /// Steps that failed permanently, with the class and message of each failure.
    pub failures: Vec<(StepName, FailureClass, String)>,
    /// Criteria of the plan as a whole that failed, with their evidence.
    pub failed_criteria: Vec<(String, String)>,
    /// Checks of accepted steps that were taken on the worker's word.
    pub trusted: Vec<(StepName, TrustedCheck)>,
    /// Notes of this loop, with the step that each is about.
    pub notes: Vec<(Option<StepName>, String)>,
    /// The last sequence number at the loop's last search for work; later records may add work.
    pub seen: u64,
}

/// The state of a run when its loop ends.
#[derive(Debug)]
pub enum RunOutcome {
    /// Every step is accepted or skipped, and the plan's own criteria hold.
    Done,
    /// The run can no longer succeed.
    Failed,
    Cancelled,
    /// A rule of the plan, or the answer to a question, ended the run.
    Aborted,
    /// Nothing can be dispatched until the listed items are resolved.
    Waiting(Vec<WaitingItem>),
    /// The loop was asked to stop before all work was done.
    Interrupted,
    /// The ledger or this machine failed.
    Stopped {
        /// The reason.
        error: Error,
        /// Receipts that could not be recorded.
        unrecorded: Vec<Unrecorded>,
    },
}

/// A receipt that could not be recorded. The files of its attempt are kept, and the next runner records
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrecorded {
    pub step: StepName,
    pub token: plan_ledger::AttemptToken,
    /// The reported outcome.
    pub receipt: Receipt,
}

/// Totals of a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Whether more steps will follow: the plan continues, and the run has not ended.
    pub continues: bool,
    /// Steps of the active version.
    pub steps: u32,
    /// Accepted steps, including those accepted before the run began.
    pub accepted: u32,
    /// Steps that were accepted before the run began.
    pub taken_over: u32,
    /// Steps that were accepted although some of their criteria were trusted without a check.
    pub trusted: u32,
    /// Steps that were skipped.
    pub skipped: u32,
    /// Steps that failed permanently.
    pub failed: u32,
    /// Attempts of all steps.
    pub attempts: u64,
    /// The summed cost of all receipts.
    pub cost: Cost,
    /// Microseconds from the start of the run to its last record.
    pub elapsed: Micros,
}

/// The sums of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Session {
    /// Dispatched attempts.
    pub dispatched: u32,
    /// Recorded receipts.
    pub receipts: u32,
    /// Failures that lead to a retry.
    pub retries: u32,
    /// Lost attempts, including those of an earlier runner.
    pub lost: u32,
    /// Receipts that came too late.
    pub refused: u32,
    /// The duration.
    #[serde(rename = "duration_micros")]
    pub duration: Micros,
}

impl Session {
    /// Adds the totals of another loop of the same process.
    pub(crate) fn add(&mut self, other: &Self) {
        self.dispatched += other.dispatched;
        self.receipts += other.receipts;
        self.retries += other.retries;
        self.lost += other.lost;
        self.refused += other.refused;
        self.duration += other.duration;
    }
}

impl Counts {
    /// The totals of a run's active version.
    #[must_use]
    pub fn of(state: &State, run: &Run) -> Self {
        let mut counts = Self {
            continues: run.continues(),
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

/// The state of a run that no error or stop request interrupted, for a runner with this route, at a time.
pub(crate) fn standing(run: &Run, route: &Route, now: Timestamp) -> RunOutcome {
    match run.status {
        RunStatus::Ended(Ending::Done) => RunOutcome::Done,
        RunStatus::Ended(Ending::Failed) => RunOutcome::Failed,
        RunStatus::Ended(Ending::Cancelled) => RunOutcome::Cancelled,
        RunStatus::Ended(Ending::Aborted) => RunOutcome::Aborted,
        RunStatus::Proposed | RunStatus::Running => {
            RunOutcome::Waiting(waiting_items(run, route, now))
        }
    }
}

/// The checks that were taken on the worker's word.
pub(crate) fn trusted(run: &Run) -> Vec<(StepName, TrustedCheck)> {
    let named = |check: TrustedCheck| (StepName::of(run, check.step), check);
    run.trusted_checks().into_iter().map(named).collect()
}

/// Steps of the active version that failed permanently.
pub(crate) fn failures(run: &Run) -> Vec<(StepName, FailureClass, String)> {
    let Some(version) = run.active_version() else { return Vec::new() };
    let failed = |number: &StepNumber| {
        let step = run.step(*number)?;
        (step.status == StepStatus::Failed).then(|| {
            let (class, message) = step.last_failure().cloned().unwrap_or_default();
            (StepName::of(run, *number), class, message.into())
        })
    };
    version.numbers.iter().filter_map(failed).collect()
}
