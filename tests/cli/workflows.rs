//! Complete workflows through the library: a repair by a coding agent, a loan approval, a hundred
//! agents, gates, budgets, forks and corrections. Each loses power on the way.

use std::collections::BTreeSet;

use plan_ledger::plan::*;
use plan_ledger::{ErrorKind, Ledger};
use serde_json::{Value, json};

use super::scenario::{HOUR, Scenario, money, plan, receipt, refusal};

fn numbers(scenario: &Scenario, ids: &[&str]) -> Vec<StepNumber> {
    ids.iter().map(|id| scenario.number(id)).collect()
}

/// The plan of a repair. `locate` is the goal of its second step, `last` its last step.
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

/// A broken assumption changes the plan from the step that caused it and nowhere else, and retries
/// stop at once: three attempts in all, although twelve are allowed.
#[test]
fn broken_assumption_replans_from_the_step_that_caused_it() {
    let pool = json!({ "id": "tune_pool", "goal": "size the pool", "after": ["fix"] });
    let mut scenario = Scenario::begin(&repair("find the cause", &pool));
    scenario.complete("reproduce", &json!("login_times_out"));
    scenario.complete("locate", &json!("src/pool.rs"));

    // A criterion rejects the first attempt, and the second attempt is told which one.
    let first = scenario.dispatch("fix");
    assert_eq!(first.failed_criteria, []);
    scenario.finish(&first, &json!({ "passed": 11, "total": 12 }));
    let second = scenario.dispatch("fix");
    assert_eq!((second.attempt, second.inputs[0].1.as_str()), (2, "\"src/pool.rs\""));
    assert_eq!(second.failed_criteria[0].by, "policy:cel");
    assert!(second.last_failure.as_ref().unwrap().contains("output.passed"), "{second:?}");
    let explaining = scenario.dispatch("explain");

    // The second attempt finds that an assumption of the plan is false.
    let message = "no connection is ever waited for";
    scenario.fail(&second, FailureClass::AssumptionBroken, message, 0);
    let (locate, fix) = (scenario.number("locate"), scenario.number("fix"));
    let decided = scenario.decisions().pop().unwrap();
    assert_eq!((decided.rule.as_str(), decided.decision), ("wrong-cause", Decision::Replan));
    scenario.lose_power();
    let request = scenario.run().request.unwrap();
    assert_eq!(request.trigger, ReplanTrigger::AssumptionBroken { token: second.token.seq });
    assert_eq!((request.from, &*request.reason), (Some(locate), message));
    assert_eq!(scenario.ended(), None, "the run waits for the planner");

    // The new version changes step 2 and whatever follows it.
    let guard = json!({ "id": "guard", "goal": "keep the test", "after": ["fix"] });
    let better = repair("find the cause; it is not in src/pool.rs", &guard);
    let removed = scenario.number("tune_pool");
    let version =
        scenario.ledger().propose(scenario.run, &plan(&better), "not src/pool.rs").unwrap();
    let activated = scenario.activated();
    assert_eq!((version, activated.request), (2, request.seq));
    assert_eq!(activated.preserved, numbers(&scenario, &["reproduce"]));
    assert_eq!(activated.invalidated, numbers(&scenario, &["locate", "explain"]));
    assert_eq!(activated.removed, [removed]);
    assert_eq!(activated.added, numbers(&scenario, &["guard"]));
    assert_eq!(
        (activated.trusted, activated.untrusted),
        (vec!["test".into()], vec!["cause".into()])
    );
    assert!(scenario.variable("test").is_trusted && !scenario.variable("cause").is_trusted);
    let late = scenario.ledger().record_receipt(explaining.token, receipt(&json!("the pool")));
    assert_eq!(
        refusal(late),
        Rejection::StaleToken(explaining.token.seq),
        "the replan ended the attempt"
    );

    scenario.lose_power();
    scenario.complete("locate", &json!("src/session.rs"));
    assert!(scenario.variable("cause").is_trusted);
    let third = scenario.dispatch("fix");
    assert_eq!((third.attempt, third.inputs[0].1.as_str()), (3, "\"src/session.rs\""));
    scenario.finish(&third, &json!({ "passed": 12, "total": 12 }));
    scenario.complete("guard", &json!(null));
    scenario.complete("explain", &json!("sessions were never closed"));
    assert_eq!(scenario.ended(), Some(Ending::Done));
    let run = scenario.run();
    assert_eq!(run.step(fix).unwrap().attempts, 3, "not twelve");
    assert_eq!((run.replans, run.active), (1, 2));
}

/// The loan approval: its plan.
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

/// A 503 is transient: the step is delayed with growing backoff, without a process that waits.
#[test]
fn transient_failure_is_retried_with_backoff() {
    let mut scenario = Scenario::begin(&loan());
    for (attempt, wait) in [(1, 30), (2, 60)] {
        let task = scenario.dispatch("pull_credit");
        assert_eq!(task.attempt, attempt);
        scenario.fail(&task, FailureClass::Unknown, "HTTP 503 from the bureau", 40_000);
        let decided = scenario.decisions().pop().unwrap();
        assert_eq!(decided.class, FailureClass::Transient, "as the plan hints");
        assert_eq!(decided.decision, Decision::RetryAt { due: scenario.now() + wait * 1_000_000 });
        let step = scenario.number("pull_credit");
        scenario.lose_power();
        scenario.wait(wait - 1);
        let early = refusal(scenario.ledger().claim_step(scenario.run, step, "early"));
        assert_eq!(early, Rejection::NotReady(step, StepStatus::Delayed));
        assert!(scenario.ledger().dispatch(scenario.run, "early").unwrap().is_none());
        scenario.wait(1);
        assert_eq!(scenario.status("pull_credit"), StepStatus::Ready);
    }
    let task = scenario.dispatch("pull_credit");
    assert_eq!(scenario.finish_for(&task, &json!(640), 40_000), StepStatus::Accepted);
    assert_eq!(scenario.variable("score").value.as_str(), "640");
    assert_eq!(scenario.run().spent(), money(120_000), "failed attempts cost, too");
}

/// Jitter shortens the delay by at most its share, differently for each attempt.
#[test]
fn jitter_shortens_the_delay_by_its_share() {
    let step = |number: u32| {
        json!({ "id": format!("s{number}"), "goal": "ask",
                "retry": { "max_attempts": 2, "backoff_seconds": 100, "jitter_percent": 10 } })
    };
    let steps: Vec<_> = (0..8).map(step).collect();
    let scenario = Scenario::begin(&json!({ "steps": steps }));
    let delay = |number: u32| {
        let task = scenario.dispatch(&format!("s{number}"));
        scenario.fail(&task, FailureClass::Transient, "overloaded", 0);
        match scenario.decisions().pop().unwrap().decision {
            Decision::RetryAt { due } => due - scenario.now(),
            other => panic!("{other:?}"),
        }
    };
    let delays: BTreeSet<u64> = (0..8).map(delay).collect();
    assert!(delays.iter().all(|delay| (90_000_000..=100_000_000).contains(delay)), "{delays:?}");
    // All of the share is used: of eight random delays, some are in each half.
    let short = delays.iter().filter(|delay| **delay < 95_000_000).count();
    assert!((1..8).contains(&short) && delays.len() == 8, "{delays:?}");
}

/// A rule of the plan that retries does not exceed the limit of attempts.
#[test]
fn rule_retries_within_the_limit_of_attempts() {
    let scenario = Scenario::begin(&json!({
        "failure": { "rules": [
            { "id": "again", "when": { "class": "deterministic" }, "then": "retry" }
        ] },
        "steps": [{ "id": "a", "goal": "a", "retry": { "max_attempts": 2, "backoff_seconds": 0 } }]
    }));
    for (attempt, is_retried) in [(1, true), (2, false)] {
        let task = scenario.dispatch("a");
        assert_eq!(task.attempt, attempt);
        scenario.fail(&task, FailureClass::Deterministic, "wrong type", 0);
        let decided = scenario.decisions().pop().unwrap();
        let retried = (decided.rule == "again", decided.decision == Decision::Retry);
        assert_eq!(retried, (is_retried, is_retried), "{decided:?}");
    }
    assert_ne!(scenario.status("a"), StepStatus::Ready);
}

/// A failed run continues without the step that failed, but not without another one.
#[test]
fn failed_run_continues_only_without_its_failed_step() {
    let mut scenario = Scenario::begin(&json!({
        "failure": { "rules": [
            { "id": "stop", "when": { "class": "deterministic" }, "then": "fail" }
        ] },
        "steps": [{ "id": "a", "goal": "a" }, { "id": "b", "goal": "b", "after": ["a"] }]
    }));
    scenario.fail(&scenario.dispatch("a"), FailureClass::Deterministic, "wrong type", 0);
    assert_eq!(scenario.ended(), Some(Ending::Failed));
    let (run, a, b) = (scenario.run, scenario.number("a"), scenario.number("b"));
    let refused = refusal(scenario.ledger().skip(run, b, "ann", "not needed"));
    assert_eq!(refused, Rejection::NotReady(b, StepStatus::Waiting));
    scenario.ledger().skip(run, a, "ann", "not needed").unwrap();
    scenario.lose_power();
    assert_eq!((scenario.ended(), scenario.status("b")), (None, StepStatus::Ready));
}

/// The loan approval, up to the question whether the loan may go ahead.
fn loan_in_review() -> Scenario {
    let scenario = Scenario::begin(&loan());
    scenario.finish_for(&scenario.dispatch("pull_credit"), &json!(640), 40_000);
    scenario.finish_for(&scenario.dispatch("assess"), &json!({ "risk": "review" }), 60_000);
    scenario
}

/// A borderline case waits 48 hours for one person, then for another. A late answer, and an answer
/// to something else than what was shown, are rejected.
#[test]
fn gate_escalates_to_a_second_person_at_its_deadline() {
    let mut scenario = loan_in_review();
    let asked = scenario.question();
    let gate = &asked.question.asked;
    assert_eq!((gate.to.as_deref(), &*gate.text), (Some("ann"), "May this loan go ahead?"));
    assert_eq!(gate.deadline, Some(scenario.now() + 48 * HOUR * 1_000_000));
    assert_eq!((asked.run, asked.question.step), (scenario.run, Some(scenario.number("review"))));
    assert_eq!(scenario.status("review"), StepStatus::Gated);

    scenario.wait(48 * HOUR - 1);
    assert_eq!(scenario.question(), asked, "one second left");
    scenario.lose_power();
    scenario.wait(1);
    let escalated = scenario.question();
    assert_ne!(escalated.id, asked.id);
    assert_eq!(escalated.question.asked.to.as_deref(), Some("bob"));
    let late = refusal(scenario.answer(&asked, "ann", YES));
    assert_eq!(late, Rejection::NoSuchQuestion(asked.id));
    assert_eq!(scenario.status("review"), StepStatus::Gated, "late is not yes");

    let mut other = escalated.clone();
    other.question.asked.shown = ContentHash([7; 32]);
    let expected = escalated.question.asked.shown;
    let found = other.question.asked.shown;
    let unseen = refusal(scenario.answer(&other, "bob", YES));
    assert_eq!(unseen, Rejection::HashDiffers { expected, found });
    let unknown = refusal(scenario.answer(&escalated, "bob", "perhaps"));
    assert!(matches!(unknown, Rejection::NotAnOption { answer, .. } if answer == "perhaps"));

    scenario.lose_power();
    scenario.answer(&escalated, "bob", YES).unwrap();
    assert_eq!(scenario.ledger().questions().unwrap(), []);
    scenario.complete("review", &json!("plausible"));
    let answered = scenario.step_events().into_iter().find_map(|record| match record.event {
        StepEvent::StepAnswered(answered) => Some((answered.by, answered.answer, answered.shown)),
        _ => None,
    });
    assert_eq!(answered, Some(("bob".to_owned(), YES.to_owned(), expected)));
}

/// A "no" fails the step, and the offer is never dispatched.
#[test]
fn negative_answer_fails_the_gated_step() {
    let scenario = loan_in_review();
    scenario.answer(&scenario.question(), "ann", NO).unwrap();
    assert_eq!(scenario.status("review"), StepStatus::Failed);
    assert_eq!(
        (scenario.ended(), scenario.status("offer")),
        (Some(Ending::Failed), StepStatus::Waiting)
    );
}

/// A case that needs no review asks no question.
#[test]
fn skipped_step_asks_no_question() {
    let scenario = Scenario::begin(&loan());
    scenario.complete("pull_credit", &json!(790));
    scenario.complete("assess", &json!("low"));
    assert_eq!(
        (scenario.ledger().questions().unwrap(), scenario.status("review")),
        (vec![], StepStatus::Skipped)
    );
    scenario.complete("offer", &json!("at 3 percent"));
    assert_eq!(scenario.ended(), Some(Ending::Done));
}

/// A step that would exceed the budget is not dispatched. The run pauses and asks, keeps both over
/// a power loss, and continues when a person raises the budget.
#[test]
fn exhausted_budget_pauses_the_run_until_it_is_raised() {
    let mut scenario = loan_in_review();
    scenario.answer(&scenario.question(), "ann", YES).unwrap();
    scenario.finish_for(&scenario.dispatch("review"), &json!(null), 100_000);
    assert_eq!(scenario.run().spent(), money(200_000));
    // The offer may cost 100,000, and 50,000 are left.
    assert!(scenario.ledger().dispatch(scenario.run, "writer").unwrap().is_none());
    let cause = PauseCause::RunBudget { part: BudgetPart::Money };
    assert_eq!(scenario.run().pause, Some(cause.clone()));
    assert_eq!(scenario.question().question.asked.subject, QuestionSubject::Budget);
    scenario.lose_power();
    assert!(scenario.ledger().dispatch(scenario.run, "writer").unwrap().is_none());
    let (ledger, run) = (scenario.ledger(), scenario.run);
    let offer = scenario.number("offer");
    assert_eq!(refusal(ledger.claim_step(run, offer, "writer")), Rejection::Paused(cause.clone()));
    assert_eq!(ledger.questions().unwrap().len(), 1, "the question is not repeated");

    let limits = |micros| Some(Limits { money_micros: Some(micros), ..Limits::default() });
    ledger.set_budget(Some(run), limits(200_000), "ann").unwrap();
    assert_eq!(scenario.run().pause, Some(cause), "200,000 is too low");
    ledger.set_budget(Some(run), limits(400_000), "ann").unwrap();
    assert_eq!((scenario.run().pause, ledger.questions().unwrap()), (None, vec![]));
    let task = scenario.dispatch("offer");
    assert_eq!(scenario.run().account.reserved, money(100_000));
    scenario.finish_for(&task, &json!("at 9 percent"), 90_000);
    let account = scenario.run().account;
    assert_eq!((account.spent, account.reserved), (money(290_000), Cost::default()));
    assert_eq!(scenario.ended(), Some(Ending::Done));
}

/// The budget question also takes `replan` and `abort`.
#[test]
fn budget_question_takes_replan_and_abort() {
    for (answer, ending) in [(REPLAN, None), (ABORT, Some(Ending::Aborted))] {
        let scenario = loan_in_review();
        scenario.answer(&scenario.question(), "ann", YES).unwrap();
        scenario.finish_for(&scenario.dispatch("review"), &json!(null), 240_000);
        // The attempt cost more than the budget: the full cost is recorded, and the run pauses.
        assert_eq!(scenario.run().spent(), money(340_000));
        scenario.answer(&scenario.question(), "ann", answer).unwrap();
        assert_eq!(scenario.ended(), ending, "{answer}");
        let trigger = scenario.run().request.map(|request| request.trigger);
        let expected = (answer == REPLAN).then_some(ReplanTrigger::BudgetExhausted);
        assert_eq!(trigger, expected, "{answer}");
    }
}

/// When all attempts are used, the run requests a replan. The new version keeps the work that is
/// still valid, and its activation lists every step and variable that it keeps or drops.
#[test]
fn exhausted_retries_request_a_replan() {
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
    let mut scenario = Scenario::begin(&of("collect the papers", "bureau_a"));
    for (id, output) in [("identify", "J. Doe"), ("papers", "two pay slips"), ("income", "4000")] {
        scenario.complete(id, &json!(output));
    }
    let mut last = None;
    for _ in 0..2 {
        let task = scenario.dispatch("bureau_a");
        scenario.fail(&task, FailureClass::Transient, "HTTP 503", 0);
        last = Some(task.token);
    }
    let decided = scenario.decisions().pop().unwrap();
    assert_eq!(decided.rule, "replan.attempts_exhausted");
    let bureau = scenario.number("bureau_a");
    scenario.lose_power();
    let request = scenario.run().request.unwrap();
    assert_eq!(request.trigger, ReplanTrigger::RetriesExhausted { token: last.unwrap().seq });
    assert_eq!((request.from, scenario.ended()), (Some(bureau), None));

    let other = plan(&of("collect the papers, and bank statements", "bureau_b"));
    scenario.ledger().propose(scenario.run, &other, "bureau A is down").unwrap();
    let activated = scenario.activated();
    assert_eq!(activated.request, request.seq);
    assert_eq!(activated.preserved, numbers(&scenario, &["identify"]));
    assert_eq!(activated.invalidated, numbers(&scenario, &["papers", "income"]));
    assert_eq!((activated.removed, activated.added.len()), (vec![bureau], 1));
    assert_eq!(activated.trusted, ["identity"]);
    assert_eq!(activated.untrusted, ["income", "papers"]);
    assert_eq!(scenario.status("identify"), StepStatus::Accepted);
    assert_eq!(scenario.status("papers"), StepStatus::Ready);

    // The plan allows one replan; a change of scope by a person does not count.
    let third = plan(&of("collect everything", "bureau_c"));
    let trigger = ReplanTrigger::NewEvidence { by: "planner".to_owned() };
    let (ledger, run) = (scenario.ledger(), scenario.run);
    let limited = refusal(ledger.propose_for(run, &third, "why not", Some(trigger)));
    assert_eq!(limited, Rejection::ReplanLimit(1));
    let trigger = ReplanTrigger::ScopeChange { by: "ann".to_owned() };
    assert_eq!(ledger.propose_for(run, &third, "I want it", Some(trigger)).unwrap(), 3);

    scenario.lose_power();
    for id in ["papers", "income", "bureau_c", "assess"] {
        scenario.complete(id, &json!("done"));
    }
    assert_eq!(scenario.ended(), Some(Ending::Done));
    assert!(scenario.run().variables.values().all(|variable| variable.is_trusted));
    assert_eq!(scenario.step("identify").attempts, 1, "kept, not repeated");
}

/// A variable is used as the fallback value up to its maximum age, and not beyond.
#[test]
fn fallback_variable_is_used_up_to_its_maximum_age() {
    let of = json!({ "steps": [
        { "id": "pull_credit", "goal": "ask", "outputs": ["score"], "retry": { "max_attempts": 2 },
          "fallback": { "variable": { "name": "cached_score", "max_age_seconds": 24 * HOUR } } },
        { "id": "assess", "goal": "assess", "after": ["pull_credit"], "inputs": ["score"] }
    ]});
    for (age, is_fresh) in [(23 * HOUR, true), (24 * HOUR, true), (24 * HOUR + 1, false)] {
        let mut scenario = Scenario::begin(&of);
        let score = Json::new(&json!(655));
        scenario
            .ledger()
            .set_variable(scenario.run, "cached_score", score, Some(0), "batch")
            .unwrap();
        scenario.wait(age);
        scenario.lose_power();
        for _ in 0..2 {
            let task = scenario.dispatch("pull_credit");
            scenario.fail(&task, FailureClass::Transient, "HTTP 503", 0);
        }
        let decided = scenario.decisions().pop().unwrap();
        let step = scenario.step("pull_credit");
        if !is_fresh {
            assert_eq!((decided.decision, step.status), (Decision::Fail, StepStatus::Failed));
            assert_eq!(scenario.ended(), Some(Ending::Failed));
            continue;
        }
        assert_eq!((decided.decision, step.status), (Decision::Fallback, StepStatus::Accepted));
        let reason = format!("variable cached_score, {age} s old");
        assert_eq!(step.accepted(), Some(&AcceptedBasis::Fallback { reason }));
        let origin = Origin::Fallback { step: scenario.number("pull_credit") };
        assert_eq!(scenario.variable("score").origin, origin);
        let task = scenario.dispatch("assess");
        assert_eq!(task.inputs, [("score".to_owned(), Json::new(&json!(655)))]);
    }
}

/// A step after a barrier waits for all five members, in any order and across power losses.
#[test]
fn barrier_of_five_opens_across_power_losses() {
    let five = ["north", "east", "south", "west", "middle"];
    let mut steps: Vec<Value> = five.iter().map(|id| json!({ "id": id, "goal": "look" })).collect();
    steps.push(json!({ "id": "sum", "goal": "put it together", "after": ["all"] }));
    let of = json!({ "steps": steps, "barriers": [{ "id": "all", "members": five }] });
    let mut scenario = Scenario::begin(&of);
    let sum = scenario.number("sum");
    let mut tasks: Vec<_> = five.iter().map(|id| scenario.dispatch(id)).collect();
    tasks.rotate_left(2);
    let last = tasks.pop().unwrap();
    for task in &tasks {
        scenario.finish(task, &json!("seen"));
        scenario.lose_power();
        assert_eq!(scenario.run().barriers["all"].status, BarrierStatus::Closed);
        let early = refusal(scenario.ledger().claim_step(scenario.run, sum, "early"));
        assert_eq!(early, Rejection::NotReady(sum, StepStatus::Waiting));
    }
    scenario.finish(&last, &json!("seen"));
    let released = scenario.events().into_iter().find_map(|(_, event)| match event {
        Event::BarrierChanged(changed) => Some((changed.change, changed.arrived, changed.needed)),
        _ => None,
    });
    assert_eq!(released, Some((BarrierChange::Released, 5, 5)));
    scenario.complete("sum", &json!("a map"));
    assert_eq!(scenario.ended(), Some(Ending::Done));
}

/// Agent 40 of 100 dies together with the machine: the 39 receipts are kept, and its step is
/// re-dispatched once when the lease expires.
#[test]
fn step_of_a_dead_agent_is_redispatched_once() {
    let steps: Vec<Value> =
        (1..=100).map(|number| json!({ "id": format!("part {number}"), "goal": "do" })).collect();
    let of = json!({ "defaults": { "lease_seconds": 60 }, "steps": steps });
    let mut scenario = Scenario::begin(&of);
    let dispatch = |scenario: &Scenario, agent: u32| {
        scenario.ledger().dispatch(scenario.run, &format!("agent {agent}")).unwrap().unwrap()
    };
    for agent in 1..=39 {
        let task = dispatch(&scenario, agent);
        scenario.finish(&task, &json!(agent));
    }
    let fortieth = dispatch(&scenario, 40);
    scenario.lose_power();

    let receipts = |scenario: &Scenario| {
        let is_receipt =
            |record: &StepRecord| matches!(record.event, StepEvent::ReceiptRecorded(_));
        scenario.step_events().iter().filter(|record| is_receipt(record)).count()
    };
    assert_eq!(receipts(&scenario), 39);
    let run = scenario.run();
    assert_eq!((run.count(StepStatus::Accepted), run.count(StepStatus::Ready)), (39, 60));
    let held = refusal(scenario.ledger().claim_step(scenario.run, StepNumber(40), "agent 41"));
    let (worker, lease_until) = ("agent 40".to_owned(), fortieth.lease_until);
    assert_eq!(held, Rejection::Leased { step: StepNumber(40), worker, lease_until });

    scenario.wait(60);
    let lost = scenario.step_events().into_iter().find_map(|record| match record.event {
        StepEvent::AttemptLost(lost) => Some((record.step, lost.token, lost.cause, lost.then)),
        _ => None,
    });
    let expected =
        (StepNumber(40), fortieth.token.seq, LostCause::LeaseExpired, AfterLoss::Redispatch);
    assert_eq!(lost, Some(expected));
    let again = dispatch(&scenario, 41);
    assert_eq!((again.number, again.attempt), (StepNumber(40), 2));
    // The first agent was alive after all. Its receipt is rejected.
    let late = scenario.ledger().record_receipt(fortieth.token, receipt(&json!("late")));
    assert_eq!(refusal(late), Rejection::StaleToken(fortieth.token.seq));
    scenario.finish(&again, &json!(41));
    for agent in 42..=101 {
        let task = dispatch(&scenario, agent);
        assert_eq!(task.number, StepNumber(agent - 1));
        scenario.finish(&task, &json!(agent));
    }
    assert_eq!((scenario.ended(), receipts(&scenario)), (Some(Ending::Done), 100));
    assert_eq!(scenario.run().account.attempts, 101);
}

/// A worker cannot accept its own attempt, neither by a receipt nor by a verdict. The verdict of
/// another judge counts.
#[test]
fn worker_cannot_accept_its_own_attempt() {
    let of = json!({ "steps": [
        { "id": "migrate", "goal": "move the rows", "acceptance": ["every row is there"] }
    ]});
    let mut scenario = Scenario::begin(&of);
    let task = scenario.dispatch("migrate");
    let output = json!({ "accepted": true, "status": "done" });
    assert_eq!(scenario.finish(&task, &output), StepStatus::Reported, "a receipt is a claim");
    let verdict = |by: &str| Verdict {
        criterion: 0,
        ruling: Ruling::Pass,
        by: by.to_owned(),
        evidence: "counted them".into(),
    };
    let itself = "worker of migrate";
    let judged = refusal(scenario.ledger().judge(task.token, vec![verdict(itself)]));
    assert_eq!(judged, Rejection::JudgedByWorker(itself.to_owned()));
    scenario.lose_power();
    assert_eq!(scenario.status("migrate"), StepStatus::Reported);
    // A verdict of the worker in the same command rejects the whole command.
    let both = vec![verdict("ann"), Verdict { criterion: 1, ..verdict(itself) }];
    assert_eq!(refusal(scenario.ledger().judge(task.token, both)), Rejection::NoSuchCriterion(1));
    assert_eq!(scenario.status("migrate"), StepStatus::Reported, "the whole command is rejected");
    let status = scenario.ledger().judge(task.token, vec![verdict("ann")]).unwrap();
    assert_eq!(status, StepStatus::Accepted);
    assert_eq!(scenario.step("migrate").accepted(), Some(&AcceptedBasis::Verdicts));
    assert_eq!(scenario.ended(), Some(Ending::Done));
}

/// An output outside the expected set fails its criterion and never becomes a variable.
#[test]
fn output_that_fails_its_criterion_sets_no_variable() {
    let of = json!({ "steps": [
        { "id": "check", "goal": "check the applicant", "outputs": ["compliance_flag"],
          "acceptance": [{ "cel": "output.compliance_flag in ['pass', 'fail', 'review']" }] },
        { "id": "decide", "goal": "decide", "after": ["check"], "inputs": ["compliance_flag"] }
    ]});
    let mut scenario = Scenario::begin(&of);
    let task = scenario.dispatch("check");
    let status = scenario.finish(&task, &json!({ "compliance_flag": "system_error" }));
    assert_eq!(status, StepStatus::Ready, "it is retried");
    assert!(!scenario.run().variables.contains_key("compliance_flag"));
    scenario.lose_power();
    let again = scenario.dispatch("check");
    let failed = &again.failed_criteria;
    assert_eq!((failed.len(), failed[0].criterion, failed[0].ruling), (1, 0, Ruling::Fail));
    assert_eq!(
        scenario.finish(&again, &json!({ "compliance_flag": "review" })),
        StepStatus::Accepted
    );
    let task = scenario.dispatch("decide");
    assert_eq!(task.inputs[0].1.as_str(), "\"review\"");
}

/// A worker gets the failed criteria of the previous attempt, unless the new plan version moved or
/// removed them.
#[test]
fn failed_criteria_are_passed_on_while_the_plan_has_them() {
    let of = |second: &str| {
        json!({ "steps": [
            { "id": "kept", "goal": "g", "acceptance": [{ "cel": "output.ok" }] },
            { "id": "other", "goal": "g", "acceptance": [{ "cel": second }] }
        ]})
    };
    let scenario = Scenario::begin(&of("output.ok"));
    for id in ["kept", "other"] {
        let task = scenario.ledger().claim_step(scenario.run, scenario.number(id), "w").unwrap();
        assert_eq!(scenario.finish(&task, &json!({ "ok": false })), StepStatus::Ready, "{id}");
    }
    scenario.ledger().propose(scenario.run, &plan(&of("output.fine")), "other words").unwrap();
    for (id, count) in [("kept", 1), ("other", 0)] {
        let task = scenario.dispatch(id);
        assert_eq!((task.failed_criteria.len(), task.attempt), (count, 2), "{id}");
        assert!(task.last_failure.unwrap().contains("output.ok"), "{id}");
    }
}

/// A gate that waits uses no process, record, attempt or timer, for years and over restarts.
#[test]
fn waiting_gate_costs_nothing_and_survives_restarts() {
    let of = json!({ "budget": { "money_micros": 1, "attempts": 1 }, "steps": [
        { "id": "launch", "goal": "launch it", "gate": { "question": "Now?" } }
    ]});
    let mut scenario = Scenario::begin(&of);
    let (asked, events) = (scenario.question(), scenario.events());
    for _ in 0..12 {
        scenario.wait(30 * 24 * HOUR);
        scenario.lose_power();
        assert!(scenario.ledger().dispatch(scenario.run, "eager").unwrap().is_none());
    }
    assert_eq!((scenario.events(), scenario.question()), (events, asked.clone()));
    assert_eq!(scenario.ledger().state().unwrap().next_due(), None);
    let run = scenario.run();
    assert_eq!((run.account.attempts, run.spent()), (0, Cost::default()));
    scenario.answer(&asked, "ann", YES).unwrap();
    let again = refusal(scenario.answer(&asked, "ann", YES));
    assert_eq!(again, Rejection::NoSuchQuestion(asked.id), "the question is closed");
    scenario.complete("launch", &json!("up"));
    assert_eq!(scenario.ended(), Some(Ending::Done));
}

/// An effect with an idempotency key happens once, although the worker dies before its receipt.
#[test]
fn effect_happens_once_although_its_worker_dies() {
    let of = json!({ "defaults": { "lease_seconds": 60 }, "steps": [
        { "id": "pay", "goal": "pay 100", "idempotent": "with_key", "side_effects": ["payment"] }
    ]});
    let mut scenario = Scenario::begin(&of);
    let first = scenario.dispatch("pay");
    let key = first.idempotency_key.clone();
    let ledger = scenario.ledger();
    assert_eq!(
        refusal(ledger.commit_effect(first.token, &key)),
        Rejection::NoSuchEffect(key.clone()),
        "an effect needs an intent"
    );
    ledger.intend_effect(first.token, "pay 100", &key).unwrap();
    let commit = ledger.commit_effect(first.token, &key).unwrap();
    scenario.lose_power();
    scenario.wait(60);
    let second = scenario.dispatch("pay");
    assert_eq!((second.attempt, &second.idempotency_key), (2, &key));
    let known = refusal(scenario.ledger().intend_effect(second.token, "pay 100", &key));
    assert_eq!(known, Rejection::EffectKnown { key: key.clone(), committed: commit.ack.seq });
    scenario.finish(&second, &json!("it was paid before"));
    assert_eq!(scenario.run().effects.len(), 1);
}

/// A paused run dispatches nothing; attempts in flight may still report.
#[test]
fn paused_run_dispatches_nothing() {
    let of = json!({ "steps": [{ "id": "a", "goal": "a" }, { "id": "b", "goal": "b" }] });
    let mut scenario = Scenario::begin(&of);
    let task = scenario.dispatch("a");
    scenario.ledger().pause(scenario.run, "ann", "lunch").unwrap();
    let cause = Rejection::Paused(PauseCause::Person { by: "ann".to_owned() });
    assert_eq!(refusal(scenario.ledger().pause(scenario.run, "bob", "tea")), cause);
    assert_eq!(
        scenario.finish(&task, &json!(1)),
        StepStatus::Accepted,
        "an attempt in flight may report"
    );
    scenario.lose_power();
    assert!(scenario.ledger().dispatch(scenario.run, "w").unwrap().is_none());
    scenario.ledger().unpause(scenario.run, "ann").unwrap();
    assert_eq!(refusal(scenario.ledger().unpause(scenario.run, "ann")), Rejection::NotPaused);
    scenario.complete("b", &json!(2));
    assert_eq!(scenario.ended(), Some(Ending::Done));
}

/// With an external decider a failed attempt waits, over restarts, and the decision is recorded
/// like that of a rule.
#[test]
fn failure_waits_for_an_external_decider() {
    let of = json!({ "failure": { "decider": "external" }, "steps": [{ "id": "a", "goal": "a" }] });
    let mut scenario = Scenario::begin(&of);
    let task = scenario.dispatch("a");
    let step = task.number;
    assert_eq!(scenario.fail(&task, FailureClass::Unknown, "odd", 0), StepStatus::Reported);
    scenario.lose_power();
    assert!(scenario.ledger().dispatch(scenario.run, "w").unwrap().is_none());
    let decide = |scenario: &Scenario, decision| {
        scenario.ledger().decide_failure(
            scenario.run,
            step,
            decision,
            "model 7",
            "looks like a glitch",
        )
    };
    assert_eq!(refusal(decide(&scenario, Decision::Fallback)), Rejection::NoFallback(step));
    let at = scenario.now() + 5_000_000;
    assert_eq!(decide(&scenario, Decision::RetryAt { due: at }).unwrap(), StepStatus::Delayed);
    assert_eq!(scenario.decisions()[0].rule, "model 7");
    assert_eq!(refusal(decide(&scenario, Decision::Retry)), Rejection::NothingFailed);
    scenario.wait(5);
    scenario.complete("a", &json!(1));
    assert_eq!(scenario.ended(), Some(Ending::Done));
}

/// A replan request can be withdrawn. A plan that is extended step by step ends when its planner
/// withdraws the last request.
#[test]
fn withdrawn_replan_request_ends_the_run() {
    let of = |count: usize| {
        let steps: Vec<Value> =
            (0..count).map(|number| json!({ "id": number.to_string(), "goal": "g" })).collect();
        json!({ "continues": true, "extend_at": 1, "steps": steps })
    };
    let mut scenario = Scenario::begin(&of(1));
    scenario.complete("0", &json!(0));
    assert_eq!(scenario.run().request.unwrap().trigger, ReplanTrigger::Extension);
    scenario.lose_power();
    let (ledger, run) = (scenario.ledger(), scenario.run);
    let trigger = ReplanTrigger::NewEvidence { by: "ann".to_owned() };
    let open = refusal(ledger.request_replan(run, trigger.clone(), None, "look"));
    assert!(matches!(open, Rejection::ReplanIsOpen(_)));
    ledger.propose(run, &plan(&of(2)), "one more").unwrap();
    assert_eq!(scenario.activated().preserved, [StepNumber(1)]);
    let seq = ledger.request_replan(run, trigger, None, "look").unwrap();
    assert_eq!(scenario.run().request.unwrap().seq, seq);
    ledger.withdraw_replan(run, "ann", "it was nothing").unwrap();
    assert_eq!(refusal(ledger.withdraw_replan(run, "ann", "")), Rejection::NoReplanRequested);
    scenario.complete("1", &json!(1));
    assert_eq!(scenario.ended(), None, "the plan may still be extended");
    ledger.withdraw_replan(run, "planner", "that was all").unwrap();
    assert_eq!(scenario.ended(), Some(Ending::Done));
}

/// A fork before a step has the state of that record, none of its costs, and no influence on the
/// original run.
#[test]
fn fork_before_a_step_is_independent_of_its_parent() {
    use plan_ledger::ForkPoint;
    let of = json!({ "budget": { "money_micros": 100 }, "steps": [
        { "id": "draw", "goal": "draw", "outputs": ["colour"] },
        { "id": "paint", "goal": "paint", "after": ["draw"], "inputs": ["colour"] },
        { "id": "hang", "goal": "hang", "after": ["paint"] }
    ]});
    let mut scenario = Scenario::begin(&of);
    scenario.finish_for(&scenario.dispatch("draw"), &json!("red"), 60);
    let before = scenario.ledger().head();
    scenario.fail(&scenario.dispatch("paint"), FailureClass::Transient, "spilt", 10);
    let painting = scenario.dispatch("paint");
    scenario.finish_for(&painting, &json!("done"), 10);
    scenario.lose_power();
    let ledger = scenario.ledger();
    let (parent, paint) = (scenario.run, scenario.number("paint"));
    let fork = ledger.fork(parent, ForkPoint::Before(paint), "in blue").unwrap();
    let run = ledger.run(fork).unwrap();
    let forked = run.fork.clone().unwrap();
    assert_eq!((forked.parent, forked.at_seq), (parent, before.seq));
    assert_eq!(forked.chain, ContentHash(before.chain.0), "the chain value of the log");
    assert_eq!((forked.spent, run.spent()), (money(60), Cost::default()));
    assert_eq!(run.step(paint).unwrap().status, StepStatus::Ready);
    assert_eq!(run.step(paint).unwrap().attempts, 0);
    ledger.set_variable(fork, "colour", Json::new(&json!("blue")), Some(1), "ann").unwrap();
    let task = ledger.dispatch(fork, "w").unwrap().unwrap();
    assert_eq!((task.number, task.inputs[0].1.as_str()), (paint, "\"blue\""));
    assert_eq!(scenario.variable("colour").value.as_str(), "\"red\"");
    assert_eq!(scenario.status("paint"), StepStatus::Accepted);

    // A fork at any record; a step that was never dispatched forks at the head.
    let last = ledger.fork(parent, ForkPoint::Before(scenario.number("hang")), "now").unwrap();
    assert_eq!(ledger.run(last).unwrap().step(paint).unwrap().status, StepStatus::Accepted);
    let again = ledger.fork(fork, ForkPoint::After(ledger.head().seq), "in green").unwrap();
    assert_eq!(ledger.run(again).unwrap().variables["colour"].value.as_str(), "\"blue\"");
    assert_eq!(
        ledger.run(again).unwrap().count(StepStatus::Ready),
        1,
        "in flight in the parent, not in the fork"
    );
    let name = refusal(ledger.fork(parent, ForkPoint::After(before.seq), "now"));
    assert_eq!(name, Rejection::RunExists(last));
    let none = refusal(ledger.fork(fork, ForkPoint::After(before.seq), "too early"));
    assert_eq!(none, Rejection::NoSuchRun);
    let beyond = ledger.fork(parent, ForkPoint::After(u64::MAX), "too late").unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::OutOfRange);
    let no_step = refusal(ledger.fork(parent, ForkPoint::Before(StepNumber(9)), "nowhere"));
    assert_eq!(no_step, Rejection::NoSuchStep(StepNumber(9)));
}

/// A fork at any record of a batch takes over complete plan versions only, with the questions and
/// the trust of that record. A fork after the header of a version used to copy a version without
/// steps, and no snapshot of that state could be read again.
#[test]
fn fork_inside_a_batch_takes_complete_versions_only() {
    use plan_ledger::ForkPoint;
    let of = |goal: &str| {
        json!({ "steps": [{ "id": "a", "goal": goal, "outputs": ["x"] }, { "id": "b", "goal": "b" }],
                "gate": { "question": "This plan?", "to": "ann" } })
    };
    let mut scenario = Scenario::begin(&of("first"));
    scenario.answer(&scenario.question(), "ann", YES).unwrap();
    scenario.complete("a", &json!(1));
    let before = scenario.ledger().head().seq;
    assert_eq!(scenario.ledger().propose(scenario.run, &plan(&of("second")), "better").unwrap(), 2);
    let last = scenario.ledger().head().seq;
    assert_eq!(last, before + 3, "a header, its steps, a question");
    for (seq, versions) in [(before, 1), (before + 1, 1), (before + 2, 2), (last, 2)] {
        let name = format!("at {seq}");
        let fork = scenario.ledger().fork(scenario.run, ForkPoint::After(seq), &name).unwrap();
        let run = scenario.ledger().run(fork).unwrap();
        assert_eq!(run.versions.len(), versions, "{name}");
        for version in &run.versions {
            assert_eq!(plan_ledger::plan_hash(&version.plan.decode()), version.hash, "{name}");
        }
        let asked: Vec<_> = run.questions.values().map(|each| each.asked.subject.clone()).collect();
        let expected =
            if versions == 2 { vec![QuestionSubject::Plan { version: 2 }] } else { vec![] };
        assert_eq!(asked, expected, "{name}");
    }
    scenario.ledger().snapshot::<plan_ledger::State>().unwrap();
    scenario.lose_power();
    assert_eq!(scenario.ledger().warnings(), Vec::<String>::new());

    // A fork does not trust a variable that the new version made untrusted.
    let questions = scenario.ledger().questions().unwrap();
    let of_parent = questions.iter().find(|each| each.run == scenario.run).unwrap();
    scenario.answer(of_parent, "ann", YES).unwrap();
    assert!(!scenario.variable("x").is_trusted);
    let point = ForkPoint::After(scenario.ledger().head().seq);
    let fork = scenario.ledger().fork(scenario.run, point, "untrusted").unwrap();
    assert!(!scenario.ledger().run(fork).unwrap().variables["x"].is_trusted);
}

/// A run that ended long ago is kept as a summary in the state and read back from the log: it can
/// be shown and forked like one that has just ended.
#[test]
fn retired_run_can_be_read_and_forked() {
    use plan_ledger::ForkPoint;
    let of = json!({ "steps": [
        { "id": "a", "goal": "a", "outputs": ["x"] }, { "id": "b", "goal": "b", "after": ["a"] }
    ]});
    let mut scenario = Scenario::begin(&of);
    scenario.complete("a", &json!(1));
    scenario.complete("b", &json!(2));
    let ended = scenario.run();
    assert_eq!(scenario.ended(), Some(Ending::Done));
    let short = plan(&json!({ "steps": [{ "id": "only", "goal": "g" }] }));
    for number in 0..ENDED_KEPT {
        assert!(scenario.ledger().state().unwrap().runs.contains_key(&scenario.run), "{number}");
        let name = format!("later {number}");
        let run = scenario.ledger().start_run(&name, &short, RunPolicy::default()).unwrap();
        let task = scenario.ledger().dispatch(run, "w").unwrap().unwrap();
        scenario.finish(&task, &json!(null));
    }
    let state = scenario.ledger().state().unwrap();
    assert!(!state.runs.contains_key(&scenario.run));
    assert_eq!(state.summaries[&scenario.run].accepted, 2);
    scenario.lose_power();
    let again = scenario.run();
    assert_eq!((again.status, again.end_record), (ended.status, ended.end_record));
    assert_eq!(again.variables["x"].value, ended.variables["x"].value);
    assert_eq!(again.step(StepNumber(2)).unwrap().attempts, 1);
    let ledger = scenario.ledger();
    let view = scenario.view();
    assert_eq!(view.run(scenario.run).unwrap().end_record, ended.end_record);
    assert_eq!(refusal(view.run(RunId(999))), Rejection::NoSuchRun);
    assert_eq!(refusal(ledger.run(RunId(999))), Rejection::NoSuchRun);
    let name = refusal(ledger.start_run("scenario", &short, RunPolicy::default()));
    assert_eq!(name, Rejection::RunExists(scenario.run), "its name stays taken");
    let late = ForkPoint::After(ledger.head().seq);
    for (point, name) in [(ForkPoint::Before(StepNumber(2)), "b again"), (late, "as it ended")] {
        let fork = ledger.fork(scenario.run, point, name).unwrap();
        let run = ledger.run(fork).unwrap();
        assert_eq!(run.step(StepNumber(1)).unwrap().status, StepStatus::Accepted, "{name}");
        assert_eq!(run.variables["x"].value, ended.variables["x"].value, "{name}");
    }
    assert_eq!(ready(ledger, "b again"), 1);
}

/// A cost correction must state what the attempt was charged so far. It used to accept any sum and
/// to subtract it from the cost of the run.
#[test]
fn cost_correction_with_wrong_charge_is_rejected() {
    let mut scenario = Scenario::begin(&json!({ "steps": [
        { "id": "a", "goal": "a" }, { "id": "b", "goal": "b", "cost_estimate": { "money_micros": 10 } }
    ]}));
    let correct = |scenario: &Scenario, token, to, charged: Option<u64>| {
        scenario.ledger().correct_cost(token, money(to), charged.map(money), "ann")
    };
    let wrong = |expected, found| Rejection::ChargeDiffers {
        expected: money(expected),
        found: money(found),
    };
    let first = scenario.dispatch("a");
    assert!(matches!(
        refusal(correct(&scenario, first.token, 7, Some(5))),
        Rejection::Leased { .. }
    ));
    scenario.finish_for(&first, &json!(1), 5);
    let error = correct(&scenario, first.token, 7, Some(50)).unwrap_err();
    assert_eq!(error.rejection(), Some(&wrong(50, 5)));
    assert!(
        error.to_string().contains("charged 5 millionths and 0 tokens, expected 50"),
        "{error}"
    );
    assert_eq!(scenario.run().spent(), money(5));
    correct(&scenario, first.token, 7, Some(5)).unwrap();
    scenario.lose_power();
    assert_eq!(refusal(correct(&scenario, first.token, 8, Some(5))), wrong(5, 7), "once only");
    correct(&scenario, first.token, 8, Some(7)).unwrap();
    // A rejected second receipt does not change the charged cost.
    scenario.ledger().record_receipt(first.token, receipt(&json!(2))).unwrap_err();
    assert_eq!(refusal(correct(&scenario, first.token, 9, Some(0))), wrong(0, 8));

    let lost = scenario.dispatch("b");
    scenario.ledger().report_lost(lost.token, LostCause::RunnerDied, "").unwrap();
    assert_eq!(refusal(correct(&scenario, lost.token, 3, Some(4))), wrong(4, 10));
    let command = Command::CorrectCost {
        token: lost.token.seq,
        cost: money(3),
        charged: Some(money(4)),
        by: "ann".to_owned(),
    };
    assert_eq!(refusal(scenario.ledger().execute(&command)), wrong(4, 10));
    let late = Receipt { cost: money(6), ..receipt(&json!(2)) };
    scenario.ledger().record_receipt(lost.token, late).unwrap_err();
    assert_eq!(refusal(correct(&scenario, lost.token, 3, Some(10))), wrong(10, 6));
    correct(&scenario, lost.token, 3, Some(6)).unwrap();
    assert_eq!(scenario.run().spent(), money(11));
}

/// Commands to an ended run are rejected, also after 64 later runs have ended and it was retired.
#[test]
fn commands_to_a_retired_run_are_rejected() {
    let scenario = Scenario::begin(&json!({ "steps": [{ "id": "a", "goal": "a" }] }));
    let task = scenario.dispatch("a");
    scenario.finish(&task, &json!(1));
    let (ledger, run) = (scenario.ledger(), scenario.run);
    assert!(ledger.dispatch(run, "w").unwrap().is_none());
    assert_eq!(refusal(ledger.pause(run, "me", "")), Rejection::RunHasEnded(Ending::Done));
    let late = || refusal(ledger.record_receipt(task.token, receipt(&json!(2))));
    assert_eq!(late(), Rejection::StaleToken(task.token.seq));
    let short = plan(&json!({ "steps": [{ "id": "only", "goal": "g" }] }));
    for number in 0..ENDED_KEPT {
        let name = format!("later {number}");
        let run = ledger.start_run(&name, &short, RunPolicy::default()).unwrap();
        scenario.finish(&ledger.dispatch(run, "w").unwrap().unwrap(), &json!(null));
    }
    assert!(ledger.dispatch(run, "w").unwrap().is_none());
    let retired = ledger.pause(run, "me", "").unwrap_err();
    assert_eq!(retired.rejection(), Some(&Rejection::RunRetired(Ending::Done)));
    assert!(retired.to_string().contains("since 64 others ended later"), "{retired}");
    // The attempt is unknown by now, and its late receipt is not recorded.
    let head = ledger.head();
    assert_eq!(late(), Rejection::StaleToken(task.token.seq));
    assert_eq!(ledger.head(), head);
}

fn ready(ledger: &Ledger, name: &str) -> u32 {
    ledger.state().unwrap().run_named(name).unwrap().count(StepStatus::Ready)
}

/// A new version makes a step of a removed writer's variable be done again, and no other reader: a
/// step that only reads what a remaining step wrote stays accepted.
#[test]
fn version_reopens_only_readers_of_removed_steps() {
    let step = |id: &str| json!({ "id": id, "goal": "look", "outputs": [format!("of_{id}")] });
    let reader = |id: &str, input: &str| json!({ "id": id, "goal": "add", "inputs": [input] });
    let steps = [
        step("kept"),
        step("gone"),
        reader("reads_kept", "of_kept"),
        reader("reads_gone", "of_gone"),
    ];
    let last = json!({ "id": "last", "goal": "end", "after": ["reads_kept"] });
    let all = [&steps[..], std::slice::from_ref(&last)].concat();
    let scenario = Scenario::begin(&json!({ "steps": all }));
    for id in ["kept", "gone", "reads_kept", "reads_gone"] {
        scenario.complete(id, &json!(id));
    }
    let gone = numbers(&scenario, &["gone"]);
    let remaining = [&steps[..1], &steps[2..], &[last]].concat();
    let version = plan(&json!({ "steps": remaining }));
    scenario.ledger().propose(scenario.run, &version, "not needed").unwrap();
    let activated = scenario.activated();
    assert_eq!(activated.removed, gone);
    assert_eq!(activated.invalidated, numbers(&scenario, &["reads_gone"]));
    assert_eq!(activated.preserved, numbers(&scenario, &["kept", "reads_kept"]));
}

/// A fallback step that no step needs any longer is not skipped while a person is asked about its
/// attempt.
#[test]
fn unused_fallback_with_an_open_question_is_kept() {
    let scenario = Scenario::begin(&json!({
        "failure": { "rules": [{ "id": "ask", "when": { "step": "other" }, "then": { "escalate": { "to": "ann" } } }] },
        "steps": [
            { "id": "dear", "goal": "ask", "retry": { "max_attempts": 1 }, "fallback": { "step": "other" } },
            { "id": "other", "goal": "ask elsewhere" }
        ]
    }));
    for id in ["dear", "other"] {
        let task = scenario.dispatch(id);
        scenario.fail(&task, FailureClass::Transient, "HTTP 503", 0);
    }
    assert_eq!(scenario.status("other"), StepStatus::Gated);
    let dear = scenario.number("dear");
    scenario.ledger().skip(scenario.run, dear, "ann", "not needed").unwrap();
    assert_eq!(scenario.status("dear"), StepStatus::Skipped);
    assert_eq!(scenario.status("other"), StepStatus::Gated);
    assert_eq!(scenario.question().question.step, Some(scenario.number("other")));
}
