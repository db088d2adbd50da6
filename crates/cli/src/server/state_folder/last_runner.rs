//! The last runners of a ledger: their command lines, and whether a runner is at work.
//!
//! `ledger run` keeps its command line in the user's state folder, under the identifier of the ledger:
//! one for each run. `ledger resume` starts it again, and `ledger status` names it.
//!
//! Invariants:
//! - No command line is read from a ledger: a ledger that came from elsewhere names no command that
//!   `ledger resume` would run.
//! - A runner is called alive or gone only where its process could be seen. Elsewhere that is unknown.
//! - A runner of a copy of the ledger in another folder is not at work on this one.
//! - Looking at a ledger changes nothing in it. The lock is probed with a shared lock that is released
//!   at once; a writer that opens the ledger at this moment tries again.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use plan_ledger::internals::format::content_hash;
use plan_ledger::log::LogReader;
use plan_ledger::{Clock, Environment, LedgerView, Run, Timestamp};
use plan_ledger_views::{GoneClaim, KnownRunner, RunnerPresence, RunnerWait};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::state_folder;
use crate::protocol::private_files;
use crate::protocol::{has_judge, hex, process_start, this_machine};
use crate::server::agent_session::{AgentSession, agents_may_decide};

/// A runner that was started on this machine by this user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastRunner {
    /// Its arguments, without the name of the program, the ledger, and options that count only once.
    pub(crate) arguments: Vec<String>,
    /// Its working folder.
    pub(crate) working_dir: PathBuf,
    /// The ledger's folder, absolute.
    pub(crate) ledger: PathBuf,
    /// The name of its run.
    pub(crate) run: String,
    process: u32,
    /// When the process started, in clock ticks after the boot: a later process with the same number
    /// started at another time.
    process_start: Option<u64>,
    /// The boot and the process namespace in which the number is valid; `None` if the runner could
    /// not see processes.
    machine: Option<String>,
    /// When it was started.
    pub(crate) started: Timestamp,
    /// The agent session that chose the arguments; `None` if a person did, or an agent that may decide for one.
    agent: Option<String>,
}

/// Options about acceptance, failures and plans.
const DECIDING: [&str; 4] = ["--decider", "--judge", "--planner", "--text"];

impl LastRunner {
    /// This process, as the runner of a run. `None` if its arguments or its folder are not text.
    pub(crate) fn this(run: &str, ledger: &Path, clock: &dyn Clock) -> Option<Self> {
        let arguments = std::env::args_os().skip(1).map(OsString::into_string);
        let process = std::process::id();
        Some(Self {
            arguments: lasting(arguments.collect::<Result<_, _>>().ok()?),
            working_dir: std::env::current_dir().ok()?,
            ledger: ledger.canonicalize().ok()?,
            run: run.to_owned(),
            process,
            process_start: process_start(process),
            machine: this_machine().map(str::to_owned),
            started: clock.now(),
            agent: AgentSession::of_environment()
                .filter(|session| !agents_may_decide(ledger, session.host))
                .map(|session| session.name),
        })
    }

    /// A digest of its command line, its folder, its ledger and its run: sixteen hexadecimal digits.
    pub(crate) fn digest(&self) -> String {
        digest(&(&self.arguments, &self.working_dir, &self.ledger, &self.run))
    }

    /// A digest of its ledger and its run, independent of the command line.
    pub(crate) fn place_digest(&self) -> String {
        digest(&(&self.ledger, &self.run))
    }

    /// Keeps this runner as the last one of its run. The caller has the lock of the ledger, so no other
    /// process changes the file.
    pub(crate) fn keep(mut self, ledger: &str) -> io::Result<()> {
        let path = record_path(ledger).ok_or(io::ErrorKind::NotFound)?;
        let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
        private_files::create_folders(folder)?;
        forget_removed_ledgers(folder, self.started);
        // A process that is killed leaves the old record or the new one.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        let LastRunners(mut runners) = LastRunners::of(ledger);
        // An agent that repeats a command line did not choose it.
        let is_same = |other: &&LastRunner| {
            (&other.run, &other.ledger, &other.arguments)
                == (&self.run, &self.ledger, &self.arguments)
        };
        if let (Some(earlier), true) = (runners.iter().find(is_same), self.agent.is_some()) {
            self.agent.clone_from(&earlier.agent);
        }
        // A copy of the ledger in another folder has its own runners.
        runners.retain(|other| {
            other.run != self.run || other.ledger != self.ledger && other.ledger.exists()
        });
        runners.drain(..runners.len().saturating_sub(RUNNERS_MAX - 1));
        runners.push(self);
        file.write_all(&serde_json::to_vec_pretty(&LastRunners(runners))?)?;
        file.persist(path)?;
        Ok(())
    }

    /// The options of an agent session that decide for a person, if it chose any: a person sees them first.
    pub(crate) fn choice_of_agent(&self) -> Option<String> {
        let agent = self.agent.as_ref()?;
        let options = self.arguments.iter().take_while(|word| *word != "--");
        let names: Vec<_> = options
            .filter_map(|word| DECIDING.iter().find(|name| word.split('=').next() == Some(**name)))
            .copied()
            .collect();
        (!names.is_empty())
            .then(|| format!("an agent session ({agent}) chose {}", names.join(", ")))
    }

    /// Whether it was a runner of a copy of this ledger that still exists in another folder.
    pub(crate) fn is_of_copy(&self, ledger: &str, dir: &Path) -> bool {
        self.ledger != dir && id_of_folder(&self.ledger).as_deref() == Some(ledger)
    }

    /// Whether its process lives.
    fn life(&self) -> Life {
        self.life_seen_from(this_machine())
    }

    fn life_seen_from(&self, here: Option<&str>) -> Life {
        let (Some(there), Some(here)) = (self.machine.as_deref(), here) else {
            return Life::Unseen;
        };
        let boot = |machine: &str| machine.split(' ').next().map(str::to_owned);
        if there == here {
            let is_same =
                self.process_start.is_some() && process_start(self.process) == self.process_start;
            if is_same { Life::Alive } else { Life::Gone }
        } else if boot(there) == boot(here) {
            // In another container of this machine, where the number is that of another process.
            Life::Unseen
        } else {
            Life::Gone
        }
    }
}

/// Sixteen hexadecimal digits for a value. A path that is not text has no form in JSON: such a runner is not kept.
fn digest(value: &impl Serialize) -> String {
    let text = serde_json::to_vec(value).unwrap_or_default();
    hex(content_hash(&text).get(..8).unwrap_or_default())
}

/// Whether the process of a runner lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Alive,
    Gone,
    /// It cannot be seen from here.
    Unseen,
}

/// The runners of a ledger that this user started last: one for each run, the newest last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastRunners(Vec<LastRunner>);

/// The command lines of this many runs are kept.
const RUNNERS_MAX: usize = 64;

impl LastRunners {
    /// Those of a ledger; empty if there are none, or if their file cannot be read.
    pub(crate) fn of(ledger: &str) -> Self {
        let text = record_path(ledger).and_then(|path| fs::read(path).ok());
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// The last runners of a ledger in a folder. For each run it is one that was started there;
    /// else one of a folder that no longer exists, because the ledger was moved; else one of a copy
    /// in another folder. Of several, it is the newest.
    pub(crate) fn at(ledger: &str, dir: &Path) -> Self {
        let dir = dir.canonicalize().unwrap_or_default();
        let mut best: Vec<(u8, LastRunner)> = Vec::new();
        for runner in Self::of(ledger).0 {
            let is_here = runner.ledger == dir;
            let rank = u8::from(is_here) + u8::from(!runner.is_of_copy(ledger, &dir));
            match best.iter().position(|(_, other)| other.run == runner.run) {
                Some(at) if best.get(at).is_some_and(|(other, _)| *other > rank) => {}
                Some(at) => {
                    best.remove(at);
                    best.push((rank, runner));
                }
                None => best.push((rank, runner)),
            }
        }
        Self(best.into_iter().map(|(_, runner)| runner).collect())
    }

    /// The last runner of a run.
    pub(crate) fn of_run(&self, run: &str) -> Option<&LastRunner> {
        self.0.iter().find(|runner| runner.run == run)
    }

    /// Whether runners of several runs are known.
    pub(super) fn has_several(&self) -> bool {
        self.0.len() > 1
    }

    /// The one that was started last.
    pub(crate) fn newest(&self) -> Option<&LastRunner> {
        self.0.last()
    }
}

/// Whether a runner is at work on a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunnerStatus {
    /// Unknown: the state that is shown is an older one, or the lock cannot be probed.
    Unknown,
    /// Unknown as well: the lock is free, as it is while a runner waits for people, and this place does not
    /// show whether the process of that number, a runner of the last ones, has ended.
    Unseen(u32, LastRunners),
    /// A runner is at work; the text describes its process.
    AtWork(String),
    /// No runner is at work.
    Absent(LastRunners),
}

impl RunnerStatus {
    /// The status for a ledger with an open log.
    pub(crate) fn of(dir: &Path, log: &LogReader) -> Self {
        let id = ledger_id(log).unwrap_or_default();
        let last = LastRunners::at(&id, dir);
        let here = dir.canonicalize().unwrap_or_default();
        match probe(&dir.join("LOCK")) {
            Err(_) => Self::Unknown,
            Ok(Some(holder)) if holder.contains("(ledger run)") => {
                Self::AtWork(holder.split(", since").next().unwrap_or_default().to_owned())
            }
            // With `--wait`, a runner releases the lock while it waits for people.
            Ok(_) => {
                let own = last.0.iter().filter(|runner| !runner.is_of_copy(&id, &here));
                let lives: Vec<_> =
                    own.map(|runner| (runner.life(), runner.process)).rev().collect();
                let first = |life| lives.iter().find(|each| each.0 == life).map(|each| each.1);
                match (first(Life::Alive), first(Life::Unseen)) {
                    (Some(alive), _) => Self::AtWork(format!("process {alive}")),
                    (None, Some(process)) => Self::Unseen(process, last),
                    (None, None) => Self::Absent(last),
                }
            }
        }
    }

    /// Whether a runner is at work, for a view.
    pub(crate) fn presence(&self) -> RunnerPresence {
        match self {
            Self::Unknown => RunnerPresence::Unknown,
            Self::Unseen(process, _) => RunnerPresence::Unseen(*process),
            Self::AtWork(_) => RunnerPresence::AtWork,
            Self::Absent(_) => RunnerPresence::Absent,
        }
    }

    /// What is known of the runner of a run, for a view. `resume`: the words that start the last one again.
    pub(crate) fn known<'a>(
        &self,
        run: &Run,
        resume: Option<Vec<String>>,
        dir: &Path,
        gone: &'a [GoneClaim],
        waits: &'a [RunnerWait],
    ) -> KnownRunner<'a> {
        KnownRunner {
            presence: self.presence(),
            resume,
            had_planner: self.had_planner(&run.name),
            has_judge: has_judge(dir, run.id),
            gone,
            waits,
        }
    }

    /// What is to be said, for people, if no runner is at work, or if none may be.
    pub(crate) fn absence(&self) -> Option<String> {
        self.presence().absence()
    }

    /// Whether a runner may be at work that cannot be seen from here.
    pub(crate) fn is_unseen(&self) -> bool {
        matches!(self, Self::Unseen(..))
    }

    /// Whether it is known that no runner is at work.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent(_))
    }

    /// Whether the last runner of a run, which is not at work, had a planner.
    pub(crate) fn had_planner(&self, run: &str) -> bool {
        let (Self::Absent(last) | Self::Unseen(_, last)) = self else { return false };
        let is_planner = |word: &String| word == "--planner" || word.starts_with("--planner=");
        last.of_run(run).is_some_and(|runner| runner.arguments.iter().any(is_planner))
    }

    /// The last runners, if none is known to be at work.
    pub(super) fn last(&self) -> Option<&LastRunners> {
        let (Self::Absent(last) | Self::Unseen(_, last)) = self else { return None };
        Some(last)
    }
}

/// The identifier of a ledger, in hexadecimal.
pub(crate) fn ledger_id(log: &LogReader) -> Option<String> {
    log.uids().map(|(uid, _)| hex(&uid))
}

/// The identifier of the ledger in a folder; `None` without a ledger.
pub(super) fn id_of_folder(dir: &Path) -> Option<String> {
    ledger_id(LedgerView::open(dir, &Environment::system()).ok()?.log())
}

/// The description of the lock holder; `None` if the lock is free.
fn probe(path: &Path) -> io::Result<Option<String>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // An archive is a file.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
        opened => opened?,
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        // Closing the file releases the lock.
        Ok(()) => Ok(None),
        Err(error) if error == rustix::io::Errno::WOULDBLOCK => {
            let mut text = String::new();
            let _ = (&mut file).take(HOLDER_LENGTH_MAX).read_to_string(&mut text);
            Ok(Some(text.trim().to_owned()))
        }
        Err(error) => Err(error.into()),
    }
}

const HOLDER_LENGTH_MAX: u64 = 1024;

/// The file with the last runner of a ledger: in the state folder of the user (`XDG_STATE_HOME`).
pub(crate) fn record_path(ledger: &str) -> Option<PathBuf> {
    Some(state_folder("runners")?.join(format!("{ledger}.json")))
}

/// The record of a lost ledger is kept for this many microseconds after a start: the ledger may
/// have been moved.
const GONE_MAX: Timestamp = 7 * 86_400_000_000;

/// Removes the records of ledgers that have been gone for long.
fn forget_removed_ledgers(folder: &Path, now: Timestamp) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let record = fs::read(&path).ok();
        let last = record.and_then(|text| serde_json::from_slice::<LastRunners>(&text).ok());
        let newest = last.as_ref().and_then(LastRunners::newest);
        let is_old = |runner: &LastRunner| runner.started.saturating_add(GONE_MAX) < now;
        if newest.is_some_and(|runner| is_old(runner) && !runner.ledger.exists()) {
            // Another process may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}

/// The arguments without those that count only once, and without the ledger, which
/// `LEDGER_DIR` names.
fn lasting(arguments: Vec<String>) -> Vec<String> {
    const FLAGS: [&str; 6] = [
        "--accept-rollback",
        "--approve-nothing",
        "--keep-plan",
        "--kill-orphans",
        "--replan",
        "--retry-failed",
    ];
    const WITH_VALUE: [&str; 3] = ["--kill-at", "--ledger", "--reason"];
    let mut lasting = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(word) = arguments.next() {
        if word == "--" {
            // No options follow it.
            lasting.push(word);
            lasting.extend(arguments.by_ref());
        } else if WITH_VALUE.contains(&word.as_str()) {
            arguments.next();
        } else if !FLAGS.contains(&word.as_str())
            && !WITH_VALUE.iter().any(|name| word.starts_with(&format!("{name}=")))
        {
            lasting.push(word);
        }
    }
    lasting
}

#[cfg(test)]
mod tests {
    //! Goal: a command line is started again as it was, without the options that apply only once.

    use super::*;

    #[test]
    fn options_that_count_once_are_not_kept() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let line = "run p.yaml --worker x --ledger d --kill-at 37 --kill-orphans --replan --reason why --kill-at=3 --keep-plan --wait --accept-rollback";
        assert_eq!(lasting(words(line)), words("run p.yaml --worker x --wait"));
        let line = "--accept-rollback run --wait -- --replan";
        assert_eq!(lasting(words(line)), words("run --wait -- --replan"));
    }

    #[test]
    fn own_process_is_alive_and_a_missing_one_is_not() {
        let own = process_start(std::process::id());
        assert!(own.is_some() || !Path::new("/proc/self/stat").exists());
        assert_eq!(process_start(u32::MAX), None);
    }

    /// A runner in another container of this machine, or on a system without `/proc`, is neither
    /// alive nor gone. A runner of an earlier boot is gone.
    #[test]
    fn runner_is_alive_or_gone_only_where_it_can_be_seen() {
        let process = std::process::id();
        let runner = |machine: Option<&str>| LastRunner {
            arguments: Vec::new(),
            working_dir: PathBuf::new(),
            ledger: PathBuf::new(),
            run: "a".to_owned(),
            process,
            process_start: process_start(process),
            machine: machine.map(str::to_owned),
            started: 0,
            agent: None,
        };
        let life = |there: Option<&str>, here: Option<&str>| runner(there).life_seen_from(here);
        let has_proc = Path::new("/proc/self/stat").exists();
        let own = if has_proc { Life::Alive } else { Life::Gone };
        assert_eq!(life(Some("boot1 pid:[1]"), Some("boot1 pid:[1]")), own);
        let other = LastRunner { process_start: Some(1), ..runner(Some("boot1 pid:[1]")) };
        assert_eq!(other.life_seen_from(Some("boot1 pid:[1]")), Life::Gone);
        assert_eq!(life(Some("boot1 pid:[2]"), Some("boot1 pid:[1]")), Life::Unseen);
        assert_eq!(life(Some("boot0 pid:[1]"), Some("boot1 pid:[1]")), Life::Gone);
        assert_eq!(life(None, Some("boot1 pid:[1]")), Life::Unseen);
        assert_eq!(life(Some("boot1 pid:[1]"), None), Life::Unseen);
        assert_eq!(life(None, None), Life::Unseen);
    }
}
