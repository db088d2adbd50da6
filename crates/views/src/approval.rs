//! Finds out whether a person approved the commands that a run executes.
//!
//! An approval is by hash and for one run and its forks: a judge runs the commands of a version only if a person
//! approved them there, and another version with the same commands needs no other approval.

use plan_ledger::internals::ledger::commands_hash;
use plan_ledger::plan::{CommandsApproval, ExecutedPart, PlanVersion};
use plan_ledger::{ContentHash, Run};

/// The hash of the commands of the active version, if it has any.
#[must_use]
pub fn commands_of(run: &Run) -> Option<ContentHash> {
    commands_hash(&run.plan()?.decode())
}

/// The approval of the commands of the active version, if it has any and a person approved them.
#[must_use]
pub fn approval_of(run: &Run) -> Option<&CommandsApproval> {
    // Without an approval no plan is read.
    run.numbered_versions().find(|(_, version)| version.commands.is_some())?;
    run.approved_commands(commands_of(run)?)
}

/// The hash of the commands of the active version, if no person approved them.
#[must_use]
pub fn unapproved_commands(run: &Run) -> Option<ContentHash> {
    let hash = commands_of(run)?;
    plan_ledger::mutant!(UnapprovedCommandsRun => return None);
    run.approved_commands(hash).is_none().then_some(hash)
}

/// Whether no person approved the commands of the active version, which has some. Where its own records say it, no
/// plan is read.
#[must_use]
pub fn is_unapproved(run: &Run) -> bool {
    if run.active_version().is_some_and(|version| version.commands.is_some()) {
        return false;
    }
    run.numbered_versions().all(|(_, version)| version.commands.is_none())
        || unapproved_commands(run).is_some()
}

/// The commands of the active version of a run.
#[must_use]
pub fn commands_of_active(run: &Run) -> Vec<String> {
    run.active_version().map(commands_of_version).unwrap_or_default()
}

/// The commands that a version of a plan executes.
#[must_use]
pub fn commands_of_version(version: &PlanVersion) -> Vec<String> {
    let parts = version.plan.decode().executed();
    parts.iter().filter_map(ExecutedPart::command).map(str::to_owned).collect()
}
