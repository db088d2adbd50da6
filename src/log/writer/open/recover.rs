//! Creating a log, and opening an existing one with recovery.
//!
//! Opening takes the lock, reads HEAD and all headers, scans the newest segment, and asks the
//! recovery table for a verdict. It continues in place, adds a fence, or refuses without changing
//! anything.

use std::path::Path;

use crate::error::Result;
use crate::format::{Chain, ClockAnchor, Head, HeadState};
#[cfg(feature = "ledger")]
use crate::log::folder::check_unbound;
use crate::log::folder::{
    DATA_START, HeadFile, LedgerPaths, Ownership, check_access, check_folder, check_lock_file,
    check_writable, hold_folder, read_head, take_lock,
};
use crate::log::options::LogOptions;
#[cfg(feature = "ledger")]
use crate::log::prune;
use crate::log::record::Ack;
#[cfg(feature = "ledger")]
use crate::log::recovery::resume_erasure;
use crate::log::recovery::{Fence, RecoveryAction, examine, refuse};
use crate::log::segment::{
    ActiveSegment, CreateError, ResumeCache, Segments, WritePosition, create_segment, first_header,
    head_content, open_segment, seal_rotated,
};
use crate::log::writer::shared::SharedWriter;
use crate::log::writer::staging::{self, Staging};
use crate::log::writer::state::WriterState;
use crate::storage::{FilesystemKind, LockGuard};

use super::steps::{
    RecoveryReport, ledger_time, publish_guard, remove_temporaries, sync_folders, take_over,
};

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
    let kind = check_folder(&*storage, &paths)?;
    check_writable(kind, dir)?;
    #[cfg(feature = "ledger")]
    check_unbound(&*storage, &paths, kind)?;
    check_access(&*storage, dir)?;
    let lock = || take_lock(&*storage, &paths, &options.holder, options.allow_unsafe_locks);
    let (shared, report) = open_locked(paths.clone(), options.clone(), lock()?, time)?;
    #[cfg(feature = "ledger")]
    if report.erased.as_ref().is_ok_and(|erased| erased.is_postponed) {
        // The end of the log is known now, and all of its records are durable.
        shared.close()?;
        drop(shared);
        let held = lock()?;
        let (shared, again) = open_locked(paths, options, held, time)?;
        return Ok((shared, RecoveryReport { erased: again.erased, ..report }));
    }
    Ok((shared, report))
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
    #[cfg(feature = "ledger")]
    let erased = resume_erasure(&storage, &paths, &|| check_lock_file(&*lock, &paths.lock()))
        .map_err(|error| error.to_string());
    let head_slots = read_head(&*storage, &paths)?;
    let segments = Segments::list(&*storage, &paths, None)?;
    let newest = segments.newest_if_linked()?;
    sync_folders(&*storage, &paths)?;
    // Bytes that are only in the page cache cannot be relied on.
    let tail = examine(&*storage, &paths, &segments, newest, &head_slots, |file| file.sync())?;
    let row = tail.evidence.row();
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
        #[cfg(feature = "ledger")]
        pruned: Ok(prune::PruneSet::default()),
        #[cfg(feature = "ledger")]
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
    #[cfg(feature = "ledger")]
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
