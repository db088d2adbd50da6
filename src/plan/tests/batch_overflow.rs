//! Consequences of a command that do not fit into its batch.

use super::support::*;
use crate::plan::*;

/// The conditions of 33,000 steps are false, and judging and skipping them takes 66,000 events,
/// more than fit into a batch. The next claim or tick records the rest first. Such a run used to
/// stop permanently.
#[test]
fn overflowing_events_follow_in_the_next_claim_or_tick() {
    let never = |n| Step { condition: Some("false".to_owned()), ..step(&format!("s{n}"), &[]) };
    let mut steps: Vec<Step> = (0..33_000).map(never).collect();
    steps.push(step("work", &["s32999"]));
    let mut ledger = TestLedger::with(&plan(steps), trust());
    assert_eq!(ledger.log.len(), MAX_BATCH_EVENTS);
    assert_eq!(ledger.status("work"), StepStatus::Waiting);
    let mut ticked = TestLedger { state: ledger.state.clone(), log: Vec::new(), now: ledger.now };
    let events = ticked.execute(Command::Tick).unwrap();
    assert!(kinds(&events).ends_with("ConditionJudged Skipped"));
    assert_eq!(ticked.status("work"), StepStatus::Ready);
    let dispatched = ledger.execute(dispatch_command(None)).unwrap();
    assert_eq!(
        dispatched.len(),
        events.len() + 1,
        "the claim gets the step that the rest made ready"
    );
    assert_eq!(ledger.status("work"), StepStatus::Dispatched);
}

/// An expression over `items` that takes a fifth of the budget of a commit.
fn costly(number: usize) -> String {
    format!("items.all(x, x >= 0) && {number} >= 0")
}

/// How many expressions the plans of these tests have: more than two commits evaluate.
const EXPRESSIONS: usize = 12;

fn evaluated(events: &[Event]) -> usize {
    let kinds = kinds(events);
    ["ConditionJudged", "VerdictRecorded", "PlanVerdict"]
        .iter()
        .map(|it| kinds.matches(it).count())
        .sum()
}

/// Sets `items`, completes step `first`, and ticks until nothing is due. Returns the ledger, and how
/// many expressions each commit evaluated.
fn evaluations(plan: &Plan) -> (TestLedger, Vec<usize>) {
    let mut ledger = TestLedger::with(plan, trust());
    let items: Vec<usize> = (0..40_000).collect();
    ledger.set("items", items);
    let token = ledger.dispatch("first");
    let mut commits = vec![evaluated(&ledger.report(token, Receipt::default()))];
    loop {
        let claim = ledger.execute(dispatch_command(None));
        let events = claim.unwrap_or_default();
        commits.extend(Some(evaluated(&events)).filter(|count| *count > 0));
        if kinds(&events).contains("Dispatched") || events.is_empty() {
            return (ledger, commits);
        }
    }
}

/// A list of 300,000 values and 1,000 conditions over it kept a commit busy for two minutes, and all
/// other workers waiting.
#[test]
fn commit_evaluates_conditions_within_its_budget() {
    let condition = |n| Step { condition: Some(costly(n)), ..step(&format!("s{n}"), &["first"]) };
    let mut steps = vec![step("first", &[])];
    steps.extend((0..EXPRESSIONS).map(condition));
    let (ledger, commits) = evaluations(&plan(steps));
    assert_eq!(commits.iter().sum::<usize>(), EXPRESSIONS, "{commits:?}");
    assert!(commits.len() > 2 && commits.iter().all(|count| (1..6).contains(count)), "{commits:?}");
    let ready = u32::try_from(EXPRESSIONS).unwrap() - 1;
    assert_eq!(ledger.run().count(StepStatus::Ready), ready, "the claim dispatched one");
}

/// The list of preconditions of one step is cut, too. The run does not end while one of them is not
/// evaluated, although no other step can continue.
#[test]
fn commit_evaluates_preconditions_within_its_budget() {
    let guarded = Step {
        preconditions: (0..EXPRESSIONS).map(costly).collect::<Vec<_>>().into(),
        ..step("guarded", &["first"])
    };
    let (ledger, commits) = evaluations(&plan(vec![step("first", &[]), guarded]));
    assert_eq!(commits.iter().sum::<usize>(), EXPRESSIONS, "{commits:?}");
    assert!(commits.len() > 2 && commits.iter().all(|count| (1..6).contains(count)), "{commits:?}");
    assert_eq!(ledger.status("guarded"), StepStatus::Dispatched);
}

#[test]
fn commit_evaluates_criteria_within_its_budget() {
    let criteria: Vec<_> = (0..EXPRESSIONS).map(|n| Criterion::Cel(costly(n))).collect();
    let judged = Step { acceptance: criteria.clone(), ..step("first", &[]) };
    let all = Plan { test_criteria: criteria, ..plan(vec![judged]) };
    let (ledger, commits) = evaluations(&all);
    assert_eq!(commits.iter().sum::<usize>(), 2 * EXPRESSIONS, "{commits:?}");
    assert!(commits.len() > 5 && commits.iter().all(|count| (1..6).contains(count)), "{commits:?}");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
}
