//! The commands for an item that moves a run forward, one of which is enough.

use std::path::Path;

use plan_ledger::Run;

use super::item::NextItem;
use crate::activity::start_or_resume;
use crate::advice::Advice;
use crate::approval::is_unapproved;
use crate::runner::KnownRunner;
use crate::waiting::{WaitingItem, answer_all, retry_or_skip, skip, start_judge};
use crate::words::StepName;

impl NextItem {
    /// Its commands, for every reader.
    #[must_use]
    pub fn advice(&self, run: &Run, runner: &KnownRunner<'_>, ledger: &Path) -> Vec<Advice> {
        let start = || start_or_resume(run, runner, ledger);
        let resume = || runner.resume.is_some().then(start);
        let name = run.name.as_str();
        match self {
            Self::Waiting(WaitingItem::Checks { .. } | WaitingItem::PlanChecks { .. }) => {
                if runner.is_checked() || is_unapproved(run) {
                    return Vec::new();
                }
                std::iter::once(start_judge(name, ledger)).chain(resume()).collect()
            }
            Self::Waiting(item) => item.resolve(name, ledger),
            Self::AnswerAll { answers, .. } => answer_all(answers, name, ledger),
            Self::Abandoned { .. }
            | Self::Planner { .. }
            | Self::Runner { .. }
            | Self::Delayed { absence: Some(_), .. } => vec![start()],
            Self::TakeOver { .. } => {
                let claim = || Advice::new("claim", ledger, &[name], "takes the step over");
                vec![resume().unwrap_or_else(claim)]
            }
            Self::Damaged => vec![Advice::new("verify", ledger, &[], "lists all damage")],
            Self::Dispatch { .. } => resume().into_iter().collect(),
            Self::Failed { step, is_over: false } => retry_or_skip(step, name, ledger),
            Self::FailedSteps { steps, .. } => retry_all_or_skip(steps, name, ledger),
            Self::RunFailed { steps, .. } => {
                let again = resume().map(|advice| Advice {
                    effect: "retries all failed steps".to_owned(),
                    ..advice.with_word("--retry-failed")
                });
                retry_all_or_skip(steps, name, ledger).into_iter().chain(again).collect()
            }
            Self::Proposal { file, .. } => {
                let words = [file, "--run", name];
                vec![Advice::new("plan propose", ledger, &words, "proposes a version of the plan")]
            }
            Self::Stuck { step: Some(step) } => {
                let words = ["why", name, &step.argument()];
                vec![Advice::new("inspect", ledger, &words, "shows what blocks the step")]
            }
            Self::Capped { .. }
            | Self::Stopping { .. }
            | Self::Limit { .. }
            | Self::Delayed { .. }
            | Self::InFlight { .. }
            | Self::Failed { .. }
            | Self::Archived
            | Self::Over
            | Self::Stuck { .. } => Vec::new(),
        }
    }

    /// Whether one of its commands starts the last runner again.
    pub(super) fn starts_runner(&self, run: &Run, runner: &KnownRunner<'_>) -> bool {
        match self {
            Self::Waiting(WaitingItem::Checks { .. } | WaitingItem::PlanChecks { .. }) => {
                !runner.is_checked() && !is_unapproved(run)
            }
            _ => matches!(self.word(), "resume" | "take_over" | "dispatch"),
        }
    }
}

/// The commands about failed steps: one retries all of them, and each can be skipped. Without a step, the criteria of
/// the plan failed.
fn retry_all_or_skip(steps: &[StepName], run: &str, ledger: &Path) -> Vec<Advice> {
    if let [step] = steps {
        return retry_or_skip(step, run, ledger);
    }
    let all = Advice::new("retry", ledger, &[run], "retries what failed");
    let skips = steps.iter().map(|step| skip(&step.argument(), run, ledger));
    std::iter::once(all).chain(skips).collect()
}
