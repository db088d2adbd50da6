//! A cursor over the records of one segment. It reports damage and continues after it.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::{Chain, FrameFault, SegmentHeader};
use crate::log::record::{Anomaly, Damage, LogItem, LoggedRecord, RecordStatus};

use super::scan::{FramePosition, Scan};

/// The acknowledged end of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DurableEnd {
    /// Everything before this offset was acknowledged.
    pub(crate) end: u64,
    /// The last acknowledged record.
    pub(crate) last_seq: u64,
    /// Its chain value, according to the successor or HEAD.
    pub(crate) chain: Option<Chain>,
    pub(crate) source: EndSource,
}

/// The source of a segment's acknowledged end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndSource {
    /// Exactly: from the successor's header, HEAD or the segment's own header.
    Known,
    /// The successor is damaged or missing: `last_seq` is before the next segment that is present,
    /// and `end` is the end of the file. Missing records are reported with the successor.
    Estimated,
}

/// A position in a segment, and the known facts about the records before it.
#[derive(Debug)]
pub(crate) struct SegmentCursor {
    scan: Scan,
    path: PathBuf,
    at: FramePosition,
    /// The position after the last acknowledged record that was read, if the cursor is beyond it.
    durable_at: Option<FramePosition>,
    durable_end: DurableEnd,
    status: RecordStatus,
}

#[derive(Debug)]
pub(crate) enum CursorStep {
    /// A record: see [`SegmentCursor::current`].
    Record(RecordStatus),
    /// Anything else. Boxed, because records are frequent and anomalies are rare.
    Anomaly(Box<Anomaly>),
}

/// A position in a segment at which reading can continue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResumePoint {
    pub(crate) at: FramePosition,
    pub(crate) durable_at: FramePosition,
    pub(crate) status: RecordStatus,
    pub(crate) origin: ResumePointOrigin,
}

/// The source of a resume point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResumePointOrigin {
    /// An index, which may be wrong.
    Index,
    /// A cursor that read up to this position.
    Cursor,
}

/// The known facts about the end of a segment.
#[derive(Debug)]
pub(crate) struct SegmentEnd {
    pub(crate) before: Predecessor,
    pub(crate) next_seq: u64,
    /// The anomaly at the end, if there is one.
    pub(crate) anomaly: Option<Anomaly>,
}

impl SegmentCursor {
    pub(crate) fn new(
        scan: Scan,
        path: &Path,
        header: &SegmentHeader,
        durable_end: DurableEnd,
        status: RecordStatus,
    ) -> Self {
        let at = FramePosition::start(header);
        Self { scan, path: path.to_owned(), at, durable_at: None, durable_end, status }
    }

    /// The current position as a resume point.
    pub(crate) fn resume_point(&self) -> ResumePoint {
        let Self { at, status, .. } = *self;
        ResumePoint {
            at,
            durable_at: self.durable_at.unwrap_or(at),
            status,
            origin: ResumePointOrigin::Cursor,
        }
    }

    /// Continue from a point. An index is never trusted: if the record it names is not there, the
    /// cursor stays where it is. It also stays if the point is beyond the acknowledged end and that
    /// end has moved since.
    pub(crate) fn resume(&mut self, point: &ResumePoint) -> Result<bool> {
        let mut at = point.at;
        if point.origin == ResumePointOrigin::Index {
            let chain = self.scan.chain_before(at.offset).map_err(|e| self.unreadable(e))?;
            at.chain = chain;
            let mut after = at;
            let found = self.scan.advance(&mut after).map_err(|error| self.unreadable(error))?;
            if (chain.is_none() || found.is_err()) && !mutant!(IndexEntryUnchecked) {
                return Ok(false);
            }
            self.durable_at = None;
        } else {
            let end = self.durable_end.end;
            let is_acknowledged = at.offset <= end;
            if !is_acknowledged && point.durable_at.offset != end {
                return Ok(false);
            }
            self.durable_at = (!is_acknowledged).then_some(point.durable_at);
            self.status = point.status;
        }
        self.at = at;
        Ok(true)
    }

    /// Make the record at an offset the current one, if it is intact and follows from the bytes
    /// before it. The position stays.
    pub(crate) fn jump(&mut self, offset: u64) -> io::Result<std::result::Result<(), FrameFault>> {
        self.scan.jump(offset)
    }

    /// The next item that begins before `stop`; `None` at the end.
    pub(crate) fn next_item_before(&mut self, stop: u64) -> Result<Option<LogItem>> {
        if self.at.offset >= stop { Ok(None) } else { self.next_item() }
    }

    /// The next item; `None` at the end.
    pub(crate) fn next_item(&mut self) -> Result<Option<LogItem>> {
        Ok(self.advance()?.map(|passed| match passed {
            CursorStep::Record(status) => LogItem::Record(self.current().into_owned(), status),
            CursorStep::Anomaly(item) => item.into_item(),
        }))
    }

    /// The record of the last step. Its payload is borrowed from the read buffer.
    #[inline]
    pub(crate) fn current(&self) -> LoggedRecord<&[u8]> {
        self.scan.current()
    }

    /// The last record that was durable when the current one was written.
    pub(crate) fn durable_before(&self) -> u64 {
        self.scan.durable_before()
    }

    /// Sequence number of the next record.
    pub(crate) fn next_seq(&self) -> u64 {
        self.at.next_seq
    }

    /// Advance to the next record or anomaly; `None` at the end.
    pub(crate) fn advance(&mut self) -> Result<Option<CursorStep>> {
        let is_estimated = self.durable_end.source == EndSource::Estimated;
        let is_after_estimate = is_estimated && self.at.next_seq > self.durable_end.last_seq;
        if self.at.offset >= self.scan.end || is_after_estimate {
            return Ok(None);
        }
        let fault = match self.advance_record()? {
            Ok(status) => return Ok(Some(CursorStep::Record(status))),
            Err(fault) => fault,
        };
        self.anomaly_at(fault)
    }

    /// Classify the bytes at a position without a valid record.
    fn anomaly_at(&mut self, fault: FrameFault) -> Result<Option<CursorStep>> {
        let is_estimated = self.durable_end.source == EndSource::Estimated;
        let (next, last_seq) = (self.at.next_seq, self.durable_end.last_seq);
        if is_estimated {
            let found = self.find(|seq, _| seq > next && seq <= last_seq)?;
            return Ok(match found {
                Some(found) => Some(self.skip(fault, found.offset, found.next_seq)),
                None => self.end(),
            });
        }
        if self.at.offset < self.durable_end.end {
            let limit = self.durable_end.end;
            let found = self.find(|seq, _| seq > next)?.filter(|found| found.offset < limit);
            let (end, seq) = found.map_or((limit, last_seq.saturating_add(1).max(next)), |found| {
                (found.offset, found.next_seq)
            });
            return Ok(Some(self.skip(fault, end, seq)));
        }
        self.advance_beyond_end(fault)
    }

    /// After the durable end: a write in progress, a write that a crash interrupted, or a stale
    /// HEAD and a later record which proves that this one was durable.
    fn advance_beyond_end(&mut self, fault: FrameFault) -> Result<Option<CursorStep>> {
        if matches!(fault, FrameFault::Empty | FrameFault::Truncated) {
            return Ok(self.end());
        }
        let next = self.at.next_seq;
        let is_proof = |seq: u64, inflight: u32| seq.saturating_sub(u64::from(inflight)) >= next;
        let Some(found) = self.find(is_proof)? else {
            let offset = self.at.offset;
            self.end();
            let path = self.path.clone();
            return Ok(Some(CursorStep::Anomaly(Box::new(LogItem::OpenEnd {
                path,
                offset,
                fault,
            }))));
        };
        // A writer may have changed the bytes while they were read.
        self.scan.source.refresh();
        Ok(Some(match self.advance_record()? {
            Ok(status) => CursorStep::Record(status),
            Err(fault) => self.skip(fault, found.offset, found.next_seq),
        }))
    }

    /// Advance over the record at the position, or return the fault there.
    fn advance_record(&mut self) -> Result<std::result::Result<RecordStatus, FrameFault>> {
        let is_durable = self.at.offset < self.durable_end.end;
        if is_durable {
            self.durable_at = None;
        } else if self.durable_at.is_none() {
            self.durable_at = Some(self.at);
        }
        let passed = self.scan.advance(&mut self.at).map_err(|error| self.unreadable(error))?;
        Ok(passed.map(|()| if is_durable { self.status } else { RecordStatus::Unacknowledged }))
    }

    /// The first intact frame after the position whose seq and inflight match.
    fn find(&mut self, wanted: impl Fn(u64, u32) -> bool) -> Result<Option<FramePosition>> {
        self.scan
            .find(self.at.offset + 64, |frame| wanted(frame.stamp.seq, frame.stamp.inflight))
            .map_err(|error| self.unreadable(error))
    }

    fn unreadable(&self, error: std::io::Error) -> Error {
        Error::io("read a record", &self.path, error).at_offset(self.at.offset)
    }

    /// Stop: the segment holds no further record.
    fn end(&mut self) -> Option<CursorStep> {
        self.durable_at.get_or_insert(self.at);
        self.at.offset = self.scan.end;
        None
    }

    /// Continue at `end` with record `next_seq`, and report the bytes before it as damage.
    fn skip(&mut self, fault: FrameFault, end: u64, next_seq: u64) -> CursorStep {
        let start = self.at;
        self.status = RecordStatus::AfterDamage;
        self.at = FramePosition { offset: end, next_seq, chain: None };
        if start.offset < self.durable_end.end {
            self.durable_at = None;
        } else {
            self.durable_at.get_or_insert(start);
        }
        CursorStep::Anomaly(Box::new(LogItem::Damage(Damage {
            path: self.path.clone(),
            offset: start.offset,
            end,
            first_seq: start.next_seq,
            last_seq: next_seq.saturating_sub(1),
            what: fault.describe().to_owned(),
        })))
    }

    /// Compare the end that was reached with the one that the successor or HEAD names.
    pub(crate) fn finish(self) -> SegmentEnd {
        let Self { durable_end, status, path, .. } = self;
        let at = self.durable_at.unwrap_or(self.at);
        let before = match (status, at.chain) {
            (RecordStatus::Durable, Some(chain)) => Predecessor::Record(at.next_seq, chain),
            _ => Predecessor::Damage,
        };
        let next_seq = at.next_seq;
        if durable_end.source == EndSource::Estimated {
            return SegmentEnd { before, next_seq, anomaly: None };
        }
        // Directly after damage the chain value is unknown.
        let is_same =
            at.chain.is_none() || durable_end.chain.is_none() || at.chain == durable_end.chain;
        let is_reached =
            Some(next_seq) == durable_end.last_seq.checked_add(1) && at.offset == durable_end.end;
        if is_reached && is_same {
            return SegmentEnd { before, next_seq, anomaly: None };
        }
        let what = if is_reached {
            "the last record is not the one that the successor or HEAD names"
        } else {
            "acknowledged records are missing at the end of the segment"
        };
        let anomaly = LogItem::Damage(Damage {
            path,
            offset: at.offset.min(durable_end.end),
            end: durable_end.end,
            first_seq: next_seq.min(durable_end.last_seq),
            last_seq: durable_end.last_seq,
            what: what.to_owned(),
        });
        let next_seq = durable_end.last_seq.saturating_add(1);
        SegmentEnd { before: Predecessor::Damage, next_seq, anomaly: Some(anomaly) }
    }
}

/// The known facts about the records before a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Predecessor {
    /// Nothing: the links of the first header are not checked.
    Unknown,
    /// The next sequence number and the chain value of the last record.
    Record(u64, Chain),
    /// They are damaged.
    Damage,
}
