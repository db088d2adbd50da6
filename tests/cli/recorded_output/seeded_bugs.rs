//! Every mutant (seeded bug), and the test that kills it.
//!
//! The names come from `src/sim/mutants.rs`, the tests from `tests/mutants/killers.txt`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use super::session;

fn path(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

fn source(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap()
}

/// Goal: no seeded bug and no test that finds one is lost, and each seeded bug has a test that finds it.
#[test]
fn seeded_bugs_and_the_tests_that_find_them() {
    let bug = Regex::new(r#"(?m)^    (\w+), "([^"]*)", "[^"]*";$"#).unwrap();
    let (mutants, killers) = (source("src/sim/mutants.rs"), source("tests/mutants/killers.txt"));
    let mut found_by: BTreeMap<_, _> =
        killers.lines().filter_map(|line| line.split_once(' ')).collect();
    let mut text = "# bug, hazards, the test that finds it\n".to_owned();
    let mut unknown = Vec::new();
    for (_, [name, hazards]) in bug.captures_iter(&mutants).map(|bug| bug.extract()) {
        let test = found_by.remove(name);
        assert!(test.is_none_or(is_test), "{name}: tests/mutants/killers.txt: no test {test:?}");
        let shown = test.unwrap_or("no test is known: all modules are run");
        unknown.extend(test.is_none().then_some(name));
        writeln!(text, "{name}\t{hazards}\t{shown}").unwrap();
    }
    // `NoOp` has no effect. No further mutant may come without a line in tests/mutants/killers.txt.
    assert_eq!(unknown, ["NoOp"]);
    assert!(found_by.is_empty(), "tests/mutants/killers.txt has no such mutants: {found_by:?}");
    assert!(text.lines().count() > 100, "{text}");
    session::assert_recorded("seeded-bugs", &text);
}

/// Whether the tests of the program have a test with that path.
fn is_test(test: &str) -> bool {
    let Some((module, name)) = test.rsplit_once("::") else { return false };
    let module = format!("tests/cli/{}", module.replace("::", "/"));
    let files = [format!("{module}.rs"), format!("{module}/mod.rs")];
    let text = files.iter().find_map(|file| fs::read_to_string(path(file)).ok());
    text.is_some_and(|text| text.contains(&format!("fn {name}()")))
}
