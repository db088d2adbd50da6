//! Whether a person approved what a run executes.
//!
//! An approval is by hash and for one run: a judge runs the commands of a version only if a person approved them in
//! that run, and another version with the same commands needs no other approval.

use plan_ledger::internals::ledger::commands_hash;
use plan_ledger::{ContentHash, Run};

/// The hash of the commands of the active version, if it has any.
pub(crate) fn commands_of(run: &Run) -> Option<ContentHash> {
    commands_hash(&run.plan()?.decode())
}

/// The hash of the commands of the active version, if no person approved them.
pub(crate) fn unapproved_commands(run: &Run) -> Option<ContentHash> {
    let hash = commands_of(run)?;
    plan_ledger::mutant!(UnapprovedCommandsRun => return None);
    run.approved_commands(hash).is_none().then_some(hash)
}

/// Whether no person approved the commands of the active version, which has some. Where its own records say it, no
/// plan is read.
pub(crate) fn is_unapproved(run: &Run) -> bool {
    if run.active_version().is_some_and(|version| version.commands.is_some()) {
        return false;
    }
    run.versions.iter().all(|version| version.commands.is_none())
        || unapproved_commands(run).is_some()
}
