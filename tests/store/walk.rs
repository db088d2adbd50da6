//! The walk-through of the documentation, as it is printed, with a folder as the store.

use std::process::{Command, Stdio};

/// The code blocks that this test runs.
const MARK: &str = "```sh no-test: tests/store runs it\n";

/// Goal: the commands of the walk-through do what it says.
#[test]
fn walk_through_of_the_documentation_works() {
    let page = include_str!("../../docs/src/reach.md");
    let blocks: Vec<&str> =
        page.split(MARK).skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 7);
    let place = tempfile::tempdir().unwrap();
    let script = blocks.concat().replace("/srv/", &format!("{}/srv/", place.path().display()));
    // Whatever happens, its servers end with it.
    let script = format!("set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}");
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_ledger")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(place.path())
        .env_remove("LEDGER_DIR")
        .env("PATH", path)
        .env("XDG_STATE_HOME", place.path().join("state"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert_eq!(out.matches("every one checked").count(), 2, "{out}");
}
