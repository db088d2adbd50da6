//! What each command does.

use super::support::*;
use crate::plan::*;

#[test]
fn a_run_starts_with_its_plan_active() {
    let mut world = World::new();
    let two = plan(vec![step("a", &[]), step("b", &["a"])]);
    let start = Command::StartRun {
        name: "demo".to_owned(),
        policy: RunPolicy::default(),
        draft: draft(&two),
    };
    let events = world.ask(start).unwrap();
    assert_eq!(kinds(&events), "RunStarted PlanProposed PlanSteps PlanReviewed PlanActivated");
    assert_eq!(world.run().status, RunStatus::Running);
    assert_eq!(world.status("a"), StepStatus::Ready);
    assert_eq!(world.status("b"), StepStatus::Waiting);
    assert_eq!(world.run().waiting_for(StepNumber(2)), [Dependency::Step(StepNumber(1))]);
    assert_eq!(*world.run().plan().unwrap(), two);
}

#[test]
fn a_plan_without_steps_is_done_at_once() {
    let world = World::with(&plan(Vec::new()), RunPolicy::default());
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
}

#[test]
fn large_plans_are_split_into_records_of_a_mebibyte() {
    let large = |n: u32| Step { goal: "x".repeat(300_000), ..step(&format!("s{n}"), &[]) };
    let seven = plan((0..7).map(large).collect());
    let world = World::with(&seven, RunPolicy::default());
    let sizes: Vec<usize> = world
        .log
        .iter()
        .filter_map(|(_, _, event)| match event {
            Event::PlanSteps(steps) => Some(steps.steps.len()),
            _ => None,
        })
        .collect();
    assert_eq!(sizes, [3, 3, 1]);
    assert_eq!(world.run().plan().unwrap(), &seven);
}

#[test]
fn a_required_approval_activates_the_plan_that_was_shown() {
    let policy = RunPolicy { approval: ApprovalPolicy::Required, ..RunPolicy::default() };
    let one = plan(vec![step("a", &[])]);
    let mut world = World::with(&one, policy);
    assert_eq!(world.run().status, RunStatus::Proposed);
    assert_eq!(world.ask(dispatch(None)), Err(Rejection::NoActivePlan));
    let approve = |hash| Command::ReviewPlan {
        run: RunId(1),
        version: 1,
        hash,
        review: Review::Approved,
        by: "ann".to_owned(),
        note: String::new(),
    };
    let expected = draft(&one).hash;
    let found = ContentHash::default();
    assert_eq!(world.ask(approve(found)), Err(Rejection::HashDiffers { expected, found }));
    let events = world.ask(approve(expected)).unwrap();
    assert_eq!(kinds(&events), "PlanReviewed PlanActivated");
    assert_eq!(world.status("a"), StepStatus::Ready);
    assert_eq!(world.ask(approve(expected)), Err(Rejection::NoSuchVersion(1)));
}

#[test]
fn a_rejected_version_is_never_activated() {
    let policy = RunPolicy { approval: ApprovalPolicy::Required, ..RunPolicy::default() };
    let one = plan(vec![step("a", &[])]);
    let mut world = World::with(&one, policy);
    let review = |review| Command::ReviewPlan {
        run: RunId(1),
        version: 1,
        hash: draft(&one).hash,
        review,
        by: "ann".to_owned(),
        note: "no".to_owned(),
    };
    assert_eq!(kinds(&world.ask(review(Review::Rejected)).unwrap()), "PlanReviewed");
    assert_eq!(world.ask(review(Review::Approved)), Err(Rejection::NoSuchVersion(1)));
    assert_eq!(world.run().status, RunStatus::Proposed);
}

#[test]
fn steps_are_dealt_by_priority_and_then_plan_order() {
    let urgent = Step { priority: 5, ..step("c", &[]) };
    let mut world =
        World::with(&plan(vec![step("a", &[]), step("b", &[]), urgent]), RunPolicy::default());
    for expected in ["c", "a", "b"] {
        world.ask(dispatch(None)).unwrap();
        assert_eq!(world.status(expected), StepStatus::Dispatched);
    }
    let nothing = Rejection::NothingReady { in_flight: 3, reported: 0, in_doubt: 0 };
    assert_eq!(world.ask(dispatch(None)), Err(nothing));
}

#[test]
fn a_dispatch_carries_lease_attempt_and_key() {
    let once = Step { lease_seconds: Some(30), ..step("a", &[]) };
    let keyed = Step { idempotent: Some(Idempotence::WithKey), ..step("b", &[]) };
    let mut world = World::with(&plan(vec![once, keyed]), RunPolicy::default());
    let dispatched = |events: Vec<Event>| match events.as_slice() {
        [Event::Step(StepRecord { event: StepEvent::Dispatched(dealt), .. })] => dealt.clone(),
        other => panic!("{other:?}"),
    };
    let first = dispatched(world.ask(dispatch(Some(StepNumber(1)))).unwrap());
    assert_eq!(first.lease_until, world.now + 30 * SECOND);
    assert_eq!((first.attempt, first.idempotency_key.as_str()), (1, "demo/a/1"));
    let second = dispatched(world.ask(dispatch(Some(StepNumber(2)))).unwrap());
    assert_eq!(second.lease_until, world.now + 900 * SECOND);
    assert_eq!(second.idempotency_key, "demo/b");
}

#[test]
fn a_claim_has_one_winner() {
    let mut world = World::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    world.deal("a");
    let held = Rejection::HeldBy {
        step: StepNumber(1),
        worker: "worker-1".to_owned(),
        lease_until: world.now + 900 * SECOND,
    };
    assert_eq!(world.try_deal("a"), Err(held));
}

#[test]
fn a_renewal_extends_the_lease_from_now() {
    let mut world = World::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let token = world.deal("a");
    world.now += 500 * SECOND;
    world.ask(Command::Renew { token, lease: None }).unwrap();
    assert_eq!(world.state.next_due(), Some(world.now + 900 * SECOND));
    world.now += 899 * SECOND;
    assert_eq!(world.ask(Command::Tick), Ok(Vec::new()));
}

#[test]
fn a_lease_is_as_long_as_its_claimer_wants_and_never_shortened() {
    let mut world = World::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let (run, worker) = (RunId(1), "worker-1".to_owned());
    let claim = Command::Dispatch { run, step: None, worker, lease: Some(60 * SECOND) };
    world.ask(claim).unwrap();
    let token = *world.state.in_flight.keys().next().unwrap();
    let begun = world.now;
    assert_eq!(world.state.next_due(), Some(begun + 60 * SECOND));
    for (lease, until) in [(Some(SECOND), 60), (Some(3_600 * SECOND), 3_600), (None, 3_600)] {
        world.ask(Command::Renew { token, lease }).unwrap();
        assert_eq!(world.state.next_due(), Some(begun + until * SECOND), "{lease:?}");
    }
}

#[test]
fn a_lease_ends_by_a_recorded_expiry_and_not_before() {
    let mut world = World::with(&plan(vec![step("a", &[]), step("b", &[])]), RunPolicy::default());
    let late = world.deal("a");
    let lost = world.deal("b");
    world.now += 1_000 * SECOND;
    // The lease ran out, but nothing says so yet.
    world.report(late, Receipt::default());
    assert_eq!(world.status("a"), StepStatus::Accepted);
    assert_eq!(kinds(&world.ask(Command::Tick).unwrap()), "AttemptLost");
    assert_eq!(world.status("b"), StepStatus::Ready);
    let refused = world.report(lost, Receipt::default());
    assert_eq!(kinds(&refused), "ReceiptRefused");
    assert_eq!(world.status("b"), StepStatus::Ready);
    assert_eq!(world.step("b").failures, 0);
}

#[test]
fn a_lost_attempt_that_may_not_be_repeated_is_in_doubt() {
    let once = Step { idempotent: Some(Idempotence::No), ..step("a", &[]) };
    let after = step("b", &["a"]);
    let mut world = World::with(&plan(vec![once, after]), RunPolicy::default());
    let lose = |world: &mut World, cause| {
        let token = world.deal("a");
        let detail = String::new();
        world.ask(Command::ReportLost { token, cause, detail }).unwrap();
        world.status("a")
    };
    assert_eq!(lose(&mut world, LostCause::Released), StepStatus::Ready);
    assert_eq!(lose(&mut world, LostCause::RunnerDied), StepStatus::InDoubt);
    let resolve = |finding| Command::ResolveDoubt {
        run: RunId(1),
        step: StepNumber(1),
        finding,
        by: "ann".to_owned(),
        evidence: String::new(),
    };
    world.ask(resolve(Finding::DidNotHappen)).unwrap();
    assert_eq!(lose(&mut world, LostCause::LeaseExpired), StepStatus::InDoubt);
    let events = world.ask(resolve(Finding::Landed)).unwrap();
    assert_eq!(kinds(&events), "DoubtResolved Accepted");
    let landed = AcceptedBasis::Landed { by: "ann".to_owned() };
    assert_eq!(world.step("a").accepted(), Some(&landed));
    assert_eq!(world.status("b"), StepStatus::Ready);
}

#[test]
fn an_owner_whose_cap_is_full_is_passed_over() {
    let owned = |id, owner: &str| Step { owner: Some(owner.to_owned()), ..step(id, &[]) };
    let mut steps = vec![owned("a", "x"), owned("b", "x"), owned("c", "y"), step("d", &[])];
    steps[0].priority = 1;
    let mut capped = plan(steps);
    capped.caps.owners.insert("x".to_owned(), 1);
    capped.caps.run = Some(3);
    let mut world = World::with(&capped, RunPolicy::default());
    for expected in ["a", "c", "d"] {
        world.ask(dispatch(None)).unwrap();
        assert_eq!(world.status(expected), StepStatus::Dispatched);
    }
    let full = Rejection::CapReached { scope: CapScope::Run(RunId(1)), limit: 3 };
    assert_eq!(world.ask(dispatch(None)), Err(full));
    let token = world.step("d").attempt().unwrap().token;
    world.report(token, Receipt::default());
    let full = Rejection::CapReached { scope: CapScope::Owner("x".to_owned()), limit: 1 };
    assert_eq!(world.ask(dispatch(None)), Err(full.clone()));
    assert_eq!(world.try_deal("b"), Err(full));
}

#[test]
fn recorded_caps_hold_over_all_runs_until_they_are_lifted() {
    let mut world = World::with(&plan(vec![step("a", &[]), step("b", &[])]), RunPolicy::default());
    let cap = |scope, limit| Command::SetCap { scope, limit, by: "ann".to_owned() };
    world.ask(cap(CapScope::Ledger, Some(1))).unwrap();
    world.deal("a");
    let full = Rejection::CapReached { scope: CapScope::Ledger, limit: 1 };
    assert_eq!(world.try_deal("b"), Err(full));
    world.ask(cap(CapScope::Ledger, None)).unwrap();
    world.ask(cap(CapScope::Run(RunId(1)), Some(1))).unwrap();
    let full = Rejection::CapReached { scope: CapScope::Run(RunId(1)), limit: 1 };
    assert_eq!(world.try_deal("b"), Err(full));
    world.ask(cap(CapScope::Run(RunId(1)), None)).unwrap();
    world.deal("b");
}

#[test]
fn work_that_was_done_before_is_taken_over() {
    let mut world =
        World::with(&plan(vec![step("a", &[]), step("b", &["a"])]), RunPolicy::default());
    let source = "tasks.json".to_owned();
    let take = Command::TakeOver { run: RunId(1), steps: vec![(StepNumber(1), source.clone())] };
    assert_eq!(kinds(&world.ask(take.clone()).unwrap()), "Accepted");
    assert_eq!(world.step("a").accepted(), Some(&AcceptedBasis::DoneBefore { source }));
    assert_eq!(world.status("b"), StepStatus::Ready);
    assert_eq!(world.ask(take), Ok(Vec::new()), "what is accepted is passed over");
}

#[test]
fn a_skipped_step_counts_as_settled() {
    let mut world =
        World::with(&plan(vec![step("a", &[]), step("b", &["a"])]), RunPolicy::default());
    let skip = |step| Command::Skip {
        run: RunId(1),
        step: StepNumber(step),
        by: "ann".to_owned(),
        reason: "not needed".to_owned(),
    };
    world.ask(skip(1)).unwrap();
    assert_eq!(world.status("b"), StepStatus::Ready);
    assert_eq!(kinds(&world.ask(skip(2)).unwrap()), "Skipped RunEnded");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
}

#[test]
fn a_failed_run_goes_on_when_its_failed_steps_are_retried() {
    let mut world =
        World::with(&plan(vec![step("a", &[]), step("b", &["a"])]), RunPolicy::default());
    let events = world.fail("a", FailureClass::Deterministic);
    assert_eq!(kinds(&events), "ReceiptRecorded FailureDecided RunEnded");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Failed));
    let retry = Command::RetryFailed { run: RunId(1), by: "ann".to_owned() };
    assert_eq!(kinds(&world.ask(retry).unwrap()), "Reopened RunReopened");
    world.work("a");
    world.work("b");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
}

#[test]
fn a_variable_is_set_only_over_the_version_that_was_seen() {
    let mut world = World::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let set = |expected_version| Command::SetVariable {
        run: RunId(1),
        name: "x".to_owned(),
        value: Json::from(serde_json::json!({ "n": 1 })),
        expected_version,
        by: "ann".to_owned(),
    };
    world.ask(set(Some(0))).unwrap();
    let differs = Rejection::VersionDiffers { expected: 0, found: 1 };
    assert_eq!(world.ask(set(Some(0))), Err(differs));
    world.ask(set(Some(1))).unwrap();
    world.ask(set(None)).unwrap();
    let variable = &world.run().variables["x"];
    assert_eq!((variable.version, &variable.origin), (3, &Origin::Person("ann".to_owned())));
}

#[test]
fn a_cancelled_run_gives_its_attempts_back_to_the_caps() {
    let mut world = World::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let token = world.deal("a");
    let (by, reason) = ("ann".to_owned(), "changed her mind".to_owned());
    let cancel = Command::CancelRun { run: RunId(1), by, reason };
    assert_eq!(kinds(&world.ask(cancel.clone()).unwrap()), "AttemptLost RunEnded");
    assert!(world.state.in_flight.is_empty());
    assert_eq!(kinds(&world.report(token, Receipt::default())), "ReceiptRefused");
    assert_eq!(world.ask(cancel), Err(Rejection::RunHasEnded(Ending::Cancelled)));
}

#[test]
fn step_events_point_to_the_one_before() {
    let mut world = World::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    world.fail("a", FailureClass::Transient);
    world.work("a");
    let mut last = 0;
    for (seq, _, event) in &world.log {
        if let Event::Step(record) = event {
            assert_eq!(record.previous, last);
            last = *seq;
        }
    }
    assert_eq!(world.step("a").last_seq, last);
}

#[test]
fn time_never_goes_back() {
    let mut world = World::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let before = world.state.time;
    world.now = 5;
    world.deal("a");
    assert_eq!(world.state.time, before);
    assert_eq!(world.state.next_due(), Some(before + 900 * SECOND));
}
