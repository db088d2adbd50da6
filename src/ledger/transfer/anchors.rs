//! The beginning of a pruned ledger in an export (`format/export.md`, section 2).
//!
//! The state before the first record of a pruned log is in two snapshots, the anchors that its newest
//! retention note names. An export holds their states, not their files, because a file names its ledger.
//!
//! Invariants:
//! - An export either holds both anchors, complete and checked, or none.
//! - An imported ledger starts from the anchors that its own newest retention note names, at the records
//!   with their chain values; and the older one, folded up to the newer one, has the newer one's state.

use std::io::Read as _;

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, SnapshotHeader};
use crate::ledger::projection::{Projection as _, apply_owned_record, decode_record};
use crate::ledger::snapshot::state_hash::computed_state_hash;
use crate::log::{Ack, Anchor, LogReader, LoggedRecord, LoggedRetentionNote, RetentionNote};
use crate::plan::State;

use super::lines::{self, Line, PIECE};

/// Check both anchors of a note, before anything is exported.
pub(crate) fn check(log: &LogReader, note: &RetentionNote) -> Result<()> {
    let with_advice = |error: Error| match error.kind() {
        ErrorKind::Io => error,
        kind => {
            let first = note.last_seq.saturating_add(1);
            let message = format!(
                "{error}; without it the export cannot be imported: `ledger export --from {first}` \
                 writes the records alone"
            );
            Error::new(kind, message)
        }
    };
    note.anchors.iter().try_for_each(|anchor| log.check_anchor(anchor)).map_err(with_advice)
}

/// Write an anchor's state.
pub(crate) fn export(
    log: &LogReader,
    anchor: &Anchor,
    line: &mut dyn FnMut(&Line<Value>) -> Result<()>,
) -> Result<()> {
    let name = anchor.name().ok_or_else(|| {
        Error::new(ErrorKind::Corrupt, format!("{} does not name a snapshot", anchor.file))
    })?;
    let mut file = log.open_snapshot(&name)?;
    let SnapshotHeader { seq, time, chain, state_hash, version, body_length, .. } = *file.header();
    line(&Line::Anchor {
        seq,
        time,
        chain: chain.to_string(),
        state_hash: Chain(state_hash).to_string(),
        version,
        length: body_length,
    })?;
    let limit = u64::try_from(PIECE).unwrap_or(u64::MAX);
    loop {
        let mut piece = Vec::new();
        if let Err(error) = (&mut file).take(limit).read_to_end(&mut piece) {
            let path = file.path().to_owned();
            let io = || Error::io("read the snapshot", &path, error);
            return Err(file.take_fault().unwrap_or_else(io));
        }
        if piece.is_empty() {
            return file.check().map(drop);
        }
        line(&Line::Data { data: lines::encode(&piece) })?;
    }
}

/// The start of the records in an export of a pruned ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PrunedStart {
    /// Ordinal of the first segment.
    pub(crate) ordinal: u64,
    /// The last pruned record.
    pub(crate) last: Ack,
}

/// The header of the snapshot that an anchor line describes, without the fields that depend on the
/// ledger and on the body.
pub(crate) fn header(
    (seq, time): (u64, u64),
    (chain, state_hash): (Chain, [u8; 32]),
) -> SnapshotHeader {
    SnapshotHeader {
        ledger: [0; 16],
        genesis: [0; 16],
        seq,
        time,
        chain,
        state_hash,
        projection: State::NAME.to_owned(),
        version: State::VERSION,
        body_length: 0,
        body_hash: [0; 32],
        stored_length: 0,
        base: None,
    }
}

/// Checks, while records are imported, that they continue the anchors.
#[derive(Debug)]
pub(crate) struct AnchorCheck {
    start: PrunedStart,
    older: SnapshotHeader,
    newer: SnapshotHeader,
    /// The state of the older anchor, folded up to the newer one.
    folded: State,
    /// The newest retention note among the records.
    note: Option<RetentionNote>,
}

impl AnchorCheck {
    /// Begin with the anchors, the older one first, and the older one's state.
    ///
    /// # Errors
    /// A description of the fault.
    pub(crate) fn new(
        start: PrunedStart,
        older: (SnapshotHeader, State),
        newer: SnapshotHeader,
    ) -> std::result::Result<Self, String> {
        let (older, folded) = older;
        if older.seq < start.last.seq || newer.seq <= older.seq {
            return Err(format!(
                "expected snapshots at two records from {} on, the older one first, found {} and {}",
                start.last.seq, older.seq, newer.seq
            ));
        }
        if older.seq == start.last.seq && older.chain != start.last.chain {
            return Err(differs(&older));
        }
        Ok(Self { start, older, newer, folded, note: None })
    }

    /// Check the next record.
    ///
    /// # Errors
    /// `Corrupt` if it does not continue the anchors; `Unsupported` for a record of a newer program.
    pub(crate) fn take(&mut self, record: &LoggedRecord) -> Result<()> {
        let corrupt = |what: String| Error::new(ErrorKind::Corrupt, what).at_seq(record.seq);
        if let Some(LoggedRetentionNote { note, .. }) = LoggedRetentionNote::from_record(record) {
            self.note = Some(note);
        }
        for anchor in [&self.older, &self.newer] {
            let is_same = (anchor.chain, anchor.time) == (record.chain, record.time);
            if anchor.seq == record.seq && !is_same {
                return Err(corrupt(differs(anchor)));
            }
        }
        if record.seq > self.older.seq && record.seq <= self.newer.seq {
            apply_owned_record(&mut self.folded, decode_record(record)?);
        }
        let is_wrong = || {
            computed_state_hash(&self.folded).0 != self.newer.state_hash
                && !mutant!(ImportedAnchorNotFolded)
        };
        if record.seq == self.newer.seq && is_wrong() {
            let what = format!(
                "the snapshot at record {} is not the state that results from the records",
                record.seq
            );
            return Err(corrupt(what));
        }
        Ok(())
    }

    /// Check that a retention note among the records names these anchors.
    ///
    /// # Errors
    /// A description of the fault.
    pub(crate) fn end(&self) -> std::result::Result<(), String> {
        let PrunedStart { ordinal, last } = self.start;
        let anchors = [&self.older, &self.newer].map(Anchor::of);
        let is_named = self.note.as_ref().is_some_and(|note| {
            note.last_ordinal.checked_add(1) == Some(ordinal)
                && note.last_seq == last.seq
                && note.chain() == Some(last.chain)
                && note.anchors == anchors
        });
        if is_named {
            return Ok(());
        }
        Err("no record says that the ledger was pruned up to here, with these snapshots".to_owned())
    }
}

fn differs(anchor: &SnapshotHeader) -> String {
    format!("the snapshot at record {} belongs to another history", anchor.seq)
}
