//! Runs that are paused because a budget is exhausted, and the commands that unpause them.

use super::invariants;
use super::support::*;
use crate::plan::*;

const RUN: RunId = RunId(1);

fn by() -> String {
    "ana".to_owned()
}

fn with_attempts(attempts: u64) -> Plan {
    let mut limited = plan(vec![step("a", &[]), step("b", &[])]);
    limited.budget.attempts = Some(attempts);
    limited
}

/// Answers the only open question.
fn reply(ledger: &mut TestLedger, answer: &str) -> Vec<Event> {
    let (question, asked) = ledger.run().questions.iter().next().unwrap();
    let (question, shown) = (*question, asked.asked.shown);
    let (answer, note) = (answer.to_owned(), String::new());
    ledger.execute(Command::Answer { question, answer, by: by(), note, shown }).unwrap()
}

/// A run that used its budget of one attempt, and whose budget question was answered with `replan`.
fn exhausted_run() -> TestLedger {
    let mut ledger = TestLedger::with(&with_attempts(1), RunPolicy::default());
    ledger.complete("a");
    ledger.execute(dispatch_command(None)).unwrap();
    assert_eq!(ledger.run().pause, Some(PauseCause::RunBudget { part: BudgetPart::Attempts }));
    reply(&mut ledger, REPLAN);
    assert_eq!(ledger.run().request.as_ref().unwrap().trigger, ReplanTrigger::BudgetExhausted);
    ledger
}

/// An activated version with a larger budget unpauses the run.
#[test]
fn version_with_a_larger_budget_unpauses_the_run() {
    let mut ledger = exhausted_run();
    let events = ledger.propose(&with_attempts(10)).unwrap();
    assert!(kinds(&events).ends_with("PlanActivated RunResumed"), "{}", kinds(&events));
    assert_eq!(ledger.run().pause, None);
    ledger.complete("b");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
    invariants::check(&ledger.state);
}

/// A version with a larger budget also closes the budget question; one with the same budget changes
/// nothing.
#[test]
fn version_with_a_larger_budget_closes_the_question() {
    let policy = RunPolicy { approval: ApprovalPolicy::Required, ..RunPolicy::default() };
    let mut ledger = TestLedger::with(&with_attempts(1), policy);
    let approve = |ledger: &mut TestLedger| {
        let version = u32::try_from(ledger.run().versions.len()).unwrap();
        let hash = ledger.run().versions.last().unwrap().hash;
        let (review, note) = (Review::Approved, String::new());
        ledger
            .execute(Command::ReviewPlan { run: RUN, version, hash, review, by: by(), note })
            .unwrap()
    };
    approve(&mut ledger);
    ledger.complete("a");
    ledger.execute(dispatch_command(None)).unwrap();
    let mut same = with_attempts(1);
    same.title = "as much".to_owned();
    ledger.propose(&same).unwrap();
    assert_eq!(kinds(&approve(&mut ledger)), "PlanReviewed PlanActivated");
    assert!(ledger.run().pause.is_some());
    ledger.propose(&with_attempts(10)).unwrap();
    let events = approve(&mut ledger);
    assert_eq!(kinds(&events), "PlanReviewed PlanActivated QuestionAnswered RunResumed");
    assert!(ledger.run().questions.is_empty());
    invariants::check(&ledger.state);
}

/// A replan request for a step that exhausted its own budget is withdrawn when the step is retried
/// and accepted.
#[test]
fn replan_request_is_withdrawn_with_its_cause() {
    let once = Some(Box::new(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }));
    let mut limited = plan(vec![Step { retry: once, ..step("a", &[]) }, step("b", &[])]);
    limited.failure.max_replans = Some(2);
    let mut ledger = TestLedger::with(&limited, RunPolicy::default());
    ledger.fail("a", FailureClass::BudgetExhausted);
    let trigger = ledger.run().request.as_ref().unwrap().trigger.clone();
    assert!(matches!(trigger, ReplanTrigger::Failure { .. }));
    let retry = Command::Retry { run: RUN, step: ledger.number("a"), by: by() };
    assert_eq!(kinds(&ledger.execute(retry).unwrap()), "Reopened ReplanWithdrawn");
    assert_eq!(ledger.run().request, None);
    invariants::check(&ledger.state);
}

/// A replan request for an exhausted budget is withdrawn when the budget is raised.
#[test]
fn raised_budget_withdraws_the_replan_request() {
    let mut ledger = exhausted_run();
    let limits = Some(Limits { attempts: Some(5), ..Limits::default() });
    let raise = Command::SetBudget { run: Some(RUN), limits, by: by() };
    assert_eq!(kinds(&ledger.execute(raise).unwrap()), "BudgetChanged RunResumed ReplanWithdrawn");
    assert_eq!(ledger.run().request, None);
    ledger.complete("b");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
    invariants::check(&ledger.state);
}

/// The question about an attempt over its cost limit suggests to unpause the run.
#[test]
fn question_about_a_costly_attempt_names_the_remedy() {
    let mut limited = plan(vec![step("a", &[]), step("b", &[])]);
    limited.steps[0].cost_limit = Some(Cost { money_micros: 5, tokens: 0 });
    let mut ledger = TestLedger::with(&limited, RunPolicy::default());
    let token = ledger.dispatch("a");
    let cost = Cost { money_micros: 9, tokens: 0 };
    ledger.report(token, Receipt { cost, ..Receipt::default() });
    let text = &ledger.run().questions.values().next().unwrap().asked.text;
    assert_eq!(text, "an attempt of step #1 exceeded its cost limit: unpause the run to continue");
    // A new plan version unpauses the run, too.
    let mut resumed = TestLedger { state: ledger.state.clone(), log: Vec::new(), now: ledger.now };
    let events = resumed.execute(Command::Unpause { run: RUN, by: by() }).unwrap();
    assert_eq!(kinds(&events), "QuestionAnswered RunResumed");
    reply(&mut ledger, REPLAN);
    limited.title = "cheaper".to_owned();
    ledger.propose(&limited).unwrap();
    assert_eq!(ledger.run().pause, None);
    invariants::check(&ledger.state);
}
