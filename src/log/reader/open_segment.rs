//! A segment that can be read, with its index and footer.
//!
//! A footer or an index is never trusted. Reading an index checks its checksum, and a cursor checks
//! the record at each offset that an index names.

use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::format::{
    Footer, INDEX_HEADER_SIZE, Index, IndexCrc, IndexFault, SeekEntry, peek_seek_length, read_seeks,
};
use crate::log::folder::DATA_START;
use crate::log::record::{Anomaly, Damage, DerivedDamage, LogItem, RecordStatus};
use crate::log::segment::{
    DurableEnd, EndSource, Predecessor, Scan, SealState, Segment, SegmentBytes, SegmentCursor,
    read_index,
};
use crate::storage::{Access, StorageFile, read_sectors};

use super::log_reader::{LogReader, SegmentAccess};

/// A segment before its records are read, with its footer and its acknowledged end.
#[derive(Debug, Clone)]
pub(crate) struct OpenSegment<'a> {
    pub(crate) reader: &'a LogReader,
    pub(crate) path: &'a Path,
    pub(crate) segment: &'a Segment,
    pub(crate) durable_end: DurableEnd,
    pub(crate) seal: SealState,
    pub(crate) status: RecordStatus,
    pub(crate) is_newest: bool,
}

impl OpenSegment<'_> {
    /// Its file, for reading.
    pub(crate) fn file(&self) -> io::Result<Box<dyn StorageFile>> {
        self.reader.storage.open(self.path, Access::Read)
    }

    /// A cursor at the start of the segment.
    pub(crate) fn cursor(&self) -> Result<SegmentCursor> {
        let Segment { header, length, .. } = self.segment;
        let io = |what, error| Error::io(what, self.path, error);
        let file = self.file().map_err(|error| io("open the segment", error))?;
        // A segment that is not sealed yet is still written to, after its data.
        let is_final = !self.is_newest && self.seal.is_final();
        let source = if is_final && self.reader.access == SegmentAccess::Mapped {
            SegmentBytes::mapped(file)
        } else {
            SegmentBytes::windowed(file)
        };
        let is_open = self.is_newest && !matches!(self.seal, SealState::Sealed(_));
        let end = if is_open { self.durable_end.end.max(*length) } else { self.durable_end.end };
        let mut scan = Scan::new(source, header, end);
        scan.chain_check = self.reader.chain_check;
        Ok(SegmentCursor::new(scan, self.path, header, self.durable_end, self.status))
    }

    /// A damaged header, if its copy in the footer or the neighbouring segments replace it. No
    /// record is lost.
    pub(crate) fn damaged_header(&self) -> Option<Anomaly> {
        let fault = self.segment.fault.as_ref()?;
        let base_seq = self.segment.header.base_seq;
        Some(LogItem::Damage(Damage {
            path: self.path.to_owned(),
            offset: 0,
            end: DATA_START,
            first_seq: base_seq,
            last_seq: base_seq.saturating_sub(1),
            what: if matches!(self.seal, SealState::Sealed(_)) {
                format!("{fault}; the segment is read with the copy of the header in its footer")
            } else {
                format!("{fault}; its position is known from the neighboring segments and HEAD")
            },
        }))
    }

    /// The anomalies after a segment's records, in order: a wrong end, an invalid index or footer,
    /// a wrong file length.
    pub(crate) fn trailer(&self, end_anomaly: Option<Anomaly>) -> Result<Vec<Anomaly>> {
        let is_whole = end_anomaly.is_none();
        let mut items: Vec<_> = end_anomaly.into_iter().collect();
        items.extend(self.derived()?.map(LogItem::DerivedDamage));
        items.extend(self.wrong_length().filter(|_| is_whole));
        Ok(items)
    }

    /// The newest file must have its preallocated length. Lost or added bytes may not matter, but
    /// the writer refuses to open.
    fn wrong_length(&self) -> Option<Anomaly> {
        let Segment { header, length, .. } = self.segment;
        let expected = header.prealloc_len;
        let is_wrong = self.is_newest && *length != expected;
        if !is_wrong || matches!(self.seal, SealState::Sealed(_)) {
            return None;
        }
        let last_seq = self.durable_end.last_seq;
        Some(LogItem::Damage(Damage {
            path: self.path.to_owned(),
            offset: 0,
            end: *length,
            first_seq: last_seq.saturating_add(1),
            last_seq,
            what: format!("expected a file of {expected} bytes, found {length}"),
        }))
    }

    /// The end of the segment, if it is known before the records are read.
    pub(crate) fn expected_end(&self) -> Option<(Predecessor, u64)> {
        (self.durable_end.source == EndSource::Known).then(|| {
            let next_seq = self.durable_end.last_seq.saturating_add(1);
            let before = self.durable_end.chain.map(|chain| Predecessor::Record(next_seq, chain));
            (before.unwrap_or(Predecessor::Unknown), next_seq)
        })
    }

    /// The damage of the footer or index, if any.
    pub(crate) fn derived(&self) -> Result<Option<DerivedDamage>> {
        match &self.seal {
            SealState::Never | SealState::NotYet => Ok(None),
            SealState::Damaged(damage) => Ok(Some(damage.clone())),
            SealState::Sealed(footer) => {
                let fault = match self.check_index(footer) {
                    // A prune removed the file after its records were read.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        mutant!(PrunedIndexEndsWalk => return Err(self.index_error(error)));
                        None
                    }
                    fault => fault.map_err(|error| self.index_error(error))?,
                };
                Ok(fault.map(|fault| self.damaged_index(footer, fault)))
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

    /// Why the index does not match its checksum, if it does not; it is read in chunks.
    fn check_index(&self, footer: &Footer) -> io::Result<Option<IndexFault>> {
        let file = self.file()?;
        let mut check = IndexCrc::new(self.segment.header.segment, footer.data_end);
        let mut window = vec![0; WINDOW];
        let (mut offset, end) = (footer.data_end, footer.offset());
        while offset < end {
            let room = usize::try_from(end - offset).map_or(WINDOW, |room| room.min(WINDOW));
            let piece = window.get_mut(..room).unwrap_or_default();
            let read = read_sectors(&*file, piece, offset)?;
            if !read.unreadable.is_empty() {
                return Ok(Some(IndexFault::Unreadable));
            }
            if read.count == 0 {
                return Ok(Some(IndexFault::Checksum));
            }
            check.update(piece.get(..read.count).unwrap_or_default());
            offset += u64::try_from(read.count).map_err(io::Error::other)?;
        }
        Ok((!check.matches(footer)).then_some(IndexFault::Checksum))
    }

    /// The whole index after a check of its checksum, or the reason why it is invalid; `None`
    /// without a footer.
    pub(crate) fn index(&self) -> Result<Option<std::result::Result<Index, DerivedDamage>>> {
        let SealState::Sealed(footer) = &self.seal else { return Ok(None) };
        let index = self.file().and_then(|file| read_index(&*file, footer));
        let index = index.map_err(|error| self.index_error(error))?;
        Ok(Some(index.map_err(|fault| self.damaged_index(footer, fault))))
    }

    /// Whether the index was made with this stream rule.
    pub(crate) fn has_streams(&self, rule: u32) -> bool {
        matches!(&self.seal, SealState::Sealed(footer) if footer.stream_rule == rule)
    }

    /// The seek entries, unchecked: the cursor checks the record at each offset.
    pub(crate) fn seeks(&self) -> Result<Option<Vec<SeekEntry>>> {
        let SealState::Sealed(footer) = &self.seal else { return Ok(None) };
        let read =
            |length| self.read(footer.data_end, length).map_err(|error| self.index_error(error));
        let Some(head) = read(INDEX_HEADER_SIZE)? else { return Ok(None) };
        let Some(length) = peek_seek_length(&head, footer) else { return Ok(None) };
        Ok(read(length)?.and_then(|bytes| read_seeks(&bytes, footer)))
    }

    /// `None` if the storage cannot read some of the bytes.
    fn read(&self, offset: u64, length: usize) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; length];
        let read = read_sectors(&*self.file()?, &mut bytes, offset)?;
        bytes.truncate(read.count);
        Ok(read.unreadable.is_empty().then_some(bytes))
    }
}

/// How much of an index is read at a time to check it, in bytes.
const WINDOW: usize = 64 * 1024;
