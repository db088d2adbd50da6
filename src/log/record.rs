//! What reading a log yields: records, and anomalies in the place where they are found.
//!
//! A walk yields [`Item`]s in the order of the log. Everything that is not a record is an item too,
//! so a reader cannot miss it.

use std::convert::Infallible;
use std::path::PathBuf;

use crate::error::Error;
use crate::format::{Chain, Codec, FrameFault};

use super::errors::damaged;

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
    fn with<Q>(self, change: impl FnOnce(P) -> Q) -> LoggedRecord<Q> {
        let Self { seq, time, kind, codec, schema, batch_left, payload, .. } = self;
        let Self { chain, segment, offset, size, .. } = self;
        let payload = change(payload);
        LoggedRecord {
            seq,
            time,
            kind,
            codec,
            schema,
            batch_left,
            payload,
            chain,
            segment,
            offset,
            size,
        }
    }
}

impl LoggedRecord<&[u8]> {
    /// The record with an owned payload.
    #[must_use]
    pub fn into_owned(self) -> LoggedRecord {
        self.with(<[u8]>::to_vec)
    }

    /// Replace another record by this one, reusing the buffer of its payload.
    pub fn keep(self, place: &mut Option<LoggedRecord>) {
        let mut room = place.take().map(|before| before.payload).unwrap_or_default();
        *place = Some(self.with(|payload| {
            room.clear();
            room.extend_from_slice(payload);
            room
        }));
    }
}

/// How much is known about a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// It is durable and follows from the record before it.
    Proven,
    /// It is intact, but the record before it is damaged or missing.
    BehindDamage,
    /// It is intact, but after the end that HEAD proves to be durable.
    Unproven,
}

/// One item of a walk.
#[derive(Debug)]
pub enum Item<P = Vec<u8>> {
    /// A record.
    Record(LoggedRecord<P>, Proof),
    /// Acknowledged bytes that cannot be read.
    Damage(Damage),
    /// An invalid index or footer. No record is lost: the segment is read without it.
    Derived(DerivedDamage),
    /// Bytes after the durable end that are not a complete record: a write in progress, or one that
    /// a crash interrupted.
    OpenEnd {
        /// The segment's file.
        path: PathBuf,
        /// Where they start.
        offset: u64,
        /// Why they are not a record.
        fault: FrameFault,
    },
}

impl<P> Item<P> {
    pub(crate) fn map<Q>(self, change: impl FnOnce(P) -> Q) -> Item<Q> {
        match self {
            Self::Record(record, proof) => Item::Record(record.with(change), proof),
            Self::Damage(damage) => Item::Damage(damage),
            Self::Derived(damage) => Item::Derived(damage),
            Self::OpenEnd { path, offset, fault } => Item::OpenEnd { path, offset, fault },
        }
    }
}

/// An item that is not a record.
pub(crate) type Anomaly = Item<Infallible>;

impl Anomaly {
    pub(crate) fn into_item<P>(self) -> Item<P> {
        self.map(|payload| match payload {})
    }
}

/// Acknowledged bytes that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The segment's file.
    pub path: PathBuf,
    /// Where the damage starts, in bytes.
    pub offset: u64,
    /// Start of the next readable record, or the logical end of the segment.
    pub end: u64,
    /// The first missing record.
    pub first_seq: u64,
    /// The last missing record, if known; less than `first_seq` if none is missing.
    pub last_seq: u64,
    /// What is wrong.
    pub what: String,
}

/// Damaged bytes that are derived from records: an index or a footer. Every record can still be
/// read, and writing continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedDamage {
    /// The segment's file.
    pub path: PathBuf,
    /// Where the index or footer starts, in bytes.
    pub offset: u64,
    /// Where it ends.
    pub end: u64,
    /// What is wrong.
    pub what: String,
}

impl Damage {
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
pub struct StreamOf {
    /// Number of the rule, from 1. A different rule needs a new number, permanently: the number is
    /// in every footer, so that an index is never used with another rule. 0 means no streams.
    pub rule: u32,
    /// The stream of a record.
    pub of: fn(&LoggedRecord) -> Option<u64>,
}

impl StreamOf {
    /// No streams.
    pub const NONE: Self = Self { rule: 0, of: |_| None };

    /// The stream of a record, if it belongs to one.
    #[must_use]
    pub fn stream(&self, record: &LoggedRecord) -> Option<u64> {
        if self.rule == 0 { None } else { (self.of)(record) }
    }
}

/// Proof that everything up to `seq` is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// The last durable record; 0 if there is none.
    pub seq: u64,
    /// Its chain value.
    pub chain: Chain,
}
