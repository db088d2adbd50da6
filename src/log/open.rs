//! Making a log, and opening one after whatever happened to it.

use std::path::Path;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, Head, HeadState, Reason, SegmentHeader};
use crate::storage::{Access, EntryKind, LockGuard, Locking, Medium, Storage};

use super::batch::Ack;
use super::beginning::expect_writable;
use super::build::{BuildError, build_segment};
use super::course::Course;
use super::draft;
use super::engine::Engine;
use super::evidence::{Tail, examine, with_head, with_length};
use super::fence::Fence;
use super::head_file::{HeadFile, read_head};
use super::layout::{DATA_START, Layout, is_temporary};
use super::note::{DiscardedRange, Survivors};
use super::options::LogOptions;
use super::ownership::{Ownership, expect_in_place, held_by};
use super::prune;
use super::queue::{Active, Queue, Tip, head_content};
use super::reader::expect_ledger;
use super::recovery::{Bit, Evidence, Row, Verdict, classify};
use super::scan::{Scan, Source};
use super::seal::seal_rotated;
use super::seek::{PlaceCache, places_of_writer};
use super::segments::{Segment, Segments};
use super::writer::Log;

/// How often, and after how long, a lock that is held is asked for again.
const LOCK_PAUSES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// What opening a log found and did.
#[derive(Debug, Clone)]
pub struct OpenReport {
    /// What the end of the log was.
    pub verdict: Verdict,
    /// The observations behind it.
    pub evidence: Evidence,
    /// Un-acknowledged bytes that were fenced off.
    pub discarded: Vec<DiscardedRange>,
    /// Records that were re-written behind a fence.
    pub survivors: Option<Survivors>,
    /// Things in the log's folder that do not belong there; they were left alone.
    pub strangers: Vec<String>,
    /// What kind of file system the log stands on.
    pub medium: Medium,
    /// What was removed because an earlier prune had been cut short, or why it cannot go on.
    pub pruned: std::result::Result<prune::Removal, String>,
}

impl Log {
    /// Make a log in a folder that is not there yet. It has its name only when all of it is
    /// durable. `time` is in microseconds since the Unix epoch.
    ///
    /// # Errors
    /// `Locked` if somebody is just making it, `Io` (if something of that name is there already,
    /// too) and `DiskFull`.
    pub fn create(dir: &Path, options: LogOptions, time: u64) -> Result<Self> {
        options.segments.expect_possible()?;
        let storage = options.storage.clone();
        let layout = Layout::new(dir);
        let (draft, lock) = draft::begin(&storage, &layout, &options.holder)?;

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
        build_segment(&*storage, &draft, &header, &|| in_place(&*lock, &draft))
            .map_err(BuildError::into_error)
            .and_then(|_| HeadFile::create(&*storage, &draft, &head))
            .and_then(|()| draft::name(&*storage, &draft, &layout))
            .inspect_err(|_| draft::give_up(&storage, &draft))?;
        let (log, _) = Self::open_locked(layout, options, lock, time)?;
        Ok(log)
    }

    /// Open a log for writing, and recover it if need be. Opening a log that was closed, or that
    /// was only killed between two commits, adds nothing to it.
    ///
    /// # Errors
    /// `NotALedger`; `Locked`, naming the holder; `Corrupt`, `Tampered` and `Ambiguous`, naming
    /// the place: nothing was changed, and readers go on; `Unsupported`; `Fenced` if somebody
    /// removed or replaced the file LOCK meanwhile; `Io` and `DiskFull`.
    pub fn open(dir: &Path, options: LogOptions, time: u64) -> Result<(Self, OpenReport)> {
        options.segments.expect_possible()?;
        let layout = Layout::new(dir);
        let storage = options.storage.clone();
        // Looking first keeps us from leaving a LOCK in a folder that is not ours.
        expect_writable(expect_ledger(&*storage, &layout)?, dir)?;
        let lock = take_lock(&*storage, &layout, &options.holder)?;
        Self::open_locked(layout, options, lock, time)
    }

    fn open_locked(
        layout: Layout,
        options: LogOptions,
        lock: Box<dyn LockGuard>,
        time: u64,
    ) -> Result<(Self, OpenReport)> {
        let storage = options.storage.clone();
        // The file may have been removed between opening and locking it: then the lock keeps
        // nobody out.
        expect_in_place(&*lock, &layout.lock())?;
        let view = read_head(&*storage, &layout)?;
        let segments = Segments::list(&*storage, &layout, None)?;
        let newest = segments.linked()?;
        sync_folders(&*storage, &layout)?;
        let mut tail = examine_newest(&*storage, &layout, newest, &view)?;
        tail.evidence = with_head(tail.evidence, &segments, &view);
        let row = classify(tail.evidence);
        let course = Course::of(&options, &tail, row);
        if course == Course::Refuse {
            refuse(&layout, newest, &tail, row)?;
        }
        remove_temporaries(&*storage, &layout)?;

        let epoch = view.newest().map_or(0, |(_, head)| head.writer_epoch);
        let epoch = epoch.max(newest.header.writer_epoch) + 1;
        // A HEAD that says nothing is of no use: it is made anew, behind the fence.
        let known = match view.newest() {
            Some(_) => Some(HeadFile::open(&*storage, &layout, &view)?),
            None => None,
        };
        let mut report = OpenReport {
            verdict: row.verdict,
            evidence: tail.evidence,
            discarded: tail.discarded.clone(),
            survivors: None,
            strangers: segments.strangers.clone(),
            // Not to know it is no reason to refuse.
            medium: storage.medium(layout.dir()).unwrap_or(Medium::Local),
            pruned: Ok(prune::Removal::default()),
        };
        let end = tail.whole_end;
        let ack = Ack { seq: end.next_seq - 1, chain: end.chain.unwrap_or(Chain::GENESIS) };
        let last = tail.time.max(newest.header.created);
        let (_, file) = open_segment(&*storage, &layout, &newest.header)?;
        let mut active = Active { header: newest.header.clone(), file: file.into() };
        let mut tip = Tip { ack, end: end.offset, time: last };
        let mut places = places_of_writer(&newest.header, &tail.places);
        if course == Course::Fence {
            let state = view.newest().map(|(_, head)| head.state);
            let fence = Fence {
                storage: &*storage,
                layout: &layout,
                before: &active.header,
                tail: &tail,
                row,
                sizes: options.segments,
                may_name: &|| in_place(&*lock, &layout),
            };
            let made = fence.build(&options.uids, epoch, state, time.max(last))?;
            (active, tip, report.survivors) = (made.active, made.tip, made.survivors);
            places = PlaceCache::default();
        }
        let content = head_content(&active.header, &tip, epoch, options.head_sync, HeadState::Open);
        // Whoever took over since the lock was taken may have written to what was examined.
        expect_in_place(&*lock, &layout.lock())?;
        let mut head = take_over(&*storage, &layout, known, content)?;
        head.synced_at = tip.time;
        // What a crash left unsealed. Nothing depends on its success.
        let _ = seal_rotated(&*storage, &layout, options.stream_of, &segments);
        // The newest note counts. If it cannot be acted on, the log is as good as before.
        let retention = tail.retention.or(segments.retention);
        if let Some(retention) = &retention {
            let resumed = prune::resume(&storage, &layout, retention);
            report.pruned = resumed.map_err(|error| error.to_string());
        }
        let who = (active.header.ledger, epoch);
        let ownership = Ownership::new(storage, (lock, layout.lock()), &head, who);
        let queue = Queue::new(active, tip, options.segments);
        let engine = Engine::new(options, layout, ownership, head, queue, retention, places);
        Ok((Self::new(engine), report))
    }
}

/// Say in HEAD who writes from now on, and where. What is adopted must not be lost to the next
/// crash: HEAD is synced before anything is returned.
fn take_over(
    storage: &dyn Storage,
    layout: &Layout,
    known: Option<HeadFile>,
    content: Head,
) -> Result<HeadFile> {
    let mut head = if let Some(head) = known {
        head
    } else {
        HeadFile::replace(storage, layout, &content)?;
        HeadFile::open(storage, layout, &read_head(storage, layout)?)?
    };
    head.write(content)?;
    head.sync()?;
    Ok(head)
}

pub(super) fn first_header(options: &LogOptions, time: u64) -> SegmentHeader {
    let ledger = options.uids.next();
    SegmentHeader {
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
        reason: Reason::Create,
        born_last: 0,
        born_end: 0,
        genesis: ledger,
        ro_compat: 0,
    }
}

/// Whether a segment of this layout may get its name, by its lock.
fn in_place(lock: &dyn LockGuard, layout: &Layout) -> std::result::Result<(), BuildError> {
    expect_in_place(lock, &layout.lock()).map_err(BuildError::BeforeName)
}

/// Take the lock, or say who holds it.
pub(super) fn take_lock(
    storage: &dyn Storage,
    layout: &Layout,
    holder: &str,
) -> Result<Box<dyn LockGuard>> {
    let path = layout.lock();
    let mut locking = storage.lock(&path, holder);
    // A process that is killed while it starts a worker leaves a copy of its open files in the
    // child, lock included, until the child has become the worker: a moment, which is waited out.
    for _ in 0..LOCK_PAUSES {
        if !matches!(locking, Ok(Locking::HeldBy(_))) {
            break;
        }
        std::thread::sleep(LOCK_PAUSE);
        locking = storage.lock(&path, holder);
    }
    match locking {
        Ok(Locking::Ours(guard)) => Ok(guard),
        Ok(Locking::HeldBy(found)) => {
            Err(held_by(&found, holder, storage.process()).at_path(layout.dir()))
        }
        Err(error) => Err(Error::io("lock the ledger", &path, error)),
    }
}

/// Remove segments that never got their name.
fn remove_temporaries(storage: &dyn Storage, layout: &Layout) -> Result<()> {
    let folder = layout.log();
    let entries =
        storage.list(&folder).map_err(|error| Error::io("list the folder", &folder, error))?;
    for entry in entries {
        if entry.kind == EntryKind::File && is_temporary(&entry.name) {
            let path = folder.join(&entry.name);
            storage
                .remove(&path)
                .map_err(|error| Error::io("remove an unfinished segment", &path, error))?;
        }
    }
    Ok(())
}

pub(super) fn open_segment(
    storage: &dyn Storage,
    layout: &Layout,
    header: &SegmentHeader,
) -> Result<(std::path::PathBuf, Box<dyn crate::storage::StorageFile>)> {
    let path = layout.segment(header.name());
    let file = storage
        .open(&path, Access::ReadWrite)
        .map_err(|error| Error::io("open the segment", &path, error))?;
    Ok((path, file))
}

/// Make every name durable that is about to be relied on. Whoever made them may have been killed
/// before it could, even before the ledger's own name was safe.
fn sync_folders(storage: &dyn Storage, layout: &Layout) -> Result<()> {
    bug!(LedgerNameUnsynced => return Ok(()));
    let parent = layout.dir().parent().unwrap_or(Path::new(""));
    for folder in [&layout.log(), layout.dir(), parent] {
        storage.sync_dir(folder).map_err(|error| Error::io("sync the folder", folder, error))?;
    }
    Ok(())
}

/// Gather the evidence about the newest segment, after making durable what is about to be read:
/// nothing may be adopted that is only in the page cache. It is only looked at here: a sealed
/// segment without a successor is damage to be judged, and cannot be opened for writing.
fn examine_newest(
    storage: &dyn Storage,
    layout: &Layout,
    newest: &Segment,
    view: &crate::format::HeadView,
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

/// Turn a verdict that forbids writing into an error that names the place.
pub(super) fn refuse(layout: &Layout, newest: &Segment, tail: &Tail, row: &Row) -> Result<()> {
    let (kind, what) = match row.verdict {
        Verdict::Clean | Verdict::Unproven | Verdict::Torn => return Ok(()),
        Verdict::Corrupt if tail.evidence.has(Bit::LinkBad) => {
            (ErrorKind::Corrupt, "the file is not the one that was made")
        }
        Verdict::Corrupt => (ErrorKind::Corrupt, "acknowledged bytes are damaged"),
        Verdict::AckedTailMissing => (ErrorKind::Corrupt, "acknowledged records are missing"),
        Verdict::Tampered => {
            (ErrorKind::Tampered, "intact bytes that are not the ones that were acknowledged")
        }
        Verdict::Ambiguous if tail.evidence.has(Bit::HeadMissing) => {
            return Err(Error::new(
                ErrorKind::Ambiguous,
                "both slots of HEAD are missing or damaged, so it cannot be told how much was \
                 acknowledged; nothing was changed, and `ledger inspect` shows what is there",
            )
            .at_path(&layout.head()));
        }
        Verdict::Ambiguous => {
            (ErrorKind::Ambiguous, "it cannot be told whether damaged bytes were acknowledged")
        }
        Verdict::Version => (ErrorKind::Unsupported, "a newer program wrote this"),
    };
    let is_long = newest.length == newest.header.prealloc_len;
    let fault = if is_long || tail.evidence.has(Bit::SegmentMissing) {
        let sealed = "the newest segment is sealed, so there was one behind it";
        if is_long { tail.fault.describe() } else { sealed }.to_owned()
    } else {
        format!("expected a file of {} bytes, found {}", newest.header.prealloc_len, newest.length)
    };
    let message = format!(
        "{what}: {fault} (evidence {}, row {}); nothing was changed, and `ledger inspect` shows \
         what can be read",
        tail.evidence.letters(),
        row.label
    );
    Err(Error::new(kind, message)
        .at_path(&layout.segment(newest.header.name()))
        .at_offset(tail.end.offset)
        .at_seq(tail.end.next_seq))
}

/// Damage at a place where a record was expected.
pub(super) fn damaged(path: &Path, offset: u64, seq: u64, what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("{what}; nothing was changed, and `ledger inspect` shows what can be read"),
    )
    .at_path(path)
    .at_offset(offset)
    .at_seq(seq)
}

#[cfg(test)]
mod tests {
    use super::super::recovery::TABLE;
    use super::super::scan::Position;
    use super::*;

    fn kind_of(verdict: Verdict) -> Option<ErrorKind> {
        match verdict {
            Verdict::Clean | Verdict::Unproven | Verdict::Torn => None,
            Verdict::Corrupt | Verdict::AckedTailMissing => Some(ErrorKind::Corrupt),
            Verdict::Tampered => Some(ErrorKind::Tampered),
            Verdict::Ambiguous => Some(ErrorKind::Ambiguous),
            Verdict::Version => Some(ErrorKind::Unsupported),
        }
    }

    /// Goal: every row of the table that forbids writing becomes an error of its kind that names the
    /// place, the one too that nobody comes to because the headers are looked at first.
    #[test]
    fn every_row_that_forbids_writing_is_an_error_of_its_kind() {
        let storage: std::sync::Arc<dyn Storage> = std::sync::Arc::new(crate::sim::SimDisk::new());
        let uids = super::super::options::UidSource::new(|| [7; 16]);
        let header = first_header(&LogOptions::new(storage, uids), 5);
        let layout = Layout::new(Path::new("/ledger"));
        let end = Position::start(&header);
        let newest = Segment { length: header.prealloc_len, header, fault: None };
        for row in &TABLE {
            let tail = Tail {
                end,
                whole_end: end,
                durable_end: end,
                time: 0,
                fault: crate::format::FrameFault::BodyCrc,
                retention: None,
                places: Vec::new(),
                evidence: row.needs(),
                discarded: Vec::new(),
            };
            let refused = refuse(&layout, &newest, &tail, row).map_err(|error| {
                let place = if tail.evidence.has(Bit::HeadMissing) { "HEAD" } else { ".seg" };
                assert!(error.to_string().contains(place), "row {}: {error}", row.label);
                error.kind()
            });
            assert_eq!(refused.err(), kind_of(row.verdict), "row {}", row.label);
        }
    }
}
