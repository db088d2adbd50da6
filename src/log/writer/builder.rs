//! Building a log from existing records, for an import or a salvage.
//!
//! Invariants:
//! - Time, kind, codec, schema, batches and payloads are the caller's. Sequence numbers count from
//!   1, or from the first record after a prune, and the chain is computed with the key of the genesis: importing the records of another log
//!   with its genesis reproduces its chain.
//! - The ledger gets its name only after everything is durable. A builder that is dropped before
//!   leaves nothing behind.
//! - Every segment but the newest is sealed, as in a log that was written normally. A writer note begins a segment.
//! - Memory: one record and a buffer of 1 MiB, and at the end the index of one segment.

use std::io::{self, Write};
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    Head, HeadState, NewRecord, PAYLOAD_LENGTH_MAX, SegmentHeader, SegmentReason, SnapshotHeader,
    Uid, frame_size,
};
use crate::log::blob::BlobStore;
use crate::log::bytes::to_u64;
use crate::log::folder::{DATA_START, HeadFile, LedgerPaths};
use crate::log::notes::KIND_WRITER_NOTE;
use crate::log::options::LogOptions;
use crate::log::record::Ack;
use crate::log::segment::{
    CreateError, SegmentWriter, Segments, first_header, head_content, next_header, seal_rotated,
};
use crate::log::snapshot::{SnapshotReader, write_snapshot};
use crate::storage::LockGuard;

use super::staging::{self, Staging};

/// The genesis that gives a new log's chain its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainOrigin {
    /// The log has its own key.
    New,
    /// The records are from the log with this genesis, so the new log has the same key.
    Existing(Uid),
    /// As `Existing`, but the log was pruned: it begins with this segment, after this record.
    Pruned {
        /// The genesis.
        genesis: Uid,
        /// The ordinal of the first segment.
        ordinal: u64,
        /// The last pruned record.
        last: Ack,
    },
}

/// A log under construction.
#[derive(Debug)]
pub struct LogBuilder {
    options: LogOptions,
    paths: LedgerPaths,
    staging: LedgerPaths,
    segment: SegmentWriter,
    time: u64,
    batch: BatchProgress,
    /// Default size of the current segment.
    default_size: u64,
    outcome: Outcome,
    lock: Box<dyn LockGuard>,
}

/// Position of the next record in its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BatchProgress {
    /// It is the first one.
    Start,
    /// Number of records before it, and number of records that remain, itself included.
    Inside { before: u32, remaining: u16 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Open,
    Named,
}

impl LogBuilder {
    /// Start a log in a folder that does not exist. `time` is in microseconds since the Unix epoch,
    /// for information only.
    ///
    /// # Errors
    /// As `Log::create`.
    pub fn create(
        dir: &Path,
        options: LogOptions,
        genesis: ChainOrigin,
        time: u64,
    ) -> Result<Self> {
        options.segments.validate()?;
        let paths = LedgerPaths::new(dir);
        let first = first_header(&options, time);
        let Staging { paths: staging, storage, lock } =
            staging::begin(&paths, &options, &first.ledger)?;
        let options = LogOptions { storage: storage.clone(), ..options };
        let header = match genesis {
            ChainOrigin::New => first,
            ChainOrigin::Existing(genesis) => SegmentHeader { genesis, ..first },
            ChainOrigin::Pruned { genesis, ordinal, last } => SegmentHeader {
                genesis,
                ordinal,
                base_seq: last.seq.saturating_add(1),
                prev_chain: last.chain,
                prev_last_seq: last.seq,
                ..first
            },
        };
        let header = SegmentHeader { reason: SegmentReason::Import, ..header };
        let segment = SegmentWriter::create(&*storage, &staging, header)
            .inspect_err(|_| staging::abort(&storage, &staging))?;
        Ok(Self {
            paths,
            staging,
            segment,
            time: 0,
            batch: BatchProgress::Start,
            default_size: options.segments.size_for(0, 0),
            outcome: Outcome::Open,
            lock,
            options,
        })
    }

    /// The last record that was pushed; it is not durable before the log is finished.
    #[must_use]
    pub fn last_record(&self) -> Ack {
        self.segment.ack()
    }

    /// Time of the last record: the next one must not be earlier.
    #[must_use]
    pub fn time(&self) -> u64 {
        self.time
    }

    /// The blobs of the new ledger.
    #[must_use]
    pub fn blobs(&self) -> BlobStore {
        BlobStore::new(&self.options.storage, &self.staging, None)
    }

    /// Write a snapshot of the new ledger, and return its file; `body` writes its body. Uids, lengths
    /// and the hash of the body in `header` are filled in.
    ///
    /// # Errors
    /// As `write_snapshot`.
    pub fn add_snapshot(
        &mut self,
        header: SnapshotHeader,
        body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<SnapshotReader> {
        let SegmentHeader { ledger, genesis, .. } = self.segment.header;
        let header = SnapshotHeader { ledger, genesis, ..header };
        let storage = &*self.options.storage;
        let (_, path) = write_snapshot(storage, self.staging.dir(), header, body)?;
        SnapshotReader::open(storage, &path)
    }

    /// Add the next record.
    ///
    /// # Errors
    /// `Corrupt` for a record that is not valid here, with the reason; `Io`, `DiskFull`.
    pub fn push(&mut self, record: &NewRecord, time: u64, batch_left: u16) -> Result<Ack> {
        let seq = self.last_record().seq.saturating_add(1);
        self.check(record, time, batch_left).map_err(|what| {
            Error::new(ErrorKind::Corrupt, format!("not a valid log record: {what}")).at_seq(seq)
        })?;
        let before = match self.batch {
            BatchProgress::Start => {
                let (end, size) = (self.segment.end(), to_u64(frame_size(record.payload.len())));
                let is_full = end + size > self.default_size;
                let is_note = record.kind == KIND_WRITER_NOTE && !mutant!(ImportedNoteInside);
                if end > DATA_START && (is_full || is_note) {
                    self.rotate()?;
                    if is_full {
                        self.default_size =
                            self.options.segments.size_for(self.default_size * 2, 0);
                    }
                }
                0
            }
            BatchProgress::Inside { before, .. } => before,
        };
        // As if every earlier batch had been synced.
        self.segment.push(record, time, before.saturating_add(1), batch_left)?;
        self.time = time;
        self.batch = match batch_left {
            0 => BatchProgress::Start,
            remaining => BatchProgress::Inside { before: before.saturating_add(1), remaining },
        };
        Ok(self.last_record())
    }

    fn check(
        &self,
        record: &NewRecord,
        time: u64,
        batch_left: u16,
    ) -> std::result::Result<(), String> {
        let length = record.payload.len();
        if u32::try_from(length).ok().is_none_or(|length| length > PAYLOAD_LENGTH_MAX) {
            return Err(format!(
                "payload: expected at most {PAYLOAD_LENGTH_MAX} bytes, found {length}"
            ));
        }
        if record.kind == 0 || record.schema == 0 {
            return Err("kind and schema: expected at least 1, found 0".to_owned());
        }
        if time < self.time {
            return Err(format!("time: expected {} or later, found {time}", self.time));
        }
        match self.batch {
            BatchProgress::Inside { remaining, .. } if batch_left != remaining - 1 => {
                Err(format!("batch_left: expected {}, found {batch_left}", remaining - 1))
            }
            _ => Ok(()),
        }
    }

    /// Publish the ledger under its name, and return the last record.
    ///
    /// # Errors
    /// `Corrupt` if the last batch is incomplete; `Io`, `DiskFull`. Nothing is left behind unless
    /// the final rename failed.
    pub fn finish(mut self) -> Result<Ack> {
        if let BatchProgress::Inside { remaining, .. } = self.batch {
            let message = format!("the last batch is incomplete: {remaining} records are missing");
            return Err(Error::new(ErrorKind::Corrupt, message).at_seq(self.last_record().seq));
        }
        let end = self.segment.end();
        self.close_segment(self.options.segments.size_for(self.default_size, end - DATA_START))?;
        let (storage, header, last) =
            (&*self.options.storage, &self.segment.header, self.last_record());
        let (epoch, mode) = (header.writer_epoch, self.options.head_sync);
        let head = head_content(header, epoch, last, end, mode, HeadState::Clean);
        HeadFile::create(storage, &self.staging, &Head { generation: 1, ..head })?;
        // Everything is durable. The log is valid without the seals.
        let segments = Segments::list(storage, &self.staging, None)?;
        let _ = seal_rotated(storage, &self.staging, self.options.stream_rule, &segments);
        staging::publish(storage, &self.staging, &self.paths)?;
        self.outcome = Outcome::Named;
        Ok(last)
    }

    /// Publish the current segment. Only now the length of its file is known.
    fn close_segment(&mut self, length: u64) -> Result<()> {
        self.segment.header.prealloc_len = length;
        let published = self.segment.publish(&*self.options.storage, &self.staging, &|| Ok(()));
        published.map_err(CreateError::into_error)
    }

    fn rotate(&mut self) -> Result<()> {
        let end = self.segment.end();
        self.close_segment(end.next_multiple_of(4096))?;
        let (uid, last) = (self.options.uids.next(), self.last_record());
        let header = next_header(&self.segment.header, uid, last, end);
        self.segment = SegmentWriter::create(&*self.options.storage, &self.staging, header)?;
        Ok(())
    }
}

impl Drop for LogBuilder {
    fn drop(&mut self) {
        if self.outcome == Outcome::Open {
            staging::abort(&self.options.storage, &self.staging);
        }
        let _ = &self.lock;
    }
}
