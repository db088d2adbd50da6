//! Processes that outlive their job: found by what their environment says, ended, and named.
//!
//! Invariants:
//! - A process is ended only if its own environment names the job, or if it is in the process group
//!   of a job whose leader was not reaped yet: a process id alone may have been given to somebody
//!   else by now.
//! - What is looked for is looked for again until nothing is found, since a process may have had a
//!   child while it was being ended.
//!
//! Left out on purpose: who cleared [`WORK_VARIABLE`] and left the group, on purpose, is no longer
//! the job's. Where there is no `/proc`, nobody is found.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The variable by which a process says which job it belongs to.
pub(super) const WORK_VARIABLE: &str = "LEDGER_WORK";

/// How long processes may take to go.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// How many are named in one remark.
const NAMED_MAX: usize = 5;

/// A process that was still there when its job was over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Orphan {
    pid: Pid,
    /// What it is called.
    name: String,
    /// The job that its environment names.
    work: Option<PathBuf>,
    group: i32,
}

impl Orphan {
    /// The job, by the name of its files.
    pub(super) fn stem(&self) -> Option<String> {
        Some(self.work.as_ref()?.file_name()?.to_string_lossy().into_owned())
    }

    pub(super) fn is_in_group(&self, leader: Option<Pid>) -> bool {
        leader.is_some_and(|leader| self.group == leader.as_raw_pid())
    }
}

/// End every process that belongs to a job that is meant, or is in the group of that leader, who is
/// left alone. Those that were there.
pub(super) fn end(is_meant: impl Fn(&Path) -> bool, leader: Option<Pid>) -> Vec<Orphan> {
    let give_up = Instant::now() + PATIENCE;
    let mut ended: BTreeMap<i32, Orphan> = BTreeMap::new();
    loop {
        let found = find(&is_meant, leader);
        if found.is_empty() || Instant::now() >= give_up {
            return ended.into_values().collect();
        }
        for orphan in found {
            // One that is gone by now is as good; one that may not be ended is named.
            let _ = kill_process(orphan.pid, Signal::KILL);
            ended.entry(orphan.pid.as_raw_pid()).or_insert(orphan);
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// What a job left behind, for people; `None` if it was nothing.
pub(super) fn remark(orphans: &[Orphan]) -> Option<String> {
    let names: Vec<String> = orphans
        .iter()
        .take(NAMED_MAX)
        .map(|orphan| format!("{} ({})", orphan.name, orphan.pid.as_raw_pid()))
        .collect();
    let more = orphans.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let alive = orphans.iter().find(|orphan| stat(orphan.pid).is_some());
    let alive = alive.map(|orphan| orphan.pid.as_raw_pid());
    let alive = alive.map(|pid| format!("; process {pid} cannot be ended")).unwrap_or_default();
    let (count, list) = (orphans.len(), names.join(", "));
    let what = if count == 1 { "1 process".to_owned() } else { format!("{count} processes") };
    (count > 0).then(|| format!("left {what} behind, now ended: {list}{more}{alive}"))
}

fn find(is_meant: &impl Fn(&Path) -> bool, leader: Option<Pid>) -> Vec<Orphan> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let own = rustix::process::getpid();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
        .filter(|pid| *pid != own && Some(*pid) != leader)
        .filter_map(look)
        .filter(|orphan| orphan.is_in_group(leader) || orphan.work.as_deref().is_some_and(is_meant))
        .collect()
}

/// A process that has not ended.
fn look(pid: Pid) -> Option<Orphan> {
    let (name, group) = stat(pid)?;
    let work = work_of(pid);
    Some(Orphan { pid, name, work, group })
}

/// The name and the group of a process that has not ended.
fn stat(pid: Pid) -> Option<(String, i32)> {
    let text = fs::read(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The name is in brackets, and may hold some itself.
    let (before, after) = text.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let mut fields = after.split_whitespace();
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some((name, group))
}

/// The job that a process's environment names.
fn work_of(pid: Pid) -> Option<PathBuf> {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_pid())).ok()?;
    environment.split(|byte| *byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(WORK_VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        Some(PathBuf::from(OsStr::from_bytes(value)))
    })
}
