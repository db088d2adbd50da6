//! The morning after a crash: what `status`, `next` and `why` say about a runner that was killed, and how
//! `ledger resume` continues.

use std::fs;
use std::process::{Command, Stdio};

use super::command::{Ended, Place, json_lines, report_skipped, start, wait_until};

/// Two steps at work, one that waits for a person, one that failed.
const PLAN: &str = "
title: Release
steps:
  - id: build
    command: 'echo build >> \"$TALLY\"; while [ -e hold ]; do sleep 0.01; done'
  - id: docs
    command: 'echo docs'
    acceptance: [{ text: A newcomer understands it }]
  - id: lint
    command: 'echo \"no such rule\" >&2; exit 3'
    retry: { max_attempts: 1 }
  - id: publish
    after: [build]
    command: 'echo publish >> \"$TALLY\"'
";

/// A runner that was killed while `build` was in flight and `docs` and `lint` were over.
fn killed() -> Place {
    let place = Place::new();
    place.write("release.yaml", PLAN);
    place.write("hold", "");
    let words = ["run", "release.yaml", "--text", "judge", "--max-parallel", "3"];
    let runner = start(&mut place.command(&words));
    wait_until("the other steps are over", || {
        place.ledger("status").out.contains("failed: #3 lint")
            && place.tally() == ["build"]
            && place.ledger("next").out.contains("A newcomer understands it")
    });
    place.ledger("status").code(0).says(&["working on: #1 build, by process/"]);
    assert!(runner.kill().was_killed());
    place
}

/// Lets the worker of the killed runner end.
fn end_build(place: &Place) {
    fs::remove_file(place.path("hold")).unwrap();
    let has_record = || {
        let files = fs::read_dir(place.path(".ledger/work/run-1")).unwrap().flatten();
        files.into_iter().any(|file| file.path().extension().is_some_and(|it| it == "exit"))
    };
    wait_until("the worker has ended", has_record);
}

/// Story: `status` said "working on", and `next` said "wait" with a time in the past.
#[test]
fn killed_runner_is_recognized_at_once() {
    let place = killed();
    let status = place.ledger("status").code(0).says(&[
        "Release: 0 of 4 steps",
        "stopped: no runner is at work",
        "still at work: #1 build, by process/",
        "failed: #3 lint: unknown: exit status 3: no such rule",
        "needs you",
        "step 2 (docs) waits for a verdict on: A newcomer understands it",
        "ledger accept release docs",
        "ledger retry release lint",
        "ledger resume",
    ]);
    assert!(!status.out.contains("working on") && !status.out.contains("more\n"), "{status:?}");
    place
        .ledger("next")
        .code(0)
        .says(&["the runner is gone, and 1 step was in flight", "ledger resume"]);
    let next = place.ledger("next --json").code(0).lines().remove(0);
    assert_eq!((&next["action"], &next["command"]), (&"resume".into(), &"ledger resume".into()));
    place
        .ledger("inspect .ledger why release publish")
        .code(0)
        .says(&["the runner is gone", "ledger resume"]);
    let view = place.ledger("status --json").code(0).lines().remove(0);
    assert_eq!(view["runner_at_work"], false);
    assert_eq!(view["needs"][0]["item"]["kind"], "verdicts");
}

#[test]
fn resume_repeats_the_last_run_in_its_folder() {
    let place = killed();
    let shown = place.ledger("resume --show").code(0);
    assert_eq!(shown.out, "ledger run release.yaml --text judge --max-parallel 3 --keep-plan\n");
    assert_eq!(place.tally(), ["build"], "nothing was started");
    end_build(&place);
    // From another folder, and from below.
    fs::create_dir(place.path("below")).unwrap();
    let resumed = start(place.command(&["resume"]).current_dir(place.path("below"))).end();
    resumed.code(3).says(&["2 of 4 steps accepted, 1 failed"]);
    assert_eq!(place.tally(), ["build", "publish"], "the result of the build was kept");
    place.ledger("resume --retry-failed").code(3).says(&["2 of 4 steps accepted, 1 failed"]);
    place.ledger("inspect step lint").code(0).says(&["attempt 2"]);
    place.ledger("skip lint --reason known").code(0);
    place.ledger("accept docs").code(0);
    place.ledger("resume").code(0).complains(&["run release is done"]);
}

/// Story: a rejected command line replaced the one that had started the run, and `resume` repeated the
/// rejected one. After another plan had run, `resume` no longer knew the killed run.
#[test]
fn each_run_is_resumed_with_the_command_line_that_started_it() {
    let place = killed();
    place.write("other.yaml", "steps: [{id: other, command: 'echo other >> \"$TALLY\"'}]");
    place.ledger("run other.yaml --run release").code(6);
    let shown = place.ledger("resume --show").code(0);
    shown.says(&["ledger run release.yaml --text judge"]);
    place.ledger("run other.yaml").code(0);
    place.ledger("status").code(0).says(&["ledger resume release"]);
    for line in ["resume --show", "resume release --show"] {
        place.ledger(line).code(0).says(&["ledger run release.yaml --text judge"]);
    }
    place.ledger("resume other --show").code(0).says(&["ledger run other.yaml"]);
    place.ledger("resume missing").code(2).complains(&["no run `missing`"]);
    fs::remove_file(place.path("hold")).unwrap();
    place.ledger("resume").code(3).says(&["2 of 4 steps accepted, 1 failed"]);
}

/// The words that start a command in a place without `/proc`, if this machine can make one.
fn without_proc() -> Option<Vec<&'static str>> {
    let hide = ["sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh"];
    let users: [&[&str]; 2] = [&["unshare", "-m"], &["unshare", "--user", "--map-root-user", "-m"]];
    users.into_iter().map(|words| [words, &hide].concat()).find(|words| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["test", "!", "-e", "/proc/self"]);
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    })
}

/// Story: where there was no `/proc`, as in a chroot, `status` said that no runner was at work while one waited
/// for a person, and `resume` could not start its own program.
#[test]
fn runner_that_cannot_be_seen_is_called_neither_alive_nor_gone() {
    let Some(words) = without_proc() else {
        return report_skipped("no place without /proc can be made");
    };
    let hidden = |place: &Place, line: &str| -> Ended {
        let inner = place.command(&line.split(' ').collect::<Vec<_>>());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(inner.get_program()).args(inner.get_args());
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(inner.get_current_dir().unwrap()).stdin(Stdio::null());
        start(&mut command).end()
    };
    let unseen = "it cannot be seen from here whether the last runner, process ";
    let place = killed();
    end_build(&place);
    let status =
        hidden(&place, "status").code(0).says(&[unseen, "  in flight: #1 build, by process/"]);
    for claim in ["gone", "no runner is at work", "working on", "when it stopped"] {
        assert!(!status.out.contains(claim), "{claim}: {status:?}");
    }
    let next = hidden(&place, "next").code(0).says(&["1 step is in flight, and", unseen]);
    next.says(&["if it has, start it again", "  ledger resume"]);
    let view = hidden(&place, "status --json").code(0);
    let view = json_lines(&["status".to_owned(), "--json".to_owned()], &view.out).remove(0);
    assert_eq!(view["runner_at_work"], serde_json::Value::Null);
    hidden(&place, "inspect .ledger why release publish").code(0).says(&["ledger resume"]);
    let what_to_do =
        [unseen, "has ended", "look for that process where it was started", "add --yes"];
    hidden(&place, "resume").code(6).complains(&what_to_do);
    assert_eq!(place.tally(), ["build"], "nothing was started");
    hidden(&place, "resume --yes").code(3).says(&["2 of 4 steps accepted, 1 failed"]);
    assert_eq!(place.tally(), ["build", "publish"]);
    // It cannot be seen from outside either: it did not see itself.
    place.ledger("resume").code(6).complains(&what_to_do);

    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, command: 'true', gate: {question: Now?}}]\n");
    let runner = start(&mut place.command(&["run", "plan.yaml", "--wait"]));
    wait_until("the runner waits without the lock", || {
        hidden(&place, "resume").err.contains(&format!("{unseen}{}", runner.id()))
    });
    place.ledger("resume").code(5).complains(&["a runner is at work: process "]);
    runner.kill();
}

/// A ledger that was moved, or that came from elsewhere, starts nothing without a question; one without a
/// known runner starts nothing.
#[test]
fn resume_asks_where_the_ledger_has_moved() {
    let place = killed();
    end_build(&place);
    fs::rename(place.path(".ledger"), place.path("moved")).unwrap();
    place.ledger("resume --ledger moved").code(6).complains(&[
        "ledger run --ledger=",
        "release.yaml",
        "--yes",
    ]);
    assert_eq!(place.tally(), ["build"]);
    place.ledger("resume --ledger moved --yes").code(3);
    assert_eq!(place.tally(), ["build", "publish"]);
    let other = place.path("state");
    let unknown =
        start(place.command(&["resume", "--ledger", "moved"]).env("XDG_STATE_HOME", other));
    unknown.end().code(2).complains(&["no earlier runner of moved is known to this user"]);
}

/// A run of a loop without a runner has no runner that could be gone.
#[test]
fn claims_of_own_loops_are_not_abandoned() {
    let place = Place::planned(PLAN);
    place.ledger("claim --worker me").code(0);
    place.ledger("status").code(0).says(&["working on: #1 build, by me, for 0s"]);
    let next = place.ledger("next").code(0);
    assert!(!next.out.contains("runner is gone"), "{next:?}");
}
