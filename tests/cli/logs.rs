//! What workers print: `ledger logs`, while they work and afterwards; evidence and times in what a run
//! prints; `ledger status --since`.

use serde_json::Value;

use super::command::{Place, start, wait_until};

/// A step that prints, waits for the file `go`, and prints again; and one whose check explains itself.
const PLAN: &str = "steps:
  - id: slow
    command: 'echo begun; echo careful >&2; until test -e go; do sleep 0.02; done; echo over'
  - {id: bad, command: echo output, acceptance: [command: 'echo first; echo last >&2; false'],
     retry: {max_attempts: 1}}
";

/// A run of [`PLAN`] whose slow step has printed its first lines.
fn begun() -> (Place, super::command::Running) {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    let run = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the worker printed", || place.ledger("logs slow").out.contains("! careful"));
    (place, run)
}

/// Goal: a person sees what an agent does now, and later what it did.
#[test]
fn output_is_shown_live_and_afterwards() {
    let (place, run) = begun();
    let live = place.ledger("logs plan slow").code(0);
    live.says(&["#1 slow, attempt 1 by process/", "in flight\n| begun\n! careful\n"]);
    let line: Value = place.ledger("logs slow --json").lines()[0].clone();
    assert_eq!(
        (&line["stream"], &line["text"], &line["is_live"]),
        (&"output".into(), &"begun\n".into(), &true.into())
    );
    place.write("go", "");
    run.end().code(1);
    let shown = place.ledger("logs").code(0);
    let shown = shown.says(&["accepted\n| begun\n| over\n! careful\n", "failed\n| output\n"]);
    assert_eq!(place.ledger("logs plan").out, shown.out);
    place.ledger("logs nothing").code(2).complains(&["no step nothing"]);
}

/// Goal: `-f` shows all that is printed, once, and ends with the run.
#[test]
fn followed_output_is_complete() {
    let (place, run) = begun();
    let follower = start(&mut place.command(&["logs", "-f"]));
    wait_until("the follower reads", || follower.said("#1 slow | begun"));
    place.write("go", "");
    run.end().code(1);
    let ended = follower.end().code(0);
    for line in ["#1 slow | begun\n", "#1 slow ! careful\n", "#1 slow | over\n"] {
        assert_eq!(ended.out.matches(line).count(), 1, "{line} in\n{}", ended.out);
    }
    ended.says(&["#1 slow: accepted"]);
}

/// Goal: a log of the night can be read in the morning: times, and the end of what a check printed.
#[test]
fn progress_lines_have_times_and_whole_evidence() {
    let (place, run) = begun();
    place.write("go", "");
    let ended = run.end().code(1);
    let evidence =
        "criterion 1 does not hold; the step is failed: exit status 1\n    first\n    last\n";
    let ended = ended.complains(&[evidence]);
    for line in ended.err.lines().filter(|line| line.starts_with("ledger: ")) {
        let time: Vec<_> = line["ledger: ".len()..].splitn(2, ' ').collect();
        let is_digit = |c: char| c.is_ascii_digit();
        assert!(
            time[0].len() == 8 && time[0].split(':').all(|it| it.chars().all(is_digit)),
            "{line}"
        );
    }
    let step = place.ledger("inspect step bad").code(0);
    step.says(&["criterion: echo first; echo last >&2; false", "first\n              last\n"]);
}

/// Goal: the status says what happened while a person was away.
#[test]
fn status_since_a_time_counts_what_happened() {
    let (place, run) = begun();
    place.write("go", "");
    run.end().code(1);
    let expected = "1 failed check, 1 step accepted, cost $0.00";
    let status =
        place.ledger("status --since 00:00").code(0).says(&[expected, "#2 bad: criterion"]);
    assert!(!status.out.contains("#1 slow: accepted"), "what went well is counted: {}", status.out);
    place.ledger("status --since 1h").code(0).says(&[expected]);
    place.ledger("status --since 2099-01-01").code(0).says(&["0 steps accepted, cost"]);
    place.ledger("status --since noon").code(2).complains(&["expected a time (22:00"]);
    let line = place.ledger("status --since 1h --json").lines()[1].clone();
    assert_eq!((&line["type"], &line["accepted"]), (&"since".into(), &1.into()));
}

/// Story: `ledger logs` showed nothing of an attempt of `ledger work`, which keeps its files elsewhere.
#[test]
fn output_of_ledger_work_is_shown_live_and_afterwards() {
    let place = Place::approved(PLAN);
    let mut worker = start(&mut place.command(&["work", "--worker", "w1", "--", "true"]));
    wait_until("the worker printed", || place.ledger("logs slow").out.contains("! careful"));
    let live = place.ledger("logs slow").code(0);
    live.says(&["#1 slow, attempt 1 by w1", "in flight\n| begun\n! careful\n"]);
    let follower = start(&mut place.command(&["logs", "-f"]));
    wait_until("it is followed", || follower.said("| begun"));
    place.write("go", "");
    wait_until("the worker has ended", || worker.is_over());
    worker.end().code(1);
    follower.end().code(0).says(&["#1 slow | begun\n", "#1 slow | over\n", "#2 bad | output"]);
    place.ledger("logs slow").code(0).says(&["accepted\n| begun\n| over\n! careful\n"]);
}
