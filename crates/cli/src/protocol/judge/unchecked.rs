//! The reason why no process checks the commands of a reported step, and the remedy.

use std::path::Path;

use plan_ledger::plan::{CompactStep, Criterion};
use plan_ledger::{Run, StepNumber, StepStatus};
use plan_ledger_views::{approval_of, is_unapproved, quoted};

use super::mark::{has_judge, is_locked, step_lock};
use super::work_folder::check_folder;

/// A claim that was made outside of the folder of the approved commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkElsewhere {
    /// The folder of the approval.
    pub(crate) approved: String,
    /// The folder of the claim.
    pub(crate) work: String,
}

impl WorkElsewhere {
    /// The claim of a step with command criteria without a verdict, if it was made elsewhere.
    pub(crate) fn of(run: &Run, number: StepNumber) -> Option<Self> {
        let work = run.step(number)?.attempt()?.process.as_ref()?.folder.as_ref()?;
        if !has_open_command(run, number) {
            return None;
        }
        let approved = approval_of(run)?.folder.as_ref().filter(|folder| *folder != work)?;
        Some(Self { approved: approved.clone(), work: work.clone() })
    }

    /// Why no judge checks the work; `None` if one does, in a worktree. It asks Git, so it takes its time.
    pub(crate) fn problem(&self) -> Option<String> {
        let Self { approved, work } = self;
        match Path::new(approved).canonicalize() {
            Ok(plan) => check_folder(&plan, Some(work)).err(),
            Err(_) => {
                Some(format!("the folder in which its commands were approved is gone: {approved}"))
            }
        }
    }
}

/// Reasons that may keep a reported step from being checked, as far as they are known without
/// reading its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unchecked {
    run: String,
    elsewhere: Option<WorkElsewhere>,
    /// Why no process checks it in any folder.
    no_judge: Option<String>,
}

impl Unchecked {
    /// The reasons for a step; `None` if there is nothing to check, or a process checks it.
    pub(crate) fn of(ledger: &Path, run: &Run, number: StepNumber) -> Option<Self> {
        run.step(number).filter(|step| step.status == StepStatus::Reported)?;
        if !has_open_command(run, number) || is_locked(&step_lock(ledger, run.id, number)) {
            return None;
        }
        let (elsewhere, no_judge) = (WorkElsewhere::of(run, number), no_judge_text(ledger, run));
        Some(Self { run: run.name.clone(), elsewhere, no_judge })
    }

    /// The reason why no process checks the step, and the remedy; `None` if a judge is at work.
    pub(crate) fn text(self) -> Option<String> {
        let problem = self.elsewhere.and_then(|elsewhere| elsewhere.problem());
        let misplaced = problem.map(|problem| {
            let run = quoted(&self.run);
            format!(
                "no judge checks it: {problem}; `ledger questions {run}` has the command with which a \
                 person approves the commands there"
            )
        });
        misplaced.or(self.no_judge)
    }
}

/// The reason why no process checks the commands of a reported step, and the remedy; `None` if
/// there is nothing to check, or a process does.
pub(crate) fn unchecked_text(ledger: &Path, run: &Run, number: StepNumber) -> Option<String> {
    Unchecked::of(ledger, run, number)?.text()
}

/// Whether a step has a command criterion without a verdict.
fn has_open_command(run: &Run, number: StepNumber) -> bool {
    let verdicts = run.step(number).and_then(|step| step.attempt()).map(|it| &it.verdicts);
    let criteria = run.plan_step(number).map(CompactStep::acceptance).unwrap_or_default();
    let is_open = |index: &u32| verdicts.is_none_or(|verdicts| !verdicts.contains_key(index));
    let mut open = (0..).zip(&criteria).filter(|(index, _)| is_open(index));
    open.any(|(_, criterion)| matches!(criterion, Criterion::Command(_)))
}

/// The reason why no process runs the commands that check a run, and the remedy; `None` if a judge
/// is at work.
pub(crate) fn no_judge_text(ledger: &Path, run: &Run) -> Option<String> {
    let name = quoted(&run.name);
    if is_unapproved(run) {
        return Some(format!(
            "nothing checks it before a person approves the commands of the plan: `ledger plan review \
             {name}` lists them"
        ));
    }
    (!has_judge(ledger, run.id)).then(|| {
        format!(
            "nothing checks it until a person starts a judge: `ledger next {name}` tells a person how"
        )
    })
}
