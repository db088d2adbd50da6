//! What follows by itself: acceptance, failure, barriers, and how runs end.

use super::support::*;
use crate::plan::*;

fn text(body: &str) -> Criterion {
    Criterion::Text(body.to_owned())
}

#[test]
fn a_step_without_criteria_is_accepted_by_its_receipt() {
    let mut world = World::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let token = world.deal("a");
    let events = world.report(token, Receipt::default());
    assert_eq!(kinds(&events), "ReceiptRecorded Accepted RunEnded");
    assert_eq!(world.step("a").accepted(), Some(&AcceptedBasis::Receipt));
}

#[test]
fn a_step_with_criteria_waits_for_all_of_its_verdicts() {
    let judged = Step { acceptance: vec![text("x"), text("y")], ..step("a", &[]) };
    let mut world = World::with(&plan(vec![judged]), RunPolicy::default());
    let token = world.deal("a");
    assert_eq!(kinds(&world.report(token, Receipt::default())), "ReceiptRecorded");
    let judge = |criterion| Command::Judge {
        token,
        verdicts: vec![verdict(criterion, Ruling::Pass, "ann")],
    };
    assert_eq!(kinds(&world.ask(judge(1)).unwrap()), "VerdictRecorded");
    assert_eq!(kinds(&world.ask(judge(0)).unwrap()), "VerdictRecorded Accepted RunEnded");
    assert_eq!(world.step("a").accepted(), Some(&AcceptedBasis::Verdicts));
}

#[test]
fn trust_judges_text_and_nothing_else() {
    let command = Criterion::Command("cargo test".to_owned());
    let mixed = Step { acceptance: vec![text("x"), command], ..step("a", &[]) };
    let mut world = World::with(&plan(vec![mixed]), trust());
    let token = world.deal("a");
    let events = world.report(token, Receipt::default());
    assert_eq!(kinds(&events), "ReceiptRecorded VerdictRecorded");
    let verdicts = vec![verdict(1, Ruling::Pass, "runner")];
    world.ask(Command::Judge { token, verdicts }).unwrap();
    assert_eq!(world.step("a").accepted(), Some(&AcceptedBasis::WorkersWord));
}

#[test]
fn a_failed_verdict_is_a_failure_and_is_retried() {
    let judged = Step { acceptance: vec![text("x")], ..step("a", &[]) };
    let mut world = World::with(&plan(vec![judged]), RunPolicy::default());
    let token = world.deal("a");
    world.report(token, Receipt::default());
    let verdicts = vec![verdict(0, Ruling::Fail, "ann")];
    let events = world.ask(Command::Judge { token, verdicts }).unwrap();
    assert_eq!(kinds(&events), "VerdictRecorded FailureDecided");
    assert_eq!(world.status("a"), StepStatus::Ready);
    let message = "criterion 1 (`x`) does not hold: seen".to_owned();
    assert_eq!(world.step("a").last_failure(), Some(&(FailureClass::Unknown, message)));
    let token = world.deal("a");
    world.report(token, Receipt::default());
    assert_eq!(world.status("a"), StepStatus::Reported, "old verdicts do not count");
}

fn decided(events: &[Event]) -> (Decision, String) {
    let decided = events.iter().find_map(|event| match event {
        Event::Step(StepRecord { event: StepEvent::FailureDecided(decided), .. }) => Some(decided),
        _ => None,
    });
    decided.map(|decided| (decided.decision, decided.rule.clone())).unwrap()
}

#[test]
fn failures_are_retried_until_the_attempts_are_used_up() {
    let mut world = World::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    for _ in 0..2 {
        let events = world.fail("a", FailureClass::Transient);
        assert_eq!(decided(&events), (Decision::Retry, "retry.attempts_left".to_owned()));
        assert_eq!(world.status("a"), StepStatus::Ready);
    }
    let events = world.fail("a", FailureClass::Unknown);
    assert_eq!(decided(&events), (Decision::Fail, "fail.attempts_exhausted".to_owned()));
    assert_eq!(world.status("a"), StepStatus::Failed);
    let last = (FailureClass::Unknown, "it broke".to_owned());
    assert_eq!(world.step("a").last_failure(), Some(&last));
}

#[test]
fn a_hopeless_class_is_not_retried_unless_the_author_says_so() {
    for (class, rule) in [
        (FailureClass::Deterministic, "fail.class_deterministic"),
        (FailureClass::AssumptionBroken, "fail.class_assumption_broken"),
        (FailureClass::BudgetExhausted, "fail.class_budget_exhausted"),
    ] {
        let mut world = World::with(&plan(vec![step("a", &[])]), RunPolicy::default());
        assert_eq!(decided(&world.fail("a", class)), (Decision::Fail, rule.to_owned()));
    }
    let per_class = [("deterministic".to_owned(), 2)].into();
    let retry = Some(RetryPolicy { per_class, ..RetryPolicy::default() }.into());
    let stubborn = plan(vec![Step { retry, ..step("a", &[]) }]);
    let mut world = World::with(&stubborn, RunPolicy::default());
    assert_eq!(decided(&world.fail("a", FailureClass::Deterministic)).0, Decision::Retry);
    assert_eq!(decided(&world.fail("a", FailureClass::Deterministic)).0, Decision::Fail);
}

#[test]
fn a_worker_that_asks_for_another_plan_has_failed() {
    let mut world = World::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let token = world.deal("a");
    let outcome = Outcome::ReplanRequested { reason: "no such table".to_owned() };
    let events = world.report(token, Receipt { outcome, ..Receipt::default() });
    assert_eq!(decided(&events).1, "fail.class_assumption_broken");
    let (class, message) = world.step("a").last_failure().cloned().unwrap();
    assert_eq!(class, FailureClass::AssumptionBroken);
    assert!(message.contains("no such table"));
}

#[test]
fn accepted_work_sets_the_variables_that_it_declares() {
    let outputs = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let one = Step { outputs: outputs(&["whole"]), ..step("a", &[]) };
    let two = Step { outputs: outputs(&["x", "y"]), ..step("b", &[]) };
    let mut world = World::with(&plan(vec![one, two]), RunPolicy::default());
    let a = world.deal("a");
    let b = world.deal("b");
    let output = Json::from(serde_json::json!({ "x": 1, "z": 2 }));
    let extra = Json::from(serde_json::json!("more"));
    let variables = vec![("extra".to_owned(), extra.clone()), ("extra".to_owned(), extra.clone())];
    world.report(a, Receipt { output: output.clone().into(), ..Receipt::default() });
    world.report(b, Receipt { output: output.clone().into(), variables, ..Receipt::default() });
    let found: Vec<(&str, &Json, u64)> = world
        .run()
        .variables
        .iter()
        .map(|(name, variable)| (name.as_str(), &variable.value, variable.version))
        .collect();
    let one = Json::from(serde_json::json!(1));
    assert_eq!(found, [("extra", &extra, 1), ("whole", &output, 1), ("x", &one, 1)]);
    let origin = Origin::Step { step: StepNumber(2), token: b };
    assert_eq!(world.run().variables["x"].origin, origin);
}

fn joined(needs: BarrierNeeds, on_break: OnBreak) -> Plan {
    let retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }.into());
    let member = |id| Step { retry: retry.clone(), ..step(id, &[]) };
    let steps = vec![member("a"), member("b"), member("c"), step("z", &["gate"])];
    let gate = Barrier { on_break, ..barrier("gate", &["a", "b", "c"], needs) };
    Plan { barriers: vec![gate], ..plan(steps) }
}

#[test]
fn a_barrier_is_released_when_enough_members_arrived() {
    for (needs, count) in
        [(BarrierNeeds::Any, 1), (BarrierNeeds::AtLeast(2), 2), (BarrierNeeds::All, 3)]
    {
        let mut world = World::with(&joined(needs, OnBreak::Fail), RunPolicy::default());
        for id in ["a", "b", "c"].iter().take(count) {
            assert_eq!(world.status("z"), StepStatus::Waiting);
            let waits = world.run().waiting_for(world.number("z"));
            assert_eq!(waits, [Dependency::Barrier("gate".to_owned())]);
            world.work(id);
        }
        assert_eq!(world.status("z"), StepStatus::Ready);
        assert_eq!(world.run().barriers["gate"].status, BarrierStatus::Released);
    }
}

#[test]
fn a_broken_barrier_fails_the_run_once_nothing_is_in_flight() {
    let mut world = World::with(&joined(BarrierNeeds::All, OnBreak::Fail), RunPolicy::default());
    let token = world.deal("b");
    let events = world.fail("a", FailureClass::Unknown);
    assert_eq!(kinds(&events), "ReceiptRecorded FailureDecided Barrier");
    let nothing = Rejection::NothingReady { in_flight: 1, reported: 0, in_doubt: 0 };
    assert_eq!(world.try_deal("c"), Err(nothing));
    let events = world.report(token, Receipt::default());
    assert_eq!(kinds(&events), "ReceiptRecorded Accepted RunEnded");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Failed));
}

#[test]
fn a_barrier_that_may_wait_lets_the_others_go_on() {
    let mut world = World::with(&joined(BarrierNeeds::All, OnBreak::Wait), RunPolicy::default());
    world.fail("a", FailureClass::Unknown);
    world.work("b");
    assert_eq!(world.run().status, RunStatus::Running);
    world.work("c");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Failed), "nothing can go on");
}

#[test]
fn a_broken_barrier_mends_when_its_member_is_retried() {
    let mut world = World::with(&joined(BarrierNeeds::All, OnBreak::Fail), RunPolicy::default());
    world.fail("a", FailureClass::Unknown);
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Failed));
    world.ask(Command::RetryFailed { run: RunId(1), by: "ann".to_owned() }).unwrap();
    for id in ["a", "b", "c", "z"] {
        world.work(id);
    }
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
}

#[test]
fn a_skipped_member_counts_as_arrived() {
    let mut world = World::with(&joined(BarrierNeeds::All, OnBreak::Wait), RunPolicy::default());
    world.fail("a", FailureClass::Unknown);
    assert_eq!(world.run().barriers["gate"].status, BarrierStatus::Broken);
    let (by, reason) = ("ann".to_owned(), String::new());
    world.ask(Command::Skip { run: RunId(1), step: StepNumber(1), by, reason }).unwrap();
    world.work("b");
    world.work("c");
    assert_eq!(world.status("z"), StepStatus::Ready);
}

#[test]
fn other_branches_go_on_after_a_failure_unless_the_run_says_otherwise() {
    let two = plan(vec![step("a", &[]), step("b", &[]), step("c", &[])]);
    let mut world = World::with(&two, RunPolicy::default());
    world.fail("a", FailureClass::Deterministic);
    world.work("b");
    world.work("c");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Failed));

    let policy = RunPolicy { on_failure: OnFailure::FailFast, ..RunPolicy::default() };
    let mut world = World::with(&two, policy);
    let token = world.deal("b");
    world.fail("a", FailureClass::Deterministic);
    assert!(matches!(world.try_deal("c"), Err(Rejection::NothingReady { in_flight: 1, .. })));
    world.report(token, Receipt::default());
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Failed));
    assert_eq!(world.status("c"), StepStatus::Ready);
}

#[test]
fn the_plan_has_criteria_of_its_own() {
    let mut judged = plan(vec![step("a", &[])]);
    judged.test_criteria = vec![text("all is well")];
    let mut world = World::with(&judged, trust());
    let token = world.deal("a");
    let events = world.report(token, Receipt::default());
    assert_eq!(kinds(&events), "ReceiptRecorded Accepted PlanVerdict RunEnded");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));

    let mut world = World::with(&judged, RunPolicy::default());
    world.work("a");
    assert_eq!(world.run().status, RunStatus::Running);
    let judge =
        |ruling| Command::JudgePlan { run: RunId(1), verdicts: vec![verdict(0, ruling, "ann")] };
    world.ask(judge(Ruling::Fail)).unwrap();
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Failed));
    world.ask(Command::RetryFailed { run: RunId(1), by: "ann".to_owned() }).unwrap();
    world.ask(judge(Ruling::Pass)).unwrap();
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
}

#[test]
fn a_plan_that_continues_does_not_end_with_its_steps() {
    let first = Plan { continues: true, ..plan(vec![step("a", &[])]) };
    let mut world = World::with(&first, RunPolicy::default());
    world.work("a");
    assert_eq!(world.run().status, RunStatus::Running);
    let second = plan(vec![step("a", &[]), step("b", &["a"])]);
    world.propose(&second).unwrap();
    world.work("b");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
}

#[test]
fn cycles_and_unknown_names_wait_and_then_fail_the_run() {
    let odd = plan(vec![step("a", &["b"]), step("b", &["a"]), step("c", &["nobody"])]);
    let world = World::with(&odd, RunPolicy::default());
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Failed));
    let waits = world.run().waiting_for(StepNumber(3));
    assert_eq!(waits, [Dependency::Unknown("nobody".to_owned())]);
}

#[test]
fn costs_add_up() {
    let mut world = World::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let cost = Cost { money_micros: 3, tokens: u64::MAX };
    let token = world.deal("a");
    world.report(token, Receipt { cost, ..failed(FailureClass::Transient) });
    let token = world.deal("a");
    world.report(token, Receipt { cost, ..Receipt::default() });
    assert_eq!(world.run().spent(), Cost { money_micros: 6, tokens: u64::MAX });
}
