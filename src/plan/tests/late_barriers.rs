//! Barriers that are not released in time.

use super::support::*;
use crate::plan::tests::invariants;
use crate::plan::*;

/// A step that waits for two others, which have ten seconds.
fn timed(on_break: OnBreak) -> Plan {
    let mut timed = plan(vec![step("a", &[]), step("b", &[]), step("z", &["join"])]);
    let join = barrier("join", &["a", "b"], BarrierNeeds::All);
    timed.barriers.push(Barrier { deadline_seconds: Some(10), on_break, ..join });
    timed
}

fn late(world: &mut World) {
    world.now += 11 * SECOND;
    world.ask(Command::Tick).unwrap();
    assert!(world.run().barriers["join"].is_late);
}

fn why(world: &World, id: &str) -> String {
    let told = explain(&world.state, RunId(1), world.number(id), world.now).unwrap();
    let lines = told.lines(&|_| String::new());
    lines.into_iter().map(|line| line.text + "\n").collect()
}

/// Story: two reports were due by ten o'clock, and the plan said to wait for them. The last one came at
/// five past, and the step behind them was never dealt: a late barrier stayed broken whoever arrived,
/// and in the end the run failed, "1 waiting for what will not come". Where somebody was asked, and
/// said `wait`, it was the same.
#[test]
fn a_late_barrier_that_waits_is_released_when_its_members_have_come() {
    for on_break in [OnBreak::Wait, OnBreak::Ask] {
        let mut world = World::with(&timed(on_break), RunPolicy::default());
        world.work("a");
        let b = world.deal("b");
        late(&mut world);
        assert!(why(&world, "z").contains("barrier join was not released in time: 1 of 2 arrived"));
        let asked = world.run().questions.iter().next();
        let asked = asked.map(|(id, question)| (*id, question.asked.clone()));
        assert_eq!(asked.is_some(), on_break == OnBreak::Ask);
        if let Some((question, asked)) = asked {
            assert_eq!(asked.text, "barrier join was not released in time: 1 of 2 arrived");
            let (answer, by, note) = (WAIT.to_owned(), "ana".to_owned(), String::new());
            let shown = asked.shown;
            world.ask(Command::Answer { question, answer, by, note, shown }).unwrap();
        }
        assert_eq!(world.status("z"), StepStatus::Waiting);
        let events = world.report(b, Receipt::default());
        assert_eq!(kinds(&events), "ReceiptRecorded Accepted Barrier");
        assert_eq!(world.status("z"), StepStatus::Ready);
        invariants::check(&world.state);
        // It stays released in a version that says the same of it.
        let mut wider = timed(on_break);
        wider.steps.push(step("new", &[]));
        world.propose(&wider).unwrap();
        assert_eq!(world.status("z"), StepStatus::Ready);
        world.work("z");
        world.work("new");
        assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
        invariants::check(&world.state);
    }
}

/// Story: the last member had come while somebody was still asked what to do about the late barrier.
/// They said `wait`, and it was released at once.
#[test]
fn whoever_says_wait_when_all_have_come_need_not_wait() {
    let mut world = World::with(&timed(OnBreak::Ask), RunPolicy::default());
    late(&mut world);
    world.work("a");
    world.work("b");
    assert_eq!(world.status("z"), StepStatus::Waiting, "somebody is asked");
    let (question, asked) = world.run().questions.iter().next().unwrap();
    let (question, shown) = (*question, asked.asked.shown);
    let (answer, by, note) = (WAIT.to_owned(), "ana".to_owned(), String::new());
    world.ask(Command::Answer { question, answer, by, note, shown }).unwrap();
    assert_eq!(world.status("z"), StepStatus::Ready);
    invariants::check(&world.state);
}

/// Story: a step had failed, and a late barrier failed the run. `ledger retry` reopened the step and the
/// run, and the barrier ended it again in the same breath; who had asked was told that the step was tried
/// again.
#[test]
fn nothing_is_tried_again_where_a_late_barrier_would_fail_the_run_again() {
    let mut late_fails = timed(OnBreak::Fail);
    late_fails.steps.push(Step {
        retry: Some(Box::new(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() })),
        ..step("c", &[])
    });
    let mut world = World::with(&late_fails, RunPolicy::default());
    world.fail("c", FailureClass::Transient);
    late(&mut world);
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Failed));
    let run = RunId(1);
    let late = Rejection::BarrierLate("join".to_owned());
    let by = || "ana".to_owned();
    assert_eq!(world.ask(Command::RetryFailed { run, by: by() }), Err(late.clone()));
    let step = world.number("c");
    assert_eq!(world.ask(Command::Retry { run, step, by: by() }), Err(late));
    // Another plan saves it.
    world.propose(&timed(OnBreak::Wait)).unwrap();
    assert_eq!(world.run().status, RunStatus::Running);
    invariants::check(&world.state);
}
