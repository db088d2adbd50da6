//! `ledger inspect` about the past: any state, what changed between two, why a step waited then.
//!
//! Method: what the binary says at every record is compared with what the library folds.

use std::collections::BTreeMap;

use plan_ledger::internals::ledger::ChangedField;
use plan_ledger::plan::explain;
use plan_ledger::{Json, Ledger, LedgerView, Plan, Receipt, RunPolicy, StepNumber, state_hash};
use serde_json::{Value, json};

use super::inspect::{dispatch, environment, look, place, reopen, small};

fn view(dir: &std::path::Path) -> LedgerView {
    LedgerView::open(dir, &environment()).unwrap()
}

fn last(dir: &std::path::Path) -> u64 {
    view(dir).fold(u64::MAX).unwrap().state.seq
}

/// Goal: at every record, the state that is shown is the one that the records up to it fold to.
#[test]
fn every_record_shows_its_state() {
    let place = small();
    for seq in 1..=last(&place.dir) {
        let state = view(&place.dir).state_at(seq).unwrap();
        let number = seq.to_string();
        let runs = look(&place.dir, &["runs", "--at", &number, "--json"]);
        assert_eq!(runs.of_type("state")[0]["hash"], state_hash(&state).to_string());
        look(&place.dir, &["runs", "--at", &number]).has(&format!("state {}", state_hash(&state)));
        if state.runs.is_empty() {
            continue;
        }
        let json = look(&place.dir, &["runs", "small", "--at", &number, "--json"]);
        let shown = &json.of_type("state")[0];
        assert_eq!(shown["hash"], state_hash(&state).to_string(), "record {seq}");
        let steps = json.of_type("step_state");
        let statuses = state.runs.values().flat_map(|run| &run.steps);
        let statuses: Vec<String> =
            statuses.map(|step| step.status.to_string().replace(' ', "_")).collect();
        let told: Vec<&str> = steps.iter().map(|step| step["status"].as_str().unwrap()).collect();
        assert_eq!(told, statuses, "record {seq}");
        look(&place.dir, &["runs", "small", "--at", &number])
            .has(&format!("state {}", state_hash(&state)));
    }
}

/// Goal: why a step waits is what the rules say, of every step at every record; and once it may be
/// dispatched, the answer is a place in the queue.
#[test]
fn why_agrees_with_the_rules_at_every_record() {
    let place = small();
    for seq in 5..=last(&place.dir) {
        let state = view(&place.dir).state_at(seq).unwrap();
        let run = state.runs.values().next().unwrap();
        for number in (1..=6).map(StepNumber) {
            let found = explain(&state, run.id, number, state.time).unwrap();
            let (step, at) = (format!("#{number}"), seq.to_string());
            let look = look(&place.dir, &["why", "small", &step, "--at", &at, "--json"]);
            let told = &look.of_type("why")[0];
            assert_eq!(told["may_be_dispatched"], found.may_be_dispatched(), "{number} at {seq}");
            assert_eq!(told["roots"], json!(found.roots()), "{number} at {seq}");
            assert_eq!(told["steps"].as_array().unwrap().len(), found.steps.len());
        }
    }
    let waits = look(&place.dir, &["why", "small", "last"]);
    waits
        .has("why #5 of run small (1): waiting for people: 2 items")
        .has("  step 5 (last) is waiting")
        .has("barrier gate is not released: 1 of 2 arrived, missing step 2 (slow), step 3 (mail)")
        .has("to continue, type:")
        .has("small mail did-not-happen")
        .has("small slow");
    look(&place.dir, &["why", "small", "flaky", "--at", "6"])
        .has("worker-1 holds the lease of step 1 (flaky), until 2027-01-15T08:")
        .has("the state after record 6");
    look(&place.dir, &["why", "small", "flaky", "--at", "5"])
        .has("it can be dispatched: place 1 of 3");
}

/// The fields of a run that are lists by name: an empty one is none.
const LISTS: [&str; 6] =
    ["barriers", "variables", "questions", "effects", "plan_verdicts", "estimates"];

/// A tree of the fields that changes lead to.
fn put(tree: &mut Value, path: &[String], value: Option<&Value>) {
    match (path, value) {
        ([], Some(value)) => *tree = value.clone(),
        ([], None) => *tree = Value::Null,
        ([last], None) => {
            tree.as_object_mut().unwrap().remove(last);
        }
        ([first, rest @ ..], value) => {
            if !tree.is_object() {
                *tree = json!({});
            }
            let fields = tree.as_object_mut().unwrap();
            put(fields.entry(first.clone()).or_insert(Value::Null), rest, value);
        }
    }
}

fn replay(mut tree: Value, changes: &[ChangedField]) -> Value {
    for changed in changes {
        let whose = changed.run.map_or_else(|| "ledger".to_owned(), |run| run.to_string());
        let path = [&[whose], changed.change.path.as_slice()].concat();
        put(&mut tree, &path, changed.change.after.as_ref());
    }
    for run in tree.as_object_mut().unwrap().values_mut() {
        run.as_object_mut().unwrap().retain(|name, value| {
            !(LISTS.contains(&name.as_str())
                && value.as_object().is_some_and(serde_json::Map::is_empty))
        });
    }
    tree
}

/// Goal: for any two records, what is said to have changed leads from the state of the one to that
/// of the other, and only records in between are said to have changed it.
#[test]
fn changes_lead_from_any_record_to_any_later_one() {
    let place = small();
    let (view, last) = (view(&place.dir), last(&place.dir));
    let from_start: BTreeMap<u64, Value> =
        (0..=last).map(|seq| (seq, replay(json!({}), &view.changes(0, seq).unwrap().0))).collect();
    for from in 0..=last {
        for to in from..=last {
            let (changes, state) = view.changes(from, to).unwrap();
            assert_eq!(state.seq, to);
            assert_eq!(
                replay(from_start[&from].clone(), &changes),
                from_start[&to],
                "{from} to {to}"
            );
            for changed in &changes {
                assert_ne!(changed.change.before, changed.change.after);
                assert!(!changed.by.is_empty(), "{changed:?}");
                assert!(changed.by.iter().all(|seq| (from + 1..=to).contains(seq)), "{changed:?}");
            }
        }
    }
    assert!(view.changes(2, 1).is_err() && view.changes(1, last + 1).is_err());
}

/// Goal: people see which step changed, how, and by which record.
#[test]
fn a_difference_names_fields_and_records() {
    let place = small();
    let look = look(&place.dir, &["diff", "9", "6"]);
    look.has("from record 6 to 9: ")
        .has("run small (1)")
        .has("  step #1 flaky")
        .has("    attempts: 1 -> 2  (record 9)")
        .has("    failures: 0 -> 1  (record 8)");
}

/// Goal: the history of each step is exactly the records that are about it.
#[test]
fn histories_are_the_records_of_their_steps() {
    let place = small();
    let all = look(&place.dir, &["records", "--json"]).of_type("record");
    let of_step = |number: u64| -> Vec<Value> {
        let is_own = |record: &&Value| record["event"]["step"] == number;
        all.iter().filter(is_own).map(|record| record["seq"].clone()).collect()
    };
    for number in 1..=6 {
        let step = format!("#{number}");
        let told = look(&place.dir, &["step", "small", &step, "--json"]).of_type("record");
        let told: Vec<Value> = told.iter().map(|record| record["seq"].clone()).collect();
        assert_eq!(told, of_step(number), "step {number}");
    }
    assert!(of_step(2).len() > 4);
    let before = look(&place.dir, &["step", "small", "#1", "--at", "8", "--json"]);
    assert!(before.of_type("record").iter().all(|record| record["seq"].as_u64() <= Some(8)));
    look(&place.dir, &["step", "small", "#1"])
        .has("@6 receipt: failed (transient): no space left  +1s");
}

/// Goal: two runs are compared where they part; runs may be named by numbers.
#[test]
fn two_runs_are_told_apart() {
    let place = place();
    let ledger = Ledger::create(&place.dir, &environment()).unwrap();
    let plan: Plan =
        serde_json::from_value(json!({"steps": [{"id": "a"}, {"id": "b", "after": ["a"]}]}))
            .unwrap();
    for (name, steps) in [("one", 2), ("two", 1)] {
        let run = ledger.start_run(name, &plan, RunPolicy::default()).unwrap();
        for _ in 0..steps {
            let token = dispatch(&ledger, run);
            ledger.record_receipt(token, Receipt::default()).unwrap();
        }
    }
    ledger.close().unwrap();
    let told = look(&place.dir, &["diff", "one", "two"]);
    assert_eq!(told.code, 0);
    told.has("they diverge at attempt 1 of b: record").has("never of two").has("accepted");
    let json = look(&place.dir, &["diff", "#1", "#2", "--json"]);
    let found = &json.of_type("comparison")[0];
    assert_eq!(found["runs"], json!([1, 2]));
    assert_eq!(found["parting"]["step"], "b");
    assert_eq!(found["steps"][0]["status"], json!(["accepted", "ready"]));
    look(&place.dir, &["diff", "one", "one"]).has("no decision differs");
}

/// Goal: what is asked of the past does not see what came later.
#[test]
fn the_past_stays_as_it_was() {
    let place = small();
    let questions = [
        ["runs", "small", "--at", "12"].as_slice(),
        &["status", "--at", "12"],
        &["why", "small", "last", "--at", "12"],
        &["variables", "--at", "12"],
    ];
    let told = || -> Vec<Value> {
        let lines = |args: &&[&str]| look(&place.dir, &[*args, &["--json"]].concat()).lines();
        questions.iter().flat_map(lines).collect()
    };
    let before = told();
    let ledger = reopen(&place.dir);
    let run = ledger.state().unwrap().runs.keys().copied().next().unwrap();
    ledger.set_variable(run, "binary", Json::new(&json!(1)), None, "ann").unwrap();
    assert_eq!(told(), before);
}
