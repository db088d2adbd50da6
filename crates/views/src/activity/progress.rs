//! How far a run is.

use plan_ledger::plan::Micros;
use plan_ledger::{Run, RunStatus, StepStatus, Timestamp};

use super::run::RunActivity;

/// How far a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunProgress {
    /// The plan's title, or the run's name.
    pub title: String,
    /// Accepted and skipped steps of the active version.
    pub done: u32,
    /// Steps of the active version.
    pub steps: u32,
    /// Whether more steps will follow: the plan continues, and the run has not ended.
    pub continues: bool,
    /// The expected time to the end, from the average per step so far. `None` before the first step is done, while a
    /// person must act, and after the end.
    pub expected: Option<Micros>,
}

impl RunProgress {
    /// The progress of a run at that time, which stands like that.
    #[must_use]
    pub fn of(run: &Run, stands: &RunActivity, now: Timestamp) -> Self {
        let title = run.plan().map(|plan| plan.header().title.clone());
        let continues = run.continues();
        let is_going = !continues && stands.for_people == 0;
        Self {
            title: title.filter(|title| !title.is_empty()).unwrap_or_else(|| run.name.clone()),
            done: run.count(StepStatus::Accepted).saturating_add(run.count(StepStatus::Skipped)),
            steps: run.active_version().map_or(0, |version| version.step_count),
            continues,
            expected: expected(run, now).filter(|_| is_going),
        }
    }
}

/// The average time per accepted step, times the number of open steps.
fn expected(run: &Run, now: Timestamp) -> Option<Micros> {
    if run.status != RunStatus::Running {
        return None;
    }
    let accepted = Micros::from(run.count(StepStatus::Accepted));
    let per_step = now.saturating_sub(run.started).checked_div(accepted)?;
    Some(per_step.saturating_mul(Micros::from(run.open_steps())))
}
