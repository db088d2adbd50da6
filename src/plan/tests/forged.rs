//! Events that no command leads to: only a forged log holds them, and they change nothing.

use super::books;
use super::support::*;
use crate::plan::*;

#[expect(clippy::needless_pass_by_value, reason = "every event is made for the call")]
fn unchanged(world: &World, event: Event) {
    let mut state = world.state.clone();
    let seq = state.seq + 1;
    state.apply(seq, 0, &event);
    assert_eq!(state.seq, seq);
    assert_eq!(state.time, world.state.time, "time never goes back");
    state.seq = world.state.seq;
    if let Event::Step(record) = &event
        && let Some(run) = state.runs.get_mut(&record.run)
        && let Some(step) = run.steps.get_mut(record.step.index())
    {
        assert_eq!(step.last_seq, seq);
        step.last_seq = world.run().steps[record.step.index()].last_seq;
    }
    assert_eq!(format!("{state:?}"), format!("{:?}", world.state), "{event:?}");
    books::check(&state);
}

fn activation(version: u32, numbers: &[u32]) -> Event {
    Event::PlanActivated(PlanActivated {
        run: RunId(1),
        version,
        numbers: numbers.iter().copied().map(StepNumber).collect(),
        preserved: vec![],
        invalidated: vec![],
        removed: vec![],
        added: vec![],
        trusted: vec![],
        untrusted: vec![],
        request: 0,
    })
}

#[test]
fn an_activation_that_does_not_fit_its_version_changes_nothing() {
    let two = plan(vec![step("a", &[]), step("b", &["a"])]);
    let mut world = World::with(&two, RunPolicy::default());
    world.deal("a");
    for numbers in [&[1][..], &[1, 1], &[2, 1], &[1, 4_000_000_000], &[0, 1], &[1, 2, 3]] {
        unchanged(&world, activation(1, numbers));
    }
    unchanged(&world, activation(0, &[1, 2]));
    unchanged(&world, activation(2, &[1, 2]));
}

#[test]
fn steps_of_no_version_change_nothing() {
    let world = World::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let steps = draft(&plan(vec![step("x", &[])])).steps;
    for version in [0, 1, 2, u32::MAX] {
        let steps = steps.clone();
        unchanged(&world, Event::PlanSteps(PlanSteps { run: RunId(1), version, steps }));
    }
}

#[test]
fn step_events_out_of_place_change_only_the_last_sequence_number() {
    let mut world = World::with(&plan(vec![step("a", &[]), step("b", &[])]), RunPolicy::default());
    let token = world.deal("a");
    let other = AttemptToken(token.0 + 1_000);
    let event = |step, event| {
        Event::Step(StepRecord { run: RunId(1), step: StepNumber(step), previous: 0, event })
    };
    let receipt = Receipt::default();
    let recorded = ReceiptRecorded { token: other, receipt };
    unchanged(&world, event(1, StepEvent::ReceiptRecorded(recorded.clone())));
    unchanged(&world, event(2, StepEvent::ReceiptRecorded(recorded.clone())));
    unchanged(&world, event(0, StepEvent::ReceiptRecorded(recorded.clone())));
    unchanged(&world, event(99, StepEvent::ReceiptRecorded(recorded)));
    unchanged(&world, event(1, StepEvent::Accepted(Accepted { basis: AcceptedBasis::Receipt })));
    unchanged(&world, event(2, StepEvent::Reopened(Reopened { by: String::new() })));
    let renewed = LeaseRenewed { token: other, lease_until: 0 };
    unchanged(&world, event(1, StepEvent::LeaseRenewed(renewed)));
}

#[test]
fn events_of_unknown_runs_change_nothing() {
    let world = World::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let run = RunId(7);
    let reason = String::new();
    unchanged(&world, Event::RunEnded(RunEnded { run, ending: Ending::Done, reason }));
    unchanged(&world, Event::RunReopened(RunReopened { run, by: String::new() }));
    let change = BarrierChange::Released;
    let barrier = "gate".to_owned();
    for run in [RunId(1), run] {
        let barrier = barrier.clone();
        unchanged(
            &world,
            Event::Barrier(BarrierChanged { run, barrier, change, arrived: 0, needed: 0 }),
        );
    }
    let started = RunStarted { run: RunId(1), name: "other".into(), policy: trust() };
    unchanged(&world, Event::RunStarted(started));
}
