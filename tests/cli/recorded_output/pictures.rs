//! What a person sees in a terminal of 80 and of 160 columns, in the middle of a night: long ids, wide
//! characters, a failed step, a question, a worker that is gone. The views are those of one record, so
//! that their times are fixed.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use plan_ledger::internals::sim::SimDisk;
use plan_ledger::{FailureClass, Ledger, LostCause, Plan, Receipt, RunPolicy};
use plan_ledger_views::width;
use serde_json::json;

use super::{ledgers, session};
use crate::command::{Place, report_skipped};
use crate::lab::dir;

/// The widths of the terminals.
const COLUMNS: [usize; 2] = [80, 160];

/// An id that is wider than a terminal.
const LONG: &str =
    "migrate-the-customer-database-to-the-schema-of-november-with-all-of-its-archive-tables";

/// A night that stops in the middle. Returns the last record.
fn night(folder: &Path) -> u64 {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &ledgers::environment(&disk)).unwrap();
    let plan: Plan = serde_json::from_value(json!({
        "title": "\u{591c}\u{9593}\u{30ea}\u{30ea}\u{30fc}\u{30b9} \u{1f680} of the shop, with a title as long as titles of real plans are",
        "steps": [
            { "id": "survey", "title": "Survey the code" },
            { "id": LONG, "title": "\u{30c7}\u{30fc}\u{30bf}\u{30d9}\u{30fc}\u{30b9}\u{3092}\u{79fb}\u{884c}\u{3059}\u{308b} and check that nothing was lost on the way",
              "after": ["survey"], "retry": { "max_attempts": 1 } },
            { "id": "\u{7ffb}\u{8a33}", "title": "\u{7ffb}\u{8a33}\u{3092}\u{66f4}\u{65b0}\u{3059}\u{308b}", "after": ["survey"] },
            { "id": "flaky", "after": ["survey"], "retry": { "max_attempts": 4 } },
            { "id": "docs", "after": ["\u{7ffb}\u{8a33}"],
              "acceptance": [{ "text": "A newcomer understands the page, and finds each option that the program has" }] },
            { "id": "build", "title": "\u{1f3d7}\u{fe0f} Build everything", "after": ["\u{7ffb}\u{8a33}"] },
            { "id": "deploy", "after": ["build", "flaky"],
              "gate": { "question": "\u{672c}\u{756a}\u{306b}\u{30c7}\u{30d7}\u{30ed}\u{30a4}\u{3057}\u{307e}\u{3059}\u{304b}\u{ff1f} Deploy to production now, with the migration?", "to": "ana" } },
            { "id": "announce", "title": "\u{1f4e3} Announce it", "after": ["deploy", "docs"] },
            { "id": "sign", "gate": { "question": "Is the contract signed, and has everybody who must know it been told?" } },
        ],
    }))
    .unwrap();
    let run = ledger.start_run("nightly", &plan, RunPolicy::default()).unwrap();
    let failed = |class, message: &str| Receipt {
        outcome: plan_ledger::Outcome::Failed {
            class,
            message: message.to_owned(),
            payload: plan_ledger::Json::default(),
        },
        ..Receipt::default()
    };
    let mut flaky = 0;
    while let Some(task) = ledger.dispatch(run, "process/1").unwrap() {
        let receipt = match task.step.id.as_str() {
            LONG => failed(
                FailureClass::Deterministic,
                "the table customers has 11 columns, and 12 were expected: the one of the archive is missing",
            ),
            "flaky" if flaky < 2 => {
                flaky += 1;
                if flaky == 1 {
                    ledger
                        .report_lost(
                            task.token,
                            LostCause::RunnerDied,
                            "\u{1f641} its runner was killed",
                        )
                        .unwrap();
                    continue;
                }
                failed(FailureClass::Transient, "connection reset by peer \u{1f641}")
            }
            "build" => break,
            _ => Receipt::default(),
        };
        ledger.record_receipt(task.token, receipt).unwrap();
    }

    let seq = ledger.head().seq;
    ledger.close().unwrap();
    for (path, bytes) in ledgers::files_on(&disk) {
        let target = folder.join("night").join(path);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::write(target, bytes).unwrap();
    }
    seq
}

/// What a command prints on a terminal of that width; reports that the test was skipped if there is no
/// terminal here.
fn picture(place: &Place, line: &str, columns: usize) -> Option<String> {
    let program = env!("CARGO_BIN_EXE_ledger");
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{program} {line}"), "/dev/null"]);
    command.current_dir(place.path("")).stdin(Stdio::null());
    command.env("COLUMNS", columns.to_string()).env("NO_COLOR", "1").env("PAGER", "cat");
    command.env("XDG_STATE_HOME", place.path("state")).env_remove("LEDGER_DIR");
    let Ok(output) = command.output() else {
        report_skipped("script is not installed");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    if text.is_empty() {
        report_skipped("there is no terminal here");
        return None;
    }
    Some(text)
}

/// The lines that are wider than the terminal, although they could be wrapped.
fn too_wide(text: &str, columns: usize) -> Vec<&str> {
    let is_too_wide = |line: &&str| {
        let longest = line.split(' ').map(width).max().unwrap_or(0);
        let is_command = line.trim_start().starts_with("ledger ");
        width(line) > columns && longest < columns - 30 && !is_command
    };
    text.lines().filter(is_too_wide).collect()
}

/// Goal: status, timeline, graph and the reasons for waiting are legible in both widths.
#[test]
fn views_fit_terminals_of_80_and_160_columns() {
    let place = Place::new();
    let seq = night(&place.path(""));
    let mut transcript = String::new();
    for columns in COLUMNS {
        for view in [
            "status night --view user --run nightly",
            "inspect night timeline nightly",
            "inspect night graph nightly",
            "inspect night why nightly deploy",
            "inspect night why nightly announce",
            "status night --view operator --run nightly",
        ] {
            let line = format!("{view} --at {seq}");
            let Some(text) = picture(&place, &line, columns) else { return };
            assert_eq!(too_wide(&text, columns), Vec::<&str>::new(), "{line}:\n{text}");
            writeln!(transcript, "== {columns} columns: ledger {line}\n\n{text}").unwrap();
        }
    }
    session::assert_recorded("pictures", &session::without_moments(&transcript));
}

/// Goal: what a run prints fits the terminal, the progress display as well.
#[test]
fn run_fits_terminals_of_80_and_160_columns() {
    let plan = format!(
        "title: \u{591c}\u{9593}\u{30ea}\u{30ea}\u{30fc}\u{30b9} \u{1f680}
steps:
  - {{id: {LONG}, command: 'echo \"the table customers has 11 columns, and 12 were expected: the one of the archive is missing\" >&2; exit 65', retry: {{max_attempts: 1}}}}
  - {{id: \u{7ffb}\u{8a33}, command: 'sleep 0.3; echo \u{7ffb}\u{8a33}'}}
  - {{id: deploy, after: [\u{7ffb}\u{8a33}], gate: {{question: '\u{672c}\u{756a}\u{306b}\u{30c7}\u{30d7}\u{30ed}\u{30a4}\u{3057}\u{307e}\u{3059}\u{304b}\u{ff1f} Deploy to production now, with the migration of the archive?'}}, command: 'true'}}
"
    );
    for columns in COLUMNS {
        let place = Place::new();
        place.write("plan.yaml", &plan);
        let Some(text) = picture(&place, "run plan.yaml", columns) else { return };
        // The progress display erases its line before it prints another one.
        let text = text.replace("\u{1b}[2K", "\n");
        // Its first line is filled up with spaces, and the terminal begins the next one.
        let text = text.replace(&" ".repeat(12), "\n");
        assert_eq!(too_wide(&text, columns), Vec::<&str>::new(), "{text}");
        assert!(text.contains("exit status 65"), "{text}");
        let status = picture(&place, "status", columns).unwrap();
        assert_eq!(too_wide(&status, columns), Vec::<&str>::new(), "{status}");
        // The id is too long to type: the command has the number of the step, on one line.
        let retry = "ledger retry plan '#1' ";
        assert!(status.lines().any(|line| line.trim().starts_with(retry)), "{status}");
    }
}
