//! A program without the feature `store`: it names the feature where one is needed, and reads a folder that is bound
//! to a store, but never writes to it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plan_ledger::Environment;
use plan_ledger::internals::store::{
    AckMode, DirectoryObjects, MonotonicClock, StoreClient, StoreOpening, open_bound,
};

use super::command::{Ended, Place};

/// Goal: a command and an option that only a program with stores has are named, with what to do.
#[test]
fn missing_feature_is_named() {
    let place = Place::planned("steps: [{id: a, goal: x}]");
    let before = place.snapshot();
    let lines = [
        "claim --worker w --server https://a.example.org:8443",
        "claim --worker w --server=https://a.example.org:8443",
        "--color never claim --worker w --server https://a.example.org:8443",
        "work --worker w --server https://a.example.org:8443 -- true",
        "work --server-token-file f -- true",
        "receipt 7-00112233445566778899aabbccddeeff --output x --server https://a.example.org:8443",
        "note hello --server https://a.example.org:8443 --json",
        "serve --store s3://b/x",
        "serve --store s3://b/x --standby --lease 5s",
        "serve --standby",
        "run plan.yaml --stub --store s3://b/x",
        "run plan.yaml --stub --ack local",
        "store probe s3://b/x",
        "store",
        "help store",
        "restore s3://b/x there",
        "replicate s3://b/x",
        "status s3://b/x",
        "inspect s3://b/x records --cache there",
    ];
    for line in lines {
        let ended = place.ledger(line).code(2);
        let needed =
            ["this program was built without stores", "--features store", "a release package"];
        ended.complains(&needed);
    }
    place.ledger("restore s3://b/x there").complains(&["`ledger import` reads an export"]);
    // The words keep their meaning elsewhere, and other errors are as they were.
    for line in ["claim --store x", "status --server x", "plan store", "cap --lease 5s", "stor"] {
        let ended = place.ledger(line).code(2);
        assert!(!ended.err.contains("built without"), "{line}: {}", ended.err);
    }
    assert!(place.ledger("help --all").code(0).out.lines().all(|line| !line.contains("  store ")));
    assert_eq!(place.snapshot(), before);
}

/// Regression: with servers in the environment, the commands of workers used the folder that they found instead.
#[test]
fn servers_in_the_environment_are_refused() {
    let place = Place::planned("steps: [{id: a, goal: x}, {id: b, goal: y}]");
    let with = |servers: &str, line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = place.command(&words);
        super::command::start(command.env("LEDGER_SERVER", servers)).end()
    };
    let servers = "https://a.example.org:8443";
    let before = place.snapshot();
    for line in ["claim --worker w", "work --worker w -- true", "note hello", "set x 1"] {
        with(servers, line).code(2).complains(&[
            "LEDGER_SERVER",
            "built without stores",
            "--ledger",
        ]);
    }
    assert_eq!(place.snapshot(), before);
    // Other commands do not look at it, a folder that is named counts more, and an empty variable is none.
    with(servers, "status").code(0);
    with(servers, "claim --worker w --ledger .ledger").code(0);
    with("", "claim --worker w").code(0);
}

/// Bind the folder of a ledger to a store, with the library.
fn bind(ledger: &Path, store: &Path) {
    std::fs::create_dir(store).unwrap();
    let environment = Environment::system();
    let objects = Arc::new(DirectoryObjects::open(store).unwrap());
    let client = StoreClient::new(format!("file://{}", store.display()), objects, |_| false);
    let clock = MonotonicClock::new(|| Duration::ZERO);
    let time = environment.clock.now();
    let opening = StoreOpening { ack: AckMode::Store, node: [1; 16], time, clock };
    open_bound(ledger, environment.log_options(), &client, &opening).unwrap().log.close().unwrap();
}

/// Goal: every command that would write to a folder that is bound to a store refuses with exit code 6 and says why;
/// nothing in the folder changes; and every command that reads works.
#[test]
fn bound_folder_is_read_only() {
    let plan =
        "steps:\n  - {id: one, goal: x}\n  - {id: asks, goal: y, gate: {question: Really?}}\n";
    let place = Place::planned(plan);
    place.ledger("set k 1 --run plan").code(0);
    let token = place.ledger("claim --worker w").code(0).token();
    place.ledger("export -o export.jsonl").code(0);
    bind(&place.path(".ledger"), &place.path("store"));
    let (before, stored) = (place.snapshot(), place.path("store").display().to_string());
    let writers = [
        "claim --worker w2",
        "receipt TOKEN --output done",
        "renew TOKEN",
        "release TOKEN",
        "effect --token TOKEN key",
        "set k 2 --run plan",
        "note hello --run plan",
        "tick",
        "answer plan asks yes --by me",
        "accept plan one --by me",
        "reject plan one --by me",
        "pause plan",
        "unpause plan",
        "cancel plan",
        "retry plan one",
        "skip plan one --reason x",
        "budget plan --tokens 5",
        "cap --global 3",
        "fork plan --at 3 --name other",
        "decide plan one retry",
        "plan propose plan.yaml --run other",
        "plan add more --goal x",
        "work --worker w3 -- true",
        "run plan.yaml --stub",
        "serve --until-eof",
        "snapshot",
        "prune --through 8 --yes",
        "archive --to old.tar --through 8 --prune --yes",
        "erase --variable k --run plan --yes",
        "blobs --collect",
        "recover --fence --yes",
    ];
    for line in writers {
        let ended: Ended = place.ledger(&line.replace("TOKEN", &token));
        let (code, err) = (ended.status.code(), ended.err.clone());
        assert_eq!(code, Some(6), "{line}: {err}");
        assert_eq!(place.snapshot(), before, "{line} has written");
        // A command may also have nothing to do.
        println!("{line}: {}", err.lines().next().unwrap_or_default());
        assert!(err.contains(&stored), "{line}: {err}");
    }
    let readers = [
        "status",
        "next",
        "questions",
        "prime",
        "root",
        "get k",
        "logs",
        "inspect records",
        "inspect step plan one",
        "verify",
        "verify --level replay",
        "blobs",
        "plan export plan",
        "export -o again.jsonl",
        "report --html page.html",
        "recover --export rescued",
        "import export.jsonl --ledger copy",
        "erase --variable k --run plan",
    ];
    for line in readers {
        place.ledger(line).code(0);
    }
    let bound = |files: std::collections::BTreeMap<std::path::PathBuf, Option<Vec<u8>>>| {
        files
            .into_iter()
            .filter(|(path, _)| path.starts_with(place.path(".ledger")))
            .collect::<Vec<_>>()
    };
    assert_eq!(bound(place.snapshot()), bound(before));
}
