//! Orphans: processes that outlive their job. They are found by their environment, killed, and
//! reported.
//!
//! Without `/proc`, no orphan is found. A process that deliberately clears [`JOB_VARIABLE`] and
//! leaves the process group no longer belongs to the job.
//!
//! Invariants:
//! - A process is killed only if its environment names the job, or if it is in the process group of
//!   a job with a leader that is not reaped yet. A process id alone may have been reused, so the
//!   process is checked again through the descriptor that is used for the kill.
//! - The search repeats until it finds nothing, since a process may fork while it is being killed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::protocol::ProcessStatus;

/// The variable that names the job of a process.
pub(crate) const JOB_VARIABLE: &str = "LEDGER_WORK";

/// The variable with the identity of the folder of a job's files, and of the folder around it. It is still right
/// when the ledger was moved, or is reached by another path.
pub(crate) const IDENTITY_VARIABLE: &str = "LEDGER_WORK_ID";

/// The first argument of a supervisor: the process of this program between a runner and the command of a
/// job. It is not a command of people.
pub(crate) const SUPERVISOR: &str = "__supervise";

/// The maximum time for the processes to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The time between two searches.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The maximum number of processes that a note names.
const NAMED_MAX: usize = 5;

/// A process that was still alive when its job was over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Orphan {
    pid: Pid,
    /// The name of the process.
    name: String,
    /// The job that its environment names.
    job: Option<JobName>,
    group: i32,
    /// In clock ticks after the boot.
    started: u64,
    /// Whether it only waited for the command of its job.
    is_supervisor: bool,
}

/// A job as the environment of its processes names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobName {
    /// The path of its files, without a suffix.
    pub(crate) path: PathBuf,
    /// The identities of their folder and of the one around it.
    pub(crate) folder: Option<String>,
}

impl JobName {
    /// The stem of its files.
    pub(crate) fn stem(&self) -> Option<String> {
        Some(self.path.file_name()?.to_string_lossy().into_owned())
    }
}

impl Orphan {
    /// The job, by the stem of its files.
    pub(crate) fn stem(&self) -> Option<String> {
        self.job.as_ref()?.stem()
    }

    /// Whether it is still alive after the kill.
    pub(crate) fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|status| status.name == self.name)
    }

    /// The name and process id, for messages.
    pub(crate) fn describe(&self) -> String {
        format!("{} ({})", self.name, self.pid.as_raw_pid())
    }

    pub(crate) fn is_in_group(&self, leader: Option<Pid>) -> bool {
        leader.is_some_and(|leader| self.group == leader.as_raw_pid())
    }
}

/// Kill every process that belongs to a matching job or to the group of this leader, except the
/// leader itself. Returns the processes that were found.
pub(crate) fn end(is_job: impl Fn(&JobName) -> bool, leader: Option<Pid>) -> Vec<Orphan> {
    let give_up = Instant::now() + EXIT_TIMEOUT;
    let mut ended: BTreeMap<i32, Orphan> = BTreeMap::new();
    loop {
        let found = find(&is_job, leader);
        if found.is_empty() || Instant::now() >= give_up {
            return ended.into_values().collect();
        }
        for orphan in found {
            // Errors are ignored: the process has already exited, or the note reports that it
            // cannot be killed.
            let _ = signal(&orphan, Signal::KILL);
            ended.entry(orphan.pid.as_raw_pid()).or_insert(orphan);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Ask every process that belongs to a matching job to end.
pub(crate) fn ask_to_end(is_job: impl Fn(&JobName) -> bool) {
    for orphan in find(&is_job, None) {
        // It may have exited already.
        let _ = signal(&orphan, Signal::TERM);
    }
}

/// The job of a process that is alive.
pub(crate) fn job_of_living(process: u32) -> Option<JobName> {
    let pid = Pid::from_raw(i32::try_from(process).ok()?)?;
    stat(pid).and_then(|_| job_of(pid))
}

/// The note about the processes that a job left; `None` if there were none.
pub(crate) fn note(orphans: &[Orphan]) -> Option<String> {
    let orphans: Vec<&Orphan> = orphans.iter().filter(|orphan| !orphan.is_supervisor).collect();
    let names: Vec<String> =
        orphans.iter().take(NAMED_MAX).map(|orphan| orphan.describe()).collect();
    let more = orphans.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let alive = orphans.iter().find(|orphan| orphan.is_alive()).map(|orphan| orphan.describe());
    let alive = alive.map(|process| format!("; {process} cannot be killed")).unwrap_or_default();
    let (count, list) = (orphans.len(), names.join(", "));
    let what = match count {
        0 => return None,
        1 => "1 process running, which was".to_owned(),
        _ => format!("{count} processes running, which were"),
    };
    Some(format!("left {what} killed: {list}{more}{alive}"))
}

/// Send a signal to a process, but not to another one that has got its number since it was found.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn signal(orphan: &Orphan, signal: Signal) -> rustix::io::Result<()> {
    use rustix::io::Errno;
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let is_same = || stat(orphan.pid).is_some_and(|it| it.started == orphan.started);
    match pidfd_open(orphan.pid, PidfdFlags::empty()) {
        Ok(process) if is_same() => pidfd_send_signal(process, signal),
        // A kernel without such descriptors.
        Err(Errno::NOSYS | Errno::PERM) if is_same() => kill_process(orphan.pid, signal),
        _ => Ok(()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn signal(orphan: &Orphan, signal: Signal) -> rustix::io::Result<()> {
    kill_process(orphan.pid, signal)
}

fn find(is_job: &impl Fn(&JobName) -> bool, leader: Option<Pid>) -> Vec<Orphan> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let own = rustix::process::getpid();
    // No orphan is older than its leader, so most environments need not be read.
    let since = leader.and_then(status).map_or(0, |leader| leader.started);
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
        .filter(|pid| *pid != own && Some(*pid) != leader)
        .filter_map(|pid| orphan_of(pid, since))
        .filter(|orphan| orphan.is_in_group(leader) || orphan.job.as_ref().is_some_and(is_job))
        .map(|orphan| Orphan { is_supervisor: is_supervisor(orphan.pid), ..orphan })
        .collect()
}

/// The process, if it is alive and not older than this time.
fn orphan_of(pid: Pid, since: u64) -> Option<Orphan> {
    let ProcessStatus { name, group, started, .. } = stat(pid).filter(|it| it.started >= since)?;
    let job = job_of(pid);
    Some(Orphan { pid, name, job, group, started, is_supervisor: false })
}

fn is_supervisor(pid: Pid) -> bool {
    fs::read(format!("/proc/{}/cmdline", pid.as_raw_pid()))
        .is_ok_and(|line| line.split(|byte| *byte == 0).nth(1) == Some(SUPERVISOR.as_bytes()))
}

/// The entries of a process that has not exited.
fn stat(pid: Pid) -> Option<ProcessStatus> {
    status(pid).filter(|status| !status.has_exited)
}

fn status(pid: Pid) -> Option<ProcessStatus> {
    ProcessStatus::of(u32::try_from(pid.as_raw_pid()).ok()?)
}

/// The job that the environment of a process names.
fn job_of(pid: Pid) -> Option<JobName> {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_pid())).ok()?;
    let value_of = |name: &str| {
        let mut variables = environment.split(|byte| *byte == 0);
        variables.find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    let path = PathBuf::from(OsStr::from_bytes(value_of(JOB_VARIABLE)?));
    let folder = value_of(IDENTITY_VARIABLE);
    let folder = folder.map(|value| String::from_utf8_lossy(value).into_owned());
    Some(JobName { path, folder })
}
