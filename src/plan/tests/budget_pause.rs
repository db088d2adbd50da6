//! Runs that pause for what they cost, and what makes them go on.

use super::support::*;
use crate::plan::tests::invariants;
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
fn reply(world: &mut World, answer: &str) -> Vec<Event> {
    let (question, asked) = world.run().questions.iter().next().unwrap();
    let (question, shown) = (*question, asked.asked.shown);
    let (answer, note) = (answer.to_owned(), String::new());
    world.ask(Command::Answer { question, answer, by: by(), note, shown }).unwrap()
}

/// A run that used up its budget of one attempt, and somebody answered `replan`.
fn used_up() -> World {
    let mut world = World::with(&with_attempts(1), RunPolicy::default());
    world.work("a");
    world.ask(dispatch(None)).unwrap();
    assert_eq!(world.run().pause, Some(PauseCause::RunBudget(BudgetPart::Attempts)));
    reply(&mut world, REPLAN);
    assert_eq!(world.run().request.as_ref().unwrap().trigger, ReplanTrigger::BudgetExhausted);
    world
}

/// Story: the budget of one attempt was used up, and somebody answered with another plan, which allowed
/// ten. It became active, and the run still paused: "its budget of attempts is used up".
#[test]
fn a_version_that_allows_more_lets_a_run_go_on_that_paused_for_its_budget() {
    let mut world = used_up();
    let events = world.propose(&with_attempts(10)).unwrap();
    assert!(kinds(&events).ends_with("PlanActivated RunResumed"), "{}", kinds(&events));
    assert_eq!(world.run().pause, None);
    world.work("b");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
    invariants::check(&world.state);
}

/// Story: the same, but nobody had answered, and the version was approved by a person. The question about
/// the budget is closed with it. A version that allows no more changes nothing.
#[test]
fn a_version_answers_the_question_about_the_budget_if_it_allows_more() {
    let policy = RunPolicy { approval: ApprovalPolicy::Required, ..RunPolicy::default() };
    let mut world = World::with(&with_attempts(1), policy);
    let approve = |world: &mut World| {
        let version = u32::try_from(world.run().versions.len()).unwrap();
        let hash = world.run().versions.last().unwrap().hash;
        let (review, note) = (Review::Approved, String::new());
        world.ask(Command::ReviewPlan { run: RUN, version, hash, review, by: by(), note }).unwrap()
    };
    approve(&mut world);
    world.work("a");
    world.ask(dispatch(None)).unwrap();
    let mut same = with_attempts(1);
    same.title = "as much".to_owned();
    world.propose(&same).unwrap();
    assert_eq!(kinds(&approve(&mut world)), "PlanReviewed PlanActivated");
    assert!(world.run().pause.is_some());
    world.propose(&with_attempts(10)).unwrap();
    let events = approve(&mut world);
    assert_eq!(kinds(&events), "PlanReviewed PlanActivated QuestionAnswered RunResumed");
    assert!(world.run().questions.is_empty());
    invariants::check(&world.state);
}

/// Story: a step failed for good with class `budget_exhausted`, and another plan was asked for. A person had
/// the step tried again, and it was accepted; the request stayed open, and when another step failed
/// for good, the run waited for a plan that nobody wanted.
#[test]
fn a_request_of_a_step_whose_own_budget_was_used_up_goes_with_its_cause() {
    let once = Some(Box::new(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }));
    let mut limited = plan(vec![Step { retry: once, ..step("a", &[]) }, step("b", &[])]);
    limited.failure.max_replans = Some(2);
    let mut world = World::with(&limited, RunPolicy::default());
    world.fail("a", FailureClass::BudgetExhausted);
    let trigger = world.run().request.as_ref().unwrap().trigger.clone();
    assert!(matches!(trigger, ReplanTrigger::Failure { .. }));
    let retry = Command::Retry { run: RUN, step: world.number("a"), by: by() };
    assert_eq!(kinds(&world.ask(retry).unwrap()), "Reopened ReplanWithdrawn");
    assert_eq!(world.run().request, None);
    invariants::check(&world.state);
}

/// Story: the budget was used up, and somebody answered `replan`; then the budget was raised instead. The
/// run went on, with a request that nobody wanted any more.
#[test]
fn a_request_for_a_used_up_budget_lapses_when_it_is_raised() {
    let mut world = used_up();
    let limits = Some(Limits { attempts: Some(5), ..Limits::default() });
    let raise = Command::SetBudget { run: Some(RUN), limits, by: by() };
    assert_eq!(kinds(&world.ask(raise).unwrap()), "BudgetChanged RunResumed ReplanWithdrawn");
    assert_eq!(world.run().request, None);
    world.work("b");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
    invariants::check(&world.state);
}

/// Story: an attempt cost more than its step allows, and the question said "raise it to go on". The budget
/// was raised, and nothing happened: only resuming the run helps.
#[test]
fn who_is_asked_about_a_costly_attempt_is_told_what_helps() {
    let mut limited = plan(vec![step("a", &[]), step("b", &[])]);
    limited.steps[0].cost_limit = Some(Cost { money_micros: 5, tokens: 0 });
    let mut world = World::with(&limited, RunPolicy::default());
    let token = world.deal("a");
    let cost = Cost { money_micros: 9, tokens: 0 };
    world.report(token, Receipt { cost, ..Receipt::default() });
    let text = &world.run().questions.values().next().unwrap().asked.text;
    assert_eq!(text, "an attempt of step 1 cost more than it may: resume the run to go on");
    // Or another plan, where somebody wants that.
    let mut resumed = World { state: world.state.clone(), log: Vec::new(), now: world.now };
    let events = resumed.ask(Command::Resume { run: RUN, by: by() }).unwrap();
    assert_eq!(kinds(&events), "QuestionAnswered RunResumed");
    reply(&mut world, REPLAN);
    limited.title = "cheaper".to_owned();
    world.propose(&limited).unwrap();
    assert_eq!(world.run().pause, None);
    invariants::check(&world.state);
}
