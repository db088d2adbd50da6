//! The upgrade guarantee: this program opens and continues ledgers of every released version, and refuses
//! a ledger of a newer version with exit code 6, untouched.
//!
//! `format/released/VERSION` has the golden ledgers of a released version, as they were at its release
//! (`packages/README.md`). Those of this version are in `format/golden`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::command::{Ended, Place, start};
use super::golden::parse;

/// Golden ledgers that are damaged on purpose, or of a version that no program has.
const NOT_OPENED: [&str; 5] =
    ["corrupt", "future-incompat", "future-kind", "future-major", "future-ro-compat"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folders in a folder, sorted by name.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<_> =
        entries.map(|it| it.unwrap().path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// A folder with a copy of a golden ledger in `.ledger`.
fn place_of(golden: &Path) -> Place {
    let place = Place::new();
    for (file, bytes) in parse(&fs::read_to_string(golden.join("ledger.hex")).unwrap()) {
        let path = place.path(".ledger").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    place
}

/// Runs a command with a state folder of its own: the golden ledgers have one identity, and their roots
/// are kept there.
fn ledger(place: &Place, line: &str) -> Ended {
    let words: Vec<&str> = line.split_whitespace().collect();
    start(place.command(&words).env("XDG_STATE_HOME", place.path("state"))).end()
}

/// The versions in the headings of the change log that are released.
fn released_versions() -> Vec<String> {
    let log = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let headings = log.lines().filter_map(|line| line.strip_prefix("## "));
    let released = headings.filter(|it| !it.contains("not yet released"));
    released.map(|it| it.split_whitespace().next().unwrap().to_owned()).collect()
}

/// Goal: a release cannot be made without keeping its ledgers for all later programs.
#[test]
fn golden_ledgers_of_every_released_version_are_kept() {
    let kept = folders(&root().join("format/released"));
    let kept: Vec<&str> = kept.iter().map(|path| name(path)).collect();
    for version in released_versions() {
        assert!(
            kept.contains(&version.as_str()),
            "version {version} is released, and format/released/{version} is missing: \
             cp -r format/golden format/released/{version}"
        );
    }
}

/// Goal: after an upgrade the runs of an old ledger continue: every old record is read and verified,
/// stays as it was, and new ones follow it.
#[test]
fn ledgers_of_every_released_version_open_and_continue() {
    let mut versions = folders(&root().join("format/released"));
    versions.push(root().join("format/golden"));
    let mut opened = 0;
    for version in &versions {
        for golden in folders(version).iter().filter(|it| !NOT_OPENED.contains(&name(it))) {
            let what = format!("{}/{}", name(version), name(golden));
            let place = place_of(golden);
            let verified = || {
                let lines = ledger(&place, "verify --level replay --json").lines();
                let summary = lines.into_iter().find(|line| line["type"] == "summary").unwrap();
                assert_eq!(
                    (&summary["damage"], &summary["newer"]),
                    (&0.into(), &0.into()),
                    "{what}"
                );
                let root = &summary["root"];
                (root["seq"].as_u64().unwrap(), root["chain"].as_str().unwrap().to_owned())
            };
            let (seq, chain) = verified();
            ledger(&place, "status --run demo").code(0).says(&["status of run demo"]);
            // The step may have been dispatched long ago, so that its lease has expired.
            let claimed =
                ledger(&place, "claim demo --step two --wait 60 --worker w --json").code(0);
            let receipt = format!("receipt {} --output 7", claimed.token());
            ledger(&place, &receipt).code(0);
            ledger(&place, "snapshot").code(0);
            ledger(&place, "status --run demo").code(0).says(&["status of run demo (1): done"]);
            assert!(verified().0 > seq, "{what}");
            ledger(&place, &format!("verify --level replay --expect-head {seq}:{chain}")).code(0);
            opened += 1;
        }
    }
    assert!(opened >= 5 * versions.len(), "{opened} ledgers of {} versions", versions.len());
}

/// Commands that write, with what they need.
const WRITERS: [&str; 14] = [
    "run plan.yaml --stub",
    "plan propose plan.yaml --run other",
    "claim demo --worker w",
    "work demo --worker w --max 1 -- true",
    "receipt 5-00000000000000000000000000000000 --output 1",
    "serve",
    "note text",
    "set x 1 --run demo",
    "pause demo",
    "skip two --run demo --reason late",
    "budget demo --attempts 9",
    "snapshot",
    "prune --through 3 --yes",
    "tick",
];

/// The content of the files of a ledger. `LOCK` names the last process that looked.
fn ledger_files(place: &Place) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut files = place.snapshot();
    let dir = place.path(".ledger");
    files.retain(|path, _| path.starts_with(&dir) && !path.ends_with("LOCK"));
    files
}

/// Goal: an older program (this one) refuses a ledger of a newer version (whose major version, flags or
/// records it does not know): every command that writes ends with exit code 6, names the cure, and
/// changes no byte.
#[test]
fn older_program_refuses_a_newer_ledger_untouched() {
    for golden in ["future-major", "future-incompat", "future-ro-compat", "future-kind"] {
        let place = place_of(&root().join("format/golden").join(golden));
        place.write("plan.yaml", "steps: [{id: one}]");
        // An unknown record is found when the log is open already: its HEAD then has the clock of this boot.
        let files = || {
            let mut files = ledger_files(&place);
            files.retain(|path, _| golden != "future-kind" || !path.ends_with("HEAD"));
            files
        };
        let before = files();
        for line in WRITERS {
            let ended = ledger(&place, line);
            assert_eq!(ended.status.code(), Some(6), "{golden}: {line}: {ended:?}");
            ended.complains(&["use a newer `ledger`"]);
            assert!(files() == before, "{golden}: {line} changed the ledger");
        }
    }
}
