//! `ledger drill`: a run is killed while a step is in flight, resumed by another process, and
//! compared with a run that nobody killed.
//!
//! Invariants:
//! - The runs are those of the very binary that drills: nothing of the way is simulated but the
//!   workers.
//! - Executions are counted by the workers, outside the ledger; the ledger is not asked to
//!   testify for itself.
//! - What a plan asks of people, the drill answers: with the first option, in its own name.
//! - The drill opens a ledger only after the processes are done with it. How it stood at the
//!   kill is read off the log, at the sequence number at which the second process found it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use serde_json::Value;

use crate::server::counted;
use plan_ledger::error::{Error, ErrorKind};
use plan_ledger::files;
use plan_ledger::ledger::{Environment, Ledger, OpenQuestion, Reply, state_hash};
use plan_ledger::plan::{State, StepNumber};

use super::args::DrillArgs;
use super::drill_report::{Evidence, Half, report};
use super::exit::{Code, Failure};

/// The run's name in both ledgers.
pub(super) const RUN: &str = "drill";

/// `ledger drill`.
pub(super) fn drill(args: &DrillArgs) -> Result<Code, Failure> {
    if args.every_crash {
        return super::every_crash::every_crash(args);
    }
    let kill_at = kill_at(args)?;
    let folder = Folder::new(args)?;
    let number = kill_at.to_string();
    let first = folder.to_the_end(args, "killed", "killed-first", &["--kill-at", &number])?;
    let second = folder.to_the_end(args, "killed", "killed-second", &[])?;
    let whole = folder.to_the_end(args, "whole", "whole", &[])?;
    for child in [&second, &whole] {
        if !child.status.success() {
            return Err(folder.child_failed(&child.name, child.status));
        }
    }
    let found = folder.figure("killed-second", "opened", "last_seq")?;
    let evidence = Evidence {
        kill_at: StepNumber(kill_at),
        first: first.status,
        at_kill: folder.state_at("killed", found)?,
        killed: folder.half("killed", &second.name)?,
        whole: folder.half("whole", &whole.name)?,
    };
    report(&evidence, args)
}

/// The last of the processes that drove a run as far as it goes.
struct Child {
    name: String,
    status: ExitStatus,
}

/// Who answers what a drilled plan asks of people.
const DRILL: &str = "drill";

/// What the drill says to a question: the first thing that may be said, which lets work go on.
fn reply_to(open: &OpenQuestion) -> Option<Reply> {
    let asked = &open.question.asked;
    let answer = asked.options.first()?.clone();
    let note = "a drill asks nobody".to_owned();
    Some(Reply { answer, by: DRILL.to_owned(), note, shown: asked.shown })
}

/// The step at which a run is killed if nobody says another one.
const KILL_AT: u32 = 37;

/// The step at which to kill. A plan that cannot be run, or has no such step, is wrong usage.
fn kill_at(args: &DrillArgs) -> Result<u32, Failure> {
    let plan = files::read(&args.plan).map_err(|error| Failure::of_plan_file(&error))?.plan;
    let file = args.plan.display();
    let steps = u32::try_from(plan.steps.len()).unwrap_or(u32::MAX);
    match args.kill_at {
        None if KILL_AT <= steps => Ok(KILL_AT),
        None => Ok(steps.div_ceil(2)),
        Some(number) if number <= steps => Ok(number),
        Some(number) => {
            let steps = counted(steps.into(), "step");
            Err(Failure::Usage(format!("{file}: --kill-at {number}: the plan has {steps}")))
        }
    }
}

/// Where the ledgers, the counts and the processes' words of one drill are.
struct Folder {
    path: PathBuf,
    /// Removes the folder when the drill is over, unless it is to be kept.
    _temporary: Option<tempfile::TempDir>,
}

impl Folder {
    fn new(args: &DrillArgs) -> Result<Self, Failure> {
        let Some(path) = &args.keep else {
            let temporary = tempfile::Builder::new()
                .prefix("ledger-drill-")
                .tempdir()
                .map_err(|error| io("create", &std::env::temp_dir(), error))?;
            return Ok(Self { path: temporary.path().to_owned(), _temporary: Some(temporary) });
        };
        fs::create_dir_all(path).map_err(|error| io("create", path, error))?;
        let mut entries = fs::read_dir(path).map_err(|error| io("list", path, error))?;
        if entries.next().is_some() {
            let message = format!("--keep {}: the folder is not empty", path.display());
            return Err(Failure::Usage(message));
        }
        Ok(Self { path: path.clone(), _temporary: None })
    }

    fn ledger(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.ledger"))
    }

    fn tally(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.tally"))
    }

    fn words(&self, child: &str) -> PathBuf {
        self.path.join(format!("{child}.jsonl"))
    }

    fn complaints(&self, child: &str) -> PathBuf {
        self.path.join(format!("{child}.stderr"))
    }

    /// Run the plan until it is over, is killed, or waits for something that is no question: the
    /// drill answers what its people would be asked, and goes on.
    fn to_the_end(
        &self,
        args: &DrillArgs,
        ledger: &str,
        child: &str,
        more: &[&str],
    ) -> Result<Child, Failure> {
        let waits = i32::from(Code::Waiting.number());
        let mut name = child.to_owned();
        for round in 2_u32.. {
            let status = self.child(args, ledger, &name, more)?;
            if status.code() != Some(waits) || self.answer(ledger)? == 0 {
                return Ok(Child { name, status });
            }
            name = format!("{child}-{round}");
        }
        Err(Failure::Refused("the plan never stops asking".to_owned()))
    }

    /// Answers all open questions of a ledger, and says how many there were.
    fn answer(&self, ledger: &str) -> Result<usize, Failure> {
        let handle = open(&self.ledger(ledger))?;
        let mut answered = 0;
        for open in handle.questions()? {
            if let Some(reply) = reply_to(&open) {
                handle.answer(open.id, reply)?;
                answered += 1;
            }
        }
        handle.close()?;
        Ok(answered)
    }

    /// Run this very binary on the plan, and wait for its end.
    fn child(
        &self,
        args: &DrillArgs,
        ledger: &str,
        child: &str,
        more: &[&str],
    ) -> Result<ExitStatus, Failure> {
        let binary = std::env::current_exe().map_err(|error| io("find", &self.path, error))?;
        let create =
            |path: PathBuf| File::create(&path).map_err(|error| io("create", &path, error));
        Command::new(&binary)
            .arg("run")
            .arg(&args.plan)
            .arg("--ledger")
            .arg(self.ledger(ledger))
            .arg("--tally")
            .arg(self.tally(ledger))
            .args(["--run", RUN, "--stub", "--fresh", "--text", "trust", "--json"])
            .args(["--max-parallel", &args.max_parallel.to_string()])
            .args(more)
            .stdin(Stdio::null())
            .stdout(create(self.words(child))?)
            .stderr(create(self.complaints(child))?)
            .status()
            .map_err(|error| io("start", &binary, error).into())
    }

    fn child_failed(&self, child: &str, status: ExitStatus) -> Failure {
        if let Some(what) = self.waited_for(child) {
            let message =
                format!("the drill's process {child} waits for what a drill does not do: {what}");
            return Failure::Refused(message);
        }
        let complaints = fs::read_to_string(self.complaints(child)).unwrap_or_default();
        let message = format!("the drill's process {child} ended with {status}: {complaints}");
        Failure::Refused(message.trim_end().to_owned())
    }

    /// What a run waits for at the end of a process, as people call it.
    fn waited_for(&self, child: &str) -> Option<String> {
        let summary = self.line(child, "summary").ok()?;
        let items = summary.get("waiting_for")?.as_array()?;
        let text = |item: &Value| {
            let kind = item.get("kind")?.as_str()?.replace('_', " ");
            let step = item.get("step").and_then(Value::as_str);
            Some(step.map_or_else(|| kind.clone(), |step| format!("{kind} (step {step})")))
        };
        let items: Vec<String> = items.iter().filter_map(text).collect();
        (!items.is_empty()).then(|| items.join(", "))
    }

    /// The first line of that type among a process's words.
    fn line(&self, child: &str, kind: &str) -> Result<Value, Failure> {
        let path = self.words(child);
        let text = fs::read_to_string(&path).map_err(|error| io("read", &path, error))?;
        text.lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .find(|value| value.get("type").and_then(Value::as_str) == Some(kind))
            .ok_or_else(|| missing(&path, kind))
    }

    fn figure(&self, child: &str, kind: &str, field: &str) -> Result<u64, Failure> {
        let line = self.line(child, kind)?;
        line.get(field).and_then(Value::as_u64).ok_or_else(|| missing(&self.words(child), field))
    }

    /// A ledger at the end of its run, and what its last process said about its live state.
    fn half(&self, ledger: &str, child: &str) -> Result<Half, Failure> {
        let summary = self.line(child, "summary")?;
        let live_seq = self.figure(child, "summary", "seq")?;
        let live_hash = summary.get("state_hash").and_then(Value::as_str).unwrap_or_default();
        let handle = open(&self.ledger(ledger))?;
        let half = Half {
            state: handle.state()?,
            live_hash: live_hash.to_owned(),
            replay_hash: state_hash(&handle.state_at(live_seq)?).to_string(),
            executions: executions(&self.tally(ledger))?,
        };
        handle.close()?;
        Ok(half)
    }

    fn state_at(&self, ledger: &str, seq: u64) -> Result<Arc<State>, Failure> {
        let handle = open(&self.ledger(ledger))?;
        let state = handle.state_at(seq)?;
        handle.close()?;
        Ok(Arc::new(state))
    }
}

fn open(ledger: &Path) -> Result<Ledger, Failure> {
    Ok(super::open(ledger, &Environment::system())?)
}

/// How often each step was executed, as the workers counted it.
fn executions(tally: &Path) -> Result<BTreeMap<StepNumber, u32>, Failure> {
    let text = fs::read_to_string(tally).map_err(|error| io("read", tally, error))?;
    let mut executions = BTreeMap::new();
    for line in text.lines() {
        let number = line.split(' ').next().and_then(|number| number.parse().ok());
        let number = number.ok_or_else(|| missing(tally, "step number"))?;
        *executions.entry(StepNumber(number)).or_insert(0) += 1;
    }
    Ok(executions)
}

fn io(what: &str, path: &Path, error: std::io::Error) -> Error {
    Error::io(what, path, error)
}

fn missing(path: &Path, what: &str) -> Failure {
    let message = format!("the drill's process did not write: {what}");
    Failure::Ledger(Error::new(ErrorKind::Io, message).at_path(path))
}
