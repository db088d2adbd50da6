//! The writer: appends batches durably to the newest segment.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    Chain, ChainKey, Head, HeadState, HeadSync, NewRecord, PAYLOAD_LENGTH_MAX, Placement, Reason,
    SegmentHeader, Stamp, encode_frame, frame_size,
};
use crate::storage::{LockGuard, StorageFile};

use super::build::{BuildError, build_segment, length};
use super::head_file::HeadFile;
use super::layout::{DATA_START, Layout, segment_size};
use super::options::LogOptions;
use super::reader::LogReader;
use super::seal::seal;

/// The most records of one batch.
pub(super) const BATCH_COUNT_MAX: usize = 65_535;
/// HEAD is synced at the first commit after so many microseconds without.
const HEAD_SYNC_INTERVAL: u64 = 1_000_000;

/// Proof that everything up to `seq` is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// The last durable record; 0 before the first.
    pub seq: u64,
    /// Its chain value.
    pub chain: Chain,
}

/// A log that is open for writing. At most one exists per folder, in all processes.
#[derive(Debug)]
pub struct Log {
    pub(super) options: LogOptions,
    pub(super) layout: Layout,
    pub(super) header: SegmentHeader,
    pub(super) file: Box<dyn StorageFile>,
    pub(super) head: HeadFile,
    pub(super) end: u64,
    pub(super) ack: Ack,
    pub(super) time: u64,
    pub(super) epoch: u64,
    pub(super) head_synced: u64,
    pub(super) health: Health,
    /// Held until the log is dropped.
    pub(super) lock: Box<dyn LockGuard>,
}

/// Whether the writer may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    Good,
    Poisoned,
}

impl Log {
    /// The last durable record.
    #[must_use]
    pub fn ack(&self) -> Ack {
        self.ack
    }

    /// Time of the last record: the next one will not be earlier.
    #[must_use]
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Write a batch durably: all of it or nothing. `time` is in microseconds since the Unix
    /// epoch, and is moved forward if the log is ahead of it.
    ///
    /// # Errors
    /// `TooLarge`, `DiskFull` and `Io`: nothing was written, and the log may be used further.
    /// `OutcomeUnknown`: a write or sync failed; the records may or may not be there after the
    /// log was opened again, and this handle refuses from now on with `Poisoned`.
    pub fn append(&mut self, batch: &[NewRecord], time: u64) -> Result<Ack> {
        if self.health == Health::Poisoned {
            return Err(Error::new(
                ErrorKind::Poisoned,
                "an earlier write or sync failed; open the ledger again to go on",
            ));
        }
        if batch.is_empty() {
            return Ok(self.ack);
        }
        let size = batch_size(batch)?;
        if self.end + size > self.header.prealloc_len {
            self.rotate(size, time)?;
        }
        let (bytes, ack, time) = self.encode(batch, time)?;
        let seqs = (self.ack.seq + 1, ack.seq);
        self.write_durably(&bytes, ack).map_err(|error| self.poison(&error, seqs))?;
        self.time = time;
        self.sync_head_if_due().map_err(|error| self.poison(&error, seqs))?;
        Ok(ack)
    }

    /// Mark the log as cleanly closed and make that durable.
    pub fn close(mut self) -> Result<()> {
        self.close_in_place()
    }

    fn close_in_place(&mut self) -> Result<()> {
        if self.health == Health::Poisoned {
            return Ok(());
        }
        // From here on this handle is done, whatever becomes of the two calls.
        self.health = Health::Poisoned;
        self.head.write(self.head_content(HeadState::Clean))?;
        self.head.sync()
    }

    /// A reader of this log: it sees what is durable now.
    pub fn reader(&self) -> Result<LogReader> {
        LogReader::open_superseded(&self.options.storage, self.layout.dir())
    }

    /// The batch's frames, the ack that they lead to and the time of the last one.
    fn encode(&self, batch: &[NewRecord], time: u64) -> Result<(Vec<u8>, Ack, u64)> {
        let mut writer = FrameWriter::new(&self.header, self.end, self.ack);
        let time = time.max(self.time);
        for (index, record) in batch.iter().enumerate() {
            let left = u16::try_from(batch.len() - 1 - index).map_err(|_| too_many(batch.len()))?;
            let in_batch = u32::try_from(index + 1).map_err(|_| too_many(batch.len()))?;
            writer.push(record, time, in_batch, left);
        }
        Ok((writer.bytes, writer.ack, time))
    }

    /// The order is the promise: bytes, sync, HEAD, and only then the acknowledgement.
    fn write_durably(&mut self, bytes: &[u8], ack: Ack) -> Result<()> {
        let path = self.layout.segment(self.header.name());
        let io = |what, error| Error::io(what, &path, error).at_offset(self.end);
        self.file.write_at(bytes, self.end).map_err(|error| io("write the records", error))?;
        self.file.sync().map_err(|error| io("sync the records", error))?;
        self.end += length(bytes);
        self.ack = ack;
        self.head.write(self.head_content(HeadState::Open))
    }

    fn sync_head_if_due(&mut self) -> Result<()> {
        let is_due = match self.options.head_sync {
            HeadSync::EveryCommit => true,
            HeadSync::Interval => self.time.saturating_sub(self.head_synced) >= HEAD_SYNC_INTERVAL,
        };
        if is_due {
            self.head.sync()?;
            self.head_synced = self.time;
        }
        Ok(())
    }

    /// After a failed write or sync nothing is known about the bytes, and a retry that succeeds
    /// proves nothing: the page cache may have dropped them. So: no retry, ever.
    fn poison(&mut self, error: &Error, (first, last): (u64, u64)) -> Error {
        self.health = Health::Poisoned;
        let _ = self.head.write(self.head_content(HeadState::Poisoned));
        let _ = self.head.sync();
        let message = format!(
            "{error}; whether records {first} to {last} are durable is unknown; \
             open the ledger again to find out"
        );
        Error::new(ErrorKind::OutcomeUnknown, message).at_seq(first)
    }

    /// Go on in a new segment. Everything in the old one is durable already.
    fn rotate(&mut self, needed: u64, time: u64) -> Result<()> {
        let header = SegmentHeader {
            segment: self.options.uids.next(),
            ordinal: self.header.ordinal + 1,
            base_seq: self.ack.seq + 1,
            prev_chain: self.ack.chain,
            prev_segment: self.header.segment,
            prev_data_end: self.end,
            prev_last_seq: self.ack.seq,
            writer_epoch: self.epoch,
            created: time.max(self.time),
            prealloc_len: segment_size(self.header.prealloc_len * 2, needed),
            reason: Reason::Rotate,
            born_last: 0,
            born_end: 0,
            ..self.header.clone()
        };
        let seqs = (self.ack.seq + 1, self.ack.seq + 1);
        match build_segment(&*self.options.storage, &self.layout, &header, &[]) {
            Err(BuildError::BeforeName(error)) => return Err(error),
            Err(BuildError::AfterName(error)) => return Err(self.poison(&error, seqs)),
            Ok(file) => self.file = file,
        }
        let predecessor = std::mem::replace(&mut self.header, header);
        self.end = DATA_START;
        self.head
            .write(self.head_content(HeadState::Open))
            .and_then(|()| self.head.sync())
            .map_err(|error| self.poison(&error, seqs))?;
        self.head_synced = self.time;
        // After the successor is durable and HEAD is synced. Nothing depends on its success.
        let (storage, streams) = (&*self.options.storage, self.options.stream_of);
        let _ = seal(storage, &self.layout, streams, &predecessor, &self.header);
        Ok(())
    }

    pub(super) fn head_content(&self, state: HeadState) -> Head {
        Head {
            ledger: self.header.ledger,
            generation: 0,
            writer_epoch: self.epoch,
            mode: self.options.head_sync,
            durable_seq: self.ack.seq,
            ordinal: self.header.ordinal,
            segment: self.header.segment,
            data_end: self.end,
            chain: self.ack.chain,
            state,
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Nothing that was acknowledged depends on this; `close` is there for who wants to know.
        let _ = self.close_in_place();
        let _ = &self.lock;
    }
}

/// Frames one behind the other, as they will stand in a segment.
pub(super) struct FrameWriter<'a> {
    pub(super) bytes: Vec<u8>,
    pub(super) ack: Ack,
    header: &'a SegmentHeader,
    start: u64,
    key: ChainKey,
}

impl<'a> FrameWriter<'a> {
    /// Frames from offset `start` on, behind the record of `ack`.
    pub(super) fn new(header: &'a SegmentHeader, start: u64, ack: Ack) -> Self {
        let key = ChainKey::new(&header.genesis);
        Self { bytes: Vec::new(), ack, header, start, key }
    }

    /// Add a record. `inflight` is its distance from what is durable when the write starts.
    pub(super) fn push(&mut self, record: &NewRecord, time: u64, inflight: u32, batch_left: u16) {
        let stamp = Stamp {
            seq: self.ack.seq + 1,
            time,
            ordinal: low_bits(self.header.ordinal),
            inflight,
            batch_left,
        };
        let offset = self.start + length(&self.bytes);
        let placement = Placement { segment: self.header.segment, offset };
        let previous = self.ack.chain;
        let chain = encode_frame(&mut self.bytes, record, stamp, placement, &self.key, &previous);
        self.ack = Ack { seq: stamp.seq, chain };
    }

    /// Where the next frame would stand.
    pub(super) fn end(&self) -> u64 {
        self.start + length(&self.bytes)
    }
}

fn low_bits(ordinal: u64) -> u32 {
    u32::try_from(ordinal & u64::from(u32::MAX)).expect("masked to 32 bits")
}

/// Size on disk of a batch, if it is within the limits.
fn batch_size(batch: &[NewRecord]) -> Result<u64> {
    if batch.len() > BATCH_COUNT_MAX {
        return Err(too_many(batch.len()));
    }
    let mut size = 0;
    for record in batch {
        let length = record.payload.len();
        if u32::try_from(length).ok().is_none_or(|length| length > PAYLOAD_LENGTH_MAX) {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "a record of kind {}: payload too long: expected at most \
                     {PAYLOAD_LENGTH_MAX} bytes, found {length}; put large results into a file \
                     and record its path",
                    record.kind
                ),
            ));
        }
        size += frame_size(length);
    }
    u64::try_from(size).map_err(|_| too_many(batch.len()))
}

fn too_many(count: usize) -> Error {
    Error::new(
        ErrorKind::TooLarge,
        format!("a batch of {count} records: expected at most {BATCH_COUNT_MAX}; split it"),
    )
}

/// Where a ledger's folder is, for messages.
pub(super) fn not_a_ledger(dir: &Path, why: &str) -> Error {
    Error::new(
        ErrorKind::NotALedger,
        format!("not a ledger: {why}; name a folder that `ledger run` made, or a new one"),
    )
    .at_path(dir)
}
