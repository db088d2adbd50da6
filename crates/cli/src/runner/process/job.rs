//! Jobs: one process group, a worker or a check, from its start to its end.
//!
//! Invariants:
//! - The streams of a job are files. The runner never waits for the end of a pipe, so a grandchild
//!   that keeps a pipe open cannot block the runner, and output cannot block a worker. A job that
//!   exceeds its output limit is killed.
//! - The waiting thread detects the exit but does not reap the child; the owner of the job reaps
//!   it. The process id is therefore not reused while the group may still be killed. After the
//!   exit, the thread does slow work, such as hashing, for its owner.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use plan_ledger::{Error, FailureClass, Result};

use crate::runner::process::orphans;
use crate::runner::process::orphans::{JOB_VARIABLE, Orphan};
use crate::runner::process::scratch::{JobFiles, Scratch};
use crate::runner::workers::StartFailure;

/// Variables of an outer runner that a job must not inherit.
const OWN_VARIABLES: [&str; 10] = [
    "LEDGER_DIR",
    "LEDGER_RUN",
    "LEDGER_STEP",
    "LEDGER_STEP_NUMBER",
    "LEDGER_ATTEMPT",
    "LEDGER_TOKEN",
    "LEDGER_IDEMPOTENCY_KEY",
    "LEDGER_RECEIPT",
    "LEDGER_BY",
    JOB_VARIABLE,
];

/// The output limit of a stream in bytes; a job that exceeds it is ended.
pub(crate) const STREAM_LENGTH_MAX: u64 = 1 << 30;

/// The environment of a job. A path need not be valid text.
pub(crate) type Variables = Vec<(String, OsString)>;

/// A job to start.
pub(crate) struct JobSpec<'a> {
    pub(crate) stem: String,
    /// The name of the job in messages.
    pub(crate) name: String,
    pub(crate) command: &'a str,
    pub(crate) environment: Variables,
    pub(crate) input: &'a [u8],
    pub(crate) timeout_seconds: Option<u32>,
    pub(crate) streams: Streams,
    /// The output limit of each stream in bytes.
    pub(crate) stream_length_max: u64,
}

/// The destination of standard output.
pub(crate) enum Streams {
    /// A separate file.
    Separate,
    /// The file of standard error.
    Together,
}

/// A running process group.
pub(crate) struct Job {
    pub(crate) stem: String,
    pub(crate) started: Instant,
    timeout_seconds: Option<u32>,
    stream_length_max: u64,
    /// The files of its streams.
    written: [PathBuf; 2],
    child: Child,
    ended_by: Option<EndedBy>,
    wait_thread: WaitThread,
}

/// The thread that waited for a job and is now free for slow work.
#[derive(Clone)]
pub(crate) struct WaitThread(Sender<Box<dyn FnOnce() + Send>>);

impl WaitThread {
    /// Run this on the thread, so that the caller need not wait.
    pub(crate) fn run(&self, work: impl FnOnce() + Send + 'static) {
        if let Err(unsent) = self.0.send(Box::new(work)) {
            // The thread has ended: run it here.
            (unsent.0)();
        }
    }
}

/// The reason why the runner ended a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndedBy {
    /// It ran longer than its limit in seconds.
    Timeout(u32),
    /// It wrote more than its limit in bytes.
    Length(u64),
    /// The runner was asked to stop.
    Stop,
}

impl EndedBy {
    /// The human-readable reason.
    pub(crate) fn message(self) -> String {
        match self {
            Self::Timeout(seconds) => format!("timed out after {seconds} s"),
            Self::Length(most) => format!(
                "wrote more than {most} bytes to its standard output or error, and was stopped; \
                 write it to a file and name that as an artifact"
            ),
            Self::Stop => "ended by request".to_owned(),
        }
    }

    /// Whether another attempt may succeed.
    pub(crate) fn class(self) -> FailureClass {
        match self {
            Self::Timeout(_) | Self::Stop => FailureClass::Transient,
            Self::Length(_) => FailureClass::Deterministic,
        }
    }
}

/// The reason why a job did not start or continue.
pub(crate) enum NotStarted {
    /// The files of the job cannot be written.
    Machine(Error),
    /// The operating system refused to start it.
    Refused(io::Error),
    /// It started, could not be watched, and was killed. It may have had side effects.
    AfterStart(Error),
}

impl Job {
    /// Start the job; `key` is sent when it ends.
    pub(crate) fn start<K: Send + 'static>(
        spec: &JobSpec<'_>,
        scratch: &Scratch,
        key: K,
        ended: &Sender<K>,
    ) -> std::result::Result<Self, NotStarted> {
        let files = scratch.create(&spec.stem, spec.input).map_err(NotStarted::Machine)?;
        let mut command = shell(spec, scratch, files).map_err(NotStarted::Refused)?;
        let child = command.spawn().map_err(NotStarted::Refused)?;
        // Close the runner's copies of the files: from here on only the job has the lock.
        drop(command);
        let (wait_thread, works) = channel();
        let job = Self {
            stem: spec.stem.clone(),
            started: Instant::now(),
            timeout_seconds: spec.timeout_seconds,
            stream_length_max: spec.stream_length_max,
            written: ["out", "err"].map(|suffix| scratch.path(&spec.stem, suffix)),
            child,
            ended_by: None,
            wait_thread: WaitThread(wait_thread),
        };
        match job.watch(spec, scratch, works, (key, ended.clone())) {
            Ok(()) => Ok(job),
            Err(error) => {
                job.end_now(scratch);
                Err(NotStarted::AfterStart(error))
            }
        }
    }

    fn watch<K: Send + 'static>(
        &self,
        spec: &JobSpec<'_>,
        scratch: &Scratch,
        works: Receiver<Box<dyn FnOnce() + Send>>,
        (key, ended): (K, Sender<K>),
    ) -> Result<()> {
        scratch.note_process(&self.stem, self.child.id(), &spec.name)?;
        let pid = self.pid();
        let wait = move || {
            let options = WaitIdOptions::EXITED.union(WaitIdOptions::NOWAIT);
            if let Some(pid) = pid {
                while matches!(waitid(WaitId::Pid(pid), options), Err(Errno::INTR)) {}
            }
            // While the runner exits there is no receiver.
            let _ = ended.send(key);
            for work in works {
                work();
            }
        };
        thread::Builder::new()
            .name(format!("wait {}", self.stem))
            .spawn(wait)
            .map(drop)
            .map_err(|error| Error::io("watch a worker", &scratch.work_name(&self.stem), error))
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// When its time limit passes.
    fn deadline(&self) -> Option<Instant> {
        let seconds = self.timeout_seconds.filter(|_| self.ended_by.is_none())?;
        self.started.checked_add(Duration::from_secs(seconds.into()))
    }

    /// End the job if it exceeds its time or output limit.
    pub(crate) fn enforce(&mut self) {
        let is_late = self.deadline().is_some_and(|deadline| deadline <= Instant::now());
        if let Some(seconds) = self.timeout_seconds.filter(|_| is_late) {
            self.end(EndedBy::Timeout(seconds));
        }
        let is_long = |path: &PathBuf| {
            std::fs::metadata(path).is_ok_and(|file| file.len() > self.stream_length_max)
        };
        if self.ended_by.is_none() && self.written.iter().any(is_long) {
            self.end(EndedBy::Length(self.stream_length_max));
        }
    }

    /// Kill the whole group. The first reason is kept.
    pub(crate) fn end(&mut self, by: EndedBy) {
        if self.ended_by.is_none() {
            self.ended_by = Some(by);
            self.kill();
        }
    }

    fn kill(&self) {
        if let Some(pid) = self.pid() {
            // An error means that the group has already exited.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }

    /// End the job and its descendants, and wait until all have exited.
    pub(crate) fn end_now(mut self, scratch: &Scratch) {
        self.kill();
        self.end_leftovers(scratch);
        let _ = self.child.wait();
    }

    /// End the remaining processes after the key was sent. The group of a job that timed out has
    /// already been ended.
    pub(crate) fn end_leftovers(&self, scratch: &Scratch) -> Vec<Orphan> {
        let work = scratch.work_name(&self.stem);
        // The leader is not reaped yet, so its process id cannot have been reused.
        let leader = self.pid();
        let mut found = orphans::end(|other| other == work, leader);
        found.retain(|orphan| self.ended_by.is_none() || !orphan.is_in_group(leader));
        found
    }

    /// The thread that is free after the key was sent.
    pub(crate) fn wait_thread(&self) -> WaitThread {
        self.wait_thread.clone()
    }

    /// The exit status and the reason for ending it, after the key was sent.
    pub(crate) fn reap(mut self) -> (io::Result<ExitStatus>, Option<EndedBy>) {
        (self.child.wait(), self.ended_by)
    }
}

fn shell(spec: &JobSpec<'_>, scratch: &Scratch, files: JobFiles) -> io::Result<Command> {
    let JobFiles { input, output, errors } = files;
    let output = match spec.streams {
        Streams::Separate => output,
        Streams::Together => errors.try_clone()?,
    };
    let mut command = Command::new("sh");
    command.arg("-c").arg(spec.command).process_group(0);
    command.stdin(input).stdout(output).stderr(errors);
    for name in OWN_VARIABLES {
        command.env_remove(name);
    }
    command.envs(spec.environment.iter().map(|(name, value)| (name, value)));
    command.env(JOB_VARIABLE, scratch.work_name(&spec.stem));
    Ok(command)
}

impl NotStarted {
    /// The error of this machine, or the operating system's message about the command.
    pub(crate) fn or_refusal(self) -> std::result::Result<io::Error, StartFailure> {
        match self {
            Self::Machine(error) => Err(StartFailure::BeforeStart(error)),
            Self::AfterStart(error) => Err(StartFailure::AfterStart(error)),
            Self::Refused(error) => Ok(error),
        }
    }
}
