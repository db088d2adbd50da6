//! Regression tests for bugs that random tests found. Each doc comment states the property, and
//! often the earlier behaviour.

use std::collections::BTreeMap;

use super::invariants;
use super::support::*;
use crate::plan::*;

fn gate(on_timeout: Option<OnTimeout>) -> Gate {
    let deadline_seconds = on_timeout.is_some().then_some(10);
    Gate { question: "go?".to_owned(), deadline_seconds, on_timeout, ..Gate::default() }
}

fn gated(id: &str) -> Step {
    Step { gate: Some(Box::new(gate(None))), ..step(id, &[]) }
}

fn cel(body: &str) -> Criterion {
    Criterion::Cel(body.to_owned())
}

fn answer(ledger: &mut TestLedger, answer: &str) -> Result<Vec<Event>, Rejection> {
    let (question, asked) = ledger.run().questions.iter().next().expect("an open question");
    let (question, shown) = (*question, asked.asked.shown);
    let (answer, by, note) = (answer.to_owned(), "ann".to_owned(), String::new());
    ledger.execute(Command::Answer { question, answer, by, note, shown })
}

fn withdraw(ledger: &mut TestLedger) -> Vec<Event> {
    let (by, reason) = ("ann".to_owned(), "no".to_owned());
    ledger.execute(Command::WithdrawReplan { run: RunId(1), by, reason }).unwrap()
}

fn tick(ledger: &mut TestLedger) -> Vec<Event> {
    ledger.now += 20 * SECOND;
    let events = ledger.execute(Command::Tick).unwrap();
    invariants::check(&ledger.state);
    events
}

/// Settling continues with the other pending steps after one without consequences.
#[test]
fn settling_continues_after_a_step_without_consequences() {
    let never = |id| Step { preconditions: vec!["x == 1".to_owned()].into(), ..step(id, &[]) };
    let ledger =
        TestLedger::with(&plan(vec![never("a"), never("b"), gated("c")]), RunPolicy::default());
    assert_eq!(ledger.run().request.as_ref().unwrap().from, Some(StepNumber(1)));
    assert_eq!(ledger.status("c"), StepStatus::Gated);
    assert_eq!(ledger.run().questions.len(), 1);
    invariants::check(&ledger.state);
}

/// The timers of one tick are judged one after another: two plan versions that become active by
/// default in the same tick get distinct step numbers.
#[test]
fn default_answers_in_one_tick_are_ordered() {
    let yes = Some(OnTimeout::Answer(YES.to_owned()));
    let version = |ids: &[&str]| Plan {
        gate: Some(gate(yes.clone())),
        ..plan(ids.iter().map(|id| step(id, &[])).collect())
    };
    let mut ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    ledger.propose(&version(&["a", "b"])).unwrap();
    ledger.propose(&version(&["a", "c", "d"])).unwrap();
    tick(&mut ledger);
    assert_eq!(ledger.run().active, 3);
    assert_eq!(ledger.number("d"), StepNumber(4));
    assert_eq!(ledger.run().count(StepStatus::Ready), 3);
}

/// The question about a version below the active one is closed. It used to keep a run open that
/// could not continue.
#[test]
fn question_about_an_overtaken_version_is_closed() {
    let asked = Plan { gate: Some(gate(None)), ..plan(vec![step("a", &[]), step("b", &[])]) };
    let mut ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    ledger.propose(&asked).unwrap();
    assert_eq!(ledger.run().questions.len(), 1);
    ledger.propose(&plan(vec![step("a", &[]), step("c", &[])])).unwrap();
    assert!(ledger.run().questions.is_empty() && ledger.state.questions.is_empty());
}

/// A run can be aborted by the answer about its first version, before it begins.
#[test]
fn proposed_run_can_be_aborted() {
    let one = Plan { gate: Some(gate(None)), ..plan(vec![step("a", &[])]) };
    let mut ledger = TestLedger::with(&one, RunPolicy::default());
    let events = answer(&mut ledger, ABORT).unwrap();
    assert_eq!(kinds(&events), "QuestionAnswered RunEnded");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Aborted));
    let late = Plan { gate: Some(gate(Some(OnTimeout::Abort))), ..one };
    let mut ledger = TestLedger::with(&late, RunPolicy::default());
    assert_eq!(kinds(&tick(&mut ledger)), "QuestionExpired RunEnded");
}

/// The end of a run closes its questions, and a reopened run asks them again.
#[test]
fn reopened_run_asks_its_questions_again() {
    let rule = FailureRule {
        id: "ask".to_owned(),
        when: FailureMatch { step: Some("b".to_owned()), ..FailureMatch::default() },
        then: FailureAction::Escalate { to: None, deadline_seconds: None, on_timeout: None },
    };
    let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let last = Step { retry: Some(Box::new(once)), ..step("c", &[]) };
    let mut three = plan(vec![gated("a"), step("b", &[]), last]);
    three.failure.rules.push(rule);
    let policy = RunPolicy { on_failure: OnFailure::FailFast, ..RunPolicy::default() };
    let mut ledger = TestLedger::with(&three, policy);
    ledger.fail("b", FailureClass::Unknown);
    assert_eq!(ledger.run().questions.len(), 2);
    ledger.fail("c", FailureClass::Unknown);
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Failed));
    assert!(ledger.run().questions.is_empty());
    let events =
        ledger.execute(Command::RetryFailed { run: RunId(1), by: "ann".to_owned() }).unwrap();
    assert_eq!(kinds(&events), "Reopened RunReopened StepAsked StepAsked");
    assert_eq!(ledger.run().questions.len(), 2);
    invariants::check(&ledger.state);
}

/// A step with a gate that expired with `abort` is not asked about again before the run ends.
#[test]
fn aborting_gate_is_not_asked_again() {
    let abort = Step { gate: Some(Box::new(gate(Some(OnTimeout::Abort)))), ..step("a", &[]) };
    let mut ledger = TestLedger::with(&plan(vec![abort, step("b", &[])]), RunPolicy::default());
    let token = ledger.dispatch("b");
    assert_eq!(kinds(&tick(&mut ledger)), "StepQuestionExpired StepFailed");
    assert!(ledger.run().questions.is_empty());
    let events = ledger.report(token, Receipt::default());
    assert_eq!(kinds(&events), "ReceiptRecorded Accepted RunEnded");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Aborted));
}

/// A gate is open only for the work that was shown, and preconditions are judged again after their
/// step changed.
#[test]
fn changed_step_asks_its_gate_again() {
    let old = Step { preconditions: vec!["x == 1".to_owned()].into(), ..gated("a") };
    let mut ledger =
        TestLedger::with(&plan(vec![old.clone(), step("w", &[])]), RunPolicy::default());
    ledger.set("x", 1);
    answer(&mut ledger, YES).unwrap();
    assert_eq!(ledger.status("a"), StepStatus::Ready);
    let changed = Step { goal: "something else".to_owned(), ..old.clone() };
    ledger.propose(&plan(vec![changed.clone(), step("w", &[])])).unwrap();
    assert_eq!(ledger.status("a"), StepStatus::Gated);
    answer(&mut ledger, YES).unwrap();
    let stricter = Step { preconditions: vec!["x == 2".to_owned()].into(), ..changed };
    ledger.propose(&plan(vec![stricter, step("w", &[])])).unwrap();
    assert_eq!(ledger.status("a"), StepStatus::Waiting);
    invariants::check(&ledger.state);
}

/// When the last step that could set a variable is closed, a false precondition requests a replan.
#[test]
fn unmet_precondition_requests_a_replan() {
    let outputs = vec!["x".to_owned(), "y".to_owned()];
    let optional_outputs = outputs.clone().into();
    let writer = Step { outputs, optional_outputs, ..step("w", &[]) };
    let reader = Step { preconditions: vec!["x == 1".to_owned()].into(), ..step("r", &[]) };
    let mut ledger = TestLedger::with(&plan(vec![writer, reader]), RunPolicy::default());
    assert_eq!(ledger.run().request, None);
    let token = ledger.dispatch("w");
    let events = ledger.report(token, Receipt::default());
    assert_eq!(kinds(&events), "ReceiptRecorded Accepted ReplanRequested");
    // Without a replan the step fails; otherwise the same request would be made again.
    assert_eq!(kinds(&withdraw(&mut ledger)), "ReplanWithdrawn StepFailed RunEnded");
}

/// A replan request is withdrawn when its cause no longer applies: the step was retried or skipped,
/// or the variable was set.
#[test]
fn replan_request_is_withdrawn_with_its_cause() {
    let (run, by) = (RunId(1), "ann".to_owned());
    let may_change = |steps| {
        let mut changing = plan(steps);
        changing.failure.max_replans = Some(2);
        TestLedger::with(&changing, RunPolicy::default())
    };
    let skip = |step| Command::Skip { run, step, by: by.clone(), reason: by.clone() };
    let retry = |step| Command::Retry { run, step, by: by.clone() };
    for (instead, kind) in [(skip(StepNumber(1)), "Skipped"), (retry(StepNumber(1)), "Reopened")] {
        let mut ledger = may_change(vec![step("a", &[]), step("b", &[])]);
        ledger.fail("a", FailureClass::Deterministic);
        assert!(ledger.run().request.is_some());
        let events = ledger.execute(instead.clone()).unwrap();
        assert_eq!(kinds(&events), format!("{kind} ReplanWithdrawn"));
        invariants::check(&ledger.state);

        // A second failed step keeps the request open.
        let mut ledger = may_change(vec![step("a", &[]), step("b", &[]), step("c", &[])]);
        ledger.fail("a", FailureClass::Deterministic);
        ledger.fail("b", FailureClass::Deterministic);
        ledger.execute(instead).unwrap();
        assert!(ledger.run().request.is_some());
        ledger.execute(skip(StepNumber(2))).unwrap();
        assert_eq!(ledger.run().request, None);
    }
    let never = Step { preconditions: vec!["x == 1".to_owned()].into(), ..step("a", &[]) };
    let mut ledger = may_change(vec![never, step("b", &[])]);
    assert!(ledger.run().request.is_some());
    ledger.set("x", 2);
    assert!(ledger.run().request.is_some(), "the precondition is still false");
    ledger.set("x", 1);
    assert_eq!((ledger.status("a"), &ledger.run().request), (StepStatus::Ready, &None));
    invariants::check(&ledger.state);
}

/// The criteria of a continuing plan are judged when it is complete, not before.
#[test]
fn continuing_plan_is_judged_when_complete() {
    let mut growing = plan(vec![step("a", &[])]);
    growing.continues = true;
    growing.test_criteria = vec![cel("x == 1")];
    let mut ledger = TestLedger::with(&growing, RunPolicy::default());
    ledger.complete("a");
    assert_eq!(ledger.run().status, RunStatus::Running);
    ledger.set("x", 1);
    assert_eq!(kinds(&withdraw(&mut ledger)), "ReplanWithdrawn PlanVerdict RunEnded");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
}

/// When a replan for unmet plan criteria is withdrawn, the run fails instead of asking again.
#[test]
fn unmet_plan_criteria_fail_the_run_without_a_replan() {
    let mut wrong = plan(vec![step("a", &[])]);
    wrong.test_criteria = vec![cel("x == 1")];
    wrong.failure.max_replans = Some(1);
    let mut ledger = TestLedger::with(&wrong, RunPolicy::default());
    ledger.complete("a");
    assert!(ledger.run().request.is_some());
    assert_eq!(kinds(&withdraw(&mut ledger)), "ReplanWithdrawn RunEnded");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Failed));
}

/// The question about a broken barrier is closed when the barrier can be met again, and its
/// deadline is kept.
#[test]
fn closed_again_barrier_keeps_its_deadline() {
    let ask = Barrier {
        on_break: OnBreak::Ask,
        deadline_seconds: Some(60),
        ..barrier("all", &["a", "b"], BarrierNeeds::All)
    };
    let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let a = Step { retry: Some(Box::new(once)), ..step("a", &[]) };
    let steps = vec![a, step("b", &[]), step("end", &["all"])];
    let mut ledger =
        TestLedger::with(&Plan { barriers: vec![ask], ..plan(steps) }, RunPolicy::default());
    ledger.fail("a", FailureClass::Unknown);
    assert_eq!(ledger.run().questions.len(), 1);
    let events =
        ledger.execute(Command::RetryFailed { run: RunId(1), by: "ann".to_owned() }).unwrap();
    assert_eq!(kinds(&events), "Reopened QuestionAnswered");
    assert!(ledger.run().questions.is_empty());
    assert_eq!(ledger.run().barriers["all"].status, BarrierStatus::Closed);
    invariants::check(&ledger.state);
    ledger.now += 60 * SECOND;
    assert_eq!(kinds(&tick(&mut ledger)), "BarrierChanged QuestionAsked");
}

/// A version without the barrier closes the question about it.
#[test]
fn question_about_a_removed_barrier_is_closed() {
    let ask =
        Barrier { on_break: OnBreak::Ask, ..barrier("any", &["a"], BarrierNeeds::AtLeast(2)) };
    let steps = vec![step("a", &[]), step("b", &[])];
    let with = Plan { barriers: vec![ask], ..plan(steps.clone()) };
    let mut ledger = TestLedger::with(&with, RunPolicy::default());
    assert_eq!(ledger.run().questions.len(), 1);
    ledger.propose(&plan(steps)).unwrap();
    assert!(ledger.run().questions.is_empty() && ledger.state.questions.is_empty());
}

/// A step whose fallback changes with a new version no longer waits for the old one.
#[test]
fn changed_fallback_releases_the_waiting_step() {
    let with = |fallback: Option<&str>| Step {
        fallback: fallback.map(|id| Fallback::Step(id.to_owned()).into()),
        retry: Some(Box::new(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() })),
        ..step("a", &[])
    };
    let mut ledger =
        TestLedger::with(&plan(vec![with(Some("b")), step("b", &[])]), RunPolicy::default());
    ledger.fail("a", FailureClass::Unknown);
    assert_eq!(ledger.step("a").hold().fallback_step, Some(StepNumber(2)));
    ledger.propose(&plan(vec![with(None), step("b", &[])])).unwrap();
    assert_eq!(ledger.status("a"), StepStatus::Ready);
    ledger.complete("b");
    ledger.complete("a");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
}

/// A correction never subtracts more than the run has spent.
#[test]
fn correction_subtracts_at_most_the_cost_of_the_run() {
    let cost = |money_micros| Cost { money_micros, tokens: 0 };
    let mut ledger =
        TestLedger::with(&plan(vec![step("a", &[]), step("b", &[])]), RunPolicy::default());
    let other = draft(&plan(vec![step("a", &[]), step("z", &[])]));
    let (name, policy) = ("other".to_owned(), RunPolicy::default());
    ledger
        .execute(Command::StartRun {
            name,
            policy,
            reason: String::new(),
            draft: other,
            inputs: BTreeMap::new(),
        })
        .unwrap();
    let token = ledger.dispatch("a");
    ledger.report(token, Receipt { cost: cost(5), ..Receipt::default() });
    let worker = "worker-1".to_owned();
    ledger
        .execute(Command::Dispatch {
            process: None,
            secret: SecretHash::default(),
            run: RunId(2),
            step: None,
            worker,
            route: Route::default(),
            lease: None,
        })
        .unwrap();
    let late = AttemptToken(ledger.state.seq);
    ledger.report(late, Receipt { cost: cost(100), ..Receipt::default() });
    let (charged, by) = (Some(cost(50)), "ann".to_owned());
    ledger.execute(Command::CorrectCost { token, cost: cost(7), charged, by }).unwrap();
    assert_eq!(ledger.run().account.spent, cost(7));
    assert_eq!(ledger.state.account.spent, cost(107));
    invariants::check(&ledger.state);
}

#[test]
fn escalated_failure_counts_once() {
    let mut one = plan(vec![step("a", &[]), step("b", &[])]);
    let then = FailureAction::Escalate { to: None, deadline_seconds: None, on_timeout: None };
    one.failure.rules.push(FailureRule { id: "ask".to_owned(), then, ..FailureRule::default() });
    let mut ledger = TestLedger::with(&one, RunPolicy::default());
    ledger.fail("a", FailureClass::Unknown);
    answer(&mut ledger, RETRY).unwrap();
    assert_eq!((ledger.step("a").failures, ledger.run().counters.failures), (1, 1));
}

/// No question is asked in a run that has ended.
#[test]
fn ended_run_asks_no_questions() {
    let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let single = plan(vec![Step { retry: Some(Box::new(once)), ..step("a", &[]) }]);
    let mut ledger = TestLedger::with(&single, RunPolicy::default());
    ledger.fail("a", FailureClass::Unknown);
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Failed));
    let next = Plan { gate: Some(gate(Some(OnTimeout::Abort))), ..plan(vec![step("b", &[])]) };
    ledger.propose(&next).unwrap();
    assert!(ledger.run().questions.is_empty() && ledger.run().timers.is_empty());
    let hash = draft(&next).hash;
    let (run, version, review) = (RunId(1), 2, Review::Approved);
    let (by, note) = ("ann".to_owned(), String::new());
    ledger.execute(Command::ReviewPlan { run, version, hash, review, by, note }).unwrap();
    assert_eq!(ledger.status("b"), StepStatus::Ready);
}

/// An external decider cannot retry a non-idempotent attempt that may have happened.
#[test]
fn external_decider_cannot_repeat_a_possible_effect() {
    let once = Step { idempotent: Some(Idempotence::No), ..step("a", &[]) };
    let mut outside = plan(vec![once]);
    outside.failure.decider = Decider::External;
    for disposition in [Disposition::Unknown, Disposition::Landed] {
        let mut ledger = TestLedger::with(&outside, RunPolicy::default());
        let token = ledger.dispatch("a");
        let stated = Some(disposition);
        let receipt = Receipt { disposition: stated, ..failed(FailureClass::Transient) };
        ledger.report(token, receipt);
        let decide = |decision| Command::DecideFailure {
            run: RunId(1),
            step: StepNumber(1),
            decision,
            class: None,
            from: None,
            rule: "own".to_owned(),
            reason: "why not".to_owned(),
            by: "ann".to_owned(),
        };
        let refused = Rejection::MustNotBeRepeated(StepNumber(1), disposition);
        assert_eq!(ledger.execute(decide(Decision::Retry)), Err(refused.clone()));
        assert_eq!(
            ledger.execute(decide(Decision::RetryAt { due: ledger.now + SECOND })),
            Err(refused)
        );
        ledger.execute(decide(Decision::OutcomeUnknown)).unwrap();
        assert_eq!(ledger.status("a"), StepStatus::OutcomeUnknown);
    }
}

/// The full cost of an expensive attempt is recorded, and the run pauses until it is unpaused.
#[test]
fn attempt_over_its_cost_limit_pauses_the_run() {
    let limit = Cost { money_micros: 10, tokens: 0 };
    let dear = Step { cost_limit: Some(limit), ..step("a", &[]) };
    let mut ledger = TestLedger::with(&plan(vec![dear, step("b", &["a"])]), RunPolicy::default());
    let token = ledger.dispatch("a");
    let cost = Cost { money_micros: 11, tokens: 0 };
    ledger.report(token, Receipt { cost, ..Receipt::default() });
    let cause = PauseCause::StepLimit { step: StepNumber(1) };
    assert_eq!(
        (ledger.run().pause.clone(), ledger.run().account.spent),
        (Some(cause.clone()), cost)
    );
    assert_eq!(ledger.status("a"), StepStatus::Accepted);
    assert_eq!(ledger.try_dispatch("b"), Err(Rejection::Paused(cause)));
    ledger.execute(Command::Unpause { run: RunId(1), by: "ann".to_owned() }).unwrap();
    ledger.complete("b");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
}

/// A step that changes while its outcome is unknown asks its gate again.
#[test]
fn step_changed_with_unknown_outcome_asks_its_gate_again() {
    let old = Step { idempotent: Some(Idempotence::No), ..gated("a") };
    let new = Step { goal: "something else".to_owned(), ..old.clone() };
    let mut ledger = TestLedger::with(&plan(vec![old]), RunPolicy::default());
    answer(&mut ledger, YES).unwrap();
    let token = ledger.dispatch("a");
    ledger.lose(token, LostCause::LeaseExpired);
    ledger.propose(&plan(vec![new])).unwrap();
    assert_eq!(ledger.status("a"), StepStatus::OutcomeUnknown);
    let (run, step, finding) = (RunId(1), StepNumber(1), ResolvedOutcome::DidNotHappen);
    let (by, evidence) = ("ann".to_owned(), String::new());
    ledger.execute(Command::ResolveOutcome { run, step, finding, by, evidence }).unwrap();
    assert_eq!(ledger.status("a"), StepStatus::Gated);
    assert_eq!(ledger.run().questions.len(), 1);
    invariants::check(&ledger.state);
}

/// A step that waits for its fallback is not accepted through it after its own inputs were
/// invalidated.
#[test]
fn step_with_invalidated_inputs_does_not_wait_for_its_fallback() {
    let retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }.into());
    let fallback = Some(Fallback::Step("b".to_owned()).into());
    let c = Step { retry, fallback, ..step("c", &["a"]) };
    let of = |a: Step| plan(vec![a, step("b", &[]), c.clone()]);
    let mut ledger = TestLedger::with(&of(step("a", &[])), RunPolicy::default());
    ledger.complete("a");
    ledger.fail("c", FailureClass::Deterministic);
    let stand_in = ledger.dispatch("b");
    ledger.propose(&of(Step { goal: "something else".to_owned(), ..step("a", &[]) })).unwrap();
    ledger.report(stand_in, Receipt::default());
    invariants::check(&ledger.state);
    assert_eq!(ledger.status("c"), StepStatus::Waiting);
    ledger.complete("a");
    ledger.complete("c");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
}
