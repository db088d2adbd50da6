//! `ledger prune`: deletes the oldest segments.
//!
//! Without `--yes`, the command deletes nothing and prints exactly what it would delete. The JSON
//! line is described in `format/cli-json.md`.

use std::path::Path;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::{LedgerTime, PrunePreview, RetentionLimit};
use plan_ledger::log::LogItem;
use plan_ledger::{Environment, LedgerView};

use crate::options::{AsJson, Author, LedgerFolder, environment, parse_seconds};
use crate::output::{Code, Failure, print_answer, print_line, print_message, print_text};
use crate::requests::{PruneRequest, PrunedSegments};
use crate::server::Client;

const EXAMPLES: &str = "\
Examples:
  ledger prune .ledger --ended                     show the segments whose runs have all ended
  ledger prune .ledger --through 120000            show the segments up to record 120000
  ledger prune .ledger --older-than 30d --yes      a policy for cron: keep the last 30 days
  ledger prune .ledger --ended --yes --by ana      delete them
  ledger archive .ledger --to old.tar --prune --yes
                                                   the same, but keep them in a file

Nothing is deleted without --yes, or by itself. What remains starts from two snapshots, which are
written if they are missing, and compared with the log; the log records what was deleted. The lock
holder prunes. To keep the history, archive it first.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    folder: LedgerFolder,
    #[command(flatten)]
    extent: ExtentArgs,
    /// Delete; without this, only show what would be deleted
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    json: AsJson,
}

/// The segments to prune.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct ExtentArgs {
    /// All whole segments up to this record
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    through: Option<u64>,
    /// All segments before the first one with a record of a run that has not ended
    #[arg(long)]
    ended: bool,
    /// The same, but only segments whose records are all older than this: 30d, 12h
    #[arg(long, value_name = "DURATION", value_parser = parse_seconds)]
    older_than: Option<u64>,
}

impl ExtentArgs {
    fn limit(&self, dir: &Path) -> Result<RetentionLimit, Failure> {
        Ok(match (self.through, self.older_than) {
            (Some(last), _) => RetentionLimit::Record(last),
            (None, Some(seconds)) => RetentionLimit::EndedRunsUpTo(last_before(dir, seconds)?),
            (None, None) => RetentionLimit::EndedRuns,
        })
    }
}

/// The last record that is older than this many seconds; 0 without one.
fn last_before(dir: &Path, seconds: u64) -> Result<u64, Failure> {
    let environment = Environment::system();
    let view = LedgerView::open(dir, &environment)?;
    let now = LedgerTime::of(view.log(), &environment).now;
    let time = now.saturating_sub(seconds.saturating_mul(1_000_000));
    let mut last = 0;
    for item in view.log().walk(1) {
        match item? {
            // Times never decrease.
            LogItem::Record(record, _) if record.time > time => break,
            LogItem::Record(record, _) => last = record.seq,
            _ => {}
        }
    }
    Ok(last)
}

pub(crate) fn prune(args: &PruneArgs) -> Result<Code, Failure> {
    let dir = args.folder.dir()?;
    let extent = args.extent.limit(&dir)?;
    if args.yes {
        let request = PruneRequest { extent, archive: None, by: args.author.clone() };
        let answer = Client::new(&dir, &environment()).call(&request.into())?;
        return print_answer(args.json.0, &answer);
    }
    let view = LedgerView::open(&dir, &Environment::system())?;
    if !args.json.0 && view.prune_needs_snapshots(extent)? {
        print_message(
            "segments can be deleted; --yes first writes the snapshots that replace them",
        );
        return Ok(Code::Success);
    }
    print_plan(&view.preview_prune(extent)?, args.json.0)?;
    if !args.json.0 {
        print_message("nothing was deleted: add --yes to delete it");
    }
    Ok(Code::Success)
}

/// The segments that a prune would delete; nothing was deleted.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct PrunePlanLine {
    #[serde(flatten)]
    plan: PrunedSegments,
}

/// Prints the segments that would be deleted.
pub(super) fn print_plan(plan: &PrunePreview, as_json: bool) -> Result<(), Failure> {
    let plan = PrunedSegments::of(plan);
    if as_json {
        print_line(&PrunePlanLine { plan })
    } else {
        let mut text = String::new();
        // Writing into a text does not fail.
        let _ = plan.write_text(&mut text, "would prune");
        print_text(&format!("{text}\n"))
    }
}
