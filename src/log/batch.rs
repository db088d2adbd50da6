//! What a caller asks a log to record, and what they get for it before it is durable.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, Codec, Digested, NewRecord, PAYLOAD_LENGTH_MAX};

use super::note::KIND_BATCH_KEY;

/// The most records of one batch.
pub(super) const BATCH_COUNT_MAX: usize = 65_535;

/// Proof that everything up to `seq` is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// The last durable record; 0 before the first.
    pub seq: u64,
    /// Its chain value.
    pub chain: Chain,
}

/// Records that are written as a whole or not at all.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The records, in order.
    pub records: Vec<NewRecord>,
    /// Microseconds since the Unix epoch; moved forward if the log is ahead of it.
    pub time: u64,
    /// How far it is taken before [`super::Log::submit`] returns.
    pub durability: Durability,
    /// The sequence number that its first record must get, that of the key included.
    pub expected_seq: Option<u64>,
    /// A name for the batch: it is written once, however often it is submitted.
    pub key: Option<BatchKey>,
}

impl Batch {
    /// A batch that waits to be made durable, wherever it comes to stand, without a key.
    #[must_use]
    pub fn new(records: Vec<NewRecord>, time: u64) -> Self {
        Self { records, time, durability: Durability::Sync, expected_seq: None, key: None }
    }

    pub(super) fn request(&self) -> Request<'_> {
        let Self { records, time, durability, expected_seq, key } = self;
        Request {
            records,
            time: *time,
            durability: *durability,
            expected_seq: *expected_seq,
            key: key.as_ref(),
        }
    }
}

/// How far a batch is taken before submitting it returns. Only waiting for its ticket makes it
/// durable for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It is encoded and takes part in the next group: whoever waits first has all that is
    /// pending written and synced at once.
    Sync,
    /// It is in the file, not synced: it survives the end of the process, not a power loss.
    Buffered,
}

/// A name for a batch, by which it is found again: after an outcome that is unknown, too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchKey(Vec<u8>);

impl BatchKey {
    /// The longest key, in bytes.
    pub const LENGTH_MAX: usize = 64;

    /// A key of 1 to 64 bytes. A fresh random one per request, such as a UUID, is the usual choice.
    ///
    /// # Errors
    /// `TooLarge` for any other length.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() || bytes.len() > Self::LENGTH_MAX {
            let message = format!(
                "a batch key: expected 1 to {} bytes, found {}; use a hash of it",
                Self::LENGTH_MAX,
                bytes.len()
            );
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        Ok(Self(bytes.to_vec()))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The record that holds the key, first of its batch.
    fn record(&self) -> NewRecord {
        let payload = self.0.clone();
        NewRecord { kind: KIND_BATCH_KEY, codec: Codec::Raw, schema: 1, payload }
    }
}

/// A place in the log that was given to a batch: what [`super::Log::wait`] turns into an
/// [`Ack`]. Dropping it changes nothing: the batch is written with the next group all the same.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "nothing is promised before `wait` returned"]
pub struct Ticket {
    pub(super) first: u64,
    pub(super) last: Ack,
}

impl Ticket {
    /// Sequence number of the batch's first record; that of the key, if it has one.
    #[must_use]
    pub fn first_seq(&self) -> u64 {
        self.first
    }

    /// Sequence number of the batch's last record; less than the first for an empty batch.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.last.seq
    }
}

/// A batch, by reference.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) records: &'a [NewRecord],
    pub(super) time: u64,
    pub(super) durability: Durability,
    pub(super) expected_seq: Option<u64>,
    pub(super) key: Option<&'a BatchKey>,
}

impl Request<'_> {
    pub(super) fn key_record(&self) -> Option<NewRecord> {
        self.key.map(BatchKey::record)
    }
}

/// The records of a batch with all that follows from their payloads: what takes long is done
/// before anybody has to wait for it.
#[derive(Debug)]
pub(super) struct DigestedBatch<'a> {
    pub(super) records: Vec<Digested<'a>>,
    /// Their frames together, in bytes.
    pub(super) size: u64,
}

impl<'a> DigestedBatch<'a> {
    /// Check the limits, then read the payloads. `key` comes first.
    pub(super) fn new(key: Option<&'a NewRecord>, records: &'a [NewRecord]) -> Result<Self> {
        let all = || key.into_iter().chain(records);
        let count = all().count();
        if count > BATCH_COUNT_MAX {
            return Err(too_many(count));
        }
        if let Some(record) = all().find(|record| is_too_long(record)) {
            return Err(too_long(record));
        }
        let records = Digested::each(&all().collect::<Vec<_>>());
        let size = records.iter().map(|record| to_u64(record.frame_size())).sum();
        Ok(Self { records, size })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

fn is_too_long(record: &NewRecord) -> bool {
    u32::try_from(record.payload.len()).ok().is_none_or(|length| length > PAYLOAD_LENGTH_MAX)
}

fn too_long(record: &NewRecord) -> Error {
    let message = format!(
        "a record of kind {}: payload too long: expected at most {PAYLOAD_LENGTH_MAX} bytes, found \
         {}; put large results into a file and record its path",
        record.kind,
        record.payload.len()
    );
    Error::new(ErrorKind::TooLarge, message)
}

fn too_many(count: usize) -> Error {
    Error::new(
        ErrorKind::TooLarge,
        format!("a batch of {count} records: expected at most {BATCH_COUNT_MAX}; split it"),
    )
}

/// A count in memory as one on disk.
pub(super) fn to_u64(count: usize) -> u64 {
    u64::try_from(count).expect("no supported machine has wider addresses")
}
