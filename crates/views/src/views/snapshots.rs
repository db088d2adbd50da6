//! The snapshots of a ledger, each with the result of its check.

use std::path::Path;

use plan_ledger::Error;
use plan_ledger::internals::format::{SnapshotHeader, SnapshotName};
use plan_ledger::plan::UtcTime;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Document, Paint, Table};
use crate::words::{hex, seconds, size};

/// A snapshot.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SnapshotFileLine<'a> {
    /// Whether a pruned log begins with it.
    anchor: bool,
    /// The base of a snapshot that has only differences; null for a complete one.
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
    time: Option<UtcTime>,
    /// Whether every check succeeds.
    usable: bool,
    /// The version of the projection.
    version: u32,
    /// The record of the snapshot on which it is based.
    #[serde(skip)]
    base_seq: Option<u64>,
}

impl<'a> SnapshotFileLine<'a> {
    /// The snapshot of that name at that path, with the result of its check.
    #[must_use]
    pub fn of(
        name: &'a SnapshotName,
        path: &Path,
        checked: &Result<SnapshotHeader, Error>,
        is_anchor: bool,
    ) -> Self {
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
            base_seq: header.and_then(|header| header.base.map(|base| base.seq)),
        }
    }
}

/// The folder of the snapshots.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SnapshotsLine<'a> {
    /// The number of snapshots.
    pub snapshots: usize,
    /// The names of unfinished files.
    pub unfinished: &'a [String],
    /// The names that do not belong there.
    pub unknown_files: &'a [String],
}

/// The snapshots of a ledger.
#[derive(Debug)]
pub struct Snapshots<'a> {
    /// One line for each.
    pub lines: Vec<SnapshotFileLine<'a>>,
    /// Their folder.
    pub folder: SnapshotsLine<'a>,
}

impl Snapshots<'_> {
    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        if self.lines.is_empty() {
            document.line("there is no snapshot");
        } else {
            let headings = ["record", "of", "time", "size", "state hash", ""];
            let mut table = Table::with_headings(&headings);
            self.lines.iter().for_each(|line| table.row(line.cells()));
            document.table(0, table);
        }
        for name in self.folder.unfinished.iter().chain(self.folder.unknown_files) {
            document.painted(Paint::Notice, format!("note: snap/{name}: no snapshot"));
        }
        document
    }
}

impl SnapshotFileLine<'_> {
    fn cells(&self) -> [(Paint, String); 6] {
        let of = format!("{} v{}", self.projection, self.version);
        let anchor = if self.anchor { "anchor of a pruned log" } else { "" };
        let base = self.base_seq.map(|seq| format!("based on the snapshot at record {seq}"));
        let (paint, what) = match &self.problem {
            Some(problem) => (Paint::Bad, problem.clone()),
            None => (Paint::None, base.unwrap_or_else(|| anchor.to_owned())),
        };
        let time = self.time.as_ref().map(|time| seconds(time.micros));
        let bytes = self.file_bytes.or(self.body_bytes).map(size);
        let hash = self.state_hash.as_ref().map(|hash| hash.chars().take(16).collect());
        let plain = |text: Option<String>| (Paint::None, text.unwrap_or_default());
        [
            plain(Some(self.seq.to_string())),
            plain(Some(of)),
            plain(time),
            plain(bytes),
            plain(hash),
            (paint, what),
        ]
    }
}
