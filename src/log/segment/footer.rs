//! The footer of a sealed segment, and whether a segment is sealed.
//!
//! Neither footer nor index is trusted: one that is invalid or contradicts the headers is reported
//! and not used.

use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::format::{
    FOOTER_SIZE, Footer, FooterFault, Index, IndexFault, SegmentHeader, SegmentReason,
    is_sealed_length,
};
use crate::log::record::DerivedDamage;
use crate::storage::{Access, Storage, StorageFile, read_sectors};

/// Whether a segment is sealed.
#[derive(Debug, Clone)]
pub(crate) enum SealState {
    /// It was closed by a fence and is never sealed.
    Never,
    /// It is not sealed yet, or it is the newest one.
    NotYet,
    /// It is sealed; this is its footer.
    Sealed(Box<Footer>),
    /// It was sealed, but its footer is invalid.
    Damaged(DerivedDamage),
}

impl SealState {
    /// Whether the writer will never write to the file again.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, Self::NotYet)
    }
}

/// The footer at the end of a file of this length.
pub(crate) fn read_footer(
    file: &dyn StorageFile,
    length: u64,
) -> io::Result<std::result::Result<Footer, FooterFault>> {
    let mut bytes = vec![0; FOOTER_SIZE];
    let Some(offset) = length.checked_sub(SIZE) else { return Ok(Err(FooterFault::Truncated)) };
    let read = read_sectors(file, &mut bytes, offset)?;
    if !read.unreadable.is_empty() {
        return Ok(Err(FooterFault::Unreadable));
    }
    Ok(Footer::decode(bytes.get(..read.count).unwrap_or_default(), offset))
}

/// The index of a sealed segment, after a check of its checksum.
pub(crate) fn read_index(
    file: &dyn StorageFile,
    footer: &Footer,
) -> io::Result<std::result::Result<Index, IndexFault>> {
    // At most `INDEX_LENGTH_MAX` and within the file: the footer was checked.
    let mut bytes = vec![0; usize::try_from(footer.index_length).unwrap_or(0)];
    let read = read_sectors(file, &mut bytes, footer.data_end)?;
    if !read.unreadable.is_empty() {
        return Ok(Err(IndexFault::Unreadable));
    }
    bytes.truncate(read.count);
    Ok(Index::decode(bytes, footer))
}

/// The footer's size as a length on disk.
const SIZE: u64 = 4096;
const _: () = assert!(FOOTER_SIZE == 4096, "SIZE is the footer's");

/// The copy of the header in the footer, for a segment with an invalid header.
pub(crate) fn read_replica(
    file: &dyn StorageFile,
    length: u64,
) -> io::Result<Option<SegmentHeader>> {
    let footer = read_footer(file, length)?.ok();
    Ok(footer.and_then(|footer| footer.header().ok()))
}

/// Whether a segment of this length, with this successor, is sealed; and its footer.
pub(crate) fn read_seal_state(
    storage: &dyn Storage,
    path: &Path,
    header: &SegmentHeader,
    length: u64,
    next: Option<&SegmentHeader>,
) -> Result<SealState> {
    if next.is_some_and(|next| next.reason != SegmentReason::Rotate) {
        return Ok(SealState::Never);
    }
    if !is_sealed_length(length, header.prealloc_len) {
        return Ok(SealState::NotYet);
    }
    let io = |what, error| Error::io(what, path, error);
    let file = storage.open(path, Access::Read).map_err(|error| io("open the segment", error))?;
    let read = read_footer(&*file, length).map_err(|error| io("read the footer", error))?;
    let problem = match &read {
        Ok(footer) => disagreement(footer, header, next).map(str::to_owned),
        Err(fault) => Some(fault.to_string()),
    };
    Ok(match (read, problem) {
        (Ok(footer), None) => SealState::Sealed(Box::new(footer)),
        // Without a successor nothing proves that the segment was ever sealed.
        (_, Some(_)) if next.is_none() => SealState::NotYet,
        (_, problem) => SealState::Damaged(DerivedDamage {
            path: path.to_owned(),
            offset: length.saturating_sub(SIZE),
            end: length,
            what: problem.unwrap_or_default(),
        }),
    })
}

/// The contradiction between a valid footer and the headers, if any.
fn disagreement(
    footer: &Footer,
    header: &SegmentHeader,
    next: Option<&SegmentHeader>,
) -> Option<&'static str> {
    if footer.header().as_ref() != Ok(header) {
        return Some("the footer belongs to another segment");
    }
    let is_end = |next: &SegmentHeader| {
        (footer.data_end, footer.last_seq, footer.chain_last)
            == (next.prev_data_end, next.prev_last_seq, next.prev_chain)
    };
    (!next.is_none_or(is_end)).then_some("the footer's end is not the one that the successor names")
}
