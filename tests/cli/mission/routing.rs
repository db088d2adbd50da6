//! Routing: owners and tags decide which worker gets a step, and people get theirs.

use crate::command::{Place, start};

/// Steps of two roles, of a person, and of no owner.
const PLAN: &str = "\
steps:
  - {id: draft, owner: writer}
  - {id: check, owner: tester, tags: [gpu]}
  - {id: sign, owner: human, outputs: [approved]}
  - {id: file}
";

fn claimed(place: &Place, args: &str) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let lines = place.ledger(&format!("claim plan --worker w --json {args}")).lines();
        let Some(task) = lines.iter().find(|line| line["type"] == "task") else { return ids };
        ids.push(task["step"]["id"].as_str().unwrap().to_owned());
    }
}

// S12, S23: `owner` routes.

#[test]
fn s12_owner_and_tag_select_the_steps_of_a_worker() {
    assert_eq!(claimed(&Place::planned(PLAN), ""), ["draft", "check", "file"]);
    assert_eq!(claimed(&Place::planned(PLAN), "--owner tester"), ["check", "file"]);
    assert_eq!(claimed(&Place::planned(PLAN), "--owner human"), ["sign"]);
    assert_eq!(claimed(&Place::planned(PLAN), "--tag gpu"), ["check"]);
    let both = "--owner writer --owner tester --tag gpu --tag other";
    assert_eq!(claimed(&Place::planned(PLAN), both), ["check"]);
    let place = Place::planned(PLAN);
    place.ledger("claim plan --worker w --owner ops --json").code(0);
    let nothing = place.ledger("claim plan --worker w --owner ops --json").code(3);
    assert_eq!(nothing.lines()[0]["reason"], "none_for_worker");
    nothing.complains(&["3 steps are ready (owners: human, tester, writer), but none"]);
}

#[test]
fn s12_claim_of_another_roles_step_is_refused_by_name() {
    let place = Place::planned(PLAN);
    let refused = place.ledger("claim plan --worker w --step draft --owner tester").code(6);
    refused.complains(&["step #1 is for the owner writer"]);
    let refused = place.ledger("claim plan --worker w --step draft --owner tester --json").code(6);
    assert_eq!(refused.lines()[0]["rejection"], "other_owner");
    place.ledger("claim plan --worker w --step file --owner tester").code(0);
    place.ledger("claim plan --worker w --step draft").code(0);
}

#[test]
fn s23_step_of_a_person_is_never_given_to_an_agent() {
    let place = Place::planned(PLAN);
    let refused = place.ledger("claim plan --worker w --step sign").code(6);
    refused.complains(&["step #3 is for a person (human), not for an agent"]);
    place.ledger("work plan --worker agent -- true").code(3);
    let claim = "ledger claim plan --step sign --owner human --worker NAME";
    place.ledger("next").says(&["sign", "waits for a person", claim]);
    place.ledger("questions").code(0).says(&["step 3 (sign) waits for a person (human)", claim]);
    place.ledger("inspect .ledger why plan sign").says(&[claim]);
    let task = place.ledger("claim plan --step sign --owner human --worker ana --json").code(0);
    let token = task.lines()[0]["token"].as_str().unwrap().to_owned();
    place.ledger(&format!("receipt {token} --output {{\"approved\":true}}")).code(0);
    assert!(place.ledger("status").out.contains("done"));
}

#[test]
fn s23_runner_leaves_the_steps_of_people_and_of_other_roles() {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    // The runner needs no worker for a step that no agent gets.
    place.write(
        "people.yaml",
        "steps:\n  - {id: a, command: 'true'}\n  - {id: b, owner: 'human:ana'}\n",
    );
    let waits = place.ledger("run people.yaml").code(3);
    waits.says(&["step 2 (b) waits for a person (human:ana) to do it"]);
    let waits = place.ledger("run plan.yaml --owner writer --worker true").code(3);
    waits.says(&["2 of 4 steps accepted", "1 step is ready for other workers (owners: tester)"]);
    let lines = place.ledger("run plan.yaml --tag gpu --worker true --json").code(3).lines();
    let waiting = &lines.last().unwrap()["waiting_for"];
    assert_eq!(waiting[0]["kind"], "person", "{waiting}");
    // A drill does everything.
    place.ledger("run plan.yaml --stub --run drill").code(0);
}

#[test]
fn s23_fallback_owner_hands_a_step_to_a_person() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps:\n  - {id: a, command: 'false', retry: {max_attempts: 1}, fallback: {owner: human}}\n",
    );
    place.ledger("run plan.yaml").code(3).says(&["step 1 (a) waits for a person (human)"]);
}

// S25: one pool of workers for all runs.

#[test]
fn s25_work_without_a_run_serves_every_run() {
    let place = Place::new();
    place.write("one.yaml", "steps: [{id: a}, {id: b, after: [a]}]\n");
    place.write("two.yaml", "steps: [{id: c}]\ntest_criteria: [{command: 'true'}]\n");
    place.ledger("init").code(0);
    for run in ["one", "two"] {
        place.ledger(&format!("plan propose {run}.yaml")).code(0);
    }
    place.ledger("plan approve two --by ana").code(0);
    place.ledger("work --worker w -- true").code(0).says(&["3 steps done"]);
    for run in ["one", "two"] {
        assert_eq!(place.state().run_named(run).unwrap().status, ENDED, "{run}");
    }
}

const ENDED: plan_ledger::RunStatus = plan_ledger::RunStatus::Ended(plan_ledger::Ending::Done);

/// Workers of different roles race for the steps of two runs, and each gets only its own.
#[test]
fn s25_racing_workers_get_only_their_own_steps() {
    let place = Place::new();
    let roles = ["red", "green", "blue"];
    let steps = (0..18).map(|n| format!("  - {{id: s{n}, owner: {}}}\n", roles[n % 3]));
    let plan = format!("steps:\n{}  - {{id: p, owner: human}}\n", steps.collect::<String>());
    place.ledger("init").code(0);
    for run in ["one", "two"] {
        place.write(&format!("{run}.yaml"), &plan);
        place.ledger(&format!("plan propose {run}.yaml")).code(0);
    }
    let worker = |number: usize| {
        let role = roles[number % 3];
        let line = format!("work --worker {role}-{number} --owner {role} -- true");
        let args: Vec<&str> = line.split(' ').collect();
        start(&mut place.command(&args))
    };
    let workers: Vec<_> = (0..6).map(worker).collect();
    for worker in workers {
        // The steps of people are left.
        worker.end().code(3);
    }
    let records = place.ledger("inspect .ledger records --kind dispatched --json").lines();
    let state = place.state();
    let mut count = 0;
    for record in records.iter().filter(|line| line["event"].is_object()) {
        let text = record.to_string();
        let role = roles.iter().find(|role| text.contains(&format!("\"{role}-"))).unwrap();
        let number = u32::try_from(record["event"]["step"].as_u64().unwrap()).unwrap();
        let run = state.run_named("one").unwrap();
        assert_eq!(run.step(plan_ledger::StepNumber(number)).unwrap().owner(), Some(*role));
        count += 1;
    }
    assert_eq!(count, 36);
}

/// A hundred workflows share a pool of workers: each step is done once, and all runs end.
#[test]
fn s25_hundred_workflows_share_a_pool_of_workers() {
    const RUNS: usize = 100;
    let place = Place::new();
    place.ledger("init").code(0);
    place.write("flow.yaml", "steps: [{id: a}]\n");
    for number in 0..RUNS {
        place.ledger(&format!("plan propose flow.yaml --run flow-{number}")).code(0);
    }
    place.write("w.sh", "cat > /dev/null; echo $LEDGER_RUN >> $TALLY\n");
    let worker = |number: usize| {
        let name = format!("w{number}");
        start(&mut place.command(&["work", "--worker", &name, "--", "sh", "w.sh"]))
    };
    let server = place.serve();
    let workers: Vec<_> = (0..6).map(worker).collect();
    for worker in workers {
        // The first ones to find no step end while others still work.
        let ended = worker.end();
        assert!(matches!(ended.status.code(), Some(0 | 3)), "{ended:#?}");
    }
    server.signal("INT");
    server.end();
    let mut tally = place.tally();
    tally.sort();
    tally.dedup();
    assert_eq!((tally.len(), place.tally().len()), (RUNS, RUNS), "each step was done once");
    let runs = place.ledger("inspect .ledger runs --json").lines();
    let done = runs.iter().filter(|line| line["status"] == "done").count();
    assert_eq!(done, RUNS, "{:?}", runs.first());
    let all = place.ledger("inspect .ledger metrics --all --json").lines().remove(0);
    assert_eq!(all["replan_frequency"]["of"], RUNS, "{all}");
}
