//! What is explained is what is so.

use super::*;
use crate::plan::tests::support::*;
use crate::plan::*;

/// Whether a step may be dealt, and why not, agree with what a claim of it would find.
pub(in crate::plan) fn agrees(state: &State, run: &Run, step: StepNumber) {
    let why = explain(state, run.id, step, state.time).unwrap();
    let worker = "w".to_owned();
    let claim = Command::Dispatch { run: run.id, step: Some(step), worker, lease: None };
    let is_dealt = |events: &Vec<Event>| {
        let dealt = |event: &Event| {
            matches!(event, Event::Step(record)
                if matches!(record.event, StepEvent::Dispatched(_)))
        };
        events.iter().any(dealt)
    };
    let claimed = decide(state, state.time, &claim);
    let may = claimed.as_ref().is_ok_and(is_dealt);
    assert_eq!(why.may_be_dealt(), may, "{why}\n{claimed:?}\n{:?}", run.step(step));
    for (number, entry) in &why.steps {
        let is_over = entry.status.is_closed() || entry.status == StepStatus::Ready;
        // A step that follows from nothing else (a cycle) still names what it waits for.
        assert_eq!(entry.reasons.is_empty(), is_over, "step {number} of {why}");
        for next in entry.reasons.iter().flat_map(Reason::leads_to) {
            assert!(why.steps.contains_key(&next), "{next} is missing in {why}");
        }
    }
    if let Err(Rejection::CapReached { scope, .. }) = claimed {
        let named =
            |reason: &Reason| matches!(reason, Reason::Cap { scope: of, .. } if *of == scope);
        assert!(why.run_reasons.iter().any(named), "{why}");
    }
}

/// Goal: the whole chain is named, down to whoever holds the root and until when.
#[test]
fn the_chain_ends_with_who_holds_the_root() {
    let mut all = plan(vec![
        step("root", &[]),
        step("left", &["root"]),
        step("right", &["root"]),
        step("join", &["both"]),
        step("last", &["join"]),
    ]);
    all.barriers.push(barrier("both", &["left", "right"], BarrierNeeds::All));
    let mut world = World::with(&all, trust());
    world.deal("root");
    let number = world.number("last");
    let why = explain(&world.state, RunId(1), number, world.now).unwrap();
    assert_eq!(why.steps.len(), 5, "each step once");
    assert_eq!(why.roots(), [world.number("root")].into());
    let text = why.to_string();
    let expected = "\
step 5 (last) is waiting
  step 4 (join) is waiting
    barrier both is closed: 0 of 2 arrived, missing step 2 (left), step 3 (right)
      step 2 (left) is waiting
        step 1 (root) is dispatched
          worker-1 has step 1 (root), for ";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("step 1 (root) is dispatched, see above"), "{text}");
}

/// Goal: a precondition names what it reads, and who is left that may set it.
#[test]
fn a_precondition_names_who_may_still_make_it_true() {
    let mut waits = step("waits", &[]);
    waits.preconditions = vec!["score > 600".to_owned()].into();
    let mut writer = step("writer", &[]);
    writer.outputs = vec!["score".to_owned()];
    let mut world = World::with(&plan(vec![waits, writer]), trust());
    let why =
        |world: &World| explain(&world.state, RunId(1), world.number("waits"), world.now).unwrap();
    let before = why(&world);
    let Some(Reason::Precondition { writers, variables, ruling, .. }) =
        before.steps[&StepNumber(1)].reasons.first()
    else {
        panic!("{before}");
    };
    assert_eq!((writers.len(), variables.len(), *ruling), (1, 1, Some(Ruling::Fail)));
    assert!(before.to_string().contains("may be set by step 2 (writer)"), "{before}");
    world.work("writer");
    let after = why(&world);
    assert!(after.to_string().contains("no step that is left sets it"), "{after}");
    assert_eq!(after.request.unwrap().from, Some(StepNumber(1)));
}

/// Goal: a full cap names everyone who holds a part of it; a budget what it lacks; a gate whom
/// it asked.
#[test]
fn limits_and_gates_name_holders_sums_and_people() {
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
    let mut world = World::with(&all, trust());
    world.deal("one");
    let text = |world: &World, id: &str| {
        explain(&world.state, RunId(1), world.number(id), world.now).unwrap().to_string()
    };
    let two = text(&world, "two");
    assert!(two.contains("the cap of 1 for tag gpu in run 1 is reached: worker-1 has step 1"));
    assert!(two.contains("run 1's budget of attempts does not cover it: 1 spent"), "{two}");
    let gated = text(&world, "gated");
    assert!(gated.contains("ann was asked (question "), "{gated}");
    assert!(gated.contains("go?; yes|no|skip), for 60 s more"), "{gated}");
}

/// Goal: what nobody may ask about is refused, and a long chain takes no recursion.
#[test]
fn odd_questions_have_an_answer() {
    let id = |number: u32| format!("s{number}");
    let chain = |number: u32| match number {
        0 => step("s0", &[]),
        _ => step(&id(number), &[&id(number - 1)]),
    };
    let world = World::with(&plan((0..20_000).map(chain).collect()), trust());
    let why = explain(&world.state, RunId(1), StepNumber(20_000), world.now).unwrap();
    assert_eq!((why.steps.len(), why.roots().len()), (20_000, 1));
    assert!(why.to_string().lines().count() < 30);
    let ask = |run, step| explain(&world.state, run, step, 0).unwrap_err();
    assert_eq!(ask(RunId(2), StepNumber(1)), Rejection::NoSuchRun);
    assert_eq!(ask(RunId(1), StepNumber(20_001)), Rejection::NoSuchStep(StepNumber(20_001)));
}
