//! A run with real workers survives SIGKILLs of its runner at random moments: nothing accepted is
//! lost or repeated, and no process is left.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use plan_ledger::{Ending, Environment, Ledger, Run, RunStatus, StepStatus, state_hash};

use super::command::{Place, ids, start, wait_until};
use super::drill::shared_plan;
use super::kill_pacing::{Pace, WAIT};
use super::rng::Rng;

/// Kills per run.
const KILLS: u32 = 20;

/// Steps that each kill releases: too few for the run to end before the last kill.
const STEPS_PER_KILL: u32 = 6;

/// The longest life of a runner, from its start or from the start of its first worker: long enough
/// for twenty runners to make progress.
const LIFE_MILLIS_MAX: u64 = 160;

/// Writes its step and attempt to the tally, which is outside the ledger, before it works.
const WORKER: &str = "#!/bin/sh
echo \"$LEDGER_STEP $LEDGER_ATTEMPT\" >> \"$TALLY\"
sleep 0.05
. ./wait.sh
echo done
";

/// Works until it is killed in its first attempt, and shows each moment that it is alive.
const SLOW_WORKER: &str = "
[ \"$LEDGER_ATTEMPT\" = 1 ] || exit 0
while :; do date +%s%N > alive-$LEDGER_STEP; sleep 0.02; done
";

/// Regression: workers outlived a runner with `--kill-at`, so that the next runner found the result of some of them,
/// depending on how much later it started.
#[test]
fn workers_end_with_a_runner_that_is_killed_at_a_step() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, goal: x}, {id: b, goal: y}, {id: c, goal: z}]");
    place.write("slow.sh", SLOW_WORKER);
    let run = "run plan.yaml --max-parallel 3 --worker";
    let words = |more: &[&'static str]| {
        [run.split(' ').collect::<Vec<_>>(), vec!["sh slow.sh"], more.to_vec()].concat()
    };
    assert!(place.ledger_with(&words(&["--kill-at", "3"])).was_killed());
    let left = place.snapshot();
    std::thread::sleep(Duration::from_millis(500));
    assert!(place.snapshot() == left, "a worker is alive");
    place.ledger_with(&words(&[])).code(0);
    let count = |kind: &str| {
        let ended = place.ledger(&format!("inspect records --kind {kind} --json")).code(0);
        ended.lines().iter().filter(|line| line["type"] == "record").count()
    };
    assert_eq!((count("attempt_lost"), count("receipt_recorded")), (3, 3));
}

/// A plan of 145 steps with dependencies, barriers and a cap.
#[test]
fn run_survives_twenty_kills() {
    let place = Place::new();
    let plan = place.write("plan.yaml", layered_plan(145));
    check_survives_kills(&place, &plan, 145, 2);
}

/// A plan file of Task Master.
#[test]
fn task_master_run_survives_twenty_kills() {
    let Some(plan) = shared_plan("taskmaster-testcraft.json") else { return };
    check_survives_kills(&Place::new(), &plan, 145, 3);
}

/// Layers of eight steps. Each step depends on one or two of the layer before; every fourth layer
/// waits for a barrier over the whole layer before.
fn layered_plan(steps: usize) -> String {
    use std::fmt::Write as _;
    let (mut text, mut barriers) = ("caps: {run: 7}\nsteps:\n".to_owned(), String::new());
    for step in 0..steps {
        let layer = step / 8;
        let mut after = Vec::new();
        if layer % 4 == 0 && layer > 0 {
            after.push(format!("gate{layer}"));
        } else if layer > 0 {
            after.extend([format!("s{}", step - 8), format!("s{}", layer * 8 - 1 - step % 8)]);
            after.dedup();
        }
        writeln!(text, "  - {{id: s{step}, goal: g, after: [{}]}}", after.join(", ")).unwrap();
        if layer % 4 == 3 && step % 8 == 7 {
            let members: Vec<String> = (step - 7..=step).map(|it| format!("s{it}")).collect();
            let next = layer + 1;
            writeln!(barriers, "  - {{id: gate{next}, members: [{}]}}", members.join(", "))
                .unwrap();
        }
    }
    format!("{text}barriers:\n{barriers}")
}

fn check_survives_kills(place: &Place, plan: &Path, steps: usize, seed: u64) {
    let worker = place.write("worker.sh", WORKER);
    place.write("wait.sh", WAIT);
    let mut limit = Pace::new(place, STEPS_PER_KILL, KILLS);
    let worker = format!("sh {}", worker.display());
    // Every descendant process of this run has this variable in its environment.
    let mark = format!("PLAN_LEDGER_TEST={}-{seed}", place.path("").display());
    let mut rng = Rng(seed);
    let begin = || {
        let (name, value) = mark.split_once('=').unwrap();
        let plan = plan.to_str().unwrap();
        let words =
            ["run", plan, "--run", "r", "--fresh", "--text", "trust", "--max-parallel", "8"];
        start(place.command(&words).args(["--worker", &worker]).env(name, value))
    };
    let mut done = BTreeSet::new();
    // On a busy machine the lives grow until one makes progress.
    let mut life_millis_max = LIFE_MILLIS_MAX;
    while !limit.is_over() {
        let before = place.tally().len();
        let mut running = begin();
        if rng.below(4) > 0 {
            let started = || place.tally().len() > before || running.is_over();
            wait_until("a worker has started", started);
        }
        std::thread::sleep(Duration::from_millis(rng.below(life_millis_max)));
        let ended = running.kill();
        assert!(ended.was_killed(), "the run ended before the last kill: {ended:#?}");
        limit.killed();
        assert_nothing_repeated(&done, &place.tally()[before..]);
        // A kill may come before the ledger exists.
        if place.path(".ledger").exists() {
            done = accepted(place, &done);
        }
        life_millis_max = if done.is_empty() { life_millis_max * 5 / 4 } else { LIFE_MILLIS_MAX };
    }
    assert!(!done.is_empty(), "no runner made progress");
    let before = place.tally().len();
    begin().end().code(0);
    assert_nothing_repeated(&done, &place.tally()[before..]);
    assert_all_done(place, steps);
    assert_no_process_left(&mark);
}

/// Checks that no step accepted before this life was started in it.
fn assert_nothing_repeated(done: &BTreeSet<String>, lines: &[String]) {
    for line in lines {
        let step = line.split(' ').next().unwrap();
        assert!(!done.contains(step), "{step} was accepted and was started again");
    }
}

/// The accepted steps; none of `before` may be missing.
fn accepted(place: &Place, before: &BTreeSet<String>) -> BTreeSet<String> {
    let state = place.state();
    let now = state.run_named("r").map(|run| ids(run, StepStatus::Accepted)).unwrap_or_default();
    let now: BTreeSet<String> = now.into_iter().collect();
    assert!(before.is_subset(&now), "accepted work was lost");
    now
}

fn assert_all_done(place: &Place, steps: usize) {
    let state = place.state();
    let run: &Run = state.run_named("r").unwrap();
    assert_eq!(run.status, RunStatus::Ended(Ending::Done));
    assert_eq!(ids(run, StepStatus::Accepted).len(), steps);
    let (ledger, report) =
        Ledger::open_with(&place.path(".ledger"), &Environment::system()).unwrap();
    assert_eq!(
        ledger.state_hash().unwrap(),
        state_hash(&state),
        "a reader's fold is the live state"
    );
    assert_eq!(report.verdict, "clean");
    // Each start that the workers counted is an attempt in the ledger.
    let started: BTreeSet<(String, u32)> = place
        .tally()
        .iter()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(step, attempt)| (step.to_owned(), attempt.parse().unwrap()))
        .collect();
    assert_eq!(started.len(), place.tally().len(), "no attempt was started twice");
    for step in &run.steps {
        assert!(
            started.contains(&(step.id().to_owned(), step.attempts)),
            "the last attempt did the work"
        );
    }
}

/// Checks that no process has `mark` in its environment.
fn assert_no_process_left(mark: &str) {
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let is_marked = environment.split(|byte| *byte == 0).any(|each| each == mark.as_bytes());
        assert!(!is_marked, "{} is still alive", entry.path().display());
    }
}
