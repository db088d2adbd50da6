//! External workers that cannot reach the ledger: another process has the lock, the disk is full,
//! or the result is too large. Receipts are retried and kept, and no step is claimed in vain.

use plan_ledger::{Environment, Ledger};

use super::command::{Place, Running, start, wait_until};

/// A worker that writes its token to the tally, then waits for a file.
const WAITING: &str = "echo $LEDGER_TOKEN >> $TALLY; while ! test -e go; do sleep 0.01; done";

fn lock_ledger(place: &Place) -> Ledger {
    Ledger::open_with(&place.path(".ledger"), &Environment::system()).unwrap().0
}

/// Waits until a running worker has printed `words` on standard error.
#[track_caller]
fn wait_until_complains(worker: &mut Running, words: &str) {
    wait_until(words, || worker.complained(words) || worker.is_over());
    assert!(worker.complained(words) && !worker.is_over(), "the worker ended without {words:?}");
}

/// A receipt is retried while another process has the lock. Workers used to give up after five
/// seconds, and the work was done and paid for again.
#[test]
fn receipt_is_retried_until_the_lock_is_free() {
    let place = Place::planned("steps: [{id: a}, {id: b}]");
    let words = ["work", "--json", "--max", "1", "--", "sh", "-c", WAITING];
    let mut worker = start(&mut place.command(&words));
    wait_until("the worker has started", || place.tally().len() == 1);
    let locked = lock_ledger(&place);
    place.write("go", "");
    wait_until_complains(&mut worker, "the receipt of attempt");
    locked.close().unwrap();
    let ended = worker.end().code(0);
    assert_eq!(ended.lines().last().unwrap()["steps"], 1, "{ended:?}");
    assert_eq!(ended.err.matches("not recorded yet").count(), 1, "{}", ended.err);
    assert!(place.state().in_flight.is_empty());
}

/// A receipt that could not be recorded before its lease expired is kept with the files of its
/// worker.
#[test]
fn unrecorded_receipt_keeps_its_files() {
    let place = Place::planned("steps: [{id: a, lease_seconds: 1}]");
    let command = format!("{WAITING}; echo all my work");
    let mut worker = start(&mut place.command(&["work", "--json", "--", "sh", "-c", &command]));
    wait_until("the worker has started", || place.tally().len() == 1);
    let locked = lock_ledger(&place);
    place.write("go", "");
    wait_until_complains(&mut worker, "the receipt of attempt");
    let ended = worker.end().code(5);
    locked.close().unwrap();
    let folder =
        ended.err.split_once("its files are in ").unwrap().1.split(", and").next().unwrap();
    let output = std::path::Path::new(folder)
        .join(format!("{}.out", place.tally()[0].split('-').next().unwrap()));
    let content = std::fs::read_to_string(output).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!(content, "all my work\n");
}

/// `work --wait` also waits for the lock.
#[test]
fn waiting_worker_waits_for_the_lock() {
    let place = Place::planned("steps: [{id: a}]");
    let locked = lock_ledger(&place);
    place.ledger("work -- true").code(5);
    let mut worker = start(&mut place.command(&["work", "--json", "--wait", "--", "true"]));
    wait_until_complains(&mut worker, "no step could be claimed yet");
    locked.close().unwrap();
    let ended = worker.end().code(0);
    assert_eq!(ended.lines().last().unwrap()["steps"], 1, "{ended:?}");
}

/// An output that cannot be recorded fails the attempt, through the file and through the socket.
/// The worker used to end, and the next one repeated the step without end.
#[test]
fn oversized_output_fails_the_attempt() {
    let place = Place::planned("steps: [{id: a, retry: {max_attempts: 1}}]");
    place.ledger("plan propose plan.yaml --run served").code(0);
    place.write("deep", ["[".repeat(127), "]".repeat(127)].concat());
    let fails = |run: &str, command: &str| {
        let ended = place.ledger_with(&["work", run, "--json", "--", "sh", "-c", command]).code(1);
        let last = ended.lines().last().cloned().unwrap();
        assert_eq!((&last["steps"], &last["status"]), (&1.into(), &"failed".into()), "{ended:?}");
        let step = place.ledger_with(&["inspect", ".ledger", "step", run, "a", "--json"]).code(0);
        step.says(&["its receipt cannot be recorded", "deterministic"]);
    };
    fails("plan", "head -c 4000000 /dev/zero");
    let server = place.serve();
    fails("served", "cat deep");
    server.dismiss();
}

/// A worker that waits for a step also runs the plan's criteria when they become due. It used to
/// look for them only before it began to wait.
#[test]
fn waiting_worker_runs_due_plan_criteria() {
    let plan = "test_criteria: [{command: 'echo plan >> $TALLY; test -e open || sleep 600'}]
steps: [{id: a, acceptance: [{text: it is nice}]}]
";
    let place = Place::approved(plan);
    let words = ["work", "--json", "--wait", "--worker"];
    let begin =
        |name: &str| start(&mut place.command(&[&words[..], &[name, "--", "true"]].concat()));
    let first = begin("w1");
    wait_until("the first step is reported", || {
        let state = place.state();
        state.run_named("plan").is_some_and(|run| run.reported.len() == 1)
    });
    let second = begin("w2");
    place.ledger("accept plan a --by ana").code(0);
    wait_until("the plan's check runs", || place.tally() == ["plan"]);
    // Kills the worker that runs the check; the other one must take over.
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

/// A worker that cannot write its log claims no step.
#[test]
fn worker_without_output_claims_no_step() {
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

/// A ledger folder and a temporary folder with names that are not UTF-8 still receive receipts.
/// Workers used to get a wrong path, and a reported failure became a success.
#[cfg(target_os = "linux")]
#[test]
fn receipts_arrive_in_folders_with_non_utf8_names() {
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
