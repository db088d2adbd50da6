//! What outlives a plan version: what an attempt did to the world, what people said, and how old
//! things are.

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

/// A failure after which that is known of the world.
fn left(disposition: Disposition) -> Receipt {
    Receipt { disposition: Some(disposition), ..failed(FailureClass::Unknown) }
}

fn reply(world: &mut World, answer: &str) -> Vec<Event> {
    let (question, asked) = world.run().questions.iter().next().unwrap();
    let (question, shown) = (*question, asked.asked.shown);
    let (answer, by, note) = (answer.to_owned(), "ann".to_owned(), String::new());
    let events = world.ask(Command::Answer { question, answer, by, note, shown }).unwrap();
    invariants::check(&world.state);
    events
}

fn resolve(world: &mut World, id: &str, finding: Finding) {
    let (step, by, evidence) = (world.number(id), "ann".to_owned(), String::new());
    world.ask(Command::ResolveDoubt { run: RUN, step, finding, by, evidence }).unwrap();
    invariants::check(&world.state);
}

/// A step that was in doubt left the plan, came back, and was dealt as if nothing had happened.
#[test]
fn a_step_that_was_removed_in_doubt_asks_when_it_comes_back() {
    for is_lost_before in [Ok(LostCause::RunnerDied), Err("in flight when it is removed")] {
        let mut world = World::with(&plan(vec![once("pay"), step("z", &[])]), RunPolicy::default());
        let token = world.deal("pay");
        if let Ok(cause) = is_lost_before {
            world.ask(Command::ReportLost { token, cause, detail: String::new() }).unwrap();
        }
        world.propose(&plan(vec![step("z", &[])])).unwrap();
        assert_eq!(world.status("pay"), StepStatus::Removed);
        // Nor does a version in between forget it.
        world.propose(&plan(vec![step("z", &[]), step("y", &[])])).unwrap();
        world.propose(&plan(vec![changed(once("pay")), step("z", &[])])).unwrap();
        assert_eq!(world.status("pay"), StepStatus::InDoubt);
        assert!(matches!(world.try_deal("pay"), Err(Rejection::NotReady(..))));
        resolve(&mut world, "pay", Finding::DidNotHappen);
        assert_eq!(world.status("pay"), StepStatus::Ready);
    }
}

/// Somebody was asked about a failed attempt that had landed; a new version took the question
/// away, and the step was dealt again.
#[test]
fn a_failure_that_landed_is_asked_about_again_when_its_step_changes() {
    let mut world = World::with(&plan(vec![once("pay"), step("z", &[])]), RunPolicy::default());
    let token = world.deal("pay");
    world.report(token, left(Disposition::Landed));
    assert_eq!(world.status("pay"), StepStatus::Gated);
    let first = *world.run().questions.keys().next().unwrap();
    world.propose(&plan(vec![changed(once("pay")), step("z", &[])])).unwrap();
    assert_eq!(world.status("pay"), StepStatus::Gated);
    let (second, question) = world.run().questions.iter().next().unwrap();
    assert!(*second > first, "it shows what the step is now");
    assert_eq!(Some(question.asked.shown), world.run().step_hash(StepNumber(1)));
    reply(&mut world, RETRY);
    assert_eq!(world.status("pay"), StepStatus::Ready, "somebody says so");
}

#[test]
fn a_failure_that_landed_and_was_removed_is_in_doubt_when_it_comes_back() {
    let mut world = World::with(&plan(vec![once("pay"), step("z", &[])]), RunPolicy::default());
    let token = world.deal("pay");
    world.report(token, left(Disposition::Landed));
    world.propose(&plan(vec![step("z", &[])])).unwrap();
    assert!(world.run().questions.is_empty());
    world.propose(&plan(vec![once("pay"), step("z", &[])])).unwrap();
    assert_eq!(world.status("pay"), StepStatus::InDoubt);
    resolve(&mut world, "pay", Finding::Landed);
    assert_eq!(world.status("pay"), StepStatus::Accepted);
}

/// A payment was made and reported, and a criterion found fault with it: it was made again, and
/// once more. Whoever says that it is done says that it landed, and somebody is asked.
#[test]
fn a_success_that_a_criterion_rejects_is_not_repeated_unasked() {
    let acceptance = vec![Criterion::Text("the receipt is filed".to_owned())];
    let mut world =
        World::with(&plan(vec![Step { acceptance, ..once("pay") }]), RunPolicy::default());
    let token = world.deal("pay");
    world.report(token, Receipt::default());
    let verdicts = vec![verdict(0, Ruling::Fail, "bob")];
    world.ask(Command::Judge { token, verdicts }).unwrap();
    invariants::check(&world.state);
    assert_eq!(world.status("pay"), StepStatus::Gated);
    assert_eq!(world.run().questions.len(), 1);
    reply(&mut world, RETRY);
    assert_eq!(world.status("pay"), StepStatus::Ready, "somebody says so");
}

/// Where somebody else decides about failures, one that nobody had decided about was forgotten.
#[test]
fn a_failure_that_nobody_decided_about_is_in_doubt_when_its_step_changes() {
    let of = |pay: Step| {
        let mut external = plan(vec![pay, step("z", &[])]);
        external.failure.decider = Decider::External;
        external
    };
    let mut world = World::with(&of(once("pay")), RunPolicy::default());
    let token = world.deal("pay");
    world.report(token, left(Disposition::InDoubt));
    assert_eq!(world.status("pay"), StepStatus::Reported);
    world.propose(&of(changed(once("pay")))).unwrap();
    assert_eq!(world.status("pay"), StepStatus::InDoubt);
}

/// The answer to a failure that had landed was "make another plan", and that plan did the work a
/// second time.
#[test]
fn a_new_plan_does_not_repeat_a_failure_that_landed() {
    for answer in [REPLAN, FAIL] {
        let both = plan(vec![once("pay"), step("z", &[])]);
        let mut world = World::with(&both, RunPolicy::default());
        let token = world.deal("pay");
        world.report(token, left(Disposition::Landed));
        reply(&mut world, answer);
        assert_eq!(world.status("pay"), StepStatus::Failed);
        world.propose(&plan(vec![once("pay"), step("z", &[]), step("y", &[])])).unwrap();
        assert_eq!(world.status("pay"), StepStatus::InDoubt, "{answer}");
    }
}

#[test]
fn a_failure_that_landed_is_asked_about_again_when_all_is_retried() {
    let mut world = World::with(&plan(vec![once("pay")]), RunPolicy::default());
    let token = world.deal("pay");
    world.report(token, left(Disposition::Landed));
    reply(&mut world, FAIL);
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Failed));
    world.ask(Command::RetryFailed { run: RUN, by: "ann".to_owned() }).unwrap();
    assert_eq!(world.status("pay"), StepStatus::Gated);
    reply(&mut world, RETRY);
    assert_eq!(world.status("pay"), StepStatus::Ready);
}

/// What may be done twice is dealt again, as ever.
#[test]
fn a_failure_that_may_be_repeated_is_not_held() {
    let mut world = World::with(&plan(vec![step("a", &[]), step("z", &[])]), RunPolicy::default());
    let token = world.deal("a");
    let class = FailureClass::Deterministic;
    let disposition = Some(Disposition::Landed);
    world.report(token, Receipt { disposition, ..failed(class) });
    assert_eq!(world.status("a"), StepStatus::Failed);
    assert_eq!(world.step("a").attempt(), None);
    world.propose(&plan(vec![changed(step("a", &[])), step("z", &[])])).unwrap();
    assert_eq!(world.status("a"), StepStatus::Ready);
}

/// A gate was opened for a step that then was in doubt and changed: the yes to the old work let
/// the new work through.
#[test]
fn a_yes_to_old_work_in_doubt_is_none_to_the_new() {
    let gate = Some(Gate { question: "Go?".to_owned(), ..Gate::default() }.into());
    let gated = Step { gate, ..once("pay") };
    let mut world = World::with(&plan(vec![gated.clone()]), RunPolicy::default());
    reply(&mut world, YES);
    let token = world.deal("pay");
    let cause = LostCause::RunnerDied;
    world.ask(Command::ReportLost { token, cause, detail: String::new() }).unwrap();
    world.propose(&plan(vec![changed(gated)])).unwrap();
    resolve(&mut world, "pay", Finding::DidNotHappen);
    assert_eq!(world.status("pay"), StepStatus::Gated);
    reply(&mut world, YES);
    assert_eq!(world.status("pay"), StepStatus::Ready);
}

/// `z` waits for `a` and `b`, of which `a` fails at once.
fn joined(b: Step, more: &[&str]) -> Plan {
    let asks = OnBreak::Ask;
    let join = Barrier { on_break: asks, ..barrier("join", &["a", "b"], BarrierNeeds::All) };
    let once = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }.into());
    let mut steps = vec![Step { retry: once, ..step("a", &[]) }, b, step("z", &["join"])];
    steps.push(step("end", &["z"]));
    steps.extend(more.iter().map(|id| step(id, &[])));
    Plan { barriers: vec![join], ..plan(steps) }
}

fn let_go() -> World {
    let mut world = World::with(&joined(step("b", &[]), &[]), RunPolicy::default());
    world.work("b");
    world.fail("a", FailureClass::Unknown);
    reply(&mut world, RELEASE);
    world.work("z");
    world
}

/// Somebody let go what waited for a broken barrier; a new version that said nothing else of it
/// closed it again, and took back what had passed.
#[test]
fn a_barrier_that_somebody_let_go_stays_so_in_a_new_version() {
    let mut world = let_go();
    for more in [&["new"][..], &["new", "newer"]] {
        world.propose(&joined(step("b", &[]), more)).unwrap();
        assert_eq!(world.run().barriers["join"].status, BarrierStatus::Released);
        assert_eq!(world.status("z"), StepStatus::Accepted);
        assert_eq!(world.status("end"), StepStatus::Ready);
        invariants::check(&world.state);
    }
}

#[test]
fn a_barrier_that_somebody_let_go_closes_when_what_they_saw_changes() {
    let mut world = let_go();
    world.propose(&joined(changed(step("b", &[])), &[])).unwrap();
    assert_eq!(world.run().barriers["join"].status, BarrierStatus::Closed);
    assert_eq!(world.status("z"), StepStatus::Waiting);
    let mut world = let_go();
    let mut wider = joined(step("b", &[]), &["c"]);
    wider.barriers[0].members.push("c".to_owned());
    world.propose(&wider).unwrap();
    assert_eq!(world.run().barriers["join"].status, BarrierStatus::Closed);
    assert_eq!(world.status("z"), StepStatus::Waiting);
}

/// Somebody said to wait for a barrier that was late, and was asked the same after every version.
#[test]
fn whoever_waits_for_a_late_barrier_is_not_asked_again() {
    let late = |more: &[&str]| {
        let mut late = joined(step("b", &[]), more);
        late.barriers[0].deadline_seconds = Some(10);
        late
    };
    let mut world = World::with(&late(&[]), RunPolicy::default());
    world.now += 11 * SECOND;
    world.ask(Command::Tick).unwrap();
    reply(&mut world, WAIT);
    world.propose(&late(&["new"])).unwrap();
    world.ask(Command::Tick).unwrap();
    assert!(world.run().questions.is_empty());
    assert_eq!(world.run().barriers["join"].status, BarrierStatus::Broken);
    invariants::check(&world.state);
}

fn fork(world: &mut World) -> &Run {
    let parent = Box::new(world.run().clone());
    let (name, at_seq, chain) = ("fork".to_owned(), world.state.seq, ContentHash::default());
    world.ask(Command::ForkRun { name, parent, at_seq, chain }).unwrap();
    invariants::check(&world.state);
    &world.state.runs[&RunId(2)]
}

#[test]
fn a_fork_goes_on_behind_a_barrier_that_somebody_let_go() {
    let mut world = let_go();
    let fork = fork(&mut world);
    assert_eq!(fork.barriers["join"].status, BarrierStatus::Released);
    assert!(fork.questions.is_empty());
}

/// A fork took its variables, and the plan's own values, for new: what was too old to stand in for
/// a step in the parent stood in for it in the fork.
#[test]
fn what_is_too_old_in_a_run_is_too_old_in_its_fork() {
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
            let mut world = World::with(&both, RunPolicy::default());
            let (value, by) = (Json::new(&serde_json::json!(5)), "ann".to_owned());
            let (name, expected_version) = (name.clone(), None);
            let set = Command::SetVariable { run: RUN, name, value, expected_version, by };
            world.ask(set).unwrap();
            world.now += 40 * SECOND;
            fork(&mut world);
            world.now += (age - 40) * SECOND;
            let (run, step, worker) = (RunId(2), Some(StepNumber(1)), "w".to_owned());
            world.ask(Command::Dispatch { run, step, worker, lease: None }).unwrap();
            let token = AttemptToken(world.state.seq);
            let events = world.report(token, failed(FailureClass::Unknown));
            let decided = events.iter().find_map(|event| match event {
                Event::Step(StepRecord { event: StepEvent::FailureDecided(it), .. }) => Some(it),
                _ => None,
            });
            assert_eq!(decided.unwrap().decision, decision, "{fallback:?} after {age} s");
        }
    }
}

/// The versions that a fork copies counted as replans of its own, up to its plan's limit.
#[test]
fn copied_versions_are_no_replans_of_the_fork() {
    let limited = |steps: Vec<Step>| {
        let mut limited = plan(steps);
        limited.failure.max_replans = Some(1);
        limited
    };
    let mut world = World::with(&limited(vec![step("a", &[])]), RunPolicy::default());
    world.propose(&limited(vec![step("a", &[]), step("b", &[])])).unwrap();
    assert_eq!(world.run().replans, 1);
    let fork = fork(&mut world);
    assert_eq!((fork.replans, fork.active, fork.tally), (0, 2, Tally::default()));
    let next = draft(&limited(vec![step("a", &[]), step("c", &[])]));
    let (run, reason, trigger) = (RunId(2), "try".to_owned(), None);
    world
        .ask(Command::ProposePlan {
            run,
            draft: next,
            reason,
            trigger,
            approval: ApprovalPolicy::Automatic,
        })
        .unwrap();
    assert_eq!(world.state.runs[&run].replans, 1);
}

/// Somebody has a run aborted, and somebody else lets what failed be tried again before the run is
/// over: what the attempt did is asked about once more, nothing is dealt, and the run is aborted
/// all the same.
#[test]
fn what_failed_is_asked_about_again_in_a_run_that_is_about_to_be_aborted() {
    let mut world = World::with(&plan(vec![once("a"), step("b", &[])]), RunPolicy::default());
    let other = world.deal("b");
    let token = world.deal("a");
    assert_eq!(
        kinds(&world.report(token, left(Disposition::Landed))),
        "ReceiptRecorded FailureDecided Asked"
    );
    assert_eq!(kinds(&reply(&mut world, ABORT)), "Answered FailureDecided");
    assert!(world.run().step(world.number("a")).unwrap().attempt().is_some());
    let events = world.ask(Command::RetryFailed { run: RUN, by: "ben".to_owned() }).unwrap();
    assert_eq!(kinds(&events), "Reopened Asked");
    assert_eq!(kinds(&reply(&mut world, "retry")), "Answered FailureDecided");
    assert_eq!(world.status("a"), StepStatus::Ready);
    assert!(world.ask(dispatch(None)).is_err(), "nothing is dealt any more");
    let events = world.report(other, Receipt::default());
    assert_eq!(kinds(&events), "ReceiptRecorded Accepted RunEnded");
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Aborted));
    invariants::check(&world.state);
}
