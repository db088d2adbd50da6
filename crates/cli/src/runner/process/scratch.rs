//! Files of running attempts, and the proof that the jobs of an earlier runner are dead.
//!
//! Each job (a worker or a check) has a stem, and its files are named after it: `.in` and `.out`
//! are its standard input and output, `.err` is its standard error, `.receipt` is the receipt that
//! it may write, and `.pid` contains its process id and name. All of these files are disposable:
//! the ledger never reads them.
//!
//! Invariants:
//! - `.err` is locked through the open file that the job inherits as its standard error. The kernel
//!   keeps that lock exactly as long as the job, or a descendant that keeps the file open, is
//!   alive, even after the runner was killed. If the lock is free, no such process is left.
//! - A process is killed only if its environment names this ledger and this job: a process id alone
//!   may have been reused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::process::Pid;

use plan_ledger::{Error, ErrorKind, Result};

use crate::runner::own_folder::{OwnFolder, create_own_folder, expect_no_link};
use crate::runner::process::exit_record::{ExitRecord, RECORD_LENGTH, RESERVED};
use crate::runner::process::orphans;
use crate::runner::process::orphans::{JobName, Orphan};

/// The maximum time for a killed process to release its lock.
const DEATH_WAIT: Duration = Duration::from_secs(10);

/// The size limit of a `.pid` file in bytes. A longer name is cut.
const NOTE_LENGTH: usize = 512;

/// The space that is reserved for the standard error of a job, in bytes.
const ERRORS_RESERVED: u64 = 4 << 10;

/// The time between two tries to get the lock.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The suffix of the file for the reported cost of a judge or a planner.
pub(crate) const COST: &str = "cost";

/// The suffix of the file with the repetition of a job.
const REPEATED: &str = "repeated";

/// The size limit of such a file in bytes.
const REPEATED_LENGTH_MAX: u64 = 1 << 12;

/// The suffixes of a job's files.
const SUFFIXES: [&str; 9] =
    ["in", "out", "receipt", COST, REPEATED, "pid", "err", RESERVED, RECORD];

/// The suffix of a job's record.
const RECORD: &str = "exit";

/// The folder with the files of one run's jobs.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: PathBuf,
    /// The folder as the last job's files were created in it: they are removed there.
    opened: Mutex<Option<OwnFolder>>,
    /// The folder of outputs that are too long for a receipt.
    outputs: PathBuf,
}

/// The remains of the jobs of an earlier runner.
#[derive(Debug, Default)]
pub(crate) struct LeftJobs {
    /// The processes that were killed.
    pub(crate) orphans: Vec<Orphan>,
    /// The records of the jobs that had ended by themselves, by stem.
    pub(crate) records: BTreeMap<String, ExitRecord>,
    /// The stems of all jobs with files.
    pub(crate) stems: BTreeSet<String>,
}

impl Scratch {
    /// Use this folder; it is created when it is needed.
    pub(crate) fn new(folder: PathBuf) -> Self {
        let outputs = folder.join("outputs");
        Self { folder, opened: Mutex::default(), outputs }
    }

    /// Keep outputs that are too long for a receipt in this folder.
    pub(crate) fn with_outputs(self, outputs: PathBuf) -> Self {
        Self { outputs, ..self }
    }

    /// The path at which the output of a job is kept if it is too long for a receipt.
    pub(crate) fn kept_output(&self, stem: &str) -> PathBuf {
        self.outputs.join(format!("{stem}.out"))
    }

    /// The folders that may have the artifacts of a step with these `changes`: kept outputs do not
    /// count as changes of the worker.
    pub(crate) fn artifact_places(&self, mut changes: Vec<String>) -> Vec<String> {
        if !changes.is_empty() {
            changes.push(self.outputs.to_string_lossy().into_owned());
        }
        changes
    }

    /// The path of a job's record.
    pub(crate) fn record_path(&self, stem: &str) -> PathBuf {
        self.path(stem, RECORD)
    }

    /// The record of a job that has ended.
    pub(crate) fn record(&self, stem: &str) -> Option<ExitRecord> {
        ExitRecord::read(&self.record_path(stem))
    }

    /// The file of a job with this suffix.
    pub(crate) fn path(&self, stem: &str, suffix: &str) -> PathBuf {
        self.folder.join(format!("{stem}.{suffix}"))
    }

    /// The value of [`JOB_VARIABLE`] in the processes of a job.
    pub(crate) fn work_name(&self, stem: &str) -> PathBuf {
        self.folder.join(stem)
    }

    /// The value of [`IDENTITY_VARIABLE`](orphans::IDENTITY_VARIABLE) in the processes of all jobs: the places
    /// of this folder and of the one around it on their file system, which a move does not change.
    pub(crate) fn identity(&self) -> Option<String> {
        let place = |folder: &Path| {
            fs::metadata(folder).map(|found| format!("{}-{}", found.dev(), found.ino())).ok()
        };
        Some(format!("{} {}", place(&self.folder)?, place(self.folder.parent()?)?))
    }

    /// Whether a job's files are in this folder, under any path. A ledger that was made at the path
    /// of a moved one has none of its jobs; a folder that was created again in its ledger keeps
    /// those of the path.
    fn contains(&self) -> impl Fn(&JobName) -> bool {
        let identity = self.identity();
        move |job| {
            let has_path = job.path.starts_with(&self.folder);
            if plan_ledger::mutant!(OrphanByPath) {
                return has_path;
            }
            let own = identity.as_deref().and_then(|own| own.split_once(' '));
            let named = job.folder.as_deref().and_then(|named| named.split_once(' '));
            let (Some((own, own_around)), Some((named, around))) = (own, named) else {
                return has_path;
            };
            own == named || (has_path && own_around == around)
        }
    }

    /// Kill every process of one job.
    pub(crate) fn end_job(&self, stem: &str, leader: Option<Pid>) -> Vec<Orphan> {
        let is_ours = self.contains();
        orphans::end(|job| job.stem().is_some_and(|it| it == stem) && is_ours(job), leader)
    }

    /// Ask every process of one job to end.
    pub(crate) fn ask_to_end(&self, stem: &str) {
        let is_ours = self.contains();
        orphans::ask_to_end(|job| job.stem().is_some_and(|it| it == stem) && is_ours(job));
    }

    /// Kill every process of all jobs. One that cannot be killed is found when its job is reported, or by the next
    /// runner.
    pub(crate) fn end_all(&self) -> Vec<Orphan> {
        orphans::end(self.contains(), None)
    }

    /// Create a job's files: its input with these bytes, an empty output, and a locked error file.
    pub(crate) fn create(&self, stem: &str, input: &[u8]) -> Result<JobFiles> {
        create_own_folder(&self.folder)?;
        let failed = |error| Error::io("open the workers' folder", &self.folder, error);
        let folder = OwnFolder::open(&self.folder).map_err(failed)?;
        let name = |suffix: &str| format!("{stem}.{suffix}");
        let create = |suffix: &str, bytes: &[u8]| -> Result<File> {
            let mut file = folder.create(name(suffix)).map_err(|error| {
                Error::io("create a worker's file", &self.path(stem, suffix), error)
            })?;
            let written = file.write_all(bytes);
            written.map_err(|error| {
                Error::io("write a worker's file", &self.path(stem, suffix), error)
            })?;
            Ok(file)
        };
        create("in", input)?;
        let input = folder
            .read(name("in"))
            .map_err(|error| Error::io("open a worker's input", &self.path(stem, "in"), error))?;
        for suffix in ["receipt", COST, REPEATED, RECORD] {
            folder.remove(name(suffix)).map_err(|error| {
                Error::io("remove a worker's file", &self.path(stem, suffix), error)
            })?;
        }
        let output = create("out", &[])?;
        let errors = create("err", &[])?;
        errors.lock().map_err(|error| {
            Error::io("lock a worker's error file", &self.path(stem, "err"), error)
        })?;
        // Reserve the space for the process id, the record and an error message now: once the job runs, a
        // full disk is noticed too late, and its message would not find room.
        let reserved = fallocate(&errors, FallocateFlags::KEEP_SIZE, 0, ERRORS_RESERVED);
        // Not all file systems can reserve space.
        if let Err(error @ (Errno::NOSPC | Errno::DQUOT)) = reserved {
            let path = self.path(stem, "err");
            return Err(Error::io("reserve space for a worker's errors", &path, error.into()));
        }
        create("pid", &[b' '; NOTE_LENGTH])?;
        create(RESERVED, &[b' '; RECORD_LENGTH])?;
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(folder);
        Ok(JobFiles { input, output, errors })
    }

    /// Calls a function with the folder, as it was when the last job's files were created.
    fn in_folder<T>(&self, call: impl FnOnce(&OwnFolder) -> io::Result<T>) -> io::Result<T> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let open = match opened.take() {
            Some(open) => open,
            None => OwnFolder::open(&self.folder)?,
        };
        call(opened.insert(open))
    }

    /// Write the process id and name of a job into the reserved space, for messages and for the
    /// runner that may have to end it.
    pub(crate) fn note_process(&self, stem: &str, pid: u32, name: &str) -> Result<()> {
        let mut note = format!("{pid} {name}").into_bytes();
        note.truncate(NOTE_LENGTH);
        let written = self.in_folder(|folder| {
            folder.write(format!("{stem}.pid")).and_then(|mut file| file.write_all(&note))
        });
        written.map_err(|error| {
            Error::io("write a worker's process id", &self.path(stem, "pid"), error)
        })
    }

    /// Write the repetition of a job, where other processes read it, or remove it.
    pub(crate) fn keep_repeated(&self, stem: &str, text: Option<&[u8]>) {
        let name = format!("{stem}.{REPEATED}");
        // The file only informs people: without it the limits still hold.
        let _ = self.in_folder(|folder| match text {
            None => folder.remove(&name),
            Some(text) => {
                let draft = format!("{name}.part");
                folder.create(&draft).and_then(|mut file| file.write_all(text))?;
                folder.rename(&draft, &name)
            }
        });
    }

    /// The repetition of a job, as its runner wrote it.
    pub(crate) fn repeated(&self, stem: &str) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        let file = File::open(self.path(stem, REPEATED)).ok()?;
        file.take(REPEATED_LENGTH_MAX).read_to_end(&mut text).ok()?;
        Some(text)
    }

    /// Delete a job's files. The next runner deletes those that cannot be deleted now.
    pub(crate) fn forget(&self, stem: &str) {
        // Failure is harmless: the next runner tries again.
        let _ = self.in_folder(|folder| {
            for suffix in SUFFIXES {
                let _ = folder.remove(format!("{stem}.{suffix}"));
            }
            Ok(())
        });
    }

    /// Delete empty folders.
    pub(crate) fn tidy_up(&self) {
        // They are not empty if a file could not be deleted, or if another run uses them.
        if fs::remove_dir(&self.folder).is_ok()
            && let Some(parent) = self.folder.parent()
        {
            let _ = fs::remove_dir(parent);
        }
    }

    /// Whether a job of an earlier process is still at work: it has its lock and no record.
    pub(crate) fn is_at_work(&self, stem: &str) -> bool {
        let file = OpenOptions::new().write(true).open(self.path(stem, "err"));
        let is_locked =
            file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
        is_locked && self.record(stem).is_none()
    }

    /// The process that the runner of a job started, usually its supervisor, if job and process are alive.
    /// Without it, the job has no limits and no end that is recorded.
    pub(crate) fn process_at_work(&self, stem: &str) -> Option<u32> {
        let process = self.noted_process(stem).filter(|_| self.is_at_work(stem))?;
        let job = orphans::job_of_living(process)?;
        // After a move of the ledger, the job writes its receipt to the old place.
        let folder = job.path.parent().and_then(|folder| folder.canonicalize().ok())?;
        let is_here = self.folder.canonicalize().is_ok_and(|own| own == folder);
        (is_here && job.stem().is_some_and(|it| it == stem)).then_some(process)
    }

    /// Whether a job is at work and the process that its runner started is gone.
    pub(crate) fn is_at_work_alone(&self, stem: &str) -> bool {
        self.noted_process(stem).is_some()
            && self.is_at_work(stem)
            && self.process_at_work(stem).is_none()
    }

    /// The process id of a job, as its runner noted it.
    pub(crate) fn noted_process(&self, stem: &str) -> Option<u32> {
        // A cut name may end within a character.
        let note = fs::read(self.path(stem, "pid")).ok()?;
        String::from_utf8_lossy(&note).split(' ').next()?.parse().ok()
    }

    /// Kill every process of an earlier runner's jobs, except those with these stems. Their files stay.
    ///
    /// The lock reveals processes that keep it; a process that released it and left the group of
    /// its job is found only by its environment.
    pub(crate) fn confirm_dead(&self, kept: &BTreeSet<String>) -> Result<LeftJobs> {
        let paths = self.files()?;
        let stem = |path: &PathBuf| Some(path.file_stem()?.to_string_lossy().into_owned());
        let is_kept = |path: &PathBuf| stem(path).is_some_and(|stem| kept.contains(&stem));
        let with = |suffix: &str| {
            let suffix = suffix.to_owned();
            let of_jobs = paths.iter().filter(|path| !is_kept(path));
            of_jobs.filter(move |path| path.extension().is_some_and(|it| *it == *suffix))
        };
        // Killing the processes of a job would let its supervisor record a signal: read the records
        // first.
        let records = with(RECORD).filter_map(|path| Some((stem(path)?, ExitRecord::read(path)?)));
        let records = records.collect();
        let stems = with("err").filter_map(stem).collect();
        let is_ours = self.contains();
        let is_kept = |job: &JobName| job.stem().is_some_and(|stem| kept.contains(&stem));
        let orphans = orphans::end(|job| is_ours(job) && !is_kept(job), None);
        with("err").try_for_each(|path| self.end_holder(path, DEATH_WAIT))?;
        match orphans.iter().find(|orphan| orphan.is_alive()) {
            Some(alive) => {
                Err(cannot_end(&self.folder, "an attempt or a check", &alive.describe()))
            }
            None => Ok(LeftJobs { orphans, records, stems }),
        }
    }

    /// Kill every process of one job of an earlier process. Returns the killed processes, and the
    /// record of the job if it had ended by itself.
    pub(crate) fn confirm_job_dead(&self, stem: &str) -> Result<(Vec<Orphan>, Option<ExitRecord>)> {
        // As above: the record first.
        let record = self.record(stem);
        let orphans = self.end_job(stem, None);
        let errors = self.path(stem, "err");
        if errors.exists() {
            self.end_holder(&errors, DEATH_WAIT)?;
        }
        match orphans.iter().find(|orphan| orphan.is_alive()) {
            Some(alive) => Err(cannot_end(&self.folder, "an attempt", &alive.describe())),
            None => Ok((orphans, record)),
        }
    }

    /// Delete the files of all jobs, except those with these stems. None of the others may be alive, and
    /// none may have a result that is not recorded.
    pub(crate) fn forget_all(&self, kept: &BTreeSet<String>) -> Result<()> {
        // A record that is not complete has two suffixes.
        let is_kept = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.split('.').next().is_some_and(|stem| kept.contains(stem))
        };
        for path in self.files()?.iter().filter(|path| path.is_file() && !is_kept(path)) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let removed = self.in_folder(|folder| folder.remove(&*name));
            removed.map_err(|error| Error::io("remove a worker's file", path, error))?;
        }
        Ok(())
    }

    fn files(&self) -> Result<Vec<PathBuf>> {
        expect_no_link(&self.folder)?;
        let failed = |error| Error::io("list the workers' folder", &self.folder, error);
        match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            entries => entries
                .map_err(failed)?
                .map(|entry| entry.map(|entry| entry.path()).map_err(failed))
                .collect(),
        }
    }

    /// End the processes that keep the lock of an error file.
    fn end_holder(&self, errors: &Path, patience: Duration) -> Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .open(errors)
            .map_err(|error| Error::io("open a worker's error file", errors, error))?;
        let give_up = Instant::now() + patience;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    return Err(Error::io("lock a worker's error file", errors, error));
                }
            }
            let stem = errors.file_stem().unwrap_or_default().to_string_lossy();
            // A cut name may end within a character.
            let note = fs::read(self.path(&stem, "pid")).unwrap_or_default();
            let note = String::from_utf8_lossy(&note);
            if Instant::now() >= give_up {
                return Err(still_alive(errors, &note));
            }
            self.end_job(&stem, None);
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// The standard streams of a job.
pub(crate) struct JobFiles {
    pub(crate) input: File,
    pub(crate) output: File,
    pub(crate) errors: File,
}

fn still_alive(errors: &Path, note: &str) -> Error {
    let (pid, name) = note.trim().split_once(' ').unwrap_or(("unknown", "an attempt"));
    cannot_end(errors, name, &format!("process {pid}"))
}

fn cannot_end(at: &Path, name: &str, process: &str) -> Error {
    let message = format!(
        "{name}: its worker ({process}), which an earlier runner started, is still alive and \
         cannot be ended from here; end it and run again"
    );
    Error::new(ErrorKind::Locked, message).at_path(at)
}

#[cfg(test)]
mod tests {
    //! Goal: an orphan is found by its lock and ended by its environment; no other process is
    //! ended.

    use super::*;
    use std::process::{Command, Stdio};

    fn scratch() -> (tempfile::TempDir, Scratch) {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(folder.path().join("run-1"));
        (folder, scratch)
    }

    #[test]
    fn empty_or_missing_folder_has_no_orphans() {
        let (_folder, scratch) = scratch();
        scratch.confirm_dead(&BTreeSet::new()).unwrap();
        scratch.create("7", b"{}").unwrap();
        assert!(scratch.confirm_dead(&BTreeSet::new()).unwrap().stems.contains("7"));
        assert!(scratch.path("7", "in").exists());
        scratch.forget_all(&BTreeSet::new()).unwrap();
        assert!(!scratch.path("7", "in").exists());
    }

    #[test]
    fn orphan_that_names_its_job_is_ended() {
        let (_folder, scratch) = scratch();
        let files = scratch.create("7", b"").unwrap();
        let mut child = Command::new("sleep")
            .arg("600")
            .env(orphans::JOB_VARIABLE, scratch.work_name("7"))
            .stderr(files.errors)
            .spawn()
            .unwrap();
        // No `.pid` file: the runner was killed right after the start.
        scratch.confirm_dead(&BTreeSet::new()).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }

    #[test]
    fn unrelated_lock_holder_is_named_and_not_ended() {
        let (_folder, scratch) = scratch();
        let files = scratch.create("7", b"").unwrap();
        let mut child = Command::new("sleep")
            .arg("600")
            .stdout(Stdio::null())
            .stderr(files.errors)
            .spawn()
            .unwrap();
        scratch.note_process("7", child.id(), "step 37 (build)").unwrap();
        let path = scratch.path("7", "err");
        let error = scratch.end_holder(&path, Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        let message = error.to_string();
        assert!(message.contains("step 37 (build)"), "{message}");
        assert!(message.contains(&child.id().to_string()), "{message}");
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
