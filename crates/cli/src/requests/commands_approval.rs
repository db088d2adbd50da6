//! The approval of the commands of a run, by the person who approves a version of its plan.

use plan_ledger::plan::CommandsApproval;
use plan_ledger::{Command, Run};

use crate::protocol::{Peer, commands_of};

use super::actor::Actor;

/// The approval of the commands of the active version, to be run in the folder of the approving
/// process; `None` if a person approved them there before. An agent that may decide can approve a
/// plan, but not the commands of a judge.
pub(super) fn approval_of_commands(run: &Run, by: &str, peer: &Peer) -> Option<Command> {
    if !matches!(Actor::of(by), Actor::Named(_)) {
        return None;
    }
    let hash = commands_of(run)?;
    let folder = match peer {
        Peer::Here(process) => process.folder.clone(),
        Peer::Gone(_) | Peer::Elsewhere => None,
    };
    let known = run.approved_commands(hash);
    if known.is_some_and(|known| folder.is_none() || known.folder == folder) {
        return None;
    }
    let commands = CommandsApproval { hash, by: by.to_owned(), folder };
    Some(Command::ApproveCommands { run: run.id, version: run.active, commands })
}
