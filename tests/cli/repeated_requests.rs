//! Requests that are sent again: under their key, under the key of another one, after the claim is
//! over, and after a failure that came too late.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plan_ledger::internals::sim::{FaultAction, FaultEffect, FaultRule, OsError, SimDisk};
use plan_ledger::{Environment, Event, Ledger, Plan, RunPolicy, Step};
use plan_ledger_cli::protocol::Answer;
use plan_ledger_cli::requests::{ClaimRequest, Request};
use plan_ledger_cli::server::{Client, SOCKET_NAME, while_serving};
use serde_json::{Value, json};

use crate::command::Place;
use crate::golden::deterministic;
use crate::socket::{asked, ledger, quiet};

/// Sends requests to a server of a ledger with three steps.
fn serving(test: impl FnOnce(&Ledger, &dyn Fn(Value) -> Answer)) {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a.ledger");
    let ledger = ledger(&dir, 3);
    while_serving(&ledger, &dir, quiet, || {
        let stream = UnixStream::connect(dir.join(SOCKET_NAME)).unwrap();
        test(&ledger, &|request| asked(&stream, &request.to_string()));
    });
    ledger.close().unwrap();
}

fn secret() -> String {
    "9f".repeat(16)
}

fn claim(key: &str) -> Value {
    json!({ "act": "claim", "run": "r", "worker": "w", "secret": secret(), "once": key })
}

fn receipt(token: &Value, output: &str, key: &str) -> Value {
    let receipt = json!({ "outcome": "succeeded", "output": output });
    json!({ "act": "receipt", "token": token, "receipt": receipt, "once": key })
}

fn kind(answer: &Answer) -> (u8, &str) {
    let word = |member: &str| answer.lines[0][member].as_str();
    (answer.code, word("rejection").or(word("kind")).unwrap_or(word("type").unwrap_or_default()))
}

/// The numbers of recorded and of rejected receipts.
fn receipts(ledger: &Ledger) -> (usize, usize) {
    let events = ledger.replay(1).unwrap().into_iter().filter_map(|each| each.event);
    let kinds: Vec<String> = events
        .filter_map(|event| match event {
            Event::Step(record) => Some(format!("{:?}", record.event)),
            _ => None,
        })
        .collect();
    let count = |name: &str| kinds.iter().filter(|kind| kind.starts_with(name)).count();
    (count("ReceiptRecorded"), count("ReceiptRefused"))
}

/// Regression: a receipt, a variable and a cancellation under the key of a claim were answered with
/// success and not executed.
#[test]
fn key_of_another_request_is_refused() {
    serving(|ledger, ask| {
        let claimed = ask(claim("k"));
        let token = &claimed.lines[0]["token"];
        let before = ledger.head().seq;
        for request in [
            receipt(token, "work", "k"),
            json!({ "act": "set", "run": "r", "name": "x", "value": 1, "by": "me", "once": "k" }),
            json!({ "act": "cancel", "run": "r", "by": "me", "once": "k" }),
            json!({ "act": "note", "text": "t", "by": "me", "once": "k" }),
            json!({ "act": "claim", "run": "r", "worker": "other", "secret": secret(), "once": "k" }),
            json!({ "act": "claim", "run": "r", "worker": "w", "secret": "2c".repeat(16), "once": "k" }),
        ] {
            let answer = ask(request.clone());
            assert_eq!(kind(&answer), (6, "key_reused"), "{request}: {answer:?}");
        }
        assert_eq!(ledger.head().seq, before);
        // The order of the members and those with their default do not matter.
        let same = json!({ "once": "k", "worker": "w", "secret": secret(), "step": null, "run": "r", "act": "claim" });
        assert_eq!(ask(same), claimed);
        assert_eq!(kind(&ask(receipt(token, "work", "k2"))), (0, "receipt"));
        assert_eq!(kind(&ask(receipt(token, "more", "k2"))), (6, "key_reused"));
    });
}

/// Regression: a claim that was over, and was sent again under its key, was answered with the whole
/// task, so that two workers believed to have the step.
#[test]
fn claim_that_is_over_is_not_answered_as_held() {
    serving(|_, ask| {
        let claimed = ask(claim("released"));
        assert_eq!(ask(claim("released")), claimed);
        let token = &claimed.lines[0]["token"];
        let released = json!({ "act": "release", "token": token, "work": "not_begun",
            "reason": "none", "once": "release" });
        assert_eq!(ask(released).code, 0);
        assert_eq!(kind(&ask(claim("released"))), (6, "stale_token"));

        let mut short = claim("expired");
        short["lease_seconds"] = 1.into();
        assert_eq!(ask(short.clone()).code, 0);
        std::thread::sleep(Duration::from_millis(1100));
        assert_eq!(kind(&ask(short)), (6, "stale_token"));

        let token = ask(claim("done")).lines[0]["token"].clone();
        assert_eq!(ask(receipt(&token, "x", "receipt")).code, 0);
        assert_eq!(kind(&ask(claim("done"))), (6, "stale_token"));
    });
}

/// The receipt that an attempt has is accepted again, under any key and in any process, without
/// another record. A different one is rejected and kept.
#[test]
fn same_receipt_is_answered_as_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a.ledger");
    let mut token = Value::Null;
    for round in 0..2 {
        let ledger = match round {
            0 => ledger(&dir, 3),
            _ => Ledger::open_with(&dir, &Environment::system()).unwrap().0,
        };
        while_serving(&ledger, &dir, quiet, || {
            let stream = UnixStream::connect(dir.join(SOCKET_NAME)).unwrap();
            let ask = |request: Value| asked(&stream, &request.to_string());
            if round == 0 {
                token = ask(claim("claim")).lines[0]["token"].clone();
            }
            for number in 0..3 {
                let answer = ask(receipt(&token, "work", &format!("same {round} {number}")));
                assert_eq!(kind(&answer), (0, "receipt"), "{answer:?}");
                assert_eq!(answer.lines[0]["status"], "accepted");
            }
            assert_eq!(receipts(&ledger), (1, round));
            let other = ask(receipt(&token, "other", &format!("other {round}")));
            assert_eq!(kind(&other), (6, "stale_token"));
            assert!(other.messages.iter().any(|said| said.contains("recorded as rejected")));
            assert_eq!(receipts(&ledger), (1, round + 1));
        });
        ledger.close().unwrap();
    }
}

/// Regression: a claim whose answer was longer than a message was recorded and answered without its
/// token, so that no worker could do the step.
#[test]
fn claim_with_a_long_answer_gives_token_and_lease() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a.ledger");
    let ledger = Ledger::create(&dir, &Environment::system()).unwrap();
    let inputs = ["x", "y"].map(str::to_owned).to_vec();
    let steps = vec![Step { id: "a".to_owned(), inputs, ..Step::default() }];
    let plan = Plan { steps, ..Plan::default() };
    let run = ledger.start_run("r", &plan, RunPolicy::default()).unwrap();
    for name in ["x", "y"] {
        let value = plan_ledger::Json::new(&json!("v".repeat(9 << 20)));
        ledger.set_variable(run, name, value, None, "me").unwrap();
    }
    while_serving(&ledger, &dir, quiet, || {
        let stream = UnixStream::connect(dir.join(SOCKET_NAME)).unwrap();
        let answer = asked(&stream, &claim("k").to_string());
        let line = &answer.lines[0];
        assert_eq!((answer.code, line["omitted"].clone()), (0, json!(["inputs"])));
        assert_eq!((line["step"]["id"].as_str(), line["inputs"].clone()), (Some("a"), json!({})));
        assert!(line["lease_until_micros"].as_u64().is_some());
        let answer = asked(&stream, &receipt(&line["token"], "done", "r").to_string());
        assert_eq!(answer.code, 0, "{answer:?}");
    });
    ledger.close().unwrap();
}

/// The answer to a worker's claim has no room for the inputs: `ledger work` reads them from the ledger,
/// and its worker gets the whole task.
#[test]
fn worker_gets_the_inputs_that_its_answer_had_no_room_for() {
    let place = Place::new();
    let dir = place.path(".ledger");
    let ledger = Ledger::create(&dir, &Environment::system()).unwrap();
    let inputs = ["x", "y"].map(str::to_owned).to_vec();
    let steps = vec![Step { id: "a".to_owned(), inputs, ..Step::default() }];
    let plan = Plan { steps, ..Plan::default() };
    let run = ledger.start_run("r", &plan, RunPolicy::default()).unwrap();
    for (name, text) in [("x", "v"), ("y", "w")] {
        let value = plan_ledger::Json::new(&json!(text.repeat(9 << 20)));
        ledger.set_variable(run, name, value, None, "me").unwrap();
    }
    while_serving(&ledger, &dir, quiet, || {
        let command = "cat > task; echo done";
        place.ledger_with(&["work", "r", "--", "sh", "-c", command]).code(0);
    });
    let state = ledger.state().unwrap();
    let accepted = state.runs[&run].count(plan_ledger::StepStatus::Accepted);
    assert_eq!(accepted, 1);
    ledger.close().unwrap();
    let task: Value = serde_json::from_str(&place.read("task")).unwrap();
    for (name, text) in [("x", "v"), ("y", "w")] {
        let value = task["inputs"][name].as_str().unwrap_or_default();
        assert!(value == text.repeat(9 << 20), "{name}: {} bytes", value.len());
    }
    assert_eq!(task["omitted"], Value::Null);
}

/// Each call of the storage fails once while a client claims a step on its own: if the claim is in the
/// log, the answer is its success, or that the outcome is unknown. Regression: a failure to close the
/// ledger was answered although the claim was acknowledged.
#[test]
fn act_that_was_done_is_never_answered_as_not_done() {
    let dir = Path::new("/repeated-requests.ledger");
    let disk = SimDisk::new();
    let environment = |disk: &SimDisk| {
        let clock = Arc::new(plan_ledger::internals::ledger::SystemClock);
        Environment { storage: Arc::new(disk.clone()), clock, ..deterministic() }
    };
    let plan =
        Plan { steps: vec![Step { id: "a".to_owned(), ..Step::default() }], ..Plan::default() };
    let ledger = Ledger::create(dir, &environment(&disk)).unwrap();
    ledger.start_run("r", &plan, RunPolicy::default()).unwrap();
    ledger.close().unwrap();
    let claim: Request = ClaimRequest {
        worker: "w".to_owned(),
        ..ClaimRequest::new(plan_ledger::plan::Secret([7; 16]))
    }
    .into();
    let (mut done, mut answered) = (0, 0);
    for nth in 1.. {
        let disk = disk.fork();
        let failure = FaultAction::Error(OsError::Io, FaultEffect::Nothing);
        disk.inject(FaultRule::next(failure).nth(nth));
        let outcome = Client::new(dir, &environment(&disk)).call(&claim);
        let was_injected = disk.pending_rules() == 0;
        disk.clear_faults();
        disk.kill_process();
        let (ledger, _) = Ledger::open_with(dir, &environment(&disk)).unwrap();
        let is_done = !ledger.state().unwrap().in_flight.is_empty();
        match &outcome {
            Ok(answer) => assert!(answer.code == 0 && is_done, "call {nth}: {answer:?}"),
            Err(failure) => {
                let is_unknown = failure.json()["kind"] == "outcome_unknown";
                assert!(!is_done || is_unknown, "call {nth}: done, and answered {failure}");
            }
        }
        done += u32::from(is_done);
        answered += u32::from(outcome.is_ok() && was_injected);
        if !was_injected {
            break;
        }
    }
    assert!(
        done > 3 && answered > 2,
        "{done} claims were done, and {answered} answered in spite of a failure"
    );
}

/// Story: a worker whose attempt was over sent its receipt again and again, each time a different one, and
/// filled the disk with rejected receipts.
#[test]
fn late_receipts_of_an_attempt_are_limited() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a}]");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml --run r").code(0);
    let task = place.ledger("claim r --json").code(0).lines().remove(0);
    let token = task["token"].as_str().unwrap().to_owned();
    place.ledger_with(&["receipt", &token, "--output", "1"]).code(0);
    for number in 2..20 {
        let _ = place.ledger_with(&["receipt", &token, "--output", &number.to_string()]);
    }
    let refused = place.ledger("inspect .ledger records --kind receipt_refused --json").code(0);
    let records = refused.lines().into_iter().filter(|line| line["type"] == "record").count();
    assert_eq!(records, 8);
    place
        .ledger_with(&["receipt", &token, "--output", "99"])
        .complains(&["is not active: it has ended, or there never was one"]);
    place.ledger_with(&["receipt", &token, "--output", "1"]).code(0);
}

/// Story: of 300 late receipts of 1 MB eight were recorded, and the outputs of all were stored: the ledger
/// grew by 289 MB. A process that guessed a record number stored outputs without any token.
/// Goal: an output is stored only for a receipt that can be recorded.
#[test]
fn outputs_of_rejected_receipts_are_not_stored() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a}]");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml --run r").code(0);
    let task = place.ledger("claim r --json").code(0).lines().remove(0);
    let token = task["token"].as_str().unwrap().to_owned();
    let (number, _) = token.split_once('-').unwrap();
    let blobs = || {
        let lines = place.ledger("blobs --json").code(0).lines();
        lines.iter().filter(|line| line["type"] == "blob").count()
    };
    let send = |token: &str, number: usize| {
        let text = format!("{number}{}", "s".repeat(100_000));
        place.ledger_with(&["receipt", token, "--output", &text])
    };
    send(&format!("{number}-{}", "9f".repeat(16)), 0).code(6);
    assert_eq!(blobs(), 0, "another token");
    send(&token, 1).code(0);
    for number in 2..20 {
        send(&token, number);
    }
    assert_eq!(blobs(), 1 + 8, "the one that counts, and the late ones that are recorded");
    send(&token, 1).code(0);
    assert_eq!(blobs(), 9);
}
