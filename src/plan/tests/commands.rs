//! The effect of each accepted command.

use std::collections::BTreeMap;

use super::support::*;
use crate::plan::*;

#[test]
fn run_starts_with_its_plan_active() {
    let mut ledger = TestLedger::new();
    let two = plan(vec![step("a", &[]), step("b", &["a"])]);
    let start = Command::StartRun {
        name: "demo".to_owned(),
        policy: RunPolicy::default(),
        reason: String::new(),
        draft: draft(&two),
        inputs: BTreeMap::new(),
    };
    let events = ledger.execute(start).unwrap();
    assert_eq!(kinds(&events), "RunStarted PlanProposed PlanSteps PlanReviewed PlanActivated");
    assert_eq!(ledger.run().status, RunStatus::Running);
    assert_eq!(ledger.status("a"), StepStatus::Ready);
    assert_eq!(ledger.status("b"), StepStatus::Waiting);
    assert_eq!(ledger.run().unmet_dependencies(StepNumber(2)), [Dependency::Step(StepNumber(1))]);
    assert_eq!(*ledger.run().plan().unwrap(), two);
}

#[test]
fn plan_without_steps_is_done_at_once() {
    let ledger = TestLedger::with(&plan(Vec::new()), RunPolicy::default());
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
}

#[test]
fn large_plans_are_split_into_records_of_a_mebibyte() {
    let large = |n: u32| Step { goal: "x".repeat(300_000), ..step(&format!("s{n}"), &[]) };
    let seven = plan((0..7).map(large).collect());
    let ledger = TestLedger::with(&seven, RunPolicy::default());
    let sizes: Vec<usize> = ledger
        .log
        .iter()
        .filter_map(|(_, _, event)| match event {
            Event::PlanSteps(steps) => Some(steps.steps.len()),
            _ => None,
        })
        .collect();
    assert_eq!(sizes, [3, 3, 1]);
    assert_eq!(ledger.run().plan().unwrap(), &seven);
}

#[test]
fn approval_activates_the_shown_plan() {
    let policy = RunPolicy { approval: ApprovalPolicy::Required, ..RunPolicy::default() };
    let one = plan(vec![step("a", &[])]);
    let mut ledger = TestLedger::with(&one, policy);
    assert_eq!(ledger.run().status, RunStatus::Proposed);
    assert_eq!(ledger.execute(dispatch_command(None)), Err(Rejection::NoActivePlan));
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
    assert_eq!(ledger.execute(approve(found)), Err(Rejection::HashDiffers { expected, found }));
    let events = ledger.execute(approve(expected)).unwrap();
    assert_eq!(kinds(&events), "PlanReviewed PlanActivated");
    assert_eq!(ledger.status("a"), StepStatus::Ready);
    assert_eq!(ledger.execute(approve(expected)), Err(Rejection::NoSuchVersion(1)));
}

#[test]
fn rejected_version_is_never_activated() {
    let policy = RunPolicy { approval: ApprovalPolicy::Required, ..RunPolicy::default() };
    let one = plan(vec![step("a", &[])]);
    let mut ledger = TestLedger::with(&one, policy);
    let review = |review| Command::ReviewPlan {
        run: RunId(1),
        version: 1,
        hash: draft(&one).hash,
        review,
        by: "ann".to_owned(),
        note: "no".to_owned(),
    };
    assert_eq!(kinds(&ledger.execute(review(Review::Rejected)).unwrap()), "PlanReviewed");
    assert_eq!(ledger.execute(review(Review::Approved)), Err(Rejection::NoSuchVersion(1)));
    assert_eq!(ledger.run().status, RunStatus::Proposed);
}

#[test]
fn steps_are_dispatched_by_priority_then_plan_order() {
    let urgent = Step { priority: 5, ..step("c", &[]) };
    let mut ledger =
        TestLedger::with(&plan(vec![step("a", &[]), step("b", &[]), urgent]), RunPolicy::default());
    for expected in ["c", "a", "b"] {
        ledger.execute(dispatch_command(None)).unwrap();
        assert_eq!(ledger.status(expected), StepStatus::Dispatched);
    }
    let nothing = Rejection::NothingReady { in_flight: 3, reported: 0, outcome_unknown: 0 };
    assert_eq!(ledger.execute(dispatch_command(None)), Err(nothing));
}

#[test]
fn dispatch_carries_lease_attempt_and_key() {
    let once = Step { lease_seconds: Some(30), ..step("a", &[]) };
    let keyed = Step { idempotent: Some(Idempotence::WithKey), ..step("b", &[]) };
    let mut ledger = TestLedger::with(&plan(vec![once, keyed]), RunPolicy::default());
    let dispatched = |events: Vec<Event>| match events.as_slice() {
        [Event::Step(StepRecord { event: StepEvent::Dispatched(dispatched), .. })] => {
            dispatched.clone()
        }
        other => panic!("{other:?}"),
    };
    let first = dispatched(ledger.execute(dispatch_command(Some(StepNumber(1)))).unwrap());
    assert_eq!(first.lease_until, ledger.now + 30 * SECOND);
    assert_eq!((first.attempt, first.idempotency_key.as_str()), (1, "demo/a/1"));
    let second = dispatched(ledger.execute(dispatch_command(Some(StepNumber(2)))).unwrap());
    assert_eq!(second.lease_until, ledger.now + 900 * SECOND);
    assert_eq!(second.idempotency_key, "demo/b");
}

#[test]
fn second_claim_of_a_step_is_rejected() {
    let mut ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    ledger.dispatch("a");
    let held = Rejection::Leased {
        step: StepNumber(1),
        worker: "worker-1".to_owned(),
        lease_until: ledger.now + 900 * SECOND,
    };
    assert_eq!(ledger.try_dispatch("a"), Err(held));
}

#[test]
fn renewal_extends_the_lease_from_now() {
    let mut ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let token = ledger.dispatch("a");
    ledger.now += 500 * SECOND;
    ledger.execute(Command::Renew { proof: Proof::LockHolder, token, lease: None }).unwrap();
    assert_eq!(ledger.state.next_due(), Some(ledger.now + 900 * SECOND));
    ledger.now += 899 * SECOND;
    assert_eq!(ledger.execute(Command::Tick), Ok(Vec::new()));
}

#[test]
fn requested_lease_is_never_shortened() {
    let mut ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let (run, worker) = (RunId(1), "worker-1".to_owned());
    let claim = Command::Dispatch {
        process: None,
        secret: SecretHash::default(),
        run,
        step: None,
        worker,
        route: Route::default(),
        lease: Some(60 * SECOND),
    };
    ledger.execute(claim).unwrap();
    let token = *ledger.state.in_flight.keys().next().unwrap();
    let claimed_at = ledger.now;
    assert_eq!(ledger.state.next_due(), Some(claimed_at + 60 * SECOND));
    for (lease, until) in [(Some(SECOND), 60), (Some(3_600 * SECOND), 3_600), (None, 3_600)] {
        ledger.execute(Command::Renew { proof: Proof::LockHolder, token, lease }).unwrap();
        assert_eq!(ledger.state.next_due(), Some(claimed_at + until * SECOND), "{lease:?}");
    }
}

#[test]
fn lease_ends_with_its_recorded_expiry() {
    let mut ledger =
        TestLedger::with(&plan(vec![step("a", &[]), step("b", &[])]), RunPolicy::default());
    let late = ledger.dispatch("a");
    let lost = ledger.dispatch("b");
    ledger.now += 1_000 * SECOND;
    // The lease has expired, but no record says so yet.
    ledger.report(late, Receipt::default());
    assert_eq!(ledger.status("a"), StepStatus::Accepted);
    assert_eq!(kinds(&ledger.execute(Command::Tick).unwrap()), "AttemptLost");
    assert_eq!(ledger.status("b"), StepStatus::Ready);
    let refused = ledger.report(lost, Receipt::default());
    assert_eq!(kinds(&refused), "ReceiptRefused");
    assert_eq!(ledger.status("b"), StepStatus::Ready);
    assert_eq!(ledger.step("b").failures, 1, "a lost attempt counts");
}

#[test]
fn step_that_is_lost_again_and_again_waits_for_a_person() {
    let mut ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let lose = |ledger: &mut TestLedger| {
        let token = ledger.dispatch("a");
        ledger.lose(token, LostCause::RunnerDied);
    };
    // Work that a worker returned before it began is not a failure.
    let token = ledger.dispatch("a");
    ledger.lose(token, LostCause::Released);
    lose(&mut ledger);
    lose(&mut ledger);
    assert_eq!(ledger.status("a"), StepStatus::Ready);
    lose(&mut ledger);
    assert_eq!(ledger.status("a"), StepStatus::OutcomeUnknown);
    let (run, step) = (RunId(1), StepNumber(1));
    let finding = ResolvedOutcome::DidNotHappen;
    let (by, evidence) = ("ana".to_owned(), String::new());
    ledger.execute(Command::ResolveOutcome { run, step, finding, by, evidence }).unwrap();
    assert_eq!(ledger.status("a"), StepStatus::Ready);
}

#[test]
fn lost_non_idempotent_attempt_has_unknown_outcome() {
    let once = Step { idempotent: Some(Idempotence::No), ..step("a", &[]) };
    let after = step("b", &["a"]);
    let mut ledger = TestLedger::with(&plan(vec![once, after]), RunPolicy::default());
    let lose = |ledger: &mut TestLedger, cause| {
        let token = ledger.dispatch("a");
        ledger.lose(token, cause);
        ledger.status("a")
    };
    assert_eq!(lose(&mut ledger, LostCause::Released), StepStatus::Ready);
    assert_eq!(lose(&mut ledger, LostCause::RunnerDied), StepStatus::OutcomeUnknown);
    let resolve = |finding| Command::ResolveOutcome {
        run: RunId(1),
        step: StepNumber(1),
        finding,
        by: "ann".to_owned(),
        evidence: String::new(),
    };
    ledger.execute(resolve(ResolvedOutcome::DidNotHappen)).unwrap();
    assert_eq!(lose(&mut ledger, LostCause::LeaseExpired), StepStatus::OutcomeUnknown);
    let events = ledger.execute(resolve(ResolvedOutcome::Landed)).unwrap();
    assert_eq!(kinds(&events), "OutcomeResolved Accepted");
    let landed = AcceptedBasis::Landed { by: "ann".to_owned() };
    assert_eq!(ledger.step("a").accepted(), Some(&landed));
    assert_eq!(ledger.status("b"), StepStatus::Ready);
}

#[test]
fn steps_of_a_full_cap_are_skipped_in_the_queue() {
    let owned = |id, owner: &str| Step { owner: Some(owner.to_owned()), ..step(id, &[]) };
    let mut steps = vec![owned("a", "x"), owned("b", "x"), owned("c", "y"), step("d", &[])];
    steps[0].priority = 1;
    let mut capped = plan(steps);
    capped.caps.owners.insert("x".to_owned(), 1);
    capped.caps.run = Some(3);
    let mut ledger = TestLedger::with(&capped, RunPolicy::default());
    for expected in ["a", "c", "d"] {
        ledger.execute(dispatch_command(None)).unwrap();
        assert_eq!(ledger.status(expected), StepStatus::Dispatched);
    }
    let full = Rejection::CapReached {
        scope: CapScope::Run { run: RunId(1) },
        limit: 3,
        is_of_plan: true,
    };
    assert_eq!(ledger.execute(dispatch_command(None)), Err(full));
    let token = ledger.step("d").attempt().unwrap().token;
    ledger.report(token, Receipt::default());
    let full = Rejection::CapReached {
        scope: CapScope::Owner { owner: "x".to_owned() },
        limit: 1,
        is_of_plan: true,
    };
    assert_eq!(ledger.execute(dispatch_command(None)), Err(full.clone()));
    assert_eq!(ledger.try_dispatch("b"), Err(full));
}

#[test]
fn recorded_caps_hold_until_lifted() {
    let mut ledger =
        TestLedger::with(&plan(vec![step("a", &[]), step("b", &[])]), RunPolicy::default());
    let cap = |scope, limit| Command::SetCap { scope, limit, by: "ann".to_owned() };
    ledger.execute(cap(CapScope::Ledger, Some(1))).unwrap();
    ledger.dispatch("a");
    let full = Rejection::CapReached { scope: CapScope::Ledger, limit: 1, is_of_plan: false };
    assert_eq!(ledger.try_dispatch("b"), Err(full));
    ledger.execute(cap(CapScope::Ledger, None)).unwrap();
    ledger.execute(cap(CapScope::Run { run: RunId(1) }, Some(1))).unwrap();
    let full = Rejection::CapReached {
        scope: CapScope::Run { run: RunId(1) },
        limit: 1,
        is_of_plan: false,
    };
    assert_eq!(ledger.try_dispatch("b"), Err(full));
    ledger.execute(cap(CapScope::Run { run: RunId(1) }, None)).unwrap();
    ledger.dispatch("b");
}

#[test]
fn earlier_work_is_taken_over() {
    let mut ledger =
        TestLedger::with(&plan(vec![step("a", &[]), step("b", &["a"])]), RunPolicy::default());
    let source = "tasks.json".to_owned();
    let take =
        Command::MarkDoneBefore { run: RunId(1), steps: vec![(StepNumber(1), source.clone())] };
    assert_eq!(kinds(&ledger.execute(take.clone()).unwrap()), "Accepted");
    assert_eq!(ledger.step("a").accepted(), Some(&AcceptedBasis::DoneBefore { source }));
    assert_eq!(ledger.status("b"), StepStatus::Ready);
    assert_eq!(ledger.execute(take), Ok(Vec::new()), "an accepted step is left out");
}

#[test]
fn skipped_step_counts_as_met() {
    let mut ledger =
        TestLedger::with(&plan(vec![step("a", &[]), step("b", &["a"])]), RunPolicy::default());
    let skip = |step| Command::Skip {
        run: RunId(1),
        step: StepNumber(step),
        by: "ann".to_owned(),
        reason: "not needed".to_owned(),
    };
    ledger.execute(skip(1)).unwrap();
    assert_eq!(ledger.status("b"), StepStatus::Ready);
    assert_eq!(kinds(&ledger.execute(skip(2)).unwrap()), "Skipped RunEnded");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
}

#[test]
fn retry_of_failed_steps_reopens_the_run() {
    let mut ledger =
        TestLedger::with(&plan(vec![step("a", &[]), step("b", &["a"])]), RunPolicy::default());
    let events = ledger.fail("a", FailureClass::Deterministic);
    assert_eq!(kinds(&events), "ReceiptRecorded FailureDecided RunEnded");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Failed));
    let retry = Command::RetryFailed { run: RunId(1), by: "ann".to_owned() };
    assert_eq!(kinds(&ledger.execute(retry).unwrap()), "Reopened RunReopened");
    ledger.complete("a");
    ledger.complete("b");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
}

#[test]
fn variable_update_requires_the_expected_version() {
    let mut ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let set = |expected_version| Command::SetVariable {
        run: RunId(1),
        name: "x".to_owned(),
        value: Json::from(serde_json::json!({ "n": 1 })),
        expected_version,
        origin: Origin::person("ann"),
    };
    ledger.execute(set(Some(0))).unwrap();
    let differs = Rejection::VersionDiffers { expected: 0, found: 1 };
    assert_eq!(ledger.execute(set(Some(0))), Err(differs));
    ledger.execute(set(Some(1))).unwrap();
    ledger.execute(set(None)).unwrap();
    let variable = &ledger.run().variables["x"];
    assert_eq!(
        (variable.version, &variable.origin),
        (3, &Origin::Person { who: "ann".to_owned() })
    );
}

#[test]
fn cancelled_run_frees_its_caps() {
    let mut ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let token = ledger.dispatch("a");
    let (by, reason) = ("ann".to_owned(), "changed her mind".to_owned());
    let cancel = Command::CancelRun { run: RunId(1), by, reason };
    assert_eq!(kinds(&ledger.execute(cancel.clone()).unwrap()), "AttemptLost RunEnded");
    assert!(ledger.state.in_flight.is_empty());
    assert_eq!(kinds(&ledger.report(token, Receipt::default())), "ReceiptRefused");
    assert_eq!(ledger.execute(cancel), Err(Rejection::RunHasEnded(Ending::Cancelled)));
}

#[test]
fn step_events_link_to_the_previous_one() {
    let mut ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    ledger.fail("a", FailureClass::Transient);
    ledger.complete("a");
    let mut last = 0;
    for (seq, _, event) in &ledger.log {
        if let Event::Step(record) = event {
            assert_eq!(record.previous, last);
            last = *seq;
        }
    }
    assert_eq!(ledger.step("a").last_seq, last);
}

#[test]
fn time_never_goes_back() {
    let mut ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let before = ledger.state.time;
    ledger.now = 5;
    ledger.dispatch("a");
    assert_eq!(ledger.state.time, before);
    assert_eq!(ledger.state.next_due(), Some(before + 900 * SECOND));
}

/// The workers of another owner have nothing to do at a step with its own command.
#[test]
fn step_of_an_owner_at_a_limit_is_dispatched_to_its_second_owner() {
    let owned = |id, command: Option<&str>| Step {
        owner: Some("claude".to_owned()),
        command: command.map(str::to_owned),
        ..step(id, &[])
    };
    let mut all = plan(vec![owned("own", Some("true")), owned("a", None), owned("b", None)]);
    let limit = OwnerLimit { then: Some("codex".to_owned()) };
    all.owners = [
        ("claude".to_owned(), OwnerSettings { limit }),
        ("codex".to_owned(), OwnerSettings::default()),
    ]
    .into();
    all.caps.owners = [("codex".to_owned(), 1)].into();
    let mut ledger = TestLedger::with(&all, trust());
    let claim = || Command::Dispatch {
        process: None,
        secret: SecretHash::default(),
        run: RunId(1),
        step: None,
        worker: "w".to_owned(),
        route: Route {
            held: [Some("claude".to_owned())].into(),
            limited: ["claude".to_owned()].into(),
            seconds: ["codex".to_owned()].into(),
            ..Route::default()
        },
        lease: None,
    };
    ledger.execute(claim()).unwrap();
    let step = ledger.step("a");
    let second = step.attempt().and_then(|attempt| attempt.second_owner.as_deref());
    assert_eq!((step.owner(), second), (Some("claude"), Some("codex")));
    assert_eq!(ledger.state.in_flight_by_owner, [("codex".to_owned(), 1)].into());
    let scope = CapScope::Owner { owner: "codex".to_owned() };
    assert_eq!(
        ledger.execute(claim()),
        Err(Rejection::CapReached { scope, limit: 1, is_of_plan: true })
    );
    let token = ledger.step("a").attempt().unwrap().token;
    ledger.report(token, Receipt::default());
    assert!(ledger.state.in_flight_by_owner.is_empty());
    ledger.execute(claim()).unwrap();
    assert_eq!(ledger.step("b").owner_at_work(), Some("codex"));
    assert_eq!(ledger.status("own"), StepStatus::Ready);
}
