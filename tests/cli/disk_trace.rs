//! The disk operations of a log, and their order.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use plan_ledger::HeadSync;
use plan_ledger::internals::format::{SegmentHeader, is_sealed_length};
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::internals::storage::{
    Access, Entry, FilesystemKind, LockOutcome, Map, Storage, StorageFile,
};
use plan_ledger::log::{Log, LogReader, SegmentSummary};

use super::lab::{at, dir, options_with, record};

/// A mutating operation, or opening a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    CreateDir(PathBuf),
    Create(PathBuf),
    Open(PathBuf, Access),
    Write(PathBuf, u64, usize),
    Sync(PathBuf),
    SetLength(PathBuf, u64),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    SyncDir(PathBuf),
    Lock(PathBuf),
    /// Reported to the observer, not recorded.
    Read(PathBuf),
    /// Like a read.
    List(PathBuf),
    /// An acknowledgement, recorded by the test itself.
    Ack,
}

type Calls = Arc<Mutex<Vec<Call>>>;

/// A simulated disk that records its operations.
#[derive(Debug, Clone, Default)]
pub(crate) struct Traced {
    pub(crate) disk: SimDisk,
    calls: Calls,
    watch: Watch,
}

type Watcher = dyn Fn(&Call) + Send + Sync;

/// Observes each operation before it is executed, and may delay it.
#[derive(Clone, Default)]
struct Watch(Option<Arc<Watcher>>);

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

impl Traced {
    /// A disk with an observer of each operation.
    pub(crate) fn watched(watch: impl Fn(&Call) + Send + Sync + 'static) -> Self {
        Self { watch: Watch(Some(Arc::new(watch))), ..Self::default() }
    }

    fn tell(&self, call: &Call) {
        if let Some(watch) = &self.watch.0 {
            watch(call);
        }
    }

    pub(crate) fn note(&self, call: Call) {
        self.tell(&call);
        self.calls.lock().unwrap().push(call);
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    fn file(&self, path: &Path, file: Box<dyn StorageFile>) -> Box<dyn StorageFile> {
        Box::new(TracedFile { file, path: path.to_owned(), trace: self.clone() })
    }
}

impl Storage for Traced {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.note(Call::CreateDir(path.to_owned()));
        self.disk.create_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.tell(&Call::List(path.to_owned()));
        self.disk.list(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        self.note(Call::Create(path.to_owned()));
        Ok(self.file(path, self.disk.create(path)?))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>> {
        self.note(Call::Open(path.to_owned(), access));
        Ok(self.file(path, self.disk.open(path, access)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.note(Call::Rename(from.to_owned(), to.to_owned()));
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.note(Call::Remove(path.to_owned()));
        self.disk.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.note(Call::Remove(path.to_owned()));
        self.disk.remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.note(Call::SyncDir(path.to_owned()));
        self.disk.sync_dir(path)
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<LockOutcome> {
        self.note(Call::Lock(path.to_owned()));
        self.disk.lock(path, holder)
    }

    fn filesystem_kind(&self, path: &Path) -> io::Result<FilesystemKind> {
        self.disk.filesystem_kind(path)
    }

    fn process(&self) -> u32 {
        self.disk.process()
    }
}

#[derive(Debug)]
struct TracedFile {
    file: Box<dyn StorageFile>,
    path: PathBuf,
    trace: Traced,
}

impl StorageFile for TracedFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.trace.tell(&Call::Read(self.path.clone()));
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.trace.note(Call::Write(self.path.clone(), offset, bytes.len()));
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.trace.note(Call::Sync(self.path.clone()));
        self.file.sync()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.trace.note(Call::SetLength(self.path.clone(), length));
        self.file.set_length(length)
    }

    fn make_read_only(&self) -> io::Result<()> {
        self.file.make_read_only()
    }

    fn map(&self) -> io::Result<Map> {
        self.file.map()
    }
}

/// The operations of a log that is created, appended to, rotated twice and closed.
fn a_life(head_sync: HeadSync) -> (Traced, Vec<Call>) {
    let disk = Traced::default();
    let options = options_with(Arc::new(disk.clone()), 1, head_sync);
    let log = Log::create(&dir(), options, at(0)).unwrap();
    for number in 0..12 {
        let size = if number % 3 == 0 { 900 << 10 } else { 300 };
        log.append(&[record(number, size)], at(number)).unwrap();
        disk.note(Call::Ack);
    }
    log.close().unwrap();
    let calls = disk.calls();
    (disk, calls)
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "seg")
        || path.to_string_lossy().ends_with(".seg.tmp")
}

/// The final name of a file: a handle keeps the name under which it was created.
fn stem(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().trim_end_matches(".tmp").to_owned()
}

/// An acknowledgement follows the bytes, their sync and HEAD, in this order (H41), in both modes of
/// HEAD.
#[test]
fn h41_ack_follows_write_sync_and_head() {
    for mode in [HeadSync::Interval, HeadSync::EveryCommit] {
        let (_, calls) = a_life(mode);
        let mut acks = 0;
        for (place, _) in calls.iter().enumerate().filter(|(_, call)| **call == Call::Ack) {
            let before = &calls[..place];
            let last = |wanted: &dyn Fn(&Call) -> bool| before.iter().rposition(wanted);
            let is_record = |call: &Call| matches!(call, Call::Write(path, offset, _) if is_segment(path) && *offset >= 4096 && !path.to_string_lossy().ends_with(".tmp"));
            let is_born = |call: &Call| matches!(call, Call::Write(path, ..) if is_segment(path));
            let written = last(&is_record).or(last(&is_born)).unwrap();
            let synced =
                last(&|call| matches!(call, Call::Sync(path) if is_segment(path))).unwrap();
            let head =
                last(&|call| matches!(call, Call::Write(path, ..) if path.ends_with("HEAD")))
                    .unwrap();
            assert!(written < synced && synced < head, "{mode:?}: {:?}", &before[written..]);
            if mode == HeadSync::EveryCommit {
                let head_synced =
                    last(&|call| matches!(call, Call::Sync(path) if path.ends_with("HEAD")));
                assert!(head < head_synced.unwrap(), "HEAD was not synced before the ack");
            }
            acks += 1;
        }
        assert_eq!(acks, 12);
    }
}

/// A segment is renamed after all of it is durable (H28); the folder is synced before a record is
/// written to it (H19), and so are the folders of a new ledger (H20).
#[test]
fn h19_h20_h28_rename_follows_sync_and_precedes_records() {
    let (_, calls) = a_life(HeadSync::Interval);
    let mut named = 0;
    for (place, call) in calls.iter().enumerate() {
        let Call::Rename(from, to) = call else { continue };
        if is_segment(to) {
            named += 1;
            let of_file = |call: &Call| match call {
                Call::Write(path, ..) => is_segment(path) && stem(path) == stem(from),
                _ => false,
            };
            let last_write = calls[..place].iter().rposition(of_file).unwrap();
            let synced = calls[last_write..place].iter().any(
                |call| matches!(call, Call::Sync(path) if is_segment(path) && stem(path) == stem(from)),
            );
            assert!(synced, "{} got its name before it was durable", to.display());
            let later = &calls[place..];
            let sync =
                later.iter().position(|call| *call == Call::SyncDir(to.parent().unwrap().into()));
            let record = later.iter().position(
                |call| matches!(call, Call::Write(path, ..) if is_segment(path) && stem(path) == stem(to)),
            );
            assert!(record.is_none_or(|record| sync.unwrap() < record), "{}", to.display());
        } else if *to == dir() {
            let draft = from.clone();
            for folder in [draft.join("log"), draft] {
                let synced = calls[..place].contains(&Call::SyncDir(folder.clone()));
                assert!(synced, "{} was not synced", folder.display());
            }
            let parent = Call::SyncDir(dir().parent().unwrap().into());
            let first_ack = calls.iter().position(|call| *call == Call::Ack).unwrap();
            assert!(calls[place..first_ack].contains(&parent), "the ledger's own name");
        }
    }
    assert!(named >= 3, "the first segment and two rotations: {named}");
}

/// A segment gets the length of a sealed one only after index and footer are durable (H27), and
/// neither is written before its successor and HEAD are (H56).
#[test]
fn h27_h56_segment_is_sealed_after_durable_successor() {
    let (disk, calls) = a_life(HeadSync::Interval);
    let mut sealed = 0;
    for (place, call) in calls.iter().enumerate() {
        let Call::SetLength(path, length) = call else { continue };
        if length % 4096 == 0 {
            continue;
        }
        sealed += 1;
        let before = &calls[..place];
        let last = |wanted: &dyn Fn(&Call) -> bool| before.iter().rposition(wanted).unwrap();
        let written = last(&|call| matches!(call, Call::Write(at, ..) if at == path));
        let synced = last(&|call| matches!(call, Call::Sync(at) if at == path));
        assert!(written < synced, "{}: its length comes before its footer", path.display());
        let named = last(&|call| matches!(call, Call::Rename(_, to) if is_segment(to)));
        let head = last(&|call| matches!(call, Call::Sync(at) if at.ends_with("HEAD")));
        assert!(named < head && head < written, "{}: HEAD still stands in it", path.display());
    }
    let storage: Arc<dyn Storage> = Arc::new(disk.disk.clone());
    let segments = LogReader::open(&storage, &dir()).unwrap().segments();
    let is_sealed = |segment: &&SegmentSummary| {
        is_sealed_length(segment.length, segment.header.as_ref().unwrap().prealloc_len)
    };
    assert!(sealed >= 2 && sealed == segments.iter().filter(is_sealed).count(), "{sealed}");
}

/// Every byte of a new segment is written, so that no old content of the device shows through
/// (H11), and a full disk shows before a record is written (H45).
#[test]
fn h11_h45_segment_is_zero_filled_before_rename() {
    let (disk, calls) = a_life(HeadSync::Interval);
    let reader = {
        let storage: Arc<dyn Storage> = Arc::new(disk.disk.clone());
        LogReader::open(&storage, &dir()).unwrap()
    };
    let mut checked = 0;
    for segment in reader.segments() {
        let header: SegmentHeader = segment.header.unwrap();
        let name = stem(&segment.path);
        let named = calls.iter().position(
            |call| matches!(call, Call::Rename(_, to) if is_segment(to) && stem(to) == name),
        );
        let temporary = match &calls[named.unwrap()] {
            Call::Rename(from, _) => from.clone(),
            _ => unreachable!(),
        };
        let mut ranges: Vec<(u64, u64)> = calls[..named.unwrap()]
            .iter()
            .filter_map(|call| match call {
                Call::Write(path, offset, length) if *path == temporary => {
                    Some((*offset, offset + u64::try_from(*length).unwrap()))
                }
                _ => None,
            })
            .collect();
        ranges.sort_unstable();
        let covered = ranges
            .iter()
            .try_fold(0, |end: u64, (from, to)| (*from <= end).then_some(end.max(*to)));
        assert_eq!(covered, Some(header.prealloc_len), "{name}: {ranges:?}");
        checked += 1;
    }
    assert!(checked >= 3, "{checked}");
}

/// A reader opens files for reading and does nothing else (H57).
#[test]
fn h57_a_reader_only_reads() {
    let (disk, _) = a_life(HeadSync::Interval);
    let before = disk.calls().len();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let reader = LogReader::open(&storage, &dir()).unwrap();
    assert_eq!(reader.walk(1).count(), 12);
    plan_ledger::log::opening_verdict(&*storage, &dir()).unwrap();
    for call in &disk.calls()[before..] {
        assert!(matches!(call, Call::Open(_, Access::Read)), "a reader asked for {call:?}");
    }
}

/// A read error has a type and a place, and is never taken for the end of the log (H48). Every
/// operation of a walk fails once.
#[test]
fn h48_a_read_error_is_never_the_end_of_the_log() {
    use plan_ledger::internals::sim::{Fault, FaultEffect};
    let (traced, _) = a_life(HeadSync::Interval);
    let look = |disk: &SimDisk| {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let reader = LogReader::open(&storage, &dir())?;
        let mut count = 0;
        for record in reader.records(1) {
            record?;
            count += 1;
        }
        Ok::<_, plan_ledger::Error>(count)
    };
    let disk = traced.disk.fork();
    let start = disk.calls();
    assert_eq!(look(&disk).unwrap(), 12);
    let end = disk.calls();
    let mut failures = 0;
    for call in start + 1..=end {
        let disk = traced.disk.fork();
        disk.fail_at(Fault { call, kind: io::ErrorKind::Other, effect: FaultEffect::Nothing });
        match look(&disk) {
            Err(error) => {
                assert_eq!(error.kind(), plan_ledger::ErrorKind::Io, "call {call}: {error}");
                assert!(error.location().path.is_some(), "call {call}: {error}");
                failures += 1;
            }
            // An operation other than a read, which a reader does not need.
            Ok(count) => assert_eq!(count, 12, "call {call}"),
        }
        assert_eq!(look(&disk).unwrap(), 12, "call {call}: it reads well again");
    }
    assert!(failures > 10, "{failures}");
}
