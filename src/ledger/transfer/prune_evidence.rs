//! Finds evidence that a damaged log was pruned although it has no readable retention note, since
//! the note itself may be damaged. Without evidence, the first segments are treated as lost.

use std::path::Path;

use crate::error::{Error, ErrorKind};
use crate::format::{FRAME_HEADER_SIZE, peek_kind};
use crate::ledger::snapshot::store;
use crate::log::{Damage, KIND_RETENTION_NOTE, LogReader};
use crate::plan::State;
use crate::storage::{Access, Storage};

use super::damaged_log::{DamagedLogReader, SalvageItem};

enum PruneEvidence {
    /// The header of a damaged record has the kind of a retention note.
    Note(Damage),
    /// All snapshots of the state are after the first record of the log, the oldest two at these
    /// records, and a record after them is damaged.
    Anchors(u64, u64, Damage),
}

/// The error for a log with too few records for a fold of the state, if there is evidence of a
/// prune.
pub(crate) fn find(reader: &LogReader, storage: &dyn Storage) -> Option<Error> {
    let first = first_seq_without_note(reader)?;
    let (why, advice) = match evidence(reader, storage, first)? {
        PruneEvidence::Note(damage) => {
            (format!("its retention note, record {}, is damaged", place(&damage)), "")
        }
        PruneEvidence::Anchors(older, newer, damage) => (
            format!(
                "the damaged record {} may be its retention note, and the snapshots at records \
                 {older} and {newer} its anchors",
                place(&damage)
            ),
            "; if nothing was ever pruned, move the folder `snap` away and try again",
        ),
    };
    let message = format!(
        "the log begins at record {first} and seems pruned: {why}; its state cannot be folded from \
         its records alone; restore it from a copy, or read it with `ledger inspect`{advice}"
    );
    Some(Error::new(ErrorKind::Rejected, message).at_path(reader.dir()))
}

fn place(damage: &Damage) -> String {
    let Damage { first_seq, path, offset, .. } = damage;
    format!("{first_seq} ({}, byte {offset})", path.display())
}

/// The first record of a log that begins after segment 0 without a retention note.
fn first_seq_without_note(reader: &LogReader) -> Option<u64> {
    let segments = reader.segments();
    let header = segments.first()?.header.as_ref().ok()?;
    (header.ordinal > 0 && reader.first_seq() == 1).then_some(header.base_seq)
}

fn evidence(reader: &LogReader, storage: &dyn Storage, first: u64) -> Option<PruneEvidence> {
    let lost = DamagedLogReader::new(reader).filter_map(|item| match item {
        SalvageItem::Lost(damage) if damage.first_seq >= first => Some(damage),
        SalvageItem::Lost(_) | SalvageItem::Excluded(..) | SalvageItem::Record(..) => None,
    });
    let lost: Vec<Damage> = lost.collect();
    if let Some(note) = lost.iter().find(|damage| is_note(storage, &damage.path, damage.offset)) {
        return Some(PruneEvidence::Note(note.clone()));
    }
    let (older, newer) = anchors(reader, first)?;
    let after = lost.into_iter().find(|damage| damage.last_seq > newer);
    after.map(|damage| PruneEvidence::Anchors(older, newer, damage))
}

/// Whether the header of a damaged frame has the kind of a retention note. The checksums of the
/// frame are known to be invalid.
fn is_note(storage: &dyn Storage, path: &Path, offset: u64) -> bool {
    let mut bytes = [0; FRAME_HEADER_SIZE];
    let read = storage.open(path, Access::Read).and_then(|file| file.read_at(&mut bytes, offset));
    read.is_ok_and(|count| count == bytes.len()) && peek_kind(&bytes) == Some(KIND_RETENTION_NOTE)
}

/// The records of the possible anchors of a log that begins at record `first`.
fn anchors(reader: &LogReader, first: u64) -> Option<(u64, u64)> {
    let mut seqs: Vec<u64> =
        store::names::<State>(reader).ok()?.into_iter().map(|name| name.seq).collect();
    seqs.sort_unstable();
    seqs.dedup();
    match seqs.as_slice() {
        [older, newer, ..] if older.saturating_add(1) >= first => Some((*older, *newer)),
        _ => None,
    }
}
