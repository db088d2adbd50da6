//! Steps done from outside of a runner: who judges them, for how long they are held, and what their
//! workers are told of their files.

use plan_ledger::plan::StepStatus;
use serde_json::{Value, json};

use super::command::{Ended, Place, start, wait_until};

/// A plan whose commands note that they began, and wait for a file.
const GATED: &str = "test_criteria: [{command: 'echo plan >> $TALLY; while ! test -e plan-is-open; do sleep 0.01; done'}]
steps:
  - {id: a, acceptance: [{command: 'echo a >> $TALLY; while ! test -e a-is-open; do sleep 0.01; done'}]}
  - {id: b}
";

fn work(place: &Place, words: &[&str], command: &str) -> Ended {
    let words = [&["work", "--json"][..], words, &["--", "sh", "-c", command]].concat();
    place.ledger_with(&words)
}

fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

/// Goal: `ledger work` runs the commands that judge, as `ledger run` does: with the output on standard
/// input, after the worker, and again after another attempt; those of the plan behind the last step.
#[test]
fn commands_that_judge_are_run_beside_the_worker_and_not_by_it() {
    let place = Place::planned(
        "test_criteria: [{command: 'test -e b-is-done'}]
steps:
  - id: a
    retry: {max_attempts: 3}
    acceptance: [{command: 'echo a >> $TALLY; grep -q 2'}, {command: 'test \"$LEDGER_STEP\" = a'}]
  - {id: b, after: [a]}
",
    );
    for waits in [&[][..], &["--wait"]] {
        let run = if waits.is_empty() { "plan" } else { "again" };
        if run == "again" {
            place.ledger("plan propose plan.yaml --run again").code(0);
            std::fs::remove_file(place.path("b-is-done")).unwrap();
        }
        let words = [&[run][..], waits].concat();
        let command = "touch $LEDGER_STEP-is-done; echo $LEDGER_ATTEMPT";
        let ended = work(&place, &words, command).code(0);
        let lines = ended.lines();
        let judged: Vec<_> = of_type(&lines, "judged")
            .iter()
            .map(|line| (line["step"].clone(), line["ruling"].clone()))
            .collect();
        let expected = [
            (json!("a"), json!("fail")),
            (json!("a"), json!("pass")),
            (json!("a"), json!("pass")),
            (Value::Null, json!("pass")),
        ];
        assert_eq!(judged, expected, "{ended:?}");
        let last = lines.last().unwrap();
        assert_eq!((&last["steps"], &last["status"]), (&json!(3), &json!("done")), "{ended:?}");
    }
    assert_eq!(place.tally(), ["a", "a", "a", "a"]);
    let state = place.state();
    let run = state.run_named("plan").unwrap();
    assert!(run.plan_verdicts.values().all(|verdict| verdict.by == "runner"), "{run:?}");
}

/// Goal: a worker that dies after its receipt and before the check leaves nothing hanging: the next
/// one of its name checks first.
#[test]
fn a_check_that_a_crash_left_is_made_by_the_next_worker_of_that_name() {
    let place = Place::planned(
        "steps:
  - {id: a, acceptance: [{command: 'echo $$ > checking; test -e open'}]}
",
    );
    let words = ["work", "--worker", "w1", "--", "true"];
    let slow = "steps:
  - {id: a, acceptance: [{command: 'echo $$ > checking; while ! test -e open; do sleep 0.01; done'}]}
";
    place.write("slow.yaml", slow);
    place.ledger("plan propose slow.yaml").code(0);
    let slow_words = [&["work", "slow"][..], &words[1..]].concat();
    let running = start(&mut place.command(&slow_words));
    wait_until("it checks", || !place.read("checking").is_empty());
    assert!(running.kill().was_killed());
    let state = place.state();
    assert_eq!(state.run_named("slow").unwrap().reported.len(), 1);

    place.write("open", "");
    let other = ["work", "slow", "--worker", "w2", "--", "true"];
    place.ledger_with(&other).code(3);
    assert_eq!(place.state().run_named("slow").unwrap().reported.len(), 1, "it is not w2's");
    place.ledger_with(&slow_words).code(0).says(&["1 judged; the step is accepted", "is done"]);
}

/// Goal: a check that was ended says nothing: the step waits for its verdict, and the next worker of
/// that name makes the check again.
#[test]
fn a_check_that_is_ended_is_no_verdict() {
    let place = Place::planned(
        "steps:
  - {id: a, acceptance: [{command: 'echo x >> $TALLY; test -e open || sleep 600'}]}
",
    );
    let words = ["work", "--worker", "w1", "--", "true"];
    let mut running = start(&mut place.command(&words));
    wait_until("it checks", || place.tally().len() == 1);
    // The first one claims no more, and only the second one ends what runs.
    wait_until("it ends", || {
        running.signal("TERM");
        std::thread::sleep(std::time::Duration::from_millis(250));
        running.is_over()
    });
    running.end();
    let state = place.state();
    let run = state.run_named("plan").unwrap();
    assert_eq!(run.reported.len(), 1, "{run:?}");
    let attempt = run.steps[0].attempt().unwrap();
    assert!(attempt.verdicts.is_empty(), "{attempt:?}");

    place.write("open", "");
    place.ledger_with(&words).code(0).says(&["1 judged; the step is accepted", "is done"]);
}

/// Goal: a worker that takes longer than its lease keeps it.
#[test]
fn a_worker_gives_signs_of_life_while_it_works() {
    let place = Place::planned("steps: [{id: a, lease_seconds: 4}]\n");
    let looks = "for look in $(seq 400); do
        $LEDGER inspect \"$LEDGER_DIR\" records --kind lease_renewed | grep -q . && exit 0
        sleep 0.02
    done
    exit 1";
    let looks = looks.replace("$LEDGER ", concat!(env!("CARGO_BIN_EXE_ledger"), " "));
    let ended = work(&place, &[], &looks).code(0);
    let last = ended.lines().last().cloned().unwrap();
    assert_eq!((&last["steps"], &last["status"]), (&json!(1), &json!("done")), "{ended:?}");
}

/// Goal: what a holder runs the checks of, too, is judged once.
#[test]
fn a_check_counts_once_however_many_make_it() {
    let place = Place::planned("steps: [{id: a, acceptance: [{command: 'test -e open'}]}]\n");
    place.write("open", "");
    let holder = start(&mut place.command(&["serve"]));
    wait_until("it serves", || holder.said("serving"));
    work(&place, &[], "true").code(0);
    holder.signal("TERM");
    holder.end().code(0);
    place.ledger("verify .ledger --level replay").code(0);
    let step = place.ledger("inspect .ledger step plan a --json").code(0).lines();
    let attempt = of_type(&step, "attempt")[0];
    assert_eq!(attempt["verdicts"].as_array().unwrap().len(), 1, "{attempt}");
}

/// Goal: how files are is noted when a plan is proposed, so that a worker is told what has changed
/// since, without any runner; a new step is noted too.
#[test]
fn files_are_noted_when_a_plan_is_proposed() {
    let place = Place::new();
    for name in ["same", "other"] {
        place.write(name, "before");
    }
    place.write("plan.yaml", "steps: [{id: a, changes: [same, other, new]}]\n");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    place.write("other", "after");
    place.write("new", "there now");
    let changed = |line: &Value| -> Vec<Value> {
        let files = line["changes"].as_array().unwrap();
        files.iter().map(|file| file["changed"].clone()).collect()
    };
    let told = place.ledger("claim --json").code(0).lines();
    assert_eq!(changed(&told[0]), [json!(false), json!(true), json!(true)], "{told:?}");
    let step = "{\"id\": \"b\", \"changes\": [\"other\"]}";
    place.ledger_with(&["plan", "add", "--step", step]).code(0);
    let told = place.ledger("claim --json").code(0).lines();
    assert_eq!(changed(&told[0]), [json!(false)], "the newest version was planned after it");

    place.write("asked.yaml", "steps: [{id: a, changes: [same]}]\n");
    place.ledger("plan propose asked.yaml --approval required").code(0);
    place.write("same", "after");
    place.ledger("plan approve asked --by ana").code(0);
    let told = place.ledger("claim asked --json").code(0).lines();
    assert_eq!(changed(&told[0]), [json!(false)], "approved as it was then");
}

/// Goal: a step is held for as long as its claimer says, and longer when they say so again.
#[test]
fn a_claim_lasts_as_long_as_is_asked_for() {
    let place = Place::planned("steps: [{id: a}, {id: b}]\n");
    let until = |ended: Ended| ended.code(0).lines()[0]["lease_until_micros"].as_u64().unwrap();
    let minutes = |from: u64, to: u64| to.abs_diff(from) / 60_000_000;
    let planned = until(place.ledger("claim --json"));
    let long = until(place.ledger("claim --json --lease 3h"));
    assert!((164..=165).contains(&minutes(planned, long)), "{planned} {long}");
    let token = place.state().in_flight.keys().next().unwrap().0;
    let longer =
        until(place.ledger_with(&["renew", &token.to_string(), "--lease", "2h 30m", "--json"]));
    assert!((29..=30).contains(&minutes(longer, long)), "{longer} {long}");
    for wrong in ["0", "soon", "-1s", "5000000000"] {
        place.ledger_with(&["claim", "--lease", wrong]).code(2);
    }
}

/// Goal: two workers of one name that live at the same time run a check once between them, that of a
/// step as that of the plan; who comes second learns what came of it.
///
/// Method: the command notes that it began and waits for a file, so that the other worker begins
/// while it runs. That it was not run twice is seen when both have ended.
#[test]
fn two_workers_of_one_name_run_a_check_once() {
    let place = Place::planned(GATED);
    let words = ["work", "--worker", "w", "--json", "--", "true"];
    let start = || start(&mut place.command(&words));
    let first = start();
    wait_until("it checks the step", || place.tally() == ["a"]);
    let second = start();
    // The second one leaves the check alone, does the other step, and ends: there is no more.
    let second = second.end().code(3);
    assert_eq!(second.lines().last().unwrap()["steps"], 1, "{second:?}");
    place.write("a-is-open", "");
    wait_until("it checks the plan", || place.tally() == ["a", "plan"]);
    // The third waits for what comes of it.
    let third = start();
    std::thread::sleep(std::time::Duration::from_millis(300));
    place.write("plan-is-open", "");
    for worker in [first, third] {
        let ended = worker.end().code(0);
        assert_eq!(ended.lines().last().unwrap()["status"], "done", "{ended:?}");
    }
    assert_eq!(place.tally(), ["a", "plan"]);
    let left = std::fs::read_dir(place.path(".ledger/work/checks")).unwrap().count();
    assert_eq!(left, 0);
}

/// Goal: a runner that begins while a worker from outside checks leaves the check to it, that of a
/// step as that of the plan, does what else there is to do, and goes on with what came of it.
#[test]
fn a_runner_leaves_a_check_to_the_worker_that_is_at_it() {
    let place = Place::planned(GATED);
    let worker = start(&mut place.command(&["work", "--worker", "w", "--json", "--", "true"]));
    wait_until("it checks the step", || place.tally() == ["a"]);
    let runner = start(&mut place.command(&["run", "plan.yaml", "--worker", "true"]));
    wait_until("the runner does the other step", || {
        let state = place.state();
        state.run_named("plan").is_some_and(|run| run.count(StepStatus::Accepted) == 1)
    });
    assert_eq!(place.tally(), ["a"], "two run the check at once");
    place.write("a-is-open", "");
    wait_until("one of them checks the plan", || place.tally() == ["a", "plan"]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(place.tally(), ["a", "plan"], "two check the plan at once");
    place.write("plan-is-open", "");
    runner.end().code(0).complains(&["another process checks it"]);
    worker.end().code(0);
    assert_eq!(place.tally(), ["a", "plan"]);
}

/// Story: a run was cancelled while a worker from outside was at a step. Its sign of life was answered with
/// "that is over", and it worked on beside whoever might have had the step by then.
#[test]
fn a_worker_whose_attempt_is_over_is_ended() {
    let place = Place::planned("steps: [{id: a, lease_seconds: 2}]");
    let command = "echo begun >> $TALLY; sleep 20; echo late >> $TALLY";
    let worker = start(&mut place.command(&["work", "--json", "--", "sh", "-c", command]));
    wait_until("it has begun", || place.tally() == ["begun"]);
    place.ledger("cancel plan --by ana").code(0);
    let ended = worker.end().code(1);
    assert_eq!(place.tally(), ["begun"]);
    assert_eq!(ended.lines().last().unwrap()["steps"], 0, "{ended:?}");
}

/// Story: whoever served the ledger was stopped, and answered nothing. A worker's sign of life waited for the
/// answer, up to a minute, and the worker's time-out with it.
#[test]
fn a_holder_that_is_silent_holds_up_no_time_out() {
    let plan = "steps: [{id: a, lease_seconds: 2, timeout_seconds: 3, retry: {max_attempts: 1}}]";
    let place = Place::planned(plan);
    let holder = start(&mut place.command(&["serve"]));
    wait_until("it is served", || place.path(".ledger/serve.sock").exists());
    // It ends with the shell: both are of one process group.
    let command = "echo $$ >> $TALLY; sleep 600";
    let worker = start(&mut place.command(&["work", "--json", "--", "sh", "-c", command]));
    wait_until("it has begun", || place.tally().len() == 1);
    holder.signal("STOP");
    let stat = format!("/proc/{}/stat", place.tally()[0]);
    let is_over = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    for _ in 0..400 {
        if is_over() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let was_over = is_over();
    holder.signal("CONT");
    worker.end();
    holder.signal("TERM");
    holder.end().code(0);
    assert!(was_over, "it worked on after its time-out");
}

/// Story: while a runner's own worker was at a step, another step was reported from outside. Nobody checked it:
/// the runner ended with the advice to accept what only a command can judge.
#[test]
fn what_is_reported_from_outside_beside_a_runner_is_checked() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps:
  - {id: a, command: 'while ! test -e go; do sleep 0.01; done'}
  - {id: b, acceptance: [{command: 'touch checked'}]}
",
    );
    let runner = ["run", "plan.yaml", "--worker", "true", "--max-parallel", "1"];
    let runner = start(&mut place.command(&runner));
    wait_until("it is at the first step", || {
        place.path(".ledger/serve.sock").exists()
            && place.state().run_named("plan").is_some_and(|run| run.in_flight == 1)
    });
    let task = &place.ledger("claim plan --step b --worker w --json").code(0).lines()[0];
    place.ledger(&format!("receipt {} --output done", task["token"])).code(0);
    place.write("go", "");
    runner.end().code(0);
    assert!(place.path("checked").exists());
}

/// Story: a worker left a process behind that held a port; the next attempts failed by it, and nobody said
/// so. What a worker of `ledger run` leaves behind was ended and named all along.
#[test]
fn what_a_worker_from_outside_leaves_behind_is_ended_and_named() {
    let place = Place::planned("steps: [{id: a, changes: [made]}]");
    let command = r#"setsid sleep 600 >/dev/null 2>&1 & echo $! >> $TALLY; echo x > made
        echo '{"outcome":"succeeded","artifacts":[{"path":"made"},{"path":"none"}]}' > $LEDGER_RECEIPT"#;
    work(&place, &[], command).code(0);
    let stat = format!("/proc/{}/stat", place.tally()[0]);
    // Whoever is killed takes a moment to be gone.
    wait_until("it is ended", || {
        std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "))
    });
    let records = place.ledger("inspect .ledger records --kind receipt_recorded --json").lines();
    let record = records.iter().find(|line| line["type"] == "record").unwrap();
    let receipt = &record["event"]["receipt"];
    let notes = receipt["log_tail"].as_str().unwrap();
    for words in ["left 1 process behind, now ended: ", "the artifact none is not there"] {
        assert!(notes.contains(words), "{notes}");
    }
    assert_eq!(receipt["artifacts"][0]["hash"].as_str().unwrap().len(), 64, "{receipt}");
}

/// Story: Ctrl-C stopped a worker with work left, and its exit code said that the run was done: scripts went
/// on to publish. Once or twice, the exit code is that of an interrupted `ledger run`.
#[test]
fn a_worker_that_is_interrupted_says_that_work_is_left() {
    for (interrupts, steps) in [(1, 1), (2, 0)] {
        let place = Place::planned("steps: [{id: a}, {id: b, after: [a]}]");
        let command = "echo begun >> $TALLY; while ! test -e go; do sleep 0.01; done";
        let worker = start(&mut place.command(&["work", "--json", "--", "sh", "-c", command]));
        wait_until("it has begun", || place.tally() == ["begun"]);
        for _ in 0..interrupts {
            worker.signal("INT");
            // Two at once are one to the program.
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
        if interrupts == 1 {
            place.write("go", "");
        }
        let ended = worker.end().code(3);
        assert_eq!(ended.lines().last().unwrap()["steps"], steps, "{ended:?}");
        assert_eq!(place.tally(), ["begun"]);
    }
}

/// Story: a step was taken from a worker, which did it again; its first receipt came too late, and was
/// counted as a step that it did.
#[test]
fn a_receipt_that_came_too_late_is_not_counted_as_done() {
    for max in [&[][..], &["--max", "1"]] {
        let place = Place::planned("steps: [{id: a}]");
        let words = [&["work", "--json"][..], max, &["--", "sh", "-c", WAITING]].concat();
        let worker = start(&mut place.command(&words));
        wait_until("it has begun", || place.tally().len() == 1);
        place.ledger(&format!("release {} --begun", place.tally()[0])).code(0);
        place.write("go", "");
        let ended = worker.end().code(0);
        assert_eq!(ended.lines().last().unwrap()["steps"], 1, "{ended:?}");
        assert_eq!(place.tally().len(), 2);
    }
}

/// A worker that says its token, and waits for a file.
const WAITING: &str = "echo $LEDGER_TOKEN >> $TALLY; while ! test -e go; do sleep 0.01; done";
