//! Commands that wait for a server, a store or a standby end at a signal, and say what they waited for.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::process::{Place, Running, WORKER, free_port, write_tokens};

/// Less than the patience of any wait; a wait that a signal ends takes about a second.
const SOON: Duration = Duration::from_secs(25);

/// Start a command in a state in which it waits: `is_waiting` returns then.
fn waiting(place: &Place, line: &str, is_waiting: impl FnOnce()) -> Running {
    let mut command = place.command(line);
    command.env("LEDGER_HTTP_TOKEN", WORKER).env("LEDGER_DIR", place.path("none"));
    command.stdin(Stdio::null());
    let running = Running::start(&mut command);
    is_waiting();
    running
}

/// The exit code after a signal, which must come long before the patience is over.
fn end_at(running: &mut Running, signal: Signal) -> i32 {
    let sent = Instant::now();
    running.signal(signal);
    let code = running.end();
    assert!(sent.elapsed() < SOON, "it took {:?}\n{}", sent.elapsed(), running.err());
    code
}

/// Regression: `ledger work --wait` whose server is not there ended a minute after SIGTERM or Ctrl-C.
#[test]
fn worker_that_waits_for_a_server_ends_at_a_signal() {
    let place = Place::in_folder();
    for signal in [Signal::TERM, Signal::INT] {
        // It accepts the connection of the worker, and never answers.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let line = format!("work --wait --server {url} -- true");
        let mut asked = None;
        let mut running = waiting(&place, &line, || asked = Some(silent.accept().unwrap()));
        assert_eq!(end_at(&mut running, signal), 3, "{}", running.err());
        let err = running.err();
        assert!(
            err.contains(&url) && err.contains("before this process was asked to stop"),
            "{err}"
        );

        // It closes the first connection, and then the port: from then on it refuses.
        let line = format!("work --wait --json --server {url} -- true");
        drop(asked);
        let mut running = waiting(&place, &line, || drop(silent.accept().unwrap()));
        drop(silent);
        assert_eq!(end_at(&mut running, signal), 3, "{}", running.err());

        // These leave signals to the system, which ends them at once.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        for line in ["claim --wait", "note hello", "renew 7-00112233445566778899aabbccddeeff"] {
            let mut asked = None;
            let line = format!("{line} --server {url}");
            let mut running = waiting(&place, &line, || asked = Some(silent.accept().unwrap()));
            assert_eq!(end_at(&mut running, signal), -1, "{line}: {}", running.err());
            drop(asked);
        }
    }
}

/// A process that waits for a store that gives no answer ends at a signal, before it holds or reads anything.
#[test]
fn start_that_waits_for_a_store_ends_at_a_signal() {
    let place = Place::in_folder();
    std::fs::write(place.path("plan.yaml"), "steps: [{id: a, goal: x}]").unwrap();
    for (line, expected) in [
        ("serve --ledger @a", 0),
        ("serve --ledger @a --standby", 0),
        ("run @plan.yaml --stub --ledger @a", 3),
        // The system ends it.
        ("verify", -1),
    ] {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", silent.local_addr().unwrap());
        let store =
            if line == "verify" { "s3://bucket/ledger" } else { "--store s3://bucket/ledger" };
        let mut command = place.command(&format!("{line} {store}"));
        command.env("AWS_ENDPOINT_URL", &endpoint).env("AWS_ACCESS_KEY_ID", "key");
        command.env("AWS_SECRET_ACCESS_KEY", "secret").env("AWS_REGION", "us-east-1");
        command.stdin(Stdio::null());
        let mut running = Running::start(&mut command);
        let asked = silent.accept().unwrap();
        assert_eq!(end_at(&mut running, Signal::TERM), expected, "{line}: {}", running.err());
        drop(asked);
    }
}

/// Regression: a claim in the folder of a standby said that the server does not run, and to start it.
#[test]
fn claim_in_the_folder_of_a_standby_names_the_owner() {
    let place = Place::new();
    place.plan("a", "steps: [{id: one, goal: x}]");
    write_tokens(&place.path("tokens"));
    let port = free_port();
    let mut owner = place.start(&format!(
        "serve --ledger @a --store URL --no-probe --token-file @tokens --http 127.0.0.1:{port}"
    ));
    owner.wait_for("serving");
    let mut standby = place.start("serve --ledger @b --store URL --no-probe --standby");
    standby.wait_for("standing by");
    let url = format!("http://127.0.0.1:{port}");
    // The first look at the hint of the owner comes a moment after it stands by.
    let until = Instant::now() + Duration::from_secs(120);
    while !std::fs::read_to_string(place.path("b/store-health.json"))
        .is_ok_and(|it| it.contains(&url))
    {
        assert!(Instant::now() < until, "{}", standby.err());
        std::thread::sleep(Duration::from_millis(20));
    }
    for line in ["claim --worker w --ledger @b", "note hello --ledger @b --by me"] {
        let (code, _, err) = place.run(line);
        assert_eq!(code, 5, "{err}");
        for part in ["a standby follows", &place.url, &format!("--server {url}")] {
            assert!(err.contains(part), "{err}");
        }
        assert!(!err.contains("start it"), "{err}");
    }
    assert_eq!((standby.stop(), owner.stop()), (0, 0));
    // Nothing runs now: the server is to be started.
    let (code, _, err) = place.run("claim --worker w --ledger @b");
    assert_eq!(code, 5, "{err}");
    assert!(err.contains("start it"), "{err}");
}
