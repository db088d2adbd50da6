//! One process group: a worker or a check, from its start to its end.
//!
//! Invariants:
//! - Its streams are files. Nothing waits for the end of a pipe, so a grandchild that keeps one
//!   open cannot hang the runner, and no amount of output can block a worker. One that writes without an
//!   end is ended.
//! - The thread that waits for it only looks; the child is reaped by its owner, so that its
//!   process id cannot be given to somebody else while the group may still be ended. When it has waited,
//!   it does what takes long, so that its owner need not.

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

use plan_ledger::error::{Error, Result};
use plan_ledger::plan::FailureClass;

use crate::runner::process::orphans;
use crate::runner::process::orphans::{Orphan, WORK_VARIABLE};
use crate::runner::process::scratch::{JobFiles, Scratch};
use crate::runner::workers::StartFailure;

/// Variables of an outer runner that a job must not inherit by mistake.
const OWN_VARIABLES: [&str; 9] = [
    "LEDGER_DIR",
    "LEDGER_RUN",
    "LEDGER_STEP",
    "LEDGER_STEP_NUMBER",
    "LEDGER_ATTEMPT",
    "LEDGER_TOKEN",
    "LEDGER_IDEMPOTENCY_KEY",
    "LEDGER_RECEIPT",
    WORK_VARIABLE,
];

/// How long the file of a stream may become, in bytes, before whoever writes it is ended.
pub(crate) const STREAM_LENGTH_MAX: u64 = 1 << 30;

/// What a job finds in its environment. A path need not be text.
pub(crate) type Variables = Vec<(String, OsString)>;

/// What to start.
pub(crate) struct JobSpec<'a> {
    pub(crate) stem: String,
    /// What it is called, for people.
    pub(crate) name: String,
    pub(crate) command: &'a str,
    pub(crate) environment: Variables,
    pub(crate) input: &'a [u8],
    pub(crate) timeout_seconds: Option<u32>,
    pub(crate) streams: Streams,
    /// How long the file of a stream may become, in bytes.
    pub(crate) stream_length_max: u64,
}

/// Where standard output goes.
pub(crate) enum Streams {
    /// Into a file of its own.
    Separate,
    /// Into the same file as standard error.
    Together,
}

/// A process group that runs.
pub(crate) struct Job {
    pub(crate) stem: String,
    pub(crate) started: Instant,
    timeout_seconds: Option<u32>,
    stream_length_max: u64,
    /// The files of its streams.
    written: [PathBuf; 2],
    child: Child,
    ended_by: Option<EndedBy>,
    aside: Aside,
}

/// The thread that waited for a job, as somebody who has time.
#[derive(Clone)]
pub(crate) struct Aside(Sender<Box<dyn FnOnce() + Send>>);

impl Aside {
    /// Have this done, while others go on.
    pub(crate) fn please(&self, work: impl FnOnce() + Send + 'static) {
        if let Err(unsent) = self.0.send(Box::new(work)) {
            // The thread is gone: then it is done here.
            (unsent.0)();
        }
    }
}

/// Why a job was ended by the runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndedBy {
    /// It took longer than so many seconds.
    Timeout(u32),
    /// It wrote more than so many bytes.
    Length(u64),
    /// The runner was asked to stop.
    Stop,
}

impl EndedBy {
    /// For people.
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

    /// Whether trying again may help.
    pub(crate) fn class(self) -> FailureClass {
        match self {
            Self::Timeout(_) | Self::Stop => FailureClass::Transient,
            Self::Length(_) => FailureClass::Deterministic,
        }
    }
}

/// Why a job did not start.
pub(crate) enum NotStarted {
    /// This machine has no room for its files.
    Machine(Error),
    /// The operating system refused.
    Refused(io::Error),
    /// It ran, could not be watched, and was ended. It may have changed the world.
    Begun(Error),
}

impl Job {
    /// Start it; `key` is sent when it has ended.
    pub(crate) fn start<K: Send + 'static>(
        spec: &JobSpec<'_>,
        scratch: &Scratch,
        key: K,
        ended: &Sender<K>,
    ) -> std::result::Result<Self, NotStarted> {
        let files = scratch.create(&spec.stem, spec.input).map_err(NotStarted::Machine)?;
        let mut command = shell(spec, scratch, files).map_err(NotStarted::Refused)?;
        let child = command.spawn().map_err(NotStarted::Refused)?;
        // The runner's own copies of the files go: from here on the job alone holds the lock.
        drop(command);
        let (aside, works) = channel();
        let job = Self {
            stem: spec.stem.clone(),
            started: Instant::now(),
            timeout_seconds: spec.timeout_seconds,
            stream_length_max: spec.stream_length_max,
            written: ["out", "err"].map(|suffix| scratch.path(&spec.stem, suffix)),
            child,
            ended_by: None,
            aside: Aside(aside),
        };
        match job.watch(spec, scratch, works, (key, ended.clone())) {
            Ok(()) => Ok(job),
            Err(error) => {
                job.end_now(scratch);
                Err(NotStarted::Begun(error))
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
            // Nobody listens any more when the runner is on its way out.
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

    /// When it has taken too long.
    fn deadline(&self) -> Option<Instant> {
        let seconds = self.timeout_seconds.filter(|_| self.ended_by.is_none())?;
        self.started.checked_add(Duration::from_secs(seconds.into()))
    }

    /// End it if it takes too long, or writes too much.
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

    /// End the whole group. The first reason counts.
    pub(crate) fn end(&mut self, by: EndedBy) {
        if self.ended_by.is_none() {
            self.ended_by = Some(by);
            self.kill();
        }
    }

    fn kill(&self) {
        if let Some(pid) = self.pid() {
            // It may have ended by itself, which is as good.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }

    /// End it, all that it left behind, and wait until it is gone.
    pub(crate) fn end_now(mut self, scratch: &Scratch) {
        self.kill();
        self.end_leftovers(scratch);
        let _ = self.child.wait();
    }

    /// End what is left of its processes, once its key was sent. Those that nobody had ended before:
    /// the group of a job that took too long has been.
    pub(crate) fn end_leftovers(&self, scratch: &Scratch) -> Vec<Orphan> {
        let work = scratch.work_name(&self.stem);
        // The leader was not reaped yet, so that nobody else can have its number.
        let leader = self.pid();
        let mut found = orphans::end(|other| other == work, leader);
        found.retain(|orphan| self.ended_by.is_none() || !orphan.is_in_group(leader));
        found
    }

    /// Who has time for it, once its key was sent.
    pub(crate) fn aside(&self) -> Aside {
        self.aside.clone()
    }

    /// How it ended, and who ended it, once its key was sent.
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
    command.env(WORK_VARIABLE, scratch.work_name(&spec.stem));
    Ok(command)
}

impl NotStarted {
    /// The machine's error, or what the operating system said about the command.
    pub(crate) fn or_refusal(self) -> std::result::Result<io::Error, StartFailure> {
        match self {
            Self::Machine(error) => Err(StartFailure::NotBegun(error)),
            Self::Begun(error) => Err(StartFailure::Begun(error)),
            Self::Refused(error) => Ok(error),
        }
    }
}
