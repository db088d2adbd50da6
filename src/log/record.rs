//! The items that reading a log yields: records, and anomalies in the place where they are found.
//!
//! A walk yields [`LogItem`]s in the order of the log. An anomaly is an item too, so a reader
//! cannot miss it.

use std::convert::Infallible;
use std::path::PathBuf;

use crate::error::Error;
use crate::format::{Chain, Codec, FrameFault, Record, SKIPPABLE_KINDS_FROM, frame_size};

use super::bytes::to_u64;
use super::errors::damaged;
use super::folder::DATA_START;

/// A record and its place. The payload is owned, or borrowed from the reader's buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRecord<P = Vec<u8>> {
    /// Sequence number.
    pub seq: u64,
    /// Microseconds since the Unix epoch.
    pub time: u64,
    /// Kind of the payload.
    pub kind: u16,
    /// Encoding of the payload.
    pub codec: Codec,
    /// Version of the payload's layout.
    pub schema: u16,
    /// Number of records of the same batch that follow.
    pub batch_left: u16,
    /// The payload.
    pub payload: P,
    /// Chain value.
    pub chain: Chain,
    /// Ordinal of its segment.
    pub segment: u64,
    /// Offset of its frame in the segment, in bytes.
    pub offset: u64,
    /// Size of its frame, in bytes.
    pub size: u64,
}

impl<P> LoggedRecord<P> {
    /// Whether this is a note of the log about itself, or a record of another program that a reader may
    /// skip: its kind is 0x8000 or greater.
    #[must_use]
    pub fn is_note(&self) -> bool {
        self.kind >= SKIPPABLE_KINDS_FROM
    }

    /// A verified record in its place, with its payload in another form.
    #[inline]
    pub(crate) fn of(record: &Record<'_>, payload: P, segment: u64, offset: u64) -> Self {
        let header = &record.header;
        Self {
            seq: header.stamp.seq,
            time: header.stamp.time,
            kind: header.kind,
            codec: header.codec,
            schema: header.schema,
            batch_left: header.stamp.batch_left,
            payload,
            chain: record.chain,
            segment,
            offset,
            size: to_u64(frame_size(record.payload.len())),
        }
    }

    /// The same record with another payload. A walk calls this for each record.
    #[inline]
    pub(crate) fn with_payload<Q>(&self, payload: Q) -> LoggedRecord<Q> {
        LoggedRecord {
            seq: self.seq,
            time: self.time,
            kind: self.kind,
            codec: self.codec,
            schema: self.schema,
            batch_left: self.batch_left,
            payload,
            chain: self.chain,
            segment: self.segment,
            offset: self.offset,
            size: self.size,
        }
    }
}

impl LoggedRecord<&[u8]> {
    /// The record with an owned payload.
    #[must_use]
    pub fn into_owned(self) -> LoggedRecord {
        self.with_payload(self.payload.to_vec())
    }

    /// Copy the record into a slot, reusing the payload buffer of the record in it.
    pub fn copy_into(self, slot: &mut Option<LoggedRecord>) {
        let mut buffer = slot.take().map(|previous| previous.payload).unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(self.payload);
        *slot = Some(self.with_payload(buffer));
    }
}

/// Whether an intact record is known to be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordStatus {
    /// It is durable and follows from the record before it.
    Durable,
    /// It is intact, but the record before it is damaged or missing.
    AfterDamage,
    /// It is intact, but after the durable end in HEAD: according to HEAD it was not acknowledged,
    /// and it is unknown whether it is durable.
    Unacknowledged,
}

/// One item of a walk.
#[derive(Debug)]
pub enum LogItem<P = Vec<u8>> {
    /// A record.
    Record(LoggedRecord<P>, RecordStatus),
    /// Acknowledged bytes that cannot be read.
    Damage(Damage),
    /// An invalid index or footer. No record is lost: the segment is read without it.
    DerivedDamage(DerivedDamage),
    /// Bytes after the durable end that are not a complete record: a write in progress, or one that
    /// a crash interrupted.
    OpenEnd {
        /// The segment's file.
        path: PathBuf,
        /// Offset of their start in the segment.
        offset: u64,
        /// Why they are not a record.
        fault: FrameFault,
    },
}

impl<P> LogItem<P> {
    pub(crate) fn map<Q>(self, change: impl FnOnce(&P) -> Q) -> LogItem<Q> {
        match self {
            Self::Record(record, status) => {
                LogItem::Record(record.with_payload(change(&record.payload)), status)
            }
            Self::Damage(damage) => LogItem::Damage(damage),
            Self::DerivedDamage(damage) => LogItem::DerivedDamage(damage),
            Self::OpenEnd { path, offset, fault } => LogItem::OpenEnd { path, offset, fault },
        }
    }
}

/// An item that is not a record.
pub(crate) type Anomaly = LogItem<Infallible>;

impl Anomaly {
    pub(crate) fn into_item<P>(self) -> LogItem<P> {
        self.map(|payload| match *payload {})
    }
}

/// Acknowledged bytes that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The segment's file.
    pub path: PathBuf,
    /// Start of the damage in bytes.
    pub offset: u64,
    /// Start of the next readable record, or the logical end of the segment.
    pub end: u64,
    /// The first missing record.
    pub first_seq: u64,
    /// The last missing record, if known; less than `first_seq` if none is missing.
    pub last_seq: u64,
    /// Description of the damage.
    pub what: String,
}

/// Damaged bytes that are derived from records: an index or a footer. Every record can still be
/// read, and writing continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedDamage {
    /// The segment's file.
    pub path: PathBuf,
    /// Start of the index or footer in bytes.
    pub offset: u64,
    /// End of the index or footer in bytes.
    pub end: u64,
    /// Description of the damage.
    pub what: String,
}

impl Damage {
    /// Whether only the header of a segment is lost, and another place has its content.
    #[must_use]
    pub fn is_of_header_only(&self) -> bool {
        (self.offset, self.end) == (0, DATA_START) && self.last_seq < self.first_seq
    }

    /// The damage as an error.
    #[must_use]
    pub fn into_error(self) -> Error {
        let what = if self.last_seq > self.first_seq {
            format!("{}: records {} to {} cannot be read", self.what, self.first_seq, self.last_seq)
        } else {
            self.what
        };
        damaged(&self.path, self.offset, self.first_seq, &what)
    }
}

/// The rule that assigns records to streams. The log does not interpret records: its user supplies
/// the rule, and the index of a sealed segment lists the records of each stream.
#[derive(Debug, Clone, Copy)]
pub struct StreamRule {
    /// Number of this rule, from 1. A different rule needs a new number, permanently: the number is
    /// in every footer, so that an index is never used with another rule. 0 means no streams.
    pub id: u32,
    /// The stream of a record.
    pub stream_of: fn(&LoggedRecord<&[u8]>) -> Option<u64>,
}

impl StreamRule {
    /// No streams.
    pub const NONE: Self = Self { id: 0, stream_of: |_| None };

    /// The stream of a record, if it belongs to one.
    #[must_use]
    pub fn stream(&self, record: &LoggedRecord<&[u8]>) -> Option<u64> {
        if self.id == 0 { None } else { (self.stream_of)(record) }
    }
}

/// The last record of a prefix of the log, and its chain value.
/// [`Log::wait`](crate::log::Log::wait) returns it as the acknowledgement that everything up to
/// this record is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Sequence number of the record; 0 if there is none.
    pub seq: u64,
    /// Its chain value.
    pub chain: Chain,
}
