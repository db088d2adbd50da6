//! `ledger run --store` as processes: a run outlives its machine, a runner that was replaced or that cannot reach its
//! store ends its workers, and attempts of another machine's runner keep their leases.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::commands::expect_published;
use super::process::{Place, Running};

/// The lease of the tests: the shortest one.
const LEASE: &str = "--lease 5s";

/// A worker that works on the first attempt of the step `slow` until it is killed, and shows each moment that it is alive.
const WORKER: &str = "#!/bin/sh
if [ \"$LEDGER_STEP\" = slow ] && [ \"$LEDGER_ATTEMPT\" = 1 ]; then
  while :; do date +%s%N >PLACE/alive; sleep 0.05; done
fi
echo \"$LEDGER_STEP of attempt $LEDGER_ATTEMPT\"
";

fn write_worker(place: &Place) {
    let path = place.path("worker");
    let text = WORKER.replace("PLACE", &place.path("").display().to_string());
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Steps before and after one that the first worker does not finish.
fn write_plan(place: &Place, lease: u32) {
    let plan = format!(
        "defaults: {{lease_seconds: {lease}}}\nsteps:\n  - {{id: first, goal: x}}\n  - {{id: slow, goal: x, after: \
         [first]}}\n  - {{id: last, goal: x, after: [slow]}}\n"
    );
    std::fs::write(place.path("plan.yaml"), plan).unwrap();
}

fn line(folder: &str, more: &str) -> String {
    format!(
        "run @plan.yaml --run r --ledger @{folder} --worker @worker --store URL --no-probe --text trust {more}"
    )
}

/// A store in a folder, so that it can be taken away.
fn place_with_folder() -> Place {
    let mut place = Place::new();
    let folder = place.path("shelf");
    std::fs::create_dir(&folder).unwrap();
    place.url = format!("file://{}", folder.display());
    place
}

fn events(place: &Place, folder: &str, kind: &str) -> Vec<Value> {
    let out = place.ledger(&format!("inspect @{folder} records --kind {kind} --json"));
    let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["type"] == "record").map(|line| line["event"].clone()).collect()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(180);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether the slow worker shows that it is alive within a second.
fn is_alive(place: &Place) -> bool {
    let read = || std::fs::read_to_string(place.path("alive")).unwrap_or_default();
    let before = read();
    let until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < until {
        if read() != before {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

fn wait_for_worker(place: &Place, runner: &mut Running) {
    let until = Instant::now() + Duration::from_secs(180);
    while !place.path("alive").exists() {
        assert!(Instant::now() < until, "{}", runner.err());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The steps that are accepted in a folder, each once.
fn accepted(place: &Place, folder: &str) -> usize {
    events(place, folder, "accepted").len()
}

/// Goal: a run in one process has its log in the store; it creates the ledger there, and another machine can continue
/// it. Without `--store`, the folder is not written to.
#[test]
fn run_has_its_log_in_a_store() {
    let place = Place::new();
    std::fs::write(
        place.path("plan.yaml"),
        "steps:\n  - {id: one, command: echo 1}\n  - {id: two, command: echo 2}\n",
    )
    .unwrap();
    let run = "run @plan.yaml --run r --store URL --json --ledger";
    let out = place.ledger(&format!("{run} @first"));
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let holding = lines.iter().find(|line| line["type"] == "holding").unwrap();
    expect_published("run.holding", holding);
    assert_eq!((&holding["url"], &holding["ack"]), (&json!(place.url), &json!("store")));
    let status = place.json("store status URL --json");
    assert_eq!((&status["owner"]["free"], &status["epoch"]), (&json!(true), &holding["epoch"]));
    assert!(place.path("first/STORE.json").exists());
    for command in ["run @plan.yaml --run r --ledger @first", "serve --ledger @first"] {
        let (code, _, err) = place.run(command);
        assert_eq!(code, 6, "{err}");
        assert!(err.contains("the log of this ledger is in") && err.contains("--store"), "{err}");
    }
    // The machine is lost.
    std::fs::remove_dir_all(place.path("first")).unwrap();
    let (code, out, err) = place.run(&format!("{run} @second"));
    assert_eq!(code, 0, "{out}\n{err}");
    assert!(err.contains("restored") && err.contains("run r is done"), "{err}");
    assert_eq!(accepted(&place, "second"), 2);
    // Another plan is refused, and the ledger is free again.
    std::fs::write(place.path("plan.yaml"), "steps:\n  - {id: one, command: echo 3}\n").unwrap();
    let (code, _, err) = place.run(&format!("{run} @second"));
    assert_eq!(code, 6, "{err}");
    assert_eq!(place.json("store status URL --json")["owner"]["free"], true);
    place.ledger("verify URL");
}

/// Goal: while a run with a store waits for a person, its process keeps the ledger, and takes the answer.
#[test]
fn waiting_run_keeps_its_ledger() {
    let place = Place::new();
    std::fs::write(
        place.path("plan.yaml"),
        "steps:\n  - {id: one, command: echo 1, gate: {question: Really?}}\n",
    )
    .unwrap();
    let mut runner = place.start(&format!(
        "run @plan.yaml --run r --ledger @first --store URL --no-probe --wait --json {LEASE}"
    ));
    runner.wait_for("\"type\":\"waits\"");
    let (code, _, err) =
        place.run(&format!("serve --ledger @second --store URL --no-probe {LEASE}"));
    assert_eq!(code, 5, "{err}");
    place.ledger("answer r one yes --ledger @first --by ana");
    assert_eq!(runner.end(), 0, "{}", runner.err());
    assert_eq!(place.json("store status URL --json")["owner"]["free"], true);
}

/// Goal: a runner that was replaced while it stood still ends its workers, says who took over, and ends with 6. The
/// other machine does not give up the attempt, whose worker it cannot see: it keeps its lease, and is then done again.
#[test]
fn replaced_runner_ends_its_workers() {
    let place = Place::new();
    write_worker(&place);
    write_plan(&place, 12);
    let mut first = place.start(&line("first", LEASE));
    wait_for_worker(&place, &mut first);
    let dispatched = Instant::now();
    let before = epoch(&place);
    assert!(before.is_some());
    first.signal(Signal::STOP);
    assert!(is_alive(&place), "the worker is a process of its own");
    let mut second = place.start(&line("second", LEASE));
    wait_until("the second machine took over", || epoch(&place) > before);
    assert!(is_alive(&place), "nothing ended the worker yet");
    first.signal(Signal::CONT);
    assert_eq!(first.end(), 6, "{}\n{}", first.out(), first.err());
    let err = first.err();
    assert!(err.contains("fenced: process") && err.contains("took over the ledger"), "{err}");
    assert!(!is_alive(&place), "the worker of a replaced runner was ended\n{err}");
    assert_eq!(second.end(), 0, "{}\n{}", second.out(), second.err());
    assert!(dispatched.elapsed() >= Duration::from_secs(5));
    let err = second.err();
    assert!(err.contains("may be at work on another machine: it keeps its lease"), "{err}");
    let lost = events(&place, "second", "attempt_lost");
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(lost[0]["cause"], "lease_expired", "{}", lost[0]);
    assert_eq!(accepted(&place, "second"), 3);
    // What the first one had recorded is there, and nothing else of it.
    let receipts = events(&place, "second", "receipt_recorded");
    let outputs: Vec<&Value> = receipts.iter().map(|event| &event["receipt"]["output"]).collect();
    assert_eq!(outputs, ["first of attempt 1", "slow of attempt 2", "last of attempt 1"]);
    place.ledger("verify URL");
}

/// Goal: a stub worker is its runner. Once another process holds the ledger, its attempt is given up at once.
#[test]
fn attempt_of_a_stub_is_given_up_on_any_machine() {
    let place = Place::new();
    write_plan(&place, 3600);
    let line = |folder: &str| {
        format!("run @plan.yaml --run r --ledger @{folder} --stub --store URL --no-probe {LEASE}")
    };
    let (code, _, err) = place.run(&format!("{} --kill-at 2", line("first")));
    assert_eq!(code, -1, "{err}");
    let (code, _, err) = place.run(&line("second"));
    assert_eq!(code, 0, "{err}");
    let lost = events(&place, "second", "attempt_lost");
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(lost[0]["cause"], "runner_died", "{}", lost[0]);
    assert_eq!(accepted(&place, "second"), 3);
}

/// The epoch of the process that said last that it holds the ledger; `None` if a later one has not said so yet.
fn epoch(place: &Place) -> Option<u64> {
    let status = place.json("store status URL --json");
    (status["owner"]["epoch"] == status["epoch"]).then(|| status["epoch"].as_u64().unwrap())
}

/// Goal: a runner whose store gives no answer for the lease ends its workers, although it waits for the store itself, and ends
/// with 7; `ledger resume` continues the run once the store answers. The attempt was lost here, so it is done again at once.
#[test]
fn runner_without_its_store_ends_its_workers() {
    let place = place_with_folder();
    write_worker(&place);
    // The lease of the attempt is longer than the test.
    write_plan(&place, 3600);
    let shelf = place.path("shelf");
    let away = shelf.with_extension("away");
    let mut command = place.command(&line("first", LEASE));
    command.env("XDG_STATE_HOME", place.path("state"));
    let mut runner = Running::start(&mut command);
    wait_for_worker(&place, &mut runner);
    std::fs::rename(&shelf, &away).unwrap();
    let gone = Instant::now();
    wait_until("the worker was ended", || !is_alive(&place));
    let ended = gone.elapsed();
    println!("workers were ended {ended:?} after the store was gone");
    assert!(ended >= Duration::from_secs(4), "the lease was not waited for");
    assert_eq!(runner.end(), 7, "{}\n{}", runner.out(), runner.err());
    assert!(runner.err().contains("the store gave no answer for"), "{}", runner.err());
    // A create that failed may have left the folder.
    let _ = std::fs::remove_dir_all(&shelf);
    std::fs::rename(&away, &shelf).unwrap();
    let mut resume = place.command("resume --ledger @first");
    let resumed = resume.env("XDG_STATE_HOME", place.path("state")).output().unwrap();
    let err = String::from_utf8_lossy(&resumed.stderr).into_owned();
    assert_eq!(resumed.status.code(), Some(0), "{err}");
    assert_eq!(accepted(&place, "first"), 3);
    let lost = events(&place, "first", "attempt_lost");
    assert_eq!(lost.len(), 1, "{lost:?}\n{err}");
    assert_ne!(lost[0]["cause"], "lease_expired", "{}", lost[0]);
    place.ledger("verify URL");
}

/// Goal: in the mode `local` an outage of the store stops no work, and everything is shipped at the end.
#[test]
fn outage_stops_no_local_run() {
    let place = place_with_folder();
    std::fs::write(
        place.path("plan.yaml"),
        format!(
            "steps:\n  - {{id: one, command: 'touch {0}/begun; while [ ! -e {0}/back ]; do sleep 0.1; done'}}\n  - {{id: two, \
             command: echo 2, after: [one]}}\n",
            place.path("").display()
        ),
    )
    .unwrap();
    let mut runner = place.start(&format!(
        "run @plan.yaml --run r --ledger @first --store URL --no-probe --ack local --json {LEASE}"
    ));
    wait_until("it works", || place.path("begun").exists());
    let (shelf, away) = (place.path("shelf"), place.path("shelf.away"));
    std::fs::rename(&shelf, &away).unwrap();
    std::thread::sleep(Duration::from_secs(8));
    let _ = std::fs::remove_dir_all(&shelf);
    std::fs::rename(&away, &shelf).unwrap();
    std::fs::write(place.path("back"), "").unwrap();
    assert_eq!(runner.end(), 0, "{}\n{}", runner.out(), runner.err());
    let seq = place.json("root --ledger @first --json")["seq"].clone();
    assert_eq!(place.json("store status URL --json")["seq"], seq);
    assert_eq!(accepted(&place, "first"), 2);
}
