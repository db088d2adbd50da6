//! Which commands that check a loop runs: criteria and probes.
//!
//! A runner is a judge, so it runs a command only if a person approved the commands of the active version, and none
//! in the shell of an agent session: there the agent would choose the environment in which its own work is
//! checked. What it leaves stays reported, and is said once.

use plan_ledger::Run;

use crate::protocol::{StepName, is_unapproved, no_judge_text};
use crate::runner::check::Criteria;
use crate::runner::drive::state::Drive;
use crate::runner::external_worker::has_check;

/// Which commands that check a loop runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandChecks {
    /// All of them: the workers of the loop only simulate them.
    Simulated,
    /// Those that a person approved.
    Approved,
    /// None: the loop is in the shell of an agent session.
    Never,
}

/// Whether the commands of a version are unapproved, as it was found last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeenApproval {
    /// The active version, and how many versions have an approval.
    of: (u32, usize),
    is_unapproved: bool,
}

impl Drive<'_> {
    /// Whether the commands that check the active version are left to another process.
    pub(crate) fn leaves_commands(&self, run: &Run) -> bool {
        match self.options.checks {
            CommandChecks::Simulated => false,
            CommandChecks::Approved => self.is_unapproved(run),
            CommandChecks::Never => !plan_ledger::mutant!(RunnerChecksInSession),
        }
    }

    /// The plan is read once for each version and approval.
    fn is_unapproved(&self, run: &Run) -> bool {
        let approvals = run.versions.iter().filter(|version| version.commands.is_some()).count();
        let of = (run.active, approvals);
        if let Some(seen) = self.seen_approval.get().filter(|seen| seen.of == of) {
            return seen.is_unapproved;
        }
        let is_unapproved = is_unapproved(run);
        self.seen_approval.set(Some(SeenApproval { of, is_unapproved }));
        is_unapproved
    }

    /// Say once for a version that its commands are left, if one of these criteria is a command that is to run now.
    pub(crate) fn note_left_criteria(&mut self, run: &Run, criteria: Criteria) {
        if self.leaves_commands(run) && has_check(run, criteria) {
            let step = match criteria {
                Criteria::OfStep(number) => Some(StepName::of(run, number)),
                Criteria::OfPlan => None,
            };
            self.note_left_command(run, step);
        }
    }

    /// Say once for a version that its commands are left.
    pub(crate) fn note_left_command(&mut self, run: &Run, step: Option<StepName>) {
        let Some(folder) = self.workers.shared_folder() else { return };
        if self.told_left == Some(run.active) {
            return;
        }
        // If a judge is at work, that one checks it.
        let Some(text) = no_judge_text(folder, run) else { return };
        self.told_left = Some(run.active);
        let why = match self.options.checks {
            CommandChecks::Never => "a runner in an agent session runs no command that checks; ",
            CommandChecks::Simulated | CommandChecks::Approved => "",
        };
        self.note(step, format!("{why}{text}"));
    }
}
