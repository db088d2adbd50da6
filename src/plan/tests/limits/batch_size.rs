//! What follows from a command and has no room in its batch.

use crate::plan::tests::support::*;
use crate::plan::*;

/// Story: a plan begins with 33,000 steps whose conditions are false. Judging and skipping them is
/// 66,000 events, and a batch holds 65,000. The rest was to follow "with the run's next command",
/// but a claim was refused, since nothing was ready, and a tick found nothing due: the run stood
/// still for ever, with steps that waited "for what will not come".
#[test]
fn what_has_no_room_in_a_batch_comes_first_in_the_next_claim_or_tick() {
    let never = |n| Step { condition: Some("false".to_owned()), ..step(&format!("s{n}"), &[]) };
    let mut steps: Vec<Step> = (0..33_000).map(never).collect();
    steps.push(step("work", &["s32999"]));
    let mut world = World::with(&plan(steps), trust());
    assert_eq!(world.log.len(), MAX_BATCH_EVENTS);
    assert_eq!(world.status("work"), StepStatus::Waiting);
    let mut ticked = World { state: world.state.clone(), log: Vec::new(), now: world.now };
    let events = ticked.ask(Command::Tick).unwrap();
    assert!(kinds(&events).ends_with("ConditionJudged Skipped"));
    assert_eq!(ticked.status("work"), StepStatus::Ready);
    let dealt = world.ask(dispatch(None)).unwrap();
    assert_eq!(dealt.len(), events.len() + 1, "who claims gets what the rest made ready");
    assert_eq!(world.status("work"), StepStatus::Dispatched);
}
