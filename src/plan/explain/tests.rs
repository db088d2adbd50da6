//! `explain` agrees with the result of a claim, and its text names the root causes.

use super::*;
use crate::plan::tests::support::*;
use crate::plan::*;

/// Checks that the explanation of a step agrees with the result of a claim.
pub(in crate::plan) fn agrees_with_claim(state: &State, run: &Run, step: StepNumber) {
    let why = explain(state, run.id, step, state.time).unwrap();
    let worker = "w".to_owned();
    let claim = Command::Dispatch {
        process: None,
        secret: SecretHash::default(),
        run: run.id,
        step: Some(step),
        worker,
        route: Route::default(),
        lease: None,
    };
    let has_dispatch = |events: &Vec<Event>| {
        let dispatched = |event: &Event| {
            matches!(event, Event::Step(record)
                if matches!(record.event, StepEvent::Dispatched(_)))
        };
        events.iter().any(dispatched)
    };
    let claimed = decide(state, state.time, &claim);
    let may = claimed.as_ref().is_ok_and(has_dispatch);
    assert_eq!(why.may_be_dispatched(), may, "{why}\n{claimed:?}\n{:?}", run.step(step));
    for (number, entry) in &why.steps {
        let is_over = entry.status.is_closed() || entry.status == StepStatus::Ready;
        // A step in a dependency cycle still names its dependencies.
        assert_eq!(entry.reasons.is_empty(), is_over, "step {number} of {why}");
        for next in entry.reasons.iter().flat_map(BlockReason::leads_to) {
            assert!(why.steps.contains_key(&next), "{next} is missing in {why}");
        }
    }
    if let Err(Rejection::CapReached { scope, .. }) = claimed {
        let named = |reason: &BlockReason| matches!(reason, BlockReason::Cap { scope: of, .. } if *of == scope);
        assert!(why.run_reasons.iter().any(named), "{why}");
    }
}

/// The explanation follows the whole chain down to the active attempt and the end of its lease.
#[test]
fn chain_ends_at_the_active_attempt() {
    let mut all = plan(vec![
        step("root", &[]),
        step("left", &["root"]),
        step("right", &["root"]),
        step("join", &["both"]),
        step("last", &["join"]),
    ]);
    all.barriers.push(barrier("both", &["left", "right"], BarrierNeeds::All));
    let mut ledger = TestLedger::with(&all, trust());
    ledger.dispatch("root");
    let number = ledger.number("last");
    let why = explain(&ledger.state, RunId(1), number, ledger.now).unwrap();
    assert_eq!(why.steps.len(), 5, "each step once");
    assert_eq!(why.roots(), [ledger.number("root")].into());
    let text = why.to_string();
    let expected = "\
step 5 (last) is waiting
  step 4 (join) is waiting
    barrier both is not released: 0 of 2 arrived, missing step 2 (left), step 3 (right)
      step 2 (left) is waiting
        step 1 (root) is dispatched
          worker-1 holds the lease of step 1 (root), ";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("step 1 (root) is dispatched, see above"), "{text}");
}

/// A false precondition names its variables and the remaining steps that may set them.
#[test]
fn precondition_names_the_steps_that_may_satisfy_it() {
    let mut waits = step("waits", &[]);
    waits.preconditions = vec!["score > 600".to_owned()].into();
    let mut writer = step("writer", &[]);
    writer.outputs = vec!["score".to_owned()];
    let mut ledger = TestLedger::with(&plan(vec![waits, writer]), trust());
    let why = |ledger: &TestLedger| {
        explain(&ledger.state, RunId(1), ledger.number("waits"), ledger.now).unwrap()
    };
    let before = why(&ledger);
    let Some(BlockReason::Precondition { writers, variables, ruling, .. }) =
        before.steps[&StepNumber(1)].reasons.first()
    else {
        panic!("{before}");
    };
    assert_eq!((writers.len(), variables.len(), *ruling), (1, 1, Some(Ruling::Fail)));
    assert!(before.to_string().contains("may be set by step 2 (writer)"), "{before}");
    ledger.complete("writer");
    let after = why(&ledger);
    assert!(after.to_string().contains("no remaining step sets it"), "{after}");
    assert_eq!(after.request.unwrap().from, Some(StepNumber(1)));
}

/// A full cap names the attempts that count against it, a budget its shortage, a gate the person.
#[test]
fn limits_and_gates_name_attempts_shortages_and_people() {
    let gate = Gate {
        question: "go?".to_owned(),
        to: Some("ann".to_owned()),
        deadline_seconds: Some(60),
        ..Gate::default()
    };
    let mut all = plan(vec![
        Step { tags: vec!["gpu".to_owned()].into(), ..step("one", &[]) },
        Step { tags: vec!["gpu".to_owned()].into(), ..step("two", &[]) },
        Step { gate: Some(Box::new(gate)), ..step("gated", &[]) },
    ]);
    all.caps.tags.insert("gpu".to_owned(), 1);
    all.budget.attempts = Some(1);
    let mut ledger = TestLedger::with(&all, trust());
    ledger.dispatch("one");
    let text = |ledger: &TestLedger, id: &str| {
        explain(&ledger.state, RunId(1), ledger.number(id), ledger.now).unwrap().to_string()
    };
    let two = text(&ledger, "two");
    assert!(two.contains(
        "the cap of 1 for tag gpu in the run is reached: worker-1 holds the lease of step 1"
    ));
    assert!(two.contains("run 1's budget of attempts does not cover it: 1 spent"), "{two}");
    let gated = text(&ledger, "gated");
    assert!(gated.contains("ann was asked (question "), "{gated}");
    assert!(gated.contains("go?; yes|no|skip), 60 s left"), "{gated}");
}

/// Unknown runs and steps are rejected, and a long chain needs no recursion.
#[test]
fn unknown_steps_and_long_chains_are_handled() {
    let id = |number: u32| format!("s{number}");
    let chain = |number: u32| match number {
        0 => step("s0", &[]),
        _ => step(&id(number), &[&id(number - 1)]),
    };
    let ledger = TestLedger::with(&plan((0..20_000).map(chain).collect()), trust());
    let why = explain(&ledger.state, RunId(1), StepNumber(20_000), ledger.now).unwrap();
    assert_eq!((why.steps.len(), why.roots().len()), (20_000, 1));
    assert!(why.to_string().lines().count() < 30);
    let ask = |run, step| explain(&ledger.state, run, step, 0).unwrap_err();
    assert_eq!(ask(RunId(2), StepNumber(1)), Rejection::NoSuchRun);
    assert_eq!(ask(RunId(1), StepNumber(20_001)), Rejection::NoSuchStep(StepNumber(20_001)));
}
