//! Selects the checking commands that a runner executes: criteria and probes.
//!
//! A runner is a judge, so it executes a command only if a person approved the commands of the
//! active version. In the shell of an agent session it executes none, because the agent chooses the
//! environment of the checks of its own work there. The steps then stay reported, and the runner
//! reports this once.

use std::cell::Cell;
use std::path::Path;

use plan_ledger::Run;

use crate::protocol::{is_unapproved, no_judge_text};

/// The checking commands that a loop executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandChecks {
    /// All of them: the workers of the loop only simulate them.
    Simulated,
    /// Those that a person approved.
    Approved,
    /// None: the loop is in the shell of an agent session.
    Never,
}

/// The decision of one loop, and its reports about it.
#[derive(Debug)]
pub(crate) struct CommandGate {
    checks: CommandChecks,
    /// Whether the commands of a version are unapproved, according to the last check.
    seen: Cell<Option<SeenApproval>>,
    /// The version for which it reported that it does not run the commands.
    told: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SeenApproval {
    /// The active version, and how many versions have an approval.
    of: (u32, usize),
    is_unapproved: bool,
}

impl CommandGate {
    pub(crate) fn new(checks: CommandChecks) -> Self {
        Self { checks, seen: Cell::new(None), told: None }
    }

    /// Whether the checking commands of the active version, which has some, are left to another process.
    pub(crate) fn leaves(&self, run: &Run) -> bool {
        match self.checks {
            CommandChecks::Simulated => false,
            CommandChecks::Approved => self.is_unapproved(run),
            CommandChecks::Never => !plan_ledger::mutant!(RunnerChecksInSession),
        }
    }

    /// The plan is read once for each version and approval.
    fn is_unapproved(&self, run: &Run) -> bool {
        let approvals = run.versions.iter().filter(|version| version.commands.is_some()).count();
        let of = (run.active, approvals);
        if let Some(seen) = self.seen.get().filter(|seen| seen.of == of) {
            return seen.is_unapproved;
        }
        let is_unapproved = is_unapproved(run);
        self.seen.set(Some(SeenApproval { of, is_unapproved }));
        is_unapproved
    }

    /// Reports once for a version that its commands are left to another process, with the remedy. Also `None` if a
    /// judge is at work.
    pub(crate) fn tell(&mut self, run: &Run, ledger: &Path) -> Option<String> {
        if self.told == Some(run.active) {
            return None;
        }
        let text = no_judge_text(ledger, run)?;
        self.told = Some(run.active);
        let why = match self.checks {
            CommandChecks::Never => "a runner in an agent session runs no checking commands; ",
            CommandChecks::Simulated | CommandChecks::Approved => "",
        };
        Some(format!("{why}{text}"))
    }
}
