//! Steps that stand in for others: when they may, and what becomes of them when they need not.

use crate::plan::tests::invariants;
use crate::plan::tests::support::*;
use crate::plan::*;

/// A step of one attempt.
fn single(id: &str) -> Step {
    let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    Step { retry: Some(once.into()), ..step(id, &[]) }
}

/// A step of one attempt, for which another one stands in.
fn covered(id: &str, by: &str) -> Step {
    Step { fallback: Some(Fallback::Step(by.to_owned()).into()), ..single(id) }
}

fn card_and_transfer() -> Plan {
    plan(vec![covered("card", "transfer"), single("transfer")])
}

fn retry_failed(world: &mut World) -> Vec<Event> {
    world.ask(Command::RetryFailed { run: RunId(1), by: "ann".to_owned() }).unwrap()
}

fn retry(world: &mut World, id: &str) -> Vec<Event> {
    let step = world.number(id);
    world.ask(Command::Retry { run: RunId(1), step, by: "ann".to_owned() }).unwrap()
}

fn skip(world: &mut World, id: &str) -> Vec<Event> {
    let (run, step) = (RunId(1), world.number(id));
    let (by, reason) = ("ann".to_owned(), "no".to_owned());
    world.ask(Command::Skip { run, step, by, reason }).unwrap()
}

fn stood_in(world: &World, id: &str) -> bool {
    matches!(world.step(id).accepted(), Some(AcceptedBasis::StoodIn { .. }))
}

fn is_over(world: &World, ending: Ending) -> bool {
    invariants::check(&world.state);
    world.run().status == RunStatus::Ended(ending)
}

/// Story: the card was refused for good by a rule that calls no fallback, so the transfer was skipped
/// as not needed. Somebody tried the card again, and it failed in a way for which the transfer stands
/// in. It was accepted at once, "through the transfer", and the run was done: nobody had paid.
#[test]
fn a_step_that_was_skipped_stands_in_for_nothing() {
    let class = Some(FailureClass::Deterministic);
    let when = FailureMatch { class, ..FailureMatch::default() };
    let refused = FailureRule { id: "refused".to_owned(), when, then: FailureAction::Fail };
    let mut payment = card_and_transfer();
    payment.failure.rules.push(refused);
    let mut world = World::with(&payment, RunPolicy::default());
    world.fail("card", FailureClass::Deterministic);
    assert_eq!(world.status("transfer"), StepStatus::Skipped);
    retry_failed(&mut world);
    world.fail("card", FailureClass::Transient);
    assert_eq!(world.status("card"), StepStatus::Failed);
    assert!(is_over(&world, Ending::Failed));
}

/// Story: the card failed, and the transfer was called. Somebody skipped the transfer, or its condition
/// did: the card was accepted on the grounds of a transfer that was never made.
#[test]
fn a_stand_in_that_is_skipped_leaves_the_step_failed() {
    let mut world = World::with(&card_and_transfer(), RunPolicy::default());
    world.fail("card", FailureClass::Transient);
    skip(&mut world, "transfer");
    assert_eq!(world.status("card"), StepStatus::Failed);
    assert!(is_over(&world, Ending::Failed));
    let mut payment = card_and_transfer();
    payment.steps[1].condition = Some("false".to_owned());
    let mut world = World::with(&payment, RunPolicy::default());
    world.fail("card", FailureClass::Transient);
    assert_eq!(world.status("transfer"), StepStatus::Skipped);
    assert_eq!(world.status("card"), StepStatus::Failed);
    assert!(is_over(&world, Ending::Failed));
}

/// Story: the card was paid, so the transfer was skipped. A new version had something else paid by
/// card, and that failed: it counted as done by the transfer that was never made. Now the new version
/// has the transfer on call again.
#[test]
fn a_fallback_that_was_not_needed_is_on_call_in_a_new_version() {
    let mut world = World::with(
        &plan(vec![covered("card", "transfer"), single("transfer"), step("ship", &["card"])]),
        RunPolicy::default(),
    );
    world.work("card");
    assert_eq!(world.status("transfer"), StepStatus::Skipped);
    let other = Step { goal: "pay twice as much".to_owned(), ..covered("card", "transfer") };
    world.propose(&plan(vec![other, single("transfer"), step("ship", &["card"])])).unwrap();
    assert_eq!(world.status("transfer"), StepStatus::Waiting);
    world.fail("card", FailureClass::Transient);
    assert_eq!(world.status("transfer"), StepStatus::Ready);
    assert_eq!(world.status("card"), StepStatus::Waiting);
    world.work("transfer");
    assert!(stood_in(&world, "card"));
    world.work("ship");
    assert!(is_over(&world, Ending::Done));
}

/// Story: a fallback that was dealt, and then skipped because nobody could say whether it had paid, does
/// not come back with the next version: it could pay a second time.
#[test]
fn a_fallback_that_was_dealt_and_skipped_stays_skipped() {
    let once = Step { idempotent: Some(Idempotence::No), ..single("transfer") };
    let of = |card: Step| plan(vec![card, once.clone(), step("ship", &[])]);
    let mut world = World::with(&of(covered("card", "transfer")), RunPolicy::default());
    world.fail("card", FailureClass::Transient);
    let token = world.deal("transfer");
    let (cause, detail) = (LostCause::RunnerDied, String::new());
    world.ask(Command::ReportLost { token, cause, detail }).unwrap();
    skip(&mut world, "transfer");
    let other = Step { goal: "something else".to_owned(), ..covered("card", "transfer") };
    world.propose(&of(other)).unwrap();
    assert_eq!(world.status("transfer"), StepStatus::Skipped);
    world.fail("card", FailureClass::Transient);
    assert_eq!(world.status("card"), StepStatus::Failed);
    invariants::check(&world.state);
}

/// Story: the card failed, then the transfer that stood in for it. `--retry-failed` dealt both at once,
/// and both paid. Only the card is tried again.
#[test]
fn a_fallback_that_failed_is_not_tried_again_beside_the_step() {
    for on_failure in [OnFailure::Continue, OnFailure::FailFast] {
        let policy = RunPolicy { on_failure, ..RunPolicy::default() };
        let mut world = World::with(&card_and_transfer(), policy);
        world.fail("card", FailureClass::Transient);
        world.fail("transfer", FailureClass::Transient);
        assert!(is_over(&world, Ending::Failed));
        assert_eq!(kinds(&retry_failed(&mut world)), "Reopened Skipped RunReopened");
        assert_eq!(world.status("card"), StepStatus::Ready);
        assert!(world.try_deal("transfer").is_err());
        world.work("card");
        assert!(is_over(&world, Ending::Done));
    }
}

/// Story: the same, and somebody tried only the card again. It was paid, and the run failed
/// nevertheless, "by the transfer".
#[test]
fn a_step_that_is_tried_again_by_name_forgives_its_fallbacks() {
    let three = plan(vec![
        covered("card", "transfer"),
        covered("transfer", "cheque"),
        single("cheque"),
        single("mail"),
    ]);
    let mut world = World::with(&three, RunPolicy::default());
    for id in ["card", "transfer", "cheque"] {
        world.fail(id, FailureClass::Transient);
    }
    world.work("mail");
    assert!(is_over(&world, Ending::Failed));
    assert_eq!(kinds(&retry(&mut world, "card")), "Reopened Skipped Skipped RunReopened");
    world.work("card");
    assert!(is_over(&world, Ending::Done));
}

/// Whoever names the fallback has it tried again: that is no longer unasked.
#[test]
fn a_fallback_is_tried_again_by_name() {
    let mut world = World::with(&card_and_transfer(), RunPolicy::default());
    world.fail("card", FailureClass::Transient);
    world.fail("transfer", FailureClass::Transient);
    assert_eq!(kinds(&retry(&mut world, "transfer")), "Reopened RunReopened");
    assert_eq!(world.status("transfer"), StepStatus::Ready);
    assert_eq!(world.status("card"), StepStatus::Failed);
    invariants::check(&world.state);
}

/// Story: the card failed, and before the transfer was dealt, somebody said that neither was needed, or
/// that it had been paid before. The transfer was made nevertheless.
#[test]
fn a_stand_in_that_is_not_dealt_is_let_go_with_its_step() {
    let take_over = |world: &mut World| {
        let steps = vec![(StepNumber(1), "in cash".to_owned())];
        world.ask(Command::TakeOver { run: RunId(1), steps }).unwrap();
    };
    let skip_card = |world: &mut World| drop(skip(world, "card"));
    let ways: [&dyn Fn(&mut World); 2] = [&skip_card, &take_over];
    for way in ways {
        let mut world = World::with(&card_and_transfer(), RunPolicy::default());
        world.fail("card", FailureClass::Transient);
        assert_eq!(world.status("transfer"), StepStatus::Ready);
        way(&mut world);
        assert_eq!(world.status("transfer"), StepStatus::Skipped);
        assert!(is_over(&world, Ending::Done));
    }
}

/// What another step waits for, and what is in flight, goes on.
#[test]
fn a_stand_in_that_is_needed_or_dealt_is_kept() {
    let both = plan(vec![covered("a", "c"), covered("b", "c"), single("c")]);
    let mut world = World::with(&both, RunPolicy::default());
    world.fail("a", FailureClass::Transient);
    world.fail("b", FailureClass::Transient);
    skip(&mut world, "a");
    assert_eq!(world.status("c"), StepStatus::Ready);
    let token = world.deal("c");
    skip(&mut world, "b");
    assert_eq!(world.status("c"), StepStatus::Dispatched);
    world.report(token, Receipt::default());
    assert!(is_over(&world, Ending::Done));
}

/// Story: two steps have one fallback. While it was at work for the first, the second failed: for good,
/// although a moment earlier or later it would have been covered.
#[test]
fn a_fallback_that_is_at_work_covers_who_fails_meanwhile() {
    let judged = Step { acceptance: vec![Criterion::Text("good".to_owned())], ..single("c") };
    let once = Step { idempotent: Some(Idempotence::No), ..single("c") };
    for c in [single("c"), judged, once] {
        let both = plan(vec![covered("a", "c"), covered("b", "c"), c.clone()]);
        let mut world = World::with(&both, RunPolicy::default());
        world.fail("a", FailureClass::Transient);
        let (late, token) = (world.deal("b"), world.deal("c"));
        if !c.acceptance.is_empty() {
            world.report(token, Receipt::default());
        }
        if c.idempotent.is_some() {
            let (cause, detail) = (LostCause::RunnerDied, String::new());
            world.ask(Command::ReportLost { token, cause, detail }).unwrap();
        }
        let before = world.status("c");
        world.report(late, failed(FailureClass::Transient));
        assert_eq!(world.status("b"), StepStatus::Waiting, "while it is {before}");
        invariants::check(&world.state);
        let (run, step, by) = (RunId(1), StepNumber(3), "ann".to_owned());
        let done = match before {
            StepStatus::Dispatched => Command::RecordReceipt { token, receipt: Receipt::default() },
            StepStatus::Reported => {
                Command::Judge { token, verdicts: vec![verdict(0, Ruling::Pass, "ann")] }
            }
            _ => {
                let (finding, evidence) = (Finding::Landed, String::new());
                Command::ResolveDoubt { run, step, finding, by, evidence }
            }
        };
        world.ask(done).unwrap();
        assert!(stood_in(&world, "a") && stood_in(&world, "b"));
        assert!(is_over(&world, Ending::Done));
    }
}

/// Story: a step waited for its stand-in. A new version changed the step, or gave it another fallback:
/// it was dealt again, but its fallback counted as used, and its next failure was final.
#[test]
fn a_new_version_takes_no_fallback_away() {
    let other = |by| Step { goal: "something else".to_owned(), ..covered("a", by) };
    for (next, by) in [(covered("a", "c"), "c"), (other("b"), "b"), (other("c"), "c")] {
        let of = |a: Step| plan(vec![a, single("b"), single("c"), step("z", &["a"])]);
        let mut world = World::with(&of(covered("a", "b")), RunPolicy::default());
        world.work("c");
        world.fail("a", FailureClass::Transient);
        world.propose(&of(next)).unwrap();
        assert_eq!(world.status("a"), StepStatus::Ready);
        world.fail("a", FailureClass::Transient);
        if by == "b" {
            world.work("b");
        }
        assert!(stood_in(&world, "a"), "by {by}");
        world.work("z");
        invariants::check(&world.state);
    }
}

/// The same where somebody else has it: a new version that says so has it begin with its owner anew.
#[test]
fn a_new_version_takes_no_other_owner_away() {
    let of = |by: &str| {
        let fallback = Some(Fallback::Owner(by.to_owned()).into());
        plan(vec![Step { owner: Some("x".to_owned()), fallback, ..single("a") }])
    };
    let mut world = World::with(&of("y"), RunPolicy::default());
    world.fail("a", FailureClass::Transient);
    assert_eq!(world.step("a").owner(), Some("y"));
    world.propose(&of("z")).unwrap();
    assert_eq!(world.step("a").owner(), Some("x"));
    world.fail("a", FailureClass::Transient);
    assert_eq!(world.step("a").owner(), Some("z"));
    world.work("a");
    assert!(is_over(&world, Ending::Done));
}

/// A version that says the same of a step leaves it waiting for its stand-in.
#[test]
fn a_new_version_that_says_the_same_leaves_a_stand_in_at_work() {
    let of = |z: Step| plan(vec![covered("a", "b"), single("b"), z]);
    let mut world = World::with(&of(step("z", &["a"])), RunPolicy::default());
    world.fail("a", FailureClass::Transient);
    let token = world.deal("b");
    world.propose(&of(Step { goal: "more".to_owned(), ..step("z", &["a"]) })).unwrap();
    assert_eq!(world.status("a"), StepStatus::Waiting);
    world.report(token, Receipt::default());
    assert!(stood_in(&world, "a"));
}
