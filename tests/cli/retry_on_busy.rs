//! Workers from outside that cannot say what they did, or what they are to do: the ledger is held, the
//! disk is full, the result is too large.

use plan_ledger::{Environment, Ledger};

use super::command::{Place, Running, start, wait_until};

/// A worker that says its token, and waits for a file.
const WAITING: &str = "echo $LEDGER_TOKEN >> $TALLY; while ! test -e go; do sleep 0.01; done";

fn hold(place: &Place) -> Ledger {
    Ledger::open(&place.path(".ledger"), &Environment::system()).unwrap().0
}

/// Wait until it says so, and still lives.
#[track_caller]
fn wait_until_it_says(worker: &mut Running, words: &str) {
    wait_until(words, || worker.complained(words) || worker.is_over());
    assert!(worker.complained(words) && !worker.is_over(), "it ended without saying {words:?}");
}

/// Story: a hundred workers had one ledger, and whoever wanted to report while others had it for more than
/// five seconds ended with its receipt: the work was done again, by somebody who was paid for it again.
#[test]
fn a_receipt_is_said_until_somebody_takes_it() {
    let place = Place::planned("steps: [{id: a}, {id: b}]");
    let words = ["work", "--json", "--max", "1", "--", "sh", "-c", WAITING];
    let mut worker = start(&mut place.command(&words));
    wait_until("it has begun", || place.tally().len() == 1);
    let held = hold(&place);
    place.write("go", "");
    wait_until_it_says(&mut worker, "the receipt of attempt");
    held.close().unwrap();
    let ended = worker.end().code(0);
    assert_eq!(ended.lines().last().unwrap()["steps"], 1, "{ended:?}");
    assert_eq!(ended.err.matches("not recorded yet").count(), 1, "{}", ended.err);
    assert!(place.state().in_flight.is_empty());
}

/// Story: a receipt that nobody took before the end of its lease was gone, with all that its worker had
/// written.
#[test]
fn the_files_of_a_receipt_that_nobody_took_are_kept() {
    let place = Place::planned("steps: [{id: a, lease_seconds: 1}]");
    let command = format!("{WAITING}; echo all my work");
    let mut worker = start(&mut place.command(&["work", "--json", "--", "sh", "-c", &command]));
    wait_until("it has begun", || place.tally().len() == 1);
    let held = hold(&place);
    place.write("go", "");
    wait_until_it_says(&mut worker, "the receipt of attempt");
    let ended = worker.end().code(5);
    held.close().unwrap();
    let folder = ended.err.split_once("its files are in ").unwrap().1.lines().next().unwrap();
    let output = std::path::Path::new(folder).join(format!("{}.out", place.tally()[0]));
    let content = std::fs::read_to_string(output).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!(content, "all my work\n");
}

/// Story: a worker that was to wait for ever for a step ended because others had the ledger for five seconds.
#[test]
fn a_worker_that_waits_for_a_step_waits_for_the_ledger() {
    let place = Place::planned("steps: [{id: a}]");
    let held = hold(&place);
    place.ledger("work -- true").code(5);
    let mut worker = start(&mut place.command(&["work", "--json", "--wait", "--", "true"]));
    wait_until_it_says(&mut worker, "no step could be claimed yet");
    held.close().unwrap();
    let ended = worker.end().code(0);
    assert_eq!(ended.lines().last().unwrap()["steps"], 1, "{ended:?}");
}

/// Story: an output of zeros is six times as long in JSON, and no request could hold it; one that nests as deep as a
/// value may was too deep for a request. The worker ended, and the next one did the step again, for ever. As in a run,
/// that is the failure.
#[test]
fn an_output_that_cannot_be_kept_is_a_failure() {
    let place = Place::planned("steps: [{id: a, retry: {max_attempts: 1}}]");
    place.ledger("plan propose plan.yaml --run served").code(0);
    place.write("deep", ["[".repeat(127), "]".repeat(127)].concat());
    let fails = |run: &str, command: &str| {
        let ended = place.ledger_with(&["work", run, "--json", "--", "sh", "-c", command]).code(1);
        let last = ended.lines().last().cloned().unwrap();
        assert_eq!((&last["steps"], &last["status"]), (&1.into(), &"failed".into()), "{ended:?}");
        let step = place.ledger_with(&["inspect", ".ledger", "step", run, "a", "--json"]).code(0);
        step.says(&["its receipt cannot be kept", "deterministic"]);
    };
    fails("plan", "head -c 4000000 /dev/zero");
    let holder = start(&mut place.command(&["serve"]));
    wait_until("it serves", || holder.said("serving"));
    fails("served", "cat deep");
    holder.signal("TERM");
    holder.end().code(0);
}

/// Story: a person accepted what the last step had done, the worker of another one had ended before the
/// plan's own criteria, and one had been killed while it checked them. Whoever waited for a step then waited for ever:
/// it looked for such criteria only before it began to wait.
#[test]
fn who_waits_for_a_step_checks_the_plan_when_it_is_time() {
    let plan = "test_criteria: [{command: 'echo plan >> $TALLY; test -e open || sleep 600'}]
steps: [{id: a, acceptance: [{text: it is nice}]}]
";
    let place = Place::planned(plan);
    let words = ["work", "--json", "--wait", "--worker"];
    let begin =
        |name: &str| start(&mut place.command(&[&words[..], &[name, "--", "true"]].concat()));
    let first = begin("w1");
    wait_until("it has reported", || {
        let state = place.state();
        state.run_named("plan").is_some_and(|run| run.reported.len() == 1)
    });
    let second = begin("w2");
    place.ledger("accept plan a --by ana").code(0);
    wait_until("one of both checks the plan", || place.tally() == ["plan"]);
    // Whoever it is, the other one does it then.
    let checks = |worker: &Running| {
        let name = worker.id().to_string();
        let children = format!("/proc/{name}/task/{name}/children");
        std::fs::read_to_string(children).is_ok_and(|found| !found.trim().is_empty())
    };
    let (killed, other) = if checks(&first) { (first, second) } else { (second, first) };
    assert!(killed.kill().was_killed());
    place.write("open", "");
    let ended = other.end().code(0);
    assert_eq!(ended.lines().last().unwrap()["status"], "done", "{ended:?}");
    assert_eq!(place.tally(), ["plan", "plan"]);
}

/// Story: a worker whose log had no room took a step each time that it was started, and gave none back.
#[test]
fn a_worker_that_cannot_say_what_it_does_takes_no_step() {
    let place = Place::planned("steps: [{id: a}]");
    let full = std::fs::File::create("/dev/full").unwrap();
    let words = ["work", "--", "sh", "-c", "echo begun >> $TALLY"];
    let ended = place.command(&words).stdout(full).output().unwrap();
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    let state = place.state();
    assert!(state.in_flight.is_empty() && place.tally().is_empty(), "{state:?}");
    place.ledger_with(&words).code(0);
    assert_eq!(place.tally(), ["begun"]);
}

/// Story: a ledger was in a folder of a name that is no text. Workers were told of another folder, to which they could
/// write no receipt: what they said was a failure became a success, by their exit status.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_of_any_name_gets_its_receipts() {
    use std::os::unix::ffi::OsStrExt as _;

    let place = Place::planned("steps: [{id: a, retry: {max_attempts: 1}}]");
    let folder = std::ffi::OsStr::from_bytes(b"a\xff.ledger");
    std::fs::rename(place.path(".ledger"), place.path("").join(folder)).unwrap();
    let command = r#"test -d "$LEDGER_DIR" && echo '{"outcome":"failed","message":"no"}' > "$LEDGER_RECEIPT""#;
    let run = ["run", "plan.yaml", "--run", "other", "--worker", command];
    let runs: [&[&str]; 2] = [&run, &["work", "plan", "--", "sh", "-c", command]];
    for words in runs {
        let temporary = place.path("").join(std::ffi::OsStr::from_bytes(b"t\xff"));
        std::fs::create_dir_all(&temporary).unwrap();
        let mut command = place.command(words);
        command.env("LEDGER_DIR", folder).env("TMPDIR", temporary);
        start(&mut command).end().code(1);
    }
    let mut inspect = place.command(&["inspect"]);
    inspect.arg(folder).args(["records", "--kind", "receipt_recorded", "--json"]);
    let lines = start(&mut inspect).end().code(0).lines();
    let outcomes = lines.iter().filter_map(|line| line.pointer("/event/receipt/outcome/message"));
    assert_eq!(outcomes.collect::<Vec<_>>(), ["no", "no"], "{lines:?}");
}
