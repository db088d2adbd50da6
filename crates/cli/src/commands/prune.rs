//! `ledger prune`: deletes the oldest segments.
//!
//! Nothing is deleted without `--yes`; without it, the command prints exactly what would be
//! deleted. The JSON line is described in `format/cli-json.md`.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::{PrunePreview, RetentionLimit};
use plan_ledger::{Environment, LedgerView};

use crate::options::{ByOption, LedgerFolder, environment};
use crate::output::{Code, Failure, print_answer, print_line, print_message, print_text};
use crate::requests::{PruneRequest, PrunedSegments};
use crate::server::Client;

const EXAMPLES: &str = "\
Examples:
  ledger prune .ledger --ended                     show the segments whose runs have all ended
  ledger prune .ledger --through 120000            show the segments up to record 120000
  ledger prune .ledger --ended --yes --by ana      delete them
  ledger archive .ledger --to old.tar --prune --yes
                                                   the same, but keep them in a file

Nothing is deleted without --yes. What remains starts from two snapshots, which are first compared
with the log, and the log records what was deleted. `ledger snapshot` writes suitable snapshots; of
the automatic ones, only those at multiples of 65,536 records are suitable. The lock holder prunes.
To keep the history, archive it first.";

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
    author: ByOption,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
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
}

pub(crate) fn prune(args: &PruneArgs) -> Result<Code, Failure> {
    let dir = args.folder.dir()?;
    let extent = args.extent.through.map_or(RetentionLimit::EndedRuns, RetentionLimit::Record);
    if args.yes {
        let request = PruneRequest { extent, archive: None, by: args.author.by.clone() };
        let answer = Client::new(&dir, &environment()).call(&request.into())?;
        return print_answer(args.json, &answer);
    }
    let plan = LedgerView::open(&dir, &Environment::system())?.preview_prune(extent)?;
    print_plan(&plan, args.json)?;
    if !args.json {
        print_message("nothing was deleted: add --yes to delete it");
    }
    Ok(Code::Success)
}

/// What a prune would delete; nothing was deleted.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PrunePlanLine {
    #[serde(flatten)]
    plan: PrunedSegments,
}

/// Prints what would be deleted.
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
