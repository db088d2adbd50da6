//! Where a log begins: with its first record, or behind those that were pruned or are in another
//! archive.
//!
//! Invariants:
//! - A log begins later only by the word of a retention note in the log itself, or of the
//!   manifest of an archive. Segments that are not there without such a word are missing.
//! - Of several notes the newest counts. It is looked for only where segment 0 is not there.

use std::io;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, FrameFault, Index, SegmentHeader, SegmentName, is_sealed_length};
use crate::storage::{Access, Storage, StorageFile};

use super::evidence::note_in;
use super::note::KIND_RETENTION_NOTE;
use super::reader::LogReader;
use super::retention::{ArchivedIn, Retention};
use super::row::Before;
use super::scan::{Links, Position, Scan, Source};
use super::sealed::read_footer;
use super::segments::{Segment, Segments, good};

/// The place of the first segment that there must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Beginning {
    pub(super) ordinal: u64,
    /// Its first record.
    pub(super) seq: u64,
    /// Chain value of the record before; `None` if only the segment itself says it.
    pub(super) chain: Option<Chain>,
}

impl Default for Beginning {
    fn default() -> Self {
        Self { ordinal: 0, seq: 1, chain: Some(Chain::GENESIS) }
    }
}

impl Beginning {
    /// Where the log begins whose first file has that name.
    pub(super) fn covered(first: SegmentName, retention: &Retention) -> Self {
        let note = &retention.note;
        if first.ordinal <= note.last_ordinal {
            // A prune was cut short: what it has not removed yet is as good as before.
            return Self { ordinal: first.ordinal, seq: first.base_seq, chain: None };
        }
        Self {
            ordinal: note.last_ordinal.saturating_add(1),
            seq: note.last_seq.saturating_add(1),
            chain: note.chain(),
        }
    }

    /// What the first segment must follow from.
    pub(super) fn before(&self) -> Before {
        self.chain.map_or(Before::Anchor, |chain| Before::Record(self.seq, chain))
    }

    /// What is wrong with the first segment of the row, if anything.
    pub(super) fn problem(&self, header: &SegmentHeader) -> Option<String> {
        let is_first = header.base_seq == self.seq
            && self.chain.is_none_or(|chain| chain == header.prev_chain);
        if is_first {
            return None;
        }
        Some(match self.seq {
            1 => "the first segment does not begin at record 1".to_owned(),
            seq => format!(
                "the first segment does not begin where the records before it were cut off: \
                 expected record {seq} and the chain that was noted, found record {}",
                header.base_seq
            ),
        })
    }
}

/// The newest retention note of some segments.
pub(super) fn find_note(storage: &dyn Storage, segments: &Segments) -> Result<Option<Retention>> {
    for (place, entry) in segments.list.iter().enumerate().rev() {
        let Some(segment) = good(entry) else { continue };
        let path = &entry.1;
        let io = |error| Error::io("look for the retention note", path, error);
        let file = storage.open(path, Access::Read).map_err(io)?;
        if may_hold_note(&*file, segment).map_err(io)? {
            let is_newest = place + 1 == segments.list.len();
            let found = last_note(file, segment, is_newest.into()).map_err(io)?;
            if found.is_some() {
                return Ok(found);
            }
        }
    }
    Ok(None)
}

/// Whether a segment's index knows of a retention note; a segment without an index may hold one.
fn may_hold_note(file: &dyn StorageFile, segment: &Segment) -> io::Result<bool> {
    let header = &segment.header;
    if !is_sealed_length(segment.length, header.prealloc_len) {
        return Ok(true);
    }
    let footer = read_footer(file, segment.length)?.ok();
    let Some(footer) = footer.filter(|footer| footer.header().as_ref() == Ok(header)) else {
        return Ok(true);
    };
    // At most `INDEX_LENGTH_MAX`, and no more than the file has: the footer was checked.
    let mut bytes = vec![0; usize::try_from(footer.index_length).unwrap_or(0)];
    let count = file.read_at(&mut bytes, footer.data_end)?;
    bytes.truncate(count);
    let index = Index::decode(bytes, &footer).ok();
    Ok(index.is_none_or(|index| index.of_kind(KIND_RETENTION_NOTE).next().is_some()))
}

/// Whether zeros may be followed by more records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Newest,
    Superseded,
}

impl From<bool> for Place {
    fn from(is_newest: bool) -> Self {
        if is_newest { Self::Newest } else { Self::Superseded }
    }
}

/// The last note among the frames of a segment; damage is passed over.
fn last_note(
    file: Box<dyn StorageFile>,
    segment: &Segment,
    place: Place,
) -> io::Result<Option<Retention>> {
    let mut scan = Scan::new(Source::windowed(file), &segment.header, segment.length);
    scan.links = Links::Trusted;
    let mut at = Position::start(&segment.header);
    let mut last = None;
    loop {
        match scan.next(&mut at)? {
            Ok(found) => {
                last = note_in(&found.header, found.payload).or(last);
            }
            Err(FrameFault::Empty) if place == Place::Newest => return Ok(last),
            Err(_) => {
                let due = at.next_seq;
                match scan.find(at.offset + 64, |frame| frame.stamp.seq >= due)? {
                    None => return Ok(last),
                    Some(found) => {
                        let next_seq = found.header.stamp.seq;
                        at = Position { offset: found.offset, next_seq, chain: None };
                    }
                }
            }
        }
    }
}

/// Whether the file, or the folder, was not there.
pub(super) fn is_missing(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|each| each.downcast_ref::<io::Error>());
    source.is_some_and(|each| each.kind() == io::ErrorKind::NotFound)
}

impl LogReader {
    /// The first record of the log: 1, unless those before it were pruned or are in another
    /// archive.
    #[must_use]
    pub fn first_seq(&self) -> u64 {
        self.segments.beginning.seq
    }

    /// Chain value of the record before the first one, as far as it is known.
    #[must_use]
    pub fn chain_before(&self) -> Option<Chain> {
        let first = self.segments.list.first().and_then(good);
        let own = first.filter(|first| first.header.base_seq == self.first_seq());
        self.segments.beginning.chain.or_else(|| own.map(|first| first.header.prev_chain))
    }

    /// The retention note by which the log begins later than with record 1, or is about to.
    #[must_use]
    pub fn retention(&self) -> Option<&Retention> {
        self.segments.retention.as_ref()
    }

    /// Why a record before the first one cannot be had.
    #[must_use]
    pub fn pruned(&self, seq: u64) -> Error {
        let first = self.first_seq();
        let why = match self.retention().map(|retention| &retention.note.archive) {
            Some(Some(ArchivedIn { file, blake3 })) => {
                let hash: String = blake3.chars().take(8).collect();
                format!("an archive took what was pruned last: {file} (blake3 {hash}...)")
            }
            Some(None) => "what was pruned last was given up, and is in no archive".to_owned(),
            None => "those before it are in an earlier archive".to_owned(),
        };
        let message = format!("it is not in this log, which begins at record {first}; {why}");
        Error::new(ErrorKind::Pruned, message).at_path(self.dir()).at_seq(seq)
    }

    /// Nothing, unless records from that one on were pruned.
    ///
    /// # Errors
    /// `Pruned`.
    pub fn expect_unpruned(&self, from: u64) -> Result<()> {
        if from.max(1) < self.first_seq() { Err(self.pruned(from.max(1))) } else { Ok(()) }
    }
}

/// Whether a folder is a ledger, or an archive that was unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Ledger,
    Archive,
}

/// Refuse to write to an archive.
///
/// # Errors
/// `Rejected`.
pub(super) fn expect_writable(form: Form, dir: &Path) -> Result<()> {
    match form {
        Form::Ledger => Ok(()),
        Form::Archive => Err(Error::new(
            ErrorKind::Rejected,
            "this is an archive, which is read and never written to; look at it with `ledger \
             inspect` and `ledger verify`",
        )
        .at_path(dir)),
    }
}
