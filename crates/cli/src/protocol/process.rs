//! Processes as `/proc` shows them: which one makes a request, whether that of a claim is gone, and which
//! signals this one ignores.
//!
//! Invariants:
//! - A process is gone only if this place shows its processes, the boot and the namespace are those of
//!   the claim, and no process has its number and its start. A zombie is gone.
//! - Where that cannot be judged, no process is gone: the lease decides.

use std::fs::{self, File};
use std::io::Read as _;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use plan_ledger::plan::WorkerProcess;

/// The read buffer in bytes, larger than any `/proc/PID/stat`.
const STAT_LENGTH_MAX: usize = 1 << 10;

/// The longest text for boot and namespace that a request may state.
pub(crate) const MACHINE_LENGTH_MAX: usize = 256;

/// The process that makes a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Peer {
    /// It is on this machine.
    Here(WorkerProcess),
    /// The process had ended when its connection was accepted.
    Gone(u32),
    /// This place does not show it, or it is on another machine.
    Elsewhere,
}

impl Peer {
    /// The process of this number, as the system names it for the other end of a connection.
    pub(crate) fn of(pid: Option<u32>) -> Self {
        // A process of another namespace has the number 0 here.
        let pid = pid.filter(|pid| *pid > 0);
        let Some((pid, machine)) = pid.zip(this_machine()) else { return Self::Elsewhere };
        match Life::of(pid) {
            Life::Since(start) => {
                let folder = working_folder(pid);
                Self::Here(WorkerProcess { pid, start, machine: machine.to_owned(), folder })
            }
            Life::Over => Self::Gone(pid),
            Life::Hidden => Self::Elsewhere,
        }
    }

    /// The process at the other end of a connection. If it is this program, its client is elsewhere
    /// (HTTP), and so is the folder of the work.
    pub(crate) fn at_socket(pid: Option<u32>) -> Self {
        match Self::of(pid) {
            Self::Here(own) if own.pid == std::process::id() => {
                Self::Here(WorkerProcess { folder: None, ..own })
            }
            other => other,
        }
    }

    /// This process.
    pub(crate) fn own() -> Self {
        Self::of(Some(std::process::id()))
    }
}

/// The signals that this process did not ignore at its start. The others (`nohup`) stay ignored.
pub(crate) fn not_ignored<const N: usize>(signals: [i32; N]) -> impl Iterator<Item = i32> {
    let ignored = ignored_signals();
    signals.into_iter().filter(move |signal| ignored >> (signal - 1) & 1 == 0)
}

/// The signals that this process ignores, as a mask; empty if the system does not report it.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// The process of this number, if this place shows it and it has not exited.
pub(crate) fn named_process(pid: u32) -> Option<WorkerProcess> {
    let (start, machine) = (process_start(pid)?, this_machine()?.to_owned());
    Some(WorkerProcess { pid, start, machine, folder: working_folder(pid) })
}

/// The working folder of a process, if this place shows it and it is text.
fn working_folder(pid: u32) -> Option<String> {
    fs::read_link(format!("/proc/{pid}/cwd")).ok()?.into_os_string().into_string().ok()
}

/// Whether the process has exited. Of a process on another machine nothing is known.
pub(crate) fn is_gone(process: &WorkerProcess) -> bool {
    if plan_ledger::mutant!(DeadClaimsKept) {
        return false;
    }
    this_machine() == Some(&*process.machine)
        && match Life::of(process.pid) {
            Life::Since(start) => start != process.start,
            Life::Over => true,
            Life::Hidden => false,
        }
}

/// The known facts about the process with a number.
enum Life {
    /// It started at this time, and has not exited.
    Since(u64),
    /// It has exited.
    Over,
    /// It exists but belongs to another user, so its start is not visible.
    Hidden,
}

impl Life {
    fn of(pid: u32) -> Self {
        match ProcessStatus::of(pid) {
            Some(status) if status.has_exited => Self::Over,
            Some(status) => Self::Since(status.started),
            None => {
                let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
                let found = pid.map_or(Err(Errno::SRCH), test_kill_process);
                if found == Err(Errno::SRCH) { Self::Over } else { Self::Hidden }
            }
        }
    }
}

/// When a process started, in clock ticks after the boot; `None` if it has exited, or is unknown here.
pub(crate) fn process_start(pid: u32) -> Option<u64> {
    let status = ProcessStatus::of(pid).filter(|status| !status.has_exited);
    status.map(|status| status.started)
}

/// Whether this place shows its processes: not where `/proc` is missing, is hidden, or is that of another
/// container.
fn shows_processes() -> bool {
    let own = std::process::id().to_string();
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    stat.split_once(' ').is_some_and(|(process, _)| process == own)
}

/// This boot of this machine, and the namespace of its processes; `None` where processes cannot be seen.
pub(crate) fn this_machine() -> Option<&'static str> {
    static MACHINE: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
        shows_processes().then(|| format!("{} {}", boot.trim(), namespace.display()))
    };
    MACHINE.get_or_init(read).as_deref()
}

/// The entries of `/proc/PID/stat` that are used here.
pub(crate) struct ProcessStatus {
    pub(crate) name: String,
    pub(crate) has_exited: bool,
    pub(crate) group: i32,
    /// In clock ticks.
    pub(crate) started: u64,
}

impl ProcessStatus {
    pub(crate) fn of(pid: u32) -> Option<Self> {
        // One read returns the whole file; this runs for every process of the machine.
        let mut text = [0; STAT_LENGTH_MAX];
        let length = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut text).ok()?;
        let text = String::from_utf8_lossy(text.get(..length)?);
        // The name is in parentheses and may itself contain parentheses.
        let (before, after) = text.rsplit_once(')')?;
        let name = before.split_once('(')?.1.to_owned();
        let mut fields = after.split_whitespace();
        let has_exited = matches!(fields.next()?, "Z" | "X");
        let group = fields.nth(1)?.parse().ok()?;
        let started = fields.nth(16)?.parse().ok()?;
        Some(Self { name, has_exited, group, started })
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a process counts as gone only after it has exited.

    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn process_is_gone_once_it_has_exited_even_as_a_zombie() {
        let mut child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let process = named_process(child.id()).unwrap();
        assert!(!is_gone(&process));
        child.kill().unwrap();
        // No process has waited for it: it is a zombie now, or will be soon.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !is_gone(&process) {
            assert!(std::time::Instant::now() < until, "the zombie counts as alive");
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(is_gone(&process));
        assert_eq!(Peer::of(Some(process.pid)), Peer::Gone(process.pid));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn number_that_is_used_again_is_another_process() {
        let own = named_process(std::process::id()).unwrap();
        assert!(!is_gone(&own));
        assert!(is_gone(&WorkerProcess { start: own.start + 1, ..own.clone() }));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn process_of_another_boot_or_namespace_cannot_be_judged() {
        let machine = "another pid:[1]".to_owned();
        assert!(!is_gone(&WorkerProcess { pid: u32::MAX, start: 1, machine, folder: None }));
    }
}
