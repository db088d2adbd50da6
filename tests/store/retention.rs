//! `ledger store gc` and `prune` as processes. A folder as the store says how old a file is: tests set it back.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use plan_ledger::log::SegmentSizes;
use plan_ledger::{Environment, Ledger, Note, RunPolicy, State};
use serde_json::{Value, json};

use super::commands::expect_published;
use super::process::{Place, open_ledger_in_store};

/// A place whose store is a folder: only there a test can change how old an object is.
struct Old {
    place: Place,
    folder: PathBuf,
}

impl Old {
    /// A ledger in a store, with segment objects.
    fn write() -> Self {
        let place = Place::in_folder();
        let folder = place.path("store");
        let segments = SegmentSizes { first: 16_384, largest: 32_768 };
        let environment = Environment { segments, snapshot_every: None, ..Environment::system() };
        let ledger = Ledger::create(&place.path("one"), &environment).unwrap();
        let plan = serde_json::from_str(r#"{"steps": [{"id": "a"}]}"#).unwrap();
        ledger.start_run("r", &plan, RunPolicy::default()).unwrap();
        let notes = |ledger: &Ledger, count: usize| {
            for number in 0..count {
                let text = format!("note {number}: {}", "n".repeat(2_000));
                let note = Note { run: None, step: None, by: "ann".to_owned(), text };
                ledger.add_note(&note, None).unwrap();
            }
        };
        for count in [60, 20] {
            notes(&ledger, count);
            ledger.snapshot::<State>().unwrap();
        }
        ledger.close().unwrap();
        let (ledger, keeper) =
            open_ledger_in_store(&place.path("one"), 1, &place.client(), &environment);
        while keeper.upload_segments().unwrap() > 0 {}
        notes(&ledger, 20);
        ledger.snapshot::<State>().unwrap();
        while keeper.upload_segments().unwrap() > 0 {}
        ledger.close().unwrap();
        Self { place, folder }
    }

    /// Let all objects become so much older.
    fn age(&self, hours: u64) {
        let older = Duration::from_secs(hours * 3600);
        for part in ["tail", "seg", "snap"] {
            for entry in fs::read_dir(self.folder.join(part)).into_iter().flatten() {
                let file = fs::File::options().append(true).open(entry.unwrap().path()).unwrap();
                let time = file.metadata().unwrap().modified().unwrap();
                file.set_modified(time - older).unwrap();
            }
        }
    }

    fn names(&self, part: &str) -> Vec<String> {
        let entries = fs::read_dir(self.folder.join(part)).into_iter().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn json(&self, name: &str, line: &str) -> Value {
        let line = self.place.json(line);
        expect_published(&format!("store.{name}"), &line);
        line
    }
}

/// Goal: `gc` shows what it would delete and changes nothing; with --yes it deletes that. The ledger in the store stays
/// what it was, and can be continued.
#[test]
fn gc_shows_first_and_deletes_with_yes() {
    let old = Old::write();
    let young = old.json("store_gc", "store gc URL --json");
    assert_eq!((&young["slots"], &young["done"]), (&json!(0), &json!(false)), "{young}");
    assert!(young["kept_young"].as_u64().unwrap() > 0, "{young}");
    old.age(49);
    let export = old.place.ledger(&format!("export {}", old.place.url));
    let (slots, segments) = (old.names("tail"), old.names("seg"));
    let status = old.place.ledger("store status URL");
    assert!(status.contains("\n  snapshots 3, "), "{status}");
    let planned = old.json("store_gc", "store gc URL --json");
    let count = planned["slots"].as_u64().unwrap();
    assert!(count > 0 && planned["indexes"].as_u64().unwrap() > 0, "{planned}");
    let snapshots = old.names("snap");
    assert_eq!((snapshots.len(), &planned["snapshots"]), (3, &json!(1)), "{planned}");
    assert_eq!((&old.names("tail"), &old.names("seg")), (&slots, &segments));
    let shown = old.place.ledger("store gc URL");
    assert!(shown.contains("can be deleted\n") && shown.contains("add --yes"), "{shown}");
    let done = old.json("store_gc", "store gc URL --yes --json");
    assert_eq!((&done["slots"], &done["done"]), (&planned["slots"], &json!(true)));
    assert_eq!(old.names("tail").len(), slots.len() - usize::try_from(count).unwrap());
    assert_eq!(old.names("snap"), snapshots[1..]);
    assert!(old.place.ledger("store gc URL --yes").contains("nothing to delete"));
    assert_eq!(old.place.ledger(&format!("export {}", old.place.url)), export);
    old.place.ledger("restore URL @copy");
    assert!(old.place.ledger("verify @copy --level replay").contains("whole"));
    let mut server = old.place.start("serve --ledger @copy --store URL --no-probe");
    server.wait_for("serving");
    assert_eq!(server.stop(), 0);
    // Nothing is left of the question what time it is.
    assert_eq!(old.names("probe"), Vec::<String>::new());
}

/// Goal: damage in the log ends a collection before it deletes anything.
#[test]
fn gc_of_a_damaged_store_deletes_nothing() {
    let old = Old::write();
    old.age(49);
    let segment = old.names("seg").into_iter().find(|name| name.contains(".seg")).unwrap();
    let path = old.folder.join("seg").join(&segment);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let slots = old.names("tail");
    let (code, _, err) = old.place.run("store gc URL --yes");
    assert_eq!(code, 4, "{err}");
    assert!(err.contains(&segment), "{err}");
    assert_eq!(old.names("tail"), slots);
}

/// Goal: `prune` deletes nothing without a note; then what the note covers, after the snapshots are in the store. The
/// rest is read, restored and continued.
#[test]
fn prune_deletes_what_the_ledger_pruned() {
    let old = Old::write();
    let none = old.json("store_prune", "store prune URL --json");
    assert_eq!((&none["note_seq"], &none["segments"]), (&Value::Null, &json!(0)));
    assert!(old.place.ledger("store prune URL").contains("no retention note"));
    let mut server = old.place.start("serve --ledger @one --store URL --no-probe");
    server.wait_for("serving");
    old.place.ledger("prune @one --through 80 --yes");
    assert_eq!(server.stop(), 0);
    let segments = old.names("seg");
    let planned = old.json("store_prune", "store prune URL --json");
    assert!(planned["segments"].as_u64().unwrap() > 0, "{planned}");
    // The store has the snapshots from which the log is to start, and one of records that were pruned.
    assert_eq!((&planned["missing"], &planned["snapshots"]), (&json!([]), &json!(1)), "{planned}");
    for name in &old.names("snap")[1..] {
        fs::remove_file(old.folder.join("snap").join(name)).unwrap();
    }
    let planned = old.json("store_prune", "store prune URL --json");
    assert_eq!(planned["missing"].as_array().unwrap().len(), 2, "{planned}");
    let (code, _, err) = old.place.run("store prune URL --yes");
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("--ledger"), "{err}");
    assert_eq!(old.names("seg"), segments);
    // A folder that has them is looked into, and nothing is changed.
    let shown = old.place.ledger("store prune URL --ledger @one");
    let one = old.place.path("one").display().to_string();
    assert!(shown.contains(&format!("lacks     2 snapshots: {one} has them")), "{shown}");
    let found = old.json("store_prune", "store prune URL --ledger @one --json");
    assert_eq!(found["found_in"], json!(one), "{found}");
    assert_eq!((old.names("seg"), old.names("snap").len()), (segments.clone(), 1));
    let done = old.json("store_prune", "store prune URL --ledger @one --yes --json");
    assert_eq!((&done["segments"], &done["done"]), (&planned["segments"], &json!(true)));
    assert_eq!(done["created"].as_array().unwrap().len(), 2, "{done}");
    assert!(old.names("seg").len() < segments.len());
    assert_eq!(old.names("snap").len(), 2);
    assert!(old.place.ledger("store prune URL --yes").contains("nothing to delete"));
    let url = old.place.url.clone();
    for view in ["export LEDGER", "inspect LEDGER runs --json", "inspect LEDGER records --run r"] {
        let on = |ledger: &str| old.place.ledger(&view.replace("LEDGER", ledger));
        assert_eq!(on(&url), on("@one"), "{view}");
    }
    assert!(old.place.ledger(&format!("verify {url} --level replay")).contains("whole"));
    old.place.ledger("restore URL @copy");
    assert!(old.place.ledger("verify @copy --level replay").contains("whole"));
    let mut server = old.place.start("serve --ledger @copy --store URL --no-probe");
    server.wait_for("serving");
    assert_eq!(server.stop(), 0);
}

/// Goal: a pruned store that lost the snapshots from which it starts gets them again from a folder, although there is nothing
/// left to delete: by the command, and by its owner.
#[test]
fn lost_anchors_of_a_pruned_store_are_created_again() {
    let old = Old::write();
    let mut server = old.place.start("serve --ledger @one --store URL --no-probe");
    server.wait_for("serving");
    old.place.ledger("prune @one --through 80 --yes");
    assert_eq!(server.stop(), 0);
    old.place.ledger("store prune URL --ledger @one --yes");
    old.place.ledger("restore URL @whole");
    let lose = || {
        for name in old.names("snap") {
            fs::remove_file(old.folder.join("snap").join(name)).unwrap();
        }
        let (code, _, err) = old.place.run("restore URL @copy");
        assert_eq!(code, 4, "{err}");
    };
    lose();
    let (code, _, err) = old.place.run("store prune URL --yes");
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("--ledger"), "{err}");
    let shown = old.place.ledger("store prune URL --ledger @one");
    assert!(
        shown.contains("has them") && shown.ends_with("add --yes: it creates them\n"),
        "{shown}"
    );
    let done = old.json("store_prune", "store prune URL --ledger @one --yes --json");
    assert_eq!(done["created"].as_array().unwrap().len(), 2, "{done}");
    old.place.ledger("restore URL @second");
    lose();
    let mut server = old.place.start("serve --ledger @one --store URL --no-probe");
    server.wait_for("is whole again");
    assert_eq!(server.stop(), 0);
    old.place.ledger("restore URL @third");
}
