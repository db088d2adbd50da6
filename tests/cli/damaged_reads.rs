//! Read-only commands over a ledger that is damaged, or newer than the program: they answer from
//! the readable prefix, say so, and exit with the code for damage.

use std::fs;
use std::path::{Path, PathBuf};

use plan_ledger::{Environment, Json, Ledger, RunPolicy};

use super::command::Place;

/// Commands that show part of the newest state.
const READS: [&str; 2] = ["get count --run RUN", "plan review RUN"];

/// Views of the newest state: they name the damage themselves.
const VIEWS: [&str; 5] = ["next RUN", "questions", "status", "budget RUN", "inspect plan RUN"];

/// Creates a ledger in which variable `count` was set `to` times.
fn counted(place: &Place, to: u64) {
    let plan = serde_json::from_str(r#"{"steps": [{"id": "one"}]}"#).unwrap();
    let ledger = Ledger::create(&place.path(".ledger"), &Environment::system()).unwrap();
    let run = ledger.start_run("plan", &plan, RunPolicy::default()).unwrap();
    for number in 1..=to {
        let value = Json::new(&serde_json::json!(format!("number {number}")));
        ledger.set_variable(run, "count", value, None, "me").unwrap();
    }
    ledger.close().unwrap();
}

/// The newest segment, its bytes, and the offset of `text` in them.
fn find_in_segment(place: &Place, text: &str) -> (PathBuf, Vec<u8>, usize) {
    let mut files: Vec<_> = fs::read_dir(place.path(".ledger/log")).unwrap().collect();
    assert_eq!(files.len(), 1);
    let path = files.remove(0).unwrap().path();
    let bytes = fs::read(&path).unwrap();
    let found = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
    (path, bytes, found)
}

/// After a damaged record, every read shows the state before it, warns that the state may be stale
/// and exits with 4, even if it found nothing. Reads used to answer from before the damage with
/// exit code 0 and no warning.
#[test]
fn reads_of_a_damaged_ledger_warn_and_exit_4() {
    let place = Place::new();
    counted(&place, 9);
    let reads = READS.map(|line| line.replace("RUN", "plan"));
    for line in &reads {
        place.ledger(line).code(0);
    }
    let (path, mut bytes, found) = find_in_segment(&place, "number 5");
    bytes[found] ^= 1;
    fs::write(path, bytes).unwrap();
    let words = ["not all of the ledger can be read", "is missing", "`ledger inspect`"];
    for line in &reads {
        let shown = place.ledger(line).code(4).complains(&words);
        assert!(!shown.out.is_empty(), "{line}");
        let lines = place.ledger(&format!("{line} --json")).code(4).complains(&words).lines();
        let error = lines.last().unwrap();
        assert_eq!((&error["type"], &error["kind"]), (&"error".into(), &"corrupt".into()));
        assert!(lines.len() > 1, "{line}: {lines:?}");
    }
    for line in VIEWS.map(|line| line.replace("RUN", "plan")) {
        place.ledger(&line).code(4).says(&["not all of the ledger can be read", "damage: "]);
        let lines = place.ledger(&format!("{line} --json")).code(4).lines();
        assert!(lines.iter().any(|it| it["type"] == "damage"), "{line}: {lines:?}");
        assert_eq!(lines.last().unwrap()["type"], "as_of", "{line}");
    }
    place.ledger("get count").code(4).says(&["number 4"]);
    let missing = place.ledger("get count --run another").code(4);
    missing.complains(&["there is no run `another`", words[0]]);
}

/// The header of a segment costs no answer: HEAD, footers and neighbours say what it said. `status` used to say that
/// no run was known after a state of record 0, and an export was refused.
#[test]
fn damaged_header_costs_no_answer() {
    let place = Place::new();
    counted(&place, 9);
    let at = |lines: &[serde_json::Value]| lines.last().unwrap()["seq"].clone();
    let intact = place.ledger("inspect variables --json").code(0).lines();
    let exported = place.ledger("export").code(0).out;
    let (path, pristine, _) = find_in_segment(&place, "number 5");
    for offset in [0, 8, 40, 200, 500, 2_000, 4_095] {
        let mut bytes = pristine.clone();
        bytes[offset] ^= 1;
        fs::write(&path, bytes).unwrap();
        let seen = place.ledger("inspect variables --json").code(4).lines();
        assert_eq!((&seen[0], at(&seen)), (&intact[0], at(&intact)), "{offset}");
        let whole =
            ["a header of the log cannot be read, but every record can", "no record is missing"];
        let shown = place.ledger("status").code(4).says(&["run plan", whole[0], whole[1]]).out;
        assert!(!shown.contains("not all records"), "every record can be read: {shown}");
        place.ledger("get count").code(4).says(&["number 9"]).complains(&whole);
        assert_eq!(place.ledger("export").code(0).out, exported, "{offset}");
        place.ledger("note late").code(4).complains(&["offset 0: "]);
    }
}

/// A record that only a newer program can read has the same effect, with a hint to upgrade.
#[test]
fn reads_before_a_newer_record_warn_and_exit_4() {
    let place = Place::new();
    let golden = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("format/golden/future-kind/ledger.hex");
    for (file, bytes) in super::golden::parse(&fs::read_to_string(golden).unwrap()) {
        let path = place.path(".ledger").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let words = ["this is the state after record 8", "use a newer `ledger`"];
    for line in READS.map(|line| line.replace("RUN", "demo")) {
        place.ledger(&line).code(4).complains(&words);
    }
    for line in VIEWS.map(|line| line.replace("RUN", "demo")) {
        place.ledger(&line).code(4).says(&words);
    }
}
