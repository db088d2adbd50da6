//! `ledger prune`: remove the oldest segments, on command only.
//!
//! Invariants: nothing is removed without `--yes`; without it, exactly what would be removed is
//! printed. The JSON line is described in `format/cli-json.md`.

use clap::Args;

use crate::server::{Act, Extent, Prune, hand_over, prune_json, prune_text};
use plan_ledger::ledger::{Environment, LedgerView, PrunePlan};

use super::acting::{self, print_answer};
use super::exit::{Code, Failure};
use super::folder::Folder;
use super::{answer_with, print, say};

const EXAMPLES: &str = "\
Examples:
  ledger prune .ledger --ended                     what could go: all segments whose runs have ended
  ledger prune .ledger --through 120000            what could go up to record 120000
  ledger prune .ledger --ended --yes --by ana      remove it
  ledger archive .ledger --to old.tar --prune --yes
                                                   the same, but keep it in a file

Nothing is removed without --yes. What is left stands on two snapshots, which are compared with the
log before anything goes (`ledger snapshot` makes them; of those that are made by themselves only
the ones at multiples of 65,536 records will do), and on a note in the log that says what went. Whoever holds the ledger does it. Whoever needs the history of what is pruned makes an archive
of it first.";

/// `ledger prune`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PruneArgs {
    #[command(flatten)]
    folder: Folder,
    #[command(flatten)]
    extent: ExtentArgs,
    /// Do it; without this, only what would go is printed
    #[arg(long)]
    yes: bool,
    /// Who asks for it, for the note in the log
    #[arg(long, value_name = "WHO", default_value = "operator")]
    by: String,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// How far a prune goes.
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

pub(super) fn prune(args: &PruneArgs) -> Result<Code, Failure> {
    let dir = args.folder.dir()?;
    let extent = args.extent.through.map_or(Extent::Ended, Extent::Record);
    if args.yes {
        let act = Act::Prune { extent, archive: None, by: args.by.clone() };
        return print_answer(args.json, &hand_over(&dir, &act, &acting::environment())?);
    }
    let plan = LedgerView::open(&dir, &Environment::system())?.plan_prune(extent.into())?;
    tell_planned(&plan, args.json)?;
    if !args.json {
        say("nothing was removed: --yes does it");
    }
    Ok(Code::Fine)
}

/// Print what would go.
pub(super) fn tell_planned(plan: &PrunePlan, as_json: bool) -> Result<(), Failure> {
    if as_json {
        print(&format!("{}\n", prune_json(plan, Prune::Planned)))
    } else {
        answer_with(&prune_text(plan, Prune::Planned))
    }
}
