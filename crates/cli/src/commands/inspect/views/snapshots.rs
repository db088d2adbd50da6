//! `ledger inspect DIR snapshots`: the snapshots, each read and checked.

use std::path::Path;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::format::{SnapshotHeader, SnapshotName};
use plan_ledger::log::{Anchor, parallel_map};
use plan_ledger::{Error, ErrorKind, LedgerView};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::Health;
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::units::seconds;
use crate::commands::verify::default_jobs;
use crate::json::TimeJson;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure, escape_control};
use crate::protocol::hex;
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
                out.json(&SnapshotFileLine::of(name, &path, &checked, is_anchor))?;
            }
            Form::Text => table.row(row(name, &checked, is_anchor)),
        }
    }
    // A missing anchor is unusable, too.
    is_good &= anchors.iter().all(|anchor| list.names.contains(anchor));
    match form {
        Form::Json => {
            out.json(&SnapshotsLine {
                snapshots: list.names.len(),
                unfinished: &list.temporary,
                unknown_files: &list.unknown,
            })?;
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

/// A snapshot.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SnapshotFileLine<'a> {
    /// Whether a pruned log begins with it.
    anchor: bool,
    /// The snapshot of which it has the differences; null if it is complete.
    base: Option<String>,
    /// The length of its body, not compressed.
    body_bytes: Option<u64>,
    /// The chain value of its record.
    chain: Option<String>,
    /// The length of its file.
    file_bytes: Option<u64>,
    /// The file.
    path: String,
    /// The reason why it cannot be used.
    problem: Option<String>,
    /// The name of the projection; `state` for the state of the ledger.
    projection: &'a str,
    /// Its record.
    seq: u64,
    /// The hash of its state.
    state_hash: Option<String>,
    /// The time of its record; null if the snapshot cannot be used, as are the other members from
    /// its header.
    time: Option<TimeJson>,
    /// Whether every check succeeds.
    usable: bool,
    /// The version of the projection.
    version: u32,
}

impl<'a> SnapshotFileLine<'a> {
    fn of(name: &'a SnapshotName, path: &Path, checked: &Checked, is_anchor: bool) -> Self {
        let header = checked.as_ref().ok();
        Self {
            anchor: is_anchor,
            base: header.and_then(SnapshotHeader::base_name).map(|base| base.to_string()),
            body_bytes: header.map(|header| header.body_length),
            chain: header.map(|header| header.chain.to_string()),
            file_bytes: header.and_then(SnapshotHeader::file_length),
            path: path.display().to_string(),
            problem: checked.as_ref().err().map(ToString::to_string),
            projection: &name.projection,
            seq: name.seq,
            state_hash: header.map(|header| hex(&header.state_hash)),
            time: header.map(|header| header.time.into()),
            usable: header.is_some(),
            version: name.version,
        }
    }
}

/// The folder of the snapshots.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SnapshotsLine<'a> {
    /// The number of snapshots.
    snapshots: usize,
    /// The names of unfinished files.
    unfinished: &'a [String],
    /// The names that do not belong there.
    unknown_files: &'a [String],
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
