//! The history of whole runs: metrics, traces, and comparisons.

use std::sync::Arc;

use plan_ledger::internals::ledger::{
    AttemptEndKind, DivergenceCause, Metrics, RunMetrics, ValueChange,
};
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::plan::RetryPolicy;
use plan_ledger::{
    Command, Cost, Environment, Event, FailureClass, ForkPoint, Json, Ledger, LedgerView,
    LostCause, Outcome, Plan, Receipt, RunId, RunPolicy, Step, StepNumber, StepStatus,
};

use serde_json::Value;

use crate::golden::deterministic;
use crate::lab::dir;
use crate::time_travel::{environment as random_environment, play};

fn environment(disk: &SimDisk) -> Environment {
    Environment { storage: Arc::new(disk.clone()), ..deterministic() }
}

fn ledger(disk: &SimDisk) -> Ledger {
    Ledger::create("a.ledger".as_ref(), &environment(disk)).unwrap()
}

fn step(id: &str, after: &[&str], goal: &str) -> Step {
    Step {
        id: id.to_owned(),
        goal: goal.to_owned(),
        after: after.iter().map(|&name| name.to_owned()).collect(),
        outputs: vec![format!("of_{id}")],
        retry: Some(Box::new(RetryPolicy { max_attempts: 2, ..RetryPolicy::default() })),
        ..Step::default()
    }
}

fn plan(goal: &str) -> Plan {
    let mut first = step("first", &[], goal);
    first.estimate_seconds = Some(10);
    let steps = vec![first, step("second", &["first"], "go on"), step("third", &["second"], "end")];
    Plan { steps, ..Plan::default() }
}

fn brought(value: u32) -> Receipt {
    let cost = Cost { money_micros: 100, tokens: 1 };
    Receipt { output: Json::new(&serde_json::json!(value)).into(), cost, ..Receipt::default() }
}

fn failed(class: FailureClass) -> Receipt {
    let message = "it broke".to_owned();
    let outcome = Outcome::Failed { class, message, payload: Json::default() };
    Receipt { outcome, ..Receipt::default() }
}

/// Dispatch the next step and report; returns its id.
fn work(ledger: &Ledger, run: RunId, receipt: Receipt) -> String {
    let task = ledger.dispatch(run, "worker").unwrap().unwrap();
    ledger.record_receipt(task.token, receipt).unwrap();
    task.step.id.clone()
}

/// Goal: the metrics of a run are the same, counted over its own records and over all.
/// Method: a random history; then a snapshot of all counters, which is used once it exists.
#[test]
fn metrics_of_one_run_equal_those_counted_over_all() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &random_environment(&disk, 10_000)).unwrap();
    play(&ledger, 3, 3_000);
    let all = |ledger: &Ledger| {
        let runs: Vec<RunId> = ledger.state().unwrap().runs.keys().copied().collect();
        runs.into_iter().map(|run| ledger.metrics(run).unwrap()).collect::<Vec<_>>()
    };
    let from_runs = all(&ledger);
    ledger.snapshot::<Metrics>().unwrap();
    assert_eq!(from_runs, all(&ledger));
    let is_told = |each: &RunMetrics| each.retry_exhaustion.of > 0 && each.replan_frequency.of > 0;
    assert!(from_runs.iter().filter(|each| is_told(each)).count() > 2, "{from_runs:?}");
}

/// Goal: each figure is counted as its definition states.
#[test]
fn metrics_match_their_definitions() {
    let disk = SimDisk::new();
    let ledger = ledger(&disk);
    let run = ledger.start_run("a", &plan("one"), RunPolicy::default()).unwrap();
    // Classified as deterministic, retried by hand, and accepted: the class was wrong.
    work(&ledger, run, failed(FailureClass::Deterministic));
    ledger.execute(&Command::RetryFailed { run, by: "ann".to_owned() }).unwrap();
    work(&ledger, run, brought(1));
    // Classified as transient, which was right.
    work(&ledger, run, failed(FailureClass::Transient));
    work(&ledger, run, brought(2));
    let before = ledger.metrics(run).unwrap();
    assert_eq!(before.first_classification.to_string(), "1 of 2");
    assert_eq!(before.retry_exhaustion.to_string(), "0 of 2");
    assert_eq!(before.state_trust.to_string(), "0 of 0");
    // Another plan invalidates both; the first gives a new output, the second the same again.
    ledger.propose(run, &plan("two"), "a better way").unwrap();
    let fallen = ledger.metrics(run).unwrap();
    assert_eq!(fallen.state_trust.to_string(), "0 of 2");
    assert_eq!(fallen.replan_frequency.to_string(), "1 of 1");
    work(&ledger, run, brought(9));
    work(&ledger, run, brought(2));
    // Classified as transient, until the attempts are used up.
    work(&ledger, run, failed(FailureClass::Transient));
    work(&ledger, run, failed(FailureClass::Transient));
    let after = ledger.metrics(run).unwrap();
    // The other plan answered no failure.
    assert_eq!(after.replan_precision.to_string(), "0 of 0");
    assert_eq!(after.first_classification.to_string(), "1 of 3");
    assert_eq!(after.retry_exhaustion.to_string(), "1 of 3");
    assert_eq!(after.replan_frequency.to_string(), "1 of 1");
    assert_eq!(after.step_time.of, 10_000_000);
    assert!(after.step_time.part > 0 && after.budget_use.is_empty());
    assert_eq!(ledger.state().unwrap().runs[&run].counters.exhausted, 1);
    // From a snapshot, and without the lock, they are the same.
    ledger.snapshot::<Metrics>().unwrap();
    assert_eq!(ledger.metrics(run).unwrap(), after);
    let view = LedgerView::open("a.ledger".as_ref(), &environment(&disk)).unwrap();
    assert_eq!(view.metrics(run).unwrap(), after);
    assert!(ledger.metrics(RunId(7)).unwrap_err().rejection().is_some());
}

/// Apply a change to a tree that has the change's old value.
fn change_in(tree: &mut Value, change: &ValueChange) {
    let (name, place) = change.path.split_last().unwrap();
    let mut at = tree;
    for name in place {
        at = at.as_object_mut().unwrap().entry(name).or_insert_with(|| serde_json::json!({}));
    }
    let fields = at.as_object_mut().unwrap();
    assert_eq!(fields.get(name), change.before.as_ref(), "{change}");
    match &change.after {
        Some(after) => drop(fields.insert(name.clone(), after.clone())),
        None => drop(fields.remove(name)),
    }
}

/// Goal: the changes of all records lead to the run as it is, and the costs of all steps add up
/// to what it spent.
#[test]
fn trace_has_all_changes_and_costs() {
    let disk = SimDisk::new();
    let ledger = ledger(&disk);
    let mut all = plan("one");
    all.steps[0].cost_estimate = Some(Cost { money_micros: 70, tokens: 0 });
    let run = ledger.start_run("a", &all, RunPolicy::default()).unwrap();
    let lost = ledger.dispatch(run, "worker").unwrap().unwrap().token;
    ledger.report_lost(lost, LostCause::RunnerDied, "gone").unwrap();
    work(&ledger, run, brought(1));
    work(&ledger, run, failed(FailureClass::Transient));
    all.steps[2].goal = "end otherwise".to_owned();
    ledger.propose(run, &all, "a better end").unwrap();
    work(&ledger, run, brought(2));
    work(&ledger, run, brought(3));
    let trace = ledger.trace(run).unwrap();
    let mut tree = serde_json::json!({});
    for change in trace.records.iter().flat_map(|record| &record.changes) {
        change_in(&mut tree, change);
    }
    let state = ledger.state().unwrap();
    let now = &state.runs[&run];
    assert_eq!(tree["status"], serde_json::json!({"ended": "done"}));
    assert_eq!(tree["account"], serde_json::to_value(now.account).unwrap());
    assert_eq!(tree["variables"], serde_json::to_value(&now.variables).unwrap());
    for (place, step) in now.steps.iter().enumerate() {
        let found = &tree["steps"][(place + 1).to_string()];
        assert_eq!(*found, serde_json::to_value(step).unwrap());
    }
    let spent = trace.costs.values().map(|cost| cost.spent).fold(Cost::default(), Cost::plus);
    assert_eq!(spent, state.runs[&run].account.spent);
    assert_eq!(trace.costs[&StepNumber(1)].estimated.money_micros, 70);
    let replans: Vec<_> = trace.records.iter().filter_map(|each| each.replan.as_ref()).collect();
    assert_eq!(replans.len(), 1, "the first version replaces none");
    assert_eq!(replans[0].changed[0].id, "third");
    let of_run = |event: &Option<Event>| event.as_ref().and_then(Event::run) == Some(run);
    let all = ledger.replay(1).unwrap();
    assert_eq!(trace.records.len(), all.iter().filter(|record| of_run(&record.event)).count());
}

/// Goal: two runs diverge where an attempt first ended differently, whatever the order of
/// dispatch.
#[test]
fn runs_diverge_at_the_first_different_attempt() {
    let disk = SimDisk::new();
    let ledger = ledger(&disk);
    let one = ledger.start_run("one", &plan("same"), RunPolicy::default()).unwrap();
    let other = ledger.start_run("other", &plan("same"), RunPolicy::default()).unwrap();
    for run in [one, other] {
        work(&ledger, run, brought(1));
    }
    let same = ledger.compare(one, other).unwrap();
    assert!(same.divergence.is_none() && same.steps.is_empty() && same.variables.is_empty());
    work(&ledger, one, brought(2));
    work(&ledger, other, failed(FailureClass::Transient));
    work(&ledger, other, brought(2));
    work(&ledger, one, brought(3));
    work(&ledger, other, brought(4));
    let found = ledger.compare(one, other).unwrap();
    let parting = found.divergence.unwrap();
    assert_eq!(parting.what, DivergenceCause::Attempt { step: "second".to_owned(), attempt: 1 });
    let kinds = found.attempts[0].ends.each_ref().map(|end| end.as_ref().map(|end| end.kind));
    assert_eq!(
        kinds,
        [Some(AttemptEndKind::Succeeded), Some(AttemptEndKind::Failed(FailureClass::Transient))]
    );
    assert_eq!(found.attempts.len(), 3, "second twice, and third, which brought another value");
    assert_eq!(found.variables.keys().collect::<Vec<_>>(), ["of_third"]);
    let second = &found.steps[0];
    assert_eq!((second.step.as_str(), second.attempts), ("second", [1, 2]));
    assert_eq!(second.status, [Some(StepStatus::Accepted); 2]);
    assert!(found.versions.is_empty() && found.plan.is_empty());
    assert_eq!(found.spent.map(|cost| cost.money_micros), [300, 300]);
}

/// Goal: a fork has the history of its parent, and diverges from it after the fork.
#[test]
fn fork_diverges_from_its_parent_after_the_fork() {
    let disk = SimDisk::new();
    let ledger = ledger(&disk);
    let parent = ledger.start_run("parent", &plan("same"), RunPolicy::default()).unwrap();
    work(&ledger, parent, brought(1));
    let fork = ledger.fork(parent, ForkPoint::After(ledger.head().seq), "fork").unwrap();
    assert!(ledger.compare(parent, fork).unwrap().divergence.is_none());
    work(&ledger, parent, brought(2));
    work(&ledger, fork, brought(5));
    let found = ledger.compare(parent, fork).unwrap();
    assert_eq!(
        found.divergence.unwrap().what,
        DivergenceCause::Attempt { step: "second".to_owned(), attempt: 1 }
    );
    assert_eq!(found.spent.map(|cost| cost.money_micros), [200, 200]);
}
