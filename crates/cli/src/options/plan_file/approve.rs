//! Asks before a run may dispatch a plan file for the first time: which reading of the file it takes, if there are
//! two, and whether it may execute the commands of a file of another tool (criteria that were read as commands, and
//! commands in the native form).
//!
//! A native plan has one reading and marks its commands as such, so the questions are only about files of other tools.
//! Both are one question. Each command needs one approval in a ledger, together with the plan version that has it.
//! In the shell of an agent session no command is approved, unless the owner of the ledger allowed it.

use std::collections::BTreeSet;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use plan_ledger::{Environment, LedgerView};
use plan_ledger_files::{FileReading, PlanFile, Reading};

use crate::output::{Failure, quoted};
use crate::protocol::counted;
use crate::runner::approved_commands;
use crate::server::{AgentSession, agents_may_decide};

/// A plan file to approve, and its context.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Approval<'a> {
    /// The plan file, for messages.
    pub(crate) plan: &'a Path,
    /// The ledger with commands that are approved already and need no question.
    pub(crate) ledger: &'a Path,
    /// Whether the command line takes the default reading, and approves all commands.
    pub(crate) yes: bool,
    /// Whether the reading was selected, now or for a version of the run's plan.
    pub(crate) is_read: bool,
}

/// Refuses a plan with commands that no person has approved, or with a second reading if none was selected. Both were
/// printed before. Returns another reading if a person selects one: the file is to be read in it, and to be
/// approved again. `is_open` says which steps are not finished.
pub(crate) fn approve(
    imported: &PlanFile,
    is_open: impl Fn(&String) -> bool,
    approval: Approval<'_>,
) -> Result<Option<Reading>, Failure> {
    let is_read = approval.is_read || plan_ledger::mutant!(ReadingNotAsked);
    let readings = if is_read { &[] } else { imported.readings.as_slice() };
    let commands = unapproved(imported, is_open, approval.ledger);
    if commands > 0 {
        // The approval must come from a person: an agent that may start a run may not approve its
        // commands.
        let session = AgentSession::of_environment();
        if let Some(session) = session.filter(|it| !agents_may_decide(approval.ledger, it.host)) {
            return Err(Failure::AgentSession { session: session.name });
        }
    }
    if commands == 0 && readings.is_empty() || approval.yes {
        return Ok(None);
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::Usage(refusal(readings, commands, approval.plan)));
    }
    let answer = ask(&question(readings, commands))?;
    if ["y", "yes"].contains(&answer.as_str()) {
        return Ok(None);
    }
    let selected = readings.iter().find(|each| each.reading.name() == answer);
    let rejected = || {
        let what =
            if commands > 0 { "the commands were not approved" } else { "no reading was selected" };
        Failure::Rejected(what.to_owned())
    };
    selected.map(|each| Some(each.reading)).ok_or_else(rejected)
}

/// How many commands of open steps no person has approved in the ledger.
fn unapproved(imported: &PlanFile, is_open: impl Fn(&String) -> bool, ledger: &Path) -> u64 {
    let open = imported.commands.iter().filter(|each| each.step.as_ref().is_none_or(&is_open));
    let mut commands: BTreeSet<&str> = open.map(|each| each.command.as_str()).collect();
    if !commands.is_empty() {
        let known = known_commands(ledger);
        commands.retain(|command| !known.contains(*command));
    }
    u64::try_from(commands.len()).unwrap_or(u64::MAX)
}

/// The refusal without a terminal, with the command lines that continue.
fn refusal(readings: &[FileReading], commands: u64, plan: &Path) -> String {
    let (is, it) = if commands == 1 { ("is", "it") } else { ("are", "them") };
    let unapproved = format!("{} of the file {is} not approved", counted(commands, "command"));
    let plan = plan.display();
    let [default, others @ ..] = readings else {
        return format!(
            "{plan}: {unapproved}\nhint: add --yes to let the run execute {it} as listed"
        );
    };
    let all: Vec<String> = readings.iter().map(ToString::to_string).collect();
    let mut text = format!("{plan} can be read as {}", all.join(" or "));
    if commands > 0 {
        text = format!("{text}, and {unapproved}");
    }
    let other = others.iter().map(|other| {
        let name = other.reading.name();
        format!("`{}` takes {name}", own_command(&["--reading", name]))
    });
    let yes = format!("`{}` takes {}", own_command(&["--yes"]), default.reading);
    let executes =
        if commands > 0 { format!(" and executes {it} as listed") } else { String::new() };
    let all: Vec<String> = std::iter::once(format!("{yes}{executes}")).chain(other).collect();
    format!("{text}\nhint: {}", all.join(", "))
}

/// The command line of this process with more options.
fn own_command(options: &[&str]) -> String {
    let mut words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    words.splice(end..end, options.iter().map(|word| (*word).to_owned()));
    let words = words.iter().map(|word| format!(" {}", quoted(word)));
    std::iter::once("ledger".to_owned()).chain(words).collect()
}

/// The question on a terminal.
fn question(readings: &[FileReading], commands: u64) -> String {
    let [default, others @ ..] = readings else {
        return "execute these commands? [y/N] ".to_owned();
    };
    let others: Vec<&str> = others.iter().map(|other| other.reading.name()).collect();
    let execute = if commands > 0 { ", and execute these commands" } else { "" };
    format!("read it as {}{execute}? [y/N, or {}] ", default.reading, others.join(" or "))
}

fn ask(question: &str) -> Result<String, Failure> {
    let mut err = io::stderr().lock();
    // Without a terminal to write to, there is no answer either.
    let _ = write!(err, "{question}").and_then(|()| err.flush());
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(Failure::Output)?;
    Ok(line.trim().to_lowercase())
}

/// The commands that were approved in a ledger.
fn known_commands(ledger: &Path) -> BTreeSet<String> {
    let view = LedgerView::open(ledger, &Environment::system());
    let fold = view.and_then(|view| view.fold(u64::MAX));
    fold.map(|fold| approved_commands(&fold.state)).unwrap_or_default()
}
