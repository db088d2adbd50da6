//! Runs that continue after their plan file, their folder or their ledger was changed, moved, copied or removed.
//! Real processes and real folders.

use std::fs;
use std::path::Path;
use std::process::Command;

use plan_ledger::StepStatus;

use super::command::{Ended, PROGRAM, Place, ids, start, state_of, wait_until};

/// Three steps in a row. A worker makes a file in its working folder and says where it is.
const PLAN: &str = "steps:
  - {id: a, goal: first}
  - {id: b, goal: second, after: [a]}
  - {id: c, goal: third, after: [b]}
";
const WORKER: &str =
    "if [ $LEDGER_STEP$LEDGER_ATTEMPT = b1 ]; then sleep 60; fi; touch $LEDGER_STEP.made; pwd";

/// A folder `old` with a run whose runner was killed in its second step.
fn killed() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("old")).unwrap();
    place.write("old/plan.yaml", PLAN);
    let killed = ledger(&place, "old", &["run", "plan.yaml", "--worker", WORKER, "--kill-at", "2"]);
    assert!(killed.was_killed());
    place
}

/// Runs `ledger` in a folder of the place.
fn ledger(place: &Place, folder: &str, words: &[&str]) -> Ended {
    start(place.command(words).current_dir(place.path(folder))).end()
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// The statuses of the ledger in a folder: accepted steps.
fn accepted(folder: &Path) -> Vec<String> {
    ids(state_of(&folder.join(".ledger")).run_named("plan").unwrap(), StepStatus::Accepted)
}

fn made(folder: &Path) -> Vec<bool> {
    ["a", "b", "c"].map(|step| folder.join(format!("{step}.made")).exists()).to_vec()
}

#[test]
fn run_without_its_plan_file_continues_from_the_ledger() {
    for words in [&["resume"][..], &["resume", "plan"], &["run", "plan.yaml", "--worker", WORKER]] {
        let place = killed();
        fs::remove_file(place.path("old/plan.yaml")).unwrap();
        let said = ["there is no file plan.yaml; the run continues with plan version 1"];
        ledger(&place, "old", words).code(0).complains(&said);
        assert_eq!(accepted(&place.path("old")), ["a", "b", "c"]);
    }
    // By the name of the run; without a worker, the message names a command that works.
    let place = killed();
    fs::remove_file(place.path("old/plan.yaml")).unwrap();
    let said = ["run plan: step `a` has no command", "`ledger resume plan` repeats"];
    ledger(&place, "old", &["run", "plan"]).code(2).complains(&said);
    ledger(&place, "old", &["run", "plan", "--worker", WORKER]).code(0);
    // A name that is neither a file nor a run is refused, and nothing is written.
    ledger(&place, "old", &["run", "other"]).code(2);
}

#[test]
fn copied_ledger_has_workers_in_its_own_folder() {
    let place = killed();
    copy(&place.path("old"), &place.path("copy"));
    let said = ["this ledger is a copy of ", "which still exists", "add --yes"];
    ledger(&place, "copy", &["resume"]).code(6).complains(&said);
    assert_eq!(made(&place.path("copy")), [true, false, false], "nothing was started");
    let copy = fs::canonicalize(place.path("copy")).unwrap();
    let line = format!("in {}: ledger run plan.yaml --worker", copy.display());
    ledger(&place, "copy", &["resume", "--yes"]).code(0).complains(&[&line]);
    assert_eq!(made(&copy), [true, true, true]);
    assert_eq!(accepted(&copy), ["a", "b", "c"]);
    // The other one is as it was, and continues on its own.
    assert_eq!(made(&place.path("old")), [true, false, false]);
    assert_eq!(accepted(&place.path("old")), ["a"]);
    ledger(&place, "old", &["resume"]).code(0);
    assert_eq!(made(&place.path("old")), [true, true, true]);
}

/// A copy of the ledger without its working folder starts nothing in the folder of the other one.
#[test]
fn copied_ledger_without_its_folder_is_refused() {
    let place = killed();
    copy(&place.path("old/.ledger"), &place.path("old/backup"));
    let refused = ledger(&place, "old", &["resume", "--ledger", "backup", "--yes"]).code(6);
    refused.complains(&["this ledger is a copy of", "belongs to that one"]);
    assert_eq!(made(&place.path("old")), [true, false, false]);
    // Neither is the folder around the copy, or around a ledger that was moved alone, the working folder.
    fs::create_dir(place.path("kept")).unwrap();
    copy(&place.path("old/.ledger"), &place.path("kept/.ledger"));
    let refused = ledger(&place, "kept", &["resume", "--yes"]).code(6);
    refused.complains(&["the last runner worked in", "plan.yaml", "there is none"]);
    fs::rename(place.path("old/.ledger"), place.path("moved")).unwrap();
    let refused = ledger(&place, "old", &["resume", "--ledger", "../moved", "--yes"]).code(6);
    refused.complains(&["the last runner worked in", "plan.yaml", "there is none"]);
    assert_eq!(made(&place.path("old")), [true, false, false]);
    assert_eq!(made(&place.path("kept")), [false, false, false]);
    // One that was started elsewhere with the ledger of this folder.
    let place = Place::new();
    fs::create_dir(place.path("work")).unwrap();
    place.write("work/plan.yaml", PLAN);
    fs::create_dir(place.path("ledgers")).unwrap();
    let words =
        ["run", "plan.yaml", "--worker", WORKER, "--kill-at", "2", "--ledger", "../ledgers/x"];
    assert!(ledger(&place, "work", &words).was_killed());
    copy(&place.path("ledgers/x"), &place.path("ledgers/y"));
    let words = ["resume", "--ledger", "../ledgers/y", "--yes"];
    ledger(&place, "work", &words).code(6).complains(&["and this ledger is a copy of that one"]);
    assert_eq!(made(&place.path("work")), [true, false, false]);
}

#[test]
fn moved_folder_is_resumed_in_its_new_place() {
    let place = killed();
    fs::rename(place.path("old"), place.path("new")).unwrap();
    ledger(&place, "new", &["status"]).code(0).says(&["ledger resume"]);
    ledger(&place, "new", &["resume"]).code(0);
    assert_eq!(made(&place.path("new")), [true, true, true]);
    assert!(!place.path("old").exists());
    // The name of the ledger is printed as it is executed.
    let place = killed();
    fs::rename(place.path("old/.ledger"), place.path("old/x y")).unwrap();
    let shown = ledger(&place, "old", &["resume", "--ledger", "x y", "--show"]).code(0);
    let ledger_dir = fs::canonicalize(place.path("old/x y")).unwrap();
    let option = format!("ledger run '--ledger={}' plan.yaml", ledger_dir.display());
    assert!(shown.out.starts_with(&option), "{shown:?}");
    let mut line = Command::new("sh");
    let program = Path::new(PROGRAM).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    line.args(["-c", &shown.out]).env("PATH", path).current_dir(place.path("old"));
    start(&mut line).end().code(0);
    assert_eq!(made(&place.path("old")), [true, true, true]);
}

#[test]
fn ledger_that_is_gone_is_not_begun_anew() {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    let run = ["run", "plan.yaml", "--worker", "echo \"$LEDGER_STEP\" >> \"$TALLY\""];
    place.ledger_with(&run).code(0);
    let records = state_of(&place.path(".ledger")).seq;
    fs::remove_dir_all(place.path(".ledger")).unwrap();
    let gone = format!("a ledger with at least {records} records was here until ");
    let said = [gone.as_str(), "it is gone", "restore a backup", "--accept-rollback"];
    place.ledger_with(&run).code(6).complains(&said);
    place.ledger("init").code(6).complains(&said);
    for line in ["status", "resume", "next", "claim", "inspect runs", "plan propose plan.yaml"] {
        place.ledger(line).code(2).complains(&said);
    }
    place.ledger("prime").code(0).says(&said);
    let line = &place.ledger("prime --json").code(0).lines()[0];
    assert!(line["damage"].as_str().unwrap().contains(&gone), "{line}");
    assert_eq!(place.tally().len(), 3, "nothing was done again");
    assert!(!place.path(".ledger").exists());
    // What is left of it, such as the files of a worker, is no ledger.
    fs::create_dir_all(place.path(".ledger/work")).unwrap();
    place.ledger_with(&run).code(6).complains(&said);
    fs::remove_dir_all(place.path(".ledger")).unwrap();
    // The way that the message names.
    place.ledger_with(&[&run[..], &["--accept-rollback"]].concat()).code(0);
    assert_eq!(place.tally().len(), 6);
    place.ledger_with(&run).code(0);
    fs::remove_dir_all(place.path(".ledger")).unwrap();
    place.ledger("init --accept-rollback").code(0);
    place.ledger("status").code(0);
}

/// A folder that was made anew begins a new ledger, and what is told of the one that was there says how.
#[test]
fn ledger_of_a_folder_that_was_made_anew_is_told_of() {
    let place = Place::new();
    fs::create_dir(place.path("w")).unwrap();
    fs::create_dir(place.path("new")).unwrap();
    place.write("w/plan.yaml", PLAN);
    let run = ["run", "plan.yaml", "--stub"];
    let in_folder = |words: &[&str]| start(place.command(words).current_dir(place.path("w"))).end();
    in_folder(&run).code(0);
    // The new folder is made first, so it is another one.
    place.write("new/plan.yaml", PLAN);
    fs::remove_dir_all(place.path("w")).unwrap();
    fs::rename(place.path("new"), place.path("w")).unwrap();
    let hint = ["in the folder that was here until", "start a new ledger with `ledger run`"];
    let told = in_folder(&["status"]).code(2).complains(&hint);
    assert!(!told.err.contains("--accept-rollback"), "{}", told.err);
    in_folder(&run).code(0).complains(&["in the folder that was here until", "a new one begins"]);
}

/// A ledger that a command below it would have found is told of, when it is gone.
#[test]
fn ledger_above_that_is_gone_is_told_of() {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    fs::create_dir(place.path("sub")).unwrap();
    let below = |words: &[&str]| start(place.command(words).current_dir(place.path("sub"))).end();
    place.ledger("run plan.yaml --stub").code(0);
    below(&["status"]).code(0);
    fs::remove_dir_all(place.path(".ledger")).unwrap();
    below(&["status"]).code(2).complains(&["a ledger with at least ", "restore a backup"]);
    let said = ["a ledger with at least ", "a new one begins here"];
    below(&["run", "../plan.yaml", "--stub"]).code(0).complains(&said);
    below(&["status"]).code(0);
}

/// A person accepts a rollback for once: the next `resume` refuses another one.
#[test]
fn accepted_rollback_is_not_accepted_again() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a}, {id: b, gate: {question: 'go?'}}]");
    let run = ["run", "plan.yaml", "--worker", "true"];
    place.ledger_with(&run).code(3);
    let copy = |from: &str, to: &str| {
        let _ = fs::remove_dir_all(place.path(to));
        let mut copied = Command::new("cp");
        let status = copied.args(["-a", from, to]).current_dir(place.path("")).status();
        assert!(status.unwrap().success());
    };
    copy(".ledger", "older");
    place.ledger("note hello").code(0);
    copy("older", ".ledger");
    place.ledger("resume").code(6).complains(&["--accept-rollback"]);
    // The way that the message names.
    place.ledger("resume --accept-rollback").code(3);
    let shown = place.ledger("resume --show").code(0);
    assert!(!shown.out.contains("--accept-rollback"), "{}", shown.out);
    place.ledger("note again").code(0);
    copy("older", ".ledger");
    place.ledger("resume").code(6).complains(&["--accept-rollback"]);
    place.ledger_with(&[&run[..], &["--accept-rollback"]].concat()).code(3);
    place.ledger("note again").code(0);
    copy("older", ".ledger");
    place.ledger("resume").code(6).complains(&["--accept-rollback"]);
}

/// A worker removes the ledger of the first run in a folder, and the runner is killed.
#[test]
fn ledger_that_a_worker_removed_is_known() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, command: 'rm -rf .ledger; sleep 600'}]");
    let runner = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the step is dispatched", || runner.complained("dispatched"));
    wait_until("the worker removed the ledger", || !place.path(".ledger/HEAD").exists());
    assert!(runner.kill().was_killed());
    place.ledger("run plan.yaml").code(6).complains(&["a ledger with", "it is gone"]);
}

/// The whole folder was removed or moved away and made again, as scripts do: what was there is told, once.
#[test]
fn folder_that_was_made_again_tells_of_its_ledger() {
    let place = Place::new();
    let make = || {
        fs::create_dir(place.path("other")).unwrap();
        place.write("other/plan.yaml", "steps: [{id: a, command: 'true'}]");
    };
    make();
    ledger(&place, "other", &["run", "plan.yaml"]).code(0);
    for is_moved in [true, false] {
        if is_moved {
            fs::rename(place.path("other"), place.path("aside")).unwrap();
        } else {
            fs::remove_dir_all(place.path("other")).unwrap();
        }
        make();
        let said =
            ["a ledger with at least ", " was in the folder that was here until ", "it is gone"];
        ledger(&place, "other", &["status"]).code(2).complains(&said);
        ledger(&place, "other", &["prime"]).code(0).says(&said);
        ledger(&place, "other", &["run", "plan.yaml"]).code(0).complains(&said);
        let again = ledger(&place, "other", &["run", "plan.yaml"]).code(0);
        assert!(!again.err.contains("it is gone"), "{}", again.err);
    }
    // The ledger that was moved away is whole.
    ledger(&place, "aside", &["status"]).code(0);
}

/// The plan file and the worker are named by absolute paths: after a move or in a copy, those in the new folder are
/// meant.
#[test]
fn absolute_paths_in_the_working_folder_move_with_it() {
    let place = Place::new();
    fs::create_dir(place.path("old")).unwrap();
    let old = fs::canonicalize(place.path("old")).unwrap();
    place.write("old/plan.yaml", PLAN);
    place.write(
        "old/worker.sh",
        "if [ $LEDGER_STEP$LEDGER_ATTEMPT = b1 ]; then sleep 60; fi; touch ${0%/*}/$LEDGER_STEP.made\n",
    );
    let (plan, script) = (old.join("plan.yaml"), old.join("worker.sh"));
    let worker = format!("sh {}", script.display());
    let plan = plan.to_str().unwrap();
    let killed = ledger(&place, "old", &["run", plan, "--worker", &worker, "--kill-at", "2"]);
    assert!(killed.was_killed());
    copy(&old, &place.path("copy"));
    ledger(&place, "copy", &["resume", "--yes"]).code(0);
    assert_eq!(made(&place.path("copy")), [true, true, true]);
    assert_eq!(made(&old), [true, false, false]);
    fs::rename(&old, place.path("new")).unwrap();
    ledger(&place, "new", &["resume"]).code(0);
    assert_eq!(made(&place.path("new")), [true, true, true]);
    assert!(!old.exists());
    // Where the plan file stayed behind, nothing is started.
    let killed = ledger(
        &place,
        "copy",
        &[
            "run",
            plan.replace("/old/", "/copy/").as_str(),
            "--run",
            "again",
            "--worker",
            &worker.replace("/old/", "/copy/"),
            "--kill-at",
            "2",
        ],
    );
    assert!(killed.was_killed());
    copy(&place.path("copy"), &place.path("third"));
    fs::remove_file(place.path("third/worker.sh")).unwrap();
    fs::remove_file(place.path("third/plan.yaml")).unwrap();
    let refused = ledger(&place, "third", &["resume", "again", "--yes"]).code(6);
    refused.complains(&["plan.yaml", "there is none"]);
}

/// A file that is broken or another plan by now: `ledger run` says what there is, and `ledger resume` continues with
/// the plan in the ledger.
#[test]
fn run_of_a_file_that_is_another_plan_now_is_resumed_with_its_own() {
    let other = "steps: [{id: x, goal: other}]\n";
    for (content, code, run_says, resume_says) in [
        (other, 6, "has another plan than the file", "plan.yaml is another plan"),
        (
            "steps: [{id: a\n",
            2,
            "run plan has a plan in the ledger",
            "plan.yaml is not a valid plan",
        ),
    ] {
        let place = killed();
        place.write("old/plan.yaml", content);
        let refused = ledger(&place, "old", &["run", "plan.yaml", "--worker", WORKER]).code(code);
        refused.complains(&[run_says, "--keep-plan"]);
        let resumed = ledger(&place, "old", &["resume"]).code(0);
        resumed.complains(&[resume_says, "the run continues with plan version 1 from the ledger"]);
        assert_eq!(accepted(&place.path("old")), ["a", "b", "c"]);
        // A command line that is resumed twice has the option once.
        ledger(&place, "old", &["resume"]).code(0);
    }
}

/// A new plan version that is asked for is not left out because there is no file.
#[test]
fn replan_without_its_file_is_an_error() {
    let place = killed();
    fs::remove_file(place.path("old/plan.yaml")).unwrap();
    let words = ["run", "plan.yaml", "--worker", WORKER, "--replan"];
    let refused = ledger(&place, "old", &words).code(2);
    refused.complains(&["plan.yaml", "run plan has a plan in the ledger", "`ledger resume plan`"]);
    assert_eq!(accepted(&place.path("old")), ["a"]);
    ledger(&place, "old", &["resume"]).code(0);
}

/// The folder is moved while a worker works: its result is no failure, and the next runner records it.
#[test]
fn result_of_a_moved_folder_is_kept() {
    for dir in [".ledger", "OLD/.ledger"] {
        let place = Place::new();
        fs::create_dir(place.path("old")).unwrap();
        let plan = "steps:
  - {id: a, command: 'echo a >> \"$TALLY\"; while [ -e hold ]; do sleep 0.01; done; echo the result'}
  - {id: b, command: 'echo b >> \"$TALLY\"', after: [a]}
";
        place.write("old/plan.yaml", plan);
        place.write("old/hold", "");
        let dir = dir.replace("OLD", place.path("old").to_str().unwrap());
        let mut command = place.command(&["run", "plan.yaml", "--ledger", &dir]);
        let runner = start(command.current_dir(place.path("old")));
        wait_until("the worker is at work", || place.tally() == ["a"]);
        fs::rename(place.path("old"), place.path("new")).unwrap();
        fs::remove_file(place.path("new/hold")).unwrap();
        let ended = runner.end().code(7);
        ended.complains(&["the folder of the ledger was moved or removed", "ledger resume"]);
        assert!(!place.path("old").exists(), "nothing was made in the old place");
        let state = state_of(&place.path("new/.ledger"));
        assert_eq!(state.in_flight.len(), 1, "nothing was recorded about the attempt");
        ledger(&place, "new", &["resume"]).code(0);
        assert_eq!(place.tally(), ["a", "b"], "the work was not done again");
        let shown = ledger(&place, "new", &["inspect", "step", "a"]).code(0);
        shown.says(&["the result"]);
    }
}

/// A worker removed the ledger, as `git clean -fdx` does: the last line of the run says what was there, up to the end.
#[test]
fn run_whose_ledger_is_removed_ends_with_what_was_there() {
    let place = Place::new();
    let plan = "steps:
  - {id: a, command: 'echo a >> \"$TALLY\"'}
  - {id: b, command: 'echo b >> \"$TALLY\"; rm -rf .ledger', after: [a]}
  - {id: c, command: 'echo c >> \"$TALLY\"', after: [b]}
";
    place.write("plan.yaml", plan);
    let ended = place.ledger("run plan.yaml").code(7);
    let gone = ["a ledger with at least ", " was here until ", "; it is gone", "--accept-rollback"];
    let ended = ended.complains(&["the folder of the ledger was removed during the run"]);
    let ended = ended.complains(&gone);
    assert!(!ended.err.contains("its new place"), "{}", ended.err);
    let count = |text: &str| {
        let rest = text.split("a ledger with at least ").nth(1).unwrap();
        rest.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    // The plan, and two records of each of the first steps at least.
    assert!(count(&ended.err) > 7, "{}", ended.err);
    for line in ["status", "resume", "run plan.yaml"] {
        let later = start(&mut place.command(&line.split(' ').collect::<Vec<_>>())).end();
        assert_ne!(later.status.code(), Some(0), "{line}");
        assert_eq!(count(&later.complains(&gone[..3]).err), count(&ended.err), "{line}");
    }
    assert_eq!(place.tally(), ["a", "b"]);
}

/// What a finished step was is in the ledger: a change of its text in the file stops nothing. A change of work
/// that is left does.
#[test]
fn changed_text_of_a_finished_step_stops_nothing() {
    let change = |from: &str, to: &str| {
        let place = killed();
        assert!(PLAN.contains(from), "{from}");
        place.write("old/plan.yaml", PLAN.replace(from, to));
        (ledger(&place, "old", &["run", "plan.yaml", "--worker", WORKER]), place)
    };
    for (from, to) in [
        ("goal: first", "goal: 'first \u{2705} done, took long'"),
        ("goal: first", "goal: first, estimate_seconds: 5, priority: 7"),
        ("goal: third", "goal: third, title: Another title"),
        ("goal: third", "goal: third, extra: {notes: careful}"),
        ("steps:", "title: Another title\nsteps:"),
        (
            "  - {id: a, goal: first}\n  - {id: b, goal: second, after: [a]}",
            "  - {id: b, goal: second}",
        ),
    ] {
        let (ended, place) = change(from, to);
        ended.code(0).complains(&["but not in the remaining work"]);
        let state = state_of(&place.path("old/.ledger"));
        assert_eq!(state.run_named("plan").unwrap().versions.len(), 1, "{to}");
    }
    for (from, to) in [
        ("goal: third", "goal: other"),
        ("goal: second", "goal: other"),
        ("goal: third", "goal: third, acceptance: [more]"),
        ("after: [b]}", "after: [b]}\n  - {id: d}"),
        ("goal: third, after: [b]", "goal: third"),
    ] {
        let (ended, _) = change(from, to);
        ended.code(6).complains(&["has another plan than the file"]);
    }
}

/// The file of another tool: ticks, notes and scores of finished tasks.
#[test]
fn ticks_and_notes_of_finished_tasks_stop_nothing() {
    let before = "# Tasks\n\n- [ ] order paint\n- [ ] paint the wall\n- [ ] clean up\n";
    let after = "# Tasks\n\n- [x] order paint \u{2705} (took two days)\n- [ ] paint the wall\n- [ ] clean up\n";
    let place = Place::new();
    place.write("tasks.md", before);
    let words =
        ["run", "tasks.md", "--worker", "echo \"$LEDGER_STEP\" >> \"$TALLY\"", "--kill-at", "2"];
    assert!(place.ledger_with(&words).was_killed());
    place.write("tasks.md", after);
    place.ledger("resume").code(0);
    let mut done = place.tally();
    done.dedup();
    assert_eq!(done, ["1", "2", "3"]);
}

#[test]
fn retry_answers_the_question_about_a_failure() {
    let plan = "steps:
  - {id: a, command: '[ -e ok ]'}
  - {id: b, command: '[ -e ok ]'}
  - {id: c, command: '[ -e ok ]'}
";
    let place = Place::new();
    place.write("plan.yaml", plan);
    place.ledger("run plan.yaml").code(3);
    assert_eq!(ids(place.state().run_named("plan").unwrap(), StepStatus::Gated).len(), 3);
    place.ledger("retry a").code(0).says(&["step 1 (a): retried"]);
    let state = place.state();
    let run = state.run_named("plan").unwrap();
    assert_eq!(ids(run, StepStatus::Gated), ["b", "c"]);
    assert_eq!(ids(run, StepStatus::Ready), ["a"]);
    place.ledger("retry a").code(6).complains(&["nothing to retry"]);
    place.ledger("retry").code(0).says(&["step 2 (b), step 3 (c): retried"]);
    assert_eq!(place.state().run_named("plan").unwrap().questions.len(), 0);
    // The same by the option of a runner.
    place.ledger("resume").code(3);
    place.write("ok", "");
    place.ledger("resume --retry-failed").code(0);
}

/// A retry that changes nothing yet says what does.
#[test]
fn retry_in_a_paused_run_names_what_continues_it() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, command: 'false'}]\n");
    place.ledger("run plan.yaml").code(3);
    place.ledger("pause plan --by ana").code(0);
    let retried = place.ledger("retry a").code(0).says(&["retried; the run is paused"]);
    retried.complains(&["nothing is dispatched: `ledger next plan` says what continues it"]);
    place.ledger("prime").code(0).says(&["paused by"]);
    place.ledger("unpause plan").code(0);
    // Nothing is left to retry: the step is ready.
    place.ledger("retry a").code(6).complains(&["nothing to retry", "step 1 (a) is ready"]);
}

/// The worker of an attempt that is over is not kept.
#[test]
fn repeated_receipt_says_how_to_get_the_next_step() {
    let place = Place::planned("steps: [{id: a}, {id: b, after: [a]}]\n");
    let token = place.ledger("claim plan --worker w --json").code(0).token();
    let receipt = format!("receipt {token} --output done --next");
    place.ledger(&receipt).code(0);
    let again = place.ledger(&receipt).code(3);
    again.complains(&["recorded before", "`--worker NAME`", "`ledger claim`"]);
}
