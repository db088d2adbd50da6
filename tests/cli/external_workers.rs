//! `ledger work` and `ledger claim`: steps done outside a runner. Tests who judges them, how long a
//! claim lasts, and what the hand-off says about files.

use plan_ledger::StepStatus;
use serde_json::{Value, json};

use super::command::{Ended, Place, start, wait_until};

/// A plan whose criteria record that they have started, then wait for a file.
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

/// `ledger work` runs criteria commands like `ledger run`: after the worker, with the output on
/// standard input, again after each attempt; and the plan's own criteria after the last step.
#[test]
fn criteria_commands_run_after_the_worker() {
    let place = Place::approved(
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
            // An approval is for one run.
            place.ledger("plan approve again --by ana").code(0);
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

/// When a worker dies between its receipt and the check, the next worker of the same name runs the
/// check first. A worker of another name leaves it alone.
#[test]
fn interrupted_check_is_rerun_by_a_worker_of_the_same_name() {
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
    place.ledger("plan approve slow --by ana").code(0);
    let slow_words = [&["work", "slow"][..], &words[1..]].concat();
    let running = start(&mut place.command(&slow_words));
    wait_until("the check runs", || !place.read("checking").is_empty());
    assert!(running.kill().was_killed());
    let state = place.state();
    assert_eq!(state.run_named("slow").unwrap().reported.len(), 1);

    place.write("open", "");
    let other = ["work", "slow", "--worker", "w2", "--", "true"];
    place.ledger_with(&other).code(3);
    assert_eq!(
        place.state().run_named("slow").unwrap().reported.len(),
        1,
        "w2 must not run the check of w1"
    );
    place
        .ledger_with(&slow_words)
        .code(0)
        .says(&["1 criterion judged; the step is accepted", "is done"]);
}

/// An interrupted check records no verdict; the next worker of that name runs it again.
#[test]
fn interrupted_check_records_no_verdict() {
    let place = Place::approved(
        "steps:
  - {id: a, acceptance: [{command: 'echo x >> $TALLY; test -e open || sleep 600'}]}
",
    );
    let words = ["work", "--worker", "w1", "--", "true"];
    let mut running = start(&mut place.command(&words));
    wait_until("the check runs", || place.tally().len() == 1);
    // The first signal stops further claims; the second one ends the check.
    wait_until("the worker ends", || {
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
    place
        .ledger_with(&words)
        .code(0)
        .says(&["1 criterion judged; the step is accepted", "is done"]);
}

/// A worker that takes longer than its lease renews it.
#[test]
fn worker_renews_its_lease_while_it_runs() {
    let place = Place::planned("steps: [{id: a, lease_seconds: 4}]\n");
    let script = "for n in $(seq 400); do
        $LEDGER inspect \"$LEDGER_DIR\" records --kind lease_renewed | grep -q lease_renewed && exit 0
        sleep 0.02
    done
    exit 1";
    let script = script.replace("$LEDGER ", concat!(env!("CARGO_BIN_EXE_ledger"), " "));
    let ended = work(&place, &[], &script).code(0);
    let last = ended.lines().last().cloned().unwrap();
    assert_eq!((&last["steps"], &last["status"]), (&json!(1), &json!("done")), "{ended:?}");
}

/// A check that both a server and a worker could run records one verdict.
#[test]
fn check_is_recorded_once_beside_a_server() {
    let place = Place::approved("steps: [{id: a, acceptance: [{command: 'test -e open'}]}]\n");
    place.write("open", "");
    let server = place.serve();
    work(&place, &[], "true").code(0);
    server.dismiss();
    place.ledger("verify .ledger --level replay").code(0);
    let step = place.ledger("inspect .ledger step plan a --json").code(0).lines();
    let attempt = of_type(&step, "attempt")[0];
    assert_eq!(attempt["verdicts"].as_array().unwrap().len(), 1, "{attempt}");
}

/// `plan propose` records the hash of each file in `changes`, also of a new step, so that a
/// hand-off reports changed files without any runner.
#[test]
fn file_hashes_are_recorded_when_a_plan_is_proposed() {
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
    let tasks = place.ledger("claim --json").code(0).lines();
    assert_eq!(changed(&tasks[0]), [json!(false), json!(true), json!(true)], "{tasks:?}");
    let step = "{\"id\": \"b\", \"changes\": [\"other\"]}";
    place.ledger_with(&["plan", "add", "--step", step]).code(0);
    let tasks = place.ledger("claim --json").code(0).lines();
    assert_eq!(changed(&tasks[0]), [json!(false)], "recorded when the new version was proposed");

    place.write("asked.yaml", "steps: [{id: a, changes: [same]}]\n");
    place.ledger("plan propose asked.yaml --approval required").code(0);
    place.write("same", "after");
    place.ledger("plan approve asked --by ana").code(0);
    let tasks = place.ledger("claim asked --json").code(0).lines();
    assert_eq!(changed(&tasks[0]), [json!(false)], "recorded when the version was proposed");
}

/// `--lease` sets how long a claim lasts, and a renewal extends it.
#[test]
fn claim_and_renewal_set_the_lease() {
    let place = Place::planned("steps: [{id: a}, {id: b}]\n");
    let until = |ended: Ended| ended.code(0).lines()[0]["lease_until_micros"].as_u64().unwrap();
    let minutes = |from: u64, to: u64| to.abs_diff(from) / 60_000_000;
    let first = place.ledger("claim --json");
    let token = first.lines()[0]["token"].as_str().unwrap().to_owned();
    let planned = until(first);
    let long = until(place.ledger("claim --json --lease 3h"));
    assert!((164..=165).contains(&minutes(planned, long)), "{planned} {long}");
    let longer = until(place.ledger_with(&["renew", &token, "--lease", "2h 30m", "--json"]));
    assert!((29..=30).contains(&minutes(longer, long)), "{longer} {long}");
    for wrong in ["0", "soon", "-1s", "5000000000"] {
        place.ledger_with(&["claim", "--lease", wrong]).code(2);
    }
}

/// Two concurrent workers of the same name run each check once, for steps and for the plan. The
/// command waits for a file, so the second worker starts while the check runs.
#[test]
fn concurrent_workers_of_one_name_run_a_check_once() {
    let place = Place::approved(GATED);
    let words = ["work", "--worker", "w", "--json", "--", "true"];
    let start = || start(&mut place.command(&words));
    let first = start();
    wait_until("the step's check runs", || place.tally() == ["a"]);
    let second = start();
    // The second worker skips the running check, does the other step, and ends.
    let second = second.end().code(3);
    assert_eq!(second.lines().last().unwrap()["steps"], 1, "{second:?}");
    place.write("a-is-open", "");
    wait_until("the plan's check runs", || place.tally() == ["a", "plan"]);
    // The third worker waits for the verdict.
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

/// A runner leaves a check that an external worker is running, does the other steps, and continues
/// with the verdict. The same holds for the check of the plan.
#[test]
fn runner_leaves_a_running_check_to_its_worker() {
    let place = Place::approved(GATED);
    let worker = start(&mut place.command(&["work", "--worker", "w", "--json", "--", "true"]));
    wait_until("the step's check runs", || place.tally() == ["a"]);
    let runner = start(&mut place.command(&["run", "plan.yaml", "--worker", "true"]));
    wait_until("the runner completes the other step", || {
        let state = place.state();
        state.run_named("plan").is_some_and(|run| run.count(StepStatus::Accepted) == 1)
    });
    assert_eq!(place.tally(), ["a"], "two processes run the check");
    place.write("a-is-open", "");
    wait_until("the plan's check runs", || place.tally() == ["a", "plan"]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(place.tally(), ["a", "plan"], "two processes run the plan's check");
    place.write("plan-is-open", "");
    runner.end().code(0).complains(&["another process is checking it"]);
    worker.end().code(0);
    assert_eq!(place.tally(), ["a", "plan"]);
}

/// A worker whose run is cancelled is stopped when its renewal is rejected. It used to keep working
/// beside the next worker of the step.
#[test]
fn worker_of_a_cancelled_run_is_stopped() {
    let place = Place::planned("steps: [{id: a, lease_seconds: 2}]");
    let command = "echo begun >> $TALLY; sleep 20; echo late >> $TALLY";
    let worker = start(&mut place.command(&["work", "--json", "--", "sh", "-c", command]));
    wait_until("the worker has started", || place.tally() == ["begun"]);
    place.ledger("cancel plan --by ana").code(0);
    let ended = worker.end().code(1);
    assert_eq!(place.tally(), ["begun"]);
    assert_eq!(ended.lines().last().unwrap()["steps"], 0, "{ended:?}");
}

/// A stopped server does not delay the worker's timeout. The renewal used to wait a minute for its
/// response, and the timeout with it.
#[test]
fn stopped_server_does_not_delay_a_timeout() {
    let plan = "steps: [{id: a, lease_seconds: 2, timeout_seconds: 3, retry: {max_attempts: 1}}]";
    let place = Place::planned(plan);
    let server = start(&mut place.command(&["serve"]));
    wait_until("the server is up", || place.path(".ledger/serve.sock").exists());
    // The `sleep` is in the shell's process group and ends with it.
    let command = "echo $$ >> $TALLY; sleep 600";
    let worker = start(&mut place.command(&["work", "--json", "--", "sh", "-c", command]));
    wait_until("the worker has started", || place.tally().len() == 1);
    server.signal("STOP");
    let stat = format!("/proc/{}/stat", place.tally()[0]);
    let is_over = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    for _ in 0..400 {
        if is_over() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let was_over = is_over();
    server.signal("CONT");
    worker.end();
    server.dismiss();
    assert!(was_over, "the worker outlived its timeout");
}

/// A step reported from outside while the runner is busy is checked by the runner. It used to end
/// with the advice to accept the step by hand.
#[test]
fn external_receipt_beside_a_runner_is_checked() {
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
    wait_until("the first step is in flight", || {
        place.path(".ledger/serve.sock").exists()
            && place.state().run_named("plan").is_some_and(|run| run.in_flight == 1)
    });
    let task = &place.ledger("claim plan --step b --worker w --json").code(0).lines()[0];
    place.ledger(&format!("receipt {} --output done", task["token"].as_str().unwrap())).code(0);
    place.write("go", "");
    runner.end().code(0);
    assert!(place.path("checked").exists());
}

/// Processes that an external worker leaves behind are ended and named in the receipt, as in
/// `ledger run`.
#[test]
fn leftover_processes_are_ended_and_named() {
    let place = Place::planned("steps: [{id: a, changes: [made]}]");
    let command = r#"setsid sleep 600 >/dev/null 2>&1 & echo $! >> $TALLY; echo x > made
        echo '{"outcome":"succeeded","artifacts":[{"path":"made"},{"path":"none"}]}' > $LEDGER_RECEIPT"#;
    work(&place, &[], command).code(0);
    let stat = format!("/proc/{}/stat", place.tally()[0]);
    // A killed process takes a moment to disappear.
    wait_until("the process is gone", || {
        std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "))
    });
    let records = place.ledger("inspect .ledger records --kind receipt_recorded --json").lines();
    let record = records.iter().find(|line| line["type"] == "record").unwrap();
    let receipt = &record["event"]["receipt"];
    let notes = receipt["log_tail"].as_str().unwrap();
    for words in ["left 1 process running, which was killed: ", "the artifact none does not exist"]
    {
        assert!(notes.contains(words), "{notes}");
    }
    assert_eq!(receipt["artifacts"][0]["hash"].as_str().unwrap().len(), 64, "{receipt}");
}

/// An interrupted worker exits with 3, as an interrupted `ledger run` does. It used to report
/// success with work left.
#[test]
fn interrupted_worker_exits_3() {
    for (interrupts, steps) in [(1, 1), (2, 0)] {
        let place = Place::planned("steps: [{id: a}, {id: b, after: [a]}]");
        let command = "echo begun >> $TALLY; while ! test -e go; do sleep 0.01; done";
        let worker = start(&mut place.command(&["work", "--json", "--", "sh", "-c", command]));
        wait_until("the worker has started", || place.tally() == ["begun"]);
        for _ in 0..interrupts {
            worker.signal("INT");
            // Two signals at once would count as one.
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

/// A receipt that came too late is not counted as a completed step.
#[test]
fn late_receipt_is_not_counted_as_a_completed_step() {
    for max in [&[][..], &["--max", "1"]] {
        let place = Place::planned("steps: [{id: a}]");
        let words = [&["work", "--json"][..], max, &["--", "sh", "-c", WAITING]].concat();
        let worker = start(&mut place.command(&words));
        wait_until("the worker has started", || place.tally().len() == 1);
        place.ledger(&format!("release {} --begun", place.tally()[0])).code(0);
        place.write("go", "");
        let ended = worker.end().code(0);
        assert_eq!(ended.lines().last().unwrap()["steps"], 1, "{ended:?}");
        assert_eq!(place.tally().len(), 2);
    }
}

/// A worker that writes its token to the tally, then waits for a file.
const WAITING: &str = "echo $LEDGER_TOKEN >> $TALLY; while ! test -e go; do sleep 0.01; done";

/// The answer to a result that does not count says why, in words and in JSON.
#[test]
fn receipt_without_a_declared_output_says_so() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, outputs: [total, count], retry: {max_attempts: 3}}]");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    let report = |more: &str| {
        let token = place.ledger("claim --worker w").code(0).token();
        place.ledger(&format!("receipt {token} --output {{\"count\":1}}{more}")).code(0)
    };
    report("").says(&["the step is ready: ", "total"]);
    let line = report(" --json").lines().remove(0);
    assert!(line["not_accepted"].as_str().unwrap().contains("total"), "{line}");
}

/// A worker gets the risks and open questions of the plan, why its version was proposed, and the notes of earlier
/// workers and people, also those of another process.
#[test]
fn task_has_risks_rationale_and_notes() {
    let place = Place::planned(
        "risks: [The cache lies]\nopen_questions: [Who owns it?]\nsteps: [{id: a}, {id: b, after: [a]}]",
    );
    place.ledger_with(&["note", "--step", "a", "the port is 8080", "--by", "ana"]).code(0);
    place.ledger_with(&["note", "the network is slow", "--by", "bob"]).code(0);
    let task = place.ledger("claim --json").code(0).lines().remove(0);
    assert_eq!(task["plan"]["risks"], json!(["The cache lies"]));
    assert_eq!(task["plan"]["open_questions"], json!(["Who owns it?"]));
    let note =
        |number: Value, by: &str, text: &str| json!({"number": number, "by": by, "text": text});
    let notes = [
        note(json!(1), "ana", "the port is 8080"),
        note(Value::Null, "bob", "the network is slow"),
    ];
    assert_eq!(task["notes"], json!(notes));
    place.ledger(&format!("receipt {}", task["token"].as_str().unwrap())).code(0);
    // One process dispatches, adds a note, and dispatches again.
    let serving = place.serve();
    place.ledger_with(&["note", "--step", "a", "use the new port", "--by", "cyn"]).code(0);
    let task = place.ledger("claim --json").code(0).lines().remove(0);
    assert_eq!(task["notes"].as_array().unwrap().len(), 3, "{task}");
    assert_eq!(task["notes"][2], note(json!(1), "cyn", "use the new port"));
    place.ledger_with(&["note", "one more", "--by", "dee"]).code(0);
    place.ledger(&format!("release {}", task["token"].as_str().unwrap())).code(0);
    let task = place.ledger("claim --json").code(0).lines().remove(0);
    assert_eq!(task["notes"][3]["text"], "one more");
    drop(serving);
}
