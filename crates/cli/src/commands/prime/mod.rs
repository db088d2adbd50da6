//! `ledger prime`: the facts that an agent needs to continue, in at most 2 KiB.
//!
//! An agent loses its context when a session starts, resumes or is compacted. The prime is the text
//! that gives the plan back: the progress of the run, the claims, the items for a person, the next
//! steps, and how to work on them.
//!
//! Invariants:
//! - It takes no lock and writes nothing, so a lock holder that hangs delays no session.
//! - The same records give the same prime, except for elapsed times.
//! - A folder without a ledger is not an error: most sessions have none.

mod read;

pub(crate) use plan_ledger_views::{PRIME_LENGTH_MAX, PrimeLine, prime_text};
pub(crate) use read::{ReadFrom, read_prime};

use clap::Args;

use crate::commands::store::source::environment_for;
use crate::options::{LedgerArgs, RunArg, environment};
use crate::output::{Code, Failure, is_for_agent, print_line, print_text, shell_command};
use crate::server::gone_ledger_text;

const EXAMPLES: &str = "\
Examples:
  ledger prime                                     the run, what is claimed, what is next
  ledger prime my-plan --json

It is the text that `ledger hook` gives to an agent when a session starts and after a compaction.
It takes no lock. Without a ledger, or where one is gone, it prints one line. Exit code 0 in any case, except for a run
that does not exist.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PrimeArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    run: RunArg,
}

pub(crate) fn prime(args: &PrimeArgs) -> Result<Code, Failure> {
    let dir = args.ledger.dir();
    if let Some(text) = gone_ledger_text(dir, is_for_agent()) {
        if args.ledger.json.0 {
            print_line(&PrimeLine { damage: Some(text), ..PrimeLine::default() })?;
        } else {
            print_text(&format!("plan-ledger: {text}\n"))?;
        }
        return Ok(Code::Success);
    }
    // An archive is a file.
    let read = if dir.exists() {
        let read = ReadFrom::open(dir, &environment_for(dir, &environment())?)?;
        Some(read_prime(&read, args.run.name())?)
    } else {
        None
    };
    match (&read, args.ledger.json.0) {
        (Some(line), true) => print_line(line)?,
        (None, true) => print_line(&PrimeLine::default())?,
        (Some(line), false) => print_text(&prime_text(line, PRIME_LENGTH_MAX))?,
        (None, false) => {
            let init = shell_command("init", dir, &[]);
            print_text(&format!("there is no ledger here; `{init}` creates one\n"))?;
        }
    }
    Ok(Code::Success)
}
