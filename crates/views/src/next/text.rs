//! An item that moves a run forward, in one sentence.

use plan_ledger::Timestamp;

use super::item::NextItem;
use crate::runner::RunnerPresence;
use crate::waiting::answer_all_text;
use crate::words::{StepName, counted, counted_of, moment};

impl NextItem {
    /// The item in one sentence, at that time.
    #[must_use]
    pub fn text(&self, now: Timestamp) -> String {
        match self {
            Self::Waiting(item) => item.to_string(),
            Self::AnswerAll { questions, .. } => answer_all_text(*questions),
            Self::Abandoned { steps, unseen: Some(process) } => {
                let steps = counted_of(*steps, "step is", "steps are");
                let unseen = RunnerPresence::Unseen(*process).absence().unwrap_or_default();
                format!("{steps} in flight, and {unseen}: if it has, start it again")
            }
            Self::Abandoned { steps, unseen: None } => {
                let steps = counted_of(*steps, "step was", "steps were");
                format!("the runner is gone, and {steps} in flight: start it again")
            }
            Self::Planner { absence } => {
                format!("{absence}, and its planner is to make a new plan version: start it again")
            }
            Self::Runner { absence } => {
                format!("{absence}: what people decide is done once one is")
            }
            Self::TakeOver { step, worker, since, process } => format!(
                "{} is claimed by {worker} since {}, and process {process} is gone: the next \
                 `ledger run`, `work` or `claim` takes it over",
                step.short(),
                moment(*since, now)
            ),
            Self::Dispatch { step, more: 0 } => format!("dispatch {}", step.short()),
            Self::Dispatch { step, more } => {
                format!("dispatch {} ({more} more are ready)", step.short())
            }
            Self::Capped { ready, reason } => {
                format!("{} ready, but {reason}", counted((*ready).into(), "step"))
            }
            Self::Stopping { reason } => format!("no more steps are dispatched: {reason}"),
            Self::Limit { wait, ready } => wait.text(*ready, now),
            Self::Delayed { step, until, more, absence } => {
                let (step, until) = (step.short(), moment(*until, now));
                let more = match more {
                    0 => String::new(),
                    more => format!(" ({more} more wait)"),
                };
                match absence {
                    Some(absence) => {
                        format!("{absence}, and {step} is to be retried at {until}{more}")
                    }
                    None => format!("wait until {until}, when {step} is retried{more}"),
                }
            }
            Self::InFlight { attempts } => {
                format!("wait for {} in flight", counted((*attempts).into(), "attempt"))
            }
            Self::Failed { step, is_over: true } => {
                format!("{} failed permanently, and the run has ended", step.short())
            }
            Self::Failed { step, is_over: false } => {
                format!("{} failed permanently: retry or skip it", step.short())
            }
            Self::FailedSteps { steps, more } => {
                let steps = failed_text(steps, *more);
                format!("{steps} failed permanently: retry them, or skip each")
            }
            Self::RunFailed { steps, more, lacks_replans } => {
                let hint = if *lacks_replans { NO_REPLANS } else { "" };
                let what = failed_text(steps, *more);
                format!("the run failed because of {what}; retry or skip it{hint}")
            }
            Self::Proposal { reason, is_failed: true, .. } => {
                format!("the run failed: {reason}; change the plan and propose it")
            }
            Self::Proposal { reason, .. } => format!("{reason}; change the plan and propose it"),
            Self::Damaged => {
                "not all of the ledger can be read, so it is unknown what comes next".to_owned()
            }
            Self::Archived => {
                "nothing: this is an archive, which is only read; a run continues in its ledger"
                    .to_owned()
            }
            Self::Over => "nothing: the run is over".to_owned(),
            Self::Stuck { .. } => {
                "nothing can be dispatched before a value or the plan changes".to_owned()
            }
        }
    }
}

fn failed_text(steps: &[StepName], more: u32) -> String {
    if steps.is_empty() {
        return "its own criteria".to_owned();
    }
    let more = (more > 0).then(|| format!("{more} more"));
    steps.iter().map(StepName::short).chain(more).collect::<Vec<_>>().join(", ")
}

/// The missing parts after a broken assumption failed a run.
const NO_REPLANS: &str = "; an assumption of the plan is broken, and it allows no other plan: set \
                          `max_replans` in its `failure`, or run it with --planner";
