//! Mistakes of the model that random worlds and reviews found, each as the story of what would
//! have happened.

use super::support::*;
use crate::plan::tests::invariants;
use crate::plan::*;

fn gate(on_timeout: Option<OnTimeout>) -> Gate {
    let deadline_seconds = on_timeout.is_some().then_some(10);
    Gate { question: "go?".to_owned(), to: None, deadline_seconds, on_timeout }
}

fn gated(id: &str) -> Step {
    Step { gate: Some(Box::new(gate(None))), ..step(id, &[]) }
}

fn cel(body: &str) -> Criterion {
    Criterion::Cel(body.to_owned())
}

fn set(world: &mut World, name: &str, value: u32) -> Vec<Event> {
    let (name, value) = (name.to_owned(), Json::from(serde_json::json!(value)));
    let by = "ann".to_owned();
    let set = Command::SetVariable { run: RunId(1), name, value, expected_version: None, by };
    world.ask(set).unwrap()
}

fn answer(world: &mut World, answer: &str) -> Result<Vec<Event>, Rejection> {
    let (question, asked) = world.run().questions.iter().next().expect("an open question");
    let (question, shown) = (*question, asked.asked.shown);
    let (answer, by, note) = (answer.to_owned(), "ann".to_owned(), String::new());
    world.ask(Command::Answer { question, answer, by, note, shown })
}

fn withdraw(world: &mut World) -> Vec<Event> {
    let (by, reason) = ("ann".to_owned(), "no".to_owned());
    world.ask(Command::WithdrawReplan { run: RunId(1), by, reason }).unwrap()
}

fn tick(world: &mut World) -> Vec<Event> {
    world.now += 20 * SECOND;
    let events = world.ask(Command::Tick).unwrap();
    invariants::check(&world.state);
    events
}

/// Settling looked at the first step that was due and stopped when nothing followed for it: what
/// was due for all others was left undone until the next command.
#[test]
fn a_step_that_need_not_ask_for_another_plan_holds_up_nobody() {
    let never = |id| Step { preconditions: vec!["x == 1".to_owned()].into(), ..step(id, &[]) };
    let world = World::with(&plan(vec![never("a"), never("b"), gated("c")]), RunPolicy::default());
    assert_eq!(world.run().request.as_ref().unwrap().from, Some(StepNumber(1)));
    assert_eq!(world.status("c"), StepStatus::Gated);
    assert_eq!(world.run().questions.len(), 1);
    invariants::check(&world.state);
}

/// All timers of a tick were judged by the state before it. Two versions that nobody reviewed in
/// time both became active by default, and the second one's step numbers were those of the first:
/// the record said that it was active, and the fold knew better.
#[test]
fn two_answers_by_default_in_one_tick_follow_each_other() {
    let yes = Some(OnTimeout::Answer(YES.to_owned()));
    let version = |ids: &[&str]| Plan {
        gate: Some(gate(yes.clone())),
        ..plan(ids.iter().map(|id| step(id, &[])).collect())
    };
    let mut world = World::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    world.propose(&version(&["a", "b"])).unwrap();
    world.propose(&version(&["a", "c", "d"])).unwrap();
    tick(&mut world);
    assert_eq!(world.run().active, 3);
    assert_eq!(world.number("d"), StepNumber(4));
    assert_eq!(world.run().count(StepStatus::Ready), 3);
}

/// The question about a version that was overtaken stayed open, and kept alive for ever a run in
/// which nothing could go on.
#[test]
fn a_version_that_was_overtaken_needs_no_answer() {
    let asked = Plan { gate: Some(gate(None)), ..plan(vec![step("a", &[]), step("b", &[])]) };
    let mut world = World::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    world.propose(&asked).unwrap();
    assert_eq!(world.run().questions.len(), 1);
    world.propose(&plan(vec![step("a", &[]), step("c", &[])])).unwrap();
    assert!(world.run().questions.is_empty() && world.state.questions.is_empty());
}

/// A run that had not begun and was aborted by the answer about its first version stayed proposed
/// for ever.
#[test]
fn a_run_may_be_aborted_before_it_begins() {
    let one = Plan { gate: Some(gate(None)), ..plan(vec![step("a", &[])]) };
    let mut world = World::with(&one, RunPolicy::default());
    let events = answer(&mut world, ABORT).unwrap();
    assert_eq!(kinds(&events), "QuestionAnswered RunEnded");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Aborted));
    let late = Plan { gate: Some(gate(Some(OnTimeout::Abort))), ..one };
    let mut world = World::with(&late, RunPolicy::default());
    assert_eq!(kinds(&tick(&mut world)), "QuestionExpired RunEnded");
}

/// The end of a run closes its questions. When it went on, nobody asked them again, and the steps
/// waited for ever.
#[test]
fn a_run_that_goes_on_asks_again() {
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
    let mut world = World::with(&three, policy);
    world.fail("b", FailureClass::Unknown);
    assert_eq!(world.run().questions.len(), 2);
    world.fail("c", FailureClass::Unknown);
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Failed));
    assert!(world.run().questions.is_empty());
    let events = world.ask(Command::RetryFailed { run: RunId(1), by: "ann".to_owned() }).unwrap();
    assert_eq!(kinds(&events), "Reopened RunReopened Asked Asked");
    assert_eq!(world.run().questions.len(), 2);
    invariants::check(&world.state);
}

/// A step whose gate expired with "abort" was asked about once more before the run could end.
#[test]
fn a_gate_that_aborts_is_not_asked_again() {
    let abort = Step { gate: Some(Box::new(gate(Some(OnTimeout::Abort)))), ..step("a", &[]) };
    let mut world = World::with(&plan(vec![abort, step("b", &[])]), RunPolicy::default());
    let token = world.deal("b");
    assert_eq!(kinds(&tick(&mut world)), "Expired Failed");
    assert!(world.run().questions.is_empty());
    let events = world.report(token, Receipt::default());
    assert_eq!(kinds(&events), "ReceiptRecorded Accepted RunEnded");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Aborted));
}

/// A yes opens the gate of the work that was shown, not of what a later version makes of it; nor
/// do judgements of old preconditions count for new ones.
#[test]
fn a_new_version_asks_about_changed_work_anew() {
    let old = Step { preconditions: vec!["x == 1".to_owned()].into(), ..gated("a") };
    let mut world = World::with(&plan(vec![old.clone(), step("w", &[])]), RunPolicy::default());
    set(&mut world, "x", 1);
    answer(&mut world, YES).unwrap();
    assert_eq!(world.status("a"), StepStatus::Ready);
    let changed = Step { goal: "something else".to_owned(), ..old.clone() };
    world.propose(&plan(vec![changed.clone(), step("w", &[])])).unwrap();
    assert_eq!(world.status("a"), StepStatus::Gated);
    answer(&mut world, YES).unwrap();
    let stricter = Step { preconditions: vec!["x == 2".to_owned()].into(), ..changed };
    world.propose(&plan(vec![stricter, step("w", &[])])).unwrap();
    assert_eq!(world.status("a"), StepStatus::Waiting);
    invariants::check(&world.state);
}

/// The writer of a variable ended without setting it, and nobody looked again at who waited for
/// the value: the run failed although another plan could have saved it.
#[test]
fn a_precondition_that_nothing_made_true_asks_for_another_plan() {
    let writer = Step { outputs: vec!["x".to_owned(), "y".to_owned()], ..step("w", &[]) };
    let reader = Step { preconditions: vec!["x == 1".to_owned()].into(), ..step("r", &[]) };
    let mut world = World::with(&plan(vec![writer, reader]), RunPolicy::default());
    assert_eq!(world.run().request, None);
    let token = world.deal("w");
    let events = world.report(token, Receipt::default());
    assert_eq!(kinds(&events), "ReceiptRecorded Accepted ReplanRequested");
    // Who wants no other plan lets the step fail: the request would come back at once.
    assert_eq!(kinds(&withdraw(&mut world)), "ReplanWithdrawn Failed RunEnded");
}

/// A step that had failed asked for another plan. Somebody had it tried again, or skipped it, or set the
/// variable that it had waited for; the run still waited for a plan, and every view said so.
#[test]
fn a_request_for_another_plan_goes_with_its_cause() {
    let (run, by) = (RunId(1), "ann".to_owned());
    let may_change = |steps| {
        let mut changing = plan(steps);
        changing.failure.max_replans = Some(2);
        World::with(&changing, RunPolicy::default())
    };
    let skip = |step| Command::Skip { run, step, by: by.clone(), reason: by.clone() };
    let retry = |step| Command::Retry { run, step, by: by.clone() };
    for (instead, kind) in [(skip(StepNumber(1)), "Skipped"), (retry(StepNumber(1)), "Reopened")] {
        let mut world = may_change(vec![step("a", &[]), step("b", &[])]);
        world.fail("a", FailureClass::Deterministic);
        assert!(world.run().request.is_some());
        let events = world.ask(instead.clone()).unwrap();
        assert_eq!(kinds(&events), format!("{kind} ReplanWithdrawn"));
        invariants::check(&world.state);

        // Another one that failed counts on the same request.
        let mut world = may_change(vec![step("a", &[]), step("b", &[]), step("c", &[])]);
        world.fail("a", FailureClass::Deterministic);
        world.fail("b", FailureClass::Deterministic);
        world.ask(instead).unwrap();
        assert!(world.run().request.is_some());
        world.ask(skip(StepNumber(2))).unwrap();
        assert_eq!(world.run().request, None);
    }
    let never = Step { preconditions: vec!["x == 1".to_owned()].into(), ..step("a", &[]) };
    let mut world = may_change(vec![never, step("b", &[])]);
    assert!(world.run().request.is_some());
    set(&mut world, "x", 2);
    assert!(world.run().request.is_some(), "it is still false");
    set(&mut world, "x", 1);
    assert_eq!((world.status("a"), &world.run().request), (StepStatus::Ready, &None));
    invariants::check(&world.state);
}

/// A plan that is extended as it goes failed by a criterion that was to hold at its end.
#[test]
fn a_plan_that_goes_on_is_judged_when_it_is_complete() {
    let mut growing = plan(vec![step("a", &[])]);
    growing.continues = true;
    growing.test_criteria = vec![cel("x == 1")];
    let mut world = World::with(&growing, RunPolicy::default());
    world.work("a");
    assert_eq!(world.run().status, RunStatus::Running);
    set(&mut world, "x", 1);
    assert_eq!(kinds(&withdraw(&mut world)), "ReplanWithdrawn PlanVerdict RunEnded");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
}

/// Whoever wanted no other plan for one whose own criteria do not hold was asked again at once.
#[test]
fn a_plan_that_does_not_hold_and_will_not_change_has_failed() {
    let mut wrong = plan(vec![step("a", &[])]);
    wrong.test_criteria = vec![cel("x == 1")];
    wrong.failure.max_replans = Some(1);
    let mut world = World::with(&wrong, RunPolicy::default());
    world.work("a");
    assert!(world.run().request.is_some());
    assert_eq!(kinds(&withdraw(&mut world)), "ReplanWithdrawn RunEnded");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Failed));
}

/// The question about a barrier that could be met again stayed open without an object, and its
/// deadline was forgotten.
#[test]
fn a_barrier_that_closes_again_needs_no_answer_and_keeps_its_deadline() {
    let ask = Barrier {
        on_break: OnBreak::Ask,
        deadline_seconds: Some(60),
        ..barrier("all", &["a", "b"], BarrierNeeds::All)
    };
    let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let a = Step { retry: Some(Box::new(once)), ..step("a", &[]) };
    let steps = vec![a, step("b", &[]), step("end", &["all"])];
    let mut world = World::with(&Plan { barriers: vec![ask], ..plan(steps) }, RunPolicy::default());
    world.fail("a", FailureClass::Unknown);
    assert_eq!(world.run().questions.len(), 1);
    let events = world.ask(Command::RetryFailed { run: RunId(1), by: "ann".to_owned() }).unwrap();
    assert_eq!(kinds(&events), "Reopened QuestionAnswered");
    assert!(world.run().questions.is_empty());
    assert_eq!(world.run().barriers["all"].status, BarrierStatus::Closed);
    invariants::check(&world.state);
    world.now += 60 * SECOND;
    assert_eq!(kinds(&tick(&mut world)), "Barrier QuestionAsked");
}

/// A version without the barrier left the question about it open for ever.
#[test]
fn a_barrier_that_is_gone_needs_no_answer() {
    let ask =
        Barrier { on_break: OnBreak::Ask, ..barrier("any", &["a"], BarrierNeeds::AtLeast(2)) };
    let steps = vec![step("a", &[]), step("b", &[])];
    let with = Plan { barriers: vec![ask], ..plan(steps.clone()) };
    let mut world = World::with(&with, RunPolicy::default());
    assert_eq!(world.run().questions.len(), 1);
    world.propose(&plan(steps)).unwrap();
    assert!(world.run().questions.is_empty() && world.state.questions.is_empty());
}

/// A step waited for a stand-in that a new version no longer named, and nobody told it when that
/// was done.
#[test]
fn a_step_whose_fallback_changed_waits_for_no_stand_in() {
    let with = |fallback: Option<&str>| Step {
        fallback: fallback.map(|id| Fallback::Step(id.to_owned()).into()),
        retry: Some(Box::new(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() })),
        ..step("a", &[])
    };
    let mut world = World::with(&plan(vec![with(Some("b")), step("b", &[])]), RunPolicy::default());
    world.fail("a", FailureClass::Unknown);
    assert_eq!(world.step("a").hold().stand_in, Some(StepNumber(2)));
    world.propose(&plan(vec![with(None), step("b", &[])])).unwrap();
    assert_eq!(world.status("a"), StepStatus::Ready);
    world.work("b");
    world.work("a");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
}

/// A correction that named more than the run had spent took it from the ledger's books only.
#[test]
fn a_correction_takes_back_no_more_than_was_spent() {
    let cost = |money_micros| Cost { money_micros, tokens: 0 };
    let mut world = World::with(&plan(vec![step("a", &[]), step("b", &[])]), RunPolicy::default());
    let other = draft(&plan(vec![step("a", &[]), step("z", &[])]));
    let (name, policy) = ("other".to_owned(), RunPolicy::default());
    world.ask(Command::StartRun { name, policy, draft: other }).unwrap();
    let token = world.deal("a");
    world.report(token, Receipt { cost: cost(5), ..Receipt::default() });
    let worker = "worker-1".to_owned();
    world.ask(Command::Dispatch { run: RunId(2), step: None, worker, lease: None }).unwrap();
    let late = AttemptToken(world.state.seq);
    world.report(late, Receipt { cost: cost(100), ..Receipt::default() });
    let (charged, by) = (Some(cost(50)), "ann".to_owned());
    world.ask(Command::CorrectCost { token, cost: cost(7), charged, by }).unwrap();
    assert_eq!(world.run().account.spent, cost(7));
    assert_eq!(world.state.account.spent, cost(107));
    invariants::check(&world.state);
}

/// A failure that somebody was asked about was counted when it was asked, and when it was answered.
#[test]
fn a_failure_that_was_escalated_is_one_failure() {
    let mut one = plan(vec![step("a", &[]), step("b", &[])]);
    let then = FailureAction::Escalate { to: None, deadline_seconds: None, on_timeout: None };
    one.failure.rules.push(FailureRule { id: "ask".to_owned(), then, ..FailureRule::default() });
    let mut world = World::with(&one, RunPolicy::default());
    world.fail("a", FailureClass::Unknown);
    answer(&mut world, RETRY).unwrap();
    assert_eq!((world.step("a").failures, world.run().tally.failures), (1, 1));
}

/// A version of a run that was over was asked about, which nobody could answer: answers are only
/// taken about runs that go on.
#[test]
fn nobody_is_asked_about_a_run_that_is_over() {
    let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let single = plan(vec![Step { retry: Some(Box::new(once)), ..step("a", &[]) }]);
    let mut world = World::with(&single, RunPolicy::default());
    world.fail("a", FailureClass::Unknown);
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Failed));
    let next = Plan { gate: Some(gate(Some(OnTimeout::Abort))), ..plan(vec![step("b", &[])]) };
    world.propose(&next).unwrap();
    assert!(world.run().questions.is_empty() && world.run().timers.is_empty());
    let hash = draft(&next).hash;
    let (run, version, review) = (RunId(1), 2, Review::Approved);
    let (by, note) = ("ann".to_owned(), String::new());
    world.ask(Command::ReviewPlan { run, version, hash, review, by, note }).unwrap();
    assert_eq!(world.status("b"), StepStatus::Ready);
}

/// Whoever decided from outside could have work tried again that may have been done, and must not be
/// done twice: that is for somebody to find out first.
#[test]
fn a_decider_from_outside_repeats_nothing_that_may_have_happened() {
    let once = Step { idempotent: Some(Idempotence::No), ..step("a", &[]) };
    let mut outside = plan(vec![once]);
    outside.failure.decider = Decider::External;
    for disposition in [Disposition::InDoubt, Disposition::Landed] {
        let mut world = World::with(&outside, RunPolicy::default());
        let token = world.deal("a");
        let said = Some(disposition);
        let receipt = Receipt { disposition: said, ..failed(FailureClass::Transient) };
        world.report(token, receipt);
        let decide = |decision| Command::DecideFailure {
            run: RunId(1),
            step: StepNumber(1),
            decision,
            rule: "own".to_owned(),
            reason: "why not".to_owned(),
        };
        let refused = Rejection::MustNotBeRepeated(StepNumber(1), disposition);
        assert_eq!(world.ask(decide(Decision::Retry)), Err(refused.clone()));
        assert_eq!(world.ask(decide(Decision::RetryAt(world.now + SECOND))), Err(refused));
        world.ask(decide(Decision::Doubt)).unwrap();
        assert_eq!(world.status("a"), StepStatus::InDoubt);
    }
}

/// An attempt that cost more than one may is settled truly; the run pauses until somebody resumes it.
#[test]
fn an_attempt_that_costs_more_than_one_may_pauses_the_run() {
    let limit = Cost { money_micros: 10, tokens: 0 };
    let dear = Step { cost_limit: Some(limit), ..step("a", &[]) };
    let mut world = World::with(&plan(vec![dear, step("b", &["a"])]), RunPolicy::default());
    let token = world.deal("a");
    let cost = Cost { money_micros: 11, tokens: 0 };
    world.report(token, Receipt { cost, ..Receipt::default() });
    let cause = PauseCause::StepLimit(StepNumber(1));
    assert_eq!((world.run().pause.clone(), world.run().account.spent), (Some(cause.clone()), cost));
    assert_eq!(world.status("a"), StepStatus::Accepted);
    assert_eq!(world.try_deal("b"), Err(Rejection::Paused(cause)));
    world.ask(Command::Resume { run: RunId(1), by: "ann".to_owned() }).unwrap();
    world.work("b");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
}

/// An answer binds to the text that was shown. A step that was in doubt kept the answer of its gate
/// while a new version changed it, and was dealt in its new form without anybody having agreed.
#[test]
fn a_step_that_changes_while_in_doubt_asks_its_gate_again() {
    let old = Step { idempotent: Some(Idempotence::No), ..gated("a") };
    let new = Step { goal: "something else".to_owned(), ..old.clone() };
    let mut world = World::with(&plan(vec![old]), RunPolicy::default());
    answer(&mut world, YES).unwrap();
    let (token, detail) = (world.deal("a"), String::new());
    let cause = LostCause::LeaseExpired;
    world.ask(Command::ReportLost { token, cause, detail }).unwrap();
    world.propose(&plan(vec![new])).unwrap();
    assert_eq!(world.status("a"), StepStatus::InDoubt);
    let (run, step, finding) = (RunId(1), StepNumber(1), Finding::DidNotHappen);
    let (by, evidence) = ("ann".to_owned(), String::new());
    world.ask(Command::ResolveDoubt { run, step, finding, by, evidence }).unwrap();
    assert_eq!(world.status("a"), StepStatus::Gated);
    assert_eq!(world.run().questions.len(), 1);
    invariants::check(&world.state);
}

/// A step that waited for its stand-in was accepted through it, although a new version had taken
/// back what the step itself stands on.
#[test]
fn a_step_whose_inputs_fell_does_not_wait_for_its_stand_in() {
    let retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }.into());
    let fallback = Some(Fallback::Step("b".to_owned()).into());
    let c = Step { retry, fallback, ..step("c", &["a"]) };
    let of = |a: Step| plan(vec![a, step("b", &[]), c.clone()]);
    let mut world = World::with(&of(step("a", &[])), RunPolicy::default());
    world.work("a");
    world.fail("c", FailureClass::Deterministic);
    let stand_in = world.deal("b");
    world.propose(&of(Step { goal: "something else".to_owned(), ..step("a", &[]) })).unwrap();
    world.report(stand_in, Receipt::default());
    invariants::check(&world.state);
    assert_eq!(world.status("c"), StepStatus::Waiting);
    world.work("a");
    world.work("c");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
}
