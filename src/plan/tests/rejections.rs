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
            approval: ApprovalPolicy::Automatic,
        },
        Command::ReviewPlan {
            run: ABSENT,
            version: 1,
            hash,
            review: Review::Approved,
            by: by(),
            note: by(),
        },
        Command::Dispatch { run: ABSENT, step: None, worker: by(), lease: None },
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
        Command::Retry { run: ABSENT, step, by: by() },
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
    assert!(matches!(world.ask(start(" ")), Err(Rejection::BadName(_))));
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
    let same = world.run().plan().unwrap().whole();
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
    assert_eq!(world.ask(Command::Renew { token, lease: None }), stale);
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
    assert_eq!(world.ask(Command::Renew { token, lease: None }), Err(Rejection::StaleToken(token)));
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
    let retry = |step| Command::Retry { run, step, by: "ann".to_owned() };
    assert_eq!(world.ask(retry(step)), Err(Rejection::NothingFailed));
    let nowhere = StepNumber(99);
    assert_eq!(world.ask(retry(nowhere)), Err(Rejection::NoSuchStep(nowhere)));
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
    let (run, step) = (RunId(1), StepNumber(1));
    assert_eq!(world.ask(Command::Retry { run, step, by: "ann".to_owned() }), done);
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

fn external() -> World {
    let mut external = plan(vec![Step { idempotent: Some(Idempotence::No), ..step("a", &[]) }]);
    external.failure.decider = Decider::External;
    let mut world = World::with(&external, RunPolicy::default());
    let token = world.deal("a");
    let disposition = Some(Disposition::InDoubt);
    world.report(token, Receipt { disposition, ..failed(FailureClass::Unknown) });
    world
}

/// A world in which a step may not be dealt until somebody says yes, and another waits for money.
fn strict() -> World {
    let gate = Some(Gate { question: "Go?".to_owned(), ..Gate::default() }.into());
    let cost_estimate = Some(Cost { money_micros: 5, tokens: 0 });
    let dear = |id: &str| Step { cost_estimate, ..step(id, &[]) };
    let mut strict = plan(vec![Step { gate, ..step("gated", &[]) }, dear("x"), dear("y")]);
    strict.budget.money_micros = Some(5);
    strict.failure.max_replans = Some(0);
    World::with(&strict, RunPolicy::default())
}

/// A world in which a summary is left of run 1.
fn retired() -> World {
    let mut world = one();
    for number in 0..=ENDED_KEPT {
        let (run, by) = (RunId(u32::try_from(number).unwrap() + 1), "ann".to_owned());
        world.ask(Command::CancelRun { run, by, reason: String::new() }).unwrap();
        let (name, policy) = (format!("{number}"), RunPolicy::default());
        let draft = draft(&plan(vec![step("a", &[])]));
        world.ask(Command::StartRun { name, policy, draft }).unwrap();
    }
    world
}

/// Refusals about runs, plans and variables.
fn of_runs() -> Vec<(World, Command)> {
    let run = RunId(1);
    let by = || "ann".to_owned();
    let start = |name: &str, policy, plan: &Plan| Command::StartRun {
        name: name.to_owned(),
        policy,
        draft: draft(plan),
    };
    let propose = |plan: &Plan| Command::ProposePlan {
        run,
        draft: draft(plan),
        reason: by(),
        trigger: None,
        approval: ApprovalPolicy::Automatic,
    };
    let review = |run, version| Command::ReviewPlan {
        run,
        version,
        hash: ContentHash::default(),
        review: Review::Approved,
        by: by(),
        note: by(),
    };
    let required = RunPolicy { approval: ApprovalPolicy::Required, ..RunPolicy::default() };
    let small = plan(vec![step("a", &[])]);
    let mut proposed = one();
    proposed.ask(start("other", required, &small)).unwrap();
    let other = Command::Dispatch { run: RunId(2), step: None, worker: by(), lease: None };
    let mut cancelled = one();
    cancelled.ask(Command::CancelRun { run, by: by(), reason: by() }).unwrap();
    let mut paused = one();
    paused.ask(Command::Pause { run, by: by(), reason: by() }).unwrap();
    let request = Command::RequestReplan {
        run,
        trigger: ReplanTrigger::NewEvidence { by: by() },
        from: None,
        reason: by(),
    };
    let mut asked = one();
    asked.ask(request.clone()).unwrap();
    let (name, value, expected_version) = (by(), Json::default(), Some(5));
    let set = Command::SetVariable { run, name, value, expected_version, by: by() };
    let cap = Command::SetCap { scope: CapScope::Ledger, limit: Some(0), by: by() };
    let twice = plan(vec![step("a", &[]), step("a", &[])]);
    let second = World { state: proposed.state.clone(), log: Vec::new(), now: proposed.now };
    vec![
        (one(), start("new", required, &twice)),
        (one(), start("-x", required, &small)),
        (one(), start("demo", required, &small)),
        (one(), Command::Dispatch { run: ABSENT, step: None, worker: by(), lease: None }),
        (cancelled, dispatch(None)),
        (second, other),
        (one(), review(run, 9)),
        (proposed, review(RunId(2), 1)),
        (one(), set),
        (one(), propose(&plan(vec![step("a", &[]), step("b", &["a"])]))),
        (one(), cap),
        (one(), Command::RetryFailed { run, by: by() }),
        (late(), Command::RetryFailed { run, by: by() }),
        (paused, dispatch(None)),
        (one(), Command::Resume { run, by: by() }),
        (asked, request),
        (one(), Command::WithdrawReplan { run, by: by(), reason: by() }),
        (strict(), propose(&small)),
        (one(), Command::JudgePlan { run, verdicts: vec![verdict(0, Ruling::Pass, "ann")] }),
        (retired(), Command::Pause { run, by: by(), reason: by() }),
    ]
}

/// A run that a barrier failed, which was not released in time.
fn late() -> World {
    let mut timed = plan(vec![step("a", &[]), step("b", &["join"])]);
    let join = barrier("join", &["a"], BarrierNeeds::All);
    timed.barriers.push(Barrier { deadline_seconds: Some(1), ..join });
    let mut late = World::with(&timed, RunPolicy::default());
    late.now += 2 * SECOND;
    late.ask(Command::Tick).unwrap();
    late
}

/// Refusals about steps, attempts, questions and effects.
fn of_steps() -> Vec<(World, Command)> {
    let run = RunId(1);
    let by = || "ann".to_owned();
    let held = || {
        let mut held = one();
        let token = held.deal("a");
        (held, token)
    };
    let (held_world, token) = held();
    let mut capped = World::with(&plan(vec![step("a", &[]), step("b", &[])]), RunPolicy::default());
    capped.ask(Command::SetCap { scope: CapScope::Ledger, limit: Some(1), by: by() }).unwrap();
    capped.deal("a");
    let text = Criterion::Text("x".to_owned());
    let judged = plan(vec![Step { acceptance: vec![text], ..step("a", &[]) }]);
    let mut judged = World::with(&judged, RunPolicy::default());
    let own = judged.deal("a");
    judged.report(own, Receipt::default());
    let verdicts = vec![verdict(0, Ruling::Pass, "worker-1")];
    let mut reported = one();
    let known = reported.deal("a");
    reported.report(known, Receipt::default());
    let cost = Cost::default();
    let correct = Command::CorrectCost { token: known, cost, charged: None, by: by() };
    let (mut lost, lost_token) = held();
    let detail = String::new();
    let cause = LostCause::RunnerDied;
    lost.ask(Command::ReportLost { token: lost_token, cause, detail }).unwrap();
    let charged = Some(Cost { tokens: 7, ..cost });
    let wrong = Command::CorrectCost { token: lost_token, cost, charged, by: by() };
    let mut short = strict();
    short.deal("x");
    let gated = strict();
    let (question, asked) = gated.run().questions.iter().next().unwrap();
    let (question, shown) = (*question, asked.asked.shown);
    let answer = |question, shown| Command::Answer {
        question,
        answer: "maybe".to_owned(),
        by: by(),
        note: by(),
        shown,
    };
    let maybe = answer(question, shown);
    let decide = |decision| Command::DecideFailure {
        run,
        step: StepNumber(1),
        decision,
        rule: by(),
        reason: by(),
    };
    vec![
        (one(), dispatch(Some(StepNumber(99)))),
        (one(), dispatch(Some(StepNumber(2)))),
        (held_world, dispatch(Some(StepNumber(1)))),
        (capped, dispatch(None)),
        (held().0, dispatch(None)),
        (one(), Command::Renew { token: AttemptToken(token.0 + 999), lease: None }),
        (judged, Command::Judge { token: own, verdicts }),
        (short, dispatch(Some(StepNumber(3)))),
        (reported, correct),
        (lost, wrong),
        (one(), answer(QuestionId(99), ContentHash::default())),
        (gated, maybe),
        (one(), decide(Decision::Fail)),
        (external(), decide(Decision::Retry)),
        (external(), decide(Decision::Fallback)),
    ]
}

/// Refusals about side effects, and of too much at once.
fn of_effects() -> Vec<(World, Command)> {
    let by = || "ann".to_owned();
    let held = || {
        let mut held = one();
        let token = held.deal("a");
        (held, token)
    };
    let (mut meant, meant_token) = held();
    let intend = Command::IntendEffect { token: meant_token, effect: "mail".to_owned(), key: by() };
    meant.ask(intend.clone()).unwrap();
    let (unmeant, unmeant_token) = held();
    let many = plan((0..65_001).map(|n| step(&format!("s{n}"), &[])).collect());
    let many = World::with(&many, RunPolicy::default());
    let steps = (1..=65_001).map(|n| (StepNumber(n), by())).collect();
    let run = RunId(1);
    let deep =
        (0..=JSON_DEPTH_MAX).fold(serde_json::json!(1), |value, _| serde_json::json!([value]));
    let (name, value, expected_version) = (by(), Json::new(&deep), None);
    vec![
        (one(), Command::SetVariable { run, name, value, expected_version, by: by() }),
        (meant, intend),
        (unmeant, Command::CommitEffect { token: unmeant_token, key: by() }),
        (many, Command::TakeOver { run, steps }),
    ]
}

/// Goal: no reason without a name, a sentence, a place in the published table, and a command that
/// leads to it.
#[test]
fn every_refusal_can_be_had_and_has_a_published_name() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/format/cli-json.md");
    let text = std::fs::read_to_string(path).unwrap();
    let table = text.split("| `rejection` | why |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let name = |line: &str| line.split('`').nth(1).unwrap().to_owned();
    let published: std::collections::BTreeSet<String> = rows.map(name).collect();
    let mut found = std::collections::BTreeSet::new();
    for (mut world, command) in of_runs().into_iter().chain(of_steps()).chain(of_effects()) {
        let refused = world.ask(command).unwrap_err();
        assert!(refused.to_string().len() > 15, "{refused:?}");
        assert!(found.insert(refused.name().to_owned()), "twice: {refused:?}");
    }
    // The rules know nothing of files: the ledger says this one.
    found.insert(Rejection::NoSuchOutput(ContentHash::default()).name().to_owned());
    assert_eq!(found, published);
}
