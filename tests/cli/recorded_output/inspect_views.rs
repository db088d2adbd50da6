//! `ledger inspect`: each view over each fixed ledger, as text and as JSON, and its wrong input.

use super::ledgers::NAMES;
use super::session::Session;

/// The run and the step that a view shows, by ledger.
const SHOWN: [(&str, &str, &str); NAMES.len()] = [
    ("complete", "release", "build-12"),
    ("killed", "release", "#37"),
    ("damaged", "release", "build-12"),
    ("pruned", "release", "build-12"),
    ("waiting", "attention", "gated"),
    ("random", "#2", "#1"),
];

/// A view: lines for each ledger, lines for the complete one alone, and wrong input.
///
/// `RUN` and `STEP` are replaced. Each line of the first two also runs with `--json`.
struct View {
    name: &'static str,
    everywhere: &'static [&'static str],
    complete: &'static [&'static str],
    wrong: &'static [&'static str],
}

const VIEWS: [View; 19] = [
    View {
        name: "summary",
        everywhere: &[""],
        complete: &[],
        wrong: &["summary extra", "nonsense", "--at 5 summary", "at 20", "view user RUN", "map"],
    },
    View {
        name: "records",
        everywhere: &["records", "records --run RUN --limit 3"],
        complete: &[
            "records --from 20 --to 24",
            "records --reverse --limit 3",
            "records --kind dispatched --kind attempt_lost --limit 4",
            "records --run RUN --step STEP",
            "records --since 2023-11-14T22:13:30Z --until '2023-11-14 22:13:33'",
        ],
        wrong: &[
            "records --kind nonsense",
            "records --from 0",
            "records --from 99999",
            "records --step x",
            "records --run nonsense",
            "records --since nonsense",
            "records --follow --reverse",
            "records --limit 0",
        ],
    },
    View {
        name: "record",
        everywhere: &["records 9", "records 40"],
        complete: &["records 1 --hex", "records 30"],
        wrong: &["records 0", "records 99999", "records nonsense", "records --hex", "record 9"],
    },
    View { name: "segments", everywhere: &["segments"], complete: &[], wrong: &["segments 1"] },
    View { name: "head", everywhere: &["head"], complete: &[], wrong: &["head 1"] },
    View { name: "snapshots", everywhere: &["snapshots"], complete: &[], wrong: &["snapshots 1"] },
    View {
        name: "explain",
        everywhere: &["explain", "explain 4096", "explain 9000 --segment 0"],
        complete: &["explain --segment 0", "explain 0", "explain 20000"],
        wrong: &[
            "explain --segment 99",
            "explain --segment x",
            "explain 99999999",
            "explain 0 --segment 99",
            "explain x",
        ],
    },
    View {
        name: "step",
        everywhere: &["step RUN STEP", "step RUN '#3' --full"],
        complete: &[
            "step RUN publish-34 --at 60",
            "step RUN check-22",
            "step RUN build-20",
            "step RUN check-25 --full",
        ],
        wrong: &[
            "step",
            "step RUN nonsense",
            "step nonsense 1",
            "step RUN '#999'",
            "step RUN 3 --at 0",
        ],
    },
    View {
        name: "runs",
        everywhere: &["runs", "runs RUN --at 50"],
        complete: &["runs --at 50", "runs RUN", "runs RUN --at 20"],
        wrong: &["runs nonsense", "runs --at 99999", "runs --at 0", "barriers RUN"],
    },
    View {
        name: "plan",
        everywhere: &["plan RUN"],
        complete: &["plan RUN --version 1", "plan RUN --diff 1 2", "plan RUN --at 20"],
        wrong: &[
            "plan nonsense",
            "plan RUN --version 9",
            "plan RUN --diff 1",
            "plan RUN --diff 1 9",
        ],
    },
    View {
        name: "queue",
        everywhere: &["queue", "queue RUN"],
        complete: &["queue RUN --at 20"],
        wrong: &["queue nonsense", "queue --at 99999"],
    },
    View {
        name: "variables",
        everywhere: &["variables RUN"],
        complete: &["variables RUN --history score", "variables RUN --at 10"],
        wrong: &["variables nonsense", "variables RUN --history nonsense"],
    },
    View {
        name: "cost",
        everywhere: &["cost", "cost RUN"],
        complete: &["cost RUN --at 40"],
        wrong: &["cost nonsense"],
    },
    View {
        name: "metrics",
        everywhere: &["metrics RUN"],
        complete: &["metrics"],
        wrong: &["metrics nonsense", "metrics --at 3"],
    },
    View {
        name: "diff",
        everywhere: &["diff 40 44"],
        complete: &["diff release what-if", "diff '#1' '#2'"],
        wrong: &["diff", "diff 1", "diff 1 99999", "diff release nonsense", "diff 9 3"],
    },
    View {
        name: "why",
        everywhere: &["why RUN STEP", "why RUN '#2'"],
        complete: &["why RUN publish-40 --at 40"],
        wrong: &["why", "why RUN nonsense", "why nonsense 1"],
    },
    View {
        name: "timeline",
        everywhere: &["timeline RUN"],
        complete: &["timeline RUN --at 40"],
        wrong: &["timeline nonsense"],
    },
    View {
        name: "graph",
        everywhere: &["graph RUN"],
        complete: &["graph RUN --format dot", "graph RUN --format mermaid", "graph RUN --at 20"],
        wrong: &["graph nonsense", "graph RUN --format nonsense"],
    },
    View {
        name: "progress",
        everywhere: &["progress RUN"],
        complete: &["progress RUN --at 60"],
        wrong: &["progress nonsense", "progress --at 0"],
    },
];

/// A line of a view for one ledger.
fn line_of(pattern: &str, (ledger, run, step): (&str, &str, &str)) -> String {
    let quoted =
        |name: &str| if name.starts_with('#') { format!("'{name}'") } else { name.to_owned() };
    let pattern = pattern.replace("RUN", &quoted(run)).replace("STEP", &quoted(step));
    format!("inspect {ledger} {pattern}").trim_end().to_owned()
}

fn record_views(views: &[View]) {
    for view in views {
        let mut session = Session::reading(&NAMES);
        session.write("a-file", "no ledger\n");
        for shown in SHOWN {
            let more = if shown.0 == "complete" { view.complete } else { &[] };
            for pattern in view.everywhere.iter().chain(more) {
                let line = line_of(pattern, shown);
                session.run(&line);
                session.run(&format!("{line} --json"));
            }
        }
        for pattern in view.wrong {
            session.run(&line_of(pattern, SHOWN[0]));
        }
        let first = view.everywhere.last().or(view.complete.first()).unwrap();
        for folder in ["missing", "a-file"] {
            session.run(&line_of(first, (folder, "release", "build-12")));
            session.run(&(line_of(first, (folder, "release", "build-12")) + " --json"));
        }
        session.assert_recorded(&format!("inspect-{}", view.name));
    }
}

/// Goal: views of the log print what was recorded.
#[test]
fn views_of_the_log() {
    record_views(&VIEWS[..6]);
}

/// Goal: views that read every byte print what was recorded.
#[test]
fn views_of_all_bytes() {
    record_views(&VIEWS[6..7]);
}

/// Goal: views of runs print what was recorded.
#[test]
fn views_of_runs() {
    record_views(&VIEWS[7..13]);
}

/// Goal: views of the past and pictures print what was recorded.
#[test]
fn views_of_the_past() {
    record_views(&VIEWS[13..]);
}

/// Goal: what `-o` writes is the same in every format that is text, and the folder is found in
/// each way that there is to name it.
#[test]
fn exports_to_files_and_names_of_folders() {
    let mut session = Session::reading(&["complete", "damaged"]);
    session.run_all(&[
        "export complete -o out.jsonl",
        "export complete -o out.jsonl",
        "export complete --format otlp",
        "export complete --format sqlite -o out.sqlite",
        "export complete --format otlp -o out.json",
        "export damaged --format jsonl",
        "export complete --format nonsense",
        "export complete --format sqlite",
        "export complete --format otlp --from 3",
        "export complete --format otlp -o missing/file",
        "inspect complete export --format otlp",
        "inspect --ledger complete head",
        "inspect complete --ledger damaged head",
        "LEDGER_DIR=complete inspect head",
        "LEDGER_DIR= inspect head",
        "inspect head",
    ]);
    for file in ["out.jsonl", "out.json"] {
        session.file_digest(file);
    }
    session.assert_recorded("inspect-folders");
}
