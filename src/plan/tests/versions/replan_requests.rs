//! Replan requests and the replan limit.

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

/// A failure replaces an open request for more steps by a replan request. The run used to fail with
/// replans left when the planner had no more steps.
#[test]
fn failure_replaces_a_request_for_more_steps() {
    let mut extended = with_replans(2, vec![step("a", &[])]);
    (extended.continues, extended.extend_at) = (true, Some(3));
    let mut ledger = TestLedger::with(&extended, RunPolicy::default());
    assert_eq!(ledger.run().request.as_ref().unwrap().trigger, ReplanTrigger::Extension);
    let events = ledger.fail("a", FailureClass::Deterministic);
    assert_eq!(kinds(&events), "ReceiptRecorded FailureDecided ReplanRequested");
    let trigger = ledger.run().request.as_ref().unwrap().trigger.clone();
    assert!(matches!(trigger, ReplanTrigger::Failure { .. }));
    extended.steps[0].goal = "do it otherwise".to_owned();
    let events = ledger.propose(&extended).unwrap();
    assert!(kinds(&events).ends_with("PlanActivated ReplanRequested"), "{}", kinds(&events));
    assert_eq!(ledger.run().replans, 1);
    assert_eq!(ledger.run().request.as_ref().unwrap().trigger, ReplanTrigger::Extension);
    invariants::check(&ledger.state);
}

/// A rule that requests another plan while attempts are left names the failure, not the last attempt.
#[test]
fn trigger_of_a_replan_is_the_last_attempt_only_if_none_is_left() {
    let at_once = FailureRule {
        id: "at-once".to_owned(),
        then: FailureAction::Replan { from: None },
        ..FailureRule::default()
    };
    for (rules, attempts) in [(vec![at_once], 1), (Vec::new(), 3)] {
        let mut limited = with_replans(2, vec![step("a", &[])]);
        limited.failure.rules = rules;
        limited.steps[0].retry =
            Some(Box::new(RetryPolicy { max_attempts: 3, ..RetryPolicy::default() }));
        let mut ledger = TestLedger::with(&limited, RunPolicy::default());
        for _ in 0..attempts {
            ledger.fail("a", FailureClass::Transient);
        }
        let trigger = ledger.run().request.as_ref().unwrap().trigger.clone();
        let is_last = matches!(trigger, ReplanTrigger::RetriesExhausted { .. });
        assert_eq!(is_last, attempts == 3, "{trigger:?}");
    }
}

/// The criteria of the plan are judged again by a retry while a replan request is open.
#[test]
fn plan_criteria_are_rejudged_while_a_replan_is_requested() {
    let mut judged = with_replans(1, vec![step("a", &[])]);
    judged.test_criteria = vec![Criterion::Cel("ok".to_owned())];
    let mut ledger = TestLedger::with(&judged, RunPolicy::default());
    ledger.complete("a");
    assert!(ledger.run().request.is_some());
    let retry = || Command::RetryFailed { run: RUN, by: by() };
    let events = ledger.execute(retry()).unwrap();
    assert_eq!(kinds(&events), "RunEnded RunReopened PlanVerdict ReplanRequested");
    assert_eq!(ledger.run().status, RunStatus::Running);
    invariants::check(&ledger.state);
    ledger.set("ok", true);
    assert_eq!(
        kinds(&ledger.execute(retry()).unwrap()),
        "RunEnded RunReopened PlanVerdict RunEnded"
    );
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
    invariants::check(&ledger.state);
}

/// A version that waits for its approval still does after the plan's criteria are judged again.
#[test]
fn proposed_version_keeps_waiting_when_criteria_are_rejudged() {
    let mut judged = with_replans(1, vec![step("a", &[])]);
    judged.test_criteria = vec![Criterion::Cel("ok".to_owned())];
    let mut ledger = TestLedger::with(&judged, RunPolicy::default());
    ledger.complete("a");
    let gate = Gate { question: "go?".to_owned(), deadline_seconds: Some(9), ..Gate::default() };
    judged.gate = Some(gate);
    ledger.propose(&judged).unwrap();
    let asked = |ledger: &TestLedger| ledger.run().questions.values().next().unwrap().asked.clone();
    let before = asked(&ledger);
    ledger.execute(Command::RetryFailed { run: RUN, by: by() }).unwrap();
    assert_eq!(asked(&ledger), before);
    invariants::check(&ledger.state);
}

fn review(ledger: &mut TestLedger, version: u32, review: Review) -> Result<String, Rejection> {
    let hash = ledger.run().versions[usize::try_from(version).unwrap() - 1].hash;
    let note = String::new();
    let reviewed = Command::ReviewPlan { run: RUN, version, hash, review, by: by(), note };
    ledger.execute(reviewed).map(|events| kinds(&events))
}

fn reviewed(max_replans: u32) -> (TestLedger, Plan) {
    let first = with_replans(max_replans, vec![step("a", &[])]);
    let policy = RunPolicy { approval: ApprovalPolicy::Required, ..RunPolicy::default() };
    (TestLedger::with(&first, policy), first)
}

/// Versions that wait for review count against the limit when they are approved.
#[test]
fn versions_count_as_replans_when_approved() {
    let (mut ledger, first) = reviewed(1);
    review(&mut ledger, 1, Review::Approved).unwrap();
    for id in ["x", "y", "z"] {
        let mut other = first.clone();
        other.steps.push(step(id, &[]));
        ledger.propose(&other).unwrap();
    }
    review(&mut ledger, 2, Review::Approved).unwrap();
    assert_eq!(review(&mut ledger, 3, Review::Approved), Err(Rejection::ReplanLimit(1)));
    assert_eq!(review(&mut ledger, 3, Review::Rejected).unwrap(), "PlanReviewed");
    assert_eq!((ledger.run().replans, ledger.run().active), (1, 2));
    invariants::check(&ledger.state);
}

/// The first version that becomes active is not a replan.
#[test]
fn first_active_version_is_not_a_replan() {
    let (mut ledger, first) = reviewed(1);
    review(&mut ledger, 1, Review::Rejected).unwrap();
    let mut other = first.clone();
    other.steps.push(step("x", &[]));
    ledger.propose(&other).unwrap();
    review(&mut ledger, 2, Review::Approved).unwrap();
    assert_eq!((ledger.run().replans, ledger.run().active), (0, 2));
    other.steps.push(step("y", &[]));
    ledger.propose(&other).unwrap();
    review(&mut ledger, 3, Review::Approved).unwrap();
    assert_eq!((ledger.run().replans, ledger.run().active), (1, 3));
    invariants::check(&ledger.state);
}

/// A default approval beyond the replan limit leaves the question open, without a deadline.
#[test]
fn default_approval_respects_the_replan_limit() {
    let first = with_replans(1, vec![step("a", &[])]);
    let mut ledger = TestLedger::with(&first, RunPolicy::default());
    let on_timeout = Some(OnTimeout::Answer(YES.to_owned()));
    let gate = Gate { question: "go?".to_owned(), on_timeout, ..Gate::default() };
    for (title, seconds) in [("one", 5), ("two", 5)] {
        let gate = Some(Gate { deadline_seconds: Some(seconds), ..gate.clone() });
        ledger.propose(&Plan { title: title.to_owned(), gate, ..first.clone() }).unwrap();
    }
    ledger.now += 6 * SECOND;
    ledger.execute(Command::Tick).unwrap();
    assert_eq!((ledger.run().replans, ledger.run().active), (1, 2));
    assert_eq!(ledger.run().questions.len(), 1);
    assert_eq!(ledger.state.next_due(), None);
    assert_eq!(ledger.execute(Command::Tick).unwrap(), []);
    invariants::check(&ledger.state);
}
