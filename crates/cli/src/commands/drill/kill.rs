//! `ledger drill`: kills a run while a step is in flight, resumes it in another process, and
//! compares it with a run that was not killed.
//!
//! The runs are processes of this binary; only the workers are stubs. The drill counts executions
//! in the output of the processes, so that the check does not rely on the ledger alone. If the plan
//! asks a person, the drill answers with the first option. The drill opens a ledger only after its
//! processes have ended: the state at the kill is read from the log, at the sequence number that
//! the second process found.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use serde_json::Value;

use plan_ledger::plan::{FAIL, QuestionBody, QuestionSubject, RAISE, SKIP, VALUE};
use plan_ledger::{
    Ending, Environment, Error, ErrorKind, Ledger, OpenQuestion, Reply, RunStatus, State,
    StepNumber, state_hash,
};

use crate::options::open_ledger;
use crate::output::{Code, Failure};
use crate::protocol::counted;
use crate::protocol::private_files;
use crate::runner::canned_output;

use super::args::{DrillArgs, RUN};
use super::kill_report::{FinishedRun, KillEvidence, report};

/// Runs the drill with one kill.
pub(super) fn kill_and_resume(args: &DrillArgs) -> Result<Code, Failure> {
    args.input_values(&args.read.read(&args.plan)?.plan)?;
    let chosen = kill_at(args)?;
    let folder = DrillFolder::new(args)?;
    let whole = folder.run_whole(args, "whole", "whole")?;
    let kill_at = executed_near(chosen, &whole.executions).ok_or_else(|| {
        Failure::Rejected("no step of this plan is executed: there is nothing to kill".to_owned())
    })?;
    let number = kill_at.to_string();
    let first = folder.run_to_end(args, "killed", "killed-first", &["--kill-at", &number])?;
    let killed = folder.run_whole(args, "killed", "killed-second")?;
    let found = folder.number("killed-second", "opened", "last_seq")?;
    let evidence = KillEvidence {
        kill_at,
        skipped: Some(chosen).filter(|chosen| *chosen != kill_at),
        first: first.status,
        at_kill: folder.state_at("killed", found)?,
        killed,
        whole,
    };
    report(&evidence, args)
}

/// The last of the processes that drove a run.
struct Child {
    name: String,
    status: ExitStatus,
    /// The state after the last answer, if that completed the run.
    answered: Option<LiveState>,
}

impl Child {
    fn is_done(&self) -> bool {
        self.answered.is_some() || self.status.success()
    }
}

/// A live state, as the process that had it reported it.
struct LiveState {
    seq: u64,
    hash: String,
}

/// The result of answering the open questions of a run.
enum Answers {
    /// None could be answered.
    None,
    /// The run continues.
    Continue,
    /// The last answer completed the run.
    Done(LiveState),
}

/// The name under which the drill answers questions.
const AUTHOR: &str = "drill";

/// The first option, which lets the run continue; for a value, the output of a stub. Work that a
/// criterion rejected fails, since a stub would repeat it. After a rejected answer comes the next
/// option, and after the last one no answer.
pub(super) fn reply_to(state: &State, open: &OpenQuestion) -> Option<Reply> {
    let asked = &open.question.asked;
    let run = state.runs.get(&open.run)?;
    let is_rejected = |number| run.step(number).is_some_and(|it| !it.failed_criteria().is_empty());
    let mut answer = match &asked.subject {
        QuestionSubject::Failure { .. } if open.question.step.is_some_and(is_rejected) => {
            asked.options.iter().find(|option| *option == FAIL)?.clone()
        }
        QuestionSubject::Gate => next_option(asked)?.clone(),
        // The drill knows no amount.
        QuestionSubject::Budget => asked.options.iter().find(|option| *option != RAISE)?.clone(),
        _ => asked.options.first()?.clone(),
    };
    if answer == VALUE {
        let step = run.plan_step(open.question.step?)?.decode();
        let output = canned_output(&step).value();
        let name = step.outputs.first().map_or("stub", String::as_str);
        answer = output.get(name).unwrap_or(&output).to_string();
    }
    let note = "answered by the drill".to_owned();
    Some(Reply { note, ..Reply::to(open, &answer, AUTHOR) })
}

/// The option after the one that was rejected according to the text of the question, or the first
/// one. Skipping the step is not an answer to a rejection.
fn next_option(asked: &QuestionBody) -> Option<&String> {
    let rejected = |option: &String| {
        // A value may be any.
        let is_value = option == VALUE && asked.text.contains("` was rejected");
        is_value || asked.text.contains(&format!("`{option}` was rejected"))
    };
    match asked.options.iter().position(rejected) {
        None => asked.options.first(),
        Some(at) => asked.options.get(at.saturating_add(1)).filter(|option| *option != SKIP),
    }
}

/// The default step at which a run is killed.
const KILL_AT: u32 = 37;

/// The step at which to kill the run.
///
/// # Errors
/// `Usage` if the plan cannot be run or has no such step.
fn kill_at(args: &DrillArgs) -> Result<StepNumber, Failure> {
    let plan = args.read.read(&args.plan)?.plan;
    let file = args.plan.display();
    let steps = u32::try_from(plan.steps.len()).unwrap_or(u32::MAX);
    match args.kill_at {
        None if KILL_AT <= steps => Ok(StepNumber(KILL_AT)),
        None => Ok(StepNumber(steps.div_ceil(2))),
        Some(number) if number <= steps => Ok(StepNumber(number)),
        Some(number) => {
            let steps = counted(steps.into(), "step");
            Err(Failure::Usage(format!("--kill-at {number}: {file} has {steps}")))
        }
    }
}

/// The chosen step if the run executes it; else the next one that it executes, or the last one before.
fn executed_near(chosen: StepNumber, executions: &BTreeMap<StepNumber, u32>) -> Option<StepNumber> {
    let next = executions.range(chosen..).next();
    next.or_else(|| executions.range(..chosen).next_back()).map(|(number, _)| *number)
}

/// The folder of a drill: ledgers, output of the processes.
struct DrillFolder {
    path: PathBuf,
    /// Removes the folder at the end, unless `--keep` is given.
    _temporary: Option<tempfile::TempDir>,
}

impl DrillFolder {
    fn new(args: &DrillArgs) -> Result<Self, Failure> {
        let Some(path) = &args.keep else {
            let temporary = tempfile::Builder::new()
                .prefix("ledger-drill-")
                .tempdir()
                .map_err(|error| io("create", &std::env::temp_dir(), error))?;
            return Ok(Self { path: temporary.path().to_owned(), _temporary: Some(temporary) });
        };
        private_files::create_folders(path).map_err(|error| io("create", path, error))?;
        let mut entries = fs::read_dir(path).map_err(|error| io("list", path, error))?;
        if entries.next().is_some() {
            let message = format!("--keep: the folder {} is not empty", path.display());
            return Err(Failure::Usage(message));
        }
        Ok(Self { path: path.clone(), _temporary: None })
    }

    fn ledger(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.ledger"))
    }

    fn stdout(&self, child: &str) -> PathBuf {
        self.path.join(format!("{child}.jsonl"))
    }

    fn stderr(&self, child: &str) -> PathBuf {
        self.path.join(format!("{child}.stderr"))
    }

    /// Runs the plan, and runs it again after each set of answered questions, until it ends, is
    /// killed, or waits for something else.
    fn run_to_end(
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
            if status.code() != Some(waits) {
                return Ok(Child { name, status, answered: None });
            }
            match self.answer(ledger)? {
                Answers::Continue => name = format!("{child}-{round}"),
                Answers::None => return Ok(Child { name, status, answered: None }),
                Answers::Done(state) => return Ok(Child { name, status, answered: Some(state) }),
            }
        }
        Err(Failure::Rejected("the plan asks questions without end".to_owned()))
    }

    /// As [`Self::run_to_end`] for a process that must complete the run.
    fn run_whole(
        &self,
        args: &DrillArgs,
        ledger: &str,
        child: &str,
    ) -> Result<FinishedRun, Failure> {
        let ended = self.run_to_end(args, ledger, child, &[])?;
        if !ended.is_done() {
            return Err(self.child_failed(&ended.name, ended.status));
        }
        self.finished_run(ledger, &ended)
    }

    /// Answers all open questions of a ledger.
    fn answer(&self, ledger: &str) -> Result<Answers, Failure> {
        let handle = open(&self.ledger(ledger))?;
        let mut answers = Answers::None;
        let state = handle.state()?;
        for open in handle.questions()? {
            if let Some(reply) = reply_to(&state, &open) {
                handle.answer(open.id, reply)?;
                answers = Answers::Continue;
            }
        }
        let state = handle.state()?;
        if state.run_named(RUN).is_some_and(|run| run.status == RunStatus::Ended(Ending::Done)) {
            answers =
                Answers::Done(LiveState { seq: state.seq, hash: state_hash(&state).to_string() });
        }
        handle.close()?;
        Ok(answers)
    }

    /// Runs this binary on the plan and waits for its end.
    fn child(
        &self,
        args: &DrillArgs,
        ledger: &str,
        child: &str,
        more: &[&str],
    ) -> Result<ExitStatus, Failure> {
        let binary = std::env::current_exe().map_err(|error| io("find", &self.path, error))?;
        let create = |path: PathBuf| {
            private_files::create(&path).map_err(|error| io("create", &path, error))
        };
        Command::new(&binary)
            .arg("run")
            .arg(&args.plan)
            .args(args.read.words())
            .args(args.inputs.words())
            .arg("--ledger")
            .arg(self.ledger(ledger))
            .args(["--run", RUN, "--stub", "--fresh", "--text", "trust", "--json"])
            .args(["--max-parallel", &args.max_parallel.to_string()])
            .args(more)
            .stdin(Stdio::null())
            .stdout(create(self.stdout(child))?)
            .stderr(create(self.stderr(child))?)
            .status()
            .map_err(|error| io("start", &binary, error).into())
    }

    fn child_failed(&self, child: &str, status: ExitStatus) -> Failure {
        if let Some(what) = self.waited_for(child) {
            let message =
                format!("process {child} waits for something that a drill cannot resolve: {what}");
            return Failure::Rejected(message);
        }
        let stderr = fs::read_to_string(self.stderr(child)).unwrap_or_default();
        // The folder is removed: a hint about its ledgers cannot help.
        let folder = self.path.display().to_string();
        let is_of_drill = |line: &&str| line.starts_with("hint: ") && line.contains(&folder);
        let stderr: Vec<&str> = stderr.lines().filter(|line| !is_of_drill(line)).collect();
        let stderr = stderr.join("\n");
        let message = format!("process {child} of the drill ended with {status}: {stderr}");
        Failure::Rejected(message.trim_end().to_owned())
    }

    /// The items that a run waits for at the end of a process.
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

    /// The first line of that type that a process printed.
    fn line(&self, child: &str, kind: &str) -> Result<Value, Failure> {
        let path = self.stdout(child);
        let text = fs::read_to_string(&path).map_err(|error| io("read", &path, error))?;
        text.lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .find(|value| value.get("type").and_then(Value::as_str) == Some(kind))
            .ok_or_else(|| missing(&path, kind))
    }

    fn number(&self, child: &str, kind: &str, field: &str) -> Result<u64, Failure> {
        let line = self.line(child, kind)?;
        line.get(field).and_then(Value::as_u64).ok_or_else(|| missing(&self.stdout(child), field))
    }

    /// A ledger at the end of its run, and the live state that its last process reported.
    fn finished_run(&self, ledger: &str, child: &Child) -> Result<FinishedRun, Failure> {
        let (live_seq, live_hash) = match &child.answered {
            Some(LiveState { seq, hash }) => (*seq, hash.clone()),
            None => {
                let summary = self.line(&child.name, "summary")?;
                let hash = summary.get("state_hash").and_then(Value::as_str).unwrap_or_default();
                (self.number(&child.name, "summary", "seq")?, hash.to_owned())
            }
        };
        let handle = open(&self.ledger(ledger))?;
        let finished = FinishedRun {
            state: handle.state()?,
            live_hash,
            replay_hash: state_hash(&handle.state_at(live_seq)?).to_string(),
            executions: self.executions(ledger)?,
        };
        handle.close()?;
        Ok(finished)
    }

    /// How often each step was executed: the processes of a ledger print a line before each execution, and
    /// the one that is killed prints its last one first.
    fn executions(&self, ledger: &str) -> Result<BTreeMap<StepNumber, u32>, Failure> {
        let entries = fs::read_dir(&self.path).map_err(|error| io("list", &self.path, error))?;
        let mut executions = BTreeMap::new();
        for entry in entries {
            let path = entry.map_err(|error| io("list", &self.path, error))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_output = path.extension().is_some_and(|extension| extension == "jsonl");
            if !is_output || !name.starts_with(ledger) {
                continue;
            }
            let text = fs::read_to_string(&path).map_err(|error| io("read", &path, error))?;
            let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            for line in lines.filter(|line| line.get("type") == Some(&"dispatched".into())) {
                let number = line.get("number").and_then(Value::as_u64);
                let number = number.and_then(|number| u32::try_from(number).ok());
                let number = number.ok_or_else(|| missing(&path, "step number"))?;
                *executions.entry(StepNumber(number)).or_insert(0) += 1;
            }
        }
        Ok(executions)
    }

    fn state_at(&self, ledger: &str, seq: u64) -> Result<Arc<State>, Failure> {
        let handle = open(&self.ledger(ledger))?;
        let state = handle.state_at(seq)?;
        handle.close()?;
        Ok(Arc::new(state))
    }
}

fn open(ledger: &Path) -> Result<Ledger, Failure> {
    Ok(open_ledger(ledger, &Environment::system())?)
}

fn io(action: &str, path: &Path, error: std::io::Error) -> Error {
    Error::io(action, path, error)
}

fn missing(path: &Path, what: &str) -> Failure {
    let message = format!("a process of the drill did not write: {what}");
    Failure::Ledger(Error::new(ErrorKind::Io, message).at_path(path))
}
