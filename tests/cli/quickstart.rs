//! The quickstart example does what its comment promises.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use plan_ledger::internals::sim::SimDisk;
use plan_ledger::plan::ENDED_KEPT;
use plan_ledger::{Ending, Ledger, Plan, Receipt, RunPolicy, RunStatus};
use plan_ledger_lab::{environment, every_crash};

#[path = "../../examples/quickstart.rs"]
mod example;

fn life(disk: &SimDisk) -> plan_ledger::Result<Ledger> {
    example::release(Path::new("/quickstart.ledger"), &environment(disk))
}

/// Story: the example promised to survive a crash anywhere, and its second run panicked if the
/// first was killed between a claim and its receipt.
/// Method: crash it at every change that it makes to the disk.
#[test]
fn quickstart_survives_a_crash_anywhere() {
    let judge = |_: &SimDisk, ledger: Ledger| {
        let state = ledger.state().unwrap();
        let run = state.run_named("release").ok_or("the run is gone")?;
        let is_done = run.status == RunStatus::Ended(Ending::Done);
        is_done.then_some(()).ok_or_else(|| format!("the run is {:?}", run.status))
    };
    let life = |disk: &SimDisk| life(disk).map_err(|error| error.to_string());
    let crashes = every_crash(life, judge).unwrap();
    assert!(crashes.points > 20, "{crashes:?}");
}

/// Story: after 64 other runs had ended, it failed although its work was done.
#[test]
fn quickstart_finds_its_work_done_after_many_other_runs() {
    let disk = SimDisk::new();
    let ledger = life(&disk).unwrap();
    let plan: Plan = serde_json::from_str(r#"{"steps": [{"id": "only"}]}"#).unwrap();
    for number in 0..ENDED_KEPT {
        let run = ledger.start_run(&format!("{number}"), &plan, RunPolicy::default()).unwrap();
        let task = ledger.dispatch(run, "w").unwrap().unwrap();
        ledger.record_receipt(task.token, Receipt::default()).unwrap();
    }
    assert!(ledger.state().unwrap().run_named("release").is_none(), "a summary is left of it");
    let last = ledger.head();
    drop(ledger);
    assert_eq!(life(&disk).unwrap().head(), last);
}

const CHILD: &str = "LEDGER_TEST_QUICKSTART";

/// Not a test of its own: the child process of the next test.
#[test]
fn child_that_runs_quickstart() {
    if std::env::var(CHILD).is_ok() {
        example::main().unwrap();
    }
}

/// Goal: if it is killed while a step is in flight, the next run continues; a run after that
/// finds nothing to do.
#[test]
fn quickstart_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "quickstart::child_that_runs_quickstart", "--nocapture"])
            .env(CHILD, "")
            .env("TMPDIR", folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut killed = start();
    let mut lines = BufReader::new(killed.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("step 1: ")), "it never began");
    killed.kill().unwrap();
    killed.wait().unwrap();
    for is_done in [false, true] {
        let ended = start().wait_with_output().unwrap();
        let said = String::from_utf8(ended.stdout).unwrap();
        assert!(ended.status.success() && said.contains("done: record"), "{said}");
        assert!(!is_done || !said.contains("step "), "{said}");
    }
}
