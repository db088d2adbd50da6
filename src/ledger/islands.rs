//! A damaged log as one row of sequence numbers: records that can be taken over, and ranges that
//! cannot.
//!
//! Invariants: pieces come in the order of sequence numbers, each number once, none left out.
//! A read error costs the rest of its segment and no other.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind};
use crate::log::{
    Damage, Item, KIND_RETENTION_NOTE, KIND_SNAPSHOT_NOTE, LogReader, LoggedRecord, Proof, Walk,
};

use super::codec;

/// A part of a damaged log.
#[derive(Debug)]
pub(super) enum Piece {
    /// A record.
    Record(LoggedRecord, Proof),
    /// No record; `last_seq` is below `first_seq` where damage cost none.
    Lost(Damage),
    /// A record that is intact, and stays behind.
    Left(Damage),
}

/// The pieces of a log, in order.
pub(super) struct Islands<'a> {
    reader: &'a LogReader,
    walk: Walk<'a>,
    next_seq: u64,
    /// A record that came behind an unnamed gap.
    held: Option<(LoggedRecord, Proof)>,
    is_over: bool,
}

impl<'a> Islands<'a> {
    pub(super) fn new(reader: &'a LogReader) -> Self {
        Self { reader, walk: reader.walk(1), next_seq: 1, held: None, is_over: false }
    }

    fn record(&mut self, record: LoggedRecord, proof: Proof) -> Piece {
        if record.seq > self.next_seq {
            let last = record.seq - 1;
            self.held = Some((record, proof));
            return self.lost(&self.folder(), last, "nothing says what became of these records");
        }
        self.next_seq = record.seq.saturating_add(1);
        match not_transferable(&record) {
            None => Piece::Record(record, proof),
            Some(what) => Piece::Left(in_place_of(self.reader, &record, what)),
        }
    }

    /// From the next record on up to `last`, in a file as a whole.
    fn lost(&mut self, path: &Path, last: u64, what: &str) -> Piece {
        let first_seq = self.next_seq;
        self.next_seq = last.saturating_add(1);
        let (path, what) = (path.to_owned(), what.to_owned());
        Piece::Lost(Damage { path, offset: 0, end: 0, first_seq, last_seq: last, what })
    }

    fn folder(&self) -> PathBuf {
        folder(self.reader)
    }

    fn damage(&mut self, damage: Damage) -> Piece {
        let first_seq = self.next_seq;
        self.next_seq = first_seq.max(damage.last_seq.saturating_add(1));
        // What was yielded already is not lost.
        Piece::Lost(Damage { first_seq, ..damage })
    }

    /// Go on in the next segment that can be read.
    fn unreadable(&mut self, error: &Error) -> Option<Piece> {
        let path = error.location().path.clone().unwrap_or_else(|| self.folder());
        let segments = self.reader.segments();
        let base = segments
            .iter()
            .filter_map(|segment| segment.header.as_ref().ok())
            .map(|header| header.base_seq)
            .filter(|base| *base > self.next_seq)
            .min();
        let last = if let Some(base) = base {
            self.walk = self.reader.walk(base);
            base - 1
        } else {
            self.is_over = true;
            self.last_durable().filter(|last| *last >= self.next_seq)?
        };
        Some(self.lost(&path, last, &error.to_string()))
    }

    fn last_durable(&self) -> Option<u64> {
        self.reader.head().map(|head| head.durable_seq)
    }
}

impl Iterator for Islands<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if let Some((record, proof)) = self.held.take() {
            return Some(self.record(record, proof));
        }
        while !self.is_over {
            match self.walk.next() {
                None => {
                    self.is_over = true;
                    let last = self.last_durable().filter(|last| *last >= self.next_seq)?;
                    let what = "acknowledged, as HEAD says, and not there";
                    return Some(self.lost(&self.folder(), last, what));
                }
                // It was yielded, or named as lost, before.
                Some(Ok(Item::Record(record, _))) if record.seq < self.next_seq => {}
                Some(Ok(Item::Record(record, proof))) => return Some(self.record(record, proof)),
                Some(Ok(Item::Damage(damage))) => return Some(self.damage(damage)),
                Some(Ok(Item::Derived(_) | Item::OpenEnd { .. })) => {}
                Some(Err(error)) => match self.unreadable(&error) {
                    Some(piece) => return Some(piece),
                    None => return None,
                },
            }
        }
        None
    }
}

/// What a record that is intact, and does not go over, is to the new ledger.
pub(super) fn in_place_of(reader: &LogReader, record: &LoggedRecord, what: String) -> Damage {
    let of = |header: &crate::format::SegmentHeader| header.ordinal == record.segment;
    let path = reader
        .segments()
        .into_iter()
        .find(|segment| segment.header.as_ref().is_ok_and(of))
        .map_or_else(|| folder(reader), |segment| segment.path);
    let (offset, end) = (record.offset, record.offset.saturating_add(record.size));
    let (first_seq, last_seq) = (record.seq, record.seq);
    Damage { path, offset, end, first_seq, last_seq, what }
}

fn folder(reader: &LogReader) -> PathBuf {
    let segments = reader.segments();
    let folder = segments.first().and_then(|segment| segment.path.parent());
    folder.unwrap_or(Path::new("log")).to_owned()
}

/// Why a record that is intact does not go over, if so.
fn not_transferable(record: &LoggedRecord) -> Option<String> {
    if record.kind == KIND_SNAPSHOT_NOTE {
        return Some("a note about a snapshot, which stays behind".to_owned());
    }
    if record.kind == KIND_RETENTION_NOTE {
        return Some("a note about segments, which stay behind".to_owned());
    }
    let error = codec::decode(record).err()?;
    // A newer program will understand what this one does not.
    (error.kind() == ErrorKind::Corrupt).then(|| error.to_string())
}
