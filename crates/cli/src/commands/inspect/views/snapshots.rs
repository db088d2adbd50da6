//! `ledger inspect DIR snapshots`: the snapshots, each read and checked.

use clap::Args;

use plan_ledger::internals::format::{SnapshotHeader, SnapshotName};
use plan_ledger::log::{Anchor, parallel_map};
use plan_ledger::{Error, ErrorKind, LedgerView};
use plan_ledger_views::{SnapshotFileLine, Snapshots, SnapshotsLine};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::Health;
use crate::commands::inspect::output::Output;
use crate::commands::verify::default_jobs;
use crate::output::{Code, Failure};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger snapshots
  ledger inspect .ledger snapshots --json | jq -c 'select(.usable == false)'

Each snapshot is read and checked. An unusable one only costs time, unless the records before it
were pruned: then the exit code is 4.";

/// The snapshots: their records, sizes, and whether they are usable
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SnapshotsArgs {}

pub(crate) fn snapshots(
    _args: &SnapshotsArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let InspectContext { dir, form, environment } = context;
    let view = LedgerView::open(dir, environment)?;
    let log = view.log();
    let health = Health::of(log, dir, environment)?;
    let list = log.snapshots()?;
    let anchors = log.retention().map(|retention| retention.note.anchors.as_slice());
    let anchors: Vec<_> = anchors.unwrap_or_default().iter().filter_map(Anchor::name).collect();
    let mut is_good = health.is_good();
    let mut lines = Vec::new();
    for (name, checked) in list.names.chunks(CHUNK).flat_map(|names| checked(&view, names)) {
        let checked = usable(checked)?;
        let is_anchor = anchors.contains(name);
        is_good &= checked.is_ok() || !is_anchor;
        let path = list.folder.join(name.to_string());
        lines.push(SnapshotFileLine::of(name, &path, &checked, is_anchor));
    }
    // A missing anchor is unusable, too.
    is_good &= anchors.iter().all(|anchor| list.names.contains(anchor));
    let folder = SnapshotsLine {
        snapshots: list.names.len(),
        unfinished: &list.temporary,
        unknown_files: &list.unknown,
    };
    let snapshots = Snapshots { lines, folder };
    match form {
        Form::Json => {
            snapshots.lines.iter().try_for_each(|line| out.json(line))?;
            out.json(&snapshots.folder)?;
            health.json_line(is_good, out)?;
        }
        Form::Text => {
            out.document(&snapshots.document())?;
            health.print(out)?;
        }
    }
    Ok(if is_good { Code::Success } else { Code::Damaged })
}

type Checked = Result<SnapshotHeader, Error>;

/// Snapshots that are checked in parallel before their results are printed.
const CHUNK: usize = 64;

fn checked<'a>(
    view: &LedgerView,
    names: &'a [SnapshotName],
) -> impl Iterator<Item = (&'a SnapshotName, Checked)> {
    let checked =
        parallel_map(default_jobs(), names.iter().collect(), |name| view.check_snapshot(name));
    names.iter().zip(checked)
}

/// An unusable snapshot is a result; an unreadable disk is an error.
fn usable(checked: Checked) -> Result<Checked, Failure> {
    match checked {
        Err(error) if error.kind() == ErrorKind::Io => Err(error.into()),
        checked => Ok(checked),
    }
}
