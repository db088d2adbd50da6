//! Creating a log, and opening an existing one with recovery.
//!
//! Opening takes the lock, reads HEAD and all headers, scans the newest segment, and asks the
//! recovery table for a verdict. It continues in place, adds a fence, or refuses without changing
//! anything.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::{Chain, ClockAnchor, Head, HeadState};
use crate::log::folder::{
    DATA_START, HeadFile, LedgerPaths, Ownership, check_access, check_folder, check_lock_file,
    check_writable, hold_folder, is_temporary, read_head, take_lock,
};
use crate::log::notes::{DiscardedRange, RewrittenRecords};
use crate::log::options::LogOptions;
use crate::log::prune;
use crate::log::record::Ack;
use crate::log::recovery::{
    ErasedFiles, Evidence, Fence, RecoveryAction, TailVerdict, classify, examine, refuse,
    resume_erasure,
};
use crate::log::segment::{
    ActiveSegment, CreateError, ResumeCache, Segments, WritePosition, create_segment, first_header,
    head_content, open_segment, seal_rotated,
};
use crate::storage::{EntryKind, FilesystemKind, LockGuard, Storage};

use super::shared::SharedWriter;
use super::staging::{self, Staging};
use super::state::WriterState;

/// The verdict about the end of a log, and the changes that opening made.
#[derive(Debug, Clone)]
pub struct RecoveryReport {
    /// The verdict about the end of the log.
    pub verdict: TailVerdict,
    /// The evidence for it.
    pub evidence: Evidence,
    /// Unacknowledged bytes that a fence discarded.
    pub discarded: Vec<DiscardedRange>,
    /// Records that a fence rewrote.
    pub survivors: Option<RewrittenRecords>,
    /// Unknown files in the log's folder, which are ignored.
    pub unknown_files: Vec<String>,
    /// The kind of file system that holds the log.
    pub filesystem: FilesystemKind,
    /// The files that were removed to complete an interrupted prune, or why it cannot continue.
    pub pruned: std::result::Result<prune::PruneSet, String>,
    /// The files that were changed to complete an erasure, or why it cannot be completed.
    pub erased: std::result::Result<ErasedFiles, String>,
    /// How the ledger's time was continued.
    pub clock: ClockContinuation,
}

/// How an opening continues the ledger's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockContinuation {
    /// From HEAD, by the boot clock.
    Elapsed,
    /// From the wall clock.
    Wall,
    /// From the last record, since the wall clock is this many microseconds behind it. How much time
    /// has passed since then is unknown, and does not count.
    Behind(u64),
}

pub(crate) fn create(dir: &Path, options: LogOptions, time: u64) -> Result<SharedWriter> {
    options.segments.validate()?;
    let paths = LedgerPaths::new(dir);
    let header = first_header(&options, time);
    let Staging { paths: staging, storage, lock } =
        staging::begin(&paths, &options, &header.ledger)?;
    let options = LogOptions { storage: storage.clone(), ..options };

    let (epoch, none) = (header.writer_epoch, Ack { seq: 0, chain: Chain::GENESIS });
    let head = head_content(&header, epoch, none, DATA_START, options.head_sync, HeadState::Clean);
    let head = Head { generation: 1, ..head };
    create_segment(&*storage, &staging, &header, &|| publish_guard(&*lock, &staging))
        .map_err(CreateError::into_error)
        .and_then(|_| HeadFile::create(&*storage, &staging, &head))
        .and_then(|()| staging::publish(&*storage, &staging, &paths))
        .inspect_err(|_| staging::abort(&storage, &staging))?;
    let (shared, _) = open_locked(paths, options, lock, time)?;
    Ok(shared)
}

pub(crate) fn open(
    dir: &Path,
    options: LogOptions,
    time: u64,
) -> Result<(SharedWriter, RecoveryReport)> {
    options.segments.validate()?;
    let paths = LedgerPaths::new(dir);
    let storage = hold_folder(&options.storage, dir)?;
    let options = LogOptions { storage: storage.clone(), ..options };
    // Checked first, so that no LOCK is created in a folder that is not a ledger.
    check_writable(check_folder(&*storage, &paths)?, dir)?;
    check_access(&*storage, dir)?;
    let lock = || take_lock(&*storage, &paths, &options.holder, options.allow_unsafe_locks);
    let (shared, report) = open_locked(paths.clone(), options.clone(), lock()?, time)?;
    if report.erased.as_ref().is_ok_and(|erased| !erased.is_postponed) || report.erased.is_err() {
        return Ok((shared, report));
    }
    // The end of the log is known now, and all of its records are durable.
    shared.close()?;
    drop(shared);
    let held = lock()?;
    let (shared, again) = open_locked(paths, options, held, time)?;
    Ok((shared, RecoveryReport { erased: again.erased, ..report }))
}

fn open_locked(
    paths: LedgerPaths,
    options: LogOptions,
    lock: Box<dyn LockGuard>,
    time: u64,
) -> Result<(SharedWriter, RecoveryReport)> {
    let storage = options.storage.clone();
    // The file may have been removed between opening and locking it: then another process can lock
    // a new file.
    check_lock_file(&*lock, &paths.lock())?;
    // Before any file of the log is opened, since files may be replaced.
    let erased = resume_erasure(&storage, &paths, &|| check_lock_file(&*lock, &paths.lock()))
        .map_err(|error| error.to_string());
    let head_slots = read_head(&*storage, &paths)?;
    let segments = Segments::list(&*storage, &paths, None)?;
    let newest = segments.newest_if_linked()?;
    sync_folders(&*storage, &paths)?;
    // Bytes that are only in the page cache cannot be relied on.
    let tail = examine(&*storage, &paths, &segments, newest, &head_slots, |file| file.sync())?;
    let row = classify(tail.evidence);
    let action = RecoveryAction::choose(&options, &tail, row);
    if action == RecoveryAction::Refuse {
        refuse(&paths, newest, &tail, row)?;
    }
    remove_temporaries(&*storage, &paths)?;

    let epoch = head_slots.newest().map_or(0, |(_, head)| head.writer_epoch);
    let epoch = epoch.max(newest.header.writer_epoch) + 1;
    // A HEAD without a valid slot is useless. It is created again, after the fence.
    let head = match head_slots.newest() {
        Some(_) => Some(HeadFile::open(&*storage, &paths, &head_slots)?),
        None => None,
    };
    let last = tail.time.max(newest.header.created);
    let before = head_slots.newest().and_then(|(_, head)| head.clock);
    let (now, clock_status) = ledger_time(before, &options, time, last);
    let mut report = RecoveryReport {
        verdict: row.verdict,
        evidence: tail.evidence,
        discarded: tail.discarded.clone(),
        survivors: None,
        unknown_files: segments.unknown_files.clone(),
        // An unknown file system is accepted.
        filesystem: storage.filesystem_kind(paths.dir()).unwrap_or(FilesystemKind::Local),
        pruned: Ok(prune::PruneSet::default()),
        erased,
        clock: clock_status,
    };
    let end = tail.batch_end;
    let ack = Ack { seq: end.next_seq - 1, chain: end.chain.unwrap_or(Chain::GENESIS) };
    let (_, file) = open_segment(&*storage, &paths, &newest.header)?;
    let mut active = ActiveSegment { header: newest.header.clone(), file: file.into() };
    let mut position = WritePosition { ack, end: end.offset, time: last };
    let mut resume_points = ResumeCache::for_active(&newest.header, &tail.resume_points);
    if action == RecoveryAction::Fence {
        let state = head_slots.newest().map(|(_, head)| head.state);
        let fence = Fence {
            storage: &*storage,
            paths: &paths,
            before: &active.header,
            tail: &tail,
            row,
            sizes: options.segments,
            publish_guard: &|| publish_guard(&*lock, &paths),
        };
        let fenced = fence.build(&options.uids, epoch, state, now)?;
        (active, position, report.survivors) = (fenced.active, fenced.position, fenced.survivors);
        resume_points = ResumeCache::default();
    }
    let WritePosition { ack, end, .. } = position;
    let mut content =
        head_content(&active.header, epoch, ack, end, options.head_sync, HeadState::Open);
    let time = now.max(position.time);
    content.clock = options.boot_time.map(|at| ClockAnchor { at, time });
    // A writer that took over since the lock was taken may have written to the scanned segment.
    let may_write = || check_lock_file(&*lock, &paths.lock());
    may_write()?;
    let mut head = take_over(&*storage, &paths, head, &content, may_write)?;
    head.synced_at = position.time;
    // Segments that a crash left unsealed. The log is valid without the seals.
    let _ = seal_rotated(&*storage, &paths, options.stream_rule, &segments);
    // The newest note is used. If the prune cannot continue, the log is as valid as before.
    let retention = tail.retention.or(segments.retention);
    if let Some(retention) = &retention {
        let resumed = prune::resume(&storage, &paths, retention);
        report.pruned = resumed.map_err(|error| error.to_string());
    }
    let ledger = active.header.ledger;
    let ownership = Ownership::new(storage, lock, paths.lock(), &head, ledger, epoch);
    let state = WriterState::new(active, position, options.segments);
    let shared =
        SharedWriter::new(options, paths, ownership, head, state, retention, resume_points);
    Ok((shared, report))
}

/// The ledger's time at opening. It advances with the boot clock while the machine is up; after
/// another boot it is that of the wall clock, but never before the last record.
fn ledger_time(
    before: Option<ClockAnchor>,
    options: &LogOptions,
    wall: u64,
    last: u64,
) -> (u64, ClockContinuation) {
    let before = if mutant!(ElapsedTimeForgotten) { None } else { before };
    let elapsed = before.zip(options.boot_time).and_then(|(anchor, now)| anchor.time_at(now));
    match elapsed {
        Some(time) => (time.max(last), ClockContinuation::Elapsed),
        None if wall < last => (last, ClockContinuation::Behind(last - wall)),
        None => (wall, ClockContinuation::Wall),
    }
}

/// Take over in HEAD as the current writer. The recovered state must survive the next crash, so
/// HEAD is synced before anything is returned.
fn take_over(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    head: Option<HeadFile>,
    content: &Head,
    may_write: impl Fn() -> Result<()>,
) -> Result<HeadFile> {
    let mut head = if let Some(head) = head {
        head
    } else {
        HeadFile::replace(storage, paths, content)?;
        HeadFile::open(storage, paths, &read_head(storage, paths)?)?
    };
    head.clock = content.clock;
    head.write_both(content, may_write)?;
    Ok(head)
}

/// Whether a segment may be published under these paths: the lock file must still be the locked
/// one.
fn publish_guard(
    lock: &dyn LockGuard,
    paths: &LedgerPaths,
) -> std::result::Result<(), CreateError> {
    check_lock_file(lock, &paths.lock()).map_err(CreateError::BeforePublish)
}

/// Remove segments that were never completed.
fn remove_temporaries(storage: &dyn Storage, paths: &LedgerPaths) -> Result<()> {
    let folder = paths.log();
    let entries =
        storage.list(&folder).map_err(|error| Error::io("list the folder", &folder, error))?;
    for entry in entries {
        if entry.kind == EntryKind::File && is_temporary(&entry.name) {
            let path = folder.join(&entry.name);
            storage
                .remove(&path)
                .map_err(|error| Error::io("remove an incomplete segment", &path, error))?;
        }
    }
    Ok(())
}

/// Make every name durable that is about to be relied on. The process that created them may have
/// been killed before it could do so, even before the ledger's own name was durable.
fn sync_folders(storage: &dyn Storage, paths: &LedgerPaths) -> Result<()> {
    mutant!(LedgerDirEntryUnsynced => return Ok(()));
    let parent = paths.dir().parent().unwrap_or(Path::new(""));
    for folder in [&paths.log(), paths.dir(), parent] {
        storage.sync_dir(folder).map_err(|error| Error::io("sync the folder", folder, error))?;
    }
    Ok(())
}
