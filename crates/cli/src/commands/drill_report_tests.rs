//! Goal: a drill that found a fault fails, and names the fault. Method: the evidence of a drill
//! that went well, falsified in one place at a time.

use super::*;
use plan_ledger::ledger::{Environment, Ledger};
use plan_ledger::plan::{LostCause, Plan, Receipt, RunPolicy, Step};

const KILL_AT: StepNumber = StepNumber(2);

/// A ledger with a run of three steps in a row, of which nothing is dealt yet.
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

fn deal(ledger: &Ledger) -> plan_ledger::plan::AttemptToken {
    let run = ledger.state().unwrap().run_named(RUN).unwrap().id;
    ledger.dispatch(run, "stub/1").unwrap().unwrap().token
}

/// Deal and do the next steps, their output made of this word.
fn work(ledger: &Ledger, steps: usize, word: &str, cost: Cost) {
    for id in ["a", "b", "c"].iter().skip(3 - steps) {
        let output = Json::from(json!({ *id: word }));
        ledger
            .record_receipt(
                deal(ledger),
                Receipt { output: output.into(), cost, ..Receipt::default() },
            )
            .unwrap();
    }
}

fn half(ledger: &Ledger, executions: [u32; 3]) -> Half {
    let hash = ledger.state_hash().unwrap().to_string();
    let executions = (1..).map(StepNumber).zip(executions).collect();
    Half { state: ledger.state().unwrap(), live_hash: hash.clone(), replay_hash: hash, executions }
}

fn whole(word: &str, cost: Cost) -> Half {
    let (_folder, ledger) = ledger();
    work(&ledger, 3, word, cost);
    half(&ledger, [1, 1, 1])
}

/// What a drill that went well leaves: killed while b was in flight.
fn evidence() -> Evidence {
    let (_folder, ledger) = ledger();
    let output = Json::from(json!({ "a": "x" }));
    ledger
        .record_receipt(deal(&ledger), Receipt { output: output.into(), ..Receipt::default() })
        .unwrap();
    let token = deal(&ledger);
    let at_kill = ledger.state().unwrap();
    ledger.report_lost(token, LostCause::RunnerDied, "").unwrap();
    work(&ledger, 2, "x", Cost::default());
    Evidence {
        kill_at: KILL_AT,
        first: ExitStatus::from_raw(KILLED),
        at_kill,
        killed: half(&ledger, [1, 2, 1]),
        whole: whole("x", Cost::default()),
    }
}

/// What does not hold of evidence that was falsified so.
fn faults(falsify: impl FnOnce(&mut Evidence)) -> Vec<&'static str> {
    let mut evidence = evidence();
    falsify(&mut evidence);
    let checks = checks(&evidence, &Runs::of(&evidence).ok().unwrap());
    let names: Vec<_> = checks.iter().filter(|each| !each.holds).map(|each| each.name).collect();
    let expected = if names.is_empty() { Code::Fine } else { Code::Failed };
    assert_eq!(code(&checks), expected);
    names
}

#[test]
fn a_drill_that_went_well_passes() {
    assert_eq!(faults(|_| ()), [""; 0]);
}

#[test]
fn wrong_counts_of_executions_are_found() {
    let count = |step, count| {
        faults(move |evidence| {
            evidence.killed.executions.insert(StepNumber(step), count);
        })
    };
    let (accepted, again) = ("nothing accepted ran twice", "dealt again once");
    assert_eq!(count(1, 2), [accepted, again]);
    assert_eq!(count(1, 0), [accepted, again]);
    assert_eq!(count(2, 1), [again]);
    assert_eq!(count(2, 3), [again]);
    assert_eq!(count(3, 2), [again]);
    assert_eq!(faults(|evidence| evidence.killed.executions.clear()), [accepted, again]);
}

#[test]
fn a_kill_that_was_none_is_found() {
    let ended = |raw| faults(move |evidence| evidence.first = ExitStatus::from_raw(raw));
    assert_eq!(ended(0), ["killed in flight"]);
    assert_eq!(ended(15), ["killed in flight"]);
    let elsewhere = faults(|evidence| evidence.kill_at = StepNumber(3));
    assert_eq!(elsewhere, ["killed in flight", "dealt again once"]);
    let too_late = faults(|evidence| evidence.at_kill = evidence.killed.state.clone());
    assert!(too_late.contains(&"killed in flight"), "{too_late:?}");
}

#[test]
fn another_end_is_found() {
    let other = faults(|evidence| evidence.whole = whole("y", Cost::default()));
    assert_eq!(other, ["same variables"]);
    let unfinished = faults(|evidence| evidence.whole.state = evidence.at_kill.clone());
    assert_eq!(unfinished, ["same outcome", "same variables"]);
    let dear = Cost { money_micros: 0, tokens: 1 };
    assert_eq!(faults(|evidence| evidence.whole = whole("x", dear)), ["cost 0"]);
}

#[test]
fn hashes_that_differ_or_are_missing_are_found() {
    let replay = ["replay equals live state"];
    assert_eq!(faults(|evidence| evidence.killed.live_hash.insert(0, '0')), replay);
    assert_eq!(faults(|evidence| evidence.whole.replay_hash.clear()), replay);
    let both = faults(|evidence| {
        evidence.killed.live_hash.clear();
        evidence.killed.replay_hash.clear();
    });
    assert_eq!(both, replay);
}
