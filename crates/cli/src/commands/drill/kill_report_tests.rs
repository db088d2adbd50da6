//! Goal: a drill that finds a fault fails and names it. Method: the evidence of a successful drill,
//! falsified in one place at a time.

use serde_json::json;

use super::*;
use plan_ledger::{Environment, Ledger, LostCause, Plan, Receipt, RunPolicy, Step};

const KILL_AT: StepNumber = StepNumber(2);

/// A ledger with a run of three steps in a row; no step is dispatched.
fn ledger() -> (tempfile::TempDir, Ledger) {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(&folder.path().join("l"), &Environment::system()).unwrap();
    let step = |id: &str, after: &[&str]| Step {
        id: id.to_owned(),
        outputs: vec![id.to_owned()],
        after: after.iter().map(|&id| id.to_owned()).collect(),
        ..Step::default()
    };
    let steps = vec![step("a", &[]), step("b", &["a"]), step("c", &["b"])];
    let plan = Plan { steps, ..Plan::default() };
    ledger.start_run(RUN, &plan, RunPolicy::default()).unwrap();
    (folder, ledger)
}

fn dispatch(ledger: &Ledger) -> plan_ledger::plan::Token {
    let run = ledger.state().unwrap().run_named(RUN).unwrap().id;
    ledger.dispatch(run, "stub/1").unwrap().unwrap().token
}

/// Dispatches and completes the last steps with this output.
fn work(ledger: &Ledger, steps: usize, word: &str, cost: Cost) {
    for id in ["a", "b", "c"].iter().skip(3 - steps) {
        let output = Json::from(json!({ *id: word }));
        ledger
            .record_receipt(
                dispatch(ledger),
                Receipt { output: output.into(), cost, ..Receipt::default() },
            )
            .unwrap();
    }
}

fn finished(ledger: &Ledger, executions: [u32; 3]) -> FinishedRun {
    let hash = ledger.state_hash().unwrap().to_string();
    let executions = (1..).map(StepNumber).zip(executions).collect();
    FinishedRun {
        state: ledger.state().unwrap(),
        live_hash: hash.clone(),
        replay_hash: hash,
        executions,
    }
}

fn whole(word: &str, cost: Cost) -> FinishedRun {
    let (_folder, ledger) = ledger();
    work(&ledger, 3, word, cost);
    finished(&ledger, [1, 1, 1])
}

/// The evidence of a successful drill: killed while b was in flight.
fn evidence() -> KillEvidence {
    let (_folder, ledger) = ledger();
    let output = Json::from(json!({ "a": "x" }));
    ledger
        .record_receipt(dispatch(&ledger), Receipt { output: output.into(), ..Receipt::default() })
        .unwrap();
    let token = dispatch(&ledger);
    let at_kill = ledger.state().unwrap();
    ledger.report_lost(token, LostCause::RunnerDied, "").unwrap();
    work(&ledger, 2, "x", Cost::default());
    KillEvidence {
        kill_at: KILL_AT,
        skipped: None,
        first: ExitStatus::from_raw(SIGKILL),
        at_kill,
        killed: finished(&ledger, [1, 2, 1]),
        whole: whole("x", Cost::default()),
    }
}

/// The checks that fail on falsified evidence.
fn faults(falsify: impl FnOnce(&mut KillEvidence)) -> Vec<&'static str> {
    let mut evidence = evidence();
    falsify(&mut evidence);
    let checks = checks(&evidence, &DrillRuns::of(&evidence).ok().unwrap());
    let names: Vec<_> = checks.iter().filter(|each| !each.holds).map(|each| each.name).collect();
    let expected = if names.is_empty() { Code::Success } else { Code::Failed };
    assert_eq!(code(&checks), expected);
    names
}

#[test]
fn successful_drill_passes() {
    assert_eq!(faults(|_| ()), [""; 0]);
}

#[test]
fn wrong_execution_counts_are_found() {
    let count = |step, count| {
        faults(move |evidence| {
            evidence.killed.executions.insert(StepNumber(step), count);
        })
    };
    let (accepted, again) = ("nothing accepted ran twice", "dispatched again once");
    assert_eq!(count(1, 2), [accepted, again]);
    assert_eq!(count(1, 0), [accepted, again]);
    assert_eq!(count(2, 1), [again]);
    assert_eq!(count(2, 3), [again]);
    assert_eq!(count(3, 2), [again]);
    assert_eq!(faults(|evidence| evidence.killed.executions.clear()), [accepted, again]);
}

#[test]
fn missing_kill_is_found() {
    let ended = |raw| faults(move |evidence| evidence.first = ExitStatus::from_raw(raw));
    assert_eq!(ended(0), ["killed in flight"]);
    assert_eq!(ended(15), ["killed in flight"]);
    let elsewhere = faults(|evidence| evidence.kill_at = StepNumber(3));
    assert_eq!(elsewhere, ["killed in flight", "dispatched again once"]);
    let too_late = faults(|evidence| evidence.at_kill = evidence.killed.state.clone());
    assert!(too_late.contains(&"killed in flight"), "{too_late:?}");
}

#[test]
fn different_result_is_found() {
    let other = faults(|evidence| evidence.whole = whole("y", Cost::default()));
    assert_eq!(other, ["same variables"]);
    let unfinished = faults(|evidence| evidence.whole.state = evidence.at_kill.clone());
    assert_eq!(unfinished, ["same outcome", "same variables"]);
    let costly = Cost { money_micros: 0, tokens: 1 };
    assert_eq!(faults(|evidence| evidence.whole = whole("x", costly)), ["cost 0"]);
}

#[test]
fn different_or_missing_hashes_are_found() {
    let replay = ["replay equals live state"];
    assert_eq!(faults(|evidence| evidence.killed.live_hash.insert(0, '0')), replay);
    assert_eq!(faults(|evidence| evidence.whole.replay_hash.clear()), replay);
    let both = faults(|evidence| {
        evidence.killed.live_hash.clear();
        evidence.killed.replay_hash.clear();
    });
    assert_eq!(both, replay);
}
