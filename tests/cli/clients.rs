//! The clients in other languages: their types are those of the published schemas, they keep what they
//! promise, and faults between client and server lose and double nothing.
//!
//! The tests are programs of `clients/tests`, with this build of the program. `clients/run` runs them longer,
//! and checks the types.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plan_ledger::StepStatus;

use super::command::{PROGRAM, Place, ids, report_skipped, start, wait_until};

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients").canonicalize().unwrap()
}

/// Whether a program prints a version of at least that major number.
fn has(program: &str, major: u32) -> bool {
    let Ok(printed) = Command::new(program).arg("--version").output() else { return false };
    let text = String::from_utf8_lossy(&printed.stdout).into_owned();
    let digits = text.chars().skip_while(|it| !it.is_ascii_digit());
    let number: String = digits.take_while(char::is_ascii_digit).collect();
    printed.status.success() && number.parse::<u32>().is_ok_and(|number| number >= major)
}

/// Runs a program of the clients; it is skipped where the interpreter is missing.
fn run(interpreter: &str, words: &[&str]) {
    let missing = [("python3", 3), ("node", 20)]
        .into_iter()
        .filter(|(program, _)| {
            *program == interpreter
                || words.iter().any(|word| *word == "typescript" && *program == "node")
        })
        .find(|(program, major)| !has(program, *major));
    if let Some((program, major)) = missing {
        report_skipped(&format!("{program} {major} or newer is not installed"));
        return;
    }
    let mut command = Command::new(interpreter);
    command.args(words).current_dir(clients()).stdin(Stdio::null()).env("LEDGER", PROGRAM);
    for name in ["LEDGER_DIR", "LEDGER_RUN", "LEDGER_WORKER", "LEDGER_TOKEN", "LEDGER_WORK"] {
        command.env_remove(name);
    }
    let ended = start(&mut command).end();
    assert!(ended.status.success(), "{words:?}\n{}\n{}", ended.out, ended.err);
}

/// Goal: a change of a request or an answer reaches the clients.
#[test]
fn types_of_the_clients_are_those_of_the_schemas() {
    run("python3", &["generate.py", "--check"]);
}

#[test]
fn python_client_keeps_its_promises() {
    run("python3", &["tests/test_python.py"]);
}

#[test]
fn typescript_client_keeps_its_promises() {
    run("node", &["--test", "tests/typescript.test.mjs"]);
}

/// Goal: requests are cut, answers are lost, the server and workers are killed, leases lapse; each step is
/// accepted once, and what a worker was told is what the ledger has.
#[test]
fn faults_lose_and_double_no_step_of_a_python_client() {
    run("python3", &["tests/faults.py", "--client", "python", "--steps", "300", "--pause", "0.5"]);
}

#[test]
fn faults_lose_and_double_no_step_of_a_typescript_client() {
    run(
        "python3",
        &["tests/faults.py", "--client", "typescript", "--steps", "300", "--pause", "0.5"],
    );
}

#[test]
fn faults_over_http_lose_and_double_no_step() {
    let words =
        ["tests/faults.py", "--interface", "http", "--steps", "150", "--pause", "0.5", "--client"];
    run("python3", &[&words[..], &["python"]].concat());
    run("python3", &[&words[..], &["typescript"]].concat());
}

/// Goal: the loop of each README is short, and works on after any kill.
#[test]
fn loops_of_the_readmes_survive_kills() {
    run("python3", &["tests/loops.py", "python", "60"]);
    run("python3", &["tests/loops.py", "typescript", "60"]);
}

/// Goal: a server that a client started does not outlive the client, however the client ends.
#[test]
fn server_until_eof_ends_with_its_input() {
    let place = Place::new();
    place.ledger("init").code(0);
    let serve = || {
        let mut command = place.command(&["serve", "--until-eof"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = command.spawn().unwrap();
        let socket = place.path(".ledger/serve.sock");
        wait_until("the server listens", || socket.exists());
        server
    };
    let mut server = serve();
    place.ledger("note served").code(0);
    assert!(server.try_wait().unwrap().is_none(), "it ended with its input open");
    drop(server.stdin.take());
    assert_eq!(server.wait().unwrap().code(), Some(0));
    assert!(!place.path(".ledger/serve.sock").exists());
    // Without an input it ends at once, and leaves the ledger to others.
    let mut command = place.command(&["serve", "--until-eof"]);
    start(command.stdin(Stdio::null())).end().code(0);
    place.ledger("note open").code(0);
}

/// Goal: a server releases the step of a process that is killed later, and of one that was killed before
/// it started, long before the lease expires.
#[test]
fn server_releases_steps_of_processes_that_are_gone() {
    let place =
        Place::planned("steps: [{id: a, lease_seconds: 36000}, {id: b, lease_seconds: 36000}]");
    let sleeper = || Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
    let end = |mut process: std::process::Child| {
        process.kill().unwrap();
        process.wait().unwrap();
    };
    let is_ready = |step: &str| {
        let state = place.state();
        ids(state.run_named("plan").unwrap(), StepStatus::Ready).contains(&step.to_owned())
    };
    let first = sleeper();
    place.ledger(&format!("claim --pid {}", first.id())).code(0);
    assert!(!is_ready("a"));
    end(first);
    let server = start(place.command(&["serve"]).stdin(Stdio::null()));
    wait_until("the step of the first process is free", || is_ready("a"));
    wait_until("the server listens", || place.path(".ledger/serve.sock").exists());
    let second = sleeper();
    place.ledger(&format!("claim --step b --pid {}", second.id())).code(0);
    assert!(!is_ready("b"));
    end(second);
    wait_until("the step of the second process is free", || is_ready("b"));
    assert!(!place.path(".ledger/work/claims").exists(), "the binding is in the log");
    server.kill();
}

/// A program that claims a step over the socket, and is killed before or after the answer.
const KILLED_CLIENT: &str = r#"
import os, signal, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
secret = "9f" * 16
connection.sendall(b'{"act":"claim","worker":"killed","secret":"%s","step":"%s"}\n' % (secret.encode(), sys.argv[2].encode()))
if sys.argv[3] == "after":
    assert b'"task"' in connection.recv(1 << 20)
os.kill(os.getpid(), signal.SIGKILL)
"#;

/// Goal: a client that is killed at any point of its claim leaves a step that is ready at once, or whose
/// outcome is unknown if it must not be done twice.
#[test]
fn step_of_a_killed_client_is_free_at_once() {
    if !has("python3", 3) {
        report_skipped("python3 is not installed");
        return;
    }
    let place = Place::planned(
        "defaults: {lease_seconds: 36000}\nsteps: [{id: a}, {id: b, idempotent: no}, {id: c}]",
    );
    let server = start(place.command(&["serve"]).stdin(Stdio::null()));
    let socket = place.path(".ledger/serve.sock");
    wait_until("the server listens", || socket.exists());
    let killed = |step: &str, when: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", KILLED_CLIENT, socket.to_str().unwrap(), step, when]);
        let status = command.stdin(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), None, "the client was killed");
    };
    for (number, when) in ["after", "before", "after", "before"].iter().enumerate() {
        killed("a", when);
        // No wait: this claim itself finds that the process is gone.
        let claimed = place.ledger("claim --worker next --step a --json").code(0);
        let task = claimed.lines().remove(0);
        assert_eq!(task["step"]["id"], "a", "{number}: {task}");
        place.ledger(&format!("release {}", claimed.token())).code(0);
    }
    killed("b", "after");
    place.ledger("claim --worker next --step b").code(3).complains(&["outcome_unknown"]);
    let state = place.state();
    assert_eq!(ids(state.run_named("plan").unwrap(), StepStatus::OutcomeUnknown), ["b"]);
    // A claim of the command line is not that of the command, which ends at once.
    place.ledger("claim --worker person --step c").code(0);
    place.ledger("claim --worker next --step c").code(6).complains(&["claimed by person"]);
    server.kill();
}

/// Goal: no step of a client that is killed again and again waits for its lease or has two winners.
#[test]
fn killed_clients_stall_no_run() {
    run("python3", &["tests/kills.py", "--client", "python", "--trials", "1"]);
    run("python3", &["tests/kills.py", "--client", "typescript", "--trials", "1"]);
}
