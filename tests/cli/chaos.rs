//! Chaos test: misbehaving workers, and random SIGKILLs of workers and runners. The run must still
//! end with every step accepted once and no process left.
//!
//! `PLAN_LEDGER_CHAOS_SEEDS=100..120` runs those seeds instead of the default one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::time::Duration;

use plan_ledger::plan::{AcceptedBasis, ResolvedOutcome, StepEvent};
use plan_ledger::{
    Ending, Environment, Event, Ledger, LedgerView, RunStatus, StepNumber, StepStatus, state_hash,
};

use super::command::{Place, ids, start, wait_until};
use super::kill_pacing::{Pace, WAIT};
use super::rng::Rng;

/// SIGKILLs per seed.
const KILLS: u32 = 20;

/// Steps that each kill releases.
const STEPS_PER_KILL: u32 = STEPS / KILLS;

/// The longest time between two kills.
const LIFE_MILLIS_MAX: u64 = 250;

/// The worker writes to the tally before it acts, and misbehaves by seed, step and attempt. Late
/// attempts behave well, so that the run ends.
const WORKER: &str = r#"#!/bin/bash
echo "+ $LEDGER_STEP $LEDGER_ATTEMPT" >> "$TALLY"
source ./wait.sh
action=$(( $(printf '%s' "$SEED $LEDGER_STEP $LEDGER_ATTEMPT" | cksum | cut -d' ' -f1) % 12 ))
test "$LEDGER_ATTEMPT" -gt 5 && action=11
token=$LEDGER_TOKEN
case $action in
0) kill -9 $$ ;;
1) exit 3 ;;
2) exec sleep 600 ;;
3) head -c 3000 /dev/urandom; head -c 3000 /dev/urandom >&2; exit 1 ;;
4) head -c 500 /dev/urandom > "$LEDGER_RECEIPT"; exit 0 ;;
5) echo '{"outcome":"succeeded","output":"forged"}' > "${LEDGER_RECEIPT%/*}/1.receipt"
   echo '{"outcome":"succeeded","token":1,"output":"forged"}' > "$LEDGER_RECEIPT"; exit 0 ;;
6) sleep 600 & ;;
7) setsid sleep 600 & ;;
8) (setsid bash -c 'sleep 600 & sleep 600' </dev/null >/dev/null 2>&1 &) ;;
9) (trap '' TERM HUP INT; setsid sleep 600 &) ;;
10) (setsid bash -c 'for n in 1 2 3 4 5; do sleep 600 & done; wait' >/dev/null 2>&1 &); exit 4 ;;
esac
sleep 0.0$((RANDOM % 6))
echo "! $LEDGER_STEP $LEDGER_ATTEMPT" >> "$TALLY"
echo "done by $token"
"#;

/// Layers of ten steps; every fifth step is not idempotent, and half of those have a probe.
fn plan() -> String {
    let mut text = RETRIES.to_owned();
    for n in 0..STEPS {
        let after = if n < 10 { String::new() } else { format!("s{}", n - 10) };
        let once = match n % 5 {
            0 if n % 10 == 0 => {
                ", idempotent: no, probe: 'grep -q \"^! $LEDGER_STEP \" \"$TALLY\"'"
            }
            0 => ", idempotent: no",
            _ => "",
        };
        writeln!(text, "  - {{id: s{n}, after: [{after}]{once}}}").unwrap();
    }
    text
}

const STEPS: u32 = 40;

/// Every failure is retried, including a forged or unreadable receipt.
const RETRIES: &str = "defaults:
  timeout_seconds: 2
  retry: {max_attempts: 60, per_class: {deterministic: 60}}
steps:
";

fn seeds() -> Range<u64> {
    let asked = std::env::var("PLAN_LEDGER_CHAOS_SEEDS").unwrap_or_else(|_| "1..2".to_owned());
    let (first, last) = asked.split_once("..").expect("seeds as FIRST..LAST");
    first.parse().unwrap()..last.parse().unwrap()
}

/// Every step is accepted exactly once, a non-idempotent step is repeated only after a decision
/// that it did not happen, and no worker process is left.
#[test]
fn run_survives_misbehaving_workers_and_twenty_kills() {
    for seed in seeds() {
        run_seed(seed);
    }
}

fn run_seed(seed: u64) {
    let place = Place::new();
    place.write("worker.sh", WORKER);
    place.write("wait.sh", WAIT);
    place.write("plan.yaml", plan());
    let mut limit = Pace::new(&place, STEPS_PER_KILL, KILLS);
    let mut rng = Rng(seed);
    let begin = || {
        // Many workers fail at once here, which is no reason to pause.
        let line = "run plan.yaml --max-parallel 6 --max-quick-failures 0 --worker";
        let words: Vec<_> = line.split(' ').chain(["exec bash worker.sh"]).collect();
        start(place.command(&words).env("SEED", seed.to_string()))
    };
    for start in 0..400 {
        let mut running = begin();
        while !limit.is_over() && !running.is_over() {
            std::thread::sleep(Duration::from_millis(rng.below(LIFE_MILLIS_MAX)));
            if rng.below(2) == 0 {
                if kill_some_worker(&place, &mut rng) {
                    limit.killed();
                }
            } else if !running.is_over() {
                running.signal("KILL");
                limit.killed();
                break;
            }
        }
        let ended = running.end();
        answer_unknown_outcomes(&place, &mut rng);
        match ended.status.code() {
            Some(0) => break,
            // Killed, or waiting for an answer or for a step that failed finally.
            None | Some(3) => {}
            other => panic!("seed {seed}: {other:?}: {ended:#?}"),
        }
        assert!(start < 399, "seed {seed}: the run does not end: {ended:#?}");
    }
    // The last steps are released together, up to one per worker, so some kills may be missing.
    assert!(limit.kills() >= KILLS * 3 / 4, "seed {seed}: only {} kills", limit.kills());
    check_run(&place, seed);
}

/// Sends SIGKILL to a random process of a worker; false if there is none.
fn kill_some_worker(place: &Place, rng: &mut Rng) -> bool {
    let workers = workers(place);
    if workers.is_empty() {
        return false;
    }
    let count = u64::try_from(workers.len()).unwrap();
    let pid = workers[usize::try_from(rng.below(count)).unwrap()].to_string();
    std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success()
}

/// The processes of the workers of this ledger.
fn workers(place: &Place) -> Vec<u32> {
    let folder = place.path(".ledger").canonicalize().unwrap_or_else(|_| place.path(".ledger"));
    let mark = format!("LEDGER_WORK={}/", folder.display());
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_worker = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|each| each.starts_with(mark.as_bytes()))
    };
    processes.filter(is_worker).collect()
}

/// Answers each unknown outcome by what the tally shows.
fn answer_unknown_outcomes(place: &Place, rng: &mut Rng) {
    if !place.path(".ledger").exists() {
        return;
    }
    let state = place.state();
    let Some(run) = state.run_named("plan") else { return };
    for step in ids(run, StepStatus::OutcomeUnknown) {
        // People take their time; the next runner may start before the answer.
        if rng.below(4) == 0 {
            continue;
        }
        let done = place.tally().iter().any(|line| line.starts_with(&format!("! {step} ")));
        let found = if done { "landed" } else { "did-not-happen" };
        place.ledger(&format!("answer plan {step} {found} --by ana"));
    }
}

fn check_run(place: &Place, seed: u64) {
    wait_until("all processes are gone", || workers(place).is_empty());
    let state = place.state();
    let run = state.run_named("plan").unwrap();
    assert_eq!(run.status, RunStatus::Ended(Ending::Done), "seed {seed}");
    assert_eq!(run.count(StepStatus::Accepted), STEPS, "seed {seed}");
    let environment = Environment::system();
    let view = LedgerView::open(&place.path(".ledger"), &environment).unwrap();
    let history = view.run_history(run.id, u64::MAX).unwrap();
    let mut accepted: BTreeMap<StepNumber, u32> = BTreeMap::new();
    let mut dispatched: BTreeMap<StepNumber, u32> = BTreeMap::new();
    // Attempts for which a decision records that they did nothing.
    let mut undone: BTreeMap<StepNumber, u32> = BTreeMap::new();
    for event in history.records.iter().filter_map(|record| record.event.as_ref()) {
        let Event::Step(record) = event else { continue };
        match &record.event {
            StepEvent::Accepted(_) => *accepted.entry(record.step).or_default() += 1,
            StepEvent::Dispatched(_) => *dispatched.entry(record.step).or_default() += 1,
            StepEvent::OutcomeResolved(it) if it.finding == ResolvedOutcome::DidNotHappen => {
                *undone.entry(record.step).or_default() += 1;
            }
            StepEvent::FailureDecided(_) => *undone.entry(record.step).or_default() += 1,
            _ => {}
        }
    }
    assert_eq!(accepted.len(), usize::try_from(STEPS).unwrap(), "seed {seed}");
    assert!(accepted.values().all(|count| *count == 1), "seed {seed}: {accepted:?}");
    let tally = place.tally();
    let started: BTreeSet<&String> = tally.iter().filter(|line| line.starts_with('+')).collect();
    let starts = tally.iter().filter(|line| line.starts_with('+')).count();
    assert_eq!(started.len(), starts, "seed {seed}: an attempt was started twice");
    for (index, step) in run.steps.iter().enumerate().filter(|(index, _)| index % 5 == 0) {
        let number = StepNumber(u32::try_from(index + 1).unwrap());
        let finished = format!("! {} ", step.id());
        let times = tally.iter().filter(|line| line.starts_with(&finished)).count();
        assert!(times <= 1, "seed {seed}: {} was done {times} times", step.id());
        let is_done = times == 1 || matches!(step.accepted(), Some(AcceptedBasis::Landed { .. }));
        assert!(is_done, "seed {seed}: {} was never done", step.id());
        // For each attempt but the last it is recorded that it did nothing.
        let repeated = dispatched[&number] - 1;
        let known = undone.get(&number).copied().unwrap_or(0);
        assert!(
            known >= repeated,
            "seed {seed}: {} was re-dispatched without a decision",
            step.id()
        );
    }
    let (ledger, report) = Ledger::open_with(&place.path(".ledger"), &environment).unwrap();
    assert_eq!(
        (ledger.state_hash().unwrap(), report.verdict.as_str()),
        (state_hash(&state), "clean")
    );
}
