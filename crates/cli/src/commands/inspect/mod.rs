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
//! Left out on purpose: anything that changes a ledger.

mod actions;
mod constants;
mod content;
mod control_json;
mod control_phrase;
mod domain;
mod event_json;
#[cfg(test)]
mod event_tests;
mod explain;
mod export;
mod filter;
mod head;
mod map;
mod other_runs;
mod page;
mod phrase;
mod record;
mod records;
mod reference;
mod regions;
mod run_json;
mod segments;
mod snapshots;
mod step;
mod step_json;
mod step_text;
mod summary;
mod survey;
mod text;

pub(super) use actions::next_action;
pub(super) use content::meaning;
pub(crate) use domain::StatusArgs;
pub(super) use survey::newest_state;

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand};

use plan_ledger::ledger::{BlobCheck, Environment, LedgerView};

use super::blobs;
use super::verify::{VerifyOptions, VerifyTarget, verify_ledger};
use crate::options::{LedgerFolder, environment_for};
use crate::output::{Code, Failure};
use page::Page;
use text::Style;

const EXAMPLES: &str = "\
Examples:
  ledger inspect                                   runs, what is in flight, what is next, health
  ledger inspect .ledger records --from 120        what happened from record 120 on
  ledger inspect .ledger records --kind receipt_recorded --run my-plan
  ledger inspect .ledger step my-plan '#37'        what is step 37?
  ledger inspect .ledger why my-plan deploy        what it waits for, and what to type
  ledger inspect .ledger timeline my-plan          who worked when, and how it ended
  ledger inspect old.tar records                   what is in an archive
  ledger inspect .ledger --json | jq -c 'select(.type == \"run\") | .next'

The first word is a folder, unless it is one of the commands: write ./records for a folder of that
name. It takes no lock and writes nothing, and may be used while a run goes on. A ledger that is
damaged is shown as far as it can be read; the exit code is then 4.";

/// `ledger inspect`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    folder: LedgerFolder,
    /// Print JSON Lines, as format/inspect-json.md describes them
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    what: Option<What>,
}

/// What to look at; the help of each is that of its arguments.
#[derive(Debug, Subcommand)]
enum What {
    Summary(SummaryArgs),
    Records(filter::RecordsArgs),
    Record(record::RecordArgs),
    Segments(segments::SegmentsArgs),
    Head(head::HeadArgs),
    Snapshots(snapshots::SnapshotsArgs),
    Blobs(BlobsArgs),
    Verify(VerifyOptions),
    Constants(constants::ConstantsArgs),
    Export(export::ExportArgs),
    Map(map::MapArgs),
    Explain(explain::ExplainArgs),
    Step(step::StepArgs),
    #[command(flatten)]
    Domain(domain::DomainWhat),
}

const SUMMARY_EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger                           the same
  ledger inspect .ledger summary --json | jq -c 'select(.type == \"run\") | .next'";

/// Runs, what is in flight, what is next, and how the log is; what is shown if nothing is named
#[derive(Debug, Args)]
#[command(after_help = SUMMARY_EXAMPLES)]
struct SummaryArgs {}

const BLOBS_EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger blobs
  ledger inspect .ledger blobs --check --json | jq -c 'select(.state != \"ok\")'

`ledger blobs DIR --collect` removes those that no record names.";

/// The outputs that lie beside the log; as `ledger blobs DIR`
#[derive(Debug, Args)]
#[command(after_help = BLOBS_EXAMPLES)]
struct BlobsArgs {
    /// Read every blob and compare its hash
    #[arg(long)]
    check: bool,
}

/// Where one looks, and for whom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look<'a> {
    dir: &'a Path,
    form: Form,
    environment: &'a Environment,
}

/// Look at a ledger and print what is there.
///
/// # Errors
/// `Usage` for a run or step that is not there, and the ledger's own: a folder that is not a
/// ledger, and what the operating system says. Damage is no error, but has its own code. A reader
/// of the output that went away is no error either.
pub(crate) fn inspect(
    args: &InspectArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Code, Failure> {
    let dir = args.folder.dir()?;
    paged(&dir, args.json, environment, out, |look, page| match &args.what {
        None | Some(What::Summary(_)) => {
            summary::summary(look.dir, look.form, look.environment, page)
        }
        Some(What::Records(what)) => records::records(what, look, page),
        Some(What::Record(what)) => record::record(what, look, page),
        Some(What::Segments(_)) => segments::segments(look, page),
        Some(What::Head(_)) => head::head(look, page),
        Some(What::Snapshots(_)) => snapshots::snapshots(look, page),
        Some(What::Blobs(what)) => {
            let check = if what.check { BlobCheck::Content } else { BlobCheck::Presence };
            blobs::list(look.dir, check, args.json, None, look.environment, page.out())
        }
        Some(What::Verify(options)) => {
            let target = VerifyTarget { dir: look.dir, options, json: args.json };
            verify_ledger(target, look.environment, page.out())
        }
        Some(What::Export(what)) => export::export(look.dir, what, look.environment, page.out()),
        Some(What::Constants(_)) => constants::constants(look, page),
        Some(What::Map(what)) => map::map(what, look, page),
        Some(What::Explain(what)) => explain::explain(what, look, page),
        Some(What::Step(what)) => step::step(what, look, page),
        Some(What::Domain(what)) => domain::answer(what, look, page),
    })
}

/// `ledger status`: the views of `inspect`, one command away.
///
/// # Errors
/// As [`inspect`].
pub(crate) fn status(
    args: &StatusArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Code, Failure> {
    let dir = args.folder.dir()?;
    let look = |out: &mut dyn Write| {
        paged(&dir, args.json, environment, out, |look, page| domain::status(args, look, page))
    };
    if !args.watch {
        return look(out);
    }
    let is_screen = !args.json && io::stdout().is_terminal();
    let mut seen = None;
    loop {
        let state = LedgerView::open(&dir, environment)?.fold_recent()?.state;
        // Nothing is unpacked for it: whether all can be, is for the look to find.
        let goes_on = state.runs.open().next().is_some();
        if seen.replace(state.seq) != Some(state.seq) {
            let mut text = Vec::new();
            if is_screen {
                text.extend_from_slice(CLEAR);
            }
            let code = look(&mut text)?;
            match out.write_all(&text).and_then(|()| out.flush()) {
                // Whoever watched has gone.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Code::Fine),
                written => written.map_err(Failure::Output)?,
            }
            if !goes_on {
                return Ok(code);
            }
        }
        std::thread::sleep(WATCH_AGAIN);
    }
}

/// Between two looks at a ledger that is watched.
const WATCH_AGAIN: Duration = Duration::from_millis(250);

/// Home, and nothing on the screen.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// What looks at a ledger, and the page that it writes to.
fn paged(
    dir: &Path,
    as_json: bool,
    environment: &Environment,
    out: &mut dyn Write,
    look: impl FnOnce(Look<'_>, &mut Page<'_>) -> Result<Code, Failure>,
) -> Result<Code, Failure> {
    let environment = &environment_for(dir, environment)?;
    let style = if as_json { Style::PLAIN } else { Style::of_stdout() };
    let mut out = BufWriter::new(out);
    let mut page = Page::new(&mut out, style);
    let form = if as_json { Form::Json } else { Form::Text };
    let outcome = look(Look { dir, form, environment }, &mut page);
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
