//! Limits of a job: its time, its output, its time without output, its time without progress, and how often it may
//! print the same lines.
//!
//! Some agent hosts do not end at a usage limit, but wait in their process: their last output states the limit, and
//! they print nothing until it ends. Such silence does not mean that the worker hangs.

mod cycles;
mod line;
mod repeats;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use jiff::tz::TimeZone;

use plan_ledger::{FailureClass, Timestamp};
use plan_ledger_views::{InsideWait, Repeat};

use crate::runner::process::output::tail;
use crate::runner::process::scratch::Scratch;
use crate::runner::waits::limit::{LastOutput, Limit, LimitEnd};
use crate::runner::waits::wall_now;

pub(crate) use repeats::NOTED_TIMES;
use repeats::RepeatWatch;

/// The output limit of a stream in bytes; a job that exceeds it is ended.
pub(crate) const STREAM_LENGTH_MAX: u64 = 1 << 30;

/// How often the files of a step are examined for changes.
const EXAMINE_INTERVAL: Duration = Duration::from_millis(500);

/// The maximum number of files that are examined for changes.
const EXAMINED_MAX: usize = 10_000;

/// The number of repetitions after which the count is written again.
const REPEAT_WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// A usage limit is searched in this many bytes at the end of a stream.
pub(crate) const LAST_OUTPUT_LENGTH_MAX: u64 = 64 << 10;

/// A worker that states a limit without a time waits for it if it has printed nothing for this long.
const QUIET: Duration = Duration::from_secs(60);

/// While its owner is at a usage limit, a worker that has printed nothing for this long may also
/// wait for that limit.
const SILENT: Duration = Duration::from_secs(10 * 60);

/// How long a worker may take to end after it was asked to, by default.
const GRACE: Duration = Duration::from_secs(10);

/// The limits of workers that are processes, beyond those in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerLimits {
    /// How long a worker may write nothing, in seconds.
    pub silent_seconds: Option<u32>,
    /// How long the files of a worker's step may stay the same, in seconds.
    pub stalled_seconds: Option<u32>,
    /// How often in a row a worker may print the same lines, if its step does not say so.
    pub repeat_limit: Option<u32>,
    /// How long a worker may take to end after SIGTERM, before it gets SIGKILL.
    pub grace: Duration,
}

impl Default for WorkerLimits {
    fn default() -> Self {
        Self { silent_seconds: None, stalled_seconds: None, repeat_limit: None, grace: GRACE }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct JobLimits {
    /// How long it may run.
    pub(crate) timeout_seconds: Option<u32>,
    /// The output limit of each stream in bytes.
    pub(crate) stream_length_max: u64,
    pub(crate) worker: WorkerLimits,
    /// The files that count for progress. Without any, progress is not checked.
    pub(crate) progress: Vec<String>,
    /// Whether repeated output is noted.
    pub(crate) notes_repeats: bool,
}

/// The limits that a step sets for its workers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StepLimits<'a> {
    pub(crate) timeout_seconds: Option<u32>,
    pub(crate) repeat_limit: Option<u32>,
    /// The files that it changes.
    pub(crate) changes: &'a [String],
}

impl JobLimits {
    /// The limits of a check, or of a judge or planner.
    pub(crate) fn of_check(timeout_seconds: Option<u32>) -> Self {
        let worker = WorkerLimits { grace: Duration::ZERO, ..WorkerLimits::default() };
        Self {
            timeout_seconds,
            stream_length_max: STREAM_LENGTH_MAX,
            worker,
            progress: Vec::new(),
            notes_repeats: false,
        }
    }

    /// The limits of a worker. A pattern among the files that its step changes matches files that do not
    /// exist yet, so they do not show the progress.
    pub(crate) fn of_worker(step: StepLimits<'_>, worker: WorkerLimits) -> Self {
        let StepLimits { timeout_seconds, repeat_limit, changes } = step;
        let is_pattern = changes.iter().any(|path| path.contains('*'));
        let progress = if is_pattern { Vec::new() } else { changes.to_vec() };
        let repeat_limit = repeat_limit.or(worker.repeat_limit);
        Self {
            timeout_seconds,
            stream_length_max: STREAM_LENGTH_MAX,
            worker: WorkerLimits { repeat_limit, ..worker },
            progress,
            notes_repeats: true,
        }
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
    /// It printed the same lines over and over.
    Repeating {
        /// The number of different lines.
        lines: u64,
        /// How often in a row it might print them.
        limit: u32,
    },
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
            Self::Repeating { lines, limit } => {
                format!("stopped: printed {} {limit} times in a row", Repeat::what(lines))
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
            Self::Timeout(_)
            | Self::Silent(_)
            | Self::Stalled(_)
            | Self::Repeating { .. }
            | Self::Stop
            | Self::Over => FailureClass::Transient,
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
    /// The newest change of its files, and the time since which there was no other.
    files: Unchanged<Option<SystemTime>>,
    /// When to examine the files next.
    examine_at: Instant,
    /// The length of its output when its end was read, and the time until which it waits by that, for a limit.
    waits: Option<(u64, Option<Timestamp>)>,
    repeats: Option<RepeatWatch>,
    noted: Option<NotedRepeat>,
    /// Whether a repetition was reported.
    has_reported: bool,
}

/// A repetition that is written where other processes read it.
struct NotedRepeat {
    repeat: Repeat,
    written: Instant,
}

/// The action on a repetition.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RepeatNote {
    /// Write it where other processes read it, and report it if it is the first of the job.
    Write(Repeat, bool),
    /// It is over.
    Remove,
}

impl RepeatNote {
    /// Write it, or remove the written one. Returns the note for people.
    pub(crate) fn keep(self, scratch: &Scratch, stem: &str) -> Option<String> {
        match self {
            Self::Remove => {
                scratch.keep_repeated(stem, None);
                None
            }
            Self::Write(repeat, is_first) => {
                let text = serde_json::to_vec(&repeat).unwrap_or_default();
                scratch.keep_repeated(stem, Some(&text));
                is_first.then(|| format!("prints {repeat}"))
            }
        }
    }
}

/// The repetition of a job, as its runner wrote it.
pub(crate) fn repeat_of_job(scratch: &Scratch, stem: &str) -> Option<Repeat> {
    serde_json::from_slice(&scratch.repeated(stem)?).ok()
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
        let written = ["out", "err"].map(|suffix| scratch.path(stem, suffix));
        Self {
            repeats: limits.notes_repeats.then(|| RepeatWatch::new(written.clone())),
            noted: None,
            has_reported: false,
            limits,
            written,
            output: Unchanged { value: 0, since: now },
            files: Unchanged { value: newest, since: now },
            examine_at: now,
            waits: None,
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
        let length = lengths.iter().sum();
        let silent = self.output.update(length, now);
        if let Some(seconds) = worker.silent_seconds.filter(|seconds| is_over(*seconds, silent)) {
            return (!self.waits_for_limit(length, seconds)).then_some(EndedBy::Silent(seconds));
        }
        if let Some(repeats) = &mut self.repeats {
            repeats.look(lengths);
            let repeated = |limit: u32| Some((repeats.repeated(limit.into())?.lines, limit));
            if let Some((lines, limit)) = worker.repeat_limit.and_then(repeated) {
                return Some(EndedBy::Repeating { lines, limit });
            }
        }
        let stalled = worker.stalled_seconds.filter(|_| !self.limits.progress.is_empty())?;
        if now < self.examine_at {
            return None;
        }
        self.examine_at = now + EXAMINE_INTERVAL;
        let unchanged = self.files.update(newest_change(&self.limits.progress), now);
        let is_stalled = is_over(stalled, unchanged) && !self.waits_for_limit(length, stalled);
        is_stalled.then_some(EndedBy::Stalled(stalled))
    }

    /// Whether the job waits in its process for a limit with a known end, or did so until less than
    /// this many seconds ago.
    fn waits_for_limit(&mut self, length: u64, seconds: u32) -> bool {
        let until = match self.waits {
            Some((known, until)) if known == length => until,
            _ => {
                let stated = stated_limit(&self.written);
                let until = stated.and_then(|(_, limit)| end_of(&limit));
                self.waits = Some((length, until));
                until
            }
        };
        let more = u64::from(seconds).saturating_mul(1_000_000);
        until.is_some_and(|until| wall_now() < until.saturating_add(more))
    }
}

/// The wait of a job at work, by the files of its streams. `is_limited` says whether its owner is at a limit.
pub(crate) fn wait_of_job(written: &[PathBuf; 2], is_limited: bool) -> Option<InsideWait> {
    let now = wall_now();
    let silent = |since: Timestamp| Duration::from_micros(now.saturating_sub(since));
    if let Some((since, limit)) = stated_limit(written) {
        let until = end_of(&limit);
        let is_waiting = match (until, limit.ends) {
            (_, LimitEnd::Person) => false,
            (Some(until), _) => now < until,
            (None, _) => silent(since) >= QUIET,
        };
        let wait = InsideWait { since, until, said: Some(limit.sentence) };
        return is_waiting.then_some(wait);
    }
    let since = written.iter().filter_map(|path| written_at(path)).max()?;
    let wait = InsideWait { since, until: None, said: None };
    (is_limited && silent(since) >= SILENT).then_some(wait)
}

/// The limit that the last output states, and when it was printed.
fn stated_limit(written: &[PathBuf; 2]) -> Option<(Timestamp, Limit)> {
    let printed = written.iter().filter(|path| length(path) > 0);
    let (since, path) = printed.filter_map(|path| Some((written_at(path)?, path))).max()?;
    let printed = jiff::Timestamp::from_microsecond(i64::try_from(since).ok()?).ok()?;
    let (out, printed) = (tail(path, LAST_OUTPUT_LENGTH_MAX), printed.to_zoned(TimeZone::system()));
    let last = LastOutput { code: None, out: &out, err: "", printed: &printed };
    Some((since, last.limit()?))
}

fn end_of(limit: &Limit) -> Option<Timestamp> {
    match limit.ends {
        LimitEnd::At(time) | LimitEnd::After(time) => {
            Timestamp::try_from(time.as_microsecond()).ok()
        }
        LimitEnd::Later | LimitEnd::Person => None,
    }
}

/// When a file was written last, by the wall clock.
pub(crate) fn written_at(path: &Path) -> Option<Timestamp> {
    let time = jiff::Timestamp::try_from(path.metadata().ok()?.modified().ok()?).ok()?;
    Timestamp::try_from(time.as_microsecond()).ok()
}

impl LimitWatch {
    /// The action on lines that the job prints over and over, after each check of its limits.
    pub(crate) fn repeat_note(&mut self) -> Option<RepeatNote> {
        let repeat = self.repeated();
        let Some(repeat) = repeat else {
            return self.noted.take().map(|_| RepeatNote::Remove);
        };
        let is_written = self.noted.as_ref().is_some_and(|noted| {
            noted.repeat == repeat || noted.written.elapsed() < REPEAT_WRITE_INTERVAL
        });
        if is_written {
            return None;
        }
        self.noted = Some(NotedRepeat { repeat: repeat.clone(), written: Instant::now() });
        let is_first = !std::mem::replace(&mut self.has_reported, true);
        Some(RepeatNote::Write(repeat, is_first))
    }

    /// The lines that the job prints over and over, in the output that was read.
    pub(crate) fn repeated(&self) -> Option<Repeat> {
        self.repeats.as_ref()?.repeated(NOTED_TIMES)
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

#[cfg(test)]
mod tests {
    //! Goal: a worker waits for a limit if its last output states one, or if it is silent for long while its owner is
    //! at a limit; and its silence then counts from the end of the limit.

    use std::fs::{self, File};

    use super::*;

    const SAID: &str = "Attempt 1 failed: You have exhausted your capacity on this model. Your quota will \
                        reset after 4h28m20s.. Retrying after 16761506ms...";

    struct Streams {
        folder: tempfile::TempDir,
    }

    impl Streams {
        /// Streams that were written this many seconds ago.
        fn with(out: &str, err: &str, ago: u64) -> Self {
            let streams = Self { folder: tempfile::tempdir().unwrap() };
            for (path, text) in streams.paths().iter().zip([out, err]) {
                fs::write(path, text).unwrap();
                let file = File::options().write(true).open(path).unwrap();
                let now = file.metadata().unwrap().modified().unwrap();
                file.set_modified(now.checked_sub(Duration::from_secs(ago)).unwrap()).unwrap();
            }
            streams
        }

        fn paths(&self) -> [PathBuf; 2] {
            ["7.out", "7.err"].map(|name| self.folder.path().join(name))
        }

        fn wait(&self, is_limited: bool) -> Option<InsideWait> {
            wait_of_job(&self.paths(), is_limited)
        }
    }

    #[test]
    fn worker_that_states_a_limit_waits_until_its_end() {
        let wait = Streams::with("working\n", SAID, 3600).wait(false).unwrap();
        assert_eq!(wait.until.unwrap() - wait.since, 16_100_000_000);
        assert_eq!(Streams::with("", SAID, 5 * 3600).wait(false), None, "it is over");
        let untimed = "You have exhausted your daily quota on this model.";
        assert_eq!(Streams::with("", untimed, 5).wait(false), None, "it may print more");
        let wait = Streams::with("", untimed, 90).wait(false).unwrap();
        assert_eq!((wait.until, wait.said.as_deref()), (None, Some(untimed)));
        let went_on = format!("{SAID}\none\ntwo\nthree\n");
        assert_eq!(Streams::with("", &went_on, 90).wait(false), None);
        assert_eq!(Streams::with("", "Your org is out of usage; add funds", 90).wait(false), None);
    }

    #[test]
    fn silent_worker_waits_if_its_owner_is_at_a_limit() {
        let silent = Streams::with("", "", 700);
        assert_eq!(silent.wait(false), None);
        let wait = silent.wait(true).unwrap();
        assert_eq!((wait.until, wait.said), (None, None));
        assert_eq!(Streams::with("", "", 60).wait(true), None);
    }

    #[test]
    fn silence_counts_from_the_end_of_the_limit() {
        let waits = |ago, seconds| {
            let streams = Streams::with("", SAID, ago);
            let scratch = Scratch::new(streams.folder.path().to_owned());
            let mut watch = LimitWatch::new(JobLimits::of_check(None), &scratch, "7");
            watch.waits_for_limit(9, seconds)
        };
        assert!(waits(16_000, 1) && !waits(16_200, 1) && waits(16_200, 600));
    }
}
