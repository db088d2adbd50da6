//! Barriers that are not released in time.

use super::invariants;
use super::support::*;
use crate::plan::*;

/// A step after a barrier of two members with a deadline of ten seconds.
fn plan_with_deadline(on_break: OnBreak) -> Plan {
    let mut plan = plan(vec![step("a", &[]), step("b", &[]), step("z", &["join"])]);
    let join = barrier("join", &["a", "b"], BarrierNeeds::All);
    plan.barriers.push(Barrier { deadline_seconds: Some(10), on_break, ..join });
    plan
}

fn late(ledger: &mut TestLedger) {
    ledger.now += 11 * SECOND;
    ledger.execute(Command::Tick).unwrap();
    assert!(ledger.run().barriers["join"].is_late);
}

fn why(ledger: &TestLedger, id: &str) -> String {
    let why = explain(&ledger.state, RunId(1), ledger.number(id), ledger.now).unwrap();
    let lines = why.lines(&|_| String::new());
    lines.into_iter().map(|line| line.text + "\n").collect()
}

/// A late barrier that waits, by the plan or by an answer, is released when its last member
/// arrives. It used to stay broken and to fail the run in the end.
#[test]
fn late_barrier_is_released_by_its_last_member() {
    for on_break in [OnBreak::Wait, OnBreak::Ask] {
        let mut ledger = TestLedger::with(&plan_with_deadline(on_break), RunPolicy::default());
        ledger.complete("a");
        let b = ledger.dispatch("b");
        late(&mut ledger);
        assert!(
            why(&ledger, "z").contains("barrier join was not released in time: 1 of 2 arrived")
        );
        let asked = ledger.run().questions.iter().next();
        let asked = asked.map(|(id, question)| (*id, question.asked.clone()));
        assert_eq!(asked.is_some(), on_break == OnBreak::Ask);
        if let Some((question, asked)) = asked {
            assert_eq!(asked.text, "barrier join was not released in time: 1 of 2 arrived");
            let (answer, by, note) = (WAIT.to_owned(), "ana".to_owned(), String::new());
            let shown = asked.shown;
            ledger.execute(Command::Answer { question, answer, by, note, shown }).unwrap();
        }
        assert_eq!(ledger.status("z"), StepStatus::Waiting);
        let events = ledger.report(b, Receipt::default());
        assert_eq!(kinds(&events), "ReceiptRecorded Accepted BarrierChanged");
        assert_eq!(ledger.status("z"), StepStatus::Ready);
        invariants::check(&ledger.state);
        // It stays released in a version with the same barrier.
        let mut wider = plan_with_deadline(on_break);
        wider.steps.push(step("new", &[]));
        ledger.propose(&wider).unwrap();
        assert_eq!(ledger.status("z"), StepStatus::Ready);
        ledger.complete("z");
        ledger.complete("new");
        assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
        invariants::check(&ledger.state);
    }
}

/// The answer `wait` releases a late barrier at once if all members have arrived.
#[test]
fn barrier_wait_releases_immediately_when_full() {
    let mut ledger = TestLedger::with(&plan_with_deadline(OnBreak::Ask), RunPolicy::default());
    late(&mut ledger);
    ledger.complete("a");
    ledger.complete("b");
    assert_eq!(ledger.status("z"), StepStatus::Waiting, "a question is open");
    let (question, asked) = ledger.run().questions.iter().next().unwrap();
    let (question, shown) = (*question, asked.asked.shown);
    let (answer, by, note) = (WAIT.to_owned(), "ana".to_owned(), String::new());
    ledger.execute(Command::Answer { question, answer, by, note, shown }).unwrap();
    assert_eq!(ledger.status("z"), StepStatus::Ready);
    invariants::check(&ledger.state);
}

/// A retry is rejected if a late barrier would end the run again at once. It used to report
/// success.
#[test]
fn retry_is_rejected_while_a_late_barrier_fails_the_run() {
    let mut late_fails = plan_with_deadline(OnBreak::Fail);
    late_fails.steps.push(Step {
        retry: Some(Box::new(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() })),
        ..step("c", &[])
    });
    let mut ledger = TestLedger::with(&late_fails, RunPolicy::default());
    ledger.fail("c", FailureClass::Transient);
    late(&mut ledger);
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Failed));
    let run = RunId(1);
    let late = Rejection::BarrierLate("join".to_owned());
    let by = || "ana".to_owned();
    assert_eq!(ledger.execute(Command::RetryFailed { run, by: by() }), Err(late.clone()));
    let step = ledger.number("c");
    assert_eq!(ledger.execute(Command::Retry { run, step, by: by() }), Err(late));
    // A new plan version can be activated.
    ledger.propose(&plan_with_deadline(OnBreak::Wait)).unwrap();
    assert_eq!(ledger.run().status, RunStatus::Running);
    invariants::check(&ledger.state);
}
