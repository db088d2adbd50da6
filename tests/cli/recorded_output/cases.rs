//! The results of case scripts that are kept outside of the repository: exit codes and last lines.
//!
//! `PLAN_LEDGER_CASES` names their folder; without it, it is `shared/cases` beside the checkout.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use regex::Regex;

use super::session;
use crate::command::report_skipped;

fn folder() -> PathBuf {
    let beside = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("../shared/cases");
    std::env::var_os("PLAN_LEDGER_CASES").map_or(beside, PathBuf::from)
}

/// The exit code of a script and the last line that it printed.
fn result(script: &Path) -> String {
    let mut command = Command::new("bash");
    command.arg(script).env("LEDGER", env!("CARGO_BIN_EXE_ledger"));
    for name in ["LEDGER_DIR", "LEDGER_RUN", "LEDGER_TOKEN", "LEDGER_STEP", "LEDGER_WORKER"] {
        command.env_remove(name);
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    let code = output.status.code().map_or("a signal".to_owned(), |code| code.to_string());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let folders = Regex::new(r"/[\w./-]*/tmp\.\w+|/tmp/[\w.-]+").unwrap();
    let last = session::without_moments(&folders.replace_all(last, "[FOLDER]"));
    format!("exit code {code}; {last}")
}

/// Goal: each case ends as it was recorded.
#[test]
fn cases_end_as_recorded() {
    let Ok(entries) = fs::read_dir(folder()) else {
        return report_skipped("there is no folder of cases: set PLAN_LEDGER_CASES");
    };
    let scripts = entries.map(|entry| entry.unwrap().path());
    let mut scripts: Vec<PathBuf> =
        scripts.filter(|path| path.extension().is_some_and(|end| end == "sh")).collect();
    scripts.sort();
    let half = scripts.len().div_ceil(2);
    let results: Vec<String> = std::thread::scope(|scope| {
        let run =
            |part: &'_ [PathBuf]| part.iter().map(|script| result(script)).collect::<Vec<_>>();
        let (first, second) = scripts.split_at(half);
        let first = scope.spawn(move || run(first));
        let second = run(second);
        first.join().unwrap().into_iter().chain(second).collect()
    });
    let mut text = String::new();
    for (script, result) in scripts.iter().zip(results) {
        let name = script.file_stem().unwrap().to_string_lossy();
        writeln!(text, "{name}: {result}").unwrap();
    }
    session::assert_recorded("cases", &text);
}
