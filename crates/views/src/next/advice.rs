//! The commands for an item that moves a run forward, one of which is enough.

use std::path::Path;

use plan_ledger::Run;

use super::item::NextItem;
use crate::activity::start_or_resume;
use crate::advice::Advice;
use crate::runner::KnownRunner;
use crate::waiting::{WaitingItem, answer_all, retry_or_skip, start_judge};

impl NextItem {
    /// Its commands, for every reader.
    #[must_use]
    pub fn advice(&self, run: &Run, runner: &KnownRunner<'_>, ledger: &Path) -> Vec<Advice> {
        let start = || start_or_resume(run, runner, ledger);
        let resume = || runner.resume.is_some().then(start);
        let name = run.name.as_str();
        match self {
            Self::Waiting(WaitingItem::Checks { .. } | WaitingItem::PlanChecks { .. }) => {
                if runner.is_checked() {
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
            Self::RunFailed { steps, .. } => {
                let each = steps.iter().map(|step| retry_or_skip(step, name, ledger));
                let (retries, others): (Vec<_>, Vec<_>) = each
                    .flatten()
                    .partition(|advice| advice.arguments.starts_with(&["retry".into()]));
                let all = (steps.len() != 1)
                    .then(|| Advice::new("retry", ledger, &[name], "retries what failed"));
                let again = resume().map(|advice| Advice {
                    effect: "retries all failed steps".to_owned(),
                    ..advice.with_word("--retry-failed")
                });
                retries.into_iter().chain(all).chain(others).chain(again).collect()
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
            | Self::Over
            | Self::Stuck { .. } => Vec::new(),
        }
    }

    /// Whether one of its commands starts the last runner again.
    pub(super) fn starts_runner(&self, runner: &KnownRunner<'_>) -> bool {
        match self {
            Self::Waiting(WaitingItem::Checks { .. } | WaitingItem::PlanChecks { .. }) => {
                !runner.is_checked()
            }
            _ => matches!(self.word(), "resume" | "take_over" | "dispatch"),
        }
    }
}
