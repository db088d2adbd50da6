//! The house's rules that a compiler does not check: arrows between layers, who may name which
//! crate, sizes, and characters.

use std::fs;
use std::path::{Path, PathBuf};

/// Which layers a layer may name. Arrows point down.
const LAYERS: &[(&str, &[&str])] = &[
    ("format", &[]),
    ("plan", &[]),
    ("storage", &[]),
    ("log", &["error", "format", "storage"]),
    ("ledger", &["error", "format", "log", "plan", "storage"]),
    ("import", &["error", "plan"]),
    ("sim", &["error", "format", "ledger", "log", "plan", "storage"]),
];

/// Each of these crates is named in so few places that it can be replaced by editing them.
const CRATES: &[(&str, &[&str])] = &[
    ("crc32fast", &["format/hash.rs"]),
    ("blake3", &["format/hash.rs"]),
    ("lz4_flex", &["format/pack.rs"]),
    ("bincode", &["ledger/codec.rs"]),
    ("base64", &["ledger/lines.rs"]),
    ("memmap2", &["storage/map.rs"]),
    ("fs2", &["storage/disk.rs"]),
    ("getrandom", &["ledger/environment.rs"]),
    ("humantime", &["ledger/environment.rs"]),
    ("serde_saphyr", &["import/"]),
    ("rustix", &["storage/disk.rs"]),
    ("tar", &["storage/tar.rs"]),
];

/// The layers that may name the file system: for a ledger's own files, only `storage`.
const FILE_SYSTEM: &[&str] = &["storage/disk.rs", "storage/map.rs", "import/", "sim/mutants.rs"];

/// Lines of a file, its unit tests left out.
const FILE_LINES_MAX: usize = 800;

fn source() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("src")
}

/// Every source file: its path below `src` and its text.
fn files() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![source()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(source()).unwrap().to_str().unwrap().to_owned();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    assert!(found.len() > 30, "the source was not found");
    found
}

/// A file's code: comments and test modules left out.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// A word, not a part of a longer one.
fn names(code: &str, word: &str) -> bool {
    let is_part =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    code.match_indices(word).any(|(at, _)| {
        let bytes = code.as_bytes();
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        !is_part(before) && !is_part(bytes.get(at + word.len()))
    })
}

fn is_test(name: &str) -> bool {
    name.contains("tests")
}

fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// Goal: arrows point down only.
#[test]
fn layers_name_only_the_layers_below() {
    let mut problems = Vec::new();
    for (name, text) in files().iter().filter(|(name, _)| !is_test(name)) {
        let layer = name.split('/').next().unwrap();
        let Some((_, allowed)) = LAYERS.iter().find(|(each, _)| *each == layer) else { continue };
        let code = code(text);
        for (other, _) in LAYERS.iter().filter(|(other, _)| *other != layer) {
            if names(&code, &format!("crate::{other}")) && !allowed.contains(other) {
                problems.push(format!("{name} names crate::{other}"));
            }
        }
        let imports_root = ["use crate::{", "use crate::*"].iter().any(|use_| code.contains(use_));
        if imports_root {
            problems.push(format!("{name} imports from the crate's root: name the layer"));
        }
        if names(&code, "crate::error") && !allowed.contains(&"error") {
            problems.push(format!("{name} names crate::error"));
        }
    }
    report(&problems);
}

/// Goal: each third-party crate can be replaced by editing one place.
#[test]
fn crates_are_named_only_where_they_belong() {
    let mut problems = Vec::new();
    for (name, text) in files().iter().filter(|(name, _)| !is_test(name)) {
        let code = code(text);
        for (krate, places) in CRATES {
            let is_home = places.iter().any(|place| name.starts_with(place));
            if code.contains(&format!("{krate}::")) && !is_home {
                problems.push(format!("{name} names {krate}"));
            }
        }
        let is_home = FILE_SYSTEM.iter().any(|place| name.starts_with(place));
        if code.contains("std::fs") && !is_home {
            problems.push(format!("{name} names std::fs"));
        }
        if names(&code, "unsafe") && name != "storage/map.rs" {
            problems.push(format!("{name} uses unsafe"));
        }
    }
    report(&problems);
}

/// Goal: files stay small enough to be one thing, and plain enough to be read anywhere.
#[test]
fn files_are_small_documented_and_plain() {
    let mut problems = Vec::new();
    for (name, text) in &files() {
        let lines = text.split("\n#[cfg(test)]\n").next().unwrap_or(text).lines().count();
        if lines > FILE_LINES_MAX && !is_test(name) {
            problems.push(format!("{name} has {lines} lines, at most {FILE_LINES_MAX}"));
        }
        if !text.is_ascii() {
            problems.push(format!("{name} has characters that are not ASCII"));
        }
        if !text.starts_with("//!") && !text.starts_with("#!") {
            problems.push(format!("{name} does not open with what it is"));
        }
        let marks = ["TO".to_owned() + "DO", "FIX".to_owned() + "ME", "todo".to_owned() + "!("];
        for mark in marks.iter().filter(|mark| text.contains(mark.as_str())) {
            problems.push(format!("{name} holds a {mark}"));
        }
    }
    report(&problems);
}

/// Goal: the README's program is the example that is built and run.
#[test]
fn the_readme_shows_the_example() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let example = fs::read_to_string(root.join("examples/quickstart.rs")).unwrap();
    let is_shown = |line: &&str| !line.starts_with("#![expect");
    let example: String = example.lines().filter(is_shown).flat_map(|line| [line, "\n"]).collect();
    assert!(readme.contains(&example), "README.md does not hold examples/quickstart.rs as it is");
}
