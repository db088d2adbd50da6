//! Reading what a sealed segment has behind its data. None of it is trusted: a footer or an index
//! that does not hold, or does not agree with the headers, is reported and not used.

use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::format::{
    FOOTER_SIZE, Footer, FooterFault, INDEX_HEADER_SIZE, Index, IndexCheck, IndexFault, Reason,
    SeekEntry, SegmentHeader, is_sealed_length, peek_seek_length, read_seeks,
};
use crate::storage::{Access, StorageFile};

use super::reader::LogReader;
use super::row::Opened;
use super::segments::Segment;
use super::walk::DerivedDamage;

/// Whether a segment is sealed.
#[derive(Debug, Clone)]
pub(super) enum Seal {
    /// It was closed by a fence, and never will be.
    Never,
    /// Not yet; or it is the newest one.
    NotYet,
    /// It is, and this is its footer.
    Whole(Box<Footer>),
    /// It is, but its footer does not hold.
    Damaged(DerivedDamage),
}

impl Seal {
    /// Whether no writer will touch the file any more.
    pub(super) fn is_settled(&self) -> bool {
        !matches!(self, Self::NotYet)
    }
}

/// The footer at the end of a file of that length.
pub(super) fn read_footer(
    file: &dyn StorageFile,
    length: u64,
) -> io::Result<std::result::Result<Footer, FooterFault>> {
    let mut bytes = vec![0; FOOTER_SIZE];
    let Some(offset) = length.checked_sub(SIZE) else { return Ok(Err(FooterFault::Cut)) };
    let count = file.read_at(&mut bytes, offset)?;
    Ok(Footer::decode(bytes.get(..count).unwrap_or_default(), offset))
}

/// The footer's size as a length on disk.
const SIZE: u64 = 4096;
const _: () = assert!(FOOTER_SIZE == 4096, "SIZE is the footer's");

/// The header of a segment whose own does not hold, as its footer repeats it.
pub(super) fn read_replica(
    file: &dyn StorageFile,
    length: u64,
) -> io::Result<Option<SegmentHeader>> {
    let footer = read_footer(file, length)?.ok();
    Ok(footer.and_then(|footer| footer.header().ok()))
}

impl LogReader {
    /// Whether a segment is sealed, and its footer.
    pub(super) fn seal(&self, path: &Path, segment: &Segment) -> Result<Seal> {
        let header = &segment.header;
        let next = self.segments.successor(header);
        if next.is_some_and(|next| next.reason != Reason::Rotate) {
            return Ok(Seal::Never);
        }
        if !is_sealed_length(segment.length, header.prealloc_len) {
            return Ok(Seal::NotYet);
        }
        let io = |what, error| Error::io(what, path, error);
        let file =
            self.storage.open(path, Access::Read).map_err(|error| io("open the segment", error))?;
        let read =
            read_footer(&*file, segment.length).map_err(|error| io("read the footer", error))?;
        let problem = match &read {
            Ok(footer) => disagreement(footer, header, next).map(str::to_owned),
            Err(fault) => Some(fault.to_string()),
        };
        Ok(match (read, problem) {
            (Ok(footer), None) => Seal::Whole(Box::new(footer)),
            // Without a successor nobody says that it was ever sealed.
            (_, Some(_)) if next.is_none() => Seal::NotYet,
            (_, problem) => Seal::Damaged(DerivedDamage {
                path: path.to_owned(),
                offset: segment.length.saturating_sub(SIZE),
                end: segment.length,
                what: problem.unwrap_or_default(),
            }),
        })
    }
}

/// What an intact footer says that the headers do not.
fn disagreement(
    footer: &Footer,
    header: &SegmentHeader,
    next: Option<&SegmentHeader>,
) -> Option<&'static str> {
    if footer.header().as_ref() != Ok(header) {
        return Some("the footer is that of another segment");
    }
    let is_end = |next: &SegmentHeader| {
        (footer.data_end, footer.last_seq, footer.chain_last)
            == (next.prev_data_end, next.prev_last_seq, next.prev_chain)
    };
    (!next.is_none_or(is_end)).then_some("the footer's end is not the one that the successor names")
}

impl Opened<'_> {
    /// What is wrong with footer or index, if anything.
    pub(super) fn derived(&self) -> Result<Option<DerivedDamage>> {
        match &self.seal {
            Seal::Never | Seal::NotYet => Ok(None),
            Seal::Damaged(damage) => Ok(Some(damage.clone())),
            Seal::Whole(footer) => {
                let holds = self.check_index(footer).map_err(|error| self.index_error(error))?;
                Ok((!holds).then(|| self.damaged_index(footer, IndexFault::Checksum)))
            }
        }
    }

    fn index_error(&self, error: io::Error) -> Error {
        Error::io("read the index", self.path, error)
    }

    fn damaged_index(&self, footer: &Footer, fault: IndexFault) -> DerivedDamage {
        DerivedDamage {
            path: self.path.to_owned(),
            offset: footer.data_end,
            end: footer.offset(),
            what: fault.to_string(),
        }
    }

    /// Whether the index's sum is right; it is read in pieces.
    fn check_index(&self, footer: &Footer) -> io::Result<bool> {
        let file = self.file()?;
        let mut check = IndexCheck::new(self.segment.header.segment, footer.data_end);
        let mut window = vec![0; WINDOW];
        let (mut offset, end) = (footer.data_end, footer.offset());
        while offset < end {
            let room = usize::try_from(end - offset).map_or(WINDOW, |room| room.min(WINDOW));
            let piece = window.get_mut(..room).unwrap_or_default();
            let count = file.read_at(piece, offset)?;
            if count == 0 {
                return Ok(false);
            }
            check.update(piece.get(..count).unwrap_or_default());
            offset += u64::try_from(count).map_err(io::Error::other)?;
        }
        Ok(check.holds(footer))
    }

    /// The whole index, checked; or what is wrong with it; `None` if there is none.
    pub(super) fn index(&self) -> Result<Option<std::result::Result<Index, DerivedDamage>>> {
        let Seal::Whole(footer) = &self.seal else { return Ok(None) };
        // At most `INDEX_LENGTH_MAX`, and no more than the file has: the footer was checked.
        let length = usize::try_from(footer.index_length).unwrap_or(0);
        let bytes = self.read(footer.data_end, length).map_err(|error| self.index_error(error))?;
        let index = Index::decode(bytes, footer);
        Ok(Some(index.map_err(|fault| self.damaged_index(footer, fault))))
    }

    /// Whether the index has the streams that the rule of that number gives.
    pub(super) fn has_streams(&self, rule: u32) -> bool {
        matches!(&self.seal, Seal::Whole(footer) if footer.stream_rule == rule)
    }

    /// The seek entries, unchecked: whoever seeks checks what is found.
    pub(super) fn seeks(&self) -> Result<Option<Vec<SeekEntry>>> {
        let Seal::Whole(footer) = &self.seal else { return Ok(None) };
        let read =
            |length| self.read(footer.data_end, length).map_err(|error| self.index_error(error));
        let head = read(INDEX_HEADER_SIZE)?;
        let Some(length) = peek_seek_length(&head, footer) else { return Ok(None) };
        Ok(read_seeks(&read(length)?, footer))
    }

    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let count = self.file()?.read_at(&mut bytes, offset)?;
        bytes.truncate(count);
        Ok(bytes)
    }
}

/// How much of an index is read at a time to check it, in bytes.
const WINDOW: usize = 64 * 1024;
