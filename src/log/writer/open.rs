//! Creating a log, and opening an existing one with recovery.
//!
//! Opening takes the lock, reads HEAD and all headers, scans the newest segment, and asks the
//! recovery table for a verdict. It continues in place, adds a fence, or refuses without changing
//! anything.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::{Chain, Head, HeadState};
use crate::log::folder::{
    DATA_START, HeadFile, Layout, Ownership, expect_in_place, expect_ledger, expect_writable,
    is_temporary, read_head, take_lock,
};
use crate::log::notes::{DiscardedRange, Survivors};
use crate::log::options::LogOptions;
use crate::log::prune;
use crate::log::record::Ack;
use crate::log::recovery::{
    Evidence, Fence, RecoveryAction, Tail, TailVerdict, classify, examine, refuse, with_head,
    with_length,
};
use crate::log::segment::{
    ActiveSegment, CreateError, LogPosition, ResumeCache, Scan, Segment, Segments, Source,
    create_segment, first_header, open_segment, seal_rotated,
};
use crate::storage::{Access, EntryKind, FilesystemKind, LockGuard, Storage};

use super::engine::Engine;
use super::staging;
use super::state::{WriterState, head_content};

/// What opening a log found and did.
#[derive(Debug, Clone)]
pub struct RecoveryReport {
    /// The verdict about the end of the log.
    pub verdict: TailVerdict,
    /// The evidence for it.
    pub evidence: Evidence,
    /// Unacknowledged bytes that a fence discarded.
    pub discarded: Vec<DiscardedRange>,
    /// Records that a fence rewrote.
    pub survivors: Option<Survivors>,
    /// Unknown files in the log's folder, which are ignored.
    pub unknown_files: Vec<String>,
    /// The kind of file system that holds the log.
    pub filesystem: FilesystemKind,
    /// What was removed to complete an interrupted prune, or why it cannot continue.
    pub pruned: std::result::Result<prune::PruneResult, String>,
}

pub(crate) fn create(dir: &Path, options: LogOptions, time: u64) -> Result<Engine> {
    options.segments.validate()?;
    let storage = options.storage.clone();
    let layout = Layout::new(dir);
    let (staging, lock) = staging::begin(&storage, &layout, &options.holder)?;

    let header = first_header(&options, time);
    let head = Head {
        ledger: header.ledger,
        generation: 1,
        writer_epoch: header.writer_epoch,
        mode: options.head_sync,
        durable_seq: 0,
        ordinal: 0,
        segment: header.segment,
        data_end: DATA_START,
        chain: Chain::GENESIS,
        state: HeadState::Clean,
    };
    create_segment(&*storage, &staging, &header, &|| publish_guard(&*lock, &staging))
        .map_err(CreateError::into_error)
        .and_then(|_| HeadFile::create(&*storage, &staging, &head))
        .and_then(|()| staging::publish(&*storage, &staging, &layout))
        .inspect_err(|_| staging::abort(&storage, &staging))?;
    let (engine, _) = open_locked(layout, options, lock, time)?;
    Ok(engine)
}

pub(crate) fn open(dir: &Path, options: LogOptions, time: u64) -> Result<(Engine, RecoveryReport)> {
    options.segments.validate()?;
    let layout = Layout::new(dir);
    let storage = options.storage.clone();
    // Checked first, so that no LOCK is created in a folder that is not a ledger.
    expect_writable(expect_ledger(&*storage, &layout)?, dir)?;
    let lock = take_lock(&*storage, &layout, &options.holder)?;
    open_locked(layout, options, lock, time)
}

fn open_locked(
    layout: Layout,
    options: LogOptions,
    lock: Box<dyn LockGuard>,
    time: u64,
) -> Result<(Engine, RecoveryReport)> {
    let storage = options.storage.clone();
    // The file may have been removed between opening and locking it: then the lock excludes no
    // one.
    expect_in_place(&*lock, &layout.lock())?;
    let view = read_head(&*storage, &layout)?;
    let segments = Segments::list(&*storage, &layout, None)?;
    let newest = segments.linked()?;
    sync_folders(&*storage, &layout)?;
    let mut tail = examine_newest(&*storage, &layout, newest, &view)?;
    tail.evidence = with_head(tail.evidence, &segments, &view);
    let row = classify(tail.evidence);
    let action = RecoveryAction::choose(&options, &tail, row);
    if action == RecoveryAction::Refuse {
        refuse(&layout, newest, &tail, row)?;
    }
    remove_temporaries(&*storage, &layout)?;

    let epoch = view.newest().map_or(0, |(_, head)| head.writer_epoch);
    let epoch = epoch.max(newest.header.writer_epoch) + 1;
    // A HEAD without a valid slot is useless. It is created again, after the fence.
    let head = match view.newest() {
        Some(_) => Some(HeadFile::open(&*storage, &layout, &view)?),
        None => None,
    };
    let mut report = RecoveryReport {
        verdict: row.verdict,
        evidence: tail.evidence,
        discarded: tail.discarded.clone(),
        survivors: None,
        unknown_files: segments.unknown_files.clone(),
        // An unknown file system is no reason to refuse.
        filesystem: storage.filesystem_kind(layout.dir()).unwrap_or(FilesystemKind::Local),
        pruned: Ok(prune::PruneResult::default()),
    };
    let end = tail.batch_end;
    let ack = Ack { seq: end.next_seq - 1, chain: end.chain.unwrap_or(Chain::GENESIS) };
    let last = tail.time.max(newest.header.created);
    let (_, file) = open_segment(&*storage, &layout, &newest.header)?;
    let mut active = ActiveSegment { header: newest.header.clone(), file: file.into() };
    let mut position = LogPosition { ack, end: end.offset, time: last };
    let mut resume_points = ResumeCache::of_active(&newest.header, &tail.resume_points);
    if action == RecoveryAction::Fence {
        let state = view.newest().map(|(_, head)| head.state);
        let fence = Fence {
            storage: &*storage,
            layout: &layout,
            before: &active.header,
            tail: &tail,
            row,
            sizes: options.segments,
            publish_guard: &|| publish_guard(&*lock, &layout),
        };
        let fenced = fence.build(&options.uids, epoch, state, time.max(last))?;
        (active, position, report.survivors) = (fenced.active, fenced.position, fenced.survivors);
        resume_points = ResumeCache::default();
    }
    let content =
        head_content(&active.header, &position, epoch, options.head_sync, HeadState::Open);
    // A writer that took over since the lock was taken may have written to the scanned segment.
    expect_in_place(&*lock, &layout.lock())?;
    let mut head = take_over(&*storage, &layout, head, content)?;
    head.synced_at = position.time;
    // Segments that a crash left unsealed. The log is valid without the seals.
    let _ = seal_rotated(&*storage, &layout, options.stream_of, &segments);
    // The newest note counts. If the prune cannot continue, the log is as valid as before.
    let retention = tail.retention.or(segments.retention);
    if let Some(retention) = &retention {
        let resumed = prune::resume(&storage, &layout, retention);
        report.pruned = resumed.map_err(|error| error.to_string());
    }
    let ledger = active.header.ledger;
    let ownership = Ownership::new(storage, lock, layout.lock(), &head, ledger, epoch);
    let state = WriterState::new(active, position, options.segments);
    let engine = Engine::new(options, layout, ownership, head, state, retention, resume_points);
    Ok((engine, report))
}

/// Take over in HEAD as the current writer. What was recovered must survive the next crash, so HEAD
/// is synced before anything is returned.
fn take_over(
    storage: &dyn Storage,
    layout: &Layout,
    head: Option<HeadFile>,
    content: Head,
) -> Result<HeadFile> {
    let mut head = if let Some(head) = head {
        head
    } else {
        HeadFile::replace(storage, layout, &content)?;
        HeadFile::open(storage, layout, &read_head(storage, layout)?)?
    };
    head.write(content)?;
    head.sync()?;
    Ok(head)
}

/// Whether a segment of this layout may be published: the lock must still be in place.
fn publish_guard(lock: &dyn LockGuard, layout: &Layout) -> std::result::Result<(), CreateError> {
    expect_in_place(lock, &layout.lock()).map_err(CreateError::BeforePublish)
}

/// Remove segments that were never completed.
fn remove_temporaries(storage: &dyn Storage, layout: &Layout) -> Result<()> {
    let folder = layout.log();
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
fn sync_folders(storage: &dyn Storage, layout: &Layout) -> Result<()> {
    mutant!(LedgerDirEntryUnsynced => return Ok(()));
    let parent = layout.dir().parent().unwrap_or(Path::new(""));
    for folder in [&layout.log(), layout.dir(), parent] {
        storage.sync_dir(folder).map_err(|error| Error::io("sync the folder", folder, error))?;
    }
    Ok(())
}

/// Gather the evidence about the newest segment. It is synced first, because nothing that is only
/// in the page cache may be adopted. It is opened for reading only: a sealed segment without a
/// successor is damage, and cannot be opened for writing.
fn examine_newest(
    storage: &dyn Storage,
    layout: &Layout,
    newest: &Segment,
    view: &crate::format::HeadSlots,
) -> Result<Tail> {
    let header = &newest.header;
    let path = layout.segment(header.name());
    let open = || storage.open(&path, Access::Read);
    let open = || open().map_err(|error| Error::io("open the segment", &path, error));
    let file = open()?;
    file.sync().map_err(|error| Error::io("sync the segment", &path, error))?;
    let again = open()?;
    let mut scan = Scan::new(Source::windowed(again), header, header.prealloc_len);
    let mut tail = examine(&mut scan, header, view)
        .map_err(|error| Error::io("read the segment", &path, error))?;
    tail.evidence = with_length(tail.evidence, newest, &*file)
        .map_err(|error| Error::io("read the footer", &path, error))?;
    Ok(tail)
}
