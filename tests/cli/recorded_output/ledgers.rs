//! Ledgers whose bytes are fixed: the disk is simulated, the clock ticks at each call, identifiers
//! count. They are made once per process and written to real folders for the commands to read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use plan_ledger::internals::ledger::{RetentionLimit, SegmentSizes};
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::plan::{CapScope, ResolvedOutcome, Review};
use plan_ledger::{
    ApprovalPolicy, Clock, Command, Cost, Disposition, Environment, FailureClass, ForkPoint, Json,
    Ledger, Limits, LostCause, Outcome, Plan, Receipt, Reply, Ruling, RunId, RunPolicy, RunStatus,
    State, Task, Verdict,
};
use serde_json::{Value, json};

use crate::golden::deterministic;
use crate::lab::{dir, reader};
use crate::{random_commands, time_travel};

/// The number of the step that is in flight when the process of `killed` is killed.
const KILLED_AT: u32 = 37;

/// All fixed ledgers, by the name of their folder.
pub(super) const NAMES: [&str; 6] =
    ["complete", "killed", "damaged", "pruned", "waiting", "random"];

/// The files of a ledger, by their path in its folder.
pub(super) type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A clock that moves by a quarter of a second at each call.
#[derive(Debug)]
struct QuarterSeconds(AtomicU64);

impl Clock for QuarterSeconds {
    fn now(&self) -> u64 {
        self.0.fetch_add(250_000, Ordering::Relaxed)
    }
}

/// The environment of one ledger; the same one for each time it is opened.
pub(super) fn environment(disk: &SimDisk) -> Environment {
    Environment {
        storage: Arc::new(disk.clone()),
        clock: Arc::new(QuarterSeconds(AtomicU64::new(1_700_000_000_000_000))),
        blob_threshold: 512,
        snapshot_every: Some(64),
        segments: SegmentSizes { first: 16 << 10, largest: 16 << 10 },
        ..deterministic()
    }
}

/// The secrets of the tokens in the fixed ledgers, and others.
pub(super) fn secrets() -> impl Iterator<Item = plan_ledger::plan::Secret> {
    let environment = deterministic();
    (0..100_000).map(move |_| environment.new_secret())
}

/// The disk that holds a fixed ledger.
pub(super) fn disk(name: &str) -> SimDisk {
    match name {
        "complete" => complete().0,
        "killed" => killed(),
        "damaged" => damaged(),
        "pruned" => pruned(),
        "waiting" => waiting(),
        "random" => history(7),
        _ => panic!("no fixed ledger is called {name}"),
    }
}

/// The files of a fixed ledger.
pub(super) fn files(name: &str) -> &'static Files {
    static ALL: [OnceLock<Files>; NAMES.len()] = [const { OnceLock::new() }; NAMES.len()];
    let index = NAMES.iter().position(|each| *each == name).expect("the name of a fixed ledger");
    ALL[index].get_or_init(|| files_on(&disk(name)))
}

/// Every file of the ledger on a simulated disk.
pub(super) fn files_on(disk: &SimDisk) -> Files {
    let relative = |path: &Path| path.strip_prefix(dir()).unwrap().to_owned();
    let files = disk.files(&dir()).into_iter();
    files.map(|path| (relative(&path), disk.read(&path).unwrap())).collect()
}

/// Write a fixed ledger to a real folder.
pub(super) fn write(name: &str, folder: &Path) {
    for (path, bytes) in files(name) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

fn plan(value: Value) -> Plan {
    serde_json::from_value(value).unwrap()
}

/// Forty steps in four phases with barriers between them, and a step for most features of a plan.
fn release_plan(announces: bool) -> Plan {
    let phases = ["prepare", "build", "check", "publish"];
    let mut steps: Vec<Value> =
        (1..=40_usize).map(|number| release_step(number, &phases)).collect();
    if announces {
        steps.push(json!({ "id": "announce", "goal": "Tell the users", "after": ["published"] }));
    }
    let members = |phase: &str| {
        let of_phase = steps.iter().filter(|step| step["phase"] == phase);
        of_phase.map(|step| step["id"].clone()).collect::<Vec<_>>()
    };
    let barrier = |id: &str, phase: &str| json!({ "id": id, "members": members(phase) });
    plan(json!({
        "title": "Release 2.0",
        "outcome": "Version 2.0 is published",
        "goal": "Build, check and publish the release",
        "context": "The main branch is frozen",
        "phases": phases.map(|id| json!({ "id": id, "title": format!("Phase {id}") })),
        "barriers": [
            barrier("prepared", "prepare"), barrier("built", "build"),
            barrier("checked", "check"), barrier("published", "publish"),
        ],
        "caps": { "run": 4, "owners": { "builder": 3 }, "tags": { "gpu": 1 } },
        "budget": { "money_micros": 1_000_000, "tokens": 90_000, "attempts": 200 },
        "test_criteria": ["The release installs on a clean machine"],
        "risks": ["The mirror is slow"],
        "open_questions": ["Who writes the announcement?"],
        "failure": { "max_replans": 3, "rules": [
            { "id": "flaky", "when": { "class": "transient" }, "then": "retry" },
        ] },
        "steps": steps,
    }))
}

fn release_step(number: usize, phases: &[&str]) -> Value {
    let phase = (number - 1) / 10;
    let after = [vec![], vec!["prepared"], vec!["built"], vec!["checked"]];
    let mut step = json!({
        "id": format!("{}-{number:02}", phases[phase]),
        "title": format!("Part {number}"),
        "goal": format!("Do part {number} of the release"),
        "phase": phases[phase],
        "owner": if number.is_multiple_of(2) { "builder" } else { "reviewer" },
        "after": after[phase],
        "cost_estimate": { "money_micros": 1000, "tokens": 100 },
    });
    let more = match number {
        3 => json!({ "retry": { "max_attempts": 3 }, "outputs": ["size"] }),
        5 => json!({ "outputs": ["score"], "priority": 5 }),
        8 => json!({ "acceptance": ["The notes are complete"] }),
        12 => json!({ "gate": { "question": "Build now?", "to": "ana" } }),
        15 => json!({ "condition": "score > 100" }),
        16 => json!({ "inputs": ["score"], "tags": ["gpu"], "preconditions": ["score == 42"] }),
        20 => json!({ "idempotent": "with_key", "side_effects": ["upload"] }),
        22 => json!({ "idempotent": "no" }),
        25 => json!({ "tools": ["shell"], "changes": ["manual.txt"] }),
        30 => json!({ "acceptance": [{ "cel": "output.rows > 0" }] }),
        34 => {
            json!({ "fallback": { "value": { "value": "none" } }, "retry": { "max_attempts": 1 } })
        }
        _ => json!({}),
    };
    step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    step
}

fn receipt(number: u32) -> Receipt {
    let output = match number {
        5 => json!(42),
        25 => json!("a line of the manual; ".repeat(60)),
        30 => json!({ "rows": 12 }),
        _ => json!(format!("part {number} is done")),
    };
    let cost = Cost { money_micros: 900 + u64::from(number), tokens: 80 };
    Receipt { output: Json::new(&output).into(), cost, duration: 125_000, ..Receipt::default() }
}

fn failed(class: FailureClass, message: &str) -> Receipt {
    let (message, payload) = (message.to_owned(), Json::new(&json!({ "status": 503 })));
    Receipt { outcome: Outcome::Failed { class, message, payload }, ..Receipt::default() }
}

fn passed(by: &str, evidence: &str) -> Vec<Verdict> {
    let (by, evidence) = (by.to_owned(), evidence.to_owned());
    vec![Verdict { criterion: 0, ruling: Ruling::Pass, by, evidence: evidence.into() }]
}

/// Do a step of the release plan.
fn perform(ledger: &Ledger, task: &Task) {
    let (number, token) = (task.number.0, task.token);
    match (number, task.attempt) {
        (3, 1) => {
            let failure = failed(FailureClass::Transient, "503 from the mirror");
            ledger.record_receipt(token, failure).unwrap();
        }
        (20, _) => {
            let key = &task.idempotency_key;
            ledger.intend_effect(token, "upload the package", key).unwrap();
            ledger.commit_effect(token, key).unwrap();
            let side_effects = vec![key.clone()];
            ledger.record_receipt(token, Receipt { side_effects, ..receipt(number) }).unwrap();
        }
        (22, 1) => {
            ledger.report_lost(token, LostCause::RunnerDied, "the runner was killed").unwrap();
            ledger
                .execute(&Command::ResolveOutcome {
                    run: task.run,
                    step: task.number,
                    finding: ResolvedOutcome::DidNotHappen,
                    by: "ana".to_owned(),
                    evidence: "nothing was sent".to_owned(),
                })
                .unwrap();
        }
        (34, 1) => {
            let failure = failed(FailureClass::Deterministic, "no such channel");
            ledger.record_receipt(token, failure).unwrap();
        }
        _ => {
            if number == 10 {
                ledger.renew(token).unwrap();
            }
            ledger.record_receipt(token, receipt(number)).unwrap();
            if number == 8 {
                ledger.judge(token, passed("ana", "read them")).unwrap();
            }
        }
    }
}

/// Start the release and work on it until a step with that number is in flight, or to the end.
fn release(ledger: &Ledger, until: Option<u32>) -> RunId {
    let run = ledger.start_run("release", &release_plan(false), RunPolicy::default()).unwrap();
    let skipped = ledger.run(run).unwrap().step_named("check-28").unwrap();
    let (by, reason) = ("ana".to_owned(), "checked by hand".to_owned());
    ledger.execute(&Command::Skip { run, step: skipped, by, reason }).unwrap();
    ledger.set_variable(run, "region", Json::new(&json!("eu")), None, "ana").unwrap();
    let mut is_extended = false;
    loop {
        if let Some(task) = ledger.dispatch(run, "worker-1").unwrap() {
            if Some(task.number.0) == until {
                return run;
            }
            perform(ledger, &task);
            if task.number.0 == 33 && !is_extended {
                is_extended = true;
                extend(ledger, run);
            }
            continue;
        }
        let open = ledger.questions().unwrap();
        if let Some(open) = open.first() {
            let reply = Reply { note: "go".to_owned(), ..Reply::to(open, "yes", "ana") };
            ledger.answer(open.id, reply).unwrap();
        } else if matches!(ledger.run(run).unwrap().status, RunStatus::Ended(_)) {
            return run;
        } else {
            let verdicts = passed("ana", "installed it");
            ledger.execute(&Command::JudgePlan { run, verdicts }).unwrap();
        }
    }
}

/// Propose a second version of the release, and approve it.
fn extend(ledger: &Ledger, run: RunId) {
    let version = ledger.propose_for_review(run, &release_plan(true), "announce it").unwrap();
    let versions = ledger.run(run).unwrap().versions.len();
    assert_eq!(usize::try_from(version).unwrap(), versions);
    let hash = ledger.run(run).unwrap().versions.last().unwrap().hash;
    let (by, note, review) = ("ana".to_owned(), "fine".to_owned(), Review::Approved);
    ledger.execute(&Command::ReviewPlan { run, version, hash, review, by, note }).unwrap();
}

/// The release, done, and a fork of it that was cancelled; and its environment.
fn complete() -> (SimDisk, Environment) {
    let disk = SimDisk::new();
    let environment = environment(&disk);
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    let run = release(&ledger, None);
    let fork = ledger.fork(run, ForkPoint::After(30), "what-if").unwrap();
    let task = ledger.dispatch(fork, "worker-2").unwrap().unwrap();
    ledger.record_receipt(task.token, receipt(task.number.0)).unwrap();
    let (by, reason) = ("ana".to_owned(), "it was only a trial".to_owned());
    ledger.execute(&Command::CancelRun { run: fork, by, reason }).unwrap();
    ledger.close().unwrap();
    (disk, environment)
}

/// The release, whose process was killed while step 37 was in flight.
fn killed() -> SimDisk {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &environment(&disk)).unwrap();
    release(&ledger, Some(KILLED_AT));
    disk.kill_process();
    drop(ledger);
    disk
}

/// The complete one with one bit of an acknowledged record in a sealed segment flipped.
fn damaged() -> SimDisk {
    let disk = complete().0;
    let hit = crate::lab::whole(&reader(&disk)).remove(39);
    let path = reader(&disk).segments().remove(usize::try_from(hit.segment).unwrap()).path;
    let at = hit.offset + 50;
    let byte = disk.read(&path).unwrap()[usize::try_from(at).unwrap()];
    disk.overwrite(&path, at, &[byte ^ 0x10]).unwrap();
    disk
}

/// The complete one without its oldest segments.
fn pruned() -> SimDisk {
    let (disk, environment) = complete();
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    let run = ledger.start_run(
        "later",
        &plan(json!({ "steps": [{ "id": "one" }] })),
        RunPolicy::default(),
    );
    let run = run.unwrap();
    ledger.snapshot::<State>().unwrap();
    ledger.set_variable(run, "level", Json::new(&json!(1)), None, "ana").unwrap();
    ledger.snapshot::<State>().unwrap();
    ledger.prune(RetentionLimit::Record(100), None, "ana").unwrap();
    ledger.close().unwrap();
    disk
}

/// Runs that wait for people in every way there is: each command that acts has something to act on.
fn waiting() -> SimDisk {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &environment(&disk)).unwrap();
    waiting_steps(&ledger);
    let decided = plan(json!({
        "title": "Decisions", "failure": { "decider": "external" },
        "steps": [{ "id": "odd", "goal": "Fail", "fallback": { "value": { "value": 0 } } }],
    }));
    let run = ledger.start_run("decisions", &decided, RunPolicy::default()).unwrap();
    let task = ledger.dispatch(run, "worker-1").unwrap().unwrap();
    ledger.record_receipt(task.token, failed(FailureClass::Unknown, "odd")).unwrap();

    let old = json!({ "title": "Versions", "steps": [{ "id": "old", "goal": "The old way" }] });
    let new = json!({ "title": "Versions", "steps": [
        { "id": "old", "goal": "The new way" }, { "id": "more", "after": ["old"] },
    ] });
    let run = ledger.start_run("versions", &plan(old), RunPolicy::default()).unwrap();
    ledger.propose_for_review(run, &plan(new), "a better way").unwrap();

    let one = json!({ "title": "Paused", "steps": [{ "id": "one" }, { "id": "two" }] });
    let run = ledger.start_run("paused", &plan(one), RunPolicy::default()).unwrap();
    ledger.pause(run, "ana", "the network is down").unwrap();

    let broken = json!({ "title": "Broken", "steps": [
        { "id": "breaks", "retry": { "max_attempts": 1 } }, { "id": "next", "after": ["breaks"] },
    ] });
    let run = ledger.start_run("broken", &plan(broken), RunPolicy::default()).unwrap();
    let task = ledger.dispatch(run, "worker-1").unwrap().unwrap();
    let failure = failed(FailureClass::Deterministic, "it does not compile");
    ledger.record_receipt(task.token, failure).unwrap();

    let required = RunPolicy { approval: ApprovalPolicy::Required, ..RunPolicy::default() };
    let first = json!({ "title": "Proposed", "steps": [{ "id": "first" }] });
    ledger.start_run("proposed", &plan(first), required).unwrap();

    let by = || "ana".to_owned();
    let scope = CapScope::Owner { owner: "builder".to_owned() };
    ledger.execute(&Command::SetCap { scope, limit: Some(2), by: by() }).unwrap();
    let limits = Some(Limits { attempts: Some(500), ..Limits::default() });
    ledger.execute(&Command::SetBudget { run: None, limits, by: by() }).unwrap();
    ledger.close().unwrap();
    disk
}

/// The run `attention`: a question, a reported step, a lost attempt of unknown outcome, one in flight.
fn waiting_steps(ledger: &Ledger) {
    let attention = plan(json!({
        "title": "Attention", "budget": { "money_micros": 5000 }, "failure": { "max_replans": 3 },
        "steps": [
            { "id": "reported", "goal": "Write it", "acceptance": ["It reads well"] },
            { "id": "doubtful", "goal": "Send it", "idempotent": "no" },
            { "id": "flying", "goal": "Wait for it" },
            { "id": "gated", "gate": { "question": "Really?", "to": "ana", "deadline_seconds": 60,
                                       "on_timeout": { "escalate_to": "bob" } } },
            { "id": "ready", "goal": "Any worker may do it", "command": "echo '{\"rows\": 3}'" },
            { "id": "also-ready", "goal": "And this, too", "inputs": ["level"] },
            { "id": "last", "after": ["ready", "also-ready"] },
        ],
    }));
    let run = ledger.start_run("attention", &attention, RunPolicy::default()).unwrap();
    ledger.set_variable(run, "level", Json::new(&json!(3)), None, "ana").unwrap();
    let reported = ledger.dispatch(run, "worker-1").unwrap().unwrap();
    ledger.record_receipt(reported.token, receipt(1)).unwrap();
    let doubtful = ledger.dispatch(run, "worker-1").unwrap().unwrap();
    let disposition = Some(Disposition::Unknown);
    let failure = failed(FailureClass::Transient, "the line went dead");
    ledger.record_receipt(doubtful.token, Receipt { disposition, ..failure }).unwrap();
    ledger.dispatch(run, "worker-1").unwrap().unwrap();
}

/// Random commands of every kind, as the seed decides.
pub(super) fn history(seed: u64) -> SimDisk {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &time_travel::environment(&disk, 64)).unwrap();
    random_commands::play(&ledger, seed, 260);
    ledger.close().unwrap();
    disk
}
