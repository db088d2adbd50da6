//! Makes the log of a folder equal, byte for byte, to a log in another place.
//!
//! The caller decides which records belong to the log. It finds the last common record, cuts off later records of the
//! folder, appends the missing ones, and then writes to the log ([`super::super::Log::of_copy`]) or stops
//! ([`LogCopy::finish`]).
//!
//! Invariants:
//! - The lock is held all the time.
//! - Records that HEAD or a header proves to be durable may be acknowledged: they are never cut off.
//! - Bytes after the end are not part of the log. They are overwritten only where the log continues
//!   in their place.
//! - HEAD is written only after the records that it covers are synced.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    BootTime, Chain, ChainKey, ClockAnchor, Head, HeadState, NewRecord, Placement, SegmentHeader,
    Stamp, Uid, encode_frame, frame_size,
};
#[cfg(feature = "store")]
use crate::format::{SnapshotHeader, SnapshotName};
use crate::log::blob::BlobStore;
use crate::log::bytes::{len_u64, to_u64};
use crate::log::folder::{
    DATA_START, HeadFile, LedgerPaths, Ownership, StoreBinding, check_access, check_folder,
    check_lock_file, check_writable, hold_folder, read_binding, read_head, take_lock,
    write_binding,
};
use crate::log::notes::{DiscardedRange, LoggedRetentionNote};
use crate::log::options::{BackgroundWork, Keeper, LogOptions};
use crate::log::prune;
use crate::log::reader::{LogReader, SegmentAccess};
use crate::log::record::Ack;
use crate::log::recovery::{
    ErasedFiles, Evidence, EvidenceBit, Tail, TailVerdict, examine, refuse, resume_erasure,
};
use crate::log::segment::{
    ActiveSegment, ChainCheck, CreateError, FolderPart, FramePosition, ResumeCache, Scan, Segment,
    SegmentBytes, Segments, WritePosition, create_segment_with, head_content, low_bits,
    next_header, next_record, open_segment, seal, seal_rotated, unsealed,
};
#[cfg(feature = "store")]
use crate::log::snapshot::{SnapshotFolder, SnapshotReader};
use crate::log::writer::shared::SharedWriter;
use crate::log::writer::staging::{self, Staging};
use crate::log::writer::state::{SealTask, WriterState};
use crate::storage::{Access, FilesystemKind, LockGuard, Storage};

use super::steps::{
    RecoveryReport, ledger_time, publish_guard, remove_temporaries, sync_folders, take_over,
};

/// A folder during its adaptation to a log in another place.
#[derive(Debug)]
pub struct LogCopy {
    options: LogOptions,
    paths: LedgerPaths,
    lock: Box<dyn LockGuard>,
    /// The folder does not have its name yet.
    staged: Option<Staged>,
    segments: Vec<SegmentHeader>,
    /// The newest segment is sealed: nothing can follow in it.
    is_sealed: bool,
    head: Option<HeadFile>,
    /// The epoch in HEAD, and the highest one in the folder.
    epochs: (u64, u64),
    /// The end of the log in the newest segment.
    end: WritePosition,
    /// The last record that may be acknowledged.
    proven: u64,
    /// Bytes between the end and this offset may not be zero.
    dirty_until: u64,
    doubt: Option<Error>,
    /// The binding of the folder to a store.
    binding: Option<StoreBinding>,
    /// End of the last search: index of the segment, position, time of the record before it.
    walked: Option<(usize, FramePosition, u64)>,
    found: Found,
}

/// The report about opening the folder.
#[derive(Debug)]
struct Found {
    verdict: TailVerdict,
    evidence: Evidence,
    discarded: Vec<DiscardedRange>,
    unknown_files: Vec<String>,
    retention: Option<LoggedRetentionNote>,
    erased: std::result::Result<ErasedFiles, String>,
    clock: Option<ClockAnchor>,
}

/// A folder that is removed unless it gets its name.
#[derive(Debug)]
struct Staged {
    storage: Arc<dyn Storage>,
    staging: LedgerPaths,
    name: LedgerPaths,
    is_named: bool,
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_named {
            staging::abort(&self.storage, &self.staging);
        }
    }
}

/// A record that the folder has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopiedRecord {
    /// Its segment.
    pub segment: Uid,
    /// Its chain value.
    pub chain: Chain,
    /// Its time.
    pub time: u64,
}

/// Opens a copy, and reads the folder.
impl LogCopy {
    /// Open the folder of a log, and take its lock.
    ///
    /// # Errors
    /// As [`super::super::Log::open`], except that an end which cannot be judged from the folder alone is
    /// kept for [`Self::take_doubt`].
    pub fn open(dir: &Path, options: LogOptions) -> Result<Self> {
        options.segments.validate()?;
        let paths = LedgerPaths::new(dir);
        let storage = hold_folder(&options.storage, dir)?;
        let options = LogOptions { storage: storage.clone(), ..options };
        check_writable(check_folder(&*storage, &paths)?, dir)?;
        check_access(&*storage, dir)?;
        let lock = take_lock(&*storage, &paths, &options.holder, options.allow_unsafe_locks)?;
        check_lock_file(&*lock, &paths.lock())?;
        let erased = resume_erasure(&storage, &paths, &|| check_lock_file(&*lock, &paths.lock()))
            .map_err(|error| error.to_string());
        let head_slots = read_head(&*storage, &paths)?;
        let segments = Segments::list(&*storage, &paths, None)?;
        let newest = segments.newest_if_linked()?;
        sync_folders(&*storage, &paths)?;
        let tail = examine(&*storage, &paths, &segments, newest, &head_slots, |file| file.sync())?;
        let row = tail.evidence.row();
        let is_sealed = newest.length != newest.header.prealloc_len;
        let doubt = match refuse(&paths, newest, &tail, row) {
            Err(error) if !is_doubt(&tail, newest, row.verdict) => return Err(error),
            judged => judged.err(),
        };
        let Some((_, newest_head)) = head_slots.newest() else {
            return Err(doubt.expect("a log without HEAD is refused"));
        };
        let binding = read_binding(&*storage, &paths)?;
        remove_temporaries(&*storage, &paths)?;
        let mut head = HeadFile::open(&*storage, &paths, &head_slots)?;
        head.clock = newest_head.clock;
        let epoch = newest_head.writer_epoch;
        let batch_end = tail.batch_end;
        let chain = batch_end.chain.unwrap_or(Chain::GENESIS);
        let dirty = tail.discarded.iter().map(|range| range.offset + range.length).max();
        let unknown_files = segments.unknown_files.clone();
        Ok(Self {
            is_sealed,
            epochs: (epoch, epoch.max(newest.header.writer_epoch)),
            end: WritePosition {
                ack: Ack { seq: batch_end.next_seq - 1, chain },
                end: batch_end.offset,
                time: tail.time.max(newest.header.created),
            },
            proven: tail.durable_end.next_seq - 1,
            dirty_until: dirty.filter(|_| !is_sealed).unwrap_or(0),
            doubt,
            binding,
            walked: None,
            found: Found {
                verdict: row.verdict,
                evidence: tail.evidence,
                discarded: tail.discarded,
                unknown_files,
                retention: tail.retention.or(segments.retention),
                erased,
                clock: newest_head.clock,
            },
            segments: segments
                .list
                .into_iter()
                .filter_map(|(_, _, read)| read.ok())
                .map(header_of)
                .collect(),
            head: Some(head),
            staged: None,
            options,
            paths,
            lock,
        })
    }

    /// Start a copy in a folder that does not exist, or is empty. The folder gets its name when the copy is
    /// finished.
    ///
    /// # Errors
    /// As [`super::super::Log::create`].
    pub fn create(dir: &Path, options: LogOptions) -> Result<Self> {
        options.segments.validate()?;
        let name = LedgerPaths::new(dir);
        let Staging { paths: staging, storage, lock } =
            staging::begin(&name, &options, &options.uids.next())?;
        let options = LogOptions { storage: storage.clone(), ..options };
        let staged = Staged { storage, staging: staging.clone(), name, is_named: false };
        Ok(Self {
            options,
            paths: staging,
            lock,
            staged: Some(staged),
            segments: Vec::new(),
            is_sealed: false,
            head: None,
            epochs: (0, 0),
            end: WritePosition {
                ack: Ack { seq: 0, chain: Chain::GENESIS },
                end: DATA_START,
                time: 0,
            },
            proven: 0,
            dirty_until: 0,
            doubt: None,
            binding: None,
            walked: None,
            found: Found {
                verdict: TailVerdict::Clean,
                evidence: Evidence::default(),
                discarded: Vec::new(),
                unknown_files: Vec::new(),
                retention: None,
                erased: Ok(ErasedFiles::default()),
                clock: None,
            },
        })
    }

    /// The ledger and the genesis of its chain; `None` before a copy has a segment.
    #[must_use]
    pub fn identity(&self) -> Option<(Uid, Uid)> {
        self.segments.first().map(|header| (header.ledger, header.genesis))
    }

    /// The last record.
    #[must_use]
    pub fn last(&self) -> Ack {
        self.end.ack
    }

    /// The last record that may be acknowledged: HEAD or a header proves that it is durable.
    #[must_use]
    pub fn proven_seq(&self) -> u64 {
        self.proven
    }

    /// The epoch in HEAD: that of the last process that wrote here.
    #[must_use]
    pub fn head_epoch(&self) -> u64 {
        self.epochs.0
    }

    /// The highest epoch in the folder.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epochs.1
    }

    /// Why the folder alone does not show which records were acknowledged. This is an error unless the caller has other
    /// evidence.
    pub fn take_doubt(&mut self) -> Option<Error> {
        self.doubt.take()
    }

    /// The binding of the folder to a store.
    #[must_use]
    pub fn binding(&self) -> Option<&StoreBinding> {
        self.binding.as_ref()
    }

    /// A reader of the records that HEAD covers. It can be reloaded while another handle writes.
    ///
    /// # Errors
    /// `Io`.
    pub fn reader(&self) -> Result<LogReader> {
        LogReader::load(&self.options.storage, &self.paths, SegmentAccess::Windowed, None)
    }

    /// The blobs of the folder.
    #[must_use]
    pub fn blobs(&self) -> BlobStore {
        BlobStore::new(&self.options.storage, &self.paths, None)
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.paths.dir()
    }

    /// The segment with an ordinal.
    #[must_use]
    pub fn segment(&self, ordinal: u64) -> Option<&SegmentHeader> {
        self.segments.iter().rev().find(|header| header.ordinal == ordinal)
    }

    /// The place of the newest segment among all of them.
    #[must_use]
    pub fn newest_ordinal(&self) -> Option<u64> {
        self.segments.last().map(|header| header.ordinal)
    }

    /// The first record of the folder: 1, or the first record after the last prune.
    #[must_use]
    pub fn first_seq(&self) -> u64 {
        self.segments.first().map_or(1, |header| header.base_seq)
    }

    /// A record; `None` if the folder does not have it.
    ///
    /// # Errors
    /// `Corrupt` with the place of damage; `Io`.
    pub fn find(&mut self, seq: u64) -> Result<Option<CopiedRecord>> {
        if seq == 0 || seq > self.end.ack.seq {
            return Ok(None);
        }
        let Some((index, header)) = self.holder(seq) else { return Ok(None) };
        let segment = header.segment;
        let (mut at, mut time) = match self.walked {
            Some((walked, at, time)) if walked == index && at.next_seq <= seq + 1 => (at, time),
            _ => (FramePosition::start(&header), 0),
        };
        let (path, mut scan) = self.scan(index, &header)?;
        while at.next_seq <= seq {
            time = next_record(&mut scan, &mut at, &path)?.time;
        }
        self.walked = Some((index, at, time));
        let chain = at.chain.unwrap_or(Chain::GENESIS);
        Ok(Some(CopiedRecord { segment, chain, time }))
    }

    /// Complete batches from a record on, up to the end of its segment: as many as fit into a number of bytes, and at
    /// least one. `None` if the folder does not have the record.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn part(&mut self, first_seq: u64, size_max: u64) -> Result<Option<FolderPart>> {
        if first_seq == 0 || first_seq > self.end.ack.seq {
            return Ok(None);
        }
        let Some((index, header)) = self.holder(first_seq) else { return Ok(None) };
        let mut at = FramePosition::start(&header);
        if header.base_seq < first_seq {
            self.find(first_seq - 1)?;
            at = self.walked.map_or(at, |(_, at, _)| at);
        }
        let (path, mut scan) = self.scan(index, &header)?;
        FolderPart::read(&mut scan, &path, header, at, size_max)
    }

    /// The segment that holds a record which the folder has, and its index.
    fn holder(&self, seq: u64) -> Option<(usize, SegmentHeader)> {
        let index = self.segments.iter().rposition(|header| header.base_seq <= seq)?;
        self.segments.get(index).map(|header| (index, header.clone()))
    }

    fn scan(&self, index: usize, header: &SegmentHeader) -> Result<(PathBuf, Scan)> {
        let path = self.paths.segment(header.name());
        let file = self.options.storage.open(&path, Access::Read);
        let file = file.map_err(|error| Error::io("open the segment", &path, error))?;
        let next = self.segments.get(index + 1);
        let end = next.map_or(self.end.end, |next| next.prev_data_end);
        Ok((path, Scan::new(SegmentBytes::windowed(file), header, end)))
    }
}

fn header_of(segment: Segment) -> SegmentHeader {
    segment.header
}

/// Whether another copy of the log can answer a question that the folder alone leaves open: whether
/// the end was acknowledged, or which segment follows the last one.
fn is_doubt(tail: &Tail, newest: &Segment, verdict: TailVerdict) -> bool {
    let is_sealed = newest.length != newest.header.prealloc_len;
    match verdict {
        TailVerdict::Ambiguous => !tail.evidence.has(EvidenceBit::HeadInvalid),
        TailVerdict::AcknowledgedTailMissing => {
            is_sealed && !tail.evidence.has(EvidenceBit::CoveredByWatermark)
        }
        _ => false,
    }
}

/// Changing the folder.
impl LogCopy {
    /// Cut off the records after `seq`, which are not part of the log. Their bytes stay.
    ///
    /// # Errors
    /// `Conflict` if one of them may be acknowledged: nothing was changed.
    pub fn cut(&mut self, seq: u64) -> Result<()> {
        if seq >= self.end.ack.seq {
            return Ok(());
        }
        if seq < self.proven {
            let message = format!("records up to {} may be acknowledged", self.proven);
            return Err(Error::new(ErrorKind::Conflict, message).at_seq(seq + 1));
        }
        self.dirty_until = self.dirty_until.max(self.end.end);
        let newest = self.newest()?.clone();
        let (ack, end) = if seq < newest.base_seq {
            (Ack { seq: newest.prev_last_seq, chain: newest.prev_chain }, DATA_START)
        } else {
            let found = self.find(seq)?;
            let end = self.walked.map_or(DATA_START, |(_, at, _)| at.offset);
            (Ack { seq, chain: found.map_or(Chain::GENESIS, |found| found.chain) }, end)
        };
        self.end = WritePosition { ack, end, ..self.end };
        Ok(())
    }

    /// Write records of the folder again that may not be durable: after a failed sync the state of their bytes is
    /// unknown.
    ///
    /// # Errors
    /// `Io`.
    pub fn rewrite(&mut self, part: &FolderPart) -> Result<()> {
        if part.last.seq <= self.proven {
            return Ok(());
        }
        self.check_lock()?;
        let (path, file) = open_segment(&*self.options.storage, &self.paths, &part.segment)?;
        file.write_at(&part.frames, part.offset)
            .and_then(|()| file.sync())
            .map_err(|error| Error::io("write the records", &path, error).at_offset(part.offset))
    }

    /// Bind the folder to a store, durably, if it is not bound in the same way already.
    ///
    /// # Errors
    /// `Fenced` if the lock is lost; `Io`, `DiskFull`.
    pub fn bind(&mut self, binding: StoreBinding) -> Result<()> {
        if self.binding.as_ref() == Some(&binding) {
            return Ok(());
        }
        self.check_lock()?;
        write_binding(&*self.options.storage, &self.paths, &binding)?;
        self.binding = Some(binding);
        Ok(())
    }

    /// Add a snapshot file, durably, before the folder gets its name, if it is valid and `is_wanted` returns true.
    /// Returns whether it was added; otherwise no file is left.
    ///
    /// # Errors
    /// `Io`, `DiskFull`.
    #[cfg(feature = "store")]
    pub(crate) fn add_snapshot(
        &self,
        name: &SnapshotName,
        bytes: &[u8],
        is_wanted: &dyn Fn(&SnapshotHeader) -> bool,
    ) -> Result<bool> {
        let (storage, folder) = (&*self.options.storage, self.paths.snapshots());
        let path = folder.join(name.to_string());
        let io = |error| Error::io("write the snapshot", &path, error);
        storage.create_dir(&folder).map_err(io)?;
        let file = storage.create(&path).map_err(io)?;
        file.write_at(bytes, 0).and_then(|()| file.sync()).map_err(io)?;
        let found =
            SnapshotFolder::of(storage, self.dir()).open(name).and_then(SnapshotReader::check);
        let is_added = match found {
            Ok(header) => is_wanted(&header),
            Err(error) if error.kind() == ErrorKind::Io => return Err(error),
            Err(_) => false,
        };
        if !is_added {
            storage.remove(&path).map_err(io)?;
        }
        storage.sync_dir(&folder).and_then(|()| storage.sync_dir(self.dir())).map_err(io)?;
        Ok(is_added)
    }

    /// Append records, byte for byte as they are in their segment. They begin at the end of the log, or
    /// before it where the folder has the same bytes.
    ///
    /// # Errors
    /// `Diverged` if they do not continue the log of the folder; `Io`, `DiskFull`.
    pub fn append(&mut self, part: &FolderPart) -> Result<()> {
        self.check_lock()?;
        let header = &part.segment;
        // The first segment of a pruned log is not the first one of the ledger.
        if part.before.seq > self.end.ack.seq && !self.segments.is_empty() {
            return Err(other_segments(self.paths.dir(), part));
        }
        match self.segments.last() {
            Some(newest) if newest == header => self.append_in_place(part)?,
            Some(newest) if self.is_replaced_by(newest, header) => {
                self.step_back()?;
                self.append_segment(part)?;
            }
            Some(newest) if !self.is_followed_by(newest, header) => {
                return Err(other_segments(self.paths.dir(), part));
            }
            _ => self.append_segment(part)?,
        }
        let end = part.offset + len_u64(&part.frames);
        self.end = WritePosition { ack: part.last, end, time: self.end.time.max(part.time) };
        self.epochs.1 = self.epochs.1.max(header.writer_epoch);
        self.walked = None;
        Ok(())
    }

    fn append_in_place(&mut self, part: &FolderPart) -> Result<()> {
        let end = part.offset + len_u64(&part.frames);
        if part.offset > self.end.end || self.is_sealed || end > part.segment.prealloc_len {
            return Err(other_segments(self.paths.dir(), part));
        }
        let (path, file) = open_segment(&*self.options.storage, &self.paths, &part.segment)?;
        let mut bytes = part.frames.clone();
        if self.dirty_until > end && !mutant!(DeadBytesFollowCopy) {
            let dirty = usize::try_from(self.dirty_until - end).unwrap_or(0);
            bytes.resize(bytes.len() + dirty, 0);
        }
        file.write_at(&bytes, part.offset)
            .and_then(|()| if mutant!(CopyUnsynced) { Ok(()) } else { file.sync() })
            .map_err(|error| Error::io("write the records", &path, error).at_offset(part.offset))?;
        self.dirty_until = 0;
        Ok(())
    }

    fn append_segment(&mut self, part: &FolderPart) -> Result<()> {
        let header = &part.segment;
        let (lock, paths) = (&*self.lock, &self.paths);
        let guard = || publish_guard(lock, paths);
        create_segment_with(&*self.options.storage, paths, header, &part.frames, &guard)
            .map_err(CreateError::into_error)?;
        self.segments.push(header.clone());
        (self.is_sealed, self.dirty_until) = (false, 0);
        Ok(())
    }

    /// Whether a segment continues the log of the folder.
    fn is_followed_by(&self, newest: &SegmentHeader, next: &SegmentHeader) -> bool {
        let Ack { seq, chain } = self.end.ack;
        Some(next.ordinal) == newest.ordinal.checked_add(1)
            && (next.prev_segment, next.prev_data_end) == (newest.segment, self.end.end)
            && (next.prev_last_seq, next.prev_chain) == (seq, chain)
    }

    /// Whether the newest segment has no record of the log, and another one of its ordinal continues it.
    fn is_replaced_by(&self, newest: &SegmentHeader, next: &SegmentHeader) -> bool {
        self.segments.len() > 1
            && self.end.end == DATA_START
            && next.name() == newest.name()
            && (next.prev_segment, next.prev_data_end)
                == (newest.prev_segment, newest.prev_data_end)
            && (next.prev_last_seq, next.prev_chain) == (newest.prev_last_seq, newest.prev_chain)
    }

    /// Leave the newest segment, which has no record of the log: HEAD names the end of the one before.
    fn step_back(&mut self) -> Result<()> {
        if let Some(newest) = self.segments.pop() {
            self.end.end = newest.prev_data_end;
            (self.is_sealed, self.dirty_until) = (true, 0);
        }
        self.write_head()
    }

    /// Seal the segments that have a successor, as far as that works: the log is valid without the seals.
    pub fn seal_complete(&self) {
        let storage = &*self.options.storage;
        if let Ok(segments) = Segments::list(storage, &self.paths, None) {
            let _ = seal_rotated(storage, &self.paths, self.options.stream_rule, &segments);
        }
    }

    /// Replace the reading of the boot clock: time passed since the folder was opened.
    pub fn set_boot_time(&mut self, boot_time: Option<BootTime>) {
        self.options.boot_time = boot_time;
    }

    /// State in HEAD that the folder has everything up to its end.
    ///
    /// # Errors
    /// `Fenced` if the lock is lost; `Io`.
    pub fn write_head(&mut self) -> Result<()> {
        self.check_lock()?;
        let content = self.head_content(HeadState::Open)?;
        let Some(head) = &mut self.head else { return Ok(()) };
        head.write(content)?;
        head.sync()?;
        self.proven = self.end.ack.seq;
        Ok(())
    }

    fn head_content(&self, state: HeadState) -> Result<Head> {
        let WritePosition { ack, end, .. } = self.end;
        let (epoch, mode) = (self.epochs.0, self.options.head_sync);
        Ok(head_content(self.newest()?, epoch, ack, end, mode, state))
    }

    fn newest(&self) -> Result<&SegmentHeader> {
        self.segments.last().ok_or_else(|| {
            let message = "the log that is copied has no records";
            Error::new(ErrorKind::OutOfRange, message).at_path(self.paths.dir())
        })
    }

    fn check_lock(&self) -> Result<()> {
        check_lock_file(&*self.lock, &self.paths.lock())
    }
}

/// Ending.
impl LogCopy {
    /// The ledger's time, which is at least that of the last record. `wall` is the time of the wall clock.
    #[must_use]
    pub fn time(&self, wall: u64) -> u64 {
        ledger_time(self.found.clock, &self.options, wall, self.end.time).0
    }

    /// The first record of a new epoch, and its segment: the newest segment if only this folder has
    /// it, otherwise a new one. `known` is the segment with the last record, and the end of the log
    /// in it. Writes nothing.
    ///
    /// # Errors
    /// `OutOfRange` if the folder has no segment.
    pub fn opening(
        &self,
        known: Option<(&SegmentHeader, u64)>,
        record: &NewRecord,
        epoch: u64,
        time: u64,
    ) -> Result<FolderPart> {
        let (before, newest) = (self.end.ack, self.newest()?);
        let size = to_u64(frame_size(record.payload.len()));
        let segment = match known {
            Some((header, end)) if header.segment == newest.segment => SegmentHeader {
                writer_epoch: epoch,
                created: time,
                prealloc_len: self.options.segments.size_for(0, size),
                ..next_header(header, self.options.uids.next(), before, end)
            },
            _ => newest.clone(),
        };
        let stamp = Stamp {
            seq: before.seq + 1,
            time,
            ordinal: low_bits(segment.ordinal),
            inflight: 1,
            batch_left: 0,
        };
        let placement = Placement { segment: segment.segment, offset: DATA_START };
        let (mut frames, key) = (Vec::new(), ChainKey::new(&segment.genesis));
        let chain = encode_frame(&mut frames, record, stamp, placement, &key, &before.chain);
        let last = Ack { seq: stamp.seq, chain };
        Ok(FolderPart { segment, offset: DATA_START, frames, before, last, time })
    }

    /// Give a new folder its final name, or mark the log as cleanly closed. Returns the last
    /// record.
    ///
    /// # Errors
    /// `OutOfRange` if there is no record; `Fenced` if the lock is lost; `Io`, `DiskFull`.
    pub fn finish(mut self) -> Result<Ack> {
        self.check_lock()?;
        let storage = self.options.storage.clone();
        let content = self.head_content(HeadState::Clean)?;
        if let Some(head) = &mut self.head {
            let (lock, paths) = (&*self.lock, &self.paths);
            head.write_both(&content, || check_lock_file(lock, &paths.lock()))?;
        } else {
            HeadFile::create(&*storage, &self.paths, &Head { generation: 1, ..content })?;
        }
        // Everything is durable. The log is valid without the seals.
        let segments = Segments::list(&*storage, &self.paths, None)?;
        let _ = seal_rotated(&*storage, &self.paths, self.options.stream_rule, &segments);
        if let Some(staged) = &mut self.staged {
            staging::publish(&*storage, &staged.staging, &staged.name)?;
            staged.is_named = true;
        }
        Ok(self.end.ack)
    }

    /// Write to the log from here on, in an epoch that the caller opened. `keeper` gets each group.
    pub(crate) fn into_shared(
        mut self,
        epoch: u64,
        time: u64,
        keeper: Arc<dyn Keeper>,
    ) -> Result<(SharedWriter, RecoveryReport)> {
        if self.staged.is_some() {
            let message = "a new copy is finished before it is written to";
            return Err(Error::new(ErrorKind::Conflict, message).at_path(self.paths.dir()));
        }
        let storage = self.options.storage.clone();
        let header = self.newest()?.clone();
        let position = self.end;
        let last = position.time;
        let (now, clock) = ledger_time(self.found.clock, &self.options, time, last);
        let mut options = self.options;
        let WritePosition { ack, end, .. } = position;
        let mut content =
            head_content(&header, epoch, ack, end, options.head_sync, HeadState::Open);
        let at = options.boot_time;
        content.clock = at.map(|at| ClockAnchor { at, time: now.max(last) });
        let (lock, paths) = (self.lock, self.paths);
        let may_write = || check_lock_file(&*lock, &paths.lock());
        may_write()?;
        let mut head = take_over(&*storage, &paths, self.head.take(), &content, may_write)?;
        head.synced_at = last;
        let segments = Segments::list(&*storage, &paths, None)?;
        let (mut to_seal, streams) = (Vec::new(), options.stream_rule);
        for (own, next) in unsealed(&segments) {
            // Every record of the previous segment was verified. Nothing waits for its seal.
            if *next == header && options.background_work == BackgroundWork::Thread {
                to_seal.push(SealTask { header: own.clone(), successor: next.clone() });
            } else {
                let _ = seal(&*storage, &paths, streams, own, next, ChainCheck::Recompute);
            }
        }
        let found = self.found;
        let mut pruned = Ok(prune::PruneSet::default());
        if let Some(retention) = &found.retention {
            pruned = prune::resume(&storage, &paths, retention).map_err(|error| error.to_string());
        }
        let report = RecoveryReport {
            verdict: found.verdict,
            evidence: found.evidence,
            discarded: found.discarded,
            survivors: None,
            unknown_files: found.unknown_files,
            filesystem: storage.filesystem_kind(paths.dir()).unwrap_or(FilesystemKind::Local),
            pruned,
            erased: found.erased,
            clock,
        };
        let (_, file) = open_segment(&*storage, &paths, &header)?;
        let ledger = header.ledger;
        let active = ActiveSegment { header, file: file.into() };
        let ownership = Ownership::new(storage, lock, paths.lock(), &head, ledger, epoch);
        let mut state = WriterState::new(active, position, options.segments);
        state.to_seal.extend(to_seal);
        options.keeper = Some(keeper);
        let resume_points = ResumeCache::default();
        let retention = found.retention;
        let shared =
            SharedWriter::new(options, paths, ownership, head, state, retention, resume_points);
        Ok((shared, report))
    }
}

fn other_segments(dir: &Path, part: &FolderPart) -> Error {
    let message = "the folder has the records of the store, but in different segments";
    Error::new(ErrorKind::Diverged, message)
        .with_hint("nothing was changed; keep the folder, and restore the store into a new one")
        .at_path(dir)
        .at_seq(part.before.seq + 1)
}
