//! Requests for other plans, and how many there may be.

use crate::plan::tests::invariants;
use crate::plan::tests::support::*;
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
    invariants::check(&world.state);
}

/// Story: all was done, but a criterion of the plan did not hold, because a variable was wrong; so another plan
/// was asked for. Somebody set the variable right and retried. The answer was "its own criteria: tried
/// again", but nothing was written, and nothing judged.
#[test]
fn criteria_of_the_plan_are_judged_again_while_another_plan_is_asked_for() {
    let mut judged = with_replans(1, vec![step("a", &[])]);
    judged.test_criteria = vec![Criterion::Cel("ok".to_owned())];
    let mut world = World::with(&judged, RunPolicy::default());
    world.work("a");
    assert!(world.run().request.is_some());
    let retry = || Command::RetryFailed { run: RUN, by: by() };
    let events = world.ask(retry()).unwrap();
    assert_eq!(kinds(&events), "RunEnded RunReopened PlanVerdict ReplanRequested");
    assert_eq!(world.run().status, RunStatus::Running);
    invariants::check(&world.state);
    let (name, value) = ("ok".to_owned(), Json::new(&serde_json::json!(true)));
    let set = Command::SetVariable { run: RUN, name, value, expected_version: None, by: by() };
    world.ask(set).unwrap();
    assert_eq!(kinds(&world.ask(retry()).unwrap()), "RunEnded RunReopened PlanVerdict RunEnded");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
    invariants::check(&world.state);
}

/// Story: a version waited for a yes, with a deadline, when the criteria were to be judged again. It still does.
#[test]
fn a_version_that_waits_for_a_yes_still_does_when_criteria_are_judged_again() {
    let mut judged = with_replans(1, vec![step("a", &[])]);
    judged.test_criteria = vec![Criterion::Cel("ok".to_owned())];
    let mut world = World::with(&judged, RunPolicy::default());
    world.work("a");
    let gate = Gate { question: "go?".to_owned(), deadline_seconds: Some(9), ..Gate::default() };
    judged.gate = Some(gate);
    world.propose(&judged).unwrap();
    let asked = |world: &World| world.run().questions.values().next().unwrap().asked.clone();
    let before = asked(&world);
    world.ask(Command::RetryFailed { run: RUN, by: by() }).unwrap();
    assert_eq!(asked(&world), before);
    invariants::check(&world.state);
}

fn review(world: &mut World, version: u32, review: Review) -> Result<String, Rejection> {
    let hash = world.run().versions[usize::try_from(version).unwrap() - 1].hash;
    let note = String::new();
    let reviewed = Command::ReviewPlan { run: RUN, version, hash, review, by: by(), note };
    world.ask(reviewed).map(|events| kinds(&events))
}

fn reviewed(max_replans: u32) -> (World, Plan) {
    let first = with_replans(max_replans, vec![step("a", &[])]);
    let policy = RunPolicy { approval: ApprovalPolicy::Required, ..RunPolicy::default() };
    (World::with(&first, policy), first)
}

/// Story: a plan allowed one later version. Three were proposed, while none was active yet, and all of
/// them were approved.
#[test]
fn versions_that_wait_for_a_review_count_when_they_are_approved() {
    let (mut world, first) = reviewed(1);
    review(&mut world, 1, Review::Approved).unwrap();
    for id in ["x", "y", "z"] {
        let mut other = first.clone();
        other.steps.push(step(id, &[]));
        world.propose(&other).unwrap();
    }
    review(&mut world, 2, Review::Approved).unwrap();
    assert_eq!(review(&mut world, 3, Review::Approved), Err(Rejection::ReplanLimit(1)));
    assert_eq!(review(&mut world, 3, Review::Rejected).unwrap(), "PlanReviewed");
    assert_eq!((world.run().replans, world.run().active), (1, 2));
    invariants::check(&world.state);
}

/// Story: the first version was rejected, and the second one was the first that anybody worked by. It used up
/// the one replan that was allowed.
#[test]
fn the_first_version_that_becomes_active_is_no_replan() {
    let (mut world, first) = reviewed(1);
    review(&mut world, 1, Review::Rejected).unwrap();
    let mut other = first.clone();
    other.steps.push(step("x", &[]));
    world.propose(&other).unwrap();
    review(&mut world, 2, Review::Approved).unwrap();
    assert_eq!((world.run().replans, world.run().active), (0, 2));
    other.steps.push(step("y", &[]));
    world.propose(&other).unwrap();
    review(&mut world, 3, Review::Approved).unwrap();
    assert_eq!((world.run().replans, world.run().active), (1, 3));
    invariants::check(&world.state);
}

/// Story: nobody answered in time whether a version may become active, and yes was to be taken for the answer;
/// but the plan had had its one other version by then. The question stays open, without a deadline.
#[test]
fn a_yes_that_comes_by_itself_is_no_version_too_many() {
    let first = with_replans(1, vec![step("a", &[])]);
    let mut world = World::with(&first, RunPolicy::default());
    let on_timeout = Some(OnTimeout::Answer(YES.to_owned()));
    let gate = Gate { question: "go?".to_owned(), on_timeout, ..Gate::default() };
    for (title, seconds) in [("one", 5), ("two", 5)] {
        let gate = Some(Gate { deadline_seconds: Some(seconds), ..gate.clone() });
        world.propose(&Plan { title: title.to_owned(), gate, ..first.clone() }).unwrap();
    }
    world.now += 6 * SECOND;
    world.ask(Command::Tick).unwrap();
    assert_eq!((world.run().replans, world.run().active), (1, 2));
    assert_eq!(world.run().questions.len(), 1);
    assert_eq!(world.state.next_due(), None);
    assert_eq!(world.ask(Command::Tick).unwrap(), []);
    invariants::check(&world.state);
}
