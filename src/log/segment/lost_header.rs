//! Headers that cannot be read. A sealed segment has a copy of its header in its footer; the header
//! of another segment follows from its neighbours.
//!
//! The file name gives the start of the segment; the header of its successor, or HEAD for the
//! newest segment, gives its uid; and the segment before it gives the end of the predecessor. The
//! first record proves the result: its checksums are seeded with the segment's uid, and its chain
//! value follows from the record before it. Readers use such a header, so that only the header is
//! lost; a writer refuses to continue.

use std::io;

use crate::error::{Error, Result};
use crate::format::{Chain, Head, SegmentHeader, SegmentName, SegmentReason, Uid};
use crate::log::folder::DATA_START;
use crate::storage::{Access, Storage, StorageFile};

use super::entry::{Segment, valid_segment};
use super::footer::read_footer;
use super::list::Segments;
use super::scan::{FramePosition, Scan, SegmentBytes};

impl Segments {
    /// Replace the unreadable headers of segments by headers that follow from the neighbours.
    pub(crate) fn rebuild_headers(
        &mut self,
        storage: &dyn Storage,
        head: Option<&Head>,
    ) -> Result<()> {
        mutant!(LostHeaderLosesRecords => return Ok(()));
        for index in 0..self.list.len() {
            let Some((_, path, Err(_))) = self.list.get(index) else { continue };
            let rebuilt = self
                .rebuilt(storage, index, head)
                .map_err(|error| Error::io("read the segment", path, error))?;
            if let (Some(segment), Some((_, _, read))) = (rebuilt, self.list.get_mut(index)) {
                *read = Ok(segment);
            }
        }
        Ok(())
    }

    /// The segment at an index with a rebuilt header; `None` if not enough is known about it.
    fn rebuilt(
        &self,
        storage: &dyn Storage,
        index: usize,
        head: Option<&Head>,
    ) -> io::Result<Option<Segment>> {
        let Some((name, path, Err(fault))) = self.list.get(index) else { return Ok(None) };
        let identity = self.identity(*name, head).filter(|_| !fault.is_version());
        let Some(identity) = identity else { return Ok(None) };
        let Some(previous) = self.end_before(storage, *name)? else { return Ok(None) };
        let file = storage.open(path, Access::Read)?;
        let length = file.length()?;
        let header = previous.next_header(*name, &identity, length);
        if !begins_with_its_record(file, &header)? {
            return Ok(None);
        }
        Ok(Some(Segment { header, length, fault: Some(fault.clone()) }))
    }

    /// The identity of a segment according to its successor or HEAD.
    fn identity(&self, name: SegmentName, head: Option<&Head>) -> Option<Identity> {
        let next = name.ordinal.checked_add(1).and_then(|next| self.with_ordinal(next));
        if let Some(Segment { header, .. }) = next {
            let (ledger, segment) = (header.ledger, header.prev_segment);
            return Some(Identity { ledger, segment, writer_epoch: header.writer_epoch });
        }
        let head = head?;
        let is_named = head.ordinal == name.ordinal && head.durable_seq >= name.base_seq;
        let Head { ledger, segment, writer_epoch, .. } = *head;
        is_named.then_some(Identity { ledger, segment, writer_epoch })
    }

    /// The end of the segment before the one with this name, if it can be read.
    fn end_before(&self, storage: &dyn Storage, name: SegmentName) -> io::Result<Option<End>> {
        let Some(ordinal) = name.ordinal.checked_sub(1) else {
            return Ok((name.base_seq == 1).then_some(End::GENESIS));
        };
        let mut valid =
            self.list.iter().filter_map(|entry| Some((&entry.1, valid_segment(entry)?)));
        let Some((path, segment)) = valid.find(|(_, each)| each.header.ordinal == ordinal) else {
            return Ok(None);
        };
        let header = segment.header.clone();
        let file = storage.open(path, Access::Read)?;
        if let Ok(footer) = read_footer(&*file, segment.length)?
            && footer.header().as_ref() == Ok(&header)
        {
            let (data_end, chain) = (footer.data_end, footer.chain_last);
            let is_next = footer.last_seq.checked_add(1) == Some(name.base_seq);
            let end = End { header: Some(header), is_sealed: true, data_end, chain };
            return Ok(is_next.then_some(end));
        }
        // A fence closed it: its last record is the one before the next segment.
        let mut scan = Scan::new(SegmentBytes::windowed(file), &header, segment.length);
        let mut at = FramePosition::start(&header);
        while at.next_seq < name.base_seq {
            if scan.advance(&mut at)?.is_err() {
                return Ok(None);
            }
        }
        let Some(chain) = at.chain.filter(|_| at.next_seq == name.base_seq) else {
            return Ok(None);
        };
        Ok(Some(End { header: Some(header), is_sealed: false, data_end: at.offset, chain }))
    }
}

/// The identity of a segment according to its neighbours.
struct Identity {
    ledger: Uid,
    segment: Uid,
    /// The highest epoch that it can have.
    writer_epoch: u64,
}

/// The end of a segment.
struct End {
    /// Its header; `None` before the first segment of a log.
    header: Option<SegmentHeader>,
    is_sealed: bool,
    data_end: u64,
    chain: Chain,
}

impl End {
    const GENESIS: Self =
        Self { header: None, is_sealed: false, data_end: 0, chain: Chain::GENESIS };

    fn next_header(self, name: SegmentName, identity: &Identity, length: u64) -> SegmentHeader {
        let Self { header, is_sealed, data_end, chain } = self;
        let previous = header.as_ref();
        let Identity { ledger, segment, writer_epoch } = *identity;
        SegmentHeader {
            ledger,
            segment,
            ordinal: name.ordinal,
            base_seq: name.base_seq,
            prev_chain: chain,
            prev_segment: previous.map_or([0; 16], |header| header.segment),
            prev_data_end: data_end,
            prev_last_seq: name.base_seq.saturating_sub(1),
            writer_epoch,
            // It is for information only.
            created: 0,
            prealloc_len: length,
            reason: match previous {
                None => SegmentReason::Create,
                Some(_) if is_sealed => SegmentReason::Rotate,
                Some(_) => SegmentReason::FenceAfterCrash,
            },
            born_last: 0,
            born_end: 0,
            genesis: previous.map_or(ledger, |header| header.genesis),
            ro_compat: 0,
        }
    }
}

fn begins_with_its_record(file: Box<dyn StorageFile>, header: &SegmentHeader) -> io::Result<bool> {
    let end = header.prealloc_len.max(DATA_START);
    let mut scan = Scan::new(SegmentBytes::windowed(file), header, end);
    Ok(scan.advance(&mut FramePosition::start(header))?.is_ok())
}
