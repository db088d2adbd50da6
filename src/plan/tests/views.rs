//! The views show the state as of the command that was executed last.

use super::support::*;
use crate::plan::*;

fn gated() -> TestLedger {
    let gate = Gate { question: "publish?".to_owned(), ..Gate::default() };
    let mut all = plan(vec![
        Step { title: "Write it".to_owned(), ..step("write", &[]) },
        Step { gate: Some(Box::new(gate)), ..step("publish", &["write"]) },
        step("tell", &["publish"]),
    ]);
    all.title = "Article".to_owned();
    all.budget.money_micros = Some(1000);
    TestLedger::with(&all, trust())
}

/// A failure, the next timer, the rest of the budget and the allowed attempts are facts of the run.
#[test]
fn run_knows_its_newest_failure_next_timer_and_remaining_budget() {
    let mut ledger = gated();
    ledger.fail("write", FailureClass::Transient);
    ledger.dispatch("write");
    let run = ledger.run();
    let step = run.step(StepNumber(1)).unwrap();
    assert_eq!(
        (step.attempts, run.attempts_allowed(StepNumber(1))),
        (2, RetryPolicy::default().max_attempts)
    );
    assert_eq!(run.next_timer(), step.attempt().map(|attempt| attempt.lease_until));
    let failure = run.newest_failure().map(|(step, class, _)| (step.0, class));
    assert_eq!(failure, Some((1, FailureClass::Transient)));
    assert_eq!((run.counters.failures, run.counters.retries, run.account.attempts), (1, 1, 2));
    assert_eq!(VersionSummary::of_run(run).len(), 1);
    assert_eq!(run.remaining(ledger.now).money_micros, Some(1000));
}

/// A step is current while it waits for its retry or for a person, and a question about a failure is
/// no retry.
#[test]
fn execution_state_is_at_the_step_that_waits() {
    let mut all = plan(vec![
        Step {
            retry: Some(Box::new(RetryPolicy {
                max_attempts: 2,
                backoff_seconds: 60,
                ..RetryPolicy::default()
            })),
            ..step("fetch", &[])
        },
        Step { owner: Some("human:ana".to_owned()), ..step("sign", &[]) },
        step("tell", &["fetch", "sign"]),
    ]);
    all.failure.rules = vec![FailureRule {
        id: "ask".to_owned(),
        when: FailureMatch { class: Some(FailureClass::Unknown), ..FailureMatch::default() },
        then: FailureAction::Escalate { to: None, deadline_seconds: None, on_timeout: None },
    }];
    let mut ledger = TestLedger::with(&all, trust());
    let current = |ledger: &TestLedger| {
        let state = ledger.run().execution_state(ledger.now);
        let ids: Vec<String> = state.current.into_values().collect();
        (ids.join(" "), state.retries_used.get("fetch").copied())
    };
    assert_eq!(current(&ledger), ("sign".into(), None));
    ledger.fail("fetch", FailureClass::Transient);
    assert_eq!(ledger.step("fetch").status, StepStatus::Delayed);
    assert_eq!(current(&ledger), ("fetch sign".into(), Some(1)));
    let mut ledger = TestLedger::with(&all, trust());
    ledger.fail("fetch", FailureClass::Unknown);
    assert_eq!(ledger.step("fetch").status, StepStatus::Gated);
    assert_eq!(current(&ledger), ("fetch sign".into(), None));
}

/// A run in which nothing begins for half an hour is reported, unless a person holds it or an estimate
/// says that the attempt may take so long.
#[test]
fn stalled_run_is_reported_after_half_an_hour() {
    let stalled = |ledger: &TestLedger, minutes: u64| {
        let (last, now) = (ledger.now, ledger.now + minutes * 60 * SECOND);
        let found = ledger.run().warnings(last, now);
        found.iter().any(|warning| matches!(warning, Warning::Stalled { .. }))
    };
    let ready = TestLedger::with(&plan(vec![step("a", &[])]), trust());
    assert_eq!([29, 30].map(|minutes| stalled(&ready, minutes)), [false, true]);
    let mut working = TestLedger::with(&plan(vec![step("a", &[])]), trust());
    working.dispatch("a");
    assert_eq!([29, 30].map(|minutes| stalled(&working, minutes)), [false, true]);
    let estimated = Step { estimate_seconds: Some(7_200), ..step("a", &[]) };
    let mut estimated = TestLedger::with(&plan(vec![estimated]), trust());
    estimated.dispatch("a");
    assert_eq!([30, 300].map(|minutes| stalled(&estimated, minutes)), [false, false]);
    let mut paused = TestLedger::with(&plan(vec![step("a", &[])]), trust());
    let (run, by, reason) = (paused.run().id, "ana".to_owned(), String::new());
    paused.execute(Command::Pause { run, by, reason }).unwrap();
    assert!(!stalled(&paused, 300));
    let mut asked = gated();
    asked.complete("write");
    assert!(!stalled(&asked, 300), "it waits for a person");
}

/// The execution state has the fields that an agent needs to continue.
#[test]
fn execution_state_has_its_fields() {
    let mut ledger = gated();
    let token = ledger.dispatch("write");
    let cost = Cost { money_micros: 300, tokens: 7 };
    let side_effects = vec!["post/1".to_owned()];
    ledger.report(token, Receipt { side_effects, cost, ..Receipt::default() });
    ledger.now += 5 * SECOND;
    let state = ledger.run().execution_state(ledger.now);
    let ids = |list: &std::collections::BTreeMap<StepNumber, String>| {
        list.values().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids(&state.completed), "write");
    // The run is at the step about which a person is asked.
    assert_eq!((ids(&state.current), ids(&state.pending)), ("publish".into(), "tell".into()));
    assert!(state.retries_used.is_empty());
    assert_eq!((state.plan_version, state.elapsed), (1, 5 * SECOND));
    assert_eq!(state.budget_remaining.money_micros, Some(700));
    assert!(state.side_effects_committed["post/1"] > 0);
}
