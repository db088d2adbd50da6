//! Failure rules, backoff, clock jumps, new evidence, and failures of attempts that may have
//! landed.

use crate::ledger::state_hash;
use crate::plan::tests::invariants;
use crate::plan::tests::support::*;
use crate::plan::*;

const CLASSES: [FailureClass; 6] = [
    FailureClass::Transient,
    FailureClass::Unknown,
    FailureClass::Deterministic,
    FailureClass::AssumptionBroken,
    FailureClass::BudgetExhausted,
    FailureClass::CriterionFailed,
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

/// The decision and the rule for the first failure of a step with three attempts, and the status of
/// the step after it.
fn outcome(
    class: FailureClass,
    disposition: Disposition,
    idempotent: Idempotence,
) -> (Decision, String, StepStatus) {
    let retry = Some(RetryPolicy { max_attempts: 3, ..RetryPolicy::default() }.into());
    let step = Step { retry, idempotent: Some(idempotent), ..step("a", &[]) };
    let mut ledger = TestLedger::with(&plan(vec![step]), RunPolicy::default());
    let token = ledger.dispatch("a");
    let events = ledger.report(token, Receipt { disposition: Some(disposition), ..failed(class) });
    invariants::check(&ledger.state);
    let decided = decided(&events);
    assert_eq!((decided.class, decided.disposition), (class, disposition));
    (decided.decision, decided.rule, ledger.status("a"))
}

#[test]
fn each_class_and_disposition_has_its_rule() {
    use Disposition::{DidNotHappen, Landed, Unknown};
    let by_class = |class| match class {
        FailureClass::Transient | FailureClass::Unknown | FailureClass::CriterionFailed => {
            (Decision::Retry, "retry.attempts_left".to_owned(), StepStatus::Ready)
        }
        FailureClass::Deterministic => {
            (Decision::Fail, "fail.class_deterministic".to_owned(), StepStatus::Failed)
        }
        FailureClass::AssumptionBroken => {
            (Decision::Fail, "fail.class_assumption_broken".to_owned(), StepStatus::Failed)
        }
        FailureClass::BudgetExhausted => {
            (Decision::Escalate, "escalate.class_budget_exhausted".to_owned(), StepStatus::Gated)
        }
    };
    for class in CLASSES {
        // An idempotent step is decided by its class alone.
        for disposition in [DidNotHappen, Unknown, Landed] {
            assert_eq!(outcome(class, disposition, Idempotence::Yes), by_class(class));
            assert_eq!(outcome(class, disposition, Idempotence::WithKey), by_class(class));
        }
        // For a non-idempotent step the disposition takes precedence.
        assert_eq!(outcome(class, DidNotHappen, Idempotence::No), by_class(class));
        let (unknown, landed) =
            ("outcome_unknown.disposition".to_owned(), "escalate.landed".to_owned());
        let outcome_unknown = (Decision::OutcomeUnknown, unknown, StepStatus::OutcomeUnknown);
        assert_eq!(outcome(class, Unknown, Idempotence::No), outcome_unknown);
        let asked = (Decision::Escalate, landed, StepStatus::Gated);
        assert_eq!(outcome(class, Landed, Idempotence::No), asked);
    }
}

/// A rule of the plan precedes the built-in rules.
#[test]
fn rule_of_the_plan_precedes_the_built_in_one() {
    let when = FailureMatch { class: Some(FailureClass::Transient), ..FailureMatch::default() };
    let rule = FailureRule { id: "no-luck".to_owned(), when, then: FailureAction::Fail };
    let failure = FailurePolicy { rules: vec![rule], ..FailurePolicy::default() };
    let steps = vec![step("a", &[]), step("b", &[])];
    let mut ledger = TestLedger::with(&Plan { failure, ..plan(steps) }, RunPolicy::default());
    let events = ledger.fail("a", FailureClass::Transient);
    assert_eq!((decided(&events).decision, &*decided(&events).rule), (Decision::Fail, "no-luck"));
    let events = ledger.fail("b", FailureClass::Unknown);
    assert_eq!(decided(&events).rule, "retry.attempts_left");
}

#[test]
fn jittered_backoff_is_deterministic() {
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
        let mut ledger = TestLedger::with(&steps, RunPolicy::default());
        let decisions: Vec<Decision> = ["a", "b", "c"]
            .map(|id| decided(&ledger.fail(id, FailureClass::Transient)).decision)
            .into();
        (ledger, decisions)
    };
    let ((ledger, first), (_, again)) = (live(), live());
    assert_eq!(first, again);
    let waits = first.iter().map(|decision| match decision {
        Decision::RetryAt { due: at } => at - ledger.now,
        other => panic!("{other:?}"),
    });
    let waits: Vec<Micros> = waits.collect();
    assert!(waits.iter().all(|wait| (50 * SECOND..=100 * SECOND).contains(wait)), "{waits:?}");
    assert!(waits[0] != waits[1] && waits[1] != waits[2], "neighbours differ: {waits:?}");
    let mut folded = State::default();
    ledger.log.iter().for_each(|(seq, time, event)| folded.apply(*seq, *time, event));
    assert_eq!(state_hash(&folded), state_hash(&ledger.state));
}

/// A clock that jumps ahead expires leases by records; one that jumps back expires none twice.
#[test]
fn clock_jumps_are_harmless() {
    let lease = |id| Step { lease_seconds: Some(10), ..step(id, &[]) };
    let mut ledger = TestLedger::with(&plan(vec![lease("a"), lease("b")]), RunPolicy::default());
    let start = ledger.now;
    let lost = ledger.dispatch("a");
    ledger.now = start + 10 * 365 * 24 * 3600 * SECOND;
    assert_eq!(kinds(&ledger.execute(Command::Tick).unwrap()), "AttemptLost");
    assert_eq!(ledger.status("a"), StepStatus::Ready);
    ledger.now = start - 500 * SECOND;
    assert_eq!(kinds(&ledger.execute(Command::Tick).unwrap()), "");
    let token = ledger.dispatch("a");
    assert_ne!(token, lost);
    assert!(ledger.step("a").attempt().unwrap().lease_until > ledger.state.time);
    assert_eq!(kinds(&ledger.execute(Command::Tick).unwrap()), "", "the new lease has just begun");
    let late = Command::RecordReceipt {
        proof: Proof::LockHolder,
        token: lost,
        receipt: Receipt::default(),
    };
    assert!(matches!(ledger.execute(late).unwrap()[..], [Event::Step(ref record)]
        if matches!(record.event, StepEvent::ReceiptRefused(_))));
    ledger.report(token, Receipt::default());
    ledger.complete("b");
    invariants::check(&ledger.state);
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
}

/// New evidence requests a replan. The version that answers it keeps unaffected work and revokes
/// attempts on affected work.
#[test]
fn new_evidence_leads_to_a_new_version() {
    let of = |goal: &str| {
        let find = Step { goal: goal.to_owned(), ..step("find", &[]) };
        plan(vec![step("read", &[]), find, step("fix", &["find"])])
    };
    let mut ledger = TestLedger::with(&of("look at the parser"), RunPolicy::default());
    ledger.complete("read");
    ledger.complete("find");
    let revoked = ledger.dispatch("fix");
    let trigger = ReplanTrigger::NewEvidence { by: "ann".to_owned() };
    let (from, reason) = (Some(ledger.number("find")), "it is the cache".to_owned());
    ledger.execute(Command::RequestReplan { run: RunId(1), trigger, from, reason }).unwrap();
    let request = ledger.state.seq;
    let events = ledger.propose(&of("look at the cache")).unwrap();
    let activated = events.iter().find_map(|event| match event {
        Event::PlanActivated(activated) => Some(activated.clone()),
        _ => None,
    });
    let activated = activated.unwrap();
    assert_eq!(activated.request, request);
    assert_eq!(activated.preserved, [ledger.number("read")]);
    assert_eq!(activated.invalidated, [ledger.number("find"), ledger.number("fix")]);
    assert!(!ledger.state.in_flight.contains_key(&revoked));
    assert_eq!(ledger.status("fix"), StepStatus::Waiting);
    assert_eq!((ledger.run().replans, &ledger.run().request), (1, &None));
    ledger.complete("find");
    ledger.complete("fix");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
}

fn pay(id: &str) -> Step {
    Step { idempotent: Some(Idempotence::No), ..step(id, &[]) }
}

/// A transient failure of an attempt that reported a payment.
fn paid_and_failed() -> Receipt {
    let side_effects = vec!["payment".to_owned()];
    Receipt { side_effects, ..failed(FailureClass::Transient) }
}

fn answer(ledger: &mut TestLedger, answer: &str) {
    let (question, asked) = ledger.run().questions.iter().next().expect("an open question");
    let (question, shown) = (*question, asked.asked.shown);
    let (answer, by, note) = (answer.to_owned(), "ann".to_owned(), String::new());
    ledger.execute(Command::Answer { question, answer, by, note, shown }).unwrap();
}

fn asks_before_it_pays_again(ledger: &mut TestLedger, id: &str) {
    let token = ledger.dispatch(id);
    let decided = decided(&ledger.report(token, paid_and_failed()));
    assert_eq!((&*decided.rule, decided.disposition), ("escalate.landed", Disposition::Landed));
    assert_eq!(ledger.status(id), StepStatus::Gated);
    invariants::check(&ledger.state);
}

/// A side effect in a receipt counts although an earlier step used its name. The step used to be
/// dispatched three times and to pay each time.
#[test]
fn side_effect_counts_although_its_name_was_used_before() {
    let mut ledger =
        TestLedger::with(&plan(vec![pay("pay-1"), pay("pay-2")]), RunPolicy::default());
    let token = ledger.dispatch("pay-1");
    let side_effects = vec!["payment".to_owned()];
    ledger.report(token, Receipt { side_effects, ..Receipt::default() });
    asks_before_it_pays_again(&mut ledger, "pay-2");
}

/// The answer `retry` allows one attempt.
#[test]
fn retry_answer_allows_one_attempt() {
    let mut ledger = TestLedger::with(&plan(vec![pay("a")]), RunPolicy::default());
    asks_before_it_pays_again(&mut ledger, "a");
    answer(&mut ledger, RETRY);
    asks_before_it_pays_again(&mut ledger, "a");
}

/// An attempt's effect is its own although a lost attempt had recorded the intent for the same key.
#[test]
fn effect_intended_by_a_lost_attempt_counts_for_its_successor() {
    let mut ledger = meant_and_lost();
    asks_before_it_pays_again(&mut ledger, "a");
}

/// The same when the effect was committed by a command instead of the receipt.
#[test]
fn effect_committed_after_a_lost_intent_is_its_own() {
    let mut ledger = meant_and_lost();
    let token = ledger.dispatch("a");
    let commit =
        Command::CommitEffect { proof: Proof::LockHolder, token, key: "payment".to_owned() };
    assert_eq!(kinds(&ledger.execute(commit).unwrap()), "EffectIntended EffectCommitted");
    let decided = decided(&ledger.report(token, failed(FailureClass::Transient)));
    assert_eq!(decided.disposition, Disposition::Landed);
    assert_eq!(ledger.status("a"), StepStatus::Gated);
    invariants::check(&ledger.state);
}

/// A ledger in which an attempt intended to pay, was lost, and had not paid by its resolution.
fn meant_and_lost() -> TestLedger {
    let mut ledger = TestLedger::with(&plan(vec![pay("a")]), RunPolicy::default());
    let token = ledger.dispatch("a");
    let (effect, key) = ("pay".to_owned(), "payment".to_owned());
    ledger.execute(Command::IntendEffect { proof: Proof::LockHolder, token, effect, key }).unwrap();
    let (cause, detail) = (LostCause::RunnerDied, String::new());
    ledger.execute(Command::ReportLost { proof: Proof::LockHolder, token, cause, detail }).unwrap();
    let (run, step, finding) = (RunId(1), StepNumber(1), ResolvedOutcome::DidNotHappen);
    let (by, evidence) = ("ann".to_owned(), String::new());
    ledger.execute(Command::ResolveOutcome { run, step, finding, by, evidence }).unwrap();
    ledger
}

/// An external decider can repeat a landed, non-idempotent step neither by `retry` nor by a
/// fallback.
#[test]
fn external_decider_cannot_repeat_a_landed_step_by_fallback() {
    let value = Fallback::Value { value: serde_json::json!(1), max_age_seconds: None };
    let (owner, other) = (Fallback::Owner("x".to_owned()), Fallback::Step("b".to_owned()));
    for (fallback, may) in [(owner, false), (other, false), (value, true)] {
        let a = Step { fallback: Some(fallback.into()), ..pay("a") };
        let failure = FailurePolicy { decider: Decider::External, ..FailurePolicy::default() };
        let both = Plan { failure, ..plan(vec![a, pay("b")]) };
        let mut ledger = TestLedger::with(&both, RunPolicy::default());
        let token = ledger.dispatch("a");
        ledger.report(token, paid_and_failed());
        let (run, step, decision) = (RunId(1), StepNumber(1), Decision::Fallback);
        let (rule, reason) = ("judge".to_owned(), String::new());
        let (class, from, by) = (None, None, String::new());
        let decide = Command::DecideFailure { run, step, decision, class, from, rule, reason, by };
        let refused = Rejection::MustNotBeRepeated(step, Disposition::Landed);
        match ledger.execute(decide) {
            Ok(_) => assert!(may && ledger.status("a") == StepStatus::Accepted),
            Err(rejection) => assert!(!may && rejection == refused),
        }
        invariants::check(&ledger.state);
    }
}

/// A question that is asked again after a reopened run keeps its recipient and its deadline.
#[test]
fn repeated_question_goes_to_the_reviewer_of_the_plan() {
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
    let mut ledger = TestLedger::with(&both, policy);
    let asked = |ledger: &TestLedger| {
        let asked = &ledger.run().questions.values().next().expect("a question").asked;
        let left = asked.deadline.map(|deadline| deadline - ledger.now);
        (asked.to.clone(), left, asked.on_timeout.clone())
    };
    ledger.fail("a", FailureClass::Deterministic);
    let first = asked(&ledger);
    ledger.fail("b", FailureClass::Transient);
    assert!(ledger.run().questions.is_empty());
    ledger.now += 30 * SECOND;
    ledger.execute(Command::RetryFailed { run: RunId(1), by: "ann".to_owned() }).unwrap();
    assert_eq!(asked(&ledger), first);
    assert_eq!(first.1, Some(60 * SECOND));
    ledger.now += 61 * SECOND;
    ledger.execute(Command::Tick).unwrap();
    assert_eq!(ledger.status("a"), StepStatus::Ready);
    invariants::check(&ledger.state);
}

#[test]
fn unknown_failure_is_put_to_a_person_unless_the_step_or_the_run_says_otherwise() {
    let silent = Plan { defaults: Defaults::default(), ..plan(vec![step("a", &[])]) };
    let asked = (Decision::Escalate, "escalate.class_unknown".to_owned());
    let retried = (Decision::Retry, "retry.attempts_left".to_owned());
    let failed = (Decision::Fail, "fail.class_unknown".to_owned());
    let settled = |plan: &Plan, on_unknown: OnUnknown| {
        let mut ledger = TestLedger::with(plan, RunPolicy::default());
        let (run, by) = (RunId(1), "operator".to_owned());
        let settings = FailureSettings { on_unknown, ..FailureSettings::default() };
        ledger.execute(Command::SetFailureSettings { run, settings, by }).unwrap();
        let found = decided(&ledger.fail("a", FailureClass::Unknown));
        (found.decision, found.rule)
    };
    assert_eq!(settled(&silent, OnUnknown::Ask), asked);
    assert_eq!(settled(&silent, OnUnknown::Retry), retried);
    assert_eq!(settled(&silent, OnUnknown::Fail), failed);
    let retry = Some(RetryPolicy::default().into());
    let stated = Plan { steps: vec![Step { retry, ..step("a", &[]) }], ..silent };
    assert_eq!(settled(&stated, OnUnknown::Ask), retried);
}

#[test]
fn rule_sees_output_variables_and_the_rest_of_the_budget() {
    let rule = |cel: &str| {
        let when = FailureMatch { cel: Some(cel.to_owned()), ..FailureMatch::default() };
        let failure = FailurePolicy {
            rules: vec![FailureRule { id: "own".to_owned(), when, then: FailureAction::Abort }],
            ..FailurePolicy::default()
        };
        let budget = Budget { tokens: Some(100), ..Budget::default() };
        let mut ledger =
            TestLedger::with(&Plan { budget, failure, ..plan(vec![step("a", &[])]) }, trust());
        let token = ledger.dispatch("a");
        let output = Json::new(&serde_json::json!({"flag": "system_error"})).into();
        let cost = Cost { tokens: 30, ..Cost::default() };
        let receipt = Receipt { output, cost, ..failed(FailureClass::Unknown) };
        decided(&ledger.report(token, receipt))
    };
    for cel in [
        "output.flag == 'system_error'",
        "budget.tokens == 70 && budget.money_micros == null",
        "failure.class == 'unknown' && failure.number == 1",
        "failure.message.contains('broke')",
    ] {
        let decided = rule(cel);
        assert_eq!((decided.decision, decided.rule.as_str()), (Decision::Abort, "own"), "{cel}");
        assert!(decided.reason.contains(cel), "{}", decided.reason);
    }
    for cel in ["output.flag == 'pass'", "budget.tokens > 70", "nosuch == 1"] {
        assert_eq!(rule(cel).rule, "retry.attempts_left", "{cel}");
    }
}

#[test]
fn deterministic_failure_asks_for_a_plan_from_the_step_that_set_its_input() {
    let read = Step { outputs: vec!["rows".to_owned()], ..step("read", &[]) };
    let sum = Step { inputs: vec!["rows".to_owned()], ..step("sum", &["read"]) };
    let failure = FailurePolicy { max_replans: Some(1), ..FailurePolicy::default() };
    let plan = Plan { failure, ..plan(vec![read, sum]) };
    let mut ledger = TestLedger::with(&plan, trust());
    let token = ledger.dispatch("read");
    let output = Json::new(&serde_json::json!({"rows": []})).into();
    ledger.report(token, Receipt { output, ..Receipt::default() });
    let found = decided(&ledger.fail("sum", FailureClass::Deterministic));
    assert_eq!(found.rule, "replan.class_deterministic");
    assert!(found.reason.contains("its input `rows` comes from step #1 (read)"), "{found:?}");
    let request = ledger.state.runs.get(&RunId(1)).unwrap().request.clone().unwrap();
    assert_eq!(request.from, Some(StepNumber(1)));
    // The same plan again: the previous step is redone, and its worker gets the reason.
    let draft = draft(&plan);
    let (run, trigger) = (RunId(1), None);
    let (reason, approval) = ("again".to_owned(), ApprovalPolicy::Automatic);
    ledger.execute(Command::ProposePlan { run, draft, reason, trigger, approval }).unwrap();
    assert_eq!(ledger.status("read"), StepStatus::Ready);
    assert_eq!(ledger.status("sum"), StepStatus::Waiting);
    let (_, why) = ledger.step("read").last_failure().unwrap();
    assert!(why.starts_with("to be done again: "), "{why}");
    ledger.complete("read");
    // The only replan is used.
    let found = decided(&ledger.fail("sum", FailureClass::Deterministic));
    assert_eq!(found.decision, Decision::Fail);
    assert!(found.reason.contains("all 1 replans are used"), "{found:?}");
}

/// A usage limit is not a failure of the work: it uses up no attempt, rules that do not name its
/// words ignore it, and a step that must not be repeated is decided as after any failure.
#[test]
fn usage_limit_uses_up_no_attempt() {
    let when = FailureMatch { class: Some(FailureClass::Transient), ..FailureMatch::default() };
    let rule = FailureRule { id: "any".to_owned(), when, then: FailureAction::Fail };
    let when = FailureMatch { message: Some("weekly".to_owned()), ..FailureMatch::default() };
    let named = FailureRule { id: "named".to_owned(), when, then: FailureAction::Fail };
    let failure = FailurePolicy { rules: vec![named, rule], ..FailurePolicy::default() };
    let retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }.into());
    let once = Step { retry, ..step("a", &[]) };
    let pay = Step { idempotent: Some(Idempotence::No), ..step("pay", &[]) };
    let steps = vec![once, step("b", &[]), step("c", &[]), pay];
    let mut ledger = TestLedger::with(&Plan { failure, ..plan(steps) }, RunPolicy::default());
    let mut limited = |id: &str, word: &str, message: &str| {
        let token = ledger.dispatch(id);
        let payload = serde_json::json!({USAGE_LIMIT: word, RETRY_AFTER: 60});
        let outcome = Outcome::Failed {
            class: FailureClass::Transient,
            message: message.to_owned(),
            payload: Json::new(&payload),
        };
        let now = ledger.now;
        let events = ledger.report(token, Receipt { outcome, ..Receipt::default() });
        let FailureDecided { decision, rule, .. } = decided(&events);
        ledger.now += 61 * SECOND;
        ledger.execute(Command::Tick).unwrap();
        (decision, rule, now, ledger.step(id).failures)
    };
    for word in ["worker", "output", "output", "output"] {
        let (decision, rule, now, failures) = limited("a", word, "session limit");
        let due = now + 60 * SECOND;
        assert_eq!(
            (decision, &*rule, failures),
            (Decision::RetryAt { due }, "retry.usage_limit", 0)
        );
    }
    let (decision, rule, _, failures) = limited("b", "person", "spend limit");
    assert_eq!((decision, &*rule, failures), (Decision::Escalate, "escalate.usage_limit", 0));
    let (decision, rule, ..) = limited("c", "output", "weekly limit");
    assert_eq!((decision, &*rule), (Decision::Fail, "named"));
    let (decision, rule, _, failures) = limited("pay", "output", "session limit");
    assert_eq!((decision, &*rule, failures), (Decision::Fail, "any", 1));
}

/// Parallel workers that meet a limit which only a person ends ask one question.
#[test]
fn limit_of_an_owner_is_asked_about_once() {
    let owned = |id: &str, owner: &str| Step { owner: Some(owner.to_owned()), ..step(id, &[]) };
    let steps = vec![owned("a", "claude"), owned("b", "claude"), owned("c", "codex")];
    let mut ledger = TestLedger::with(&plan(steps), RunPolicy::default());
    let tokens = ["a", "b", "c"].map(|id| ledger.dispatch(id));
    let decisions = tokens.map(|token| {
        let outcome = Outcome::Failed {
            class: FailureClass::Transient,
            message: "spend limit".to_owned(),
            payload: Json::new(&serde_json::json!({USAGE_LIMIT: "person"})),
        };
        let events = ledger.report(token, Receipt { outcome, ..Receipt::default() });
        decided(&events).decision
    });
    let due = ledger.now + 300 * SECOND;
    let [first, second, third] = decisions;
    assert_eq!((first, second), (Decision::Escalate, Decision::RetryAt { due }));
    assert_eq!(third, Decision::Escalate, "it is another account");
    assert_eq!(ledger.state.runs.get(&RunId(1)).unwrap().questions.len(), 2);
}

/// A delay may end before it is due, once.
#[test]
fn delay_ends_before_it_is_due() {
    let mut ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let token = ledger.dispatch("a");
    let payload = Json::new(&serde_json::json!({RETRY_AFTER: 3600}));
    let (class, message) = (FailureClass::Transient, "later".to_owned());
    let outcome = Outcome::Failed { class, message, payload };
    ledger.report(token, Receipt { outcome, ..Receipt::default() });
    assert_eq!(ledger.status("a"), StepStatus::Delayed);
    let end = || Command::EndDelay { run: RunId(1), step: StepNumber(1), by: "ana".into() };
    let ended = ledger.execute(end()).unwrap();
    assert!(format!("{ended:?}").contains("ana"), "{ended:?}");
    assert_eq!(kinds(&ended), "DelayElapsed");
    assert_eq!(ledger.status("a"), StepStatus::Ready);
    assert_eq!(ledger.execute(end()), Ok(Vec::new()));
}
