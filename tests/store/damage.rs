//! A store that lost something, and the processes that find out. A folder as the store: tests change its files.

use std::fs;
use std::path::PathBuf;

use plan_ledger::log::SegmentSizes;
use plan_ledger::{Claim, Environment, Ledger, Note, RunPolicy};
use serde_json::{Value, json};

use super::commands::expect_published;
use super::process::{Place, Running, open_ledger_in_store};

/// A ledger in a store, with segment objects, slots after them, and a large output. Its folder is `one`.
struct Store {
    place: Place,
    folder: PathBuf,
}

const SERVE: &str = "serve --ledger @one --store URL --no-probe";

impl Store {
    fn write() -> Self {
        let place = Place::in_folder();
        let folder = place.path("store");
        let segments = SegmentSizes { first: 16_384, largest: 32_768 };
        let environment = Environment { segments, snapshot_every: None, ..Environment::system() };
        Ledger::create(&place.path("one"), &environment).unwrap().close().unwrap();
        let (ledger, keeper) =
            open_ledger_in_store(&place.path("one"), 1, &place.client(), &environment);
        let plan = serde_json::from_str(r#"{"steps": [{"id": "a"}]}"#).unwrap();
        let run = ledger.start_run("r", &plan, RunPolicy::default()).unwrap();
        let Claim::Task(task) = ledger.claim(run, "worker").unwrap() else { panic!("no task") };
        task.succeed(json!({ "log": "a line; ".repeat(20_000) }).to_string()).unwrap();
        let notes = |count: usize| {
            for number in 0..count {
                let text = format!("note {number}: {}", "n".repeat(2_000));
                let note = Note { run: None, step: None, by: "ann".to_owned(), text };
                ledger.add_note(&note, None).unwrap();
            }
        };
        notes(40);
        while keeper.upload_segments().unwrap() > 0 {}
        notes(4);
        ledger.close().unwrap();
        Self { place, folder }
    }

    /// The names of objects in a folder of the store, with the folder.
    fn names(&self, part: &str) -> Vec<String> {
        let entries = fs::read_dir(self.folder.join(part)).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| format!("{part}/{}", entry.unwrap().file_name().to_str().unwrap()))
            .collect();
        names.sort();
        names
    }

    /// The second sealed segment.
    fn segment(&self) -> String {
        self.names("seg").into_iter().filter(|name| name.contains(".seg")).nth(1).unwrap()
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.folder.join(name)).unwrap();
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.folder.join(name)).unwrap();
        change(&mut bytes);
        fs::write(self.folder.join(name), bytes).unwrap();
    }

    /// The exit code of a verification of the store.
    fn verify(&self) -> i32 {
        self.place.run(&format!("verify {}", self.place.url)).0
    }

    /// The lines about damage that a process printed.
    fn told(process: &Running) -> Vec<Value> {
        let lines: Vec<Value> =
            process.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.into_iter().filter(|line| line["type"] == "store_damage").collect()
    }
}

/// Goal: a slot that is lost behind the end is repaired before the first result, and that is told, once.
#[test]
fn lost_slot_is_repaired_when_the_server_starts() {
    let store = Store::write();
    let slot = store.names("tail").into_iter().nth_back(2).unwrap();
    store.remove(&slot);
    assert_eq!(store.verify(), 4);
    let mut server = store.place.start(&format!("{SERVE} --json"));
    server.wait_for("store_damage");
    let told = Store::told(&server);
    assert_eq!(told.len(), 1, "{told:?}");
    expect_published("serve.store_damage", &told[0]);
    let expected = (&json!(slot), &json!("repaired"), &json!(0), &json!("store"));
    let found = (&told[0]["object"], &told[0]["state"], &told[0]["damaged"], &told[0]["ack"]);
    assert_eq!(found, expected);
    assert_eq!(store.verify(), 0);
    assert_eq!(server.stop(), 0);
    store.place.ledger("restore URL @copy");
    assert!(store.place.ledger("verify @copy --level replay").contains("whole"));
}

/// Goal: a newest slot whose header is damaged keeps no owner out that wrote it.
#[test]
fn damaged_newest_slot_is_covered() {
    let store = Store::write();
    let slot = store.names("tail").pop().unwrap();
    store.change(&slot, |bytes| bytes[100] ^= 1);
    assert_eq!(store.verify(), 4);
    let mut server = store.place.start(SERVE);
    server.wait_for("serving");
    assert_eq!(store.verify(), 0);
    assert_eq!(server.stop(), 0);
}

/// Goal: a lost segment is created again with the same bytes, by a server and by a side-car.
#[test]
fn lost_segment_is_created_again() {
    let store = Store::write();
    let name = store.segment();
    let bytes = fs::read(store.folder.join(&name)).unwrap();
    store.remove(&name);
    assert_eq!(store.verify(), 4);
    let mut server = store.place.start(SERVE);
    server.wait_for("the store was damaged and is whole again");
    assert!(server.out().contains(&name), "{}", server.out());
    assert_eq!(fs::read(store.folder.join(&name)).unwrap(), bytes);
    assert_eq!(store.verify(), 0);
    assert_eq!(server.stop(), 0);

    // The same folder, as one that is not bound, with a side-car.
    fs::remove_file(store.place.path("one/STORE.json")).unwrap();
    store.remove(&name);
    let line = "replicate URL --ledger @one --once --no-probe --json";
    let out = store.place.ledger(line);
    let told: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    expect_published("replicate.store_damage", &told);
    assert_eq!((&told["object"], &told["ack"]), (&json!(name), &Value::Null));
    assert_eq!(fs::read(store.folder.join(&name)).unwrap(), bytes);
    // One that is cut stays, and a job that runs each night fails.
    store.change(&name, |bytes| bytes.truncate(5000));
    let (code, out, _) = store.place.run(line);
    assert_eq!(code, 4, "{out}");
    assert!(out.contains("\"deletable\""), "{out}");
}

/// Goal: a server does not start with a segment that is cut, names it and says what to do; after that was done, the next
/// start repairs it. A server that promises nothing of the store starts.
#[test]
fn cut_segment_is_refused_until_it_is_deleted() {
    let store = Store::write();
    let name = store.segment();
    let bytes = fs::read(store.folder.join(&name)).unwrap();
    store.change(&name, |bytes| bytes.truncate(5000));
    let (code, out, err) = store.place.run(SERVE);
    assert_eq!(code, 4, "{out}\n{err}");
    assert!(err.contains(&name) && err.contains("move that object"), "{err}");
    let mut server = store.place.start(&format!("{SERVE} --ack local"));
    server.wait_for("the store is damaged, and cannot restore this ledger");
    let status = store.place.ledger("status @one");
    assert!(status.contains("1 object damaged or missing there"), "{status}");
    assert_eq!(server.stop(), 0);
    store.remove(&name);
    let mut server = store.place.start(SERVE);
    server.wait_for("is whole again");
    assert_eq!(fs::read(store.folder.join(&name)).unwrap(), bytes);
    assert_eq!(store.verify(), 0);
    assert_eq!(server.stop(), 0);
}

/// Goal: a server that runs finds a changed byte by reading, unless that is turned off, and creates the segment again once it
/// was deleted.
#[test]
fn changed_segment_is_found_by_reading() {
    let store = Store::write();
    let name = store.segment();
    let bytes = fs::read(store.folder.join(&name)).unwrap();
    store.change(&name, |bytes| bytes[6000] ^= 1);
    let mut server = store.place.start(&format!("{SERVE} --store-scrub off"));
    server.wait_for("serving");
    assert_eq!(server.stop(), 0);
    assert!(!server.out().contains("damaged"), "{}", server.out());
    let mut server = store.place.start(&format!("{SERVE} --json"));
    server.wait_for("\"deletable\"");
    let told = Store::told(&server);
    assert_eq!((&told[0]["object"], &told[0]["damaged"]), (&json!(name), &json!(1)));
    store.remove(&name);
    // It looks again each minute.
    server.wait_for("\"repaired\"");
    assert_eq!(fs::read(store.folder.join(&name)).unwrap(), bytes);
    assert_eq!(store.verify(), 0);
    assert_eq!(server.stop(), 0);
}

/// Goal: a restore has everything but a lost large output, which it names; so does a server that restores. The owner with the
/// whole folder brings it back.
#[test]
fn lost_blob_is_named_and_brought_back() {
    let store = Store::write();
    let blob = store.names("blob").pop().unwrap();
    store.remove(&blob);
    let (code, out, err) = store.place.run("restore URL @copy --json");
    assert_eq!(code, 4, "{out}\n{err}");
    let line: Value = serde_json::from_str(&out).unwrap();
    expect_published("restore.restored", &line);
    assert_eq!(line["missing_blobs"], json!([blob]));
    assert!(err.contains(&blob) && err.contains("the output of record"), "{err}");
    let (code, out, _) = store.place.run("verify @copy --level replay");
    assert_eq!(code, 4, "{out}");
    let mut server = store.place.start("serve --ledger @two --store URL --no-probe");
    server.wait_for("serving");
    assert!(server.err().contains(&blob), "{}", server.err());
    assert_eq!(server.stop(), 0);
    let mut server = store.place.start(SERVE);
    server.wait_for("is whole again");
    assert!(server.out().contains(&blob), "{}", server.out());
    assert_eq!(server.stop(), 0);
    let line = store.place.json("restore URL @three --json");
    assert_eq!(line["missing_blobs"], json!([]));
}

/// Goal: a copy does not end with success if the folder lost a large output that the new store lacks, too.
#[test]
fn copy_names_a_large_output_that_the_folder_lost() {
    let store = Store::write();
    let place = &store.place;
    fs::remove_file(place.path("one/STORE.json")).unwrap();
    fs::create_dir(place.path("new")).unwrap();
    let name = store.names("blob").pop().unwrap();
    let blob = name.strip_prefix("blob/").unwrap();
    let own = place.path("one/blob").join(&blob[..2]).join(blob);
    let kept = fs::read(&own).unwrap();
    fs::remove_file(&own).unwrap();
    let line =
        format!("replicate file://{} --ledger @one --once --no-probe", place.path("new").display());
    let (code, _, err) = place.run(&line);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains(&name) && err.contains("the output of record"), "{err}");
    fs::write(&own, kept).unwrap();
    let (code, _, err) = place.run(&line);
    assert_eq!(code, 0, "{err}");
}
