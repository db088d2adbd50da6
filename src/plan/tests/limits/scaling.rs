//! Nothing on the way of a dispatch or a receipt grows with the size of the plan or the number
//! of runs: counted, not timed, by how often a step is looked at.

use std::collections::BTreeMap;

use crate::plan::state::run::{LANES_LOOKED_AT, LOOKED_AT};
use crate::plan::tests::support::*;
use crate::plan::*;

/// A command, and how often a step was looked at for it.
fn counted(world: &mut World, command: Command) -> u64 {
    LOOKED_AT.with(|count| count.set(0));
    world.ask(command).unwrap();
    LOOKED_AT.with(std::cell::Cell::get)
}

/// A plan in which so many steps of every kind wait for something.
fn crowded(size: usize) -> Plan {
    let gate = Gate { question: "go?".to_owned(), ..Gate::default() };
    let retry = RetryPolicy { max_attempts: 9, backoff_seconds: 60, ..RetryPolicy::default() };
    let work = |kind: &str, number: usize| Step {
        outputs: vec![format!("v{number}")],
        tags: vec!["gpu".to_owned()].into(),
        owner: Some(format!("o{}", number % 7)),
        retry: Some(Box::new(retry.clone())),
        idempotent: Some(Idempotence::No),
        ..step(&format!("{kind}{number}"), &[])
    };
    let mut steps = Vec::new();
    for number in 0..size {
        steps.push(work("work", number));
        steps.push(Step { priority: 1, ..work("late", number) });
        steps.push(Step {
            gate: Some(Box::new(gate.clone())),
            ..step(&format!("gate{number}"), &[])
        });
        let mut waits = step(&format!("wait{number}"), &[]);
        waits.preconditions = vec![format!("v{number} > 1")].into();
        steps.push(waits);
    }
    let members: Vec<String> = (0..size).map(|number| format!("work{number}")).collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let mut all = plan(steps);
    all.barriers.push(barrier("all", &members, BarrierNeeds::All));
    all.steps.push(step("end", &["all"]));
    all.caps.tags.insert("gpu".to_owned(), u32::MAX);
    all
}

/// The most steps that one command looked at, for each kind of command, in a crowded run.
fn looked_at(size: usize) -> Vec<(&'static str, u64)> {
    let mut world = World::with(&crowded(size), trust());
    // Every step of higher priority fails once and waits.
    for _ in 0..size {
        world.ask(dispatch(None)).unwrap();
        let token = AttemptToken(world.state.seq);
        let key = format!("key{}", token.0);
        world.ask(Command::IntendEffect { token, effect: "x".to_owned(), key }).unwrap();
        let disposition = Some(Disposition::DidNotHappen);
        world.report(token, Receipt { disposition, ..failed(FailureClass::Transient) });
        world.now += 1000;
    }
    assert_eq!(world.run().count(StepStatus::Delayed), u32::try_from(size).unwrap());
    let mut most: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut note = |what, count: u64| {
        let entry = most.entry(what).or_insert(0);
        *entry = count.max(*entry);
    };
    for round in 0..20 {
        note("dispatch", counted(&mut world, dispatch(None)));
        let token = AttemptToken(world.state.seq);
        note("renew", counted(&mut world, Command::Renew { token, lease: None }));
        let key = format!("{round}");
        let intent = Command::IntendEffect { token, effect: "x".to_owned(), key: key.clone() };
        note("intend", counted(&mut world, intent));
        note("commit", counted(&mut world, Command::CommitEffect { token, key }));
        let output = Json::new(&serde_json::json!(round)).into();
        let receipt = Receipt { output, ..Receipt::default() };
        note("receipt", counted(&mut world, Command::RecordReceipt { token, receipt }));
        world.ask(dispatch(None)).unwrap();
        let token = AttemptToken(world.state.seq);
        let (cause, detail) = (LostCause::Released, String::new());
        note("lost", counted(&mut world, Command::ReportLost { token, cause, detail }));
        let (question, asked) = world.run().questions.first_key_value().unwrap();
        let (question, shown) = (*question, asked.asked.shown);
        let (answer, by, note_) = (NO.to_owned(), "ann".to_owned(), String::new());
        let answer = Command::Answer { question, answer, by, note: note_, shown };
        note("answer", counted(&mut world, answer));
        let (name, value) = (format!("v{round}"), Json::new(&serde_json::json!(0)));
        let (run, by) = (RunId(1), "ann".to_owned());
        let set = Command::SetVariable { run, name, value, expected_version: None, by };
        note("set", counted(&mut world, set));
        // One wait is over.
        world.now = world.state.next_due().unwrap();
        note("tick", counted(&mut world, Command::Tick));
        let token = world.deal(&format!("late{round}"));
        world.report(token, Receipt::default());
    }
    most.into_iter().collect()
}

/// Goal: a plan of sixteen times as many steps costs a command not one look more.
#[test]
fn no_command_looks_at_more_steps_in_a_larger_plan() {
    let (small, large) = (looked_at(100), looked_at(1600));
    assert_eq!(small, large);
    assert!(small.iter().all(|(_, count)| (1..=100).contains(count)), "{small:?}");
}

/// Goal: the other runs of a ledger cost a command nothing, and a run that retires only its own.
#[test]
fn a_thousand_live_runs_cost_a_command_nothing() {
    let all = plan(vec![step("a", &[]), step("b", &["a"])]);
    let looked_at = |runs: u32| {
        let mut world = World::new();
        for number in 0..runs {
            let (name, policy) = (format!("run{number}"), trust());
            world.ask(Command::StartRun { name, policy, draft: draft(&all) }).unwrap();
        }
        let mut counts = Vec::new();
        for run in (1..=runs).map(RunId).rev().take(70) {
            for _ in 0..2 {
                let worker = "w".to_owned();
                counts.push(counted(
                    &mut world,
                    Command::Dispatch { run, step: None, worker, lease: None },
                ));
                let (token, receipt) = (AttemptToken(world.state.seq), Receipt::default());
                counts.push(counted(&mut world, Command::RecordReceipt { token, receipt }));
            }
        }
        assert_eq!(world.state.dealt.len(), 2 * ENDED_KEPT, "retired runs took theirs along");
        counts
    };
    assert_eq!(looked_at(70), looked_at(1000));
}

fn waiting(id: &str, precondition: &str) -> Step {
    Step { preconditions: vec![precondition.to_owned()].into(), ..step(id, &[]) }
}

/// The request of the first of two steps left the second on the list of what is due, with nothing
/// that followed from it: nothing else of the run was ever looked at again.
#[test]
fn a_second_step_that_would_ask_for_another_plan_does_not_stop_the_run() {
    let all = plan(vec![waiting("one", "x > 1"), waiting("two", "x > 2"), step("work", &[])]);
    let mut world = World::with(&all, trust());
    assert!(world.run().request.is_some() && world.run().due.is_empty());
    world.work("work");
    assert_eq!(world.status("work"), StepStatus::Accepted);
}

/// A step that waited for a variable was looked at again only when the variable was set: once the
/// last step that could have set it was skipped, it waited for ever.
#[test]
fn a_precondition_is_false_for_good_once_its_last_writer_is_over() {
    let mut writer = step("writer", &[]);
    writer.outputs = vec!["x".to_owned()];
    let mut world = World::with(&plan(vec![waiting("waits", "x > 1"), writer]), trust());
    assert_eq!(world.run().request, None);
    let (run, step) = (RunId(1), world.number("writer"));
    let (by, reason) = ("ann".to_owned(), "not needed".to_owned());
    world.ask(Command::Skip { run, step, by, reason }).unwrap();
    let request = world.run().request.clone().expect("nothing is left that could set x");
    assert_eq!(request.from, Some(world.number("waits")));
}

/// A precondition over the map of all variables was judged once, and never again.
#[test]
fn a_precondition_over_all_variables_is_judged_again_when_any_is_set() {
    let mut writer = step("writer", &[]);
    writer.outputs = vec!["odd-name".to_owned()];
    let all =
        plan(vec![waiting("waits", "has(variables.x) && variables['odd-name'] == 7"), writer]);
    let mut world = World::with(&all, trust());
    let set = |world: &mut World, name: &str, value: u32| {
        let (name, value) = (name.to_owned(), Json::new(&serde_json::json!(value)));
        let (run, by) = (RunId(1), "ann".to_owned());
        let set = Command::SetVariable { run, name, value, expected_version: None, by };
        world.ask(set).unwrap();
    };
    set(&mut world, "x", 1);
    assert_eq!(world.status("waits"), StepStatus::Waiting);
    set(&mut world, "odd-name", 7);
    assert_eq!(world.status("waits"), StepStatus::Ready);
}

/// Goal: what a fork inherits is entered step by step, and its books balance all the same.
#[test]
fn a_fork_of_a_crowded_run_has_books_that_balance() {
    let mut world = World::with(&crowded(20), trust());
    for number in 0..15 {
        world.work(&format!("work{number}"));
    }
    world.fail("late1", FailureClass::Deterministic);
    let parent = Box::new(world.run().clone());
    let (name, at_seq, chain) = ("fork".to_owned(), world.state.seq, ContentHash::default());
    world.ask(Command::ForkRun { name, parent, at_seq, chain }).unwrap();
    crate::plan::tests::invariants::check(&world.state);
    let fork = &world.state.runs[&RunId(2)];
    for status in [StepStatus::Accepted, StepStatus::Failed, StepStatus::Waiting] {
        assert_eq!(fork.count(status), world.run().count(status), "{status}");
    }
    assert_eq!(fork.barriers["all"].arrived.len(), 15);
}

/// Goal: what stands behind a full cap costs a claim nothing, however much it is and wherever it
/// stands in the queue.
#[test]
fn a_claim_does_not_look_at_what_a_full_cap_holds_back() {
    let tagged = |n: usize, tag: &str| Step {
        tags: vec![tag.to_owned()].into(),
        owner: Some(format!("owner{}", n % 3)),
        priority: 1,
        ..step(&format!("gpu{n}"), &[])
    };
    let mut steps: Vec<Step> = (0..99_000).map(|n| tagged(n, "gpu")).collect();
    steps.extend((0..1_000).map(|n| step(&format!("free{n}"), &[])));
    let mut capped = plan(steps);
    capped.caps.tags = [("gpu".to_owned(), 1)].into();
    let mut world = World::with(&capped, RunPolicy::default());
    world.ask(dispatch(None)).unwrap();
    for _ in 0..1_000 {
        LANES_LOOKED_AT.with(|count| count.set(0));
        LOOKED_AT.with(|count| count.set(0));
        let events = world.ask(dispatch(None)).unwrap();
        let Event::Step(record) = &events[0] else { panic!("{events:?}") };
        assert!(record.step.0 > 99_000, "the cap is full");
        // Three lanes of the tag, one for each owner, and the one of the others.
        let lanes = LANES_LOOKED_AT.with(std::cell::Cell::get);
        let looked = LOOKED_AT.with(std::cell::Cell::get);
        assert!(lanes <= 4 && looked < 40, "{lanes} lanes, {looked} steps");
    }
    let full = world.ask(dispatch(None)).unwrap_err();
    assert_eq!(full.name(), "cap_reached");
    crate::plan::tests::invariants::check(&world.state);
}
