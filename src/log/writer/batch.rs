//! Batches that a caller appends, and the tickets for them.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Codec, HashedRecord, NewRecord, PAYLOAD_LENGTH_MAX, split_detached};
use crate::log::bytes::to_u64;
use crate::log::errors::IS_ALONE;
use crate::log::notes::BatchKey;
use crate::log::record::Ack;

/// Maximum number of records in a batch.
pub(crate) const BATCH_COUNT_MAX: usize = 65_535;

/// Records that are committed together or not at all.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The records, in order.
    pub records: Vec<NewRecord>,
    /// Microseconds since the Unix epoch; moved forward if the log is ahead of it.
    pub time: u64,
    /// Whether [`super::Log::submit`] writes the batch to the file before it returns.
    pub durability: Durability,
    /// The required sequence number of its first record, which is the record of the key if there is
    /// one.
    pub expected_seq: Option<u64>,
    /// Idempotency key: the batch is committed once, however often it is submitted.
    pub key: Option<BatchKey>,
}

impl Batch {
    /// A batch without a key that may get any sequence numbers.
    #[must_use]
    pub fn new(records: Vec<NewRecord>, time: u64) -> Self {
        Self { records, time, durability: Durability::Sync, expected_seq: None, key: None }
    }
}

/// The work of `submit` before it returns. In both cases the batch is durable only after `wait` on
/// its ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It encodes the batch. The next waiter writes and syncs it, together with all other pending
    /// batches.
    Sync,
    /// It also writes the batch to the file, without a sync: the batch survives the end of the
    /// process, but not a power loss.
    Buffered,
}

/// A handle of a submitted batch: its sequence numbers, and the argument of [`super::Log::wait`].
/// Dropping a ticket changes nothing: the batch is written with the next group.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the batch is durable only after `wait`"]
pub struct Ticket {
    pub(crate) first: u64,
    pub(crate) last: Ack,
}

impl Ticket {
    /// Sequence number of the batch's first record, which is the key if it has one.
    #[must_use]
    pub fn first_seq(&self) -> u64 {
        self.first
    }

    /// Sequence number of the batch's last record; less than the first one if the batch is empty.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.last.seq
    }
}

/// A batch with the checksums and hashes of its payloads, which are computed before the lock is
/// taken.
#[derive(Debug)]
pub(crate) struct DigestedBatch<'a> {
    pub(crate) records: Vec<HashedRecord<'a>>,
    /// Total size of their frames in bytes.
    pub(crate) size: u64,
}

impl<'a> DigestedBatch<'a> {
    /// Check the limits, then hash the payloads. `key` comes first.
    pub(crate) fn new(key: Option<&'a NewRecord>, records: &'a [NewRecord]) -> Result<Self> {
        let all = || key.into_iter().chain(records);
        let count = all().count();
        if count > BATCH_COUNT_MAX {
            return Err(too_many(count));
        }
        if let Some(record) = all().find(|record| is_too_long(record)) {
            return Err(too_long(record));
        }
        if let Some(why) = all().find_map(forbidden) {
            return Err(Error::new(ErrorKind::Unencodable, format!("a record of the batch {why}")));
        }
        let records = HashedRecord::new_all(&all().collect::<Vec<_>>());
        let size = records.iter().map(|record| to_u64(record.frame_size())).sum();
        Ok(Self { records, size })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

fn is_too_long(record: &NewRecord) -> bool {
    u32::try_from(record.payload.len()).ok().is_none_or(|length| length > PAYLOAD_LENGTH_MAX)
}

/// Why the format forbids a record: once it is acknowledged, it would look like an edit.
fn forbidden(record: &NewRecord) -> Option<&'static str> {
    if record.kind == 0 || record.schema == 0 {
        return Some("has kind 0 or schema 0: expected numbers from 1");
    }
    // A log alone erases nothing, so it needs no values that can be erased.
    let is_unusable = || IS_ALONE || split_detached(&record.payload).is_none();
    let is_forbidden = record.codec == Codec::Detached && is_unusable();
    is_forbidden.then_some("has the codec of detached values, and a payload without them")
}

fn too_long(record: &NewRecord) -> Error {
    let message = format!(
        "record of kind {}: expected a payload of at most {PAYLOAD_LENGTH_MAX} bytes, found {}; \
         store it in a file and record the path",
        record.kind,
        record.payload.len()
    );
    Error::new(ErrorKind::TooLarge, message)
}

fn too_many(count: usize) -> Error {
    Error::new(
        ErrorKind::TooLarge,
        format!("batch: expected at most {BATCH_COUNT_MAX} records, found {count}; split it"),
    )
}
