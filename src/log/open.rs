//! Making a log, and opening one after whatever happened to it.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, Head, HeadState, Reason, SegmentHeader};
use crate::storage::{Access, EntryKind, LockGuard, Locking, Medium, Storage};

use super::build::{BuildError, build_segment, length};
use super::draft;
use super::evidence::{Tail, examine, with_length};
use super::head_file::{HeadFile, read_head};
use super::layout::{DATA_START, Layout, SEGMENT_SIZE_MIN, is_temporary, segment_size};
use super::note::{DiscardedRange, RecoveryNote, Survivors};
use super::options::LogOptions;
use super::reader::{Segment, Segments, expect_ledger};
use super::recovery::{Bit, Evidence, Row, Verdict, classify};
use super::scan::{Scan, Source};
use super::seal::seal_rotated;
use super::writer::{Ack, FrameWriter, Health, Log};

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
}

impl Log {
    /// Make a log in a folder that is not there yet. It has its name only when all of it is
    /// durable. `time` is in microseconds since the Unix epoch.
    ///
    /// # Errors
    /// `Locked` if somebody is just making it, `Io` (if something of that name is there already,
    /// too) and `DiskFull`.
    pub fn create(dir: &Path, options: LogOptions, time: u64) -> Result<Self> {
        let storage = options.storage.clone();
        let (layout, draft) = (Layout::new(dir), Layout::new(dir).under_construction());
        let io = |what: &str, path: &Path, error| Error::io(what, path, error);
        if storage.list(dir).is_ok() {
            let taken = std::io::ErrorKind::AlreadyExists.into();
            return Err(io("make a ledger here", dir, taken));
        }
        draft::expect_ours(&*storage, &draft)?;
        storage
            .create_dir(draft.dir())
            .map_err(|error| io("create the folder", draft.dir(), error))?;
        let lock = take_lock(&*storage, &draft, &options.holder)?;
        draft::clear(&*storage, &draft)?;
        storage
            .create_dir(&draft.log())
            .map_err(|error| io("create the folder", &draft.log(), error))?;

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
        build_segment(&*storage, &draft, &header, &[]).map_err(BuildError::into_error)?;
        HeadFile::create(&*storage, &draft, &head)?;
        let parent = dir.parent().unwrap_or(Path::new(""));
        storage.sync_dir(draft.dir()).map_err(|error| io("sync the folder", draft.dir(), error))?;
        storage
            .rename(draft.dir(), layout.dir())
            .map_err(|error| io("give the ledger its name", layout.dir(), error))?;
        storage.sync_dir(parent).map_err(|error| io("sync the folder", parent, error))?;
        let (log, _) = Self::open_locked(layout, options, lock, time)?;
        Ok(log)
    }

    /// Open a log for writing, and recover it if need be. Opening a log that was closed, or that
    /// was only killed between two commits, adds nothing to it.
    ///
    /// # Errors
    /// `NotALedger`; `Locked`, naming the holder; `Corrupt`, `Tampered` and `Ambiguous`, naming
    /// the place: nothing was changed, and readers go on; `Unsupported`; `Io` and `DiskFull`.
    pub fn open(dir: &Path, options: LogOptions, time: u64) -> Result<(Self, OpenReport)> {
        let layout = Layout::new(dir);
        let storage = options.storage.clone();
        // Looking first keeps us from leaving a LOCK in a folder that is not ours.
        expect_ledger(&*storage, &layout)?;
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
        let view = read_head(&*storage, &layout)?;
        let segments = Segments::list(&*storage, &layout)?;
        let newest = segments.linked()?;
        sync_folders(&*storage, &layout)?;
        let (mut tail, file) = examine_newest(&*storage, &layout, newest, &view)?;
        if view.newest().is_some_and(|(_, head)| segments.contradict(head)) {
            tail.evidence = tail.evidence.with(Bit::HeadDisagrees);
        }
        let row = classify(tail.evidence);
        refuse(&layout, newest, &tail, row)?;
        remove_temporaries(&*storage, &layout)?;

        let epoch = view.newest().map_or(0, |(_, head)| head.writer_epoch);
        let epoch = epoch.max(newest.header.writer_epoch);
        let state = view.newest().map(|(_, head)| head.state);
        let head = HeadFile::open(&*storage, &layout, &view)?;
        let mut report = OpenReport {
            verdict: row.verdict,
            evidence: tail.evidence,
            discarded: tail.discarded.clone(),
            survivors: None,
            strangers: segments.strangers.clone(),
            // Not to know it is no reason to refuse.
            medium: storage.medium(layout.dir()).unwrap_or(Medium::Local),
        };
        let end = tail.whole_end;
        let mut log = Self {
            layout,
            header: newest.header.clone(),
            file,
            head,
            end: end.offset,
            ack: Ack { seq: end.next_seq - 1, chain: end.chain.unwrap_or(Chain::GENESIS) },
            time: tail.time.max(newest.header.created),
            epoch: epoch + 1,
            head_synced: 0,
            // Until all is done: a half-opened log must not write a HEAD when it is dropped.
            health: Health::Poisoned,
            lock,
            options,
        };
        if row.verdict != Verdict::Clean {
            let reason = match state {
                Some(HeadState::Poisoned) => Reason::FenceAfterIoError,
                _ => Reason::FenceAfterCrash,
            };
            report.survivors = log.fence(&tail, row, reason, time)?;
        }
        // What is adopted must not be lost to the next crash: HEAD is synced before anything is
        // returned.
        log.head.write(log.head_content(HeadState::Open))?;
        log.head.sync()?;
        log.head_synced = log.time;
        log.health = Health::Good;
        // What a crash left unsealed. Nothing depends on its success.
        let _ = seal_rotated(&*storage, &log.layout, log.options.stream_of, &segments);
        Ok((log, report))
    }

    /// Go on in a new segment that holds what survives of the old one's end, and a note. Until it
    /// has its name nothing has changed; from then on the old end is logically dead, and stays.
    fn fence(
        &mut self,
        tail: &Tail,
        row: &Row,
        reason: Reason,
        time: u64,
    ) -> Result<Option<Survivors>> {
        let durable = tail.durable_end;
        let survivors = (durable.next_seq < tail.whole_end.next_seq)
            .then(|| Survivors { first: durable.next_seq, last: tail.whole_end.next_seq - 1 });
        let note = RecoveryNote {
            verdict: match row.verdict {
                Verdict::Unproven => "unproven_tail".to_owned(),
                _ => "torn".to_owned(),
            },
            evidence: tail.evidence.letters().chars().map(String::from).collect(),
            predecessor: self.header.ordinal,
            discarded: tail.discarded.clone(),
            survivors,
        };
        let mut header = SegmentHeader {
            segment: self.options.uids.next(),
            ordinal: self.header.ordinal + 1,
            base_seq: durable.next_seq,
            prev_chain: durable.chain.unwrap_or(Chain::GENESIS),
            prev_segment: self.header.segment,
            prev_data_end: durable.offset,
            prev_last_seq: durable.next_seq - 1,
            writer_epoch: self.epoch,
            created: time.max(self.time),
            prealloc_len: 0,
            reason,
            born_last: 0,
            born_end: 0,
            ..self.header.clone()
        };
        let (bytes, ack, end) = self.born_content(&header, tail, &note)?;
        header.prealloc_len = segment_size(SEGMENT_SIZE_MIN, length(&bytes));
        (header.born_last, header.born_end) = (ack.seq, end);
        self.file = build_segment(&*self.options.storage, &self.layout, &header, &bytes)
            .map_err(BuildError::into_error)?;
        self.time = header.created;
        (self.header, self.end, self.ack) = (header, end, ack);
        Ok(survivors)
    }

    /// The survivors with the same seq, time and payload, and so the same chain; and the note.
    fn born_content(
        &self,
        header: &SegmentHeader,
        tail: &Tail,
        note: &RecoveryNote,
    ) -> Result<(Vec<u8>, Ack, u64)> {
        let before = Ack { seq: tail.durable_end.next_seq - 1, chain: header.prev_chain };
        let mut writer = FrameWriter::new(header, DATA_START, before);
        let (path, file) = open_segment(&*self.options.storage, &self.layout, &self.header)?;
        let mut scan = Scan::new(Source::windowed(file), &self.header, self.header.prealloc_len);
        let mut at = tail.durable_end;
        while at.next_seq < tail.whole_end.next_seq {
            let found = scan
                .next(&mut at)
                .map_err(|error| Error::io("read a record", &path, error).at_offset(at.offset))?
                .map_err(|fault| damaged(&path, at.offset, at.next_seq, fault.describe()))?;
            let inflight = inflight(found.header.stamp.seq, before.seq);
            let stamp = found.header.stamp;
            let record = crate::format::NewRecord {
                kind: found.header.kind,
                codec: found.header.codec,
                schema: found.header.schema,
                payload: found.payload,
            };
            writer.push(&record, stamp.time, inflight, stamp.batch_left);
        }
        let inflight = inflight(writer.ack.seq + 1, before.seq);
        writer.push(&note.record(), header.created, inflight, 0);
        let end = writer.end();
        Ok((writer.bytes, writer.ack, end))
    }
}

fn inflight(seq: u64, durable: u64) -> u32 {
    u32::try_from(seq - durable).unwrap_or(u32::MAX)
}

fn first_header(options: &LogOptions, time: u64) -> SegmentHeader {
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
        writer_epoch: 0,
        created: time,
        prealloc_len: SEGMENT_SIZE_MIN,
        reason: Reason::Create,
        born_last: 0,
        born_end: 0,
        genesis: ledger,
        ro_compat: 0,
    }
}

fn take_lock(storage: &dyn Storage, layout: &Layout, holder: &str) -> Result<Box<dyn LockGuard>> {
    let path = layout.lock();
    match storage.lock(&path, holder) {
        Ok(Locking::Ours(guard)) => Ok(guard),
        Ok(Locking::HeldBy(holder)) => {
            let holder = if holder.is_empty() { "an unknown process" } else { &holder };
            Err(Error::new(
                ErrorKind::Locked,
                format!(
                    "held by another process: {holder}; wait for it to end, or look on with \
                     `ledger inspect`"
                ),
            )
            .at_path(layout.dir()))
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

fn open_segment(
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
    let parent = layout.dir().parent().unwrap_or(Path::new(""));
    for folder in [&layout.log(), layout.dir(), parent] {
        storage.sync_dir(folder).map_err(|error| Error::io("sync the folder", folder, error))?;
    }
    Ok(())
}

/// Gather the evidence about the newest segment, after making durable what is about to be read:
/// nothing may be adopted that is only in the page cache.
fn examine_newest(
    storage: &dyn Storage,
    layout: &Layout,
    newest: &Segment,
    view: &crate::format::HeadView,
) -> Result<(Tail, Box<dyn crate::storage::StorageFile>)> {
    let header = &newest.header;
    let (path, file) = open_segment(storage, layout, header)?;
    file.sync().map_err(|error| Error::io("sync the segment", &path, error))?;
    let (_, again) = open_segment(storage, layout, header)?;
    let mut scan = Scan::new(Source::windowed(again), header, header.prealloc_len);
    let mut tail = examine(&mut scan, header, view)
        .map_err(|error| Error::io("read the segment", &path, error))?;
    tail.evidence = with_length(tail.evidence, newest, &*file)
        .map_err(|error| Error::io("read the footer", &path, error))?;
    Ok((tail, file))
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
