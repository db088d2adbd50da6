//! The views say what is so, at the commit that made it so.

use super::support::*;
use crate::plan::*;

fn gated() -> World {
    let gate = Gate { question: "publish?".to_owned(), ..Gate::default() };
    let mut all = plan(vec![
        Step { title: "Write it".to_owned(), ..step("write", &[]) },
        Step { gate: Some(Box::new(gate)), ..step("publish", &["write"]) },
        step("tell", &["publish"]),
    ]);
    all.title = "Article".to_owned();
    all.budget.money_micros = Some(1000);
    World::with(&all, trust())
}

/// Goal: a person sees what is done, what is going on and what needs them, right after each
/// command.
#[test]
fn a_user_sees_progress_work_and_what_needs_them() {
    let mut world = gated();
    let view = |world: &World| user_view(world.run(), world.now);
    assert_eq!(view(&world).to_string(), "Article: 0 of 3 steps\n  a step is ready to begin");
    let token = world.deal("write");
    world.now += 60 * SECOND;
    let works = Activity::Works { step: StepNumber(1), what: "Write it".to_owned(), attempt: 1 };
    assert_eq!(view(&world).now, [works]);
    world.report(token, Receipt::default());
    let asked = view(&world);
    assert_eq!((asked.done, asked.of, asked.expected), (1, 3, None));
    let Some(Need::Answer { question, options, shown, .. }) = asked.needs.first() else {
        panic!("{asked:?}");
    };
    assert_eq!(options[..], [YES, NO, SKIP]);
    assert!(asked.to_string().contains("somebody must answer question "), "{asked}");
    let (question, shown) = (*question, *shown);
    let (by, note) = ("ann".to_owned(), String::new());
    world.ask(Command::Answer { question, answer: YES.into(), by, note, shown }).unwrap();
    let goes_on = view(&world);
    assert!(goes_on.needs.is_empty());
    assert_eq!(goes_on.expected, Some(2 * 60 * SECOND), "a minute for each of two steps");
    world.work("publish");
    world.work("tell");
    assert_eq!(view(&world).now, [Activity::Ended(Ending::Done)]);
}

/// Goal: an operator sees who has what until when, and what failed last.
#[test]
fn an_operator_sees_flights_failures_and_sums() {
    let mut world = gated();
    world.fail("write", FailureClass::Transient);
    world.deal("write");
    let view = operator_view(world.run(), world.now);
    let flight = &view.in_flight[0];
    assert_eq!(
        (flight.attempt, flight.worker.as_str(), flight.id.as_str()),
        (2, "worker-1", "write")
    );
    assert_eq!(view.due, Some(flight.lease_until));
    assert_eq!(view.last_failure.as_ref().map(|(step, class, _)| (step.0, *class)), {
        Some((1, FailureClass::Transient))
    });
    assert_eq!((view.tally.failures, view.tally.retries, view.account.attempts), (1, 1, 2));
    assert_eq!((view.versions.len(), view.active), (1, 1));
    assert_eq!(view.remaining.money_micros, Some(1000));
}

/// Goal: the eight fields with which an agent goes on.
#[test]
fn the_execution_state_has_its_fields() {
    let mut world = gated();
    let token = world.deal("write");
    let cost = Cost { money_micros: 300, tokens: 7 };
    let side_effects = vec!["post/1".to_owned()];
    world.report(token, Receipt { side_effects, cost, ..Receipt::default() });
    world.now += 5 * SECOND;
    let state = execution_state(world.run(), world.now);
    let ids = |list: &std::collections::BTreeMap<StepNumber, String>| {
        list.values().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids(&state.completed), "write");
    assert_eq!((ids(&state.current), ids(&state.pending)), (String::new(), "publish tell".into()));
    assert_eq!((state.retries_used, state.plan_version, state.elapsed), (0, 1, 5 * SECOND));
    assert_eq!(state.budget_remaining.money_micros, Some(700));
    assert!(state.side_effects_committed["post/1"] > 0);
}
