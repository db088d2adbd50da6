//! `ledger serve --store`, standbys and `ledger restore`, as processes: a ledger outlives its folder, one process at
//! a time holds it, and the one that was replaced says so.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use super::process::{OPERATOR, Place, WORKER, ask, free_port, write_tokens};

const PLAN: &str = "\
steps:
  - {id: one, goal: First}
  - {id: two, goal: Second}
  - {id: three, goal: Third}
";

/// The lease of the tests: the shortest one.
const LEASE: &str = "--lease 5s";

/// How many records of this kind a folder has.
fn records(place: &Place, folder: &str, kind: &str) -> usize {
    let out = place.ledger(&format!("inspect @{folder} records --json"));
    out.matches(&format!("\"kind\":\"{kind}\"")).count()
}

/// Goal: the server and a side-car bring a snapshot to the store while the ledger is open. A reader of the store and a
/// restored folder have it.
#[test]
fn snapshot_of_an_open_ledger_goes_to_the_store() {
    for is_served in [true, false] {
        let place = Place::new();
        place.plan("first", PLAN);
        let command = if is_served { "serve --store URL" } else { "replicate URL" };
        let mut owner = place.start(&format!("{command} --ledger @first --json"));
        owner.wait_for(if is_served { "\"type\":\"serving\"" } else { "\"type\":\"replicated\"" });
        for number in 0..9 {
            place.ledger(&format!("note number-{number} --ledger @first"));
        }
        place.ledger("snapshot @first");
        let since = Instant::now();
        let seq = loop {
            let status = place.json("store status URL --json");
            if status["snapshots"] == 1 {
                break status["snapshot_seq"].as_u64().unwrap();
            }
            assert!(since.elapsed().as_secs() < 60, "{status}: {}", owner.err());
            std::thread::sleep(std::time::Duration::from_millis(100));
        };
        assert_eq!(owner.stop(), 0, "{}", owner.err());
        let on = |ledger: &str| place.json(&format!("inspect {ledger} snapshots --json"));
        let (folder, store) = (on("@first"), on(&place.url));
        assert_eq!((&folder["seq"], &store["seq"]), (&seq.into(), &seq.into()));
        assert_eq!(folder["state_hash"], store["state_hash"]);
        place.ledger(&format!("verify {} --level replay", place.url));
        place.ledger("restore URL @second");
        assert_eq!(on("@second")["state_hash"], store["state_hash"]);
        place.ledger("verify @second --level replay");
    }
}

/// Goal: the machine is lost, and the ledger continues from the store in a new folder, with every record.
#[test]
fn ledger_is_restored_from_its_store() {
    let place = Place::new();
    place.plan("first", PLAN);
    let mut owner = place.start("serve --ledger @first --store URL --json");
    owner.wait_for("\"type\":\"serving\"");
    let serving: Value = serde_json::from_str(owner.out().lines().next().unwrap()).unwrap();
    assert_eq!(serving["store"]["url"], place.url.as_str());
    let first = serving["store"]["epoch"].as_u64().unwrap();
    let task = place.json("claim --worker w --ledger @first --json");
    let token = task["token"].as_str().unwrap().to_owned();
    place.ledger(&format!("receipt {token} --output done --ledger @first"));
    owner.signal(Signal::KILL);
    assert_eq!(owner.end(), -1);
    // The machine is lost.
    std::fs::remove_dir_all(place.path("first")).unwrap();

    let restored = place.json("restore URL @second --json");
    assert_eq!(
        (&restored["created"], &restored["url"]),
        (&true.into(), &place.url.as_str().into())
    );
    let (seq, chain) = (restored["seq"].as_u64().unwrap(), restored["chain"].as_str().unwrap());
    place.ledger(&format!("verify @second --expect-head {seq}:{chain}"));
    assert_eq!(records(&place, "second", "accepted"), 1);
    // A copy is brought up to date; anything else is refused.
    let again = place.json("restore URL @second --json");
    assert_eq!((&again["created"], &again["seq"]), (&false.into(), &seq.into()));
    std::fs::create_dir(place.path("other")).unwrap();
    std::fs::write(place.path("other/notes.txt"), "mine").unwrap();
    let (code, _, err) = place.run("restore URL @other");
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("a folder that does not exist"), "{err}");
    place.ledger("init --ledger @third");
    let (code, _, err) = place.run("restore URL @third");
    assert_eq!(code, 6, "{err}");

    // It continues here. The dead owner shows no sign of life.
    let mut owner = place.start(&format!("serve --ledger @second --store URL {LEASE} --json"));
    owner.wait_for("\"type\":\"serving\"");
    let task = place.json("claim --worker w --ledger @second --json");
    assert_eq!(task["type"], "task");
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    let status = place.json("store status URL --json");
    assert_eq!(status["epoch"].as_u64(), Some(first + 1));
    assert_eq!(status["owner"]["epoch"], status["epoch"]);
    assert_eq!(status["owner"]["free"], true);
    // After an orderly end, a folder that is gone is restored by the server itself.
    let mut third = place.start("serve --ledger @new/folder --store URL --json");
    third.wait_for("\"type\":\"serving\"");
    assert_eq!(third.stop(), 0, "{}", third.err());
    let root = |folder: &str| place.json(&format!("root --ledger @{folder} --json"))["seq"].clone();
    assert_eq!(root("new/folder").as_u64(), root("second").as_u64().map(|seq| seq + 1));
}

/// Goal: a ledger that a live process holds is not taken by a second owner; a store that cannot be reached, or has
/// no ledger, has its own exit code.
#[test]
fn second_owner_is_refused_while_the_first_lives() {
    let place = Place::new();
    let (code, _, err) = place.run("serve --ledger @none --store URL");
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("ledger init"), "{err}");
    let (code, _, err) = place.run("serve --ledger @none --store URL --standby");
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("start its owner first"), "{err}");
    place.plan("first", PLAN);
    let mut owner = place.start("serve --ledger @first --store URL");
    owner.wait_for("serving");
    let (code, _, err) = place.run("serve --ledger @second --store URL");
    assert_eq!(code, 5, "{err}");
    assert!(err.contains("is held by process"), "{err}");
    assert!(err.contains("--standby"), "{err}");
    // Nothing was taken from the owner.
    place.json("claim --worker w --ledger @first --json");
    let (code, _, err) = place.run("restore URL @first");
    assert_eq!(code, 5, "{err}");
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    let (code, _, err) = place.run("serve --ledger @first --store URL --lease 2s");
    assert_eq!(code, 2, "{err}");
    let mut away = place.command("serve --ledger @first --store s3://bucket/x --store-timeout 1s");
    away.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", free_port()));
    away.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
    let away = away.output().unwrap();
    assert_eq!(away.status.code(), Some(7), "{}", String::from_utf8_lossy(&away.stderr));
}

/// Goal: a standby takes over when the owner ends, with all claims of before.
#[test]
fn standby_takes_over_at_an_orderly_end() {
    let place = Place::new();
    place.plan("first", PLAN);
    let mut owner = place.start("serve --ledger @first --store URL");
    owner.wait_for("serving");
    let mut standby = place.start("serve --ledger @second --store URL --standby --json");
    standby.wait_for("\"type\":\"standby\"");
    let task = place.json("claim --worker w --ledger @first --json");
    let ended = Instant::now();
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    standby.wait_for("\"type\":\"serving\"");
    println!("hand-over in {:?}", ended.elapsed());
    assert!(standby.err().contains("taking over: the owner ended"), "{}", standby.err());
    let token = task["token"].as_str().unwrap();
    place.ledger(&format!("receipt {token} --output done --ledger @second"));
    assert_eq!(records(&place, "second", "accepted"), 1);
    // The old folder can follow, and take over again.
    let mut old = place.start("serve --ledger @first --store URL --standby --json");
    old.wait_for("\"type\":\"standby\"");
    assert_eq!(standby.stop(), 0, "{}", standby.err());
    old.wait_for("\"type\":\"serving\"");
    assert_eq!(records(&place, "first", "accepted"), 1);
    assert_eq!(old.stop(), 0, "{}", old.err());
}

/// Goal: an owner that stood still is replaced after the lease; when it continues, it acknowledges nothing, says who
/// took over, and ends.
#[test]
fn stopped_owner_is_fenced_and_says_so() {
    let place = Place::new();
    place.plan("first", PLAN);
    write_tokens(&place.path("tokens"));
    let (port, other) = (free_port(), free_port());
    let serve = format!("--store URL {LEASE} --token-file @tokens --http");
    let mut owner = place.start(&format!("serve --ledger @first {serve} 127.0.0.1:{port}"));
    owner.wait_for("serving");
    let line = format!("serve --ledger @second --standby {serve} 127.0.0.1:{other}");
    let mut standby = place.start(&line);
    standby.wait_for("standing by");
    owner.signal(Signal::STOP);
    standby.wait_for("serving");
    assert!(standby.err().contains("no sign of life for 5 s"), "{}", standby.err());
    owner.signal(Signal::CONT);
    let claim = |port, key| {
        let body = serde_json::json!({ "worker": "w", "run": "r", "secret": "9f".repeat(16) });
        ask(port, WORKER, "POST /v1/claims", key, &body)
    };
    // Either it is gone already, or it refuses.
    if let Some((status, body)) = claim(port, "one") {
        assert!(![200, 201, 204].contains(&status), "{status}: {body}");
        assert!(body.contains("another process took over") || body.contains("fenced"), "{body}");
    }
    assert_eq!(owner.end(), 6, "{}", owner.err());
    let err = owner.err();
    assert!(err.contains("fenced: process") && err.contains("took over the ledger"), "{err}");
    assert!(err.contains(&format!("http://127.0.0.1:{other}")), "{err}");
    assert_eq!(claim(other, "one").unwrap().0, 201);
    assert_eq!(standby.stop(), 0, "{}", standby.err());
}

/// Goal: a dead owner whose port refuses connections is replaced without waiting for the lease. A step that its
/// machine hosted is not given up by the new one: nothing there can see whether its worker is dead.
#[test]
fn killed_owner_is_replaced_and_hosted_attempts_stay() {
    let place = Place::new();
    std::fs::write(place.path("plan.yaml"), PLAN).unwrap();
    // The runner dies while a step is at work.
    let worker = place.path("slow");
    std::fs::write(&worker, "#!/bin/sh\nexec sleep 60\n").unwrap();
    std::fs::set_permissions(&worker, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut runner = place.start("run @plan.yaml --run r --ledger @first --worker @slow");
    let begun = Instant::now();
    while begun.elapsed().as_secs() < 60 {
        let (_, out, _) = place.run("inspect @first records --json");
        if out.contains("\"dispatched\"") {
            break;
        }
    }
    runner.signal(Signal::KILL);
    runner.end();
    let dispatched = records(&place, "first", "dispatched");
    assert!(dispatched > 0);
    write_tokens(&place.path("tokens"));
    let (port, other) = (free_port(), free_port());
    let serve = "--store URL --lease 60s --token-file @tokens --http";
    let mut owner = place.start(&format!("serve --ledger @first {serve} 127.0.0.1:{port}"));
    owner.wait_for("serving");
    let line = format!("serve --ledger @second --standby {serve} 127.0.0.1:{other}");
    let mut standby = place.start(&line);
    standby.wait_for("standing by");
    // It has seen the port accept connections.
    std::thread::sleep(std::time::Duration::from_secs(2));
    owner.signal(Signal::KILL);
    let killed = Instant::now();
    standby.wait_for("serving");
    println!("taken over {:?} after SIGKILL", killed.elapsed());
    assert!(standby.err().contains("refuses connections"), "{}", standby.err());
    assert_eq!(records(&place, "second", "dispatched"), dispatched);
    assert_eq!(records(&place, "second", "attempt_lost"), 0);
    let body = serde_json::json!({});
    assert_eq!(ask(other, OPERATOR, "POST /v1/ticks", "tick", &body).unwrap().0, 200);
    assert_eq!(records(&place, "second", "dispatched"), dispatched);
    assert_eq!(standby.stop(), 0, "{}", standby.err());
}
