//! What a ledger is for, told to the end: a coding agent that was wrong, a loan, a hundred agents,
//! a worker that praises itself. Each story loses its power in the middle.

use plan_ledger::plan::*;
use plan_ledger::{ErrorKind, Ledger};
use serde_json::{Value, json};

use super::scenario::{HOUR, Story, money, plan, receipt, refusal};

fn numbers(story: &Story, ids: &[&str]) -> Vec<StepNumber> {
    ids.iter().map(|id| story.number(id)).collect()
}

/// A repair in steps, of which the second says where to look, and the last one may be any.
fn repair(locate: &str, last: &Value) -> Value {
    json!({
        "title": "Logins time out",
        "failure": { "max_replans": 2, "rules": [{
            "id": "wrong-cause",
            "when": { "class": "assumption_broken", "step": "fix" },
            "then": { "replan": { "from": "locate" } }
        }]},
        "steps": [
            { "id": "reproduce", "goal": "write a test that fails", "outputs": ["test"] },
            { "id": "locate", "goal": locate, "after": ["reproduce"], "outputs": ["cause"] },
            { "id": "fix", "goal": "remove the cause", "after": ["locate"],
              "inputs": ["cause", "test"], "retry": { "max_attempts": 12 },
              "acceptance": [{ "cel": "output.passed == output.total" }] },
            { "id": "explain", "goal": "say what it was", "after": ["locate"],
              "inputs": ["cause"], "priority": -1 },
            last
        ]
    })
}

/// Goal: a wrong root cause is found out by its consequences, the plan is changed from there on
/// and nowhere else, and what was tried is not tried again: three attempts, not twelve.
#[test]
fn a_coding_agent_whose_root_cause_was_wrong() {
    let pool = json!({ "id": "tune_pool", "goal": "size the pool", "after": ["fix"] });
    let mut story = Story::begin(&repair("find the cause", &pool));
    story.walk("reproduce", &json!("login_times_out"));
    story.walk("locate", &json!("src/pool.rs"));

    // The first attempt is turned down by a criterion, and the second is told by which.
    let first = story.take("fix");
    assert_eq!(first.failed_criteria, []);
    story.finish(&first, &json!({ "passed": 11, "total": 12 }));
    let second = story.take("fix");
    assert_eq!((second.attempt, second.inputs[0].1.as_str()), (2, "\"src/pool.rs\""));
    assert_eq!(second.failed_criteria[0].by, "policy:cel");
    assert!(second.last_failure.as_ref().unwrap().contains("output.passed"), "{second:?}");
    let explaining = story.take("explain");

    // The second finds out that what the plan stands on is not so.
    let message = "no connection is ever waited for";
    story.fail(&second, FailureClass::AssumptionBroken, message, 0);
    let (locate, fix) = (story.number("locate"), story.number("fix"));
    let decided = story.decisions().pop().unwrap();
    assert_eq!((decided.rule.as_str(), decided.decision), ("wrong-cause", Decision::Replan));
    story.lose_power();
    let request = story.state().request.unwrap();
    assert_eq!(request.trigger, ReplanTrigger::AssumptionBroken { token: second.token });
    assert_eq!((request.from, request.reason.as_str()), (Some(locate), message));
    assert_eq!(story.ended(), None, "it waits for the planner");

    // The new version differs in step 2, which is told what was tried, and behind step 3.
    let guard = json!({ "id": "guard", "goal": "keep the test", "after": ["fix"] });
    let better = repair("find the cause; it is not in src/pool.rs", &guard);
    let removed = story.number("tune_pool");
    let version = story.ledger().propose(story.run, &plan(&better), "not src/pool.rs").unwrap();
    let activated = story.activated();
    assert_eq!((version, activated.request), (2, request.seq));
    assert_eq!(activated.preserved, numbers(&story, &["reproduce"]));
    assert_eq!(activated.invalidated, numbers(&story, &["locate", "explain"]));
    assert_eq!(activated.removed, [removed]);
    assert_eq!(activated.added, numbers(&story, &["guard"]));
    assert_eq!(
        (activated.trusted, activated.untrusted),
        (vec!["test".into()], vec!["cause".into()])
    );
    assert!(story.variable("test").is_trusted && !story.variable("cause").is_trusted);
    let late = story.ledger().record_receipt(explaining.token, receipt(&json!("the pool")));
    assert_eq!(refusal(late), Rejection::StaleToken(explaining.token), "it was taken away");

    story.lose_power();
    story.walk("locate", &json!("src/session.rs"));
    assert!(story.variable("cause").is_trusted);
    let third = story.take("fix");
    assert_eq!((third.attempt, third.inputs[0].1.as_str()), (3, "\"src/session.rs\""));
    story.finish(&third, &json!({ "passed": 12, "total": 12 }));
    story.walk("guard", &json!(null));
    story.walk("explain", &json!("sessions were never closed"));
    assert_eq!(story.ended(), Some(Ending::Done));
    let run = story.state();
    assert_eq!(run.step(fix).unwrap().attempts, 3, "not twelve");
    assert_eq!((run.replans, run.active), (1, 2));
}

/// The loan: what every telling of it has in common.
fn loan() -> Value {
    json!({
        "title": "Loan approval",
        "budget": { "money_micros": 250_000 },
        "steps": [
            { "id": "pull_credit", "goal": "ask the bureau", "outputs": ["score"],
              "cost_estimate": { "money_micros": 40_000 },
              "failure_hints": { "503": "transient" },
              "retry": { "max_attempts": 3, "backoff_seconds": 30, "backoff_percent": 200 } },
            { "id": "assess", "goal": "assess the risk", "after": ["pull_credit"],
              "inputs": ["score"], "outputs": ["risk"],
              "cost_estimate": { "money_micros": 60_000 } },
            { "id": "review", "goal": "look at the case", "after": ["assess"],
              "condition": "risk == 'review'",
              "gate": { "question": "May this loan go ahead?", "to": "ann",
                        "deadline_seconds": 48 * HOUR,
                        "on_timeout": { "escalate_to": "bob" } } },
            { "id": "offer", "goal": "write the offer", "after": ["review"],
              "cost_estimate": { "money_micros": 100_000 } }
        ]
    })
}

/// Goal: a bureau that is down is asked again, later each time, and nobody has to wait for it
/// with a process.
#[test]
fn loan_a_503_is_transient_and_tried_again_with_backoff() {
    let mut story = Story::begin(&loan());
    for (attempt, wait) in [(1, 30), (2, 60)] {
        let task = story.take("pull_credit");
        assert_eq!(task.attempt, attempt);
        story.fail(&task, FailureClass::Unknown, "HTTP 503 from the bureau", 40_000);
        let decided = story.decisions().pop().unwrap();
        assert_eq!(decided.class, FailureClass::Transient, "as the plan hints");
        assert_eq!(decided.decision, Decision::RetryAt(story.now() + wait * 1_000_000));
        let step = story.number("pull_credit");
        story.lose_power();
        story.wait(wait - 1);
        let early = refusal(story.ledger().claim(story.run, step, "hasty"));
        assert_eq!(early, Rejection::NotReady(step, StepStatus::Delayed));
        assert!(story.ledger().dispatch(story.run, "hasty").unwrap().is_none());
        story.wait(1);
        assert_eq!(story.status("pull_credit"), StepStatus::Ready);
    }
    let task = story.take("pull_credit");
    assert_eq!(story.finish_for(&task, &json!(640), 40_000), StepStatus::Accepted);
    assert_eq!(story.variable("score").value.as_str(), "640");
    assert_eq!(story.state().spent(), money(120_000), "failed attempts cost, too");
}

/// The loan up to the question whether it may go ahead.
fn loan_in_review() -> Story {
    let story = Story::begin(&loan());
    story.finish_for(&story.take("pull_credit"), &json!(640), 40_000);
    story.finish_for(&story.take("assess"), &json!({ "risk": "review" }), 60_000);
    story
}

/// Goal: a borderline case waits for a person, for 48 hours, and then for another one; whoever is
/// late, or looks at something else, is told so.
#[test]
fn loan_a_review_waits_for_a_person_and_then_for_another() {
    let mut story = loan_in_review();
    let asked = story.question();
    let gate = &asked.question.asked;
    assert_eq!((gate.to.as_deref(), gate.text.as_str()), (Some("ann"), "May this loan go ahead?"));
    assert_eq!(gate.deadline, Some(story.now() + 48 * HOUR * 1_000_000));
    assert_eq!((asked.run, asked.question.step), (story.run, Some(story.number("review"))));
    assert_eq!(story.status("review"), StepStatus::Gated);

    story.wait(48 * HOUR - 1);
    assert_eq!(story.question(), asked, "she has one second left");
    story.lose_power();
    story.wait(1);
    let escalated = story.question();
    assert_ne!(escalated.id, asked.id);
    assert_eq!(escalated.question.asked.to.as_deref(), Some("bob"));
    let late = refusal(story.answer(&asked, "ann", YES));
    assert_eq!(late, Rejection::NoSuchQuestion(asked.id));
    assert_eq!(story.status("review"), StepStatus::Gated, "late is not yes");

    let mut other = escalated.clone();
    other.question.asked.shown = ContentHash([7; 32]);
    let expected = escalated.question.asked.shown;
    let found = other.question.asked.shown;
    let unseen = refusal(story.answer(&other, "bob", YES));
    assert_eq!(unseen, Rejection::HashDiffers { expected, found });
    let unknown = refusal(story.answer(&escalated, "bob", "perhaps"));
    assert!(matches!(unknown, Rejection::NotAnOption { answer, .. } if answer == "perhaps"));

    story.lose_power();
    story.answer(&escalated, "bob", YES).unwrap();
    assert_eq!(story.ledger().questions().unwrap(), []);
    story.walk("review", &json!("plausible"));
    let answered = story.step_events().into_iter().find_map(|record| match record.event {
        StepEvent::Answered(answered) => Some((answered.by, answered.answer, answered.shown)),
        _ => None,
    });
    assert_eq!(answered, Some(("bob".to_owned(), YES.to_owned(), expected)));
}

/// Goal: a no is a no: the step fails, and the offer is never written.
#[test]
fn loan_a_no_ends_it() {
    let story = loan_in_review();
    story.answer(&story.question(), "ann", NO).unwrap();
    assert_eq!(story.status("review"), StepStatus::Failed);
    assert_eq!((story.ended(), story.status("offer")), (Some(Ending::Failed), StepStatus::Waiting));
}

/// Goal: a case that needs no review is never asked about.
#[test]
fn loan_a_clear_case_passes_by_the_gate() {
    let story = Story::begin(&loan());
    story.walk("pull_credit", &json!(790));
    story.walk("assess", &json!("low"));
    assert_eq!(
        (story.ledger().questions().unwrap(), story.status("review")),
        (vec![], StepStatus::Skipped)
    );
    story.walk("offer", &json!("at 3 percent"));
    assert_eq!(story.ended(), Some(Ending::Done));
}

/// Goal: 25 cents are 25 cents. What would go beyond is not begun; the run pauses, asks, survives,
/// and goes on when somebody raises the budget, which is a record.
#[test]
fn loan_a_budget_of_25_cents_pauses_asks_and_is_raised() {
    let mut story = loan_in_review();
    story.answer(&story.question(), "ann", YES).unwrap();
    story.finish_for(&story.take("review"), &json!(null), 100_000);
    assert_eq!(story.state().spent(), money(200_000));
    // The offer may cost 100,000 and 50,000 are left.
    assert!(story.ledger().dispatch(story.run, "writer").unwrap().is_none());
    let cause = PauseCause::RunBudget(BudgetPart::Money);
    assert_eq!(story.state().pause, Some(cause.clone()));
    assert_eq!(story.question().question.asked.subject, Subject::Budget);
    story.lose_power();
    assert!(story.ledger().dispatch(story.run, "writer").unwrap().is_none());
    let (ledger, run) = (story.ledger(), story.run);
    let offer = story.number("offer");
    assert_eq!(refusal(ledger.claim(run, offer, "writer")), Rejection::Paused(cause.clone()));
    assert_eq!(ledger.questions().unwrap().len(), 1, "nobody is asked twice");

    let limits = |micros| Some(Limits { money_micros: Some(micros), ..Limits::default() });
    ledger.set_budget(Some(run), limits(200_000), "ann").unwrap();
    assert_eq!(story.state().pause, Some(cause), "that is less");
    ledger.set_budget(Some(run), limits(400_000), "ann").unwrap();
    assert_eq!((story.state().pause, ledger.questions().unwrap()), (None, vec![]));
    let task = story.take("offer");
    assert_eq!(story.state().account.reserved, money(100_000));
    story.finish_for(&task, &json!("at 9 percent"), 90_000);
    let account = story.state().account;
    assert_eq!((account.spent, account.reserved), (money(290_000), Cost::default()));
    assert_eq!(story.ended(), Some(Ending::Done));
}

/// Goal: whoever is asked about a budget may also want another plan, or an end.
#[test]
fn loan_a_budget_that_is_not_raised_ends_in_another_plan_or_not_at_all() {
    for (answer, ending) in [(REPLAN, None), (ABORT, Some(Ending::Aborted))] {
        let story = loan_in_review();
        story.answer(&story.question(), "ann", YES).unwrap();
        story.finish_for(&story.take("review"), &json!(null), 240_000);
        // More was spent than there was: settled truly, and paused at once.
        assert_eq!(story.state().spent(), money(340_000));
        story.answer(&story.question(), "ann", answer).unwrap();
        assert_eq!(story.ended(), ending, "{answer}");
        let trigger = story.state().request.map(|request| request.trigger);
        let expected = (answer == REPLAN).then_some(ReplanTrigger::BudgetExhausted);
        assert_eq!(trigger, expected, "{answer}");
    }
}

/// Goal: when the attempts at a step are used up, another plan is asked for; it keeps what still
/// counts, and says of every step and variable whether it does.
#[test]
fn loan_exhausted_retries_lead_to_another_plan() {
    let of = |papers: &str, bureau: &str| {
        json!({
            "title": "Loan approval",
            "failure": { "max_replans": 1 },
            "steps": [
                { "id": "identify", "goal": "who is it", "outputs": ["identity"] },
                { "id": "papers", "goal": papers, "outputs": ["papers"] },
                { "id": "income", "goal": "add it up", "inputs": ["papers"], "after": ["papers"],
                  "outputs": ["income"] },
                { "id": bureau, "goal": "ask for the score", "after": ["identify"],
                  "inputs": ["identity"], "outputs": ["score"], "retry": { "max_attempts": 2 } },
                { "id": "assess", "goal": "assess", "after": ["income", bureau] }
            ]
        })
    };
    let mut story = Story::begin(&of("collect the papers", "bureau_a"));
    for (id, output) in [("identify", "J. Doe"), ("papers", "two pay slips"), ("income", "4000")] {
        story.walk(id, &json!(output));
    }
    let mut last = None;
    for _ in 0..2 {
        let task = story.take("bureau_a");
        story.fail(&task, FailureClass::Transient, "HTTP 503", 0);
        last = Some(task.token);
    }
    let decided = story.decisions().pop().unwrap();
    assert_eq!(decided.rule, "replan.attempts_exhausted");
    let bureau = story.number("bureau_a");
    story.lose_power();
    let request = story.state().request.unwrap();
    assert_eq!(request.trigger, ReplanTrigger::RetriesExhausted { token: last.unwrap() });
    assert_eq!((request.from, story.ended()), (Some(bureau), None));

    let other = plan(&of("collect the papers, and bank statements", "bureau_b"));
    story.ledger().propose(story.run, &other, "bureau A is down").unwrap();
    let activated = story.activated();
    assert_eq!(activated.request, request.seq);
    assert_eq!(activated.preserved, numbers(&story, &["identify"]));
    assert_eq!(activated.invalidated, numbers(&story, &["papers", "income"]));
    assert_eq!((activated.removed, activated.added.len()), (vec![bureau], 1));
    assert_eq!(activated.trusted, ["identity"]);
    assert_eq!(activated.untrusted, ["income", "papers"]);
    assert_eq!(story.status("identify"), StepStatus::Accepted);
    assert_eq!(story.status("papers"), StepStatus::Ready);

    // One other plan was allowed. What a person wants changed does not count.
    let third = plan(&of("collect everything", "bureau_c"));
    let trigger = ReplanTrigger::NewEvidence { by: "planner".to_owned() };
    let (ledger, run) = (story.ledger(), story.run);
    let limited = refusal(ledger.propose_for(run, &third, "why not", Some(trigger)));
    assert_eq!(limited, Rejection::ReplanLimit(1));
    let trigger = ReplanTrigger::ScopeChange { by: "ann".to_owned() };
    assert_eq!(ledger.propose_for(run, &third, "I want it", Some(trigger)).unwrap(), 3);

    story.lose_power();
    for id in ["papers", "income", "bureau_c", "assess"] {
        story.walk(id, &json!("done"));
    }
    assert_eq!(story.ended(), Some(Ending::Done));
    assert!(story.state().variables.values().all(|variable| variable.is_trusted));
    assert_eq!(story.step("identify").attempts, 1, "kept, not done again");
}

/// Goal: a score of yesterday is better than none; one that is older is not.
#[test]
fn loan_a_cached_score_stands_in_if_it_is_under_24_hours_old() {
    let of = json!({ "steps": [
        { "id": "pull_credit", "goal": "ask", "outputs": ["score"], "retry": { "max_attempts": 2 },
          "fallback": { "variable": { "name": "cached_score", "max_age_seconds": 24 * HOUR } } },
        { "id": "assess", "goal": "assess", "after": ["pull_credit"], "inputs": ["score"] }
    ]});
    for (age, stands_in) in [(23 * HOUR, true), (24 * HOUR, true), (24 * HOUR + 1, false)] {
        let mut story = Story::begin(&of);
        let score = Json::new(&json!(655));
        story.ledger().set_variable(story.run, "cached_score", score, Some(0), "batch").unwrap();
        story.wait(age);
        story.lose_power();
        for _ in 0..2 {
            let task = story.take("pull_credit");
            story.fail(&task, FailureClass::Transient, "HTTP 503", 0);
        }
        let decided = story.decisions().pop().unwrap();
        let step = story.step("pull_credit");
        if !stands_in {
            assert_eq!((decided.decision, step.status), (Decision::Fail, StepStatus::Failed));
            assert_eq!(story.ended(), Some(Ending::Failed));
            continue;
        }
        assert_eq!((decided.decision, step.status), (Decision::Fallback, StepStatus::Accepted));
        let reason = format!("variable cached_score, {age} s old");
        assert_eq!(step.accepted(), Some(&AcceptedBasis::Fallback { reason }));
        let origin = Origin::Fallback { step: story.number("pull_credit") };
        assert_eq!(story.variable("score").origin, origin);
        let task = story.take("assess");
        assert_eq!(task.inputs, [("score".to_owned(), Json::new(&json!(655)))]);
    }
}

/// Goal: the sixth step waits for all five before it, in whatever order they end and whatever
/// happens in between.
#[test]
fn five_steps_and_a_barrier_before_the_sixth() {
    let five = ["north", "east", "south", "west", "middle"];
    let mut steps: Vec<Value> = five.iter().map(|id| json!({ "id": id, "goal": "look" })).collect();
    steps.push(json!({ "id": "sum", "goal": "put it together", "after": ["all"] }));
    let of = json!({ "steps": steps, "barriers": [{ "id": "all", "members": five }] });
    let mut story = Story::begin(&of);
    let sum = story.number("sum");
    let mut tasks: Vec<_> = five.iter().map(|id| story.take(id)).collect();
    tasks.rotate_left(2);
    let last = tasks.pop().unwrap();
    for task in &tasks {
        story.finish(task, &json!("seen"));
        story.lose_power();
        assert_eq!(story.state().barriers["all"].status, BarrierStatus::Closed);
        let early = refusal(story.ledger().claim(story.run, sum, "hasty"));
        assert_eq!(early, Rejection::NotReady(sum, StepStatus::Waiting));
    }
    story.finish(&last, &json!("seen"));
    let released = story.events().into_iter().find_map(|(_, event)| match event {
        Event::Barrier(changed) => Some((changed.change, changed.arrived, changed.needed)),
        _ => None,
    });
    assert_eq!(released, Some((BarrierChange::Released, 5, 5)));
    story.walk("sum", &json!("a map"));
    assert_eq!(story.ended(), Some(Ending::Done));
}

/// Goal: agent 40 of 100 dies, and the machine with it: the ledger holds the 39 receipts, knows
/// that 40 never came back, and deals it again, to one agent.
#[test]
fn agent_40_of_100_dies() {
    let steps: Vec<Value> =
        (1..=100).map(|number| json!({ "id": format!("part {number}"), "goal": "do" })).collect();
    let of = json!({ "defaults": { "lease_seconds": 60 }, "steps": steps });
    let mut story = Story::begin(&of);
    let deal = |story: &Story, agent: u32| {
        story.ledger().dispatch(story.run, &format!("agent {agent}")).unwrap().unwrap()
    };
    for agent in 1..=39 {
        let task = deal(&story, agent);
        story.finish(&task, &json!(agent));
    }
    let fortieth = deal(&story, 40);
    story.lose_power();

    let receipts = |story: &Story| {
        let is_receipt =
            |record: &StepRecord| matches!(record.event, StepEvent::ReceiptRecorded(_));
        story.step_events().iter().filter(|record| is_receipt(record)).count()
    };
    assert_eq!(receipts(&story), 39);
    let run = story.state();
    assert_eq!((run.count(StepStatus::Accepted), run.count(StepStatus::Ready)), (39, 60));
    let held = refusal(story.ledger().claim(story.run, StepNumber(40), "agent 41"));
    let (worker, lease_until) = ("agent 40".to_owned(), fortieth.lease_until);
    assert_eq!(held, Rejection::HeldBy { step: StepNumber(40), worker, lease_until });

    story.wait(60);
    let lost = story.step_events().into_iter().find_map(|record| match record.event {
        StepEvent::AttemptLost(lost) => Some((record.step, lost.token, lost.cause, lost.then)),
        _ => None,
    });
    let expected = (StepNumber(40), fortieth.token, LostCause::LeaseExpired, AfterLoss::DealAgain);
    assert_eq!(lost, Some(expected));
    let again = deal(&story, 41);
    assert_eq!((again.number, again.attempt), (StepNumber(40), 2));
    // It was not dead after all. What it says is kept, and counts for nothing.
    let late = story.ledger().record_receipt(fortieth.token, receipt(&json!("late")));
    assert_eq!(refusal(late), Rejection::StaleToken(fortieth.token));
    story.finish(&again, &json!(41));
    for agent in 42..=101 {
        let task = deal(&story, agent);
        assert_eq!(task.number, StepNumber(agent - 1));
        story.finish(&task, &json!(agent));
    }
    assert_eq!((story.ended(), receipts(&story)), (Some(Ending::Done), 100));
    assert_eq!(story.state().account.attempts, 101);
}

/// Goal: the executor that marks its own work as done is refused, whatever way it tries; somebody
/// else's word counts, and is on record.
#[test]
fn an_executor_may_not_mark_its_own_work_as_done() {
    let of = json!({ "steps": [
        { "id": "migrate", "goal": "move the rows", "acceptance": ["every row is there"] }
    ]});
    let mut story = Story::begin(&of);
    let task = story.take("migrate");
    let says = json!({ "accepted": true, "status": "done" });
    assert_eq!(story.finish(&task, &says), StepStatus::Reported, "a receipt is a claim");
    let verdict = |by: &str| Verdict {
        criterion: 0,
        ruling: Ruling::Pass,
        by: by.to_owned(),
        evidence: "counted them".to_owned(),
    };
    let itself = "worker of migrate";
    let judged = refusal(story.ledger().judge(task.token, vec![verdict(itself)]));
    assert_eq!(judged, Rejection::JudgedByWorker(itself.to_owned()));
    story.lose_power();
    assert_eq!(story.status("migrate"), StepStatus::Reported);
    // One honest verdict does not carry a second one of its own.
    let both = vec![verdict("ann"), Verdict { criterion: 1, ..verdict(itself) }];
    assert_eq!(refusal(story.ledger().judge(task.token, both)), Rejection::NoSuchCriterion(1));
    assert_eq!(story.status("migrate"), StepStatus::Reported, "refused as a whole");
    let status = story.ledger().judge(task.token, vec![verdict("ann")]).unwrap();
    assert_eq!(status, StepStatus::Accepted);
    assert_eq!(story.step("migrate").accepted(), Some(&AcceptedBasis::Verdicts));
    assert_eq!(story.ended(), Some(Ending::Done));
}

/// Goal: a value that is no answer at all does not pass for one: `system_error` is outside of what
/// a compliance check may say, and never becomes a variable that others read.
#[test]
fn a_compliance_flag_outside_of_its_expected_set_is_turned_down() {
    let of = json!({ "steps": [
        { "id": "check", "goal": "check the applicant", "outputs": ["compliance_flag"],
          "acceptance": [{ "cel": "output.compliance_flag in ['pass', 'fail', 'review']" }] },
        { "id": "decide", "goal": "decide", "after": ["check"], "inputs": ["compliance_flag"] }
    ]});
    let mut story = Story::begin(&of);
    let task = story.take("check");
    let status = story.finish(&task, &json!({ "compliance_flag": "system_error" }));
    assert_eq!(status, StepStatus::Ready, "it is tried again");
    assert!(!story.state().variables.contains_key("compliance_flag"));
    story.lose_power();
    let again = story.take("check");
    let failed = &again.failed_criteria;
    assert_eq!((failed.len(), failed[0].criterion, failed[0].ruling), (1, 0, Ruling::Fail));
    assert_eq!(story.finish(&again, &json!({ "compliance_flag": "review" })), StepStatus::Accepted);
    let task = story.take("decide");
    assert_eq!(task.inputs[0].1.as_str(), "\"review\"");
}

/// Goal: a worker is told which criteria the attempt before did not meet, but never of such as the
/// new version of the plan puts in another place or does not have.
#[test]
fn a_worker_is_told_of_criteria_that_its_plan_still_has() {
    let of = |second: &str| {
        json!({ "steps": [
            { "id": "kept", "goal": "g", "acceptance": [{ "cel": "output.ok" }] },
            { "id": "other", "goal": "g", "acceptance": [{ "cel": second }] }
        ]})
    };
    let story = Story::begin(&of("output.ok"));
    for id in ["kept", "other"] {
        let task = story.ledger().claim(story.run, story.number(id), "w").unwrap();
        assert_eq!(story.finish(&task, &json!({ "ok": false })), StepStatus::Ready, "{id}");
    }
    story.ledger().propose(story.run, &plan(&of("output.fine")), "other words").unwrap();
    for (id, told) in [("kept", 1), ("other", 0)] {
        let task = story.take(id);
        assert_eq!((task.failed_criteria.len(), task.attempt), (told, 2), "{id}");
        assert!(task.last_failure.unwrap().contains("output.ok"), "{id}");
    }
}

/// Goal: waiting for a person costs nothing: no process, no record, no attempt, no timer; for
/// years, and over any number of restarts.
#[test]
fn waiting_at_a_gate_costs_nothing_and_survives_restarts() {
    let of = json!({ "budget": { "money_micros": 1, "attempts": 1 }, "steps": [
        { "id": "launch", "goal": "launch it", "gate": { "question": "Now?" } }
    ]});
    let mut story = Story::begin(&of);
    let (asked, events) = (story.question(), story.events());
    for _ in 0..12 {
        story.wait(30 * 24 * HOUR);
        story.lose_power();
        assert!(story.ledger().dispatch(story.run, "eager").unwrap().is_none());
    }
    assert_eq!((story.events(), story.question()), (events, asked.clone()));
    assert_eq!(story.ledger().state().unwrap().next_due(), None);
    let run = story.state();
    assert_eq!((run.account.attempts, run.spent()), (0, Cost::default()));
    story.answer(&asked, "ann", YES).unwrap();
    let again = refusal(story.answer(&asked, "ann", YES));
    assert_eq!(again, Rejection::NoSuchQuestion(asked.id), "it was answered");
    story.walk("launch", &json!("up"));
    assert_eq!(story.ended(), Some(Ending::Done));
}

/// Goal: what was done to the world is done once, although the worker that did it died before it
/// could say so.
#[test]
fn a_payment_is_made_once_although_its_worker_dies() {
    let of = json!({ "defaults": { "lease_seconds": 60 }, "steps": [
        { "id": "pay", "goal": "pay 100", "idempotent": "with_key", "side_effects": ["payment"] }
    ]});
    let mut story = Story::begin(&of);
    let first = story.take("pay");
    let key = first.idempotency_key.clone();
    let ledger = story.ledger();
    assert_eq!(
        refusal(ledger.commit_effect(first.token, &key)),
        Rejection::NoSuchEffect(key.clone()),
        "nothing is done that was not meant"
    );
    ledger.intend_effect(first.token, "pay 100", &key).unwrap();
    let commit = ledger.commit_effect(first.token, &key).unwrap();
    story.lose_power();
    story.wait(60);
    let second = story.take("pay");
    assert_eq!((second.attempt, &second.idempotency_key), (2, &key));
    let known = refusal(story.ledger().intend_effect(second.token, "pay 100", &key));
    assert_eq!(known, Rejection::EffectKnown { key: key.clone(), committed: commit.ack.seq });
    story.finish(&second, &json!("it was paid before"));
    assert_eq!(story.state().effects.len(), 1);
}

/// Goal: a run that somebody holds up deals nothing and loses nothing.
#[test]
fn a_pause_holds_up_what_was_not_begun() {
    let of = json!({ "steps": [{ "id": "a", "goal": "a" }, { "id": "b", "goal": "b" }] });
    let mut story = Story::begin(&of);
    let task = story.take("a");
    story.ledger().pause(story.run, "ann", "lunch").unwrap();
    let cause = Rejection::Paused(PauseCause::Person("ann".to_owned()));
    assert_eq!(refusal(story.ledger().pause(story.run, "bob", "tea")), cause);
    assert_eq!(story.finish(&task, &json!(1)), StepStatus::Accepted, "what was begun goes on");
    story.lose_power();
    assert!(story.ledger().dispatch(story.run, "w").unwrap().is_none());
    story.ledger().resume(story.run, "ann").unwrap();
    assert_eq!(refusal(story.ledger().resume(story.run, "ann")), Rejection::NotPaused);
    story.walk("b", &json!(2));
    assert_eq!(story.ended(), Some(Ending::Done));
}

/// Goal: where the plan leaves failures to somebody else, a failed attempt waits for them, over
/// restarts, and what they decide is on record like any rule.
#[test]
fn a_failure_waits_for_a_decider_from_outside() {
    let of = json!({ "failure": { "decider": "external" }, "steps": [{ "id": "a", "goal": "a" }] });
    let mut story = Story::begin(&of);
    let task = story.take("a");
    let step = task.number;
    assert_eq!(story.fail(&task, FailureClass::Unknown, "odd", 0), StepStatus::Reported);
    story.lose_power();
    assert!(story.ledger().dispatch(story.run, "w").unwrap().is_none());
    let decide = |story: &Story, decision| {
        story.ledger().decide_failure(story.run, step, decision, "model 7", "looks like a glitch")
    };
    assert_eq!(refusal(decide(&story, Decision::Fallback)), Rejection::NoFallback(step));
    let at = story.now() + 5_000_000;
    assert_eq!(decide(&story, Decision::RetryAt(at)).unwrap(), StepStatus::Delayed);
    assert_eq!(story.decisions()[0].rule, "model 7");
    assert_eq!(refusal(decide(&story, Decision::Retry)), Rejection::NothingFailed);
    story.wait(5);
    story.walk("a", &json!(1));
    assert_eq!(story.ended(), Some(Ending::Done));
}

/// Goal: an open request for another plan may turn out to be none, and a plan that is extended as
/// it goes ends when its planner says so.
#[test]
fn a_planner_says_that_there_is_no_more_to_do() {
    let of = |count: usize| {
        let steps: Vec<Value> =
            (0..count).map(|number| json!({ "id": number.to_string(), "goal": "g" })).collect();
        json!({ "continues": true, "extend_at": 1, "steps": steps })
    };
    let mut story = Story::begin(&of(1));
    story.walk("0", &json!(0));
    assert_eq!(story.state().request.unwrap().trigger, ReplanTrigger::Extension);
    story.lose_power();
    let (ledger, run) = (story.ledger(), story.run);
    let trigger = ReplanTrigger::NewEvidence { by: "ann".to_owned() };
    let open = refusal(ledger.request_replan(run, trigger.clone(), None, "look"));
    assert!(matches!(open, Rejection::ReplanIsOpen(_)));
    ledger.propose(run, &plan(&of(2)), "one more").unwrap();
    assert_eq!(story.activated().preserved, [StepNumber(1)]);
    let seq = ledger.request_replan(run, trigger, None, "look").unwrap();
    assert_eq!(story.state().request.unwrap().seq, seq);
    ledger.withdraw_replan(run, "ann", "it was nothing").unwrap();
    assert_eq!(refusal(ledger.withdraw_replan(run, "ann", "")), Rejection::NoReplanRequested);
    story.walk("1", &json!(1));
    assert_eq!(story.ended(), None, "there may be more");
    ledger.withdraw_replan(run, "planner", "that was all").unwrap();
    assert_eq!(story.ended(), Some(Ending::Done));
}

/// Goal: a run forked before a step is what the run was then, costs nothing of what was spent
/// then, and goes its own way; the one that it was forked from does not notice.
#[test]
fn a_run_is_forked_before_a_step_and_goes_its_own_way() {
    use plan_ledger::ForkPoint;
    let of = json!({ "budget": { "money_micros": 100 }, "steps": [
        { "id": "draw", "goal": "draw", "outputs": ["colour"] },
        { "id": "paint", "goal": "paint", "after": ["draw"], "inputs": ["colour"] },
        { "id": "hang", "goal": "hang", "after": ["paint"] }
    ]});
    let mut story = Story::begin(&of);
    story.finish_for(&story.take("draw"), &json!("red"), 60);
    let before = story.ledger().head();
    story.fail(&story.take("paint"), FailureClass::Transient, "spilt", 10);
    let painting = story.take("paint");
    story.finish_for(&painting, &json!("done"), 10);
    story.lose_power();
    let ledger = story.ledger();
    let (parent, paint) = (story.run, story.number("paint"));
    let fork = ledger.fork(parent, ForkPoint::Before(paint), "in blue").unwrap();
    let run = ledger.run(fork).unwrap();
    let forked = run.forked.clone().unwrap();
    assert_eq!((forked.parent, forked.at_seq), (parent, before.seq));
    assert_eq!(forked.chain, ContentHash(before.chain.0), "as the log has it");
    assert_eq!((forked.spent, run.spent()), (money(60), Cost::default()));
    assert_eq!(run.step(paint).unwrap().status, StepStatus::Ready);
    assert_eq!(run.step(paint).unwrap().attempts, 0);
    ledger.set_variable(fork, "colour", Json::new(&json!("blue")), Some(1), "ann").unwrap();
    let task = ledger.dispatch(fork, "w").unwrap().unwrap();
    assert_eq!((task.number, task.inputs[0].1.as_str()), (paint, "\"blue\""));
    assert_eq!(story.variable("colour").value.as_str(), "\"red\"");
    assert_eq!(story.status("paint"), StepStatus::Accepted);

    // After any record; and a step that was never dealt is before itself now.
    let last = ledger.fork(parent, ForkPoint::Before(story.number("hang")), "now").unwrap();
    assert_eq!(ledger.run(last).unwrap().step(paint).unwrap().status, StepStatus::Accepted);
    let again = ledger.fork(fork, ForkPoint::After(ledger.head().seq), "in green").unwrap();
    assert_eq!(ledger.run(again).unwrap().variables["colour"].value.as_str(), "\"blue\"");
    assert_eq!(ledger.run(again).unwrap().count(StepStatus::Ready), 1, "in flight there, not here");
    let name = refusal(ledger.fork(parent, ForkPoint::After(before.seq), "now"));
    assert_eq!(name, Rejection::RunExists(last));
    let none = refusal(ledger.fork(fork, ForkPoint::After(before.seq), "too early"));
    assert_eq!(none, Rejection::NoSuchRun);
    let beyond = ledger.fork(parent, ForkPoint::After(u64::MAX), "too late").unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::OutOfRange);
    let no_step = refusal(ledger.fork(parent, ForkPoint::Before(StepNumber(9)), "nowhere"));
    assert_eq!(no_step, Rejection::NoSuchStep(StepNumber(9)));
}

/// A fork may begin at any record, also inside of what was written at once. A version of which only
/// the header stood there came along with no steps and the hash of the whole plan, and no snapshot
/// of such a state could be read again.
///
/// Goal: a fork takes over what was whole at its record, and what is known of it: which variables
/// count, and who is to be asked about a version.
#[test]
fn a_fork_inside_of_a_batch_takes_over_what_was_whole() {
    use plan_ledger::ForkPoint;
    let of = |goal: &str| {
        json!({ "steps": [{ "id": "a", "goal": goal, "outputs": ["x"] }, { "id": "b", "goal": "b" }],
                "gate": { "question": "This plan?", "to": "ann" } })
    };
    let mut story = Story::begin(&of("first"));
    story.answer(&story.question(), "ann", YES).unwrap();
    story.walk("a", &json!(1));
    let before = story.ledger().head().seq;
    assert_eq!(story.ledger().propose(story.run, &plan(&of("second")), "better").unwrap(), 2);
    let last = story.ledger().head().seq;
    assert_eq!(last, before + 3, "a header, its steps, a question");
    for (seq, versions) in [(before, 1), (before + 1, 1), (before + 2, 2), (last, 2)] {
        let name = format!("at {seq}");
        let fork = story.ledger().fork(story.run, ForkPoint::After(seq), &name).unwrap();
        let run = story.ledger().run(fork).unwrap();
        assert_eq!(run.versions.len(), versions, "{name}");
        for version in &run.versions {
            assert_eq!(plan_ledger::plan_hash(&version.plan.whole()), version.hash, "{name}");
        }
        let asked: Vec<_> = run.questions.values().map(|each| each.asked.subject.clone()).collect();
        let expected = if versions == 2 { vec![Subject::Plan(2)] } else { vec![] };
        assert_eq!(asked, expected, "{name}");
    }
    story.ledger().snapshot::<plan_ledger::State>().unwrap();
    story.lose_power();
    assert_eq!(story.ledger().warnings(), Vec::<String>::new());

    // What fell with a version is not trusted by a fork of it either.
    let questions = story.ledger().questions().unwrap();
    let of_parent = questions.iter().find(|each| each.run == story.run).unwrap();
    story.answer(of_parent, "ann", YES).unwrap();
    assert!(!story.variable("x").is_trusted);
    let point = ForkPoint::After(story.ledger().head().seq);
    let fork = story.ledger().fork(story.run, point, "in doubt").unwrap();
    assert!(!story.ledger().run(fork).unwrap().variables["x"].is_trusted);
}

/// Goal: of a run that ended long ago the state holds a summary, and the log the rest: it can be
/// read whole, and forked, as if it had ended just now.
#[test]
fn a_run_that_ended_long_ago_can_be_read_and_forked() {
    use plan_ledger::ForkPoint;
    let of = json!({ "steps": [
        { "id": "a", "goal": "a", "outputs": ["x"] }, { "id": "b", "goal": "b", "after": ["a"] }
    ]});
    let mut story = Story::begin(&of);
    story.walk("a", &json!(1));
    story.walk("b", &json!(2));
    let ended = story.state();
    assert_eq!(story.ended(), Some(Ending::Done));
    let short = plan(&json!({ "steps": [{ "id": "only", "goal": "g" }] }));
    for number in 0..ENDED_KEPT {
        assert!(story.ledger().state().unwrap().runs.contains_key(&story.run), "{number}");
        let name = format!("later {number}");
        let run = story.ledger().start_run(&name, &short, RunPolicy::default()).unwrap();
        let task = story.ledger().dispatch(run, "w").unwrap().unwrap();
        story.finish(&task, &json!(null));
    }
    let state = story.ledger().state().unwrap();
    assert!(!state.runs.contains_key(&story.run));
    assert_eq!(state.summaries[&story.run].accepted, 2);
    story.lose_power();
    let again = story.state();
    assert_eq!((again.status, again.ended), (ended.status, ended.ended));
    assert_eq!(again.variables["x"].value, ended.variables["x"].value);
    assert_eq!(again.step(StepNumber(2)).unwrap().attempts, 1);
    let ledger = story.ledger();
    let view = story.view();
    assert_eq!(view.run(story.run).unwrap().ended, ended.ended);
    assert_eq!(refusal(view.run(RunId(999))), Rejection::NoSuchRun);
    assert_eq!(refusal(ledger.run(RunId(999))), Rejection::NoSuchRun);
    let name = refusal(ledger.start_run("story", &short, RunPolicy::default()));
    assert_eq!(name, Rejection::RunExists(story.run), "its name stays its own");
    let late = ForkPoint::After(ledger.head().seq);
    for (point, name) in [(ForkPoint::Before(StepNumber(2)), "b again"), (late, "as it ended")] {
        let fork = ledger.fork(story.run, point, name).unwrap();
        let run = ledger.run(fork).unwrap();
        assert_eq!(run.step(StepNumber(1)).unwrap().status, StepStatus::Accepted, "{name}");
        assert_eq!(run.variables["x"].value, ended.variables["x"].value, "{name}");
    }
    assert_eq!(ready(ledger, "b again"), 1);
}

/// Story: whoever corrected what an attempt had cost could name any sum as what it was charged with so
/// far, and so much was taken from what the run had spent.
#[test]
fn a_correction_that_is_wrong_about_what_was_charged_is_refused() {
    let mut story = Story::begin(&json!({ "steps": [
        { "id": "a", "goal": "a" }, { "id": "b", "goal": "b", "cost_estimate": { "money_micros": 10 } }
    ]}));
    let correct = |story: &Story, token, to, charged: Option<u64>| {
        story.ledger().correct_cost(token, money(to), charged.map(money), "ann")
    };
    let wrong = |expected, found| Rejection::ChargedDiffers {
        expected: money(expected),
        found: money(found),
    };
    let first = story.take("a");
    assert!(matches!(refusal(correct(&story, first.token, 7, Some(5))), Rejection::HeldBy { .. }));
    story.finish_for(&first, &json!(1), 5);
    let error = correct(&story, first.token, 7, Some(50)).unwrap_err();
    assert_eq!(error.rejection(), Some(&wrong(50, 5)));
    assert!(error.to_string().contains("with 5 millionths and 0 tokens, expected 50"), "{error}");
    assert_eq!(story.state().spent(), money(5));
    correct(&story, first.token, 7, Some(5)).unwrap();
    story.lose_power();
    assert_eq!(refusal(correct(&story, first.token, 8, Some(5))), wrong(5, 7), "once only");
    correct(&story, first.token, 8, Some(7)).unwrap();
    // A refused receipt of an attempt that had reported changes nothing of that.
    story.ledger().record_receipt(first.token, receipt(&json!(2))).unwrap_err();
    assert_eq!(refusal(correct(&story, first.token, 9, Some(0))), wrong(0, 8));

    let lost = story.take("b");
    story.ledger().report_lost(lost.token, LostCause::RunnerDied, "").unwrap();
    assert_eq!(refusal(correct(&story, lost.token, 3, Some(4))), wrong(4, 10));
    let command = Command::CorrectCost {
        token: lost.token,
        cost: money(3),
        charged: Some(money(4)),
        by: "ann".to_owned(),
    };
    assert_eq!(refusal(story.ledger().execute(&command)), wrong(4, 10));
    let late = Receipt { cost: money(6), ..receipt(&json!(2)) };
    story.ledger().record_receipt(lost.token, late).unwrap_err();
    assert_eq!(refusal(correct(&story, lost.token, 3, Some(10))), wrong(10, 6));
    correct(&story, lost.token, 3, Some(6)).unwrap();
    assert_eq!(story.state().spent(), money(11));
}

/// Story: what was answered about a run that had ended changed once 64 others had ended: `dispatch`
/// gave nothing to do and then an error, as if there had never been such a run.
#[test]
fn what_is_said_of_a_run_that_ended_does_not_change_when_others_end() {
    let story = Story::begin(&json!({ "steps": [{ "id": "a", "goal": "a" }] }));
    let task = story.take("a");
    story.finish(&task, &json!(1));
    let (ledger, run) = (story.ledger(), story.run);
    assert!(ledger.dispatch(run, "w").unwrap().is_none());
    assert_eq!(refusal(ledger.pause(run, "me", "")), Rejection::RunHasEnded(Ending::Done));
    let late = || refusal(ledger.record_receipt(task.token, receipt(&json!(2))));
    assert_eq!(late(), Rejection::StaleToken(task.token));
    let short = plan(&json!({ "steps": [{ "id": "only", "goal": "g" }] }));
    for number in 0..ENDED_KEPT {
        let name = format!("later {number}");
        let run = ledger.start_run(&name, &short, RunPolicy::default()).unwrap();
        story.finish(&ledger.dispatch(run, "w").unwrap().unwrap(), &json!(null));
    }
    assert!(ledger.dispatch(run, "w").unwrap().is_none());
    let retired = ledger.pause(run, "me", "").unwrap_err();
    assert_eq!(retired.rejection(), Some(&Rejection::RunRetired(Ending::Done)));
    assert!(retired.to_string().contains("so have 64 others since"), "{retired}");
    // Nothing is known of the attempt any more, and its receipt has no place.
    let head = ledger.head();
    assert_eq!(late(), Rejection::StaleToken(task.token));
    assert_eq!(ledger.head(), head);
}

fn ready(ledger: &Ledger, name: &str) -> u32 {
    ledger.state().unwrap().run_named(name).unwrap().count(StepStatus::Ready)
}
