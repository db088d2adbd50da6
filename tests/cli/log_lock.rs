//! The writer lock, and readers that change nothing.

use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use plan_ledger::internals::sim::SimDisk;
use plan_ledger::internals::storage::{
    Access, DiskStorage, Entry, FilesystemKind, LockGuard, LockOutcome, Storage, StorageFile,
};
use plan_ledger::log::{Log, LogItem, LogOptions, LogReader};
use plan_ledger::{Environment, ErrorKind, HeadSync, Ledger};

use super::inspect::SetOnDrop;
use super::lab::{at, dir, open, options, options_with, record, survey_of};

fn on_disk(seed: u64) -> plan_ledger::log::LogOptions {
    options_with(Arc::new(DiskStorage), seed, HeadSync::Interval)
}

/// Every file below a folder, with its content.
fn content(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    for path in names {
        if path.is_dir() {
            all.extend(content(&path));
        } else {
            all.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
    all
}

/// One writer for each ledger within a process too; the error names the lock holder.
#[test]
fn second_handle_in_process_is_refused() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    let error = open(&disk).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.to_string().contains("process 7 on testhost"), "{error}");
    drop(log);
    drop(open(&disk).unwrap());

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("real.ledger");
    let log = Log::create(&path, on_disk(1), at(0)).unwrap();
    let error = Log::open(&path, on_disk(2), at(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.to_string().contains("process 7 on testhost"), "{error}");
    drop(log);
    Log::open(&path, on_disk(2), at(0)).unwrap();
}

/// Regression: a second handle in the same process was told to wait for another process, which
/// would never end.
#[test]
fn second_handle_error_names_own_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("real.ledger");
    let ledger = Ledger::create(&path, &Environment::system()).unwrap();
    let error = Ledger::open_with(&path, &Environment::system()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    let own = format!("locked by another handle of this process: process {}", std::process::id());
    assert!(error.to_string().contains(&own), "{error}");
    // A description that many processes may share does not identify one.
    ledger.close().unwrap();
    let named = Environment { holder: "the harness".to_owned(), ..Environment::system() };
    let _ledger = Ledger::open_with(&path, &named).unwrap();
    let error = Ledger::open_with(&path, &named).unwrap_err();
    assert!(error.to_string().contains("locked by another process: the harness"), "{error}");
}

const CHILD: &str = "LEDGER_TEST_LOCKED_FOLDER";

/// Not a test: the child process of the next one.
#[test]
fn child_that_holds_the_lock() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let (log, _) = Log::open(Path::new(&path), on_disk(7), at(5)).unwrap();
    log.append(&[record(1, 10)], at(5)).unwrap();
    println!("\nheld");
    std::io::stdout().flush().unwrap();
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
}

/// One writer for each ledger over all processes. A lock does not outlive a killed process, and
/// everything it acknowledged is there.
#[test]
fn lock_excludes_other_processes_until_holder_dies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("real.ledger");
    drop(Log::create(&path, on_disk(1), at(0)).unwrap());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "log_lock::child_that_holds_the_lock", "--nocapture"])
        .env(CHILD, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "held"), "the child never got the lock");

    let error = Log::open(&path, on_disk(2), at(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.to_string().contains("process 7 on testhost"), "{error}");
    // Reading is allowed and shows the acknowledged records.
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    assert_eq!(LogReader::open(&storage, &path).unwrap().records(1).count(), 1);

    child.kill().unwrap();
    child.wait().unwrap();
    let (log, _) = Log::open(&path, on_disk(2), at(0)).unwrap();
    assert_eq!(log.last_durable().seq, 1);
}

/// A reader changes no byte and no name of a live ledger.
#[test]
fn reader_changes_no_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("real.ledger");
    let log = Log::create(&path, on_disk(1), at(0)).unwrap();
    for number in 0..20 {
        log.append(&[record(number, 90_000)], at(number)).unwrap();
    }
    let before = content(folder.path());
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    let reader = LogReader::open(&storage, &path).unwrap();
    assert_eq!(survey_of(&reader).records.len(), 20);
    assert_eq!(reader.records(15).count(), 6);
    assert!(content(folder.path()) == before);

    // On the simulated disk: no mutating operation.
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(1, 10)], at(1)).unwrap();
    let before = disk.changes();
    assert_eq!(super::lab::survey(&disk).records.len(), 1);
    assert_eq!(disk.changes(), before);
}

/// Readers concurrent with a writer never see damage, a gap or a partial batch, and always
/// everything that was acknowledged before they opened.
#[test]
fn concurrent_readers_see_complete_batches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("real.ledger");
    let log = Log::create(&path, on_disk(1), at(0)).unwrap();
    let (is_over, looks) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let _is_over = SetOnDrop(&is_over);
        let looking = scope.spawn(|| {
            let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
            let mut seen = 0;
            while !is_over.load(Ordering::Relaxed) {
                let reader = LogReader::open(&storage, &path).unwrap();
                let count = reader.records(1).map(Result::unwrap).count();
                assert!(count % 3 == 0 && count >= seen, "{count} records after {seen}");
                seen = count;
                for item in reader.walk(1) {
                    let item = item.unwrap();
                    assert!(!matches!(item, LogItem::Damage(_)), "{item:?}");
                }
                looks.fetch_add(1, Ordering::Relaxed);
            }
        });
        // However late the reader starts, the log is still growing.
        for round in 0.. {
            if round >= 120 && (looks.load(Ordering::Relaxed) > 1 || looking.is_finished()) {
                break;
            }
            let batch = [record(round, 30), record(round, 20_000), record(round, 700)];
            log.append(&batch, at(round)).unwrap();
        }
    });
    assert!(looks.into_inner() > 1);
}

/// A storage on which every lock is granted, as on some network and FUSE file systems.
#[derive(Debug)]
struct Lockless(SimDisk);

#[derive(Debug)]
struct Granted;

impl LockGuard for Granted {
    fn is_at(&self, _: &Path) -> std::io::Result<bool> {
        Ok(true)
    }
}

impl Storage for Lockless {
    fn create_dir(&self, path: &Path) -> std::io::Result<()> {
        self.0.create_dir(path)
    }

    fn list(&self, path: &Path) -> std::io::Result<Vec<Entry>> {
        self.0.list(path)
    }

    fn create(&self, path: &Path) -> std::io::Result<Box<dyn StorageFile>> {
        self.0.create(path)
    }

    fn open(&self, path: &Path, access: Access) -> std::io::Result<Box<dyn StorageFile>> {
        self.0.open(path, access)
    }

    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        Storage::rename(&self.0, from, to)
    }

    fn remove(&self, path: &Path) -> std::io::Result<()> {
        Storage::remove(&self.0, path)
    }

    fn remove_dir(&self, path: &Path) -> std::io::Result<()> {
        self.0.remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> std::io::Result<()> {
        self.0.sync_dir(path)
    }

    fn lock(&self, _: &Path, _: &str) -> std::io::Result<LockOutcome> {
        Ok(LockOutcome::Acquired(Box::new(Granted)))
    }

    fn filesystem_kind(&self, path: &Path) -> std::io::Result<FilesystemKind> {
        self.0.filesystem_kind(path)
    }

    fn process(&self) -> u32 {
        self.0.process()
    }
}

/// Story: where locks do nothing, twelve clients opened one ledger at once; each of fifteen rounds left
/// it damaged.
/// Method: a network file system, and a storage whose lock can be taken twice.
#[test]
fn writer_refuses_where_locks_do_not_exclude_others() {
    let disk = SimDisk::new();
    Log::create(&dir(), options(&disk), at(0)).unwrap().close().unwrap();
    let network = disk.fork();
    network.set_filesystem_kind(FilesystemKind::Network);
    let storages: [(SimDisk, Arc<dyn Storage>); 2] =
        [(network.clone(), Arc::new(network)), (disk.clone(), Arc::new(Lockless(disk)))];
    for (disk, storage) in storages {
        let with = |allow_unsafe_locks| LogOptions {
            allow_unsafe_locks,
            ..options_with(storage.clone(), 1, HeadSync::Interval)
        };
        let before = disk.digest();
        let refused = Log::open(&dir(), with(false), at(1)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
        let hint = refused.hint().unwrap();
        assert!(
            hint.contains("the machine that has the disk") && hint.contains("unsafe locks"),
            "{hint}"
        );
        assert!(disk.digest() == before, "nothing was written");
        let new = Path::new("/new");
        Log::create(new, with(false), at(1)).unwrap_err();
        assert!(disk.files(Path::new("/")).iter().all(|path| path.starts_with(dir())));
        // Readers take no lock.
        assert!(LogReader::open(&storage, &dir()).unwrap().walk(1).next().is_none());
        let (log, _) = Log::open(&dir(), with(true), at(1)).unwrap();
        log.append(&[record(1, 40)], at(1)).unwrap();
        log.close().unwrap();
        Log::create(new, with(true), at(1)).unwrap().close().unwrap();
    }
}
