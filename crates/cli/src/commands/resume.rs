//! `ledger resume`: starts the last runner of a ledger again.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;

use plan_ledger::LedgerView;

use crate::commands::last_runner::{LastRunner, RunnerStatus};
use crate::options::{LEDGER_NAME, LedgerOption, environment};
use crate::output::{Code, Failure, escape_control, escape_path, print_message, print_text};

const EXAMPLES: &str = "\
Examples:
  ledger resume                                    continue where the last runner stopped
  ledger resume --show                             print its command line and do nothing

It repeats the last `ledger run` of this ledger, with its options, in its working folder. The command
line is kept in your state folder (XDG_STATE_HOME), never in the ledger. If the ledger has moved since,
it is shown first, and --yes starts it. To start the steps of a paused run, use `ledger unpause`.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    place: LedgerOption,
    /// Print the command line, and do nothing
    #[arg(long)]
    show: bool,
    /// Start it without asking, even if the ledger has moved
    #[arg(long)]
    yes: bool,
}

pub(crate) fn resume(args: &ResumeArgs) -> Result<Code, Failure> {
    let dir = &args.place.dir;
    let view = LedgerView::open(dir, &environment())?;
    let last = match RunnerStatus::of(dir, view.log()) {
        RunnerStatus::AtWork(process) if !args.show => {
            return Err(Failure::Rejected(format!(
                "a runner is at work: {process}\nhint: `ledger status` shows what it does"
            )));
        }
        RunnerStatus::Absent(Some(last)) => last,
        _ => crate::commands::last_runner::ledger_id(view.log())
            .and_then(|id| LastRunner::of(&id))
            .ok_or_else(|| {
                Failure::Usage(format!(
                    "no earlier runner of {} is known to this user\nhint: start one with `ledger run \
                     PLAN`, with the options that the earlier one had",
                    escape_path(dir)
                ))
            })?,
    };
    let line = escape_control(&last.command());
    let folder = escape_path(&last.working_dir);
    if args.show {
        print_message(&format!("in {folder}:"));
        print_text(&format!("{line}\n"))?;
        return Ok(Code::Success);
    }
    let found = dir.canonicalize().unwrap_or_default();
    if found != last.ledger && !args.yes {
        let moved = format!("the ledger was at {} then", escape_path(&last.ledger));
        confirm(&format!("{moved}; in {folder}: {line}"))?;
    }
    print_message(&format!("in {folder}: {line}"));
    let program = std::env::current_exe().map_err(Failure::Output)?;
    let mut command = Command::new(program);
    command.args(&last.arguments).current_dir(&last.working_dir);
    // Where the runner finds the ledger by itself, its messages need not name it.
    if found == last.working_dir.join(LEDGER_NAME) {
        command.env_remove("LEDGER_DIR");
    } else {
        command.env("LEDGER_DIR", found);
    }
    let error = command.exec();
    Err(Failure::Usage(format!("cannot start it in {folder}: {error}")))
}

/// Asks on a terminal whether to continue.
fn confirm(what: &str) -> Result<(), Failure> {
    if io::stdin().is_terminal() {
        print_message(&format!("{what}; start it? [y/N]"));
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map_err(Failure::Output)?;
        if matches!(line.trim(), "y" | "Y" | "yes") {
            return Ok(());
        }
        return Err(Failure::Rejected("it was not started".to_owned()));
    }
    Err(Failure::Rejected(format!("{what}\nhint: add --yes to start it")))
}
