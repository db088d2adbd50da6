//! Errors about a store: each names the object with its address, the record once, and a remedy that helps.

use std::fmt::Write as _;
use std::time::Duration;

use super::flawed::FlawedServer;
use super::process::{Place, Running};

const PLAN: &str = "steps:\n  - {id: one, goal: First}\n  - {id: two, goal: Second}\n";

/// The only slot of [`copied`].
const SLOT: &str = "tail/00000000000000000001.slot";

/// A store in the folder `store` with one slot, and the folder `first` that wrote it.
fn copied() -> Place {
    let place = Place::in_folder();
    place.plan("first", PLAN);
    place.ledger("replicate URL --ledger @first --once");
    place
}

/// Regression: errors of `restore`, `serve --store`, `run --store` and `replicate` named no store, and the hint for damage
/// was `ledger recover`, which refuses addresses.
#[test]
fn damage_names_the_object_and_a_remedy_for_stores() {
    let place = copied();
    let path = place.path("store").join(SLOT);
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 7]).unwrap();
    let url = place.url.clone();
    for line in [
        "verify URL",
        "root --ledger URL",
        "inspect URL records --limit 3",
        "restore URL @second",
        "serve --ledger @second --store URL --no-probe",
        "serve --ledger @second --store URL --no-probe --standby",
        "run @plan.yaml --run r --stub --ledger @second --store URL --no-probe",
        "replicate URL --ledger @first --once --no-probe",
        "store status URL",
        "store rejoin URL --ledger @first",
    ] {
        let (code, out, err) = place.run(line);
        assert_eq!(code, 4, "{line}: {out}{err}");
        assert!(err.contains(&format!("error: {url}/{SLOT}: record 1: ")), "{line}: {err}");
        assert_eq!(err.matches("record 1: ").count(), 1, "{line}: {err}");
        assert!(err.contains("move it out of the prefix, keep it"), "{line}: {err}");
        assert!(err.contains(&format!("`ledger replicate {url}`")), "{line}: {err}");
        assert!(!err.contains("ledger recover"), "{line}: {err}");
        assert!(!place.path("second").exists(), "{line}");
    }
    std::fs::write(&path, &whole).unwrap();
    // An object that a person must delete says so.
    std::fs::write(place.path("store").join("LEDGER.json"), "{}").unwrap();
    let (code, _, err) = place.run("restore URL @second");
    assert_eq!(code, 4, "{err}");
    assert!(err.contains(&format!("error: {url}/LEDGER.json: ")), "{err}");
    assert!(err.contains("move this object out of the prefix, and keep it"), "{err}");
}

/// Regression: a file in the place of a store was said to be no such folder.
#[test]
fn file_in_the_place_of_a_store_is_named() {
    let mut place = copied();
    std::fs::write(place.path("plain"), "").unwrap();
    let file = place.path("plain").display().to_string();
    for below in ["", "/night"] {
        place.url = format!("file://{file}{below}");
        for line in [
            "store probe URL",
            "store status URL",
            "store gc URL",
            "verify URL",
            "restore URL @second",
            "serve --ledger @first --store URL",
            "replicate URL --ledger @first --once",
        ] {
            let (code, _, err) = place.run(line);
            assert_eq!(code, 2, "{line}: {err}");
            assert!(err.contains(&format!("{file} is a file")), "{line}: {err}");
            assert!(!err.contains("no such folder"), "{line}: {err}");
        }
    }
}

/// Regression: a server whose store became full said that the store does not answer, and named the record twice.
#[test]
fn server_of_a_full_store_says_what_the_store_answered() {
    let place = Place::in_folder();
    place.plan("first", PLAN);
    let full = FlawedServer::start("fills");
    let line = "serve --ledger @first --store s3://bucket/night --no-probe --until-eof";
    let mut owner = Running::start(place.command(line).envs(full.environment()));
    owner.wait_for("serving");
    // There is room for some of them.
    let mut last = (0, String::new(), String::new());
    for number in 0..9 {
        last = place.run(&format!("note number-{number} --ledger @first"));
        if last.0 != 0 {
            break;
        }
    }
    let (code, _, err) = last;
    assert_eq!(code, 7, "{err}");
    assert_eq!(owner.end(), 7, "{}", owner.err());
    for text in [err, owner.err()] {
        let what = "the store answers with an error: cannot create tail/";
        assert!(text.contains(what) && text.contains("(507 XMinioStorageFull)"), "{text}");
        assert!(text.contains("s3://bucket/night: "), "{text}");
        assert!(text.contains("free some space in the store"), "{text}");
        assert!(!text.contains("does not answer"), "{text}");
        assert!(!text.contains("record 8: record 8"), "{text}");
    }
    assert!(full.names().iter().filter(|name| name.contains("/tail/")).count() >= 2);
}

/// Regression: `ledger replicate` said that the store lacked records when a signal ended it while only a segment object was
/// left to upload.
#[test]
fn stopped_copy_with_every_record_in_the_store_says_so() {
    let place = Place::in_folder();
    let mut plan = String::from("steps:\n");
    for number in 0..12_000 {
        writeln!(plan, "  - {{id: s{number}, goal: 'Do thing {number}: {}'}}", "x".repeat(100))
            .unwrap();
    }
    place.plan("first", &plan);
    // The second one does not fit into the segment of the first.
    place.ledger("plan propose @plan.yaml --run q --ledger @first");
    place.ledger("note more --ledger @first");
    let server = FlawedServer::start("stalls-segments");
    let line = "replicate s3://bucket/night --ledger @first --once --no-probe --timeout 2m";
    let mut car = Running::start(place.command(line).envs(server.environment()));
    while !server.names().iter().any(|name| name == "stalled") {
        assert!(car.is_running(), "{}{}", car.out(), car.err());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(car.stop(), 0, "{}", car.err());
    let seq = place.json("root --ledger @first --json")["seq"].as_u64().unwrap();
    let told = format!("s3://bucket/night has every record, up to {seq}, and may lack a segment");
    assert!(car.err().contains(&told), "{}", car.err());
}
