//! Requests for other plans, and how many there may be.

use super::books;
use super::support::*;
use crate::plan::*;

const RUN: RunId = RunId(1);

fn by() -> String {
    "ana".to_owned()
}

fn with_replans(max: u32, steps: Vec<Step>) -> Plan {
    let mut limited = plan(steps);
    limited.failure.max_replans = Some(max);
    limited
}

/// Story: the planner was asked for more steps, since few were open, when one of them failed for good. The
/// decision was to ask for another plan, but no request was written beside the one for more. The planner
/// said that there was no more to do, and the run failed with both of its replans left.
#[test]
fn a_failure_asks_for_another_plan_while_more_steps_are_asked_for() {
    let mut extended = with_replans(2, vec![step("a", &[])]);
    (extended.continues, extended.extend_at) = (true, Some(3));
    let mut world = World::with(&extended, RunPolicy::default());
    assert_eq!(world.run().request.as_ref().unwrap().trigger, ReplanTrigger::Extension);
    let events = world.fail("a", FailureClass::Deterministic);
    assert_eq!(kinds(&events), "ReceiptRecorded FailureDecided ReplanRequested");
    let trigger = world.run().request.as_ref().unwrap().trigger.clone();
    assert!(matches!(trigger, ReplanTrigger::Failure { .. }));
    extended.steps[0].goal = "do it otherwise".to_owned();
    let events = world.propose(&extended).unwrap();
    assert!(kinds(&events).ends_with("PlanActivated ReplanRequested"), "{}", kinds(&events));
    assert_eq!(world.run().replans, 1);
    assert_eq!(world.run().request.as_ref().unwrap().trigger, ReplanTrigger::Extension);
    books::check(&world.state);
}
