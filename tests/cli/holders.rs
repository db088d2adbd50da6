//! Holders of a ledger in trouble: nonsense asked ahead, more clients than files, a write that fails.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use plan_ledger_cli::protocol::Answer;
use plan_ledger_cli::server::{SOCKET_NAME, while_serving};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use super::command::{Place, Running, start, wait_until};
use super::socket::{asked, ledger, quiet};

/// Story: nothing told the thread that hears the clients to look again at one whose request it had
/// refused by itself, so that what the client had asked ahead was answered a minute later.
#[test]
fn what_is_asked_ahead_of_a_refusal_is_answered_too() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a.ledger");
    let ledger = ledger(&dir, 1);
    while_serving(&ledger, &dir, quiet, || {
        let stream = UnixStream::connect(dir.join(SOCKET_NAME)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        (&stream).write_all(b"nonsense\n\n{\"act\":\"fly\"}\n{\"act\":\"tick\"}\n").unwrap();
        let answers = BufReader::new(&stream).lines().take(4);
        let code = |line: std::io::Result<String>| {
            serde_json::from_str::<Answer>(&line.unwrap()).unwrap().code
        };
        assert_eq!(answers.map(code).collect::<Vec<_>>(), [2, 2, 2, 0]);
    });
}

/// `ledger serve` of a small plan, with what the shell does before.
fn holder_after(words: &str) -> (Place, Running) {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a}]");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{words}; exec \"$0\" serve"), env!("CARGO_BIN_EXE_ledger")]);
    let holder = start(command.current_dir(place.path("")));
    wait_until("it serves", || holder.said("serving"));
    (place, holder)
}

fn set(name: &str, length: usize) -> String {
    json!({ "act": "set", "name": name, "value": "v".repeat(length), "by": "b" }).to_string()
}

/// Story: clients took all the files that a holder might have open, the next segment could not be
/// made, and the ledger refused everything from then on.
#[test]
fn a_crowd_leaves_the_ledger_the_files_that_it_needs() {
    let (place, holder) = holder_after("ulimit -n 64");
    let connect = || UnixStream::connect(place.path(".ledger/serve.sock")).unwrap();
    let crowd: Vec<_> = (0..80).map(|_| connect()).collect();
    // Those that say nothing make room for the last one.
    for number in 0..6 {
        let answer = asked(crowd.last().unwrap(), &set("v", 900_000 + number));
        assert_eq!(answer.code, 0, "{answer:?}");
    }
    let mut told = String::new();
    assert_eq!(BufReader::new(&crowd[0]).read_line(&mut told).unwrap(), 0, "{told}");
    drop(crowd);
    place.ledger("claim --worker w").code(0);
    holder.signal("TERM");
    holder.end().code(0);
    place.ledger("verify .ledger").code(0);
}

/// Story: a write of `ledger serve` had failed, and so it refused all acts; but it did not end as
/// long as nothing fell due, and no other process could open the ledger again.
#[test]
fn a_holder_that_cannot_write_any_more_lets_go() {
    let (place, holder) = holder_after("trap '' XFSZ");
    let limit = Rlimit { current: Some(1), maximum: None };
    let id = Pid::from_raw(i32::try_from(holder.id()).unwrap());
    prlimit(id, Resource::Fsize, limit).unwrap();
    let stream = UnixStream::connect(place.path(".ledger/serve.sock")).unwrap();
    assert_eq!(asked(&stream, &set("v", 10)).code, 7);
    let ended = holder.end();
    ended.code(7);
    place.ledger("claim --worker w").code(0);
    place.ledger("verify .ledger").code(0);
}
