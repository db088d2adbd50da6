//! Limits of a job: its time, its output, its time without output, and its time without progress.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use plan_ledger::FailureClass;

use crate::runner::process::scratch::Scratch;

/// The output limit of a stream in bytes; a job that exceeds it is ended.
pub(crate) const STREAM_LENGTH_MAX: u64 = 1 << 30;

/// How often the files of a step are examined for changes.
const EXAMINE_INTERVAL: Duration = Duration::from_millis(500);

/// The maximum number of files that are examined for changes.
const EXAMINED_MAX: usize = 10_000;

/// How long a worker may take to end after it was asked to, by default.
const GRACE: Duration = Duration::from_secs(10);

/// The limits of workers that are processes, beyond those in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerLimits {
    /// How long a worker may write nothing, in seconds.
    pub silent_seconds: Option<u32>,
    /// How long the files of a worker's step may stay the same, in seconds.
    pub stalled_seconds: Option<u32>,
    /// How long a worker may take to end after SIGTERM, before it gets SIGKILL.
    pub grace: Duration,
}

impl Default for WorkerLimits {
    fn default() -> Self {
        Self { silent_seconds: None, stalled_seconds: None, grace: GRACE }
    }
}

/// The limits of a job.
#[derive(Debug, Clone)]
pub(crate) struct JobLimits {
    /// How long it may run.
    pub(crate) timeout_seconds: Option<u32>,
    /// The output limit of each stream in bytes.
    pub(crate) stream_length_max: u64,
    pub(crate) worker: WorkerLimits,
    /// The files whose changes are progress. Without any, progress is not checked.
    pub(crate) progress: Vec<String>,
}

impl JobLimits {
    /// The limits of a check, or of a judge or planner.
    pub(crate) fn of_check(timeout_seconds: Option<u32>) -> Self {
        let worker = WorkerLimits { grace: Duration::ZERO, ..WorkerLimits::default() };
        Self { timeout_seconds, stream_length_max: STREAM_LENGTH_MAX, worker, progress: Vec::new() }
    }

    /// The limits of a worker whose step changes these files. A pattern among them matches files that
    /// do not exist yet, so they do not show the progress.
    pub(crate) fn of_worker(
        timeout_seconds: Option<u32>,
        worker: WorkerLimits,
        changes: &[String],
    ) -> Self {
        let is_pattern = changes.iter().any(|path| path.contains('*'));
        let progress = if is_pattern { Vec::new() } else { changes.to_vec() };
        Self { timeout_seconds, stream_length_max: STREAM_LENGTH_MAX, worker, progress }
    }
}

/// The reason why the runner ended a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndedBy {
    /// It ran longer than its limit in seconds.
    Timeout(u32),
    /// It wrote nothing for this many seconds.
    Silent(u32),
    /// It changed no file of its step for this many seconds.
    Stalled(u32),
    /// It wrote more than its limit in bytes.
    Length(u64),
    /// The runner was asked to stop.
    Stop,
    /// Its attempt is over: another worker may have the step.
    Over,
}

impl EndedBy {
    /// The human-readable reason.
    pub(crate) fn message(self) -> String {
        match self {
            Self::Timeout(seconds) => format!("timed out after {seconds} s"),
            Self::Silent(seconds) => format!("stopped: no output for {seconds} s"),
            Self::Stalled(seconds) => {
                format!("stopped: no progress for {seconds} s: no file of the step has changed")
            }
            Self::Length(most) => format!(
                "wrote more than {most} bytes to its standard output or error, and was stopped; \
                 write it to a file and name that as an artifact"
            ),
            Self::Stop | Self::Over => "ended by request".to_owned(),
        }
    }

    /// Whether another attempt may succeed.
    pub(crate) fn class(self) -> FailureClass {
        match self {
            Self::Length(_) => FailureClass::Deterministic,
            Self::Timeout(_) | Self::Silent(_) | Self::Stalled(_) | Self::Stop | Self::Over => {
                FailureClass::Transient
            }
        }
    }

    /// Whether there is no result to report: the end was a request, not a limit.
    pub(crate) fn is_request(self) -> bool {
        matches!(self, Self::Stop | Self::Over)
    }
}

/// Watches whether a job exceeds its limits.
pub(crate) struct LimitWatch {
    limits: JobLimits,
    /// The files of its streams.
    written: [PathBuf; 2],
    /// The length of its output, and since when it has not changed.
    output: Unchanged<u64>,
    /// The newest change of its files, and since when there was no other.
    files: Unchanged<Option<SystemTime>>,
    /// When to examine the files next.
    examine_at: Instant,
}

/// A value, and since when it has not changed.
struct Unchanged<T> {
    value: T,
    since: Instant,
}

impl<T: PartialEq> Unchanged<T> {
    /// Compare with the present value. Returns how long the value has not changed.
    fn update(&mut self, value: T, now: Instant) -> Duration {
        if self.value != value {
            *self = Self { value, since: now };
        }
        now.saturating_duration_since(self.since)
    }
}

impl LimitWatch {
    /// Watch a job that starts now.
    pub(crate) fn new(limits: JobLimits, scratch: &Scratch, stem: &str) -> Self {
        let now = Instant::now();
        let newest = newest_change(&limits.progress);
        Self {
            limits,
            written: ["out", "err"].map(|suffix| scratch.path(stem, suffix)),
            output: Unchanged { value: 0, since: now },
            files: Unchanged { value: newest, since: now },
            examine_at: now,
        }
    }

    /// How long the job may take to end after it was asked to.
    pub(crate) fn grace(&self) -> Duration {
        self.limits.worker.grace
    }

    /// The limit that the job exceeds, if any.
    pub(crate) fn exceeded(&mut self, started: Instant) -> Option<EndedBy> {
        let now = Instant::now();
        let is_over =
            |seconds: u32, passed: Duration| passed >= Duration::from_secs(seconds.into());
        let JobLimits { timeout_seconds, stream_length_max, worker, .. } = self.limits;
        let ran = now.saturating_duration_since(started);
        if let Some(seconds) = timeout_seconds.filter(|seconds| is_over(*seconds, ran)) {
            return Some(EndedBy::Timeout(seconds));
        }
        let lengths = self.written.each_ref().map(|path| length(path));
        if lengths.iter().any(|length| *length > stream_length_max) {
            return Some(EndedBy::Length(stream_length_max));
        }
        let silent = self.output.update(lengths.iter().sum(), now);
        if let Some(seconds) = worker.silent_seconds.filter(|seconds| is_over(*seconds, silent)) {
            return Some(EndedBy::Silent(seconds));
        }
        let stalled = worker.stalled_seconds.filter(|_| !self.limits.progress.is_empty())?;
        if now < self.examine_at {
            return None;
        }
        self.examine_at = now + EXAMINE_INTERVAL;
        let unchanged = self.files.update(newest_change(&self.limits.progress), now);
        is_over(stalled, unchanged).then_some(EndedBy::Stalled(stalled))
    }
}

fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |file| file.len())
}

/// The newest change of these files, and of everything in these folders.
fn newest_change(changes: &[String]) -> Option<SystemTime> {
    let mut left: Vec<PathBuf> = changes.iter().map(PathBuf::from).collect();
    let (mut newest, mut examined) = (None, 0);
    while let Some(path) = left.pop()
        && examined < EXAMINED_MAX
    {
        examined += 1;
        // A link may lead out of the folder.
        let Ok(found) = path.symlink_metadata() else { continue };
        newest = newest.max(found.modified().ok());
        if found.is_dir()
            && let Ok(entries) = path.read_dir()
        {
            left.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
        }
    }
    newest
}
