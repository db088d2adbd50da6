//! Fallback steps: when they are dispatched, when they are skipped, and how a new plan version
//! affects them.

use crate::plan::tests::invariants;
use crate::plan::tests::support::*;
use crate::plan::*;

/// A step of one attempt.
fn single(id: &str) -> Step {
    let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    Step { retry: Some(once.into()), ..step(id, &[]) }
}

/// A step of one attempt with a fallback step.
fn with_fallback(id: &str, by: &str) -> Step {
    Step { fallback: Some(Fallback::Step(by.to_owned()).into()), ..single(id) }
}

fn card_and_transfer() -> Plan {
    plan(vec![with_fallback("card", "transfer"), single("transfer")])
}

fn retry_failed(ledger: &mut TestLedger) -> Vec<Event> {
    ledger.execute(Command::RetryFailed { run: RunId(1), by: "ann".to_owned() }).unwrap()
}

fn retry(ledger: &mut TestLedger, id: &str) -> Vec<Event> {
    let step = ledger.number(id);
    ledger.execute(Command::Retry { run: RunId(1), step, by: "ann".to_owned() }).unwrap()
}

fn skip(ledger: &mut TestLedger, id: &str) -> Vec<Event> {
    let (run, step) = (RunId(1), ledger.number(id));
    let (by, reason) = ("ann".to_owned(), "no".to_owned());
    ledger.execute(Command::Skip { run, step, by, reason }).unwrap()
}

fn is_accepted_by_fallback(ledger: &TestLedger, id: &str) -> bool {
    matches!(ledger.step(id).accepted(), Some(AcceptedBasis::FallbackStep { .. }))
}

fn is_over(ledger: &TestLedger, ending: Ending) -> bool {
    invariants::check(&ledger.state);
    ledger.run().status == RunStatus::Ended(ending)
}

/// A skipped fallback step does not accept the step that it belongs to. A retried payment used to
/// count as done "through the transfer", which was never made.
#[test]
fn skipped_fallback_does_not_accept_its_step() {
    let class = Some(FailureClass::Deterministic);
    let when = FailureMatch { class, ..FailureMatch::default() };
    let refused = FailureRule { id: "refused".to_owned(), when, then: FailureAction::Fail };
    let mut payment = card_and_transfer();
    payment.failure.rules.push(refused);
    let mut ledger = TestLedger::with(&payment, RunPolicy::default());
    ledger.fail("card", FailureClass::Deterministic);
    assert_eq!(ledger.status("transfer"), StepStatus::Skipped);
    retry_failed(&mut ledger);
    ledger.fail("card", FailureClass::Transient);
    assert_eq!(ledger.status("card"), StepStatus::Failed);
    assert!(is_over(&ledger, Ending::Failed));
}

/// A fallback step that is used and then skipped, by a person or its condition, fails its step.
#[test]
fn called_and_skipped_fallback_fails_its_step() {
    let mut ledger = TestLedger::with(&card_and_transfer(), RunPolicy::default());
    ledger.fail("card", FailureClass::Transient);
    skip(&mut ledger, "transfer");
    assert_eq!(ledger.status("card"), StepStatus::Failed);
    assert!(is_over(&ledger, Ending::Failed));
    let mut payment = card_and_transfer();
    payment.steps[1].condition = Some("false".to_owned());
    let mut ledger = TestLedger::with(&payment, RunPolicy::default());
    ledger.fail("card", FailureClass::Transient);
    assert_eq!(ledger.status("transfer"), StepStatus::Skipped);
    assert_eq!(ledger.status("card"), StepStatus::Failed);
    assert!(is_over(&ledger, Ending::Failed));
}

/// A new version that changes the step makes its unused fallback available again.
#[test]
fn unused_fallback_is_available_in_a_new_version() {
    let mut ledger = TestLedger::with(
        &plan(vec![with_fallback("card", "transfer"), single("transfer"), step("ship", &["card"])]),
        RunPolicy::default(),
    );
    ledger.complete("card");
    assert_eq!(ledger.status("transfer"), StepStatus::Skipped);
    let other = Step { goal: "pay twice as much".to_owned(), ..with_fallback("card", "transfer") };
    ledger.propose(&plan(vec![other, single("transfer"), step("ship", &["card"])])).unwrap();
    assert_eq!(ledger.status("transfer"), StepStatus::Waiting);
    ledger.fail("card", FailureClass::Transient);
    assert_eq!(ledger.status("transfer"), StepStatus::Ready);
    assert_eq!(ledger.status("card"), StepStatus::Waiting);
    ledger.complete("transfer");
    assert!(is_accepted_by_fallback(&ledger, "card"));
    ledger.complete("ship");
    assert!(is_over(&ledger, Ending::Done));
}

/// A fallback step that was dispatched and then skipped stays skipped in the next version: it may
/// have had effects.
#[test]
fn dispatched_and_skipped_fallback_stays_skipped() {
    let once = Step { idempotent: Some(Idempotence::No), ..single("transfer") };
    let of = |card: Step| plan(vec![card, once.clone(), step("ship", &[])]);
    let mut ledger = TestLedger::with(&of(with_fallback("card", "transfer")), RunPolicy::default());
    ledger.fail("card", FailureClass::Transient);
    let token = ledger.dispatch("transfer");
    ledger.lose(token, LostCause::RunnerDied);
    skip(&mut ledger, "transfer");
    let other = Step { goal: "something else".to_owned(), ..with_fallback("card", "transfer") };
    ledger.propose(&of(other)).unwrap();
    assert_eq!(ledger.status("transfer"), StepStatus::Skipped);
    ledger.fail("card", FailureClass::Transient);
    assert_eq!(ledger.status("card"), StepStatus::Failed);
    invariants::check(&ledger.state);
}

/// A retry of all failed steps retries the step and skips its failed fallback. Both used to be
/// dispatched at once, and both paid.
#[test]
fn retry_of_all_skips_the_failed_fallback() {
    for on_failure in [OnFailure::Continue, OnFailure::FailFast] {
        let policy = RunPolicy { on_failure, ..RunPolicy::default() };
        let mut ledger = TestLedger::with(&card_and_transfer(), policy);
        ledger.fail("card", FailureClass::Transient);
        ledger.fail("transfer", FailureClass::Transient);
        assert!(is_over(&ledger, Ending::Failed));
        assert_eq!(kinds(&retry_failed(&mut ledger)), "Reopened Skipped RunReopened");
        assert_eq!(ledger.status("card"), StepStatus::Ready);
        assert!(ledger.try_dispatch("transfer").is_err());
        ledger.complete("card");
        assert!(is_over(&ledger, Ending::Done));
    }
}

/// A retry of the step by name also skips its failed fallback steps.
#[test]
fn retry_by_name_forgives_failed_fallbacks() {
    let three = plan(vec![
        with_fallback("card", "transfer"),
        with_fallback("transfer", "cheque"),
        single("cheque"),
        single("mail"),
    ]);
    let mut ledger = TestLedger::with(&three, RunPolicy::default());
    for id in ["card", "transfer", "cheque"] {
        ledger.fail(id, FailureClass::Transient);
    }
    ledger.complete("mail");
    assert!(is_over(&ledger, Ending::Failed));
    assert_eq!(kinds(&retry(&mut ledger, "card")), "Reopened Skipped Skipped RunReopened");
    ledger.complete("card");
    assert!(is_over(&ledger, Ending::Done));
}

/// A fallback step can be retried by name.
#[test]
fn fallback_can_be_retried_by_name() {
    let mut ledger = TestLedger::with(&card_and_transfer(), RunPolicy::default());
    ledger.fail("card", FailureClass::Transient);
    ledger.fail("transfer", FailureClass::Transient);
    assert_eq!(kinds(&retry(&mut ledger, "transfer")), "Reopened RunReopened");
    assert_eq!(ledger.status("transfer"), StepStatus::Ready);
    assert_eq!(ledger.status("card"), StepStatus::Failed);
    invariants::check(&ledger.state);
}

/// When a step is skipped or was done before the run, its fallback is skipped as well, unless it
/// was dispatched.
#[test]
fn undispatched_fallback_is_skipped_with_its_step() {
    let take_over = |ledger: &mut TestLedger| {
        let steps = vec![(StepNumber(1), "in cash".to_owned())];
        ledger.execute(Command::MarkDoneBefore { run: RunId(1), steps }).unwrap();
    };
    let skip_card = |ledger: &mut TestLedger| drop(skip(ledger, "card"));
    let ways: [&dyn Fn(&mut TestLedger); 2] = [&skip_card, &take_over];
    for way in ways {
        let mut ledger = TestLedger::with(&card_and_transfer(), RunPolicy::default());
        ledger.fail("card", FailureClass::Transient);
        assert_eq!(ledger.status("transfer"), StepStatus::Ready);
        way(&mut ledger);
        assert_eq!(ledger.status("transfer"), StepStatus::Skipped);
        assert!(is_over(&ledger, Ending::Done));
    }
}

/// A fallback step that another step depends on, or that is in flight, is kept.
#[test]
fn needed_or_dispatched_fallback_is_kept() {
    let both = plan(vec![with_fallback("a", "c"), with_fallback("b", "c"), single("c")]);
    let mut ledger = TestLedger::with(&both, RunPolicy::default());
    ledger.fail("a", FailureClass::Transient);
    ledger.fail("b", FailureClass::Transient);
    skip(&mut ledger, "a");
    assert_eq!(ledger.status("c"), StepStatus::Ready);
    let token = ledger.dispatch("c");
    skip(&mut ledger, "b");
    assert_eq!(ledger.status("c"), StepStatus::Dispatched);
    ledger.report(token, Receipt::default());
    assert!(is_over(&ledger, Ending::Done));
}

/// A fallback step in flight is also used by a second step that fails in the meantime.
#[test]
fn fallback_in_flight_covers_a_second_failed_step() {
    let judged = Step { acceptance: vec![Criterion::Text("good".to_owned())], ..single("c") };
    let once = Step { idempotent: Some(Idempotence::No), ..single("c") };
    for c in [single("c"), judged, once] {
        let both = plan(vec![with_fallback("a", "c"), with_fallback("b", "c"), c.clone()]);
        let mut ledger = TestLedger::with(&both, RunPolicy::default());
        ledger.fail("a", FailureClass::Transient);
        let (late, token) = (ledger.dispatch("b"), ledger.dispatch("c"));
        if !c.acceptance.is_empty() {
            ledger.report(token, Receipt::default());
        }
        if c.idempotent.is_some() {
            let (cause, detail) = (LostCause::RunnerDied, String::new());
            ledger
                .execute(Command::ReportLost { proof: Proof::LockHolder, token, cause, detail })
                .unwrap();
        }
        let before = ledger.status("c");
        ledger.report(late, failed(FailureClass::Transient));
        assert_eq!(ledger.status("b"), StepStatus::Waiting, "while the fallback is {before}");
        invariants::check(&ledger.state);
        let (run, step, by) = (RunId(1), StepNumber(3), "ann".to_owned());
        let done = match before {
            StepStatus::Dispatched => Command::RecordReceipt {
                proof: Proof::LockHolder,
                token,
                receipt: Receipt::default(),
            },
            StepStatus::Reported => {
                Command::Judge { token, verdicts: vec![verdict(0, Ruling::Pass, "ann")] }
            }
            _ => {
                let (finding, evidence) = (ResolvedOutcome::Landed, String::new());
                Command::ResolveOutcome { run, step, finding, by, evidence }
            }
        };
        ledger.execute(done).unwrap();
        assert!(is_accepted_by_fallback(&ledger, "a") && is_accepted_by_fallback(&ledger, "b"));
        assert!(is_over(&ledger, Ending::Done));
    }
}

/// A new version that changes a step or its fallback gives it an unused fallback again.
#[test]
fn new_version_restores_the_fallback() {
    let other = |by| Step { goal: "something else".to_owned(), ..with_fallback("a", by) };
    for (next, by) in [(with_fallback("a", "c"), "c"), (other("b"), "b"), (other("c"), "c")] {
        let of = |a: Step| plan(vec![a, single("b"), single("c"), step("z", &["a"])]);
        let mut ledger = TestLedger::with(&of(with_fallback("a", "b")), RunPolicy::default());
        ledger.complete("c");
        ledger.fail("a", FailureClass::Transient);
        ledger.propose(&of(next)).unwrap();
        assert_eq!(ledger.status("a"), StepStatus::Ready);
        ledger.fail("a", FailureClass::Transient);
        if by == "b" {
            ledger.complete("b");
        }
        assert!(is_accepted_by_fallback(&ledger, "a"), "by {by}");
        ledger.complete("z");
        invariants::check(&ledger.state);
    }
}

/// The same for a fallback owner: a changed step starts with its own owner again.
#[test]
fn new_version_restores_the_owner() {
    let of = |by: &str| {
        let fallback = Some(Fallback::Owner(by.to_owned()).into());
        plan(vec![Step { owner: Some("x".to_owned()), fallback, ..single("a") }])
    };
    let mut ledger = TestLedger::with(&of("y"), RunPolicy::default());
    ledger.fail("a", FailureClass::Transient);
    assert_eq!(ledger.step("a").owner(), Some("y"));
    ledger.propose(&of("z")).unwrap();
    assert_eq!(ledger.step("a").owner(), Some("x"));
    ledger.fail("a", FailureClass::Transient);
    assert_eq!(ledger.step("a").owner(), Some("z"));
    ledger.complete("a");
    assert!(is_over(&ledger, Ending::Done));
}

/// A new version with the same step leaves it waiting for its fallback.
#[test]
fn unchanged_version_keeps_the_running_fallback() {
    let of = |z: Step| plan(vec![with_fallback("a", "b"), single("b"), z]);
    let mut ledger = TestLedger::with(&of(step("z", &["a"])), RunPolicy::default());
    ledger.fail("a", FailureClass::Transient);
    let token = ledger.dispatch("b");
    ledger.propose(&of(Step { goal: "more".to_owned(), ..step("z", &["a"]) })).unwrap();
    assert_eq!(ledger.status("a"), StepStatus::Waiting);
    ledger.report(token, Receipt::default());
    assert!(is_accepted_by_fallback(&ledger, "a"));
}
