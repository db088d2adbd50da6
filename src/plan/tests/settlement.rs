//! Automatic consequences: acceptance, failure decisions, barriers, and the end of runs.

use super::support::*;
use crate::plan::*;

fn text(body: &str) -> Criterion {
    Criterion::Text(body.to_owned())
}

#[test]
fn step_without_criteria_is_accepted_by_its_receipt() {
    let mut ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let token = ledger.dispatch("a");
    let events = ledger.report(token, Receipt::default());
    assert_eq!(kinds(&events), "ReceiptRecorded Accepted RunEnded");
    assert_eq!(ledger.step("a").accepted(), Some(&AcceptedBasis::Receipt));
}

#[test]
fn step_with_criteria_waits_for_all_verdicts() {
    let judged = Step { acceptance: vec![text("x"), text("y")], ..step("a", &[]) };
    let mut ledger = TestLedger::with(&plan(vec![judged]), RunPolicy::default());
    let token = ledger.dispatch("a");
    assert_eq!(kinds(&ledger.report(token, Receipt::default())), "ReceiptRecorded");
    let judge = |criterion| Command::Judge {
        token,
        verdicts: vec![verdict(criterion, Ruling::Pass, "ann")],
    };
    assert_eq!(kinds(&ledger.execute(judge(1)).unwrap()), "VerdictRecorded");
    assert_eq!(kinds(&ledger.execute(judge(0)).unwrap()), "VerdictRecorded Accepted RunEnded");
    assert_eq!(ledger.step("a").accepted(), Some(&AcceptedBasis::Verdicts));
}

#[test]
fn trust_accepts_text_criteria_only() {
    let command = Criterion::Command("cargo test".to_owned());
    let mixed = Step { acceptance: vec![text("x"), command], ..step("a", &[]) };
    let mut ledger = TestLedger::with(&plan(vec![mixed]), trust());
    let token = ledger.dispatch("a");
    let events = ledger.report(token, Receipt::default());
    assert_eq!(kinds(&events), "ReceiptRecorded VerdictRecorded");
    let verdicts = vec![verdict(1, Ruling::Pass, "runner")];
    ledger.execute(Command::Judge { token, verdicts }).unwrap();
    assert_eq!(ledger.step("a").accepted(), Some(&AcceptedBasis::WorkersWord));
}

#[test]
fn failed_verdict_is_retried() {
    let judged = Step { acceptance: vec![text("x")], ..step("a", &[]) };
    let mut ledger = TestLedger::with(&plan(vec![judged]), RunPolicy::default());
    let token = ledger.dispatch("a");
    ledger.report(token, Receipt::default());
    let verdicts = vec![verdict(0, Ruling::Fail, "ann")];
    let events = ledger.execute(Command::Judge { token, verdicts }).unwrap();
    assert_eq!(kinds(&events), "VerdictRecorded FailureDecided");
    assert_eq!(ledger.status("a"), StepStatus::Ready);
    let message = "criterion 1 (`x`) does not hold: seen".to_owned();
    assert_eq!(
        ledger.step("a").last_failure(),
        Some(&(FailureClass::CriterionFailed, message.into()))
    );
    let token = ledger.dispatch("a");
    ledger.report(token, Receipt::default());
    assert_eq!(
        ledger.status("a"),
        StepStatus::Reported,
        "verdicts on an earlier attempt do not count"
    );
}

fn decided(events: &[Event]) -> (Decision, String) {
    let decided = events.iter().find_map(|event| match event {
        Event::Step(StepRecord { event: StepEvent::FailureDecided(decided), .. }) => Some(decided),
        _ => None,
    });
    decided.map(|decided| (decided.decision, decided.rule.clone())).unwrap()
}

#[test]
fn failures_are_retried_up_to_the_attempt_limit() {
    let mut ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    for _ in 0..2 {
        let events = ledger.fail("a", FailureClass::Transient);
        assert_eq!(decided(&events), (Decision::Retry, "retry.attempts_left".to_owned()));
        assert_eq!(ledger.status("a"), StepStatus::Ready);
    }
    let events = ledger.fail("a", FailureClass::Unknown);
    assert_eq!(decided(&events), (Decision::Fail, "fail.attempts_exhausted".to_owned()));
    assert_eq!(ledger.status("a"), StepStatus::Failed);
    let last = (FailureClass::Unknown, "it broke".into());
    assert_eq!(ledger.step("a").last_failure(), Some(&last));
}

/// A lost attempt counts as a failure if the plan states how the step is retried.
#[test]
fn lost_attempts_count_towards_the_limit() {
    let mut ledger = TestLedger::with(&plan(vec![step("a", &[])]), trust());
    for _ in 0..3 {
        assert_eq!(ledger.status("a"), StepStatus::Ready);
        ledger.dispatch("a");
        ledger.now += 24 * 3600 * SECOND;
        ledger.execute(Command::Tick).unwrap();
    }
    assert_eq!(ledger.status("a"), StepStatus::OutcomeUnknown);
}

#[test]
fn deterministic_failure_is_retried_only_if_the_plan_says_so() {
    for (class, decision, rule) in [
        (FailureClass::Deterministic, Decision::Fail, "fail.class_deterministic"),
        (FailureClass::AssumptionBroken, Decision::Fail, "fail.class_assumption_broken"),
        (FailureClass::BudgetExhausted, Decision::Escalate, "escalate.class_budget_exhausted"),
    ] {
        let mut ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
        assert_eq!(decided(&ledger.fail("a", class)), (decision, rule.to_owned()));
    }
    let per_class = [("deterministic".to_owned(), 2)].into();
    let retry = Some(RetryPolicy { per_class, ..RetryPolicy::default() }.into());
    let stubborn = plan(vec![Step { retry, ..step("a", &[]) }]);
    let mut ledger = TestLedger::with(&stubborn, RunPolicy::default());
    assert_eq!(decided(&ledger.fail("a", FailureClass::Deterministic)).0, Decision::Retry);
    assert_eq!(decided(&ledger.fail("a", FailureClass::Deterministic)).0, Decision::Fail);
}

#[test]
fn replan_request_of_a_worker_is_a_failure() {
    let mut ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let token = ledger.dispatch("a");
    let outcome = Outcome::ReplanRequested {
        reason: "no such table".to_owned(),
        from: None,
        kind: ReplanKind::Replan,
    };
    let events = ledger.report(token, Receipt { outcome, ..Receipt::default() });
    assert_eq!(decided(&events).1, "replan.requested");
    let (class, message) = ledger.step("a").last_failure().cloned().unwrap();
    assert_eq!(class, FailureClass::AssumptionBroken);
    assert!(message.contains("no such table"));
}

#[test]
fn accepted_output_sets_declared_variables() {
    let outputs = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let one = Step { outputs: outputs(&["whole"]), ..step("a", &[]) };
    let two = Step {
        outputs: outputs(&["x", "y"]),
        optional_outputs: vec!["y".to_owned()].into(),
        ..step("b", &[])
    };
    let mut ledger = TestLedger::with(&plan(vec![one, two]), RunPolicy::default());
    let a = ledger.dispatch("a");
    let b = ledger.dispatch("b");
    let output = Json::from(serde_json::json!({ "x": 1, "z": 2 }));
    let extra = Json::from(serde_json::json!("more"));
    let variables = vec![("extra".to_owned(), extra.clone()), ("extra".to_owned(), extra.clone())];
    ledger.report(a, Receipt { output: output.clone().into(), ..Receipt::default() });
    ledger.report(b, Receipt { output: output.clone().into(), variables, ..Receipt::default() });
    let found: Vec<(&str, &Json, u64)> = ledger
        .run()
        .variables
        .iter()
        .map(|(name, variable)| (name.as_str(), &variable.value, variable.version))
        .collect();
    let one = Json::from(serde_json::json!(1));
    assert_eq!(found, [("extra", &extra, 1), ("whole", &output, 1), ("x", &one, 1)]);
    let origin = Origin::Step { step: StepNumber(2), token: b };
    assert_eq!(ledger.run().variables["x"].origin, origin);
}

/// A step that declares an output is not done without it.
#[test]
fn declared_output_that_does_not_arrive_fails_the_attempt() {
    let outputs = vec!["x".to_owned(), "y".to_owned()];
    let step = Step { outputs, ..step("a", &[]) };
    let report = |output: serde_json::Value, variables: Vec<(String, Json)>| {
        let mut ledger = TestLedger::with(&plan(vec![step.clone()]), trust());
        let token = ledger.dispatch("a");
        let output = Json::from(output).into();
        ledger.report(token, Receipt { output, variables, ..Receipt::default() });
        let failure =
            ledger.run().step(StepNumber(1)).and_then(|step| step.last_failure().cloned());
        if let Some((class, _)) = &failure {
            assert_eq!(*class, FailureClass::CriterionFailed);
        }
        (ledger.status("a"), failure.map_or_else(String::new, |(_, message)| message.to_string()))
    };
    let (status, message) = report(serde_json::json!({ "x": 1 }), Vec::new());
    assert_eq!(status, StepStatus::Ready);
    assert_eq!(message, "the declared output `y` did not arrive");
    let (_, message) = report(serde_json::json!("text"), Vec::new());
    assert_eq!(message, "the declared outputs `x`, `y` did not arrive");
    let set = vec![("y".to_owned(), Json::from(serde_json::json!(2)))];
    assert_eq!(report(serde_json::json!({ "x": null }), set).0, StepStatus::Accepted);
}

fn joined(needs: BarrierNeeds, on_break: OnBreak) -> Plan {
    let retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }.into());
    let member = |id| Step { retry: retry.clone(), ..step(id, &[]) };
    let steps = vec![member("a"), member("b"), member("c"), step("z", &["gate"])];
    let gate = Barrier { on_break, ..barrier("gate", &["a", "b", "c"], needs) };
    Plan { barriers: vec![gate], ..plan(steps) }
}

#[test]
fn barrier_is_released_when_enough_members_arrived() {
    for (needs, count) in
        [(BarrierNeeds::Any, 1), (BarrierNeeds::AtLeast(2), 2), (BarrierNeeds::All, 3)]
    {
        let mut ledger = TestLedger::with(&joined(needs, OnBreak::Fail), RunPolicy::default());
        for id in ["a", "b", "c"].iter().take(count) {
            assert_eq!(ledger.status("z"), StepStatus::Waiting);
            let waits = ledger.run().unmet_dependencies(ledger.number("z"));
            assert_eq!(waits, [Dependency::Barrier("gate".to_owned())]);
            ledger.complete(id);
        }
        assert_eq!(ledger.status("z"), StepStatus::Ready);
        assert_eq!(ledger.run().barriers["gate"].status, BarrierStatus::Released);
    }
}

#[test]
fn broken_barrier_fails_the_run_when_idle() {
    let mut ledger =
        TestLedger::with(&joined(BarrierNeeds::All, OnBreak::Fail), RunPolicy::default());
    let token = ledger.dispatch("b");
    let events = ledger.fail("a", FailureClass::Unknown);
    assert_eq!(kinds(&events), "ReceiptRecorded FailureDecided BarrierChanged");
    let nothing = Rejection::NothingReady { in_flight: 1, reported: 0, outcome_unknown: 0 };
    assert_eq!(ledger.try_dispatch("c"), Err(nothing));
    let events = ledger.report(token, Receipt::default());
    assert_eq!(kinds(&events), "ReceiptRecorded Accepted RunEnded");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Failed));
}

#[test]
fn waiting_broken_barrier_does_not_stop_other_steps() {
    let mut ledger =
        TestLedger::with(&joined(BarrierNeeds::All, OnBreak::Wait), RunPolicy::default());
    ledger.fail("a", FailureClass::Unknown);
    ledger.complete("b");
    assert_eq!(ledger.run().status, RunStatus::Running);
    ledger.complete("c");
    assert_eq!(
        ledger.run().status,
        RunStatus::Ended(Ending::Failed),
        "no step is left to dispatch"
    );
}

#[test]
fn retry_of_a_member_closes_a_broken_barrier() {
    let mut ledger =
        TestLedger::with(&joined(BarrierNeeds::All, OnBreak::Fail), RunPolicy::default());
    ledger.fail("a", FailureClass::Unknown);
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Failed));
    ledger.execute(Command::RetryFailed { run: RunId(1), by: "ann".to_owned() }).unwrap();
    for id in ["a", "b", "c", "z"] {
        ledger.complete(id);
    }
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
}

#[test]
fn skipped_member_counts_as_arrived() {
    let mut ledger =
        TestLedger::with(&joined(BarrierNeeds::All, OnBreak::Wait), RunPolicy::default());
    ledger.fail("a", FailureClass::Unknown);
    assert_eq!(ledger.run().barriers["gate"].status, BarrierStatus::Broken);
    let (by, reason) = ("ann".to_owned(), String::new());
    ledger.execute(Command::Skip { run: RunId(1), step: StepNumber(1), by, reason }).unwrap();
    ledger.complete("b");
    ledger.complete("c");
    assert_eq!(ledger.status("z"), StepStatus::Ready);
}

#[test]
fn other_branches_continue_after_a_failure() {
    let two = plan(vec![step("a", &[]), step("b", &[]), step("c", &[])]);
    let mut ledger = TestLedger::with(&two, RunPolicy::default());
    ledger.fail("a", FailureClass::Deterministic);
    ledger.complete("b");
    ledger.complete("c");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Failed));

    let policy = RunPolicy { on_failure: OnFailure::FailFast, ..RunPolicy::default() };
    let mut ledger = TestLedger::with(&two, policy);
    let token = ledger.dispatch("b");
    ledger.fail("a", FailureClass::Deterministic);
    assert!(matches!(ledger.try_dispatch("c"), Err(Rejection::NothingReady { in_flight: 1, .. })));
    ledger.report(token, Receipt::default());
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Failed));
    assert_eq!(ledger.status("c"), StepStatus::Ready);
}

#[test]
fn plan_criteria_are_judged_after_the_last_step() {
    let mut judged = plan(vec![step("a", &[])]);
    judged.test_criteria = vec![text("all is well")];
    // Trust is for the workers of steps; no worker was asked about the plan.
    for policy in [RunPolicy::default(), trust()] {
        let mut ledger = TestLedger::with(&judged, policy);
        ledger.complete("a");
        assert_eq!(ledger.run().status, RunStatus::Running);
        let judge = |ruling| Command::JudgePlan {
            run: RunId(1),
            verdicts: vec![verdict(0, ruling, "ann")],
        };
        ledger.execute(judge(Ruling::Fail)).unwrap();
        assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Failed));
        ledger.execute(Command::RetryFailed { run: RunId(1), by: "ann".to_owned() }).unwrap();
        ledger.execute(judge(Ruling::Pass)).unwrap();
        assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
    }
}

#[test]
fn continuing_plan_does_not_end_with_its_steps() {
    let first = Plan { continues: true, ..plan(vec![step("a", &[])]) };
    let mut ledger = TestLedger::with(&first, RunPolicy::default());
    ledger.complete("a");
    assert_eq!(ledger.run().status, RunStatus::Running);
    let second = plan(vec![step("a", &[]), step("b", &["a"])]);
    ledger.propose(&second).unwrap();
    ledger.complete("b");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
}

#[test]
fn cycles_and_unknown_names_fail_the_run() {
    let odd = plan(vec![step("a", &["b"]), step("b", &["a"]), step("c", &["missing"])]);
    let ledger = TestLedger::with(&odd, RunPolicy::default());
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Failed));
    let waits = ledger.run().unmet_dependencies(StepNumber(3));
    assert_eq!(waits, [Dependency::Unknown("missing".to_owned())]);
}

#[test]
fn costs_are_summed() {
    let mut ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let cost = Cost { money_micros: 3, tokens: u64::MAX };
    let token = ledger.dispatch("a");
    ledger.report(token, Receipt { cost, ..failed(FailureClass::Transient) });
    let token = ledger.dispatch("a");
    ledger.report(token, Receipt { cost, ..Receipt::default() });
    assert_eq!(ledger.run().spent(), Cost { money_micros: 6, tokens: u64::MAX });
}
