//! `ledger inspect DIR snapshots`: the snapshots, each read and checked.

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use plan_ledger::internals::format::{SnapshotHeader, SnapshotName};
use plan_ledger::internals::log::{Anchor, parallel_map};
use plan_ledger::{Error, ErrorKind, LedgerView};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::Health;
use crate::commands::inspect::output::{Output, time_json};
use crate::commands::inspect::style::{Paint, Table, hex, seconds};
use crate::commands::verify::default_jobs;
use crate::output::{Code, Failure, escape_control};
use crate::protocol::size;

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
    let mut table = Table::with_headings(&["record", "of", "time", "size", "state hash", ""]);
    for (name, checked) in list.names.chunks(CHUNK).flat_map(|names| checked(&view, names)) {
        let checked = usable(checked)?;
        let is_anchor = anchors.contains(name);
        is_good &= checked.is_ok() || !is_anchor;
        let path = list.folder.join(name.to_string());
        match form {
            Form::Json => {
                out.json("snapshot_file", &snapshot_json(name, &path, &checked, is_anchor))?;
            }
            Form::Text => table.row(row(name, &checked, is_anchor)),
        }
    }
    // A missing anchor is unusable, too.
    is_good &= anchors.iter().all(|anchor| list.names.contains(anchor));
    match form {
        Form::Json => {
            let line = json!({
                "snapshots": list.names.len(), "unfinished": list.temporary,
                "unknown_files": list.unknown,
            });
            out.json("snapshots", &line)?;
            health.json_line(is_good, out)?;
        }
        Form::Text if list.names.is_empty() => out.line("there is no snapshot")?,
        Form::Text => out.table(&table, 0)?,
    }
    if form == Form::Text {
        for name in list.temporary.iter().chain(&list.unknown) {
            out.painted(
                Paint::Notice,
                &format!("note: snap/{}: no snapshot", escape_control(name)),
            )?;
        }
        health.print(out)?;
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

fn snapshot_json(name: &SnapshotName, path: &Path, checked: &Checked, is_anchor: bool) -> Value {
    let header = checked.as_ref().ok();
    json!({
        "path": path.display().to_string(),
        "seq": name.seq,
        "projection": name.projection,
        "version": name.version,
        "usable": header.is_some(),
        "anchor": is_anchor,
        "time": header.map(|header| time_json(header.time)),
        "chain": header.map(|header| header.chain.to_string()),
        "state_hash": header.map(|header| hex(&header.state_hash)),
        "base": header.and_then(SnapshotHeader::base_name).map(|base| base.to_string()),
        "body_bytes": header.map(|header| header.body_length),
        "file_bytes": header.and_then(SnapshotHeader::file_length),
        "problem": checked.as_ref().err().map(ToString::to_string),
    })
}

fn row(name: &SnapshotName, checked: &Checked, is_anchor: bool) -> [(Paint, String); 6] {
    let of = format!("{} v{}", name.projection, name.version);
    let anchor = if is_anchor { "anchor of a pruned log" } else { "" };
    let (paint, [time, bytes, hash, what]) = match checked {
        Ok(header) => {
            let hash = hex(&header.state_hash).chars().take(16).collect();
            let bytes = size(header.file_length().unwrap_or(header.body_length));
            let base =
                header.base.map(|base| format!("based on the snapshot at record {}", base.seq));
            let what = base.unwrap_or_else(|| anchor.to_owned());
            (Paint::None, [seconds(header.time), bytes, hash, what])
        }
        Err(error) => {
            let none = String::new;
            (Paint::Bad, [none(), none(), none(), escape_control(&error.to_string())])
        }
    };
    let rest = [time, bytes, hash].map(|text| (Paint::None, text));
    let [time, bytes, hash] = rest;
    [(Paint::None, name.seq.to_string()), (Paint::None, of), time, bytes, hash, (paint, what)]
}
