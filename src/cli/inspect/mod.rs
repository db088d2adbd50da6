//! `ledger inspect`: what is in a ledger, for people and for programs.
//!
//! Invariants:
//! - It takes no lock and writes nothing: it may look at a ledger that a run holds, and at one
//!   that is damaged, cut short or half gone.
//! - Damage ends nothing: every command goes on as far as it can, says what is missing, and ends
//!   with the exit code for damage.
//! - Text out of plans, workers and files is made harmless before it is printed.
//! - The JSON lines are described in `format/inspect-json.md`, each with its schema's number.
//!
//! Left out on purpose: anything that changes a ledger; indexes and snapshots, so that every
//! command reads the log from its first record.

mod actions;
mod control_json;
mod control_phrase;
mod ended;
mod event_json;
#[cfg(test)]
mod event_tests;
mod page;
mod phrase;
mod records;
mod reference;
mod run_json;
mod step;
mod step_json;
mod step_text;
mod summary;
mod survey;
mod text;
mod why;

pub(super) use control_json::{asked_json, cause_json, limits_json, trigger_json};
pub(super) use control_phrase::{cause_text, cost_text, limits_text, subject_text};
pub(super) use records::meaning;

pub(super) use text::{counted, is_harmless, size, words};

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::ledger::{Environment, Kind};

use super::exit::{Code, Failure};
use page::Page;
use text::Style;

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger                           runs, what is in flight, what is next, health
  ledger inspect .ledger records --from 120        what happened from record 120 on
  ledger inspect .ledger records --kind receipt_recorded --run my-plan
  ledger inspect .ledger step my-plan 37           what is step 37?
  ledger inspect old.tar records                   what is in an archive
  ledger inspect .ledger --json | jq -c 'select(.type == \"run\") | .next'

It takes no lock and writes nothing, and may be used while a run goes on. A ledger that is
damaged is shown as far as it can be read; the exit code is then 4.";

/// `ledger inspect`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct InspectArgs {
    /// The ledger's folder, or an archive's file
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print JSON Lines, as format/inspect-json.md describes them
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// What happened: one line for each record, and damage where it stands
    Records(RecordsArgs),
    /// What is step 37: its plan, how it stands and why, and everything that happened to it
    Step(StepArgs),
}

const RECORDS_EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger records --from 100 --to 200
  ledger inspect .ledger records --kind dispatched --kind attempt_lost
  ledger inspect .ledger records --run my-plan --json | jq -c .event";

/// `ledger inspect DIR records`.
#[derive(Debug, Args)]
#[command(after_help = RECORDS_EXAMPLES)]
struct RecordsArgs {
    /// The first record
    #[arg(long, value_name = "SEQ", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    from: u64,
    /// The last record
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    to: Option<u64>,
    /// Only records of this kind, by name or number; may be given again
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Vec<u16>,
    /// Only records of this run, by name or number
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
}

const STEP_EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger step my-plan build        a step by its id
  ledger inspect .ledger step my-plan 37           by its id, or else by its number
  ledger inspect .ledger step my-plan '#37'        by its number
  ledger inspect .ledger step my-plan 37 --full    with whole outputs";

/// `ledger inspect DIR step`.
#[derive(Debug, Args)]
#[command(after_help = STEP_EXAMPLES)]
struct StepArgs {
    /// The run, by name or number
    #[arg(value_name = "RUN")]
    run: String,
    /// The step, by id or number (#37)
    #[arg(value_name = "STEP")]
    step: String,
    /// Print outputs and logs whole, however long
    #[arg(long)]
    full: bool,
}

fn kind(text: &str) -> Result<u16, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    number.or_else(|| Kind::named(text).map(Kind::number)).ok_or_else(|| {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        format!("there is no such kind; expected a number, or one of {}", names.join(", "))
    })
}

/// Look at a ledger and print what is there.
///
/// # Errors
/// `Usage` for a run or step that is not there, and the ledger's own: a folder that is not a
/// ledger, and what the operating system says. Damage is no error, but has its own code. A reader
/// of the output that went away is no error either.
pub(super) fn inspect(
    args: &InspectArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Code, Failure> {
    let environment = &crate::cli::at(&args.dir, environment)?;
    let style = if args.json { Style::PLAIN } else { Style::of_stdout() };
    let mut out = BufWriter::new(out);
    let mut page = Page::new(&mut out, style);
    let form = if args.json { Form::Json } else { Form::Text };
    let outcome = match &args.what {
        None => summary::summary(&args.dir, form, environment, &mut page),
        Some(What::Records(what)) => records::records(args, what, form, environment, &mut page),
        Some(What::Step(what)) => step::step(args, what, form, environment, &mut page),
    };
    match outcome.and_then(|code| page.flush().map(|()| code)) {
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Code::Fine),
        outcome => outcome,
    }
}

/// For whom the output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}
