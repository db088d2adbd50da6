//! What texts about plans and their execution ask for, and the tests that show it. A row names a demand
//! and the start of the names of its tests in this folder.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;

use crate::command::{PROGRAM, Place};

/// Each demand, with the start of the names of its tests.
const ROWS: [(&str, &str, &[&str]); 24] = [
    ("S4", "caps, and what really holds", &["s4_"]),
    ("S8", "a worker cannot change what is on record", &["s8_"]),
    ("S9", "a rehearsal with canned outputs, killed and resumed", &["s9_"]),
    ("S10", "a hundred agents with a slice each", &["s10_"]),
    ("S12", "an executor gets one step, and what was done before it", &["s12_"]),
    ("S14", "only the failed step is done again", &["s14_"]),
    ("S15", "an executor asks for another plan", &["s15_"]),
    ("S17", "the execution state", &["s17_"]),
    ("S18", "failures are classified", &["s18_"]),
    ("S19", "scoped replans: the coding agent", &["s19_"]),
    ("S20", "planner, tracker and policy are separate", &["s20_"]),
    ("S21", "three views of one state", &["s17_s21_"]),
    ("S22", "signals of a healthy manager", &["s22_"]),
    ("S23", "people decide: the loan", &["s23_"]),
    ("S24", "budgets of money and time", &["s24_"]),
    ("S25", "a hundred workflows", &["s25_"]),
    ("S27", "a plan is reviewed, and validated", &["s27_"]),
    ("S28", "plans go stale, and survive the session", &["s28_"]),
    ("S29", "the PLAN artifact", &["s29_"]),
    ("N6", "what a change of the plan invalidates", &["n6_", "s27_review_shows"]),
    ("N9", "files of every form are read", &["n9_", "flawed_files_of_every_form"]),
    ("N11", "every crash of a run", &["n11_", "s9_loan"]),
    ("part 1", "a run gets its inputs", &["s2_run_gets_its_inputs"]),
    ("part 11", "every form reads back", &["s28_every_form_reads_back", "s29_plan_artifact_is"]),
];

#[test]
fn every_row_has_tests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/mission");
    let mut tests = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        tests.push_str(&std::fs::read_to_string(entry.unwrap().path()).unwrap());
    }
    for (row, what, starts) in ROWS {
        for start in starts {
            assert!(tests.contains(&format!("fn {start}")), "{row} ({what}): no test {start}...");
        }
    }
}

/// From inside an attempt, the commands of people and operators are refused, and nothing is recorded.
#[test]
fn s8_worker_cannot_change_what_is_on_record() {
    let place = Place::new();
    let acts = [
        "accept two --by ana",
        "skip two --by ana",
        "retry two",
        "budget --attempts 99",
        "pause",
        "cancel",
        "cap --run p 9",
        "set ledger.files 1",
        "plan reject p --by ana",
    ];
    let mut plan = "steps:\n  - id: one\n    command: |\n".to_owned();
    for act in acts {
        let _ = writeln!(plan, "      {PROGRAM} {act} && echo \"{act}\" >> done.txt");
    }
    plan.push_str("      true\n  - {id: two, after: [one], command: 'true'}\n");
    place.write("p.yaml", plan);
    place.ledger("run p.yaml").code(0);
    assert_eq!(place.read("done.txt"), "");
    let records = place.ledger("inspect .ledger records --json");
    assert!(!records.out.contains("\"ana\""), "{}", records.out);
    let lines = records.lines();
    let kinds: BTreeSet<&str> = lines.iter().filter_map(|line| line["kind"].as_str()).collect();
    for kind in
        ["skipped", "reopened", "budget_changed", "run_paused", "cap_changed", "variable_set"]
    {
        assert!(!kinds.contains(kind), "{kind}: {kinds:?}");
    }
    assert!(kinds.contains("accepted"), "{kinds:?}");
}

/// The last of a hundred slices gets the results that it names, and no more; the cap holds; the linter
/// says once what is true of all steps.
#[test]
fn s10_hundred_agents_do_a_slice_each() {
    let place = Place::new();
    let mut plan = "caps: {run: 20}\nsteps:\n".to_owned();
    for number in 0..100 {
        let _ = writeln!(plan, "  - {{id: s{number}, outputs: [r{number}], tags: [slice]}}");
    }
    plan.push_str("  - {id: last, after: [all], inputs: [r0, r99], command: cat > last.json}\n");
    let members: Vec<String> = (0..100).map(|number| format!("s{number}")).collect();
    let _ = writeln!(plan, "barriers: [{{id: all, members: [{}]}}]", members.join(", "));
    place.write("p.yaml", plan);
    let lint = place.ledger("plan lint p.yaml").code(0);
    assert!(lint.out.lines().count() < 12, "{}", lint.out);
    place.write(
        "slice.sh",
        "cat > /dev/null; mkdir -p at; touch at/$LEDGER_STEP; sleep 0.2; ls at | wc -l >> counts; \
         echo \"{\\\"r${LEDGER_STEP#s}\\\": ${LEDGER_STEP#s}}\"; rm at/$LEDGER_STEP\n",
    );
    place.ledger_with(&["run", "p.yaml", "--worker", "sh slice.sh"]).code(0);
    let task: serde_json::Value = serde_json::from_str(&place.read("last.json")).unwrap();
    assert_eq!(task["inputs"], json!({"r0": 0, "r99": 99}));
    let counts = place.read("counts");
    let most = counts.lines().map(|line| line.trim().parse::<u32>().unwrap()).max().unwrap();
    assert!((2..=20).contains(&most), "{most}");
    assert_eq!(counts.lines().count(), 100);
}

/// A changed step and what follows from it are done again, the rest is kept; this is said before the
/// version counts.
#[test]
fn n6_what_is_done_again_is_said_before_and_is_what_is_done() {
    let place = Place::new();
    let plan = |goal: &str| {
        format!(
            "failure: {{max_replans: 1}}\nsteps:\n  - {{id: a, command: 'echo a >> $TALLY'}}\n  - {{id: b, goal: {goal}, \
             after: [a], command: 'echo b >> $TALLY'}}\n  - {{id: c, after: [b], command: 'echo c >> $TALLY'}}\n  \
             - {{id: side, command: 'echo side >> $TALLY'}}\n  - {{id: end, after: [c, side], gate: {{question: 'Go on?'}}, \
             command: 'echo end >> $TALLY'}}\n"
        )
    };
    place.write("p.yaml", plan("first"));
    place.ledger("init").code(0);
    place.ledger("plan propose p.yaml --run p --approval required").code(0);
    place.ledger("plan approve p --by ana").code(0);
    place.ledger("run p.yaml").code(3);
    place.write("p.yaml", plan("better"));
    // A file says it before it is proposed.
    let what = "work that is discarded or done again: b, c";
    place.ledger("plan diff p.yaml p").code(0).says(&["1 step changed: b (goal)", what]);
    let line = place.ledger("plan diff p.yaml p --json").lines().remove(0);
    assert_eq!(line["redone"], json!(["b", "c"]));
    place.write("same.yaml", plan("first"));
    let same = place.ledger("plan diff same.yaml p").code(0);
    assert!(!same.out.contains("done again"), "{}", same.out);
    let files = place.ledger("plan diff same.yaml p.yaml --json").lines().remove(0);
    assert!(files["redone"].is_null(), "{files}");
    place.ledger("plan propose p.yaml --run p").code(0);
    place.ledger("plan review p").code(3).says(&["work that is discarded or done again: b, c"]);
    let line = place.ledger("plan review p --json").lines().remove(0);
    assert_eq!(line["redone"], json!(["b", "c"]));
    place.ledger("plan approve p --by ana").code(0);
    place.ledger("run p.yaml").code(3);
    let mut tally = place.tally();
    tally.sort();
    assert_eq!(tally, ["a", "b", "b", "c", "c", "side"]);
}

/// A rehearsal that crashes everywhere raises no false alarm for typed criteria, and a plan that waits at
/// once is no success.
#[test]
fn n11_drill_of_every_crash_takes_typed_criteria_and_is_never_vacuous() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "steps:\n  - {id: a, outputs: [score], acceptance: [{cel: 'output.score >= 300 && output.score <= 850'}], \
         retry: {max_attempts: 3}}\n  - {id: b, after: [a], inputs: [score], acceptance: [it is good]}\n",
    );
    for agents in ["steady", "flaky"] {
        let ended = place.ledger(&format!("drill p.yaml --every-crash --agents {agents}")).code(0);
        ended.says(&["2 steps", "all checks hold"]);
    }
    place.write("waits.yaml", "steps: [{id: a, preconditions: ['x == 1']}]\n");
    place.ledger("drill waits.yaml --every-crash").code(1).says(&["no step was executed"]);
}

/// A canned output that a criterion rejects fails the drill; it is not asked for without end.
#[test]
fn s9_rejected_canned_output_ends_the_drill() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "steps:\n  - {id: a, outputs: [score], acceptance: [{cel: 'output.score >= 300'}], retry: {max_attempts: 2}, \
         extra: {stub: {score: 72}}}\n",
    );
    let drill = "drill p.yaml";
    for more in ["", " --every-crash"] {
        let ended = place.ledger(&format!("{drill}{more}"));
        assert_ne!(ended.status.code(), Some(0), "{more}: {ended:#?}");
    }
    // An answer that is rejected is followed by the next option; after the last one, the question stays open.
    place.write(
        "p.yaml",
        "steps:\n  - {id: a, outputs: [score], gate: {question: Score?, options: ['100', '400']}, acceptance: \
         [{cel: 'output.score == \"400\"'}]}\n  - {id: b, after: [a]}\n",
    );
    place.ledger("drill p.yaml --every-crash").code(0).says(&["all checks hold"]);
    place.write(
        "p.yaml",
        "steps:\n  - {id: b}\n  - {id: a, outputs: [score], gate: {question: Score?, options: [value]}, acceptance: \
         [{cel: 'output.score >= 300'}], extra: {stub: {score: 72}}}\n",
    );
    let ended = place.ledger(&format!("{drill} --every-crash"));
    assert_ne!(ended.status.code(), Some(0), "{ended:#?}");
}
