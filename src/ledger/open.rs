//! Creates and opens a ledger: recovery of the log, the fold of the state, and a report of both.

use std::fmt;
use std::path::Path;

use crate::error::Result;
use crate::log::{self, ClockContinuation, ErasedFiles, Log, LogReader, TailVerdict, hold_folder};
use crate::plan::State;
use crate::storage::FilesystemKind;

use super::environment::{Environment, behind_text};
use super::snapshot::prefetch::Prefetch;
use super::snapshot::scheduler::SnapshotScheduler;
use super::snapshot::store::{self, Projected};
use super::transaction::engine::Engine;

/// The result of opening a ledger, for people and programs.
#[derive(Debug, Clone)]
pub struct OpenReport {
    /// The ledger was created by this call.
    pub created: bool,
    /// The end of the log: `clean`, `unacknowledged_tail`, `torn` or `ambiguous_forced`.
    pub verdict: String,
    /// Messages for a person, one line each; empty after a clean close.
    pub notes: Vec<String>,
    /// Sequence number of the last record.
    pub last_seq: u64,
    /// The record of the snapshot from which the state was folded; `None` if the fold began at the
    /// start.
    pub from_snapshot: Option<u64>,
    /// The files that were changed to complete an erasure, or why it cannot be completed.
    #[doc(hidden)]
    pub erased: std::result::Result<ErasedFiles, String>,
}

/// Create a ledger in a folder that does not exist yet, or has no files.
///
/// # Errors
/// As [`super::Ledger::create`].
pub(crate) fn create(dir: &Path, environment: &Environment) -> Result<(Engine, OpenReport)> {
    let time = environment.clock.now();
    let log = Log::create(dir, environment.log_options(), time)?;
    let environment = &environment.with_storage(log.storage());
    let engine = engine(log, environment, |reader| store::project_newest(reader, None))?.0;
    let filesystem = environment.storage.filesystem_kind(dir).unwrap_or(FilesystemKind::Local);
    Ok((engine, OpenReport::created(filesystem)))
}

/// Open a ledger, and recover it if necessary.
///
/// # Errors
/// As [`super::Ledger::open`].
pub(crate) fn open(dir: &Path, environment: &Environment) -> Result<(Engine, OpenReport)> {
    let time = environment.clock.now();
    let environment = &environment.with_storage(&hold_folder(&environment.storage, dir)?);
    let prefetch = Prefetch::start(dir, environment);
    let (log, report) = Log::open(dir, environment.log_options(), time)?;
    let mut report = OpenReport::opened(&report, log.last_durable().seq);
    // A snapshot that was read before it was removed may hold an erased value.
    let is_erased = report.erased.as_ref().map_or(true, |erased| erased.is_resumed);
    let newest = prefetch.wait().filter(|_| !is_erased || mutant!(SnapshotSurvivesErase));
    let (engine, from_snapshot) =
        engine(log, environment, |reader| store::project_newest(reader, newest))?;
    report.from_snapshot = from_snapshot;
    report.notes.extend(engine.warnings());
    Ok((engine, report))
}

/// The state of a ledger that another process writes, folded as far as a folder has its log. With it, the ledger is
/// opened without a fold of its history.
#[derive(Debug)]
pub struct FollowedState(Projected<State>);

impl FollowedState {
    /// The state after the last durable record of a log.
    ///
    /// # Errors
    /// `Corrupt` with the place of damage; `Unsupported`; `Io`.
    pub fn of(reader: &LogReader) -> Result<Self> {
        store::project_newest(reader, None).map(Self)
    }

    /// The state after the last durable record, which may be a later one now.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn follow(self, reader: &LogReader) -> Result<Self> {
        store::continue_to_newest(reader, self.0).map(Self)
    }

    /// The last record that was folded in.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.0.seq
    }
}

/// The ledger of a log that is open already. `followed` is its state up to a record, if that is known.
pub(crate) fn of_log(
    log: Log,
    recovery: &log::RecoveryReport,
    environment: &Environment,
    followed: Option<FollowedState>,
) -> Result<(Engine, OpenReport)> {
    let mut report = OpenReport::opened(recovery, log.last_durable().seq);
    let (engine, from_snapshot) = engine(log, environment, |reader| match followed {
        Some(FollowedState(projected)) => store::continue_to_newest(reader, projected),
        None => store::project_newest(reader, None),
    })?;
    report.from_snapshot = from_snapshot;
    report.notes.extend(engine.warnings());
    Ok((engine, report))
}

/// Open the ledger in a folder, or create one if the folder does not exist or is empty.
///
/// # Errors
/// As [`create`] and [`open`].
pub(crate) fn open_or_create(
    dir: &Path,
    environment: &Environment,
) -> Result<(Engine, OpenReport)> {
    if !is_free(dir, environment) {
        return open(dir, environment);
    }
    match create(dir, environment) {
        Ok(created) => Ok(created),
        // Another process created it in the meantime, and may have it locked.
        Err(_) if !is_free(dir, environment) => open(dir, environment),
        Err(error) => Err(error),
    }
}

/// Whether a ledger can be created here.
fn is_free(dir: &Path, environment: &Environment) -> bool {
    log::is_free(&*environment.storage, dir)
}

/// The engine on a log, and the record of the snapshot from which the state was folded.
fn engine(
    log: Log,
    environment: &Environment,
    project: impl FnOnce(&LogReader) -> Result<Projected<State>>,
) -> Result<(Engine, Option<u64>)> {
    let reader = log.reader()?;
    let projected = project(&reader)?;
    let scheduler = SnapshotScheduler::new(environment, reader.dir(), projected.from.unwrap_or(0));
    scheduler.warn_all(&projected.ignored);
    Ok((Engine::new(log, environment, scheduler, projected.value), projected.from))
}

impl OpenReport {
    fn created(filesystem: FilesystemKind) -> Self {
        let notes = warning(filesystem).into_iter().collect();
        Self {
            created: true,
            verdict: "clean".to_owned(),
            notes,
            last_seq: 0,
            from_snapshot: None,
            erased: Ok(ErasedFiles::default()),
        }
    }

    fn opened(report: &log::RecoveryReport, last_seq: u64) -> Self {
        let mut notes: Vec<String> = warning(report.filesystem).into_iter().collect();
        let is_forced = report.verdict == TailVerdict::Ambiguous;
        if is_forced {
            notes.push(
                "acknowledged records may be missing at the end of the log; the intact ones were \
                 recovered, as requested"
                    .to_owned(),
            );
        }
        if let Some(survivors) = report.survivors.filter(|_| !is_forced) {
            notes.push(format!(
                "the last process was interrupted during a commit: records {} to {} were complete \
                 and were recovered",
                survivors.first, survivors.last
            ));
        }
        for range in &report.discarded {
            let what = if is_forced {
                "that are not a complete record"
            } else {
                "of an unfinished, unacknowledged write"
            };
            notes.push(format!(
                "{} bytes {what} were discarded (offset {}, blake3 {}); they stay in the file",
                range.length, range.offset, range.blake3
            ));
        }
        if !report.unknown_files.is_empty() {
            notes.push(format!(
                "unknown files in the folder `log`, ignored: {}",
                report.unknown_files.join(", ")
            ));
        }
        match &report.pruned {
            Ok(removal) if removal.segments.is_empty() => {}
            Ok(removal) => notes.push(format!(
                "an interrupted prune was finished: {} segments, {} bytes",
                removal.segments.len(),
                removal.bytes
            )),
            Err(why) => notes.push(format!("an interrupted prune cannot be finished: {why}")),
        }
        match &report.erased {
            Ok(erased) if !erased.is_resumed => {}
            Ok(erased) => notes.push(format!(
                "an erasure was completed: segments written again: {}, snapshots removed: {}, blobs \
                 removed: {}",
                erased.segments.len(),
                erased.snapshots.len(),
                erased.blobs.len()
            )),
            Err(why) => notes.push(format!("an erasure cannot be completed: {why}")),
        }
        if let ClockContinuation::Behind(behind) = report.clock {
            notes.extend(behind_text(behind));
        }
        let verdict = match report.verdict {
            TailVerdict::Clean => "clean",
            TailVerdict::Unacknowledged => "unacknowledged_tail",
            TailVerdict::Ambiguous => "ambiguous_forced",
            _ => "torn",
        };
        let (verdict, erased) = (verdict.to_owned(), report.erased.clone());
        Self { created: false, verdict, notes, last_seq, from_snapshot: None, erased }
    }
}

/// The warning about an unsuitable file system.
fn warning(filesystem: FilesystemKind) -> Option<String> {
    filesystem.warning().map(|why| format!("the ledger is on {why}"))
}

impl fmt::Display for OpenReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.created { "created" } else { "opened" };
        write!(f, "{verb} at record {} ({})", self.last_seq, self.verdict)?;
        self.notes.iter().try_for_each(|note| write!(f, "\n  {note}"))
    }
}
