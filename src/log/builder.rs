//! Making a log out of records that were written before: by an import, or from what could be
//! salvaged.
//!
//! Invariants:
//! - Time, kind, codec, schema, batches and payloads are the caller's; sequence numbers count
//!   from 1 and the chain follows from the genesis. With the genesis and the records of another
//!   log the chain is that log's.
//! - The ledger has its name only when all of it is durable. A builder that is dropped before
//!   leaves nothing behind.
//! - Every segment but the newest is sealed, as in a log that grew by itself.
//! - Memory: one record, and a buffer of 1 MiB; at the end, the index of one segment.
//!
//! Left out on purpose: acknowledgements on the way; there is nobody to acknowledge to.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    Chain, ChainKey, Head, HeadState, NewRecord, PAYLOAD_LENGTH_MAX, Placement, Reason,
    SegmentHeader, Stamp, Uid, encode_frame, frame_size,
};
use crate::storage::{LockGuard, Storage, StorageFile};

use super::batch::Ack;
use super::blob_store::BlobStore;
use super::build::length;
use super::draft;
use super::head_file::HeadFile;
use super::layout::{DATA_START, Layout};
use super::options::LogOptions;
use super::seal::seal_rotated;
use super::segments::Segments;

/// So much is written at once.
const BUFFER: usize = 1 << 20;

/// Whose chain a log that is built has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Genesis {
    /// Its own.
    Own,
    /// That of the log whose records it takes over.
    Of(Uid),
}

/// A log that is being made.
#[derive(Debug)]
pub struct LogBuilder {
    options: LogOptions,
    layout: Layout,
    draft: Layout,
    key: ChainKey,
    header: SegmentHeader,
    file: Box<dyn StorageFile>,
    /// Frames that are not written yet, and the offset where they begin.
    buffer: Vec<u8>,
    written: u64,
    ack: Ack,
    time: u64,
    batch: Batch,
    /// The usual size of the segment.
    usual: u64,
    outcome: Outcome,
    lock: Box<dyn LockGuard>,
}

/// Where in a batch the next record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Batch {
    /// It is the first.
    Begins,
    /// So many were there before, and so many must follow, itself included.
    GoesOn { before: u32, due: u16 },
}

/// Whether the ledger has its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Open,
    Named,
}

impl LogBuilder {
    /// Begin a log in a folder that is not there yet. `time` is in microseconds since the Unix
    /// epoch, and only for people.
    ///
    /// # Errors
    /// As those of `Log::create`.
    pub fn create(dir: &Path, options: LogOptions, genesis: Genesis, time: u64) -> Result<Self> {
        options.segments.expect_possible()?;
        let storage = options.storage.clone();
        let layout = Layout::new(dir);
        let (draft, lock) = draft::begin(&storage, &layout, &options.holder)?;
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
            writer_epoch: draft::EPOCH_OF_MAKING,
            created: time,
            prealloc_len: options.segments.fitting(0, 0),
            reason: Reason::Import,
            born_last: 0,
            born_end: 0,
            genesis: match genesis {
                Genesis::Own => ledger,
                Genesis::Of(uid) => uid,
            },
            ro_compat: 0,
        };
        let file = create_segment(&*storage, &draft, &header)
            .inspect_err(|_| draft::give_up(&storage, &draft))?;
        Ok(Self {
            layout,
            draft,
            key: ChainKey::new(&header.genesis),
            header,
            file,
            buffer: Vec::new(),
            written: DATA_START,
            ack: Ack { seq: 0, chain: Chain::GENESIS },
            time: 0,
            batch: Batch::Begins,
            usual: options.segments.fitting(0, 0),
            outcome: Outcome::Open,
            lock,
            options,
        })
    }

    /// The last record so far.
    #[must_use]
    pub fn ack(&self) -> Ack {
        self.ack
    }

    /// Time of the last record so far: the next one must not be earlier.
    #[must_use]
    pub fn time(&self) -> u64 {
        self.time
    }

    /// The blobs of the ledger that is being made.
    #[must_use]
    pub fn blobs(&self) -> BlobStore {
        BlobStore::new(&self.options.storage, &self.draft)
    }

    /// Add the next record.
    ///
    /// # Errors
    /// `Corrupt` for a record that no log can hold at this place, saying why; `Io`, `DiskFull`.
    pub fn push(&mut self, record: &NewRecord, time: u64, batch_left: u16) -> Result<Ack> {
        let seq = self.ack.seq.saturating_add(1);
        self.check(record, time, batch_left).map_err(|what| {
            Error::new(ErrorKind::Corrupt, format!("not a record of a log: {what}")).at_seq(seq)
        })?;
        let size = frame_size(record.payload.len());
        let before = match self.batch {
            Batch::Begins => {
                if self.end() > DATA_START && self.end() + widen(size) > self.usual {
                    self.rotate()?;
                }
                0
            }
            Batch::GoesOn { before, .. } => before,
        };
        if self.buffer.len() + size > BUFFER {
            self.flush()?;
        }
        let stamp = Stamp {
            seq,
            time,
            ordinal: low_bits(self.header.ordinal),
            // As if every batch before this one had been synced.
            inflight: before.saturating_add(1),
            batch_left,
        };
        let placement = Placement { segment: self.header.segment, offset: self.end() };
        let previous = self.ack.chain;
        let chain = encode_frame(&mut self.buffer, record, stamp, placement, &self.key, &previous);
        self.ack = Ack { seq, chain };
        self.time = time;
        self.batch = match batch_left {
            0 => Batch::Begins,
            due => Batch::GoesOn { before: before.saturating_add(1), due },
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
            return Err("kind and schema: expected numbers from 1, found 0".to_owned());
        }
        if time < self.time {
            return Err(format!("time: expected {} or later, found {time}", self.time));
        }
        match self.batch {
            Batch::GoesOn { due, .. } if batch_left != due - 1 => {
                Err(format!("batch_left: expected {}, found {batch_left}", due - 1))
            }
            _ => Ok(()),
        }
    }

    /// Give the ledger its name. What it returns is the last record.
    ///
    /// # Errors
    /// `Corrupt` if the last batch is not complete; `Io`, `DiskFull`. Nothing is left behind
    /// unless the very last step failed, which gives the name.
    pub fn finish(mut self) -> Result<Ack> {
        if let Batch::GoesOn { due, .. } = self.batch {
            let message = format!("the last batch is not complete: {due} records are missing");
            return Err(Error::new(ErrorKind::Corrupt, message).at_seq(self.ack.seq));
        }
        self.close_segment(self.options.segments.fitting(self.usual, self.end() - DATA_START))?;
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
        };
        HeadFile::create(storage, &self.draft, &head)?;
        // All of it is durable now. As in an open, nothing depends on its success.
        let segments = Segments::list(storage, &self.draft, None)?;
        let _ = seal_rotated(storage, &self.draft, self.options.stream_of, &segments);
        draft::name(storage, &self.draft, &self.layout)?;
        self.outcome = Outcome::Named;
        Ok(self.ack)
    }

    /// Where the next frame will stand.
    fn end(&self) -> u64 {
        self.written + length(&self.buffer)
    }

    fn flush(&mut self) -> Result<()> {
        let path = self.draft.temporary(self.header.name());
        self.file
            .write_at(&self.buffer, self.written)
            .map_err(|error| Error::io("write the records", &path, error))?;
        self.written += length(&self.buffer);
        self.buffer.clear();
        Ok(())
    }

    /// The header comes last: only now it is known how long the file is.
    fn close_segment(&mut self, size: u64) -> Result<()> {
        self.flush()?;
        self.header.prealloc_len = size;
        let name = self.header.name();
        let (temporary, path) = (self.draft.temporary(name), self.draft.segment(name));
        let io = |what, error| Error::io(what, &temporary, error);
        let zeros = vec![0; BUFFER.min(1 << 16)];
        let mut offset = self.written;
        while offset < size {
            let rest = usize::try_from(size - offset).unwrap_or(zeros.len());
            let part = zeros.get(..rest).unwrap_or(&zeros);
            self.file.write_at(part, offset).map_err(|error| io("write the segment", error))?;
            offset += length(part);
        }
        self.file
            .write_at(&self.header.encode(), 0)
            .map_err(|error| io("write the segment", error))?;
        self.file.sync().map_err(|error| io("sync the segment", error))?;
        let storage = &self.options.storage;
        storage
            .rename(&temporary, &path)
            .map_err(|error| Error::io("give the segment its name", &path, error))?;
        let folder = self.draft.log();
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
            reason: Reason::Rotate,
            ..self.header.clone()
        };
        self.usual = self.options.segments.fitting(self.usual * 2, 0);
        self.file = create_segment(&*self.options.storage, &self.draft, &self.header)?;
        self.written = DATA_START;
        Ok(())
    }
}

impl Drop for LogBuilder {
    fn drop(&mut self) {
        if self.outcome == Outcome::Open {
            draft::give_up(&self.options.storage, &self.draft);
        }
        let _ = &self.lock;
    }
}

fn create_segment(
    storage: &dyn Storage,
    draft: &Layout,
    header: &SegmentHeader,
) -> Result<Box<dyn StorageFile>> {
    let path = draft.temporary(header.name());
    storage.create(&path).map_err(|error| Error::io("create the segment", &path, error))
}

fn low_bits(ordinal: u64) -> u32 {
    u32::try_from(ordinal & u64::from(u32::MAX)).expect("masked to 32 bits")
}

fn widen(size: usize) -> u64 {
    u64::try_from(size).expect("no supported machine has longer slices")
}
