//! Building a log from existing records, for an import or a salvage.
//!
//! Invariants:
//! - Time, kind, codec, schema, batches and payloads are the caller's. Sequence numbers count from
//!   1, and the chain is computed with the key of the genesis: importing the records of another log
//!   with its genesis reproduces its chain.
//! - The ledger gets its name only after everything is durable. A builder that is dropped before
//!   leaves nothing behind.
//! - Every segment but the newest is sealed, as in a log that was written normally.
//! - Memory: one record and a buffer of 1 MiB, and at the end the index of one segment.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    Chain, ChainKey, Head, HeadState, NewRecord, PAYLOAD_LENGTH_MAX, Placement, SegmentHeader,
    SegmentReason, Stamp, Uid, encode_frame, frame_size,
};
use crate::log::blob::BlobStore;
use crate::log::bytes::{len_u64, to_u64};
use crate::log::folder::{DATA_START, HeadFile, LedgerPaths};
use crate::log::options::LogOptions;
use crate::log::record::Ack;
use crate::log::segment::{CREATION_EPOCH, Segments, low_bits, seal_rotated};
use crate::storage::{LockGuard, Storage, StorageFile};

use super::staging;

/// Size of a write in bytes.
const BUFFER: usize = 1 << 20;

/// The genesis from which the key of a new log's chain is derived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainOrigin {
    /// The log has a key of its own.
    New,
    /// The log has the key of the log with this genesis, whose records it takes over.
    Existing(Uid),
}

/// A log under construction.
#[derive(Debug)]
pub struct LogBuilder {
    options: LogOptions,
    paths: LedgerPaths,
    staging: LedgerPaths,
    key: ChainKey,
    header: SegmentHeader,
    file: Box<dyn StorageFile>,
    /// Frames that are not written yet, and their offset.
    buffer: Vec<u8>,
    written: u64,
    ack: Ack,
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
        let storage = options.storage.clone();
        let paths = LedgerPaths::new(dir);
        let (staging, lock) = staging::begin(&paths, &options)?;
        let ledger = options.uids.next();
        let header = SegmentHeader {
            ledger,
            segment: options.uids.next(),
            ordinal: 0,
            base_seq: 1,
            prev_chain: Chain::GENESIS,
            prev_segment: [0; 16],
            prev_data_end: 0,
            prev_last_seq: 0,
            writer_epoch: CREATION_EPOCH,
            created: time,
            prealloc_len: options.segments.size_for(0, 0),
            reason: SegmentReason::Import,
            born_last: 0,
            born_end: 0,
            genesis: match genesis {
                ChainOrigin::New => ledger,
                ChainOrigin::Existing(uid) => uid,
            },
            ro_compat: 0,
        };
        let file = create_segment(&*storage, &staging, &header)
            .inspect_err(|_| staging::abort(&storage, &staging))?;
        Ok(Self {
            paths,
            staging,
            key: ChainKey::new(&header.genesis),
            header,
            file,
            buffer: Vec::new(),
            written: DATA_START,
            ack: Ack { seq: 0, chain: Chain::GENESIS },
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
        self.ack
    }

    /// Time of the last record: the next one must not be earlier.
    #[must_use]
    pub fn time(&self) -> u64 {
        self.time
    }

    /// The blobs of the new ledger.
    #[must_use]
    pub fn blobs(&self) -> BlobStore {
        BlobStore::new(&self.options.storage, &self.staging)
    }

    /// Add the next record.
    ///
    /// # Errors
    /// `Corrupt` for a record that is not valid here, with the reason; `Io`, `DiskFull`.
    pub fn push(&mut self, record: &NewRecord, time: u64, batch_left: u16) -> Result<Ack> {
        let seq = self.ack.seq.saturating_add(1);
        self.check(record, time, batch_left).map_err(|what| {
            Error::new(ErrorKind::Corrupt, format!("not a valid log record: {what}")).at_seq(seq)
        })?;
        let size = frame_size(record.payload.len());
        let before = match self.batch {
            BatchProgress::Start => {
                if self.end() > DATA_START && self.end() + to_u64(size) > self.default_size {
                    self.rotate()?;
                }
                0
            }
            BatchProgress::Inside { before, .. } => before,
        };
        if self.buffer.len() + size > BUFFER {
            self.flush()?;
        }
        let stamp = Stamp {
            seq,
            time,
            ordinal: low_bits(self.header.ordinal),
            // As if every earlier batch had been synced.
            inflight: before.saturating_add(1),
            batch_left,
        };
        let placement = Placement { segment: self.header.segment, offset: self.end() };
        let previous = self.ack.chain;
        let chain = encode_frame(&mut self.buffer, record, stamp, placement, &self.key, &previous);
        self.ack = Ack { seq, chain };
        self.time = time;
        self.batch = match batch_left {
            0 => BatchProgress::Start,
            remaining => BatchProgress::Inside { before: before.saturating_add(1), remaining },
        };
        Ok(self.ack)
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
            return Err(Error::new(ErrorKind::Corrupt, message).at_seq(self.ack.seq));
        }
        self.close_segment(
            self.options.segments.size_for(self.default_size, self.end() - DATA_START),
        )?;
        let storage = &*self.options.storage;
        let head = Head {
            ledger: self.header.ledger,
            generation: 1,
            writer_epoch: self.header.writer_epoch,
            mode: self.options.head_sync,
            durable_seq: self.ack.seq,
            ordinal: self.header.ordinal,
            segment: self.header.segment,
            data_end: self.end(),
            chain: self.ack.chain,
            state: HeadState::Clean,
            clock: None,
        };
        HeadFile::create(storage, &self.staging, &head)?;
        // Everything is durable. The log is valid without the seals.
        let segments = Segments::list(storage, &self.staging, None)?;
        let _ = seal_rotated(storage, &self.staging, self.options.stream_rule, &segments);
        staging::publish(storage, &self.staging, &self.paths)?;
        self.outcome = Outcome::Named;
        Ok(self.ack)
    }

    /// Offset of the next frame.
    fn end(&self) -> u64 {
        self.written + len_u64(&self.buffer)
    }

    fn flush(&mut self) -> Result<()> {
        let path = self.staging.temporary(self.header.name());
        self.file
            .write_at(&self.buffer, self.written)
            .map_err(|error| Error::io("write the records", &path, error))?;
        self.written += len_u64(&self.buffer);
        self.buffer.clear();
        Ok(())
    }

    /// The header is written last, because only now the length of the file is known.
    fn close_segment(&mut self, size: u64) -> Result<()> {
        self.flush()?;
        self.header.prealloc_len = size;
        let name = self.header.name();
        let (temporary, path) = (self.staging.temporary(name), self.staging.segment(name));
        let io = |what, error| Error::io(what, &temporary, error);
        let zeros = vec![0; BUFFER.min(1 << 16)];
        let mut offset = self.written;
        while offset < size {
            let rest = usize::try_from(size - offset).unwrap_or(zeros.len());
            let part = zeros.get(..rest).unwrap_or(&zeros);
            self.file.write_at(part, offset).map_err(|error| io("write the segment", error))?;
            offset += len_u64(part);
        }
        self.file
            .write_at(&self.header.encode(), 0)
            .map_err(|error| io("write the segment", error))?;
        self.file.sync().map_err(|error| io("sync the segment", error))?;
        let storage = &self.options.storage;
        storage
            .rename(&temporary, &path)
            .map_err(|error| Error::io("rename the segment", &path, error))?;
        let folder = self.staging.log();
        storage.sync_dir(&folder).map_err(|error| Error::io("sync the folder", &folder, error))
    }

    fn rotate(&mut self) -> Result<()> {
        let end = self.end();
        self.close_segment(end.next_multiple_of(4096))?;
        self.header = SegmentHeader {
            segment: self.options.uids.next(),
            ordinal: self.header.ordinal + 1,
            base_seq: self.ack.seq + 1,
            prev_chain: self.ack.chain,
            prev_segment: self.header.segment,
            prev_data_end: end,
            prev_last_seq: self.ack.seq,
            reason: SegmentReason::Rotate,
            ..self.header.clone()
        };
        self.default_size = self.options.segments.size_for(self.default_size * 2, 0);
        self.file = create_segment(&*self.options.storage, &self.staging, &self.header)?;
        self.written = DATA_START;
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

fn create_segment(
    storage: &dyn Storage,
    staging: &LedgerPaths,
    header: &SegmentHeader,
) -> Result<Box<dyn StorageFile>> {
    let path = staging.temporary(header.name());
    storage.create(&path).map_err(|error| Error::io("create the segment", &path, error))
}
