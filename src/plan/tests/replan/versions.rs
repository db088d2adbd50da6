//! What a new version keeps, drops and asks for again.

use crate::plan::tests::support::*;
use crate::plan::*;

fn activated(events: &[Event]) -> PlanActivated {
    let found = events.iter().find_map(|event| match event {
        Event::PlanActivated(activated) => Some(activated.clone()),
        _ => None,
    });
    found.unwrap()
}

fn numbers(list: &[u32]) -> Vec<StepNumber> {
    list.iter().copied().map(StepNumber).collect()
}

fn changed(id: &str, after: &[&str]) -> Step {
    Step { goal: "something else".to_owned(), ..step(id, after) }
}

#[test]
fn unchanged_work_is_kept_and_new_steps_get_new_numbers() {
    let mut world =
        World::with(&plan(vec![step("a", &[]), step("b", &["a"])]), RunPolicy::default());
    world.work("a");
    let next = plan(vec![step("x", &[]), step("a", &[]), step("b", &["a", "x"])]);
    let change = activated(&world.propose(&next).unwrap());
    assert_eq!(change.numbers, numbers(&[3, 1, 2]));
    assert_eq!(change.preserved, numbers(&[1]));
    assert!(change.invalidated.is_empty() && change.removed.is_empty());
    assert_eq!(world.status("a"), StepStatus::Accepted);
    assert_eq!(world.status("b"), StepStatus::Waiting);
    world.work("x");
    world.work("b");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
}

#[test]
fn what_stands_on_changed_work_falls_with_it() {
    let chain = |a: Step| plan(vec![a, step("b", &["a"]), step("c", &["b"]), step("d", &[])]);
    let mut long = chain(step("a", &[]));
    long.steps.push(step("e", &["c"]));
    let mut world = World::with(&long, RunPolicy::default());
    for id in ["a", "b", "c", "d"] {
        world.work(id);
    }
    let mut next = chain(changed("a", &[]));
    next.steps.push(step("e", &["c"]));
    let change = activated(&world.propose(&next).unwrap());
    assert_eq!(change.preserved, numbers(&[4]));
    assert_eq!(change.invalidated, numbers(&[1, 2, 3]));
    assert_eq!(world.status("a"), StepStatus::Ready);
    assert_eq!(world.status("b"), StepStatus::Waiting);
    assert_eq!(world.step("c").accepted(), None);
    assert_eq!(world.status("d"), StepStatus::Accepted);
}

#[test]
fn a_new_input_that_is_not_settled_takes_back_what_was_accepted() {
    let mut world = World::with(
        &plan(vec![step("a", &[]), step("b", &[]), step("c", &["a"])]),
        RunPolicy::default(),
    );
    world.work("a");
    world.work("c");
    let next = plan(vec![step("a", &[]), step("b", &[]), step("c", &["a", "b"])]);
    let change = activated(&world.propose(&next).unwrap());
    assert_eq!((change.preserved, change.invalidated), (numbers(&[1]), numbers(&[3])));
}

#[test]
fn work_done_before_its_inputs_stays_done() {
    let mut world = World::with(
        &plan(vec![step("a", &[]), step("b", &["a"]), step("c", &[])]),
        RunPolicy::default(),
    );
    let steps = vec![(StepNumber(2), "file".to_owned())];
    world.ask(Command::TakeOver { run: RunId(1), steps }).unwrap();
    let next = plan(vec![step("a", &[]), step("b", &["a"])]);
    let change = activated(&world.propose(&next).unwrap());
    assert_eq!((change.preserved, change.removed), (numbers(&[2]), numbers(&[3])));
}

#[test]
fn attempts_of_steps_that_fell_or_left_are_revoked() {
    let once = Step { idempotent: Some(Idempotence::No), ..step("c", &[]) };
    let steps = vec![step("a", &[]), step("b", &[]), once.clone(), step("d", &[])];
    let mut world = World::with(&plan(steps), RunPolicy::default());
    for id in ["a", "b", "c", "d"] {
        world.deal(id);
    }
    let c = Step { goal: "new".to_owned(), ..once };
    let next = plan(vec![changed("a", &[]), c, step("d", &[])]);
    let events = world.propose(&next).unwrap();
    assert_eq!(
        kinds(&events),
        "PlanProposed PlanSteps PlanReviewed AttemptLost AttemptLost AttemptLost PlanActivated"
    );
    let change = activated(&events);
    assert_eq!(change.preserved, numbers(&[4]));
    assert_eq!(change.invalidated, numbers(&[1, 3]));
    assert_eq!(change.removed, numbers(&[2]));
    assert_eq!(world.status("a"), StepStatus::Ready);
    assert_eq!(world.status("b"), StepStatus::Removed);
    assert_eq!(world.status("c"), StepStatus::InDoubt, "no plan tells what the attempt did");
    assert_eq!(world.status("d"), StepStatus::Dispatched);
    assert_eq!(world.state.in_flight.len(), 1);
}

#[test]
fn a_number_is_never_given_to_another_step() {
    let mut world = World::with(&plan(vec![step("a", &[]), step("b", &[])]), RunPolicy::default());
    world.work("b");
    world.propose(&plan(vec![step("a", &[]), step("c", &[])])).unwrap();
    let back = plan(vec![step("d", &[]), step("b", &[]), step("a", &[])]);
    let change = activated(&world.propose(&back).unwrap());
    assert_eq!(change.numbers, numbers(&[4, 2, 1]));
    assert_eq!(change.removed, numbers(&[3]));
    assert_eq!(world.status("b"), StepStatus::Ready, "what was removed is done again");
}

#[test]
fn a_new_plan_saves_a_failed_run() {
    let two = plan(vec![step("a", &[]), step("b", &["a"])]);
    let mut world = World::with(&two, RunPolicy::default());
    world.fail("a", FailureClass::Deterministic);
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Failed));
    let events = world.propose(&plan(vec![step("a", &[])])).unwrap();
    assert_eq!(kinds(&events), "PlanProposed PlanSteps PlanReviewed RunReopened PlanActivated");
    assert_eq!(world.status("a"), StepStatus::Ready);
    assert_eq!(world.step("a").failures, 0);
    world.work("a");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
}

#[test]
fn a_failed_run_waits_for_the_approval_of_its_new_plan() {
    let policy = RunPolicy { approval: ApprovalPolicy::Required, ..RunPolicy::default() };
    let first = plan(vec![step("a", &[])]);
    let mut world = World::with(&first, policy);
    let approve = |version, plan: &Plan| Command::ReviewPlan {
        run: RunId(1),
        version,
        hash: draft(plan).hash,
        review: Review::Approved,
        by: "ann".to_owned(),
        note: String::new(),
    };
    world.ask(approve(1, &first)).unwrap();
    world.fail("a", FailureClass::Deterministic);
    let second = plan(vec![changed("a", &[])]);
    world.propose(&second).unwrap();
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Failed));
    world.ask(approve(2, &second)).unwrap();
    assert_eq!(world.run().status, RunStatus::Running);
    assert_eq!(world.status("a"), StepStatus::Ready);
}

fn gated(members: &[&str], needs: BarrierNeeds, first: Step) -> Plan {
    let mut steps = vec![first];
    steps.extend(members.iter().skip(1).map(|id| step(id, &[])));
    steps.push(step("z", &["gate"]));
    steps.push(step("end", &["z"]));
    Plan { barriers: vec![barrier("gate", members, needs)], ..plan(steps) }
}

#[test]
fn a_released_barrier_stays_released_while_its_need_is_met() {
    let needs = BarrierNeeds::AtLeast(1);
    let first = gated(&["a", "b"], needs, step("a", &[]));
    let mut world = World::with(&first, RunPolicy::default());
    world.work("a");
    world.work("z");
    let wider = gated(&["a", "b", "c"], needs, step("a", &[]));
    let events = world.propose(&wider).unwrap();
    assert!(!kinds(&events).contains("Barrier"), "it is not released a second time");
    assert_eq!(activated(&events).preserved, [world.number("a"), world.number("z")]);
    assert_eq!(world.run().barriers["gate"].status, BarrierStatus::Released);
}

#[test]
fn a_barrier_that_lost_a_member_closes_and_takes_back_what_passed_it() {
    let first = gated(&["a", "b"], BarrierNeeds::All, step("a", &[]));
    let mut world = World::with(&first, RunPolicy::default());
    for id in ["a", "b", "z"] {
        world.work(id);
    }
    let next = gated(&["a", "b"], BarrierNeeds::All, changed("a", &[]));
    let change = activated(&world.propose(&next).unwrap());
    assert_eq!(change.invalidated, [world.number("a"), world.number("z")]);
    assert_eq!(world.run().barriers["gate"].status, BarrierStatus::Closed);
    assert_eq!(world.status("z"), StepStatus::Waiting);
}

#[test]
fn what_passed_a_barrier_falls_with_any_member_that_had_worked_for_it() {
    let first = gated(&["a", "b"], BarrierNeeds::Any, step("a", &[]));
    let mut world = World::with(&first, RunPolicy::default());
    for id in ["a", "b", "z"] {
        world.work(id);
    }
    let next = gated(&["a", "b"], BarrierNeeds::Any, changed("a", &[]));
    let change = activated(&world.propose(&next).unwrap());
    assert_eq!(change.invalidated, [world.number("a"), world.number("z")]);
    assert_eq!(world.run().barriers["gate"].status, BarrierStatus::Released);
    assert_eq!(world.status("z"), StepStatus::Ready);
}

#[test]
fn a_barrier_that_needs_more_takes_back_what_passed_it() {
    let first = gated(&["a", "b"], BarrierNeeds::Any, step("a", &[]));
    let mut world = World::with(&first, RunPolicy::default());
    world.work("a");
    world.work("z");
    let next = gated(&["a", "b"], BarrierNeeds::All, step("a", &[]));
    let change = activated(&world.propose(&next).unwrap());
    assert_eq!(change.invalidated, [world.number("z")]);
    assert_eq!(world.status("z"), StepStatus::Waiting);
}

#[test]
fn a_new_member_of_an_all_barrier_takes_back_what_passed_it() {
    let first = gated(&["a", "b"], BarrierNeeds::All, step("a", &[]));
    let mut world = World::with(&first, RunPolicy::default());
    for id in ["a", "b", "z"] {
        world.work(id);
    }
    let next = gated(&["a", "b", "c"], BarrierNeeds::All, step("a", &[]));
    let change = activated(&world.propose(&next).unwrap());
    assert_eq!(change.invalidated, [world.number("z")]);
    assert_eq!(world.status("z"), StepStatus::Waiting);
}

#[test]
fn an_attempt_that_goes_on_counts_for_its_new_owner() {
    let owned = |owner: &str| Step { owner: Some(owner.to_owned()), ..step("a", &[]) };
    let mut world = World::with(&plan(vec![owned("x")]), RunPolicy::default());
    let token = world.deal("a");
    world.propose(&plan(vec![owned("y")])).unwrap();
    assert_eq!(world.state.in_flight_by_owner, [("y".to_owned(), 1)].into());
    world.report(token, Receipt::default());
    assert!(world.state.in_flight_by_owner.is_empty());
}
