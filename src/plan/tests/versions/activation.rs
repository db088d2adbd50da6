//! The work that the activation of a new plan version keeps, invalidates and dispatches again.

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
    let mut ledger =
        TestLedger::with(&plan(vec![step("a", &[]), step("b", &["a"])]), RunPolicy::default());
    ledger.complete("a");
    let next = plan(vec![step("x", &[]), step("a", &[]), step("b", &["a", "x"])]);
    let change = activated(&ledger.propose(&next).unwrap());
    assert_eq!(change.numbers, numbers(&[3, 1, 2]));
    assert_eq!(change.preserved, numbers(&[1]));
    assert!(change.invalidated.is_empty() && change.removed.is_empty());
    assert_eq!(ledger.status("a"), StepStatus::Accepted);
    assert_eq!(ledger.status("b"), StepStatus::Waiting);
    ledger.complete("x");
    ledger.complete("b");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
}

#[test]
fn dependents_of_changed_work_are_invalidated() {
    let chain = |a: Step| plan(vec![a, step("b", &["a"]), step("c", &["b"]), step("d", &[])]);
    let mut long = chain(step("a", &[]));
    long.steps.push(step("e", &["c"]));
    let mut ledger = TestLedger::with(&long, RunPolicy::default());
    for id in ["a", "b", "c", "d"] {
        ledger.complete(id);
    }
    let mut next = chain(changed("a", &[]));
    next.steps.push(step("e", &["c"]));
    let change = activated(&ledger.propose(&next).unwrap());
    assert_eq!(change.preserved, numbers(&[4]));
    assert_eq!(change.invalidated, numbers(&[1, 2, 3]));
    assert_eq!(ledger.status("a"), StepStatus::Ready);
    assert_eq!(ledger.status("b"), StepStatus::Waiting);
    assert_eq!(ledger.step("c").accepted(), None);
    assert_eq!(ledger.status("d"), StepStatus::Accepted);
}

#[test]
fn new_unmet_dependency_invalidates_accepted_work() {
    let mut ledger = TestLedger::with(
        &plan(vec![step("a", &[]), step("b", &[]), step("c", &["a"])]),
        RunPolicy::default(),
    );
    ledger.complete("a");
    ledger.complete("c");
    let next = plan(vec![step("a", &[]), step("b", &[]), step("c", &["a", "b"])]);
    let change = activated(&ledger.propose(&next).unwrap());
    assert_eq!((change.preserved, change.invalidated), (numbers(&[1]), numbers(&[3])));
}

#[test]
fn earlier_work_is_kept_without_its_inputs() {
    let mut ledger = TestLedger::with(
        &plan(vec![step("a", &[]), step("b", &["a"]), step("c", &[])]),
        RunPolicy::default(),
    );
    let steps = vec![(StepNumber(2), "file".to_owned())];
    ledger.execute(Command::MarkDoneBefore { run: RunId(1), steps }).unwrap();
    let next = plan(vec![step("a", &[]), step("b", &["a"])]);
    let change = activated(&ledger.propose(&next).unwrap());
    assert_eq!((change.preserved, change.removed), (numbers(&[2]), numbers(&[3])));
}

#[test]
fn attempts_of_invalidated_and_removed_steps_are_revoked() {
    let once = Step { idempotent: Some(Idempotence::No), ..step("c", &[]) };
    let steps = vec![step("a", &[]), step("b", &[]), once.clone(), step("d", &[])];
    let mut ledger = TestLedger::with(&plan(steps), RunPolicy::default());
    for id in ["a", "b", "c", "d"] {
        ledger.dispatch(id);
    }
    let c = Step { goal: "new".to_owned(), ..once };
    let next = plan(vec![changed("a", &[]), c, step("d", &[])]);
    let events = ledger.propose(&next).unwrap();
    assert_eq!(
        kinds(&events),
        "PlanProposed PlanSteps PlanReviewed AttemptLost AttemptLost AttemptLost PlanActivated"
    );
    let change = activated(&events);
    assert_eq!(change.preserved, numbers(&[4]));
    assert_eq!(change.invalidated, numbers(&[1, 3]));
    assert_eq!(change.removed, numbers(&[2]));
    assert_eq!(ledger.status("a"), StepStatus::Ready);
    assert_eq!(ledger.status("b"), StepStatus::Removed);
    assert_eq!(
        ledger.status("c"),
        StepStatus::OutcomeUnknown,
        "no plan knows what the attempt did"
    );
    assert_eq!(ledger.status("d"), StepStatus::Dispatched);
    assert_eq!(ledger.state.in_flight.len(), 1);
}

#[test]
fn step_numbers_are_never_reused() {
    let mut ledger =
        TestLedger::with(&plan(vec![step("a", &[]), step("b", &[])]), RunPolicy::default());
    ledger.complete("b");
    ledger.propose(&plan(vec![step("a", &[]), step("c", &[])])).unwrap();
    let back = plan(vec![step("d", &[]), step("b", &[]), step("a", &[])]);
    let change = activated(&ledger.propose(&back).unwrap());
    assert_eq!(change.numbers, numbers(&[4, 2, 1]));
    assert_eq!(change.removed, numbers(&[3]));
    assert_eq!(ledger.status("b"), StepStatus::Ready, "a removed step that returns is done again");
}

#[test]
fn new_plan_reopens_a_failed_run() {
    let two = plan(vec![step("a", &[]), step("b", &["a"])]);
    let mut ledger = TestLedger::with(&two, RunPolicy::default());
    ledger.fail("a", FailureClass::Deterministic);
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Failed));
    let events = ledger.propose(&plan(vec![step("a", &[])])).unwrap();
    assert_eq!(kinds(&events), "PlanProposed PlanSteps PlanReviewed RunReopened PlanActivated");
    assert_eq!(ledger.status("a"), StepStatus::Ready);
    assert_eq!(ledger.step("a").failures, 0);
    ledger.complete("a");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
}

#[test]
fn failed_run_waits_for_the_approval_of_its_new_plan() {
    let policy = RunPolicy { approval: ApprovalPolicy::Required, ..RunPolicy::default() };
    let first = plan(vec![step("a", &[])]);
    let mut ledger = TestLedger::with(&first, policy);
    let approve = |version, plan: &Plan| Command::ReviewPlan {
        run: RunId(1),
        version,
        hash: draft(plan).hash,
        review: Review::Approved,
        by: "ann".to_owned(),
        note: String::new(),
    };
    ledger.execute(approve(1, &first)).unwrap();
    ledger.fail("a", FailureClass::Deterministic);
    let second = plan(vec![changed("a", &[])]);
    ledger.propose(&second).unwrap();
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Failed));
    ledger.execute(approve(2, &second)).unwrap();
    assert_eq!(ledger.run().status, RunStatus::Running);
    assert_eq!(ledger.status("a"), StepStatus::Ready);
}

fn gated(members: &[&str], needs: BarrierNeeds, first: Step) -> Plan {
    let mut steps = vec![first];
    steps.extend(members.iter().skip(1).map(|id| step(id, &[])));
    steps.push(step("z", &["gate"]));
    steps.push(step("end", &["z"]));
    Plan { barriers: vec![barrier("gate", members, needs)], ..plan(steps) }
}

#[test]
fn released_barrier_stays_released_while_met() {
    let needs = BarrierNeeds::AtLeast(1);
    let first = gated(&["a", "b"], needs, step("a", &[]));
    let mut ledger = TestLedger::with(&first, RunPolicy::default());
    ledger.complete("a");
    ledger.complete("z");
    let wider = gated(&["a", "b", "c"], needs, step("a", &[]));
    let events = ledger.propose(&wider).unwrap();
    assert!(!kinds(&events).contains("Barrier"), "the barrier is not released a second time");
    assert_eq!(activated(&events).preserved, [ledger.number("a"), ledger.number("z")]);
    assert_eq!(ledger.run().barriers["gate"].status, BarrierStatus::Released);
}

#[test]
fn barrier_that_lost_a_member_invalidates_its_dependents() {
    let first = gated(&["a", "b"], BarrierNeeds::All, step("a", &[]));
    let mut ledger = TestLedger::with(&first, RunPolicy::default());
    for id in ["a", "b", "z"] {
        ledger.complete(id);
    }
    let next = gated(&["a", "b"], BarrierNeeds::All, changed("a", &[]));
    let change = activated(&ledger.propose(&next).unwrap());
    assert_eq!(change.invalidated, [ledger.number("a"), ledger.number("z")]);
    assert_eq!(ledger.run().barriers["gate"].status, BarrierStatus::Closed);
    assert_eq!(ledger.status("z"), StepStatus::Waiting);
}

#[test]
fn invalidated_member_invalidates_what_passed_the_barrier() {
    let first = gated(&["a", "b"], BarrierNeeds::Any, step("a", &[]));
    let mut ledger = TestLedger::with(&first, RunPolicy::default());
    for id in ["a", "b", "z"] {
        ledger.complete(id);
    }
    let next = gated(&["a", "b"], BarrierNeeds::Any, changed("a", &[]));
    let change = activated(&ledger.propose(&next).unwrap());
    assert_eq!(change.invalidated, [ledger.number("a"), ledger.number("z")]);
    assert_eq!(ledger.run().barriers["gate"].status, BarrierStatus::Released);
    assert_eq!(ledger.status("z"), StepStatus::Ready);
}

#[test]
fn stricter_barrier_invalidates_its_dependents() {
    let first = gated(&["a", "b"], BarrierNeeds::Any, step("a", &[]));
    let mut ledger = TestLedger::with(&first, RunPolicy::default());
    ledger.complete("a");
    ledger.complete("z");
    let next = gated(&["a", "b"], BarrierNeeds::All, step("a", &[]));
    let change = activated(&ledger.propose(&next).unwrap());
    assert_eq!(change.invalidated, [ledger.number("z")]);
    assert_eq!(ledger.status("z"), StepStatus::Waiting);
}

#[test]
fn new_member_of_an_all_barrier_invalidates_its_dependents() {
    let first = gated(&["a", "b"], BarrierNeeds::All, step("a", &[]));
    let mut ledger = TestLedger::with(&first, RunPolicy::default());
    for id in ["a", "b", "z"] {
        ledger.complete(id);
    }
    let next = gated(&["a", "b", "c"], BarrierNeeds::All, step("a", &[]));
    let change = activated(&ledger.propose(&next).unwrap());
    assert_eq!(change.invalidated, [ledger.number("z")]);
    assert_eq!(ledger.status("z"), StepStatus::Waiting);
}

#[test]
fn running_attempt_counts_for_its_new_owner() {
    let owned = |owner: &str| Step { owner: Some(owner.to_owned()), ..step("a", &[]) };
    let mut ledger = TestLedger::with(&plan(vec![owned("x")]), RunPolicy::default());
    let token = ledger.dispatch("a");
    ledger.propose(&plan(vec![owned("y")])).unwrap();
    assert_eq!(ledger.state.in_flight_by_owner, [("y".to_owned(), 1)].into());
    ledger.report(token, Receipt::default());
    assert!(ledger.state.in_flight_by_owner.is_empty());
}
