//! What follows from a failure, a passing of time, and a piece of news: each by its rule.

use crate::ledger::state_hash;
use crate::plan::tests::invariants;
use crate::plan::tests::support::*;
use crate::plan::*;

const CLASSES: [FailureClass; 5] = [
    FailureClass::Transient,
    FailureClass::Unknown,
    FailureClass::Deterministic,
    FailureClass::AssumptionBroken,
    FailureClass::BudgetExhausted,
];

fn decided(events: &[Event]) -> FailureDecided {
    let found = events.iter().find_map(|event| match event {
        Event::Step(StepRecord { event: StepEvent::FailureDecided(decided), .. }) => {
            Some(decided.clone())
        }
        _ => None,
    });
    found.expect("a decision")
}

/// The first failure of a step of three attempts: what is decided, by which rule, and how the step
/// stands then.
fn outcome(
    class: FailureClass,
    disposition: Disposition,
    idempotent: Idempotence,
) -> (Decision, String, StepStatus) {
    let retry = Some(RetryPolicy { max_attempts: 3, ..RetryPolicy::default() }.into());
    let step = Step { retry, idempotent: Some(idempotent), ..step("a", &[]) };
    let mut world = World::with(&plan(vec![step]), RunPolicy::default());
    let token = world.deal("a");
    let events = world.report(token, Receipt { disposition: Some(disposition), ..failed(class) });
    invariants::check(&world.state);
    let decided = decided(&events);
    assert_eq!((decided.class, decided.disposition), (class, disposition));
    (decided.decision, decided.rule, world.status("a"))
}

#[test]
fn each_class_and_disposition_has_its_rule() {
    use Disposition::{DidNotHappen, InDoubt, Landed};
    let by_class = |class| match class {
        FailureClass::Transient | FailureClass::Unknown => {
            (Decision::Retry, "retry.attempts_left".to_owned(), StepStatus::Ready)
        }
        FailureClass::Deterministic => {
            (Decision::Fail, "fail.class_deterministic".to_owned(), StepStatus::Failed)
        }
        FailureClass::AssumptionBroken => {
            (Decision::Fail, "fail.class_assumption_broken".to_owned(), StepStatus::Failed)
        }
        FailureClass::BudgetExhausted => {
            (Decision::Fail, "fail.class_budget_exhausted".to_owned(), StepStatus::Failed)
        }
    };
    for class in CLASSES {
        // What may be done twice is decided by its class alone.
        for disposition in [DidNotHappen, InDoubt, Landed] {
            assert_eq!(outcome(class, disposition, Idempotence::Yes), by_class(class));
            assert_eq!(outcome(class, disposition, Idempotence::WithKey), by_class(class));
        }
        // Of what may not, somebody must say first whether it was done.
        assert_eq!(outcome(class, DidNotHappen, Idempotence::No), by_class(class));
        let (doubt, landed) = ("doubt.disposition".to_owned(), "escalate.landed".to_owned());
        let in_doubt = (Decision::Doubt, doubt, StepStatus::InDoubt);
        assert_eq!(outcome(class, InDoubt, Idempotence::No), in_doubt);
        let asked = (Decision::Escalate, landed, StepStatus::Gated);
        assert_eq!(outcome(class, Landed, Idempotence::No), asked);
    }
}

/// A plan's own rule goes before the built-in one, by its id.
#[test]
fn a_rule_of_the_plan_goes_before_the_built_in_one() {
    let when = FailureMatch { class: Some(FailureClass::Transient), ..FailureMatch::default() };
    let rule = FailureRule { id: "no-luck".to_owned(), when, then: FailureAction::Fail };
    let failure = FailurePolicy { rules: vec![rule], ..FailurePolicy::default() };
    let steps = vec![step("a", &[]), step("b", &[])];
    let mut world = World::with(&Plan { failure, ..plan(steps) }, RunPolicy::default());
    let events = world.fail("a", FailureClass::Transient);
    assert_eq!((decided(&events).decision, &*decided(&events).rule), (Decision::Fail, "no-luck"));
    let events = world.fail("b", FailureClass::Unknown);
    assert_eq!(decided(&events).rule, "retry.attempts_left");
}

#[test]
fn a_wait_with_jitter_is_the_same_whenever_it_is_judged_or_replayed() {
    let retry = Some(
        RetryPolicy {
            max_attempts: 5,
            backoff_seconds: 100,
            jitter_percent: Some(50),
            ..RetryPolicy::default()
        }
        .into(),
    );
    let of = |id: &str| Step { retry: retry.clone(), ..step(id, &[]) };
    let steps = plan(vec![of("a"), of("b"), of("c")]);
    let live = || {
        let mut world = World::with(&steps, RunPolicy::default());
        let decisions: Vec<Decision> = ["a", "b", "c"]
            .map(|id| decided(&world.fail(id, FailureClass::Transient)).decision)
            .into();
        (world, decisions)
    };
    let ((world, first), (_, again)) = (live(), live());
    assert_eq!(first, again);
    let waits = first.iter().map(|decision| match decision {
        Decision::RetryAt(at) => at - world.now,
        other => panic!("{other:?}"),
    });
    let waits: Vec<Micros> = waits.collect();
    assert!(waits.iter().all(|wait| (50 * SECOND..=100 * SECOND).contains(wait)), "{waits:?}");
    assert!(waits[0] != waits[1] && waits[1] != waits[2], "neighbours differ: {waits:?}");
    let mut folded = State::default();
    world.log.iter().for_each(|(seq, time, event)| folded.apply(*seq, *time, event));
    assert_eq!(state_hash(&folded), state_hash(&world.state));
}

/// Time is an argument, and may be wrong: a clock that leaps ahead ends leases by records, one that
/// falls back ends none a second time, and the work goes on.
#[test]
fn a_clock_that_jumps_does_no_harm() {
    let lease = |id| Step { lease_seconds: Some(10), ..step(id, &[]) };
    let mut world = World::with(&plan(vec![lease("a"), lease("b")]), RunPolicy::default());
    let start = world.now;
    let lost = world.deal("a");
    world.now = start + 10 * 365 * 24 * 3600 * SECOND;
    assert_eq!(kinds(&world.ask(Command::Tick).unwrap()), "AttemptLost");
    assert_eq!(world.status("a"), StepStatus::Ready);
    world.now = start - 500 * SECOND;
    assert_eq!(kinds(&world.ask(Command::Tick).unwrap()), "");
    let token = world.deal("a");
    assert_ne!(token, lost);
    assert!(world.step("a").attempt().unwrap().lease_until > world.state.time);
    assert_eq!(kinds(&world.ask(Command::Tick).unwrap()), "", "the new lease has begun just now");
    let late = Command::RecordReceipt { token: lost, receipt: Receipt::default() };
    assert!(matches!(world.ask(late).unwrap()[..], [Event::Step(ref record)]
        if matches!(record.event, StepEvent::ReceiptRefused(_))));
    world.report(token, Receipt::default());
    world.work("b");
    invariants::check(&world.state);
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
}

/// News makes part of a plan void. The version that answers the request names it, keeps what the news
/// does not touch, and revokes what was in flight on what it does.
#[test]
fn new_evidence_leads_to_another_version() {
    let of = |goal: &str| {
        let find = Step { goal: goal.to_owned(), ..step("find", &[]) };
        plan(vec![step("read", &[]), find, step("mend", &["find"])])
    };
    let mut world = World::with(&of("look at the parser"), RunPolicy::default());
    world.work("read");
    world.work("find");
    let trigger = ReplanTrigger::NewEvidence { by: "ann".to_owned() };
    let (from, reason) = (Some(world.number("find")), "it is the cache".to_owned());
    world.ask(Command::RequestReplan { run: RunId(1), trigger, from, reason }).unwrap();
    let request = world.state.seq;
    let revoked = world.deal("mend");
    let events = world.propose(&of("look at the cache")).unwrap();
    let activated = events.iter().find_map(|event| match event {
        Event::PlanActivated(activated) => Some(activated.clone()),
        _ => None,
    });
    let activated = activated.unwrap();
    assert_eq!(activated.request, request);
    assert_eq!(activated.preserved, [world.number("read")]);
    assert_eq!(activated.invalidated, [world.number("find"), world.number("mend")]);
    assert!(!world.state.in_flight.contains_key(&revoked));
    assert_eq!(world.status("mend"), StepStatus::Waiting);
    assert_eq!((world.run().replans, &world.run().request), (1, &None));
    world.work("find");
    world.work("mend");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
}

fn pay(id: &str) -> Step {
    Step { idempotent: Some(Idempotence::No), ..step(id, &[]) }
}

/// A failure that could be tried again, of an attempt that says that it paid.
fn paid_and_failed() -> Receipt {
    let side_effects = vec!["payment".to_owned()];
    Receipt { side_effects, ..failed(FailureClass::Transient) }
}

fn answer(world: &mut World, answer: &str) {
    let (question, asked) = world.run().questions.iter().next().expect("an open question");
    let (question, shown) = (*question, asked.asked.shown);
    let (answer, by, note) = (answer.to_owned(), "ann".to_owned(), String::new());
    world.ask(Command::Answer { question, answer, by, note, shown }).unwrap();
}

fn asks_before_it_pays_again(world: &mut World, id: &str) {
    let token = world.deal(id);
    let decided = decided(&world.report(token, paid_and_failed()));
    assert_eq!((&*decided.rule, decided.disposition), ("escalate.landed", Disposition::Landed));
    assert_eq!(world.status(id), StepStatus::Gated);
    invariants::check(&world.state);
}

/// Story: a worker wrote "payment" into its receipt as a side effect, and failed after it. Another step
/// had used that name before, so it did not count: the step was dealt three times, and paid each time,
/// unasked.
#[test]
fn what_a_receipt_names_it_did_although_the_name_was_used_before() {
    let mut world = World::with(&plan(vec![pay("pay-1"), pay("pay-2")]), RunPolicy::default());
    let token = world.deal("pay-1");
    let side_effects = vec!["payment".to_owned()];
    world.report(token, Receipt { side_effects, ..Receipt::default() });
    asks_before_it_pays_again(&mut world, "pay-2");
}

/// Story: somebody who was asked said `retry`, once; the second and the third attempt paid, too.
#[test]
fn one_answer_is_for_one_attempt() {
    let mut world = World::with(&plan(vec![pay("a")]), RunPolicy::default());
    asks_before_it_pays_again(&mut world, "a");
    answer(&mut world, RETRY);
    asks_before_it_pays_again(&mut world, "a");
}

/// Story: a lost attempt had meant to pay and, somebody said, had not. The next one did, and failed;
/// the key was known as the first one's, and it was dealt a third time.
#[test]
fn what_another_attempt_had_meant_to_do_counts_for_the_one_that_did_it() {
    let mut world = meant_and_lost();
    asks_before_it_pays_again(&mut world, "a");
}

/// The same, and it said so when it had paid, instead of in its receipt.
#[test]
fn what_another_attempt_had_meant_to_do_and_this_one_did_is_its_own() {
    let mut world = meant_and_lost();
    let token = world.deal("a");
    let commit = Command::CommitEffect { token, key: "payment".to_owned() };
    assert_eq!(kinds(&world.ask(commit).unwrap()), "EffectIntended EffectCommitted");
    let decided = decided(&world.report(token, failed(FailureClass::Transient)));
    assert_eq!(decided.disposition, Disposition::Landed);
    assert_eq!(world.status("a"), StepStatus::Gated);
    invariants::check(&world.state);
}

/// A world in which an attempt meant to pay, was lost and, somebody said, had not paid.
fn meant_and_lost() -> World {
    let mut world = World::with(&plan(vec![pay("a")]), RunPolicy::default());
    let token = world.deal("a");
    let (effect, key) = ("pay".to_owned(), "payment".to_owned());
    world.ask(Command::IntendEffect { token, effect, key }).unwrap();
    let (cause, detail) = (LostCause::RunnerDied, String::new());
    world.ask(Command::ReportLost { token, cause, detail }).unwrap();
    let (run, step, finding) = (RunId(1), StepNumber(1), Finding::DidNotHappen);
    let (by, evidence) = ("ann".to_owned(), String::new());
    world.ask(Command::ResolveDoubt { run, step, finding, by, evidence }).unwrap();
    world
}

/// Story: a decider from outside may not say `retry` of what has landed and must not be done twice. It
/// said `fallback`, and the same step was dealt to another owner, or another step paid once more.
#[test]
fn nobody_outside_has_it_done_again_by_a_fallback() {
    let value = Fallback::Value { value: serde_json::json!(1), max_age_seconds: None };
    let (owner, other) = (Fallback::Owner("x".to_owned()), Fallback::Step("b".to_owned()));
    for (fallback, may) in [(owner, false), (other, false), (value, true)] {
        let a = Step { fallback: Some(fallback.into()), ..pay("a") };
        let failure = FailurePolicy { decider: Decider::External, ..FailurePolicy::default() };
        let both = Plan { failure, ..plan(vec![a, pay("b")]) };
        let mut world = World::with(&both, RunPolicy::default());
        let token = world.deal("a");
        world.report(token, paid_and_failed());
        let (run, step, decision) = (RunId(1), StepNumber(1), Decision::Fallback);
        let (rule, reason) = ("judge".to_owned(), String::new());
        let decide = Command::DecideFailure { run, step, decision, rule, reason };
        let refused = Rejection::MustNotBeRepeated(step, Disposition::Landed);
        match world.ask(decide) {
            Ok(_) => assert!(may && world.status("a") == StepStatus::Accepted),
            Err(rejection) => assert!(!may && rejection == refused),
        }
        invariants::check(&world.state);
    }
}

/// Story: a failure was to be brought before ana, with an hour to answer. Another failure ended the run,
/// and when it went on, the question was asked again: of nobody, and for ever.
#[test]
fn who_is_asked_again_is_who_the_plan_names() {
    let on_timeout = Some(OnTimeout::Answer(RETRY.to_owned()));
    let (to, deadline_seconds) = (Some("ana".to_owned()), Some(60));
    let class = Some(FailureClass::Deterministic);
    let rule = FailureRule {
        id: "money".to_owned(),
        when: FailureMatch { class, ..FailureMatch::default() },
        then: FailureAction::Escalate { to, deadline_seconds, on_timeout },
    };
    let failure = FailurePolicy { rules: vec![rule], ..FailurePolicy::default() };
    let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let last = Step { retry: Some(once.into()), ..step("b", &[]) };
    let policy = RunPolicy { on_failure: OnFailure::FailFast, ..RunPolicy::default() };
    let both = Plan { failure, ..plan(vec![step("a", &[]), last]) };
    let mut world = World::with(&both, policy);
    let asked = |world: &World| {
        let asked = &world.run().questions.values().next().expect("a question").asked;
        let left = asked.deadline.map(|deadline| deadline - world.now);
        (asked.to.clone(), left, asked.on_timeout.clone())
    };
    world.fail("a", FailureClass::Deterministic);
    let first = asked(&world);
    world.fail("b", FailureClass::Transient);
    assert!(world.run().questions.is_empty());
    world.now += 30 * SECOND;
    world.ask(Command::RetryFailed { run: RunId(1), by: "ann".to_owned() }).unwrap();
    assert_eq!(asked(&world), first);
    assert_eq!(first.1, Some(60 * SECOND));
    world.now += 61 * SECOND;
    world.ask(Command::Tick).unwrap();
    assert_eq!(world.status("a"), StepStatus::Ready);
    invariants::check(&world.state);
}
