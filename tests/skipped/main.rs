//! Lists the tests that were skipped because a tool or a file is missing.
//!
//! A test that cannot run here writes its reason to the folder `skipped` of the build, and passes. This
//! target runs after the others, prints these reasons, and removes them. It never fails.

use std::path::Path;

#[expect(clippy::print_stdout, reason = "a skipped test must be visible")]
fn main() {
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
}
