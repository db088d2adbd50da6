//! Claims of processes that are gone: their steps are free at once, and not when the lease expires.
//!
//! The dispatch names the process of the worker (`requests/bound_to.rs`). For each attempt `ledger work`
//! also keeps a record, `TOKEN.claim` in `work/claims` of the ledger, and holds its lock: it leaves a
//! worker and its result, and the record says where they are.
//!
//! Invariants:
//! - A claim is dead only if its process is gone in the same boot and the same namespace of processes, or
//!   if the lock of its record is free.
//! - Before a dead claim is released, the processes that its worker left are killed, and a result that it
//!   left is recorded.
//! - Of the files that a record names, only those of the attempt are deleted.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use plan_ledger::plan::Token;
use plan_ledger::{AttemptToken, ErrorKind, Ledger, LostCause, Result, RunId, State, StepNumber};
use plan_ledger_views::{GoneClaim, RepeatingAttempt};

use crate::protocol::private_files;
use crate::protocol::{CLAIM_EXTENSION, claim_record, claims_folder, gone_attempts, gone_text};
use crate::runner::external_worker::{LeftResult, forget_external, left_result};
use crate::runner::own_folder::{create_own_folder, expect_no_link, share};
use crate::runner::process::{repeated_by, scratch_folder, unusable};
use crate::runner::progress::{Observer, Progress};

/// The process that works on a claimed step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Claim {
    process: u32,
    /// The folder of the attempt's files.
    files: PathBuf,
    /// The task, as the claim answered it.
    task: Value,
}

/// The record of a claim of this process. If the process ends without removing it, the claim is dead.
#[derive(Debug)]
pub(crate) struct KeptClaim {
    path: PathBuf,
    _lock: File,
}

impl KeptClaim {
    /// Keep a record that this process works on a task, with its files in that folder.
    pub(crate) fn keep(ledger: &Path, task: &Value, files: &Path) -> io::Result<Self> {
        let claim =
            Claim { process: std::process::id(), files: files.to_owned(), task: task.clone() };
        let (path, lock) = claim.write(ledger)?;
        Ok(Self { path, _lock: lock })
    }

    /// Remove the record: the attempt is over, and its end is recorded.
    pub(crate) fn remove(self) {
        // A record that stays counts as dead, and its attempt is over.
        let _ = fs::remove_file(&self.path);
    }
}

impl Claim {
    fn token(&self) -> Option<Token> {
        self.task.get("token").and_then(Value::as_str)?.parse().ok()
    }

    fn write(&self, ledger: &Path) -> io::Result<(PathBuf, File)> {
        let folder = claims_folder(ledger);
        create_own_folder(&folder).map_err(io::Error::other)?;
        let token = self.token().ok_or(io::ErrorKind::InvalidInput)?.seq;
        let path = claim_record(ledger, token);
        let draft = folder.join(format!("{token}.{}.part", std::process::id()));
        // A draft is left where a process of the same number was killed, long ago.
        let _ = fs::remove_file(&draft);
        let mut file = private_files::create_new(&draft)?;
        share(&file, &folder)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        // Lock it before it gets its name: a record without a lock belongs to a dead process.
        file.lock()?;
        fs::rename(&draft, &path)?;
        Ok((path, file))
    }
}

/// Whether the process that holds the lock of a record has ended.
fn is_free(record: &File) -> bool {
    match record.try_lock_shared() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    }
}

/// The claims in flight whose processes are gone.
pub(crate) fn gone_claims(ledger: &Path, state: &State) -> Vec<GoneClaim> {
    let recorded = DeadClaim::all(ledger).into_iter();
    let recorded =
        recorded.map(|dead| GoneClaim { token: dead.token.seq, process: dead.claim.process });
    let mut all: Vec<GoneClaim> = recorded.collect();
    for attempt in gone_attempts(state) {
        let (token, process) = (attempt.token, attempt.process.as_ref());
        if let Some(process) = process.filter(|_| !all.iter().any(|it| it.token == token)) {
            all.push(GoneClaim { token, process: process.pid });
        }
    }
    all
}

/// The claim of a `ledger work` that has ended.
#[derive(Debug)]
pub(crate) struct DeadClaim {
    pub(crate) token: Token,
    claim: Claim,
    path: PathBuf,
}

impl DeadClaim {
    /// The dead claims of a ledger that have records.
    pub(crate) fn all(ledger: &Path) -> Vec<Self> {
        if plan_ledger::mutant!(DeadClaimsKept) {
            return Vec::new();
        }
        let folder = claims_folder(ledger);
        if expect_no_link(&folder).is_err() {
            return Vec::new();
        }
        let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let records = paths.filter(|path| path.extension().is_some_and(|it| it == CLAIM_EXTENSION));
        records.filter_map(Self::of).collect()
    }

    fn of(path: PathBuf) -> Option<Self> {
        let file = OpenOptions::new().read(true).open(&path).ok()?;
        let claim: Claim = serde_json::from_reader(io::BufReader::new(&file)).ok()?;
        let token = claim.token()?;
        is_free(&file).then_some(Self { token, claim, path })
    }

    /// Why the attempt is over, for people.
    pub(crate) fn reason(&self, left: &LeftResult) -> String {
        let note = left.note.as_ref().map(|note| format!("; it {note}")).unwrap_or_default();
        format!("{}{note}", gone_text(self.claim.process))
    }

    /// End the processes that its worker left, and read its result.
    pub(crate) fn end(&self, ledger: &Path) -> Result<LeftResult> {
        left_result(ledger, &self.claim.files, &self.claim.task)
    }

    /// Record the result that the claim left, as the process that has the ledger's lock, and forget the claim. Returns
    /// a note for people, unless the attempt was already over.
    pub(crate) fn release(&self, left: LeftResult, ledger: &Ledger) -> Result<Option<String>> {
        let token = self.token.seq;
        let reason = self.reason(&left);
        let recorded = match left.receipt {
            Some(receipt) => match ledger.record_hosted_receipt(token, receipt.clone()) {
                Err(error) if error.kind() == ErrorKind::TooLarge => {
                    let receipt = unusable(error.to_string(), &receipt);
                    ledger.record_hosted_receipt(token, receipt).map(drop)
                }
                recorded => recorded.map(drop),
            },
            None => ledger.report_lost(token, LostCause::RunnerDied, &reason).map(drop),
        };
        let note = match recorded {
            Err(error) if error.rejection().is_some() => None,
            Err(error) => return Err(error),
            Ok(()) => Some(format!("attempt {token} is released: {reason}")),
        };
        self.forget();
        Ok(note)
    }

    /// Delete the record, and the files of the attempt. Its end is recorded.
    pub(crate) fn forget(&self) {
        forget_external(&self.claim.files, self.token.seq);
        // It may have other attempts.
        let _ = fs::remove_dir(&self.claim.files);
        let _ = fs::remove_file(&self.path);
    }
}

/// Record the results that dead claims of a ledger left, and release them, as the process that has its lock.
pub(crate) fn release_dead_claims(
    ledger: &Ledger,
    dir: &Path,
    observer: &mut dyn Observer,
) -> Result<()> {
    for dead in DeadClaim::all(dir) {
        let note = match dead.end(dir) {
            Ok(left) => dead.release(left, ledger)?,
            // Its processes may still be ending: the loop checks again.
            Err(error) => Some(format!("attempt {} is not released: {error}", dead.token.seq)),
        };
        if let Some(note) = note {
            observer.progress(&Progress::Noted { step: None, note });
        }
    }
    for note in release_gone(ledger, dir)? {
        observer.progress(&Progress::Noted { step: None, note });
    }
    Ok(())
}

/// Record attempts of dead processes without a result as lost. Returns notes for people.
fn release_gone(ledger: &Ledger, dir: &Path) -> Result<Vec<String>> {
    let gone = ledger.read(|state| {
        let gone = gone_attempts(state);
        let gone = gone.filter_map(|attempt| Some((attempt.token, attempt.process.as_ref()?.pid)));
        gone.collect::<Vec<_>>()
    });
    let mut notes = Vec::new();
    for (token, process) in gone.wait()? {
        // The claims of `ledger work` are checked first.
        if claim_record(dir, token).exists() {
            continue;
        }
        let reason = gone_text(process);
        match ledger.report_lost(token, LostCause::RunnerDied, &reason) {
            Err(error) if error.rejection().is_some() => {}
            Err(error) => return Err(error),
            Ok(_) => notes.push(format!("attempt {token} is released: {reason}")),
        }
    }
    Ok(notes)
}

/// The claims of workers on this machine, at one moment.
#[derive(Debug, Default)]
pub(crate) struct ClaimsLook {
    /// When a claim was last added or removed.
    changed: Option<SystemTime>,
    tasks: BTreeMap<OsString, Value>,
}

impl ClaimsLook {
    /// Reads the claims of a ledger.
    pub(crate) fn at(ledger: &Path) -> Self {
        let folder = claims_folder(ledger);
        if expect_no_link(&folder).is_err() {
            return Self::default();
        }
        // The time is read first: a later change shows at the next check.
        let changed = fs::metadata(&folder).and_then(|it| it.modified()).ok();
        let entries =
            fs::read_dir(&folder).into_iter().flatten().filter_map(std::result::Result::ok);
        let tasks = entries.filter_map(|entry| {
            let path = entry.path();
            let is_claim = path.extension().is_some_and(|it| it == CLAIM_EXTENSION);
            let file = File::open(&path).ok().filter(|_| is_claim)?;
            let claim: Claim = serde_json::from_reader(io::BufReader::new(file)).ok()?;
            Some((entry.file_name(), claim.task))
        });
        Self { changed, tasks: tasks.collect() }
    }

    pub(crate) fn tasks(&self) -> impl Iterator<Item = &Value> {
        self.tasks.values()
    }

    /// Whether a claim may have come and gone since an earlier check: the claims changed, but not the visible ones.
    pub(crate) fn missed_any_since(&self, earlier: &Self) -> bool {
        let is_first = earlier.changed.is_none();
        !is_first && self.changed != earlier.changed && self.tasks.keys().eq(earlier.tasks.keys())
    }
}

/// The folder with the files of a claimed attempt, while a worker on this machine has it.
pub(crate) fn claimed_files(ledger: &Path, token: AttemptToken) -> Option<PathBuf> {
    let folder = claims_folder(ledger);
    expect_no_link(&folder).ok()?;
    let record = File::open(claim_record(ledger, token)).ok()?;
    let claim: Claim = serde_json::from_reader(io::BufReader::new(record)).ok()?;
    Some(claim.files)
}

/// The attempts in flight of a run with repeated output, as their runner noted it.
pub(crate) fn repeating_attempts(
    ledger: &Path,
    state: &State,
    run: RunId,
) -> Vec<RepeatingAttempt> {
    let of_attempt = |(token, (of, step)): (&AttemptToken, &(RunId, StepNumber))| {
        let (token, step) = (*token, *step);
        let claimed = || repeated_by(claimed_files(ledger, token)?, token);
        let repeat = repeated_by(scratch_folder(ledger, *of), token).or_else(claimed)?;
        Some(RepeatingAttempt { run, step, token, repeat })
    };
    state.in_flight.iter().filter(|(_, (of, _))| *of == run).filter_map(of_attempt).collect()
}

/// Take over the claims of dead processes. The caller has the lock of the ledger. Returns notes for
/// people.
///
/// # Errors
/// The ledger cannot be written.
pub(crate) fn take_over_dead_claims(ledger: &Ledger, dir: &Path) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for dead in DeadClaim::all(dir) {
        // Its processes may still be ending: the next check finds them.
        let Ok(left) = dead.end(dir) else { continue };
        notes.extend(dead.release(left, ledger)?);
    }
    notes.extend(release_gone(ledger, dir)?);
    Ok(notes)
}

#[cfg(test)]
mod tests {
    //! Goal: a claim is dead only after its process has ended.

    use super::*;
    use serde_json::json;

    fn task(seq: u64) -> Value {
        json!({ "token": format!("{seq}-{}", "9f".repeat(16)) })
    }

    #[test]
    fn claim_is_dead_when_its_lock_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let dead = || DeadClaim::all(folder.path()).len();
        assert_eq!(dead(), 0);
        let kept = KeptClaim::keep(folder.path(), &task(7), folder.path()).unwrap();
        assert_eq!(dead(), 0);
        // The kernel releases the lock of a process that is killed.
        drop(kept);
        assert_eq!(dead(), 1);
        assert_eq!(DeadClaim::all(folder.path())[0].token.seq.0, 7);
        KeptClaim::keep(folder.path(), &task(7), folder.path()).unwrap().remove();
        assert_eq!(dead(), 0);
    }
}
