//! How each command says no.

use super::support::*;
use crate::plan::*;

fn one() -> World {
    World::with(&plan(vec![step("a", &[]), step("b", &["a"])]), RunPolicy::default())
}

const ABSENT: RunId = RunId(9);

#[test]
fn what_names_no_run_is_refused() {
    let by = || "ann".to_owned();
    let (step, reason) = (StepNumber(1), String::new());
    let hash = ContentHash::default();
    let commands = [
        Command::ProposePlan {
            run: ABSENT,
            draft: draft(&plan(vec![])),
            reason: by(),
            trigger: None,
        },
        Command::ReviewPlan {
            run: ABSENT,
            version: 1,
            hash,
            review: Review::Approved,
            by: by(),
            note: by(),
        },
        Command::Dispatch { run: ABSENT, step: None, worker: by() },
        Command::JudgePlan { run: ABSENT, verdicts: vec![] },
        Command::TakeOver { run: ABSENT, steps: vec![] },
        Command::Skip { run: ABSENT, step, by: by(), reason: reason.clone() },
        Command::ResolveDoubt {
            run: ABSENT,
            step,
            finding: Finding::Landed,
            by: by(),
            evidence: by(),
        },
        Command::RetryFailed { run: ABSENT, by: by() },
        Command::SetCap { scope: CapScope::Run(ABSENT), limit: None, by: by() },
        Command::SetVariable {
            run: ABSENT,
            name: by(),
            value: Json::default(),
            expected_version: None,
            by: by(),
        },
        Command::CancelRun { run: ABSENT, by: by(), reason },
    ];
    let mut world = one();
    for command in commands {
        let answer = world.ask(command.clone());
        assert_eq!(answer, Err(Rejection::NoSuchRun), "{command:?}");
    }
}

#[test]
fn a_run_needs_a_name_of_its_own() {
    let mut world = one();
    let start = |name: &str| Command::StartRun {
        name: name.to_owned(),
        policy: RunPolicy::default(),
        draft: draft(&plan(vec![])),
    };
    assert_eq!(world.ask(start("demo")), Err(Rejection::RunExists(RunId(1))));
    assert!(matches!(world.ask(start(" ")), Err(Rejection::InvalidPlan(_))));
    assert!(world.ask(start("other")).is_ok());
}

#[test]
fn ids_that_would_break_the_books_are_refused() {
    let mut world = one();
    let mut twice = plan(vec![step("x", &[]), step("x", &[])]);
    assert!(matches!(world.propose(&twice), Err(Rejection::InvalidPlan(_))));
    twice = plan(vec![step("x", &[])]);
    twice.barriers = vec![barrier("x", &["x"], BarrierNeeds::All)];
    assert!(matches!(world.propose(&twice), Err(Rejection::InvalidPlan(_))));
}

#[test]
fn the_active_plan_is_not_proposed_again() {
    let mut world = one();
    let same = world.run().plan().unwrap().clone();
    assert_eq!(world.propose(&same), Err(Rejection::SamePlan(1)));
}

#[test]
fn an_automatic_run_takes_no_review() {
    let mut world = one();
    let review = Command::ReviewPlan {
        run: RunId(1),
        version: 1,
        hash: ContentHash::default(),
        review: Review::Approved,
        by: "ann".to_owned(),
        note: String::new(),
    };
    assert_eq!(world.ask(review), Err(Rejection::NoSuchVersion(1)), "it was approved by policy");
}

#[test]
fn only_a_ready_step_is_dealt() {
    let mut world = one();
    let absent = StepNumber(7);
    assert_eq!(world.ask(dispatch(Some(absent))), Err(Rejection::NoSuchStep(absent)));
    let waiting = Rejection::NotReady(StepNumber(2), StepStatus::Waiting);
    assert_eq!(world.try_deal("b"), Err(waiting));
    world.work("a");
    let done = Rejection::NotReady(StepNumber(1), StepStatus::Accepted);
    assert_eq!(world.try_deal("a"), Err(done));
}

#[test]
fn a_token_that_was_never_dealt_is_stale() {
    let mut world = one();
    let token = AttemptToken(1);
    let stale = Err(Rejection::StaleToken(token));
    let (cause, detail) = (LostCause::RunnerDied, String::new());
    assert_eq!(world.ask(Command::Renew { token }), stale);
    assert_eq!(world.ask(Command::ReportLost { token, cause, detail }), stale);
    assert_eq!(world.ask(Command::Judge { token, verdicts: vec![] }), stale);
    let receipt = Receipt::default();
    assert_eq!(world.ask(Command::RecordReceipt { token, receipt }), stale);
}

#[test]
fn an_attempt_that_reported_is_over() {
    let mut world = one();
    let token = world.deal("a");
    world.report(token, Receipt::default());
    assert_eq!(world.ask(Command::Renew { token }), Err(Rejection::StaleToken(token)));
    assert_eq!(kinds(&world.report(token, Receipt::default())), "ReceiptRefused");
    assert_eq!(world.status("a"), StepStatus::Accepted);
}

#[test]
fn a_criterion_is_judged_once_by_somebody_else() {
    let judged = Step {
        acceptance: vec![Criterion::Text("good".to_owned()), Criterion::Command("true".to_owned())],
        ..step("a", &[])
    };
    let mut world = World::with(&plan(vec![judged]), RunPolicy::default());
    let token = world.deal("a");
    world.report(token, Receipt::default());
    let pass = |criterion, by| verdict(criterion, Ruling::Pass, by);
    let judge = |verdicts| Command::Judge { token, verdicts };
    let own = Rejection::JudgedByWorker("worker-1".to_owned());
    assert_eq!(world.ask(judge(vec![pass(0, "worker-1")])), Err(own));
    let absent = Err(Rejection::NoSuchCriterion(2));
    assert_eq!(world.ask(judge(vec![pass(0, "ann"), pass(2, "ann")])), absent);
    let twice = Err(Rejection::NoSuchCriterion(0));
    assert_eq!(world.ask(judge(vec![pass(0, "ann"), pass(0, "ann")])), twice);
    world.ask(judge(vec![pass(0, "ann")])).unwrap();
    assert_eq!(world.ask(judge(vec![pass(0, "bob")])), twice);
    assert_eq!(world.status("a"), StepStatus::Reported);
}

#[test]
fn the_plan_is_not_judged_before_its_steps_are_closed() {
    let mut judged = plan(vec![step("a", &[])]);
    judged.test_criteria = vec![Criterion::Command("true".to_owned())];
    let mut world = World::with(&judged, RunPolicy::default());
    let verdicts = vec![verdict(0, Ruling::Pass, "ann")];
    let judge = Command::JudgePlan { run: RunId(1), verdicts };
    assert_eq!(world.ask(judge.clone()), Err(Rejection::NoSuchCriterion(0)));
    world.work("a");
    assert_eq!(world.run().status, RunStatus::Running);
    assert_eq!(kinds(&world.ask(judge).unwrap()), "PlanVerdict RunEnded");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
}

#[test]
fn what_is_in_flight_is_neither_skipped_nor_taken_over() {
    let mut world = one();
    world.deal("a");
    let (run, step) = (RunId(1), StepNumber(1));
    let (by, reason) = ("ann".to_owned(), String::new());
    let skip = Command::Skip { run, step, by, reason };
    assert!(matches!(world.ask(skip), Err(Rejection::HeldBy { .. })));
    let take = Command::TakeOver { run, steps: vec![(step, String::new())] };
    assert!(matches!(world.ask(take), Err(Rejection::HeldBy { .. })));
}

#[test]
fn only_doubt_is_resolved_and_only_failure_retried() {
    let mut world = one();
    let (run, step, finding) = (RunId(1), StepNumber(1), Finding::Landed);
    let resolve =
        Command::ResolveDoubt { run, step, finding, by: "ann".to_owned(), evidence: String::new() };
    assert_eq!(world.ask(resolve), Err(Rejection::NotReady(step, StepStatus::Ready)));
    let retry = Command::RetryFailed { run, by: "ann".to_owned() };
    assert_eq!(world.ask(retry), Err(Rejection::NothingFailed));
}

#[test]
fn a_cap_of_zero_is_refused() {
    let cap = Command::SetCap { scope: CapScope::Ledger, limit: Some(0), by: "ann".to_owned() };
    assert_eq!(one().ask(cap), Err(Rejection::ZeroCap));
}

#[test]
fn a_run_that_is_done_takes_no_more_commands() {
    let mut world = one();
    world.work("a");
    world.work("b");
    let done = Err(Rejection::RunHasEnded(Ending::Done));
    assert_eq!(world.ask(dispatch(None)), done);
    assert_eq!(world.propose(&plan(vec![])), done);
    let retry = Command::RetryFailed { run: RunId(1), by: "ann".to_owned() };
    assert_eq!(world.ask(retry), done);
}

#[test]
fn more_than_a_batch_holds_is_refused_as_a_whole() {
    let many = plan((0..65_001).map(|n| step(&format!("s{n}"), &[])).collect());
    let mut world = World::with(&many, RunPolicy::default());
    let done = |n| (StepNumber(n), "file".to_owned());
    let take = Command::TakeOver { run: RunId(1), steps: (1..=65_001).map(done).collect() };
    let limit = MAX_BATCH_EVENTS;
    assert_eq!(world.ask(take), Err(Rejection::TooManyEvents { events: 65_001, limit }));
}
