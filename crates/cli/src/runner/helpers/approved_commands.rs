//! The commands of a ledger's plans that a person approved: they may be executed without a question.

use std::collections::BTreeSet;

use plan_ledger::plan::{CommandsApproval, PlanVersion, Review};
use plan_ledger::{ContentHash, Run, State};
use plan_ledger_views::commands_of_version;

/// The commands of the plan versions that became active or that a person approved.
pub(crate) fn approved_commands(state: &State) -> BTreeSet<String> {
    let of_run = |run: &Run| {
        let is_approved = |number: u32, version: &PlanVersion| {
            number == run.active || version.review == Some(Review::Approved)
        };
        let versions = (1..).zip(&run.versions);
        let versions = versions.filter(|(number, version)| is_approved(*number, version));
        versions.flat_map(|(_, version)| commands_of_version(version)).collect::<Vec<_>>()
    };
    state.runs.values().flat_map(of_run).collect()
}

/// The approval of commands by a person, to be run in the folder of this process.
pub(crate) fn approval_here(hash: ContentHash, by: &str) -> CommandsApproval {
    CommandsApproval { hash, by: by.to_owned(), folder: folder_here() }
}

/// The folder of this process: an approval allows a judge to run commands there.
pub(crate) fn folder_here() -> Option<String> {
    let folder = std::env::current_dir().and_then(|folder| folder.canonicalize()).ok();
    folder.and_then(|folder| folder.into_os_string().into_string().ok())
}
