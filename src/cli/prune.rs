//! `ledger prune`: remove the oldest segments, on command only.
//!
//! Invariants: nothing is removed without `--yes`; without it, exactly what would be removed is
//! printed. The JSON line is described in `format/cli-json.md`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::ledger::{Environment, LedgerView, PrunePlan, Through};

use super::exit::{Code, Failure};
use super::inspect::{counted, size};
use super::{answer_with, open, print, say};

const EXAMPLES: &str = "\
Examples:
  ledger prune .ledger --ended                     what could go: all segments whose runs have ended
  ledger prune .ledger --through 120000            what could go up to record 120000
  ledger prune .ledger --ended --yes --by ana      remove it
  ledger archive .ledger --to old.tar --prune --yes
                                                   the same, but keep it in a file

Nothing is removed without --yes. What is left stands on two snapshots, which are compared with the
log before anything goes (`ledger snapshot` makes them), and on a note in the log that says what
went. Whoever needs the history of what is pruned makes an archive of it first.";

/// `ledger prune`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PruneArgs {
    /// The ledger's folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,
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

/// Whether it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Planned,
    Done,
}

pub(super) fn prune(args: &PruneArgs) -> Result<Code, Failure> {
    let environment = Environment::system();
    let through = args.extent.through.map_or(Through::Ended, Through::Record);
    let (plan, outcome) = if args.yes {
        let ledger = open(&args.dir, &environment)?;
        let pruned = ledger.prune(through, None, &args.by)?;
        ledger.close()?;
        (pruned.plan, Outcome::Done)
    } else {
        let plan = LedgerView::open(&args.dir, &environment)?.plan_prune(through)?;
        (plan, Outcome::Planned)
    };
    if args.json {
        print(&format!("{}\n", plan_json(&plan, outcome)))?;
    } else {
        answer_with(&plan_text(&plan, outcome))?;
        if outcome == Outcome::Planned {
            say("nothing was removed: --yes does it");
        }
    }
    Ok(Code::Fine)
}

/// What goes, or went, for people.
pub(super) fn plan_text(plan: &PrunePlan, outcome: Outcome) -> String {
    let mut text = String::new();
    let verb = match outcome {
        Outcome::Planned => "would go",
        Outcome::Done => "pruned",
    };
    let count = counted(u64::try_from(plan.segments.len()).unwrap_or(u64::MAX), "segment");
    let (first, last) = (plan.first_seq, plan.last_seq);
    let bytes = size(plan.bytes);
    let _ = writeln!(text, "{verb}: records {first} to {last}, {count}, {bytes}");
    for path in plan.segments.iter().chain(&plan.snapshots) {
        let _ = writeln!(text, "  {}", path.display());
    }
    let _ = writeln!(text, "the log begins at record {} then, and stands on", last + 1);
    for anchor in &plan.anchors {
        let _ = writeln!(text, "  record {}: snap/{}", anchor.seq, anchor.file);
    }
    if !plan.open_runs.is_empty() {
        let runs = plan.open_runs.join(", ");
        let _ =
            writeln!(text, "runs that have not ended, and lose a part of their history: {runs}");
    }
    text
}

/// The same for programs.
pub(super) fn plan_json(plan: &PrunePlan, outcome: Outcome) -> Value {
    let text = |paths: &[PathBuf]| {
        paths.iter().map(|path| Path::display(path).to_string()).collect::<Vec<_>>()
    };
    json!({
        "type": match outcome { Outcome::Planned => "prune_plan", Outcome::Done => "pruned" },
        "first_seq": plan.first_seq,
        "last_seq": plan.last_seq,
        "chain": plan.chain.to_string(),
        "segments": text(&plan.segments),
        "bytes": plan.bytes,
        "snapshots": text(&plan.snapshots),
        "anchors": plan.anchors,
        "open_runs": plan.open_runs,
    })
}
