//! How each command is rejected.

use std::collections::BTreeMap;

use super::support::*;
use crate::plan::*;

fn one() -> TestLedger {
    TestLedger::with(&plan(vec![step("a", &[]), step("b", &["a"])]), RunPolicy::default())
}

const ABSENT: RunId = RunId(9);

#[test]
fn unknown_run_is_rejected() {
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
        Command::Dispatch {
            process: None,
            secret: SecretHash::default(),
            run: ABSENT,
            step: None,
            worker: by(),
            route: Route::default(),
            lease: None,
        },
        Command::JudgePlan { run: ABSENT, verdicts: vec![] },
        Command::MarkDoneBefore { run: ABSENT, steps: vec![] },
        Command::Skip { run: ABSENT, step, by: by(), reason: reason.clone() },
        Command::ResolveOutcome {
            run: ABSENT,
            step,
            finding: ResolvedOutcome::Landed,
            by: by(),
            evidence: by(),
        },
        Command::RetryFailed { run: ABSENT, by: by() },
        Command::Retry { run: ABSENT, step, by: by() },
        Command::SetCap { scope: CapScope::Run { run: ABSENT }, limit: None, by: by() },
        Command::SetVariable {
            run: ABSENT,
            name: by(),
            value: Json::default(),
            expected_version: None,
            origin: Origin::person(by()),
        },
        Command::CancelRun { run: ABSENT, by: by(), reason },
    ];
    let mut ledger = one();
    for command in commands {
        let answer = ledger.execute(command.clone());
        assert_eq!(answer, Err(Rejection::NoSuchRun), "{command:?}");
    }
}

#[test]
fn run_name_is_unique_and_valid() {
    let mut ledger = one();
    let start = |name: &str| Command::StartRun {
        name: name.to_owned(),
        policy: RunPolicy::default(),
        reason: String::new(),
        draft: draft(&plan(vec![])),
        inputs: BTreeMap::new(),
    };
    assert_eq!(ledger.execute(start("demo")), Err(Rejection::RunExists(RunId(1))));
    assert!(matches!(ledger.execute(start(" ")), Err(Rejection::InvalidName(_))));
    assert!(ledger.execute(start("other")).is_ok());
}

#[test]
fn invalid_ids_are_rejected() {
    let mut ledger = one();
    let mut twice = plan(vec![step("x", &[]), step("x", &[])]);
    assert!(matches!(ledger.propose(&twice), Err(Rejection::InvalidPlan(_))));
    twice = plan(vec![step("x", &[])]);
    twice.barriers = vec![barrier("x", &["x"], BarrierNeeds::All)];
    assert!(matches!(ledger.propose(&twice), Err(Rejection::InvalidPlan(_))));
}

#[test]
fn active_plan_cannot_be_proposed_again() {
    let mut ledger = one();
    let same = ledger.run().plan().unwrap().decode();
    assert_eq!(ledger.propose(&same), Err(Rejection::SamePlan(1)));
}

#[test]
fn automatic_run_takes_no_review() {
    let mut ledger = one();
    let review = Command::ReviewPlan {
        run: RunId(1),
        version: 1,
        hash: ContentHash::default(),
        review: Review::Approved,
        by: "ann".to_owned(),
        note: String::new(),
    };
    assert_eq!(ledger.execute(review), Err(Rejection::NoSuchVersion(1)), "the policy approved it");
}

#[test]
fn only_ready_steps_are_dispatched() {
    let mut ledger = one();
    let absent = StepNumber(7);
    assert_eq!(ledger.execute(dispatch_command(Some(absent))), Err(Rejection::NoSuchStep(absent)));
    let waiting = Rejection::NotReady(StepNumber(2), StepStatus::Waiting);
    assert_eq!(ledger.try_dispatch("b"), Err(waiting));
    ledger.complete("a");
    let done = Rejection::NotReady(StepNumber(1), StepStatus::Accepted);
    assert_eq!(ledger.try_dispatch("a"), Err(done));
}

#[test]
fn unknown_token_is_stale() {
    let mut ledger = one();
    let token = AttemptToken(1);
    let stale = Err(Rejection::StaleToken(token));
    let (cause, detail) = (LostCause::RunnerDied, String::new());
    assert_eq!(
        ledger.execute(Command::Renew { proof: Proof::LockHolder, token, lease: None }),
        stale
    );
    assert_eq!(
        ledger.execute(Command::ReportLost { proof: Proof::LockHolder, token, cause, detail }),
        stale
    );
    assert_eq!(ledger.execute(Command::Judge { token, verdicts: vec![] }), stale);
    let receipt = Receipt::default();
    assert_eq!(
        ledger.execute(Command::RecordReceipt { proof: Proof::LockHolder, token, receipt }),
        stale
    );
}

/// A token is a number that every process can count to: one that did reported, renewed and released for
/// another worker, and a token of before a restore was that of another step.
#[test]
fn token_with_another_secret_is_stale() {
    let mut ledger = one();
    let (secret, other) = (SecretHash([7; 16]), Proof::Secret(SecretHash([8; 16])));
    let Command::Dispatch { run, step, worker, route, lease, .. } = dispatch_command(None) else {
        unreachable!("it dispatches")
    };
    ledger
        .execute(Command::Dispatch { process: None, run, step, worker, route, lease, secret })
        .unwrap();
    let token = ledger.step("a").attempt().unwrap().token;
    let (key, effect) = ("mail".to_owned(), "mail".to_owned());
    let (cause, detail, lease) = (LostCause::Released, String::new(), None);
    let commands = |proof| {
        [
            Command::Renew { token, proof, lease },
            Command::IntendEffect { token, proof, effect: effect.clone(), key: key.clone() },
            Command::CommitEffect { token, proof, key: key.clone() },
            Command::RecordReceipt { token, proof, receipt: Receipt::default() },
            Command::ReportLost { token, proof, cause, detail: detail.clone() },
        ]
    };
    for command in commands(other) {
        assert_eq!(ledger.execute(command), Err(Rejection::StaleToken(token)));
    }
    let [renew, intend, commit, report, _] = commands(Proof::Secret(secret));
    for command in [renew, intend, commit, report.clone()] {
        ledger.execute(command).unwrap();
    }
    assert_eq!(ledger.status("a"), StepStatus::Accepted);
    // A late receipt is recorded only if it is the worker's.
    let [.., late, _] = commands(other);
    assert_eq!(ledger.execute(late), Err(Rejection::StaleToken(token)));
    assert_eq!(kinds(&ledger.execute(report).unwrap()), "ReceiptRefused");
}

#[test]
fn second_receipt_is_rejected() {
    let mut ledger = one();
    let token = ledger.dispatch("a");
    ledger.report(token, Receipt::default());
    assert_eq!(
        ledger.execute(Command::Renew { proof: Proof::LockHolder, token, lease: None }),
        Err(Rejection::StaleToken(token))
    );
    assert_eq!(kinds(&ledger.report(token, Receipt::default())), "ReceiptRefused");
    assert_eq!(ledger.status("a"), StepStatus::Accepted);
}

#[test]
fn criterion_is_judged_once_and_not_by_the_worker() {
    let judged = Step {
        acceptance: vec![Criterion::Text("good".to_owned()), Criterion::Command("true".to_owned())],
        ..step("a", &[])
    };
    let mut ledger = TestLedger::with(&plan(vec![judged]), RunPolicy::default());
    let token = ledger.dispatch("a");
    ledger.report(token, Receipt::default());
    let pass = |criterion, by| verdict(criterion, Ruling::Pass, by);
    let judge = |verdicts| Command::Judge { token, verdicts };
    let own = Rejection::JudgedByWorker("worker-1".to_owned());
    assert_eq!(ledger.execute(judge(vec![pass(0, "worker-1")])), Err(own));
    let absent = Err(Rejection::NoSuchCriterion(2));
    assert_eq!(ledger.execute(judge(vec![pass(0, "ann"), pass(2, "ann")])), absent);
    let twice = Err(Rejection::NoSuchCriterion(0));
    assert_eq!(ledger.execute(judge(vec![pass(0, "ann"), pass(0, "ann")])), twice);
    ledger.execute(judge(vec![pass(0, "ann")])).unwrap();
    assert_eq!(ledger.execute(judge(vec![pass(0, "bob")])), twice);
    assert_eq!(ledger.status("a"), StepStatus::Reported);
}

#[test]
fn plan_criteria_wait_for_closed_steps() {
    let mut judged = plan(vec![step("a", &[])]);
    judged.test_criteria = vec![Criterion::Command("true".to_owned())];
    let mut ledger = TestLedger::with(&judged, RunPolicy::default());
    let verdicts = vec![verdict(0, Ruling::Pass, "ann")];
    let judge = Command::JudgePlan { run: RunId(1), verdicts };
    assert_eq!(ledger.execute(judge.clone()), Err(Rejection::NoSuchCriterion(0)));
    ledger.complete("a");
    assert_eq!(ledger.run().status, RunStatus::Running);
    assert_eq!(kinds(&ledger.execute(judge).unwrap()), "PlanVerdict RunEnded");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
}

#[test]
fn step_in_flight_cannot_be_skipped_or_taken_over() {
    let mut ledger = one();
    ledger.dispatch("a");
    let (run, step) = (RunId(1), StepNumber(1));
    let (by, reason) = ("ann".to_owned(), String::new());
    let skip = Command::Skip { run, step, by, reason };
    assert!(matches!(ledger.execute(skip), Err(Rejection::Leased { .. })));
    let take = Command::MarkDoneBefore { run, steps: vec![(step, String::new())] };
    assert!(matches!(ledger.execute(take), Err(Rejection::Leased { .. })));
}

#[test]
fn resolve_and_retry_require_a_matching_status() {
    let mut ledger = one();
    let (run, step, finding) = (RunId(1), StepNumber(1), ResolvedOutcome::Landed);
    let resolve = Command::ResolveOutcome {
        run,
        step,
        finding,
        by: "ann".to_owned(),
        evidence: String::new(),
    };
    assert_eq!(ledger.execute(resolve), Err(Rejection::NotReady(step, StepStatus::Ready)));
    let retry = Command::RetryFailed { run, by: "ann".to_owned() };
    assert_eq!(ledger.execute(retry), Err(Rejection::NothingFailed));
    let retry = |step| Command::Retry { run, step, by: "ann".to_owned() };
    assert_eq!(ledger.execute(retry(step)), Err(Rejection::NothingFailed));
    let nowhere = StepNumber(99);
    assert_eq!(ledger.execute(retry(nowhere)), Err(Rejection::NoSuchStep(nowhere)));
}

#[test]
fn cap_of_zero_is_rejected() {
    let cap = Command::SetCap { scope: CapScope::Ledger, limit: Some(0), by: "ann".to_owned() };
    assert_eq!(one().execute(cap), Err(Rejection::ZeroCap));
}

#[test]
fn ended_run_rejects_commands() {
    let mut ledger = one();
    ledger.complete("a");
    ledger.complete("b");
    let done = Err(Rejection::RunHasEnded(Ending::Done));
    assert_eq!(ledger.execute(dispatch_command(None)), done);
    assert_eq!(ledger.propose(&plan(vec![])), done);
    let retry = Command::RetryFailed { run: RunId(1), by: "ann".to_owned() };
    assert_eq!(ledger.execute(retry), done);
    let (run, step) = (RunId(1), StepNumber(1));
    assert_eq!(ledger.execute(Command::Retry { run, step, by: "ann".to_owned() }), done);
}

#[test]
fn oversized_command_is_rejected_as_a_whole() {
    let many = plan((0..65_001).map(|n| step(&format!("s{n}"), &[])).collect());
    let mut ledger = TestLedger::with(&many, RunPolicy::default());
    let done = |n| (StepNumber(n), "file".to_owned());
    let take = Command::MarkDoneBefore { run: RunId(1), steps: (1..=65_001).map(done).collect() };
    let limit = MAX_BATCH_EVENTS;
    assert_eq!(ledger.execute(take), Err(Rejection::TooManyEvents { events: 65_001, limit }));
}

fn external_decider_ledger() -> TestLedger {
    let mut external_decider_ledger =
        plan(vec![Step { idempotent: Some(Idempotence::No), ..step("a", &[]) }]);
    external_decider_ledger.failure.decider = Decider::External;
    let mut ledger = TestLedger::with(&external_decider_ledger, RunPolicy::default());
    let token = ledger.dispatch("a");
    let disposition = Some(Disposition::Unknown);
    ledger.report(token, Receipt { disposition, ..failed(FailureClass::Unknown) });
    ledger
}

/// A ledger with a gated step and a step over the budget.
fn gated_ledger() -> TestLedger {
    let gate = Some(Gate { question: "Go?".to_owned(), ..Gate::default() }.into());
    let cost_estimate = Some(Cost { money_micros: 5, tokens: 0 });
    let dear = |id: &str| Step { cost_estimate, ..step(id, &[]) };
    let mut gated_ledger = plan(vec![Step { gate, ..step("gated", &[]) }, dear("x"), dear("y")]);
    gated_ledger.budget.money_micros = Some(5);
    gated_ledger.failure.max_replans = Some(0);
    TestLedger::with(&gated_ledger, RunPolicy::default())
}

/// A ledger whose run 1 is retired to a summary.
fn retired_ledger() -> TestLedger {
    let mut ledger = one();
    for number in 0..=ENDED_KEPT {
        let (run, by) = (RunId(u32::try_from(number).unwrap() + 1), "ann".to_owned());
        ledger.execute(Command::CancelRun { run, by, reason: String::new() }).unwrap();
        let (name, policy) = (format!("{number}"), RunPolicy::default());
        let draft = draft(&plan(vec![step("a", &[])]));
        ledger
            .execute(Command::StartRun {
                name,
                policy,
                reason: String::new(),
                draft,
                inputs: BTreeMap::new(),
            })
            .unwrap();
    }
    ledger
}

/// Rejections about runs, plans and variables.
fn run_rejections() -> Vec<(TestLedger, Command)> {
    let run = RunId(1);
    let by = || "ann".to_owned();
    let start = |name: &str, policy, plan: &Plan| Command::StartRun {
        name: name.to_owned(),
        policy,
        reason: String::new(),
        draft: draft(plan),
        inputs: BTreeMap::new(),
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
    proposed.execute(start("other", required, &small)).unwrap();
    let other = Command::Dispatch {
        process: None,
        secret: SecretHash::default(),
        run: RunId(2),
        step: None,
        worker: by(),
        route: Route::default(),
        lease: None,
    };
    let mut cancelled = one();
    cancelled.execute(Command::CancelRun { run, by: by(), reason: by() }).unwrap();
    let mut paused = one();
    paused.execute(Command::Pause { run, by: by(), reason: by() }).unwrap();
    let request = Command::RequestReplan {
        run,
        trigger: ReplanTrigger::NewEvidence { by: by() },
        from: None,
        reason: by(),
    };
    let mut asked = one();
    asked.execute(request.clone()).unwrap();
    let (name, value, expected_version) = (by(), Json::default(), Some(5));
    let set =
        Command::SetVariable { run, name, value, expected_version, origin: Origin::person(by()) };
    let cap = Command::SetCap { scope: CapScope::Ledger, limit: Some(0), by: by() };
    let twice = plan(vec![step("a", &[]), step("a", &[])]);
    let second = TestLedger { state: proposed.state.clone(), log: Vec::new(), now: proposed.now };
    vec![
        (one(), start("new", required, &twice)),
        (one(), start("-x", required, &small)),
        (one(), start("demo", required, &small)),
        (
            one(),
            Command::Dispatch {
                process: None,
                secret: SecretHash::default(),
                run: ABSENT,
                step: None,
                worker: by(),
                route: Route::default(),
                lease: None,
            },
        ),
        (cancelled, dispatch_command(None)),
        (second, other),
        (one(), review(run, 9)),
        (proposed, review(RunId(2), 1)),
        (one(), set),
        (one(), propose(&plan(vec![step("a", &[]), step("b", &["a"])]))),
        (one(), cap),
        (one(), Command::RetryFailed { run, by: by() }),
        (late_ledger(), Command::RetryFailed { run, by: by() }),
        (paused, dispatch_command(None)),
        (one(), Command::Unpause { run, by: by() }),
        (asked, request),
        (one(), Command::WithdrawReplan { run, by: by(), reason: by() }),
        (gated_ledger(), propose(&small)),
        (one(), Command::JudgePlan { run, verdicts: vec![verdict(0, Ruling::Pass, "ann")] }),
        (retired_ledger(), Command::Pause { run, by: by(), reason: by() }),
    ]
}

/// A run that failed because a barrier was not released in time.
fn late_ledger() -> TestLedger {
    let mut timed = plan(vec![step("a", &[]), step("b", &["join"])]);
    let join = barrier("join", &["a"], BarrierNeeds::All);
    timed.barriers.push(Barrier { deadline_seconds: Some(1), ..join });
    let mut late_ledger = TestLedger::with(&timed, RunPolicy::default());
    late_ledger.now += 2 * SECOND;
    late_ledger.execute(Command::Tick).unwrap();
    late_ledger
}

/// Rejections about steps, attempts, questions and effects.
fn step_rejections() -> Vec<(TestLedger, Command)> {
    let run = RunId(1);
    let by = || "ann".to_owned();
    let held = || {
        let mut held = one();
        let token = held.dispatch("a");
        (held, token)
    };
    let (held_world, token) = held();
    let mut capped =
        TestLedger::with(&plan(vec![step("a", &[]), step("b", &[])]), RunPolicy::default());
    capped.execute(Command::SetCap { scope: CapScope::Ledger, limit: Some(1), by: by() }).unwrap();
    capped.dispatch("a");
    let text = Criterion::Text("x".to_owned());
    let judged = plan(vec![Step { acceptance: vec![text], ..step("a", &[]) }]);
    let mut judged = TestLedger::with(&judged, RunPolicy::default());
    let own = judged.dispatch("a");
    judged.report(own, Receipt::default());
    let verdicts = vec![verdict(0, Ruling::Pass, "worker-1")];
    let mut reported = one();
    let known = reported.dispatch("a");
    reported.report(known, Receipt::default());
    let cost = Cost::default();
    let correct = Command::CorrectCost { token: known, cost, charged: None, by: by() };
    let (mut lost, lost_token) = held();
    lost.lose(lost_token, LostCause::RunnerDied);
    let charged = Some(Cost { tokens: 7, ..cost });
    let wrong = Command::CorrectCost { token: lost_token, cost, charged, by: by() };
    let mut short = gated_ledger();
    short.dispatch("x");
    let gated = gated_ledger();
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
        class: None,
        from: None,
        rule: by(),
        reason: by(),
        by: by(),
    };
    vec![
        (one(), dispatch_command(Some(StepNumber(99)))),
        (one(), dispatch_command(Some(StepNumber(2)))),
        (held_world, dispatch_command(Some(StepNumber(1)))),
        (capped, dispatch_command(None)),
        (held().0, dispatch_command(None)),
        (
            one(),
            Command::Renew {
                proof: Proof::LockHolder,
                token: AttemptToken(token.0 + 999),
                lease: None,
            },
        ),
        (judged, Command::Judge { token: own, verdicts }),
        (short, dispatch_command(Some(StepNumber(3)))),
        (reported, correct),
        (lost, wrong),
        (one(), answer(QuestionId(99), ContentHash::default())),
        (gated, maybe),
        (one(), decide(Decision::Fail)),
        (external_decider_ledger(), decide(Decision::Retry)),
        (external_decider_ledger(), decide(Decision::Fallback)),
    ]
}

/// Rejections about side effects and oversized commands.
fn effect_rejections() -> Vec<(TestLedger, Command)> {
    let by = || "ann".to_owned();
    let held = || {
        let mut held = one();
        let token = held.dispatch("a");
        (held, token)
    };
    let (mut meant, meant_token) = held();
    let intend = Command::IntendEffect {
        proof: Proof::LockHolder,
        token: meant_token,
        effect: "mail".to_owned(),
        key: by(),
    };
    meant.execute(intend.clone()).unwrap();
    let (unmeant, unmeant_token) = held();
    let many = plan((0..65_001).map(|n| step(&format!("s{n}"), &[])).collect());
    let many = TestLedger::with(&many, RunPolicy::default());
    let steps = (1..=65_001).map(|n| (StepNumber(n), by())).collect();
    let run = RunId(1);
    let deep =
        (0..=JSON_DEPTH_MAX).fold(serde_json::json!(1), |value, _| serde_json::json!([value]));
    let (name, value, expected_version) = (by(), Json::new(&deep), None);
    vec![
        (
            one(),
            Command::SetVariable {
                run,
                name,
                value,
                expected_version,
                origin: Origin::person(by()),
            },
        ),
        (meant, intend),
        (
            unmeant,
            Command::CommitEffect { proof: Proof::LockHolder, token: unmeant_token, key: by() },
        ),
        (many, Command::MarkDoneBefore { run, steps }),
    ]
}

/// Rejections of claims for other owners.
fn routing_rejections() -> Vec<(TestLedger, Command)> {
    let person = Step { owner: Some("human".to_owned()), ..step("a", &[]) };
    let owned = || TestLedger::with(&plan(vec![person.clone()]), RunPolicy::default());
    let named = dispatch_command(Some(StepNumber(1)));
    let mut asked = one();
    let trigger = ReplanTrigger::ScopeChange { by: "ana".to_owned() };
    let (from, reason) = (Some(StepNumber(1)), "more".to_owned());
    asked.execute(Command::RequestReplan { run: RunId(1), trigger, from, reason }).unwrap();
    vec![(owned(), named), (owned(), dispatch_command(None)), (asked, dispatch_command(None))]
}

/// Rejections of the inputs of a run.
fn input_rejections() -> Vec<(TestLedger, Command)> {
    let input = PlanInput { kind: InputType::Integer, ..PlanInput::default() };
    let plan = Plan { inputs: [("n".to_owned(), input)].into(), ..plan(vec![step("a", &[])]) };
    let start = |inputs: &[(&str, serde_json::Value)]| Command::StartRun {
        name: "other".to_owned(),
        policy: RunPolicy::default(),
        reason: String::new(),
        draft: draft(&plan),
        inputs: inputs.iter().map(|(name, value)| ((*name).to_owned(), Json::new(value))).collect(),
    };
    vec![(one(), start(&[])), (one(), start(&[("n", "text".into())]))]
}

/// Every rejection has a name, a message and a place in the published table, and some command is
/// rejected with it.
#[test]
fn every_rejection_is_reachable_and_published() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/format/cli-json.md");
    let text = std::fs::read_to_string(path).unwrap();
    let table = text.split("| `rejection` | why |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let name = |line: &str| line.split('`').nth(1).unwrap().to_owned();
    let mut published: std::collections::BTreeSet<String> = rows.map(name).collect();
    // Only the program knows the source of a command.
    published.remove("inside_attempt");
    published.remove("agent_session");
    let mut found = std::collections::BTreeSet::new();
    for (mut ledger, command) in run_rejections()
        .into_iter()
        .chain(step_rejections())
        .chain(effect_rejections())
        .chain(routing_rejections())
        .chain(input_rejections())
    {
        let refused = ledger.execute(command).unwrap_err();
        assert!(refused.to_string().len() > 15, "{refused:?}");
        assert!(found.insert(refused.name().to_owned()), "twice: {refused:?}");
    }
    // Only the ledger, which knows files and compares plans, returns these.
    for rejection in
        [Rejection::NoSuchOutput(ContentHash::default()), Rejection::DifferentPlan(RunId(1))]
    {
        found.insert(rejection.name().to_owned());
    }
    assert_eq!(found, published);
}
