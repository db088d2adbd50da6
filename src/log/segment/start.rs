//! The start of a log: its first record, or the first one after records that were pruned or are in
//! another archive.
//!
//! Invariants:
//! - A log starts later only if a retention note in the log itself, or the manifest of an archive,
//!   says so. Otherwise missing segments are damage.
//! - The newest retention note is used. It is searched for only if segment 0 is missing.

use std::io;

use crate::error::{Error, Result};
use crate::format::{Chain, FrameFault, SegmentHeader, SegmentName, is_sealed_length};
use crate::log::notes::{KIND_RETENTION_NOTE, LoggedRetentionNote};
use crate::storage::{Access, IndexList, Storage, StorageFile};

use super::cursor::Predecessor;
use super::entry::{Segment, SegmentEntry, valid_segment};
use super::footer::{read_footer, read_index};
use super::scan::{ChainCheck, FramePosition, Scan, SegmentBytes};

/// The required first segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogStart {
    pub(crate) ordinal: u64,
    /// Its first record.
    pub(crate) seq: u64,
    /// Chain value of the record before; `None` if only the segment's header states it.
    pub(crate) chain: Option<Chain>,
}

impl Default for LogStart {
    fn default() -> Self {
        Self { ordinal: 0, seq: 1, chain: Some(Chain::GENESIS) }
    }
}

impl LogStart {
    /// The start of a pruned log with this name as its first file.
    pub(crate) fn after_prune(first: SegmentName, retention: &LoggedRetentionNote) -> Self {
        let note = &retention.note;
        if first.ordinal <= note.last_ordinal {
            // A prune was interrupted: the segments that are still there are valid.
            return Self { ordinal: first.ordinal, seq: first.base_seq, chain: None };
        }
        Self {
            ordinal: note.last_ordinal.saturating_add(1),
            seq: note.last_seq.saturating_add(1),
            chain: note.chain(),
        }
    }

    /// The required predecessor of the first segment.
    pub(crate) fn predecessor(&self) -> Predecessor {
        self.chain.map_or(Predecessor::Unknown, |chain| Predecessor::Record(self.seq, chain))
    }

    /// The fault of the first segment, if any.
    pub(crate) fn problem(&self, header: &SegmentHeader) -> Option<String> {
        let is_first = header.base_seq == self.seq
            && self.chain.is_none_or(|chain| chain == header.prev_chain);
        if is_first {
            return None;
        }
        Some(match self.seq {
            1 => "the first segment does not begin at record 1".to_owned(),
            seq => format!(
                "the first segment does not start at the pruned end: expected record {seq} and the \
                 noted chain, found record {}",
                header.base_seq
            ),
        })
    }
}

/// The newest retention note in some segments.
pub(crate) fn find_retention_note(
    storage: &dyn Storage,
    list: &[SegmentEntry],
) -> Result<Option<LoggedRetentionNote>> {
    for (index, entry) in list.iter().enumerate().rev() {
        let Some(segment) = valid_segment(entry) else { continue };
        let path = &entry.1;
        let notes = IndexList::Kind(KIND_RETENTION_NOTE);
        let is_sealed = is_sealed_length(segment.length, segment.header.prealloc_len);
        if is_sealed && storage.has_list(path, notes) == Some(false) {
            continue;
        }
        let io = |error| Error::io("search for the retention note", path, error);
        let file = storage.open(path, Access::Read).map_err(io)?;
        if may_hold_note(&*file, segment).map_err(io)? {
            let is_newest = index + 1 == list.len();
            let found = last_note(file, segment, is_newest).map_err(io)?;
            if found.is_some() {
                return Ok(found);
            }
        }
    }
    Ok(None)
}

/// Whether a segment's index lists a retention note; a segment without an index may hold one.
fn may_hold_note(file: &dyn StorageFile, segment: &Segment) -> io::Result<bool> {
    let header = &segment.header;
    if !is_sealed_length(segment.length, header.prealloc_len) {
        return Ok(true);
    }
    let footer = read_footer(file, segment.length)?.ok();
    let Some(footer) = footer.filter(|footer| footer.header().as_ref() == Ok(header)) else {
        return Ok(true);
    };
    let index = read_index(file, &footer)?.ok();
    Ok(index.is_none_or(|index| index.of_kind(KIND_RETENTION_NOTE).next().is_some()))
}

/// The last note among the frames of a segment; damage is skipped.
fn last_note(
    file: Box<dyn StorageFile>,
    segment: &Segment,
    is_newest: bool,
) -> io::Result<Option<LoggedRetentionNote>> {
    let mut scan = Scan::new(SegmentBytes::windowed(file), &segment.header, segment.length);
    scan.chain_check = ChainCheck::Trust;
    let mut at = FramePosition::start(&segment.header);
    let mut last = None;
    loop {
        match scan.next(&mut at)? {
            Ok(found) => last = LoggedRetentionNote::from_record(&found).or(last),
            Err(FrameFault::Empty) if is_newest => return Ok(last),
            Err(_) => {
                let due = at.next_seq;
                match scan.find(at.offset + 64, |frame| frame.stamp.seq >= due)? {
                    None => return Ok(last),
                    Some(found) => at = found,
                }
            }
        }
    }
}
