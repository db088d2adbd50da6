//! State that is kept across plan versions: effects of attempts, answers of people, and ages of
//! values.

use crate::plan::tests::invariants;
use crate::plan::tests::support::*;
use crate::plan::*;

const RUN: RunId = RunId(1);

fn once(id: &str) -> Step {
    Step { idempotent: Some(Idempotence::No), ..step(id, &[]) }
}

fn changed(of: Step) -> Step {
    Step { goal: "something else".to_owned(), ..of }
}

/// A failed receipt with that disposition.
fn left(disposition: Disposition) -> Receipt {
    Receipt { disposition: Some(disposition), ..failed(FailureClass::Unknown) }
}

fn reply(ledger: &mut TestLedger, answer: &str) -> Vec<Event> {
    let (question, asked) = ledger.run().questions.iter().next().unwrap();
    let (question, shown) = (*question, asked.asked.shown);
    let (answer, by, note) = (answer.to_owned(), "ann".to_owned(), String::new());
    let events = ledger.execute(Command::Answer { question, answer, by, note, shown }).unwrap();
    invariants::check(&ledger.state);
    events
}

fn resolve(ledger: &mut TestLedger, id: &str, finding: ResolvedOutcome) {
    let (step, by, evidence) = (ledger.number(id), "ann".to_owned(), String::new());
    ledger.execute(Command::ResolveOutcome { run: RUN, step, finding, by, evidence }).unwrap();
    invariants::check(&ledger.state);
}

/// A step removed with an unknown outcome still asks when it returns in a later version.
#[test]
fn removed_step_with_unknown_outcome_asks_when_it_returns() {
    for is_lost_before in [Ok(LostCause::RunnerDied), Err("in flight when it is removed")] {
        let mut ledger =
            TestLedger::with(&plan(vec![once("pay"), step("z", &[])]), RunPolicy::default());
        let token = ledger.dispatch("pay");
        if let Ok(cause) = is_lost_before {
            ledger.lose(token, cause);
        }
        ledger.propose(&plan(vec![step("z", &[])])).unwrap();
        assert_eq!(ledger.status("pay"), StepStatus::Removed);
        // A version in between keeps the attempt.
        ledger.propose(&plan(vec![step("z", &[]), step("y", &[])])).unwrap();
        ledger.propose(&plan(vec![changed(once("pay")), step("z", &[])])).unwrap();
        assert_eq!(ledger.status("pay"), StepStatus::OutcomeUnknown);
        assert!(matches!(ledger.try_dispatch("pay"), Err(Rejection::NotReady(..))));
        resolve(&mut ledger, "pay", ResolvedOutcome::DidNotHappen);
        assert_eq!(ledger.status("pay"), StepStatus::Ready);
    }
}

/// Story: a person changed the goal of the step before; the next run sent the mail again, unasked.
#[test]
fn accepted_step_that_must_not_be_done_twice_asks_before_it_is_done_again() {
    let after = |goal: &str| {
        let prepare = Step { goal: goal.to_owned(), ..step("prepare", &[]) };
        let send = Step { after: vec!["prepare".to_owned()], ..once("send") };
        // A run that is done takes no other plan.
        plan(vec![prepare, send, step("last", &[])])
    };
    for (answer, status) in [(YES, StepStatus::Ready), (SKIP, StepStatus::Skipped)] {
        let mut ledger = TestLedger::with(&after("one"), RunPolicy::default());
        ledger.complete("prepare");
        ledger.complete("send");
        ledger.propose(&after("two")).unwrap();
        assert_eq!(ledger.status("send"), StepStatus::Waiting);
        ledger.complete("prepare");
        assert_eq!(ledger.status("send"), StepStatus::Gated);
        assert!(ledger.try_dispatch("send").is_err());
        reply(&mut ledger, answer);
        assert_eq!(ledger.status("send"), status);
        if status == StepStatus::Ready {
            ledger.complete("send");
            assert_eq!(ledger.status("send"), StepStatus::Accepted);
            assert_eq!(ledger.run().questions.len(), 0);
        }
    }
}

/// A landed failure is asked about again when a new version changes its step.
#[test]
fn landed_failure_is_asked_about_again_when_its_step_changes() {
    let mut ledger =
        TestLedger::with(&plan(vec![once("pay"), step("z", &[])]), RunPolicy::default());
    let token = ledger.dispatch("pay");
    ledger.report(token, left(Disposition::Landed));
    assert_eq!(ledger.status("pay"), StepStatus::Gated);
    let first = *ledger.run().questions.keys().next().unwrap();
    ledger.propose(&plan(vec![changed(once("pay")), step("z", &[])])).unwrap();
    assert_eq!(ledger.status("pay"), StepStatus::Gated);
    let (second, question) = ledger.run().questions.iter().next().unwrap();
    assert!(*second > first, "the new question shows the changed step");
    assert_eq!(Some(question.asked.shown), ledger.run().step_hash(StepNumber(1)));
    reply(&mut ledger, RETRY);
    assert_eq!(ledger.status("pay"), StepStatus::Ready, "a person allowed it");
}

#[test]
fn removed_landed_failure_has_unknown_outcome_when_it_returns() {
    let mut ledger =
        TestLedger::with(&plan(vec![once("pay"), step("z", &[])]), RunPolicy::default());
    let token = ledger.dispatch("pay");
    ledger.report(token, left(Disposition::Landed));
    ledger.propose(&plan(vec![step("z", &[])])).unwrap();
    assert!(ledger.run().questions.is_empty());
    ledger.propose(&plan(vec![once("pay"), step("z", &[])])).unwrap();
    assert_eq!(ledger.status("pay"), StepStatus::OutcomeUnknown);
    resolve(&mut ledger, "pay", ResolvedOutcome::Landed);
    assert_eq!(ledger.status("pay"), StepStatus::Accepted);
}

/// A success that a criterion rejects counts as landed: a person is asked before it is repeated.
#[test]
fn rejected_success_is_not_repeated_unasked() {
    let acceptance = vec![Criterion::Text("the receipt is filed".to_owned())];
    let mut ledger =
        TestLedger::with(&plan(vec![Step { acceptance, ..once("pay") }]), RunPolicy::default());
    let token = ledger.dispatch("pay");
    ledger.report(token, Receipt::default());
    let verdicts = vec![verdict(0, Ruling::Fail, "bob")];
    ledger.execute(Command::Judge { token, verdicts }).unwrap();
    invariants::check(&ledger.state);
    assert_eq!(ledger.status("pay"), StepStatus::Gated);
    assert_eq!(ledger.run().questions.len(), 1);
    reply(&mut ledger, RETRY);
    assert_eq!(ledger.status("pay"), StepStatus::Ready, "a person allowed it");
}

/// With an external decider, an undecided failure has an unknown outcome when its step changes.
#[test]
fn undecided_failure_has_unknown_outcome_when_its_step_changes() {
    let of = |pay: Step| {
        let mut external = plan(vec![pay, step("z", &[])]);
        external.failure.decider = Decider::External;
        external
    };
    let mut ledger = TestLedger::with(&of(once("pay")), RunPolicy::default());
    let token = ledger.dispatch("pay");
    ledger.report(token, left(Disposition::Unknown));
    assert_eq!(ledger.status("pay"), StepStatus::Reported);
    ledger.propose(&of(changed(once("pay")))).unwrap();
    assert_eq!(ledger.status("pay"), StepStatus::OutcomeUnknown);
}

/// A replan as the answer to a landed failure does not repeat the step.
#[test]
fn replan_does_not_repeat_a_landed_failure() {
    for answer in [REPLAN, FAIL] {
        let both = plan(vec![once("pay"), step("z", &[])]);
        let mut ledger = TestLedger::with(&both, RunPolicy::default());
        let token = ledger.dispatch("pay");
        ledger.report(token, left(Disposition::Landed));
        reply(&mut ledger, answer);
        assert_eq!(ledger.status("pay"), StepStatus::Failed);
        ledger.propose(&plan(vec![once("pay"), step("z", &[]), step("y", &[])])).unwrap();
        assert_eq!(ledger.status("pay"), StepStatus::OutcomeUnknown, "{answer}");
    }
}

#[test]
fn landed_failure_is_asked_about_again_by_retry_failed() {
    let mut ledger = TestLedger::with(&plan(vec![once("pay")]), RunPolicy::default());
    let token = ledger.dispatch("pay");
    ledger.report(token, left(Disposition::Landed));
    reply(&mut ledger, FAIL);
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Failed));
    ledger.execute(Command::RetryFailed { run: RUN, by: "ann".to_owned() }).unwrap();
    assert_eq!(ledger.status("pay"), StepStatus::Gated);
    reply(&mut ledger, RETRY);
    assert_eq!(ledger.status("pay"), StepStatus::Ready);
}

/// An idempotent step is dispatched again without a question.
#[test]
fn idempotent_failure_is_dispatched_again() {
    let mut ledger =
        TestLedger::with(&plan(vec![step("a", &[]), step("z", &[])]), RunPolicy::default());
    let token = ledger.dispatch("a");
    let class = FailureClass::Deterministic;
    let disposition = Some(Disposition::Landed);
    ledger.report(token, Receipt { disposition, ..failed(class) });
    assert_eq!(ledger.status("a"), StepStatus::Failed);
    assert_eq!(ledger.step("a").attempt(), None);
    ledger.propose(&plan(vec![changed(step("a", &[])), step("z", &[])])).unwrap();
    assert_eq!(ledger.status("a"), StepStatus::Ready);
}

/// An approved gate does not apply to changed work after an unknown outcome.
#[test]
fn approval_of_old_work_does_not_cover_changed_work() {
    let gate = Some(Gate { question: "Go?".to_owned(), ..Gate::default() }.into());
    let gated = Step { gate, ..once("pay") };
    let mut ledger = TestLedger::with(&plan(vec![gated.clone()]), RunPolicy::default());
    reply(&mut ledger, YES);
    let token = ledger.dispatch("pay");
    ledger.lose(token, LostCause::RunnerDied);
    ledger.propose(&plan(vec![changed(gated)])).unwrap();
    resolve(&mut ledger, "pay", ResolvedOutcome::DidNotHappen);
    assert_eq!(ledger.status("pay"), StepStatus::Gated);
    reply(&mut ledger, YES);
    assert_eq!(ledger.status("pay"), StepStatus::Ready);
}

/// `z` waits for `a` and `b` at a barrier; `a` fails at once.
fn joined(b: Step, more: &[&str]) -> Plan {
    let asks = OnBreak::Ask;
    let join = Barrier { on_break: asks, ..barrier("join", &["a", "b"], BarrierNeeds::All) };
    let once = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }.into());
    let mut steps = vec![Step { retry: once, ..step("a", &[]) }, b, step("z", &["join"])];
    steps.push(step("end", &["z"]));
    steps.extend(more.iter().map(|id| step(id, &[])));
    Plan { barriers: vec![join], ..plan(steps) }
}

fn released_by_a_person() -> TestLedger {
    let mut ledger = TestLedger::with(&joined(step("b", &[]), &[]), RunPolicy::default());
    ledger.complete("b");
    ledger.fail("a", FailureClass::Unknown);
    reply(&mut ledger, RELEASE);
    ledger.complete("z");
    ledger
}

/// A broken barrier that a person released stays released in a version that does not change it.
#[test]
fn barrier_released_by_a_person_stays_released() {
    let mut ledger = released_by_a_person();
    for more in [&["new"][..], &["new", "newer"]] {
        ledger.propose(&joined(step("b", &[]), more)).unwrap();
        assert_eq!(ledger.run().barriers["join"].status, BarrierStatus::Released);
        assert_eq!(ledger.status("z"), StepStatus::Accepted);
        assert_eq!(ledger.status("end"), StepStatus::Ready);
        invariants::check(&ledger.state);
    }
}

#[test]
fn barrier_released_by_a_person_closes_when_it_changes() {
    let mut ledger = released_by_a_person();
    ledger.propose(&joined(changed(step("b", &[])), &[])).unwrap();
    assert_eq!(ledger.run().barriers["join"].status, BarrierStatus::Closed);
    assert_eq!(ledger.status("z"), StepStatus::Waiting);
    let mut ledger = released_by_a_person();
    let mut wider = joined(step("b", &[]), &["c"]);
    wider.barriers[0].members.push("c".to_owned());
    ledger.propose(&wider).unwrap();
    assert_eq!(ledger.run().barriers["join"].status, BarrierStatus::Closed);
    assert_eq!(ledger.status("z"), StepStatus::Waiting);
}

/// The answer to wait for a late barrier holds for later versions as well.
#[test]
fn answered_late_barrier_is_not_asked_again() {
    let late = |more: &[&str]| {
        let mut late = joined(step("b", &[]), more);
        late.barriers[0].deadline_seconds = Some(10);
        late
    };
    let mut ledger = TestLedger::with(&late(&[]), RunPolicy::default());
    ledger.now += 11 * SECOND;
    ledger.execute(Command::Tick).unwrap();
    reply(&mut ledger, WAIT);
    ledger.propose(&late(&["new"])).unwrap();
    ledger.execute(Command::Tick).unwrap();
    assert!(ledger.run().questions.is_empty());
    assert_eq!(ledger.run().barriers["join"].status, BarrierStatus::Broken);
    invariants::check(&ledger.state);
}

fn fork(ledger: &mut TestLedger) -> &Run {
    let parent = Box::new(ledger.run().clone());
    let (name, at_seq, chain) = ("fork".to_owned(), ledger.state.seq, ContentHash::default());
    ledger.execute(Command::ForkRun { name, parent, at_seq, chain, by: String::new() }).unwrap();
    invariants::check(&ledger.state);
    &ledger.state.runs[&RunId(2)]
}

#[test]
fn fork_keeps_a_barrier_released_by_a_person() {
    let mut ledger = released_by_a_person();
    let fork = fork(&mut ledger);
    assert_eq!(fork.barriers["join"].status, BarrierStatus::Released);
    assert!(fork.questions.is_empty());
}

/// A value has the same age in a fork as in its parent, so a value that is too old for a fallback
/// in the parent is too old in the fork.
#[test]
fn value_age_is_inherited_by_a_fork() {
    let stands_in = |fallback| Step {
        fallback: Some(fallback),
        retry: Some(Box::new(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() })),
        ..step("score", &[])
    };
    let max_age_seconds = Some(60);
    let name = "cached".to_owned();
    let fallbacks = [
        Fallback::Variable { name: name.clone(), max_age_seconds },
        Fallback::Value { value: serde_json::json!(7), max_age_seconds },
    ];
    for fallback in fallbacks {
        for (age, decision) in [(60, Decision::Fallback), (61, Decision::Fail)] {
            let both = plan(vec![stands_in(fallback.clone().into()), step("z", &[])]);
            let mut ledger = TestLedger::with(&both, RunPolicy::default());
            ledger.set(&name, 5);
            ledger.now += 40 * SECOND;
            fork(&mut ledger);
            ledger.now += (age - 40) * SECOND;
            let (run, step, worker) = (RunId(2), Some(StepNumber(1)), "w".to_owned());
            ledger
                .execute(Command::Dispatch {
                    process: None,
                    secret: SecretHash::default(),
                    run,
                    step,
                    worker,
                    route: Route::default(),
                    lease: None,
                })
                .unwrap();
            let token = AttemptToken(ledger.state.seq);
            let events = ledger.report(token, failed(FailureClass::Unknown));
            let decided = events.iter().find_map(|event| match event {
                Event::Step(StepRecord { event: StepEvent::FailureDecided(it), .. }) => Some(it),
                _ => None,
            });
            assert_eq!(decided.unwrap().decision, decision, "{fallback:?} after {age} s");
        }
    }
}

/// Copied versions do not count as replans of the fork.
#[test]
fn copied_versions_are_not_replans_of_the_fork() {
    let limited = |steps: Vec<Step>| {
        let mut limited = plan(steps);
        limited.failure.max_replans = Some(1);
        limited
    };
    let mut ledger = TestLedger::with(&limited(vec![step("a", &[])]), RunPolicy::default());
    ledger.propose(&limited(vec![step("a", &[]), step("b", &[])])).unwrap();
    assert_eq!(ledger.run().replans, 1);
    let fork = fork(&mut ledger);
    assert_eq!((fork.replans, fork.active, fork.counters), (0, 2, RunCounters::default()));
    let next = draft(&limited(vec![step("a", &[]), step("c", &[])]));
    let (run, reason, trigger) = (RunId(2), "try".to_owned(), None);
    ledger
        .execute(Command::ProposePlan {
            run,
            draft: next,
            reason,
            trigger,
            approval: ApprovalPolicy::Automatic,
        })
        .unwrap();
    assert_eq!(ledger.state.runs[&run].replans, 1);
}

/// A landed failure that is retried in a run about to be aborted is asked about once more; nothing
/// is dispatched, and the run is aborted.
#[test]
fn retried_failure_in_an_aborting_run_asks_again() {
    let mut ledger = TestLedger::with(&plan(vec![once("a"), step("b", &[])]), RunPolicy::default());
    let other = ledger.dispatch("b");
    let token = ledger.dispatch("a");
    assert_eq!(
        kinds(&ledger.report(token, left(Disposition::Landed))),
        "ReceiptRecorded FailureDecided StepAsked"
    );
    assert_eq!(kinds(&reply(&mut ledger, ABORT)), "StepAnswered FailureDecided");
    assert!(ledger.run().step(ledger.number("a")).unwrap().attempt().is_some());
    let events = ledger.execute(Command::RetryFailed { run: RUN, by: "ben".to_owned() }).unwrap();
    assert_eq!(kinds(&events), "Reopened StepAsked");
    assert_eq!(kinds(&reply(&mut ledger, "retry")), "StepAnswered FailureDecided");
    assert_eq!(ledger.status("a"), StepStatus::Ready);
    assert!(ledger.execute(dispatch_command(None)).is_err(), "nothing is dispatched any more");
    let events = ledger.report(other, Receipt::default());
    assert_eq!(kinds(&events), "ReceiptRecorded Accepted RunEnded");
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Aborted));
    invariants::check(&ledger.state);
}
