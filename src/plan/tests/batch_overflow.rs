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
