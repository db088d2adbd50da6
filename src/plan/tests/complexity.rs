//! The cost of a command does not grow with the size of the plan or the number of runs. Counted in
//! visited steps, not in time.

use std::collections::BTreeMap;

use super::support::*;
use crate::plan::state::links::NAMES_RESOLVED;
use crate::plan::state::run::{LANES_LOOKED_AT, LOOKED_AT};
use crate::plan::*;
use crate::sim::sweep;

/// Executes a command and counts the steps that it visits.
fn counted(ledger: &mut TestLedger, command: Command) -> u64 {
    LOOKED_AT.with(|count| count.set(0));
    ledger.execute(command).unwrap();
    LOOKED_AT.with(std::cell::Cell::get)
}

/// A plan with `size` steps of each kind of blocked step.
fn large_plan(size: usize) -> Plan {
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

/// The most steps that one command visits, for each command, in a run of that size.
fn visited_steps(size: usize) -> Vec<(&'static str, u64)> {
    let mut ledger = TestLedger::with(&large_plan(size), trust());
    // Every step of higher priority fails once and waits.
    for _ in 0..size {
        ledger.execute(dispatch_command(None)).unwrap();
        let token = AttemptToken(ledger.state.seq);
        let key = format!("key{}", token.0);
        ledger
            .execute(Command::IntendEffect {
                proof: Proof::LockHolder,
                token,
                effect: "x".to_owned(),
                key,
            })
            .unwrap();
        let disposition = Some(Disposition::DidNotHappen);
        ledger.report(token, Receipt { disposition, ..failed(FailureClass::Transient) });
        ledger.now += 1000;
    }
    assert_eq!(ledger.run().count(StepStatus::Delayed), u32::try_from(size).unwrap());
    let mut most: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut note = |what, count: u64| {
        let entry = most.entry(what).or_insert(0);
        *entry = count.max(*entry);
    };
    for round in 0..20 {
        note("dispatch", counted(&mut ledger, dispatch_command(None)));
        let token = AttemptToken(ledger.state.seq);
        note(
            "renew",
            counted(&mut ledger, Command::Renew { proof: Proof::LockHolder, token, lease: None }),
        );
        let key = format!("{round}");
        let intent = Command::IntendEffect {
            proof: Proof::LockHolder,
            token,
            effect: "x".to_owned(),
            key: key.clone(),
        };
        note("intend", counted(&mut ledger, intent));
        note(
            "commit",
            counted(&mut ledger, Command::CommitEffect { proof: Proof::LockHolder, token, key }),
        );
        let output = Json::new(&serde_json::json!(round)).into();
        let receipt = Receipt { output, ..Receipt::default() };
        note(
            "receipt",
            counted(
                &mut ledger,
                Command::RecordReceipt { proof: Proof::LockHolder, token, receipt },
            ),
        );
        ledger.execute(dispatch_command(None)).unwrap();
        let token = AttemptToken(ledger.state.seq);
        let (cause, detail) = (LostCause::Released, String::new());
        note(
            "lost",
            counted(
                &mut ledger,
                Command::ReportLost { proof: Proof::LockHolder, token, cause, detail },
            ),
        );
        let (question, asked) = ledger.run().questions.first_key_value().unwrap();
        let (question, shown) = (*question, asked.asked.shown);
        let (answer, by, note_) = (NO.to_owned(), "ann".to_owned(), String::new());
        let answer = Command::Answer { question, answer, by, note: note_, shown };
        note("answer", counted(&mut ledger, answer));
        let (name, value) = (format!("v{round}"), Json::new(&serde_json::json!(0)));
        let (run, by) = (RunId(1), "ann".to_owned());
        let set = Command::SetVariable {
            run,
            name,
            value,
            expected_version: None,
            origin: Origin::person(by),
        };
        note("set", counted(&mut ledger, set));
        // One delay has elapsed.
        ledger.now = ledger.state.next_due().unwrap();
        note("tick", counted(&mut ledger, Command::Tick));
        let token = ledger.dispatch(&format!("late{round}"));
        ledger.report(token, Receipt::default());
    }
    most.into_iter().collect()
}

/// Commands visit the same number of steps in a plan sixteen times as large.
#[test]
fn commands_visit_no_more_steps_in_a_larger_plan() {
    let (small, large) = (visited_steps(100), visited_steps(1600));
    assert_eq!(small, large);
    assert!(small.iter().all(|(_, count)| (1..=100).contains(count)), "{small:?}");
}

/// Commands visit no step of other runs, and a retiring run releases only its own tokens.
#[test]
fn commands_do_not_depend_on_the_number_of_runs() {
    let all = plan(vec![step("a", &[]), step("b", &["a"])]);
    let visited_steps = |runs: u32| {
        let mut ledger = TestLedger::new();
        for number in 0..runs {
            let (name, policy) = (format!("run{number}"), trust());
            ledger
                .execute(Command::StartRun {
                    name,
                    policy,
                    reason: String::new(),
                    draft: draft(&all),
                    inputs: BTreeMap::new(),
                })
                .unwrap();
        }
        let mut counts = Vec::new();
        for run in (1..=runs).map(RunId).rev().take(70) {
            for _ in 0..2 {
                let worker = "w".to_owned();
                counts.push(counted(
                    &mut ledger,
                    Command::Dispatch {
                        process: None,
                        secret: SecretHash::default(),
                        run,
                        step: None,
                        worker,
                        route: Route::default(),
                        lease: None,
                    },
                ));
                let (token, receipt) = (AttemptToken(ledger.state.seq), Receipt::default());
                counts.push(counted(
                    &mut ledger,
                    Command::RecordReceipt { proof: Proof::LockHolder, token, receipt },
                ));
            }
        }
        assert_eq!(
            ledger.state.dispatched.len(),
            2 * ENDED_KEPT,
            "retired runs released their tokens"
        );
        counts
    };
    assert_eq!(visited_steps(70), visited_steps(1000));
}

/// A plan in which every step of a second layer depends on every step of a first one.
fn layered_plan(width: usize) -> Plan {
    let first: Vec<String> = (0..width).map(|number| format!("a{number}")).collect();
    let first: Vec<&str> = first.iter().map(String::as_str).collect();
    let mut steps: Vec<Step> = first.iter().map(|id| step(id, &[])).collect();
    steps.extend((0..width).map(|number| step(&format!("b{number}"), &first)));
    plan(steps)
}

/// The start of a run looks up each name in a list of dependencies once, and visits few steps for each.
/// It used to look up each name three times, and to compare ids at every dependency.
#[test]
fn start_looks_up_each_dependency_once() {
    for width in [10_u64, 100] {
        NAMES_RESOLVED.with(|count| count.set(0));
        LOOKED_AT.with(|count| count.set(0));
        let plan = layered_plan(usize::try_from(width).unwrap());
        let ledger = TestLedger::with(&plan, trust());
        assert_eq!(NAMES_RESOLVED.with(std::cell::Cell::get), width * width);
        let looked = LOOKED_AT.with(std::cell::Cell::get);
        assert!(looked < 3 * width * width + 200 * width, "{looked} steps, {width} wide");
        super::invariants::check(&ledger.state);
    }
}

/// A receipt looks at no step that waits for others as well. It used to visit each several times.
#[test]
fn receipt_does_not_visit_steps_that_still_wait() {
    let mut ledger = TestLedger::with(&layered_plan(100), trust());
    let token = ledger.dispatch("a0");
    let proof = Proof::LockHolder;
    let report = Command::RecordReceipt { proof, token, receipt: Receipt::default() };
    assert!(counted(&mut ledger, report) < 100);
    assert_eq!(ledger.step("b0").unmet, 99);
}

fn waiting(id: &str, precondition: &str) -> Step {
    Step { preconditions: vec![precondition.to_owned()].into(), ..step(id, &[]) }
}

/// A second step that also requests a replan is settled as well. It used to stay in the list of
/// pending steps, and the run stopped.
#[test]
fn second_replan_request_does_not_block_the_run() {
    let all = plan(vec![waiting("one", "x > 1"), waiting("two", "x > 2"), step("work", &[])]);
    let mut ledger = TestLedger::with(&all, trust());
    assert!(ledger.run().request.is_some() && ledger.run().pending_steps.is_empty());
    ledger.complete("work");
    assert_eq!(ledger.status("work"), StepStatus::Accepted);
}

/// A precondition fails permanently once the last step that could set its variable is closed. The
/// step used to wait permanently.
#[test]
fn precondition_fails_with_its_last_writer() {
    let mut writer = step("writer", &[]);
    writer.outputs = vec!["x".to_owned()];
    let mut ledger = TestLedger::with(&plan(vec![waiting("waits", "x > 1"), writer]), trust());
    assert_eq!(ledger.run().request, None);
    let (run, step) = (RunId(1), ledger.number("writer"));
    let (by, reason) = ("ann".to_owned(), "not needed".to_owned());
    ledger.execute(Command::Skip { run, step, by, reason }).unwrap();
    let request = ledger.run().request.clone().expect("no step is left that could set x");
    assert_eq!(request.from, Some(ledger.number("waits")));
}

/// A precondition over the map of all variables is judged again when any of them is set.
#[test]
fn precondition_over_all_variables_is_rejudged() {
    let mut writer = step("writer", &[]);
    writer.outputs = vec!["odd-name".to_owned()];
    let all =
        plan(vec![waiting("waits", "has(variables.x) && variables['odd-name'] == 7"), writer]);
    let mut ledger = TestLedger::with(&all, trust());
    ledger.set("x", 1);
    assert_eq!(ledger.status("waits"), StepStatus::Waiting);
    ledger.set("odd-name", 7);
    assert_eq!(ledger.status("waits"), StepStatus::Ready);
}

/// A fork of a large run has the same counts and keeps the invariants.
#[test]
fn fork_of_a_large_run_keeps_the_invariants() {
    let mut ledger = TestLedger::with(&large_plan(20), trust());
    for number in 0..15 {
        ledger.complete(&format!("work{number}"));
    }
    ledger.fail("late1", FailureClass::Deterministic);
    let parent = Box::new(ledger.run().clone());
    let (name, at_seq, chain) = ("fork".to_owned(), ledger.state.seq, ContentHash::default());
    ledger.execute(Command::ForkRun { name, parent, at_seq, chain, by: String::new() }).unwrap();
    super::invariants::check(&ledger.state);
    let fork = &ledger.state.runs[&RunId(2)];
    for status in [StepStatus::Accepted, StepStatus::Failed, StepStatus::Waiting] {
        assert_eq!(fork.count(status), ledger.run().count(status), "{status}");
    }
    assert_eq!(fork.barriers["all"].arrived.len(), 15);
}

/// A claim visits no step of a lane whose cap is reached, for any number of steps and any position
/// in the queue.
#[test]
fn sweep_claim_does_not_visit_steps_in_a_lane_whose_cap_is_reached() {
    let tagged = |n: usize, tag: &str| Step {
        tags: vec![tag.to_owned()].into(),
        owner: Some(format!("owner{}", n % 3)),
        priority: 1,
        ..step(&format!("gpu{n}"), &[])
    };
    let capped = sweep(20_000, 99_000, 99_000);
    let mut steps: Vec<Step> = (0..capped).map(|n| tagged(n, "gpu")).collect();
    steps.extend((0..1_000).map(|n| step(&format!("free{n}"), &[])));
    let mut plan = plan(steps);
    plan.caps.tags = [("gpu".to_owned(), 1)].into();
    let mut ledger = TestLedger::with(&plan, RunPolicy::default());
    ledger.execute(dispatch_command(None)).unwrap();
    for _ in 0..1_000 {
        LANES_LOOKED_AT.with(|count| count.set(0));
        LOOKED_AT.with(|count| count.set(0));
        let events = ledger.execute(dispatch_command(None)).unwrap();
        let Event::Step(record) = &events[0] else { panic!("{events:?}") };
        assert!(usize::try_from(record.step.0).unwrap() > capped, "the cap is full");
        // The lanes of the tag: one for each owner, and one without an owner.
        let lanes = LANES_LOOKED_AT.with(std::cell::Cell::get);
        let looked = LOOKED_AT.with(std::cell::Cell::get);
        assert!(lanes <= 4 && looked < 40, "{lanes} lanes, {looked} steps");
    }
    let full = ledger.execute(dispatch_command(None)).unwrap_err();
    assert_eq!(full.name(), "cap_reached");
    super::invariants::check(&ledger.state);
}
