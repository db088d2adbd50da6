//! Jobs: one process group, a worker or a check, from its start to its end.
//!
//! Invariants:
//! - The streams of a job are files. The runner never waits for the end of a pipe, so a grandchild
//!   that keeps a pipe open cannot block the runner, and output cannot block a worker.
//! - The waiting thread detects the exit but does not reap the child; the owner of the job reaps
//!   it. The process id is therefore not reused while the group may still be killed. After the
//!   exit, the thread does slow work, such as hashing, for its owner.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};

use plan_ledger::plan::Micros;
use plan_ledger::{Error, Result};

use crate::runner::process::exit_record::{CommandEnd, ExitRecord};
use crate::runner::process::limits::{EndedBy, JobLimits, LimitWatch};
use crate::runner::process::orphans::{IDENTITY_VARIABLE, JOB_VARIABLE, Orphan};
use crate::runner::process::scratch::{JobFiles, Scratch};
use crate::runner::process::supervisor;
use crate::runner::workers::StartFailure;
use plan_ledger_views::Repeat;

/// Variables of an outer runner that a job must not inherit.
const OWN_VARIABLES: [&str; 13] = [
    "LEDGER_DIR",
    "LEDGER_RUN",
    "LEDGER_STEP",
    "LEDGER_STEP_NUMBER",
    "LEDGER_ATTEMPT",
    "LEDGER_TOKEN",
    "LEDGER_IDEMPOTENCY_KEY",
    "LEDGER_RECEIPT",
    "LEDGER_BY",
    "LEDGER_WORKER",
    "TRACEPARENT",
    JOB_VARIABLE,
    IDENTITY_VARIABLE,
];

/// The environment of a job. A path need not be valid text.
pub(crate) type Variables = Vec<(String, OsString)>;

/// A job to start.
pub(crate) struct JobSpec<'a> {
    pub(crate) stem: String,
    /// The name of the job in messages.
    pub(crate) name: String,
    pub(crate) command: &'a str,
    /// The working folder, if it is not that of this process.
    pub(crate) folder: Option<&'a Path>,
    pub(crate) environment: Variables,
    pub(crate) input: &'a [u8],
    pub(crate) limits: JobLimits,
    pub(crate) streams: Streams,
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
    watch: LimitWatch,
    child: Child,
    ended_by: Option<EndedBy>,
    /// When to kill it, if it was asked to end.
    kill_at: Option<Instant>,
    wait_thread: WaitThread,
}

pub(crate) struct JobEnd {
    pub(crate) end: CommandEnd,
    /// Why the runner ended it.
    pub(crate) ended_by: Option<EndedBy>,
    /// How long it ran.
    pub(crate) duration: Micros,
    /// Whether the disk of its output was full when it ended.
    pub(crate) is_disk_full: bool,
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
            watch: LimitWatch::new(spec.limits.clone(), scratch, &spec.stem),
            child,
            ended_by: None,
            kill_at: None,
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
            // The receiver no longer exists while the runner exits.
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

    /// End the job if it exceeds one of its limits, or has not ended in time after a request. Returns a note about it
    /// for people.
    pub(crate) fn enforce(&mut self, scratch: &Scratch) -> Option<String> {
        if self.ended_by.is_none()
            && let Some(by) = self.watch.exceeded(self.started)
        {
            self.end(by);
        }
        if self.kill_at.is_some_and(|at| at <= Instant::now()) {
            self.kill_at = None;
            self.signal(Signal::KILL);
        }
        self.watch.repeat_note().and_then(|note| note.keep(scratch, &self.stem))
    }

    /// The repetition at the last check of its limits.
    pub(crate) fn repeated(&self) -> Option<Repeat> {
        self.watch.repeated()
    }

    /// End the whole group. The first reason is kept. A job that is asked to stop has a grace period
    /// to end by itself.
    pub(crate) fn end(&mut self, by: EndedBy) {
        if self.ended_by.is_some() {
            return;
        }
        self.ended_by = Some(by);
        let is_told = by == EndedBy::Stop && !plan_ledger::mutant!(WorkerNotToldToStop);
        let grace = if is_told { self.watch.grace() } else { Duration::ZERO };
        if grace.is_zero() {
            self.signal(Signal::KILL);
        } else {
            self.kill_at = Some(Instant::now() + grace);
            self.signal(Signal::TERM);
        }
    }

    fn signal(&self, signal: Signal) {
        let Some(pid) = self.pid() else { return };
        // The job is not reaped, so the number is its own. It may not have its group yet; any other
        // error means that it has exited.
        if kill_process_group(pid, signal).is_err() {
            let _ = kill_process(pid, signal);
        }
    }

    /// End the job and its descendants, and wait until all have exited.
    pub(crate) fn end_now(mut self, scratch: &Scratch) {
        self.signal(Signal::KILL);
        self.end_leftovers(scratch);
        let _ = self.child.wait();
    }

    /// End the remaining processes after the key was sent. The group of a job that timed out has
    /// already been ended.
    pub(crate) fn end_leftovers(&self, scratch: &Scratch) -> Vec<Orphan> {
        // The leader is not reaped yet, so its process id cannot have been reused.
        let leader = self.pid();
        let mut found = scratch.end_job(&self.stem, leader);
        found.retain(|orphan| self.ended_by.is_none() || !orphan.is_in_group(leader));
        found
    }

    /// The thread that is free after the key was sent.
    pub(crate) fn wait_thread(&self) -> WaitThread {
        self.wait_thread.clone()
    }

    /// How it ended, after the key was sent.
    pub(crate) fn reap(mut self, scratch: &Scratch) -> io::Result<JobEnd> {
        let status = self.child.wait()?;
        let elapsed = Micros::try_from(self.started.elapsed().as_micros()).unwrap_or(Micros::MAX);
        // Without a record, the supervisor was killed, or the job had none.
        let record = scratch.record(&self.stem).unwrap_or(ExitRecord {
            end: CommandEnd::Ended(status),
            duration: elapsed,
            is_disk_full: false,
            timed_out: None,
        });
        let ExitRecord { end, duration, is_disk_full, .. } = record;
        Ok(JobEnd { end, ended_by: self.ended_by, duration, is_disk_full })
    }
}

impl JobEnd {
    /// The reason for ending it, unless it had ended by itself: a job that exits just before the runner ends it keeps
    /// its exit status. A job that was asked to stop has a result only if it reports one, with the exit status 0 or a
    /// receipt.
    pub(crate) fn ended_by(
        &self,
        status: ExitStatus,
        has_receipt: impl FnOnce() -> bool,
    ) -> Option<EndedBy> {
        self.ended_by.filter(|by| match (by, status.code()) {
            (EndedBy::Stop, Some(0)) => false,
            (EndedBy::Stop, _) => !has_receipt(),
            (_, code) => code.is_none(),
        })
    }
}

fn shell(spec: &JobSpec<'_>, scratch: &Scratch, files: JobFiles) -> io::Result<Command> {
    let JobFiles { input, output, errors } = files;
    let output = match spec.streams {
        Streams::Separate => output,
        Streams::Together => errors.try_clone()?,
    };
    let record = scratch.record_path(&spec.stem);
    let limit = spec.limits.timeout_seconds;
    let mut command = supervisor::command(&record, spec.command, limit).unwrap_or_else(|| {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(spec.command);
        shell
    });
    command.process_group(0);
    if let Some(folder) = spec.folder {
        command.current_dir(folder);
    }
    command.stdin(input).stdout(output).stderr(errors);
    for name in OWN_VARIABLES {
        command.env_remove(name);
    }
    command.envs(spec.environment.iter().map(|(name, value)| (name, value)));
    command.env(JOB_VARIABLE, scratch.work_name(&spec.stem));
    command.env(IDENTITY_VARIABLE, scratch.identity().unwrap_or_default());
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
