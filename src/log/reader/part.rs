//! Durable batches byte for byte, for a second place that keeps the log.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, Head, SegmentHeader, Uid};
use crate::log::errors::damaged;
use crate::log::folder::DATA_START;
use crate::log::record::Ack;
use crate::log::segment::{
    FolderPart, FramePosition, Scan, SealState, Segment, SegmentBytes, valid_segment,
};
use crate::storage::{Access, read_sectors};

use super::log_reader::LogReader;

/// A segment that no longer changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteSegment {
    /// Its header.
    pub header: SegmentHeader,
    /// Its last record.
    pub last_seq: u64,
    /// The offset after it.
    pub data_end: u64,
    /// Whether an index and a footer follow. Before a fence there are none.
    pub is_sealed: bool,
    /// The number of bytes that belong to it.
    pub length: u64,
}

#[doc(hidden)]
impl LogReader {
    /// The log as it is now: HEAD and the headers are read again.
    ///
    /// # Errors
    /// `Io`.
    pub fn reload(&self) -> Result<Self> {
        Self::load(&self.storage, &self.paths, self.access, None)
    }

    /// The durable batches after a record, up to the end of their segment: as many as fit into some bytes,
    /// and at least one. `place` is the segment of that record, and the offset after it; `None` is the start
    /// of the log. Returns `None` only if HEAD covers nothing after it: a caller that continues until then has everything.
    ///
    /// # Errors
    /// `Pruned`; `Conflict` if the log has other records than this one there; `Rejected` if a segment without a
    /// record precedes them; `Corrupt` with the place of damage; `Io`.
    pub fn part_after(
        &self,
        place: Option<(&SegmentHeader, u64)>,
        last: Ack,
        size_max: u64,
    ) -> Result<Option<FolderPart>> {
        let Some(head) = self.head().filter(|head| head.durable_seq > last.seq) else {
            return Ok(None);
        };
        self.check_unpruned(last.seq + 1)?;
        let (header, start) = self.place_after(place, last, head).ok_or_else(|| {
            let message = format!("the log has no record that follows record {}", last.seq);
            Error::new(ErrorKind::Conflict, message).at_path(self.dir()).at_seq(last.seq + 1)
        })?;
        let end = self.durable_end(&header, head);
        if start.offset >= end {
            mutant!(EmptySegmentIsTheEnd => return Ok(None));
            return Err(self.segment_without_record(&header));
        }
        let path = self.segment_path(header.ordinal);
        let file = self.storage.open(&path, Access::Read);
        let file = file.map_err(|error| Error::io("open the segment", &path, error))?;
        let mut scan = Scan::new(SegmentBytes::windowed(file), &header, end);
        let part = FolderPart::read(&mut scan, &path, header, start, size_max)?;
        match part {
            Some(part) => Ok(Some(part)),
            None => Err(damaged(&path, start.offset, start.next_seq, "the batch has no end")),
        }
    }

    /// A crash can leave a segment without a record: no batch has its header.
    fn segment_without_record(&self, header: &SegmentHeader) -> Error {
        let message = format!(
            "segment {} has no record, since a crash interrupted the first write to it; a store can have no such \
             segment",
            header.ordinal
        );
        Error::new(ErrorKind::Rejected, message)
            .with_hint("export the ledger, and import it into a new one")
            .at_path(&self.segment_path(header.ordinal))
            .at_seq(header.base_seq)
    }

    /// The number of bytes of durable frames after a record, which is given as for [`Self::part_after`].
    #[must_use]
    pub fn durable_bytes_after(&self, place: Option<(&SegmentHeader, u64)>) -> u64 {
        let Some(head) = self.head() else { return 0 };
        let (first, offset) = place.map_or((0, DATA_START), |(own, end)| (own.ordinal, end));
        let segments = self.segments.list.iter().filter_map(valid_segment);
        let after = segments.map(|segment| &segment.header).filter(|own| own.ordinal >= first);
        let bytes = after.map(|own| {
            let start = if own.ordinal == first { offset } else { DATA_START };
            self.durable_end(own, head).saturating_sub(start)
        });
        bytes.sum()
    }

    /// The segment that has a record, if it is complete. Also `None` if the log no longer has it.
    ///
    /// # Errors
    /// `Io`.
    pub fn complete_segment(&self, seq: u64) -> Result<Option<CompleteSegment>> {
        let is_own = |segment: &&Segment| segment.header.base_seq <= seq;
        let mut valid = self.segments.list.iter().filter_map(valid_segment);
        let Some(segment) = valid.rfind(is_own) else { return Ok(None) };
        let header = &segment.header;
        let Some(next) = self.segments.successor(header) else { return Ok(None) };
        let path = self.segment_path(header.ordinal);
        let state = self.segments.seal_state(&*self.storage, &path, segment)?;
        let (is_sealed, length) = match state {
            SealState::Sealed(_) => (true, segment.length),
            SealState::Never => (false, next.prev_data_end),
            SealState::NotYet | SealState::Damaged(_) => return Ok(None),
        };
        let (last_seq, data_end) = (next.prev_last_seq, next.prev_data_end);
        let complete =
            CompleteSegment { header: header.clone(), last_seq, data_end, is_sealed, length };
        Ok(Some(complete).filter(|complete| complete.last_seq >= seq))
    }

    /// The bytes of a complete segment.
    ///
    /// # Errors
    /// `Corrupt` if the file is shorter; `Io`.
    pub fn bytes_of(&self, segment: &CompleteSegment) -> Result<Vec<u8>> {
        let path = self.segment_path(segment.header.ordinal);
        let failed = |error| Error::io("read the segment", &path, error);
        let file = self.storage.open(&path, Access::Read).map_err(failed)?;
        let mut bytes = vec![0; usize::try_from(segment.length).unwrap_or(usize::MAX)];
        let read = read_sectors(&*file, &mut bytes, 0).map_err(failed)?;
        if read.complete().map_err(failed)? < bytes.len() {
            let message = "the file is shorter than the segment";
            return Err(Error::new(ErrorKind::Corrupt, message).at_path(&path));
        }
        Ok(bytes)
    }

    /// The header of the segment that has a durable record, and the offset after the record, if it has this
    /// chain value and is in this segment.
    ///
    /// # Errors
    /// As [`LogReader::record`].
    pub fn place_of(
        &self,
        seq: u64,
        chain: &Chain,
        segment: &Uid,
    ) -> Result<Option<(SegmentHeader, u64)>> {
        if seq < self.first_seq() {
            return Ok(None);
        }
        let record = self.record(seq)?.filter(|record| record.chain == *chain);
        Ok(record.and_then(|record| {
            let own = self.segments.with_ordinal(record.segment)?;
            let is_own = own.header.segment == *segment;
            is_own.then(|| (own.header.clone(), record.offset + record.size))
        }))
    }

    /// The position after the last record.
    fn place_after(
        &self,
        place: Option<(&SegmentHeader, u64)>,
        last: Ack,
        head: &Head,
    ) -> Option<(SegmentHeader, FramePosition)> {
        let mut headers =
            self.segments.list.iter().filter_map(valid_segment).map(|segment| &segment.header);
        let next = match place {
            None => headers.next(),
            Some((own, offset)) => {
                let own = headers.find(|header| header.segment == own.segment)?;
                if offset < self.durable_end(own, head) {
                    let chain = Some(last.chain);
                    let at = FramePosition { offset, next_seq: last.seq + 1, chain };
                    return Some((own.clone(), at));
                }
                self.segments.successor(own).filter(|next| next.prev_data_end == offset)
            }
        }?;
        let is_next = (next.prev_last_seq, next.prev_chain) == (last.seq, last.chain);
        is_next.then(|| (next.clone(), FramePosition::start(next)))
    }

    /// The offset up to which records of a segment are durable.
    fn durable_end(&self, header: &SegmentHeader, head: &Head) -> u64 {
        if header.segment == head.segment {
            return head.data_end;
        }
        let next = self.segments.successor(header).filter(|_| header.ordinal < head.ordinal);
        next.map_or(0, |next| next.prev_data_end)
    }
}
