//! Lists the tests that were skipped because a tool or a file is missing.
//!
//! A test that cannot run here writes its reason to the folder `skipped` of the build, and passes. This
//! target runs after the others, prints these reasons, and removes them. It fails only with
//! `PLAN_LEDGER_TOOLS=required`, as CI sets it, if a program is not installed.

use std::path::Path;
use std::process::ExitCode;

#[expect(clippy::print_stdout, reason = "a skipped test must be visible")]
fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("skipped");
    let reports = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut lines: Vec<String> = reports
        .map(|report| {
            let test = report.file_name().to_string_lossy().replace('.', "::");
            let reason = std::fs::read_to_string(report.path()).unwrap_or_default();
            format!("  {test}: {reason}")
        })
        .collect();
    lines.sort();
    match lines.len() {
        0 => println!("\nno test was skipped\n"),
        count => println!("\nskipped in {count} tests:\n{}\n", lines.join("\n")),
    }
    drop(std::fs::remove_dir_all(&folder));
    let required = std::env::var_os("PLAN_LEDGER_TOOLS").is_some_and(|it| it == "required");
    if required && lines.iter().any(|line| line.contains("is not installed")) {
        println!(
            "error: install or update the programs that are missing, or unset PLAN_LEDGER_TOOLS\n"
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
