//! The situations: what happened before a reader asks.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use plan_ledger::internals::ledger::{SegmentSizes, archive};
use plan_ledger::{
    Environment, FailureClass, Json, Ledger, LedgerView, Note, Outcome, Receipt, Run, RunPolicy,
    RunStatus,
};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::command::{Place, start, wait_until};
use crate::scenario::plan as plan_of;

use super::explorer::copy;

/// A place in some situation.
pub(crate) struct Situation {
    pub(crate) place: Place,
    /// The environment of the reader.
    pub(super) env: Vec<(String, String)>,
    pub(super) is_damaged: bool,
    /// Whether an agent may be the reader.
    pub(super) is_for_agents: bool,
    /// Places that stay where they are as long as it is explored.
    _others: Vec<Place>,
}

/// A situation with a name.
#[derive(Clone, Copy)]
pub(super) struct Story {
    pub(super) name: &'static str,
    /// Whether it is explored without the strength of CI.
    pub(super) is_sample: bool,
    pub(super) make: fn() -> Situation,
}

const fn sample(name: &'static str, make: fn() -> Situation) -> Story {
    Story { name, is_sample: true, make }
}

const fn story(name: &'static str, make: fn() -> Situation) -> Story {
    Story { name, is_sample: false, make }
}

pub(super) const STORIES: [Story; 45] = [
    sample("steps failed, and questions are open", failed_steps),
    sample("commands are not approved", unapproved),
    sample("a record is damaged", || damaged(flip_record)),
    sample("an archive", archived),
    story("a run failed", || ran(FAILS_FOR_GOOD)),
    story("a run failed, one step", || ran(ONE_FAILS_FOR_GOOD)),
    story("steps of an open run failed", open_failures),
    story("a usage limit", limit),
    story("a limit that a person ends", || {
        ran_with(LIMITED, "echo 'Your org is out of usage \u{b7} add funds to continue'; exit 1")
    }),
    story("a runner was killed", || killed("steps: [{id: a}, {id: b, after: [a]}]")),
    story("a runner was killed, not idempotent", || {
        killed("steps: [{id: a, idempotent: no}, {id: b, after: [a]}]")
    }),
    story("a hanging worker was left", || {
        killed("steps: [{id: a, timeout_seconds: 1}, {id: b, after: [a]}]")
    }),
    story("an unknown outcome", outcome_unknown),
    story("text criteria", || {
        reported("steps: [{id: a, acceptance: [it is good]}, {id: b, after: [a]}]")
    }),
    story("text and command criteria", || {
        reported(
            "steps: [{id: a, acceptance: [good, command: 'true']}, {id: b}]\ntest_criteria: [all is good]",
        )
    }),
    story("criteria of the plan", || reported("steps: [{id: a}]\ntest_criteria: [all is good]")),
    story("a plan with a gate", || {
        ran("gate: {question: Start?}\nsteps: [{id: a, command: 'true', gate: {question: Now?}}]")
    }),
    story("a plan waits for review", review),
    story("gates", || {
        ran(
            "steps: [{id: a, command: 'true', gate: {question: Now?}}, {id: b, gate: {question: What?, options: [value, red]}, command: 'true'}]",
        )
    }),
    story("no judge is at work", judge_missing),
    story("an exhausted budget", || ran(OVERRUN)),
    story("an exhausted budget of attempts", attempts_exhausted),
    story("a pause", || planned("steps: [{id: a}, {id: b}]", &["pause plan"])),
    story("nothing has begun", || planned("steps: [{id: a}, {id: b}]", &[])),
    story("only commands, and nothing has begun", || {
        planned("steps: [{id: a, command: 'true'}]", &[])
    }),
    story("a header is damaged", || damaged(flip_header)),
    story("a segment is missing", || damaged(remove_segment)),
    story("HEAD is damaged", || damaged(flip_head)),
    story("HEAD is missing", || damaged(remove_head)),
    story("a run is done", || ran("steps: [{id: a, command: 'true'}]")),
    story("a run was cancelled", || planned("steps: [{id: a}, {id: b}]", &["cancel plan"])),
    story("two runs", two_runs),
    story("no ledger", || without_ledger(&[])),
    story("an empty ledger", || without_ledger(&["init"])),
    story("a fork", fork),
    story("a delayed step", || {
        claimed(
            "steps: [{id: a, retry: {max_attempts: 4, backoff_seconds: 3600}}, {id: b, after: [a]}]",
            "--failed transient --message 503",
        )
    }),
    story("steps of people", || {
        planned("steps: [{id: a, owner: human}, {id: b, owner: 'human:bob'}]", &[])
    }),
    story("an external decider", || {
        claimed(
            "failure: {decider: external}\nsteps: [{id: a, fallback: {value: {value: 1}}}, {id: b, after: [a]}]",
            "--failed unknown --message no",
        )
    }),
    story("a broken barrier", || claimed(BARRIER, "--failed deterministic --message no")),
    story("another plan is needed", || {
        ran(
            "failure: {max_replans: 2}\nsteps: [{id: a, command: 'test -e ok', retry: {max_attempts: 1}}, {id: b, after: [a], command: 'true'}]",
        )
    }),
    story("a value is missing", || {
        planned("steps: [{id: a, preconditions: ['v > 3']}, {id: b, after: [a]}]", &[])
    }),
    story("a change of scope is requested", || {
        planned(
            "steps: [{id: a}, {id: b, after: [a]}]",
            &["plan request plan --kind scope-change --reason more"],
        )
    }),
    story("inside an attempt", inside),
    story("a copy of a folder", || elsewhere(false)),
    story("a folder that was moved", || elsewhere(true)),
];

const FAILS_FOR_GOOD: &str = "failure: {rules: [{id: no, then: fail}]}
steps: [{id: a, command: 'exit 3'}, {id: b, after: [a], command: 'true'}, {id: c, command: 'exit 4'}]";
const ONE_FAILS_FOR_GOOD: &str = "failure: {rules: [{id: no, then: fail}]}
steps: [{id: a, command: 'exit 3'}, {id: b, after: [a], command: 'true'}]";
const LIMITED: &str = "steps: [{id: a, retry: {max_attempts: 5}}, {id: b}, {id: c}]";
const BARRIER: &str = "failure: {rules: [{id: no, then: fail}]}
barriers: [{id: all, members: [a, b], needs: all, on_break: ask}]
steps: [{id: a}, {id: b}, {id: c, after: [all]}]";
const OVERRUN: &str = r#"
budget: {tokens: 100}
steps:
  - id: a
    command: 'echo "{\"outcome\": \"succeeded\", \"cost\": {\"tokens\": 110}}" > "$LEDGER_RECEIPT"'
  - {id: b, after: [a], command: 'true'}
"#;

impl Situation {
    pub(super) fn of(place: Place) -> Self {
        Self { place, env: Vec::new(), is_damaged: false, is_for_agents: true, _others: Vec::new() }
    }

    /// The runs, each with its steps; the open ones come first.
    pub(super) fn targets(&self) -> Vec<(String, Vec<String>)> {
        let ledger = self.place.path(".ledger");
        let view = LedgerView::open(&ledger, &Environment::system());
        let fold = view.and_then(|view| view.fold(u64::MAX)).ok();
        let mut runs: Vec<&Run> = fold.iter().flat_map(|fold| fold.state.runs.values()).collect();
        runs.sort_by_key(|run| matches!(run.status, RunStatus::Ended(_)));
        let targets: Vec<_> = runs
            .into_iter()
            .map(|run| {
                let steps = run.steps.iter().map(|step| step.id().to_owned());
                (run.name.clone(), steps.collect())
            })
            .collect();
        if targets.is_empty() { vec![("plan".to_owned(), vec!["a".to_owned()])] } else { targets }
    }
}

/// A run of a plan, as far as it comes.
pub(super) fn ran(plan: &str) -> Situation {
    ran_with(plan, "true")
}

fn ran_with(plan: &str, worker: &str) -> Situation {
    let place = Place::new();
    place.write("plan.yaml", plan);
    place.ledger_with(&["run", "plan.yaml", "--worker", worker, "--max-parallel", "1"]);
    Situation::of(place)
}

/// A proposed plan, and then commands.
pub(super) fn planned(plan: &str, lines: &[&str]) -> Situation {
    let place = Place::planned(plan);
    for line in lines {
        place.ledger(line).code(0);
    }
    Situation::of(place)
}

pub(super) fn without_ledger(lines: &[&str]) -> Situation {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, command: 'true'}]");
    for line in lines {
        place.ledger(line).code(0);
    }
    Situation::of(place)
}

/// The first step of a plan is claimed, and has this receipt.
pub(super) fn claimed(plan: &str, receipt: &str) -> Situation {
    let situation = planned(plan, &[]);
    let token = situation.place.ledger("claim plan --step a").code(0).token();
    situation.place.ledger(&format!("receipt {token} {receipt}")).code(0);
    situation
}

fn reported(plan: &str) -> Situation {
    claimed(plan, "--output done")
}

fn failed_steps() -> Situation {
    ran(
        "steps: [{id: a, command: 'exit 3'}, {id: b, after: [a], command: 'true'}, {id: c, command: 'exit 4'}]",
    )
}

fn open_failures() -> Situation {
    let situation = claimed(
        "failure: {rules: [{id: no, then: fail}]}\nsteps: [{id: a}, {id: b, after: [a]}, {id: c}, {id: d}]",
        "--failed deterministic --message no",
    );
    let token = situation.place.ledger("claim plan --step c").code(0).token();
    situation.place.ledger(&format!("receipt {token} --failed deterministic --message no")).code(0);
    situation
}

fn limit() -> Situation {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a}, {id: b}, {id: c}]");
    let worker = "echo \"You've hit your usage limit. Try again in 2 hours.\" >&2; exit 1";
    let runner =
        start(&mut place.command(&["run", "plan.yaml", "--worker", worker, "--max-parallel", "1"]));
    wait_until("it waits", || runner.complained("waiting until"));
    runner.kill();
    Situation::of(place)
}

/// The runner is killed while its worker works; the worker is gone, too.
fn killed(plan: &str) -> Situation {
    let place = Place::new();
    place.write("plan.yaml", plan);
    // Another attempt fails.
    let worker = "test -e begun && exit 3; echo $$ > begun; sleep 1000";
    let runner = start(&mut place.command(&["run", "plan.yaml", "--worker", worker]));
    wait_until("the worker works", || place.read("begun").ends_with('\n'));
    assert!(runner.kill().was_killed());
    let worker: i32 = place.read("begun").trim().parse().unwrap();
    let group = rustix::process::getpgid(Pid::from_raw(worker)).unwrap();
    kill_process_group(group, Signal::KILL).unwrap();
    wait_until("the worker is gone", || !Path::new(&format!("/proc/{worker}")).exists());
    Situation::of(place)
}

fn outcome_unknown() -> Situation {
    let situation =
        planned("steps: [{id: a, idempotent: no, lease_seconds: 1}, {id: b, after: [a]}]", &[]);
    situation.place.ledger("claim plan --worker w").code(0);
    wait_until("the outcome is unknown", || {
        situation.place.ledger("tick");
        situation.place.ledger("questions").out.contains("is unknown")
    });
    situation
}

fn review() -> Situation {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, command: 'true'}]");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml --approval required").code(0);
    Situation::of(place)
}

pub(super) const CHECKED: &str =
    "steps: [{id: a, acceptance: [command: 'true']}, {id: b, after: [a]}]";

fn unapproved() -> Situation {
    reported(CHECKED)
}

pub(super) fn judge_missing() -> Situation {
    let situation = planned(CHECKED, &["plan approve plan --by ana"]);
    let token = situation.place.ledger("claim plan --step a").code(0).token();
    situation.place.ledger(&format!("receipt {token} --output done")).code(0);
    situation
}

fn attempts_exhausted() -> Situation {
    let situation = reported("budget: {attempts: 1}\nsteps: [{id: a}, {id: b}]");
    situation.place.ledger("claim plan");
    situation
}

fn two_runs() -> Situation {
    let situation = planned("steps: [{id: a, gate: {question: ok?}}, {id: b}]", &[]);
    situation.place.write("other.yaml", "steps: [{id: c, acceptance: [good]}]");
    situation.place.ledger("plan propose other.yaml").code(0);
    situation
}

pub(super) fn fork() -> Situation {
    let situation = failed_steps();
    situation.place.ledger("fork plan --step a --name copy").code(0);
    situation
}

/// A ledger with a reported step whose files a person or a disk changed.
fn damaged(change: fn(&Path)) -> Situation {
    let situation = reported("steps: [{id: a, acceptance: [it is good]}, {id: b, after: [a]}]");
    change(&situation.place.path(".ledger"));
    Situation { is_damaged: true, ..situation }
}

fn segment(ledger: &Path) -> PathBuf {
    fs::read_dir(ledger.join("log")).unwrap().next().unwrap().unwrap().path()
}

fn changed(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

pub(crate) fn flip_record(ledger: &Path) {
    changed(&segment(ledger), |bytes| {
        let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        bytes[last - 40] ^= 1;
    });
}

pub(crate) fn flip_header(ledger: &Path) {
    changed(&segment(ledger), |bytes| bytes[100] ^= 1);
}

fn remove_segment(ledger: &Path) {
    fs::remove_file(segment(ledger)).unwrap();
}

pub(crate) fn flip_head(ledger: &Path) {
    changed(&ledger.join("HEAD"), |bytes| bytes.iter_mut().for_each(|byte| *byte ^= 0x55));
}

pub(crate) fn remove_head(ledger: &Path) {
    fs::remove_file(ledger.join("HEAD")).unwrap();
}

/// An archive with a run that failed; the reader names it.
pub(crate) fn archived() -> Situation {
    let place = Place::new();
    let segments = SegmentSizes { first: 16 << 10, largest: 16 << 10 };
    let environment = Environment { segments, ..Environment::system() };
    let path = place.path(".ledger");
    let ledger = Ledger::create(&path, &environment).unwrap();
    let plan = serde_json::json!({
        "failure": { "rules": [{ "id": "no", "then": "fail" }] },
        "steps": [{ "id": "a" }],
    });
    let run = ledger.start_run("plan", &plan_of(&plan), RunPolicy::default()).unwrap();
    let task = ledger.dispatch(run, "worker").unwrap().unwrap();
    let (class, message) = (FailureClass::Deterministic, "no".to_owned());
    let outcome = Outcome::Failed { class, message, payload: Json::default() };
    ledger.record_receipt(task.token, Receipt { outcome, ..Receipt::default() }).unwrap();
    while fs::read_dir(path.join("log")).unwrap().count() < 3 {
        let note = Note { run: None, step: None, by: "ana".to_owned(), text: "x".repeat(1000) };
        ledger.add_note(&note, None).unwrap();
    }
    ledger.close().unwrap();
    let watch = |_, _| ControlFlow::Continue(());
    archive(&path, &place.path("old.tar"), None, &environment, &watch).unwrap();
    let env = vec![("LEDGER_DIR".to_owned(), "old.tar".to_owned())];
    Situation { env, ..Situation::of(place) }
}

/// The reader is a worker; its runner was killed.
pub(super) fn inside() -> Situation {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a}, {id: b}]");
    let script = place.write(
        "work.sh",
        "#!/bin/sh\nenv | grep ^LEDGER_ > variables\necho $$ > begun\nsleep 1000\n",
    );
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    let runner = start(&mut place.command(&[
        "run",
        "plan.yaml",
        "--worker",
        "./work.sh",
        "--max-parallel",
        "1",
    ]));
    wait_until("the worker works", || place.read("begun").ends_with('\n'));
    assert!(runner.kill().was_killed());
    let worker: i32 = place.read("begun").trim().parse().unwrap();
    let group = rustix::process::getpgid(Pid::from_raw(worker)).unwrap();
    kill_process_group(group, Signal::KILL).unwrap();
    let variables = place.read("variables");
    let env = variables.lines().filter_map(|line| line.split_once('='));
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Situation { env, is_for_agents: false, ..Situation::of(place) }
}

/// The folder of a run that was interrupted, in another place.
pub(super) fn elsewhere(is_moved: bool) -> Situation {
    let from = killed("steps: [{id: a}, {id: b, after: [a]}]").place;
    let place = Place::new();
    copy(&from.path(""), &place.path(""));
    copy(from.state_home(), place.state_home());
    let others = if is_moved { Vec::new() } else { vec![from] };
    Situation { _others: others, ..Situation::of(place) }
}
