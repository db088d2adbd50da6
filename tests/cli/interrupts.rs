//! Ctrl-C during long commands: real processes and real signals.
//!
//! The signal must arrive in the middle of the work. A process is in the middle while it waits for
//! a reader that does not read, or when SIGSTOP caught it before its visible result. Attempts that
//! were too fast are repeated.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plan_ledger::{Environment, Json, Ledger, Plan, RunPolicy};
use serde_json::json;

use crate::command::{Ended, Place, Running, SIGINT, SIGTERM, has_signal, start, wait_until};

/// Attempts to catch a command in the middle.
const TRIES: usize = 200;

/// A folder with a ledger, `.ledger`, that takes a while to read: this many values of 100 kB.
fn place(values: u64) -> Place {
    let place = Place::new();
    let environment = Environment { blob_threshold: usize::MAX, ..Environment::system() };
    let ledger = Ledger::create(&place.path(".ledger"), &environment).unwrap();
    let plan: Plan = serde_json::from_value(json!({"steps": [{"id": "only"}]})).unwrap();
    let run = ledger.start_run("long", &plan, RunPolicy::default()).unwrap();
    for number in 0..values {
        let value = Json::new(&json!(format!("{number}{}", "x".repeat(100_000))));
        ledger.set_variable(run, "v", value, None, "ann").unwrap();
    }
    ledger.close().unwrap();
    place
}

/// Whether the process has installed its handler for Ctrl-C.
fn heeds_ctrl_c(id: u32) -> bool {
    has_signal(&id.to_string(), "SigCgt", SIGINT)
}

/// Sends Ctrl-C to a command that is stopped while `is_in_the_middle` holds.
fn interrupted(place: &Place, words: &[&str], is_in_the_middle: impl Fn(u32) -> bool) -> Ended {
    for _ in 0..TRIES {
        // Left by an attempt that was too fast.
        let _ = fs::remove_file(place.path("out"));
        let mut running: Running = start(&mut place.command(words));
        let id = running.id();
        wait_until("the command has started", || running.is_over() || is_in_the_middle(id));
        if running.is_over() {
            running.end().code(0);
            continue;
        }
        running.signal("STOP");
        let is_caught = is_in_the_middle(id);
        running.signal("INT");
        running.signal("CONT");
        let ended = running.end();
        if is_caught && ended.status.code() != Some(0) {
            return ended;
        }
        // The command had done its work and was about to end.
        ended.code(0);
    }
    panic!("{words:?} was too fast {TRIES} times");
}

/// The files beside the ledger.
fn others(place: &Place) -> Vec<PathBuf> {
    let all = fs::read_dir(place.path(".")).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| !path.ends_with(".ledger")).collect()
}

/// An interrupted verification reports that it was stopped, exits with 3, and reports no damage in
/// what it did not read.
#[test]
fn verification_can_be_interrupted() {
    let place = place(100);
    let verify = ["verify", ".ledger", "--level", "replay", "--jobs", "1"];
    let ended = interrupted(&place, &verify, heeds_ctrl_c).code(3);
    assert!(!ended.out.contains("damage"), "{ended:?}");
    ended.says(&["the check was stopped"]);
    let ended = interrupted(&place, &[&verify[..], &["--json"]].concat(), heeds_ctrl_c).code(3);
    assert_eq!(ended.lines().last().unwrap()["condition"], "stopped", "{ended:?}");
    assert_eq!(others(&place), Vec::<PathBuf>::new());
}

/// A verification that was started with SIGINT ignored, as in the background of a script, is not
/// stopped by Ctrl-C.
#[test]
fn verification_ignores_ctrl_c_if_started_so() {
    let place = place(100);
    for _ in 0..TRIES {
        let script = "trap '' INT; exec \"$0\" verify .ledger --level replay --jobs 1";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, env!("CARGO_BIN_EXE_ledger")]).current_dir(place.path(""));
        let mut running = start(&mut shell);
        let id = running.id().to_string();
        let is_in_the_middle = || has_signal(&id, "SigCgt", SIGTERM);
        wait_until("the command has started", || running.is_over() || is_in_the_middle());
        if running.is_over() {
            running.end().code(0);
            continue;
        }
        running.signal("STOP");
        let is_caught = is_in_the_middle();
        running.signal("INT");
        running.signal("CONT");
        running.end().code(0).says(&["whole"]);
        if is_caught {
            return;
        }
    }
    panic!("it was too fast {TRIES} times");
}

/// The names that end so beside the ledger.
fn parts(place: &Place, end: &str) -> Vec<String> {
    let names = others(place)
        .into_iter()
        .map(|path| path.file_name().unwrap_or_default().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(end)).collect()
}

/// Story: an import that was interrupted, with SIGINT or SIGTERM, left the folder in which it made the
/// ledger, under a name that another user could take first.
/// Goal: it leaves nothing, also while it waits for its input; a killed one leaves nothing for longer
/// than until the next import.
#[test]
fn interrupted_import_leaves_no_draft() {
    // It waits for the rest of its input, however long that is.
    let place = place(5);
    place.ledger("export .ledger -o out").code(0);
    let text = fs::read(place.path("out")).unwrap();
    let half = &text[..text.len() / 2];
    let drafts = || parts(&place, ".new-ledger.tmp");
    let importing = || {
        let mut command: Command = place.command(&["import", "-", "--ledger", "copy"]);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(half).unwrap();
        let id = child.id();
        wait_until("the import waits for its input", || drafts().len() == 1 && heeds_ctrl_c(id));
        child
    };
    let mut names = Vec::new();
    for signal in ["INT", "TERM", "KILL"] {
        let mut child = importing();
        // Its input stays open.
        let input = child.stdin.take();
        names.extend(drafts());
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        let ended = child.wait_with_output().unwrap();
        drop(input);
        if signal == "KILL" {
            assert_eq!((ended.status.signal(), drafts().len()), (Some(9), 1));
        } else {
            assert_eq!((ended.status.code(), drafts()), (Some(3), Vec::new()), "{signal}");
            let said = String::from_utf8(ended.stderr).unwrap();
            assert!(said.contains("import stopped: nothing was written"), "{said}");
        }
        assert!(!place.path("copy").exists(), "{signal}");
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3, "the names are random: {names:?}");
    place.ledger("import out --ledger copy").code(0);
    assert_eq!(drafts(), Vec::<String>::new(), "what the killed one left");
    place.ledger("verify copy").code(0);
}

/// An interrupted export leaves no file; a killed one leaves none under the final name.
#[test]
fn interrupted_export_leaves_no_file() {
    let place = place(100);
    for words in [
        &["export", ".ledger", "-o", "out"][..],
        &["export", ".ledger", "--format", "otlp", "-o", "out"],
        &["export", ".ledger", "--format", "sqlite", "-o", "out"],
    ] {
        let has_part = |id: u32| heeds_ctrl_c(id) && !parts(&place, ".part").is_empty();
        let ended = interrupted(&place, words, has_part).code(3);
        ended.complains(&["stopped: nothing was written"]);
        assert_eq!(others(&place), Vec::<PathBuf>::new(), "{words:?}");
    }

    let running = start(&mut place.command(&["export", ".ledger", "-o", "out"]));
    let has_started = || !parts(&place, ".part").is_empty() || place.path("out").exists();
    wait_until("the export has started", has_started);
    running.kill();
    if let Ok(text) = fs::read_to_string(place.path("out")) {
        assert!(
            text.lines().last().unwrap().contains("\"type\":\"end\""),
            "the export is incomplete"
        );
    }
}

/// An interrupted archive leaves no file. It used to leave its temporary one.
#[test]
fn interrupted_archive_leaves_no_file() {
    let place = place(100);
    place.ledger("cancel long --by ann").code(0);
    let words = ["archive", ".ledger", "--to", "out"];
    let has_part = |id: u32| heeds_ctrl_c(id) && !parts(&place, ".part").is_empty();
    interrupted(&place, &words, has_part).code(3).complains(&["stopped: nothing was archived"]);
    assert_eq!(others(&place), Vec::<PathBuf>::new());
}

/// An export that is blocked by its reader is ended by a second Ctrl-C at once, or by the first one
/// as soon as the reader continues; its output has no end line.
#[test]
fn blocked_export_can_be_interrupted() {
    let place = place(50);
    let export = || {
        let mut command: Command = place.command(&["export", ".ledger"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The export is larger than the pipe's buffer.
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 100]).unwrap();
        child
    };
    let signal = |id: u32| {
        let id = id.to_string();
        assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    };
    let child = export();
    signal(child.id());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(3), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(!String::from_utf8(ended.stdout).unwrap().contains("\"type\":\"end\""));
    assert!(String::from_utf8(ended.stderr).unwrap().contains("stopped: it is incomplete"));

    let mut child = export();
    // The first signal must find it blocked. It counts as blocked when it sleeps at ten looks in a
    // row, which a program that waits for the processor does not.
    let stat = Path::new("/proc").join(child.id().to_string()).join("stat");
    let sleeps = || fs::read_to_string(&stat).unwrap().contains(") S ");
    let pause = || std::thread::sleep(std::time::Duration::from_millis(2));
    wait_until("the export waits for its reader", || {
        (0..10).all(|_| {
            pause();
            sleeps()
        })
    });
    let is_pending = |id: u32| has_signal(&id.to_string(), "ShdPnd", SIGINT);
    signal(child.id());
    // Two pending signals would be delivered as one.
    wait_until("the first signal has arrived", || !is_pending(child.id()));
    wait_until("the second signal ends it", || {
        signal(child.id());
        child.try_wait().unwrap().is_some()
    });
    assert_eq!(child.wait().unwrap().signal(), Some(2));
}

/// Less than the patience of a client; a wait that a signal ends takes about a second.
const SOON: Duration = Duration::from_secs(25);

/// Regression: a worker whose server stands still ended a minute after SIGTERM.
#[test]
fn worker_of_a_server_that_stands_still_ends_at_a_signal() {
    let place = Place::planned("steps: [{id: a, goal: x}]");
    let server = place.serve();
    server.signal("STOP");
    for signal in ["TERM", "INT"] {
        let running = start(&mut place.command(&["work", "--wait", "--", "true"]));
        let id = running.id().to_string();
        // Its connection is a third socket or pipe beside its own streams, which are files.
        let is_connected = || {
            let Ok(files) = fs::read_dir(format!("/proc/{id}/fd")) else { return false };
            let target = |path: PathBuf| fs::read_link(path).unwrap_or_default();
            let mut targets = files.flatten().map(|file| target(file.path()));
            targets.any(|target| target.to_string_lossy().starts_with("socket:"))
        };
        let has_handler = || has_signal(&id, "SigCgt", SIGTERM);
        wait_until("the worker waits for an answer", || has_handler() && is_connected());
        let sent = Instant::now();
        running.signal(signal);
        let ended =
            running.end().code(3).complains(&["did not answer before this process was asked"]);
        assert!(sent.elapsed() < SOON, "{:?}: {ended:?}", sent.elapsed());
    }
    server.signal("CONT");
    server.dismiss();
}

/// A server that waits for the lock of another process ends at a signal.
#[test]
fn server_that_waits_for_the_lock_ends_at_a_signal() {
    let place = Place::planned("steps: [{id: a, goal: x}]");
    let ledger = Ledger::open(place.path(".ledger")).unwrap();
    let running = start(&mut place.command(&["serve"]));
    let id = running.id().to_string();
    wait_until("it handles signals", || has_signal(&id, "SigCgt", SIGTERM));
    running.signal("TERM");
    // After five seconds, it would be refused with 5.
    running.end().code(0).complains(&["stopped before .ledger was open"]);
    ledger.close().unwrap();
}
