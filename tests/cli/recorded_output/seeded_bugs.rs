//! Every mutant (seeded bug), and the test that killed it in the last complete run.
//!
//! The names come from `src/sim/mutants.rs`, the tests from `format/EVIDENCE.md`. A newer mutant is
//! listed with the modules that run against it (`tests/cli/mutants.rs`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use regex::Regex;

use super::session;

fn source(path: &str) -> String {
    fs::read_to_string(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)).unwrap()
}

/// Goal: no seeded bug and no test that finds one is lost.
#[test]
fn seeded_bugs_and_the_tests_that_find_them() {
    let bug = Regex::new(r#"(?m)^    (\w+), "([^"]*)", "[^"]*";$"#).unwrap();
    let row = Regex::new(r"(?m)^\| (\w+) \| [^|]* \| ([\w:]+) \| *\d* \| `").unwrap();
    let (mutants, evidence) = (source("src/sim/mutants.rs"), source("format/EVIDENCE.md"));
    let found_by: BTreeMap<_, _> = row
        .captures_iter(&evidence)
        .map(|row| row.extract())
        .map(|(_, [bug, test])| (bug, test))
        .collect();
    let mut text = "# bug, hazards, the test that finds it\n".to_owned();
    for (_, [name, hazards]) in bug.captures_iter(&mutants).map(|bug| bug.extract()) {
        let test = found_by.get(name).copied();
        let test = test.map_or_else(|| hunted_in(name, hazards), str::to_owned);
        writeln!(text, "{name}\t{hazards}\t{test}").unwrap();
    }
    assert!(text.lines().count() > 80, "{text}");
    session::assert_recorded("seeded-bugs", &text);
}

/// The list of modules that hunt for a bug which is not in the evidence.
fn hunted_in(name: &str, hazards: &str) -> String {
    let derived = ["Snapshot", "Run", "Prune", "Blob"];
    let list = match hazards {
        _ if hazards.starts_with('P') => "of plans",
        _ if hazards.starts_with('S') => "of serving",
        _ if derived.iter().any(|file| name.contains(file)) => "beside the log first, then all",
        _ => "all",
    };
    format!("not in EVIDENCE.md; hunted in the modules: {list}")
}
