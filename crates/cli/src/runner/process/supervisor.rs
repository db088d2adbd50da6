//! Supervisors: a process of this program between the runner and the command of a job.
//!
//! The supervisor starts the command in its own session, waits for it, and records how it ended. It outlives a runner
//! that is killed, so no result is lost, and from then on it enforces the time limit.
//!
//! Invariants:
//! - A worker has no controlling terminal: it cannot ask on `/dev/tty`, and Ctrl-C does not reach it.
//! - SIGTERM to the group of a job ends the command, not its supervisor. SIGKILL ends both.
//! - The output is durable before the record that it is complete.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use rustix::fs::{fdatasync, fstat, fstatvfs};
use rustix::process::{Signal, geteuid, getpgid, getpid, getppid, kill_process, setpgid, setsid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use plan_ledger::plan::Micros;

use crate::protocol::hand_off::files::open_regular;
use crate::protocol::not_ignored;
use crate::runner::own_folder::OwnFolder;
use crate::runner::process::exit_record::{CommandEnd, ExitRecord};
use crate::runner::process::orphans::{self, JOB_VARIABLE, SUPERVISOR};

/// The exit status of a supervisor if its command did not start.
const NOT_STARTED: u8 = 126;

/// The pause between two checks whether the runner is gone.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// A disk with less room than this, in bytes, counts as full: a write may have failed.
const FULL_BELOW: u64 = 64 << 10;

/// The link to the program of a process. It is valid even if the file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Whether this program can be its own supervisor: a test program cannot.
static IS_ENABLED: AtomicBool = AtomicBool::new(false);

/// Act as a supervisor if the command line asks for one, and return the exit status. Otherwise let
/// the jobs of this process have supervisors.
pub(crate) fn act_or_enable() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == SUPERVISOR)
        && let (Some(record), Some(command)) = (words.next(), words.next())
    {
        let limit = words.next().and_then(|text| TimeLimit::parse(text.to_str()?));
        return Some(supervise(Path::new(&record), &command, limit));
    }
    IS_ENABLED.store(true, Ordering::Relaxed);
    None
}

/// The command that supervises a shell command and writes its record; `None` if this program cannot
/// be started again. The time limit is in seconds.
pub(crate) fn command(
    record: &Path,
    shell_command: &str,
    timeout_seconds: Option<u32>,
) -> Option<Command> {
    let program = IS_ENABLED.load(Ordering::Relaxed).then(program).flatten()?;
    let mut command = Command::new(program);
    command.arg0("ledger").arg(SUPERVISOR).arg(record).arg(shell_command);
    let runner = std::process::id();
    command.args(timeout_seconds.map(|seconds| TimeLimit { seconds, runner }.text()));
    Some(command)
}

/// The time limit of a command, which its supervisor enforces once the runner is gone.
#[derive(Debug, Clone, Copy)]
struct TimeLimit {
    seconds: u32,
    /// The process id of the runner, which enforces the limit while it lives.
    runner: u32,
}

impl TimeLimit {
    fn text(self) -> String {
        format!("{}:{}", self.seconds, self.runner)
    }

    fn parse(text: &str) -> Option<Self> {
        let (seconds, runner) = text.split_once(':')?;
        Some(Self { seconds: seconds.parse().ok()?, runner: runner.parse().ok()? })
    }

    /// End the processes of the job when the time is up and the runner is gone, on another thread, and set
    /// the flag before. Without such a thread the command runs on without a limit.
    fn enforce(self, has_expired: Arc<AtomicBool>) {
        let is_of_runner = move || {
            getppid().and_then(|parent| u32::try_from(parent.as_raw_pid()).ok())
                == Some(self.runner)
        };
        let enforce = move || {
            sleep(Duration::from_secs(self.seconds.into()));
            while is_of_runner() {
                sleep(LOOK_INTERVAL);
            }
            has_expired.store(true, Ordering::SeqCst);
            let own = std::env::var_os(JOB_VARIABLE).map(PathBuf::from);
            orphans::end(|job| Some(&job.path) == own.as_ref(), None);
        };
        let _ = Builder::new().name("time limit".to_owned()).spawn(enforce);
    }
}

fn program() -> Option<PathBuf> {
    let link = PathBuf::from(OWN_PROGRAM);
    if link.exists() { Some(link) } else { std::env::current_exe().ok() }
}

fn supervise(record: &Path, shell_command: &OsStr, limit: Option<TimeLimit>) -> ExitCode {
    // These signals end the command, and the supervisor records how. The command itself gets the
    // default action: a handler is reset when a program is executed.
    for signal in not_ignored([SIGINT, SIGTERM, SIGHUP]) {
        // Without the handler a signal may end the supervisor, and the attempt has no record.
        let _ = signal_hook::flag::register(signal, Arc::default());
    }
    leave_terminal();
    // Opened before the command runs: a file that later takes its place is not written to.
    let folder = record.parent().and_then(|folder| OwnFolder::open(folder).ok());
    let started = Instant::now();
    let has_expired = Arc::new(AtomicBool::new(false));
    if let Some(limit) = limit {
        limit.enforce(Arc::clone(&has_expired));
    }
    let end = run(shell_command);
    let has_expired = has_expired.load(Ordering::SeqCst);
    let duration = Micros::try_from(started.elapsed().as_micros()).unwrap_or(Micros::MAX);
    let is_disk_full = is_disk_full(io::stdout());
    sync(&record.with_extension("receipt"));
    let record = Path::new(record.file_name().unwrap_or_default());
    let timed_out = limit.filter(|_| has_expired).map(|limit| limit.seconds);
    let written = ExitRecord { end, duration, is_disk_full, timed_out };
    let is_recorded = folder.is_some_and(|folder| written.write(&folder, record).is_ok());
    match end {
        CommandEnd::NotStarted(_) => ExitCode::from(NOT_STARTED),
        CommandEnd::Ended(status) => match status.code() {
            Some(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
            // Without a record, the runner must see that a signal ended the command.
            None if !is_recorded => {
                let _ = kill_process(getpid(), Signal::KILL);
                ExitCode::FAILURE
            }
            None => ExitCode::FAILURE,
        },
    }
}

fn run(shell_command: &OsStr) -> CommandEnd {
    let shell: [&OsStr; 2] = [OsStr::new("-c"), shell_command];
    let ended = Command::new("sh").args(shell).spawn().and_then(|mut child| child.wait());
    match ended {
        Ok(status) => CommandEnd::Ended(status),
        Err(error) => CommandEnd::NotStarted(error.raw_os_error().unwrap_or_default()),
    }
}

/// Start a session without a terminal.
fn leave_terminal() {
    // A group leader cannot start a session, so it returns to the group of its runner first. Its
    // signal handlers are installed by now. Errors mean that the runner has ended: then the
    // command keeps the terminal.
    let group = getppid().and_then(|parent| getpgid(Some(parent)).ok());
    let _ = setpgid(None, group);
    let _ = setsid();
}

fn is_disk_full(output: impl AsFd) -> bool {
    let Ok(disk) = fstatvfs(output) else { return false };
    let free = if geteuid().is_root() { disk.f_bfree } else { disk.f_bavail };
    // Some file systems have no size.
    disk.f_blocks > 0 && free.saturating_mul(disk.f_frsize) < FULL_BELOW
}

/// Make the output and the receipt durable, so that no power cut leaves a record without them. The
/// runner notices by its own writes that a disk fails.
fn sync(receipt: &Path) {
    sync_stream(io::stdout());
    sync_stream(io::stderr());
    // A receipt may be anything, such as a pipe without a writer.
    if let Ok(file) = open_regular(receipt) {
        let _ = file.sync_data();
    }
}

fn sync_stream(stream: impl AsFd) {
    if fstat(&stream).is_ok_and(|file| file.st_size > 0) {
        let _ = fdatasync(&stream);
    }
}
