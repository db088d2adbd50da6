//! Asks before a run executes criteria that were read as commands.
//!
//! The form of a native plan says what is a command, so only the files of other tools are asked
//! about. A command is asked about once in a ledger: it is approved with the plan version that has it.

use std::collections::BTreeSet;
use std::io::{self, BufRead, IsTerminal, Write};

use plan_ledger::internals::files::PlanFile;
use plan_ledger::internals::plan::{CompactStep, Criterion, PlanVersion, Review};
use plan_ledger::{Environment, LedgerView, Run};

use crate::output::Failure;
use crate::protocol::counted;

use super::args::RunArgs;

/// Refuses a plan with commands that no person has approved. The commands were printed before.
pub(super) fn approve_commands(imported: &PlanFile, args: &RunArgs) -> Result<(), Failure> {
    let is_open = |id: &String| {
        args.fresh || !(imported.done.contains_key(id) || imported.skipped.contains_key(id))
    };
    let open = imported.commands.iter().filter(|each| each.step.as_ref().is_none_or(is_open));
    let mut commands: BTreeSet<&str> = open.map(|each| each.command.as_str()).collect();
    // Stub workers execute nothing.
    if commands.is_empty() || args.yes || args.stub {
        return Ok(());
    }
    let known = approved_commands(args);
    commands.retain(|command| !known.contains(*command));
    if commands.is_empty() {
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
        args.plan.display()
    )))
}

fn ask() -> Result<bool, Failure> {
    let mut err = io::stderr().lock();
    // Without a terminal to write to, there is no answer either.
    let _ = write!(err, "execute these commands as checks? [y/N] ").and_then(|()| err.flush());
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(Failure::Output)?;
    Ok(["y", "yes"].contains(&line.trim().to_lowercase().as_str()))
}

/// The command criteria of the plan versions in this ledger that became active or that a person
/// approved.
fn approved_commands(args: &RunArgs) -> BTreeSet<String> {
    let view = LedgerView::open(&args.ledger, &Environment::system());
    let Some(fold) = view.ok().and_then(|view| view.fold(u64::MAX).ok()) else {
        return BTreeSet::new();
    };
    let of_run = |run: &Run| {
        let is_approved = |number: u32, version: &PlanVersion| {
            number == run.active || version.review == Some(Review::Approved)
        };
        let versions = (1..).zip(&run.versions);
        let versions = versions.filter(|(number, version)| is_approved(*number, version));
        versions.flat_map(|(_, version)| commands_of(version)).collect::<Vec<_>>()
    };
    fold.state.runs.values().flat_map(of_run).collect()
}

fn commands_of(version: &PlanVersion) -> Vec<String> {
    let of_steps = version.plan.steps().flat_map(CompactStep::acceptance);
    let criteria = of_steps.chain(version.plan.header().test_criteria.iter().cloned());
    let command = |criterion| match criterion {
        Criterion::Command(command) => Some(command),
        Criterion::Text(_) | Criterion::Cel(_) => None,
    };
    criteria.filter_map(command).collect()
}
