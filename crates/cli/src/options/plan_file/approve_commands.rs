//! Asks before a run may execute commands of a file of another tool: criteria that were read as commands,
//! and commands in the native form.
//!
//! A native plan marks its commands as such, so the question is only about files of other tools.
//! Each command needs one approval in a ledger, together with the plan version that has it. In the
//! shell of an agent session nothing is approved, unless the owner of the ledger allowed it.

use std::collections::BTreeSet;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use plan_ledger::{Environment, LedgerView};
use plan_ledger_files::PlanFile;

use crate::output::Failure;
use crate::protocol::counted;
use crate::runner::approved_commands;
use crate::server::{AgentSession, agents_may_decide};

/// The commands to approve, and their context.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandApproval<'a> {
    /// The plan file, for messages.
    pub(crate) plan: &'a Path,
    /// The ledger with commands that are approved already and need no question.
    pub(crate) ledger: &'a Path,
    /// Whether the command line approves all of them.
    pub(crate) yes: bool,
}

/// Refuses a plan with commands that no person has approved. The commands were printed before.
/// `is_open` says which steps are not finished.
pub(crate) fn approve_commands(
    imported: &PlanFile,
    is_open: impl Fn(&String) -> bool,
    approval: CommandApproval<'_>,
) -> Result<(), Failure> {
    let open = imported.commands.iter().filter(|each| each.step.as_ref().is_none_or(&is_open));
    let mut commands: BTreeSet<&str> = open.map(|each| each.command.as_str()).collect();
    if commands.is_empty() {
        return Ok(());
    }
    let known = known_commands(approval.ledger);
    commands.retain(|command| !known.contains(*command));
    if commands.is_empty() {
        return Ok(());
    }
    // The approval must come from a person: an agent that may start a run may not approve its
    // commands.
    let session = AgentSession::of_environment();
    if let Some(session) = session.filter(|it| !agents_may_decide(approval.ledger, it.host)) {
        return Err(Failure::AgentSession { session: session.name });
    }
    if approval.yes {
        return Ok(());
    }
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        let message = || Failure::Rejected("the commands were not approved".to_owned());
        return if ask()? { Ok(()) } else { Err(message()) };
    }
    let count = u64::try_from(commands.len()).unwrap_or(u64::MAX);
    let what = counted(count, "command");
    let (is, it) = if count == 1 { ("is", "it") } else { ("are", "them") };
    Err(Failure::Usage(format!(
        "{}: {what} of the file {is} not approved\nhint: add --yes to let the run execute {it} as \
         listed",
        approval.plan.display()
    )))
}

fn ask() -> Result<bool, Failure> {
    let mut err = io::stderr().lock();
    // Without a terminal to write to, there is no answer either.
    let _ = write!(err, "execute these commands? [y/N] ").and_then(|()| err.flush());
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(Failure::Output)?;
    Ok(["y", "yes"].contains(&line.trim().to_lowercase().as_str()))
}

/// The commands that were approved in a ledger.
fn known_commands(ledger: &Path) -> BTreeSet<String> {
    let view = LedgerView::open(ledger, &Environment::system());
    let fold = view.and_then(|view| view.fold(u64::MAX));
    fold.map(|fold| approved_commands(&fold.state)).unwrap_or_default()
}
