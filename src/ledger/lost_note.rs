//! Whether a log that begins late, and has no retention note that says why, was pruned all the same:
//! its note may be what is damaged.
//!
//! Invariant: a log of which nothing speaks for a prune is taken for one whose first segments are lost.

use std::path::Path;

use crate::error::{Error, ErrorKind};
use crate::format::{FRAME_HEADER_SIZE, peek_kind};
use crate::log::{Damage, KIND_RETENTION_NOTE, LogReader};
use crate::plan::State;
use crate::storage::{Access, Storage};

use super::islands::{Islands, Piece};
use super::snapshots;

/// What speaks for a prune.
enum Sign {
    /// A damaged record says of itself that it is a retention note.
    Note(Damage),
    /// All snapshots of the state are of records behind the beginning, as the two with these numbers,
    /// and a record behind them is damaged.
    Anchors(u64, u64, Damage),
}

/// Why what is left of the log is not all that its state was made of, if something speaks for it.
pub(super) fn signs(reader: &LogReader, storage: &dyn Storage) -> Option<Error> {
    let first = late_beginning(reader)?;
    let sign = sign(reader, storage, first)?;
    let (why, advice) = match sign {
        Sign::Note(damage) => {
            (format!("the retention note that says so, record {}, is damaged", place(&damage)), "")
        }
        Sign::Anchors(older, newer, damage) => (
            format!(
                "no snapshot of the state is older, those of the records {older} and {newer} may be its \
                 anchors, and record {}, which is damaged, may be the retention note that says so",
                place(&damage)
            ),
            "; if nothing was ever pruned, move the folder `snap` away and try again",
        ),
    };
    let message = format!(
        "the log begins at record {first}, as one that was pruned: {why}; its state cannot be made from \
         its records alone: restore it from a copy, or look at what is there with `ledger \
         inspect`{advice}"
    );
    Some(Error::new(ErrorKind::Rejected, message).at_path(reader.dir()))
}

fn place(damage: &Damage) -> String {
    let Damage { first_seq, path, offset, .. } = damage;
    format!("{first_seq} ({}, byte {offset})", path.display())
}

/// The first record of a log whose first segment is not the first that a ledger has, where nothing
/// says why.
fn late_beginning(reader: &LogReader) -> Option<u64> {
    let segments = reader.segments();
    let header = segments.first()?.header.as_ref().ok()?;
    (header.ordinal > 0 && reader.first_seq() == 1).then_some(header.base_seq)
}

fn sign(reader: &LogReader, storage: &dyn Storage, first: u64) -> Option<Sign> {
    let lost = Islands::new(reader).filter_map(|piece| match piece {
        Piece::Lost(damage) if damage.first_seq >= first => Some(damage),
        Piece::Lost(_) | Piece::Left(_) | Piece::Record(..) => None,
    });
    let lost: Vec<Damage> = lost.collect();
    if let Some(note) = lost.iter().find(|damage| is_note(storage, &damage.path, damage.offset)) {
        return Some(Sign::Note(note.clone()));
    }
    let (older, newer) = anchors(reader, first)?;
    let behind = lost.into_iter().find(|damage| damage.last_seq > newer);
    behind.map(|damage| Sign::Anchors(older, newer, damage))
}

/// Whether the frame there says of itself that it is a retention note. Its sums do not hold, or it
/// would not be damaged.
fn is_note(storage: &dyn Storage, path: &Path, offset: u64) -> bool {
    let mut bytes = [0; FRAME_HEADER_SIZE];
    let read = storage.open(path, Access::Read).and_then(|file| file.read_at(&mut bytes, offset));
    read.is_ok_and(|count| count == bytes.len()) && peek_kind(&bytes) == Some(KIND_RETENTION_NOTE)
}

/// The numbers of what may be the anchors of a log that begins there.
fn anchors(reader: &LogReader, first: u64) -> Option<(u64, u64)> {
    let mut seqs: Vec<u64> =
        snapshots::names::<State>(reader).ok()?.into_iter().map(|name| name.seq).collect();
    seqs.sort_unstable();
    seqs.dedup();
    match seqs.as_slice() {
        [older, newer, ..] if older.saturating_add(1) >= first => Some((*older, *newer)),
        _ => None,
    }
}
