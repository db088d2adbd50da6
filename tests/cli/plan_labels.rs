//! Goal: a label of a Markdown plan that is a check, a command, a gate, a probe, a budget, a cap, a rule or a limit is
//! read, or refused with its line and the form to write, wherever it stands; prose stays prose.

use plan_ledger::plan::Criterion;
use plan_ledger_files::{self as files, LintReport, Programs, ReadOptions, Severity, lint_text};

/// A Markdown plan with a text before the tasks, beside them, and in a chapter of its own.
fn plan(head: &str, beside: &str, chapter: &str) -> String {
    format!(
        "# Plan\n\n{head}\n\n## Tasks\n\n{beside}\n\n- [ ] Do it\n- [ ] Then this\n\n## Design\n\n{chapter}\n"
    )
}

/// The line of the only finding about labels that is as severe.
fn line_of(report: &LintReport, severity: Severity, form: &str) -> Option<u64> {
    let mut found = report.diagnostics.iter().filter(|each| each.severity == severity);
    let first = found.find(|each| each.message.contains(form));
    first.and_then(|each| each.line)
}

#[test]
fn label_of_a_check_around_markdown_tasks_is_refused_with_its_line() {
    for (label, form) in [
        ("Test command: cargo test", "`test_criteria: [{command: make test}]`"),
        ("**Test command:** `cargo test`", "`test_criteria: [{command: make test}]`"),
        ("- Verification command: make check", "`test_criteria: [{command: make test}]`"),
        ("Verify: cargo test", "`test_criteria: [{command: make test}]`"),
        ("Checks: `pytest -q`", "`test_criteria: [{command: make test}]`"),
        ("Command: make all", "`defaults: {command"),
        ("Budget: $5", "`budget: {attempts"),
        ("- **Budget**: 100k tokens", "`budget: {attempts"),
        ("Gate: ask Bob", "`gate: {question"),
        ("Approval required: yes", "`gate: {question"),
        ("Probe: test -e done", "`probe`"),
        ("Time limit: 30 min", "`defaults: {timeout_seconds"),
        ("Timeout: 30m", "`defaults: {timeout_seconds"),
        ("Max attempts: 3", "`defaults: {retry"),
        ("Max parallel: 2", "`caps: {run"),
    ] {
        for (text, line) in [(plan(label, "", ""), 3), (plan("", label, ""), 7)] {
            let report = lint_text("plan.md", &text, None);
            assert!(report.plan_file.is_none(), "{text}");
            assert_eq!(line_of(&report, Severity::Problem, form), Some(line), "{text}");
        }
    }
    // The same labels in a task have the form of a task.
    let text = "# Plan\n\n- [ ] Do it\n  - Command: cargo test\n- [ ] Then this\n";
    let report = lint_text("plan.md", text, None);
    assert_eq!(line_of(&report, Severity::Problem, "`command"), Some(4));
}

/// The commands that check a task are its criteria, and executed as those of a list of validations are.
#[test]
fn check_commands_of_a_task_are_its_criteria() {
    for label in [
        "**Verification Commands**:\n  - `cargo test`\n  - cargo doc",
        "Verification Commands:\n  - cargo test\n  - cargo doc",
        "- Test commands:\n    - `cargo test`\n    - `cargo doc`",
    ] {
        let text = format!("# Plan\n\n- [ ] Do it\n  {label}\n- [ ] Then this\n");
        let options =
            ReadOptions { programs: Some(Programs::of_process()), ..ReadOptions::default() };
        let file = options.parse("plan.md", &text).unwrap();
        let command = |text: &str| Criterion::Command(text.to_owned());
        assert_eq!(
            file.plan.steps[0].acceptance,
            [command("cargo test"), command("cargo doc")],
            "{text}"
        );
        assert_eq!(file.commands.len(), 2, "they are approved first");
        let heading = format!(
            "# Plan\n\n## Step 1: Do it\n\n{}\n\n## Step 2: Then this\n",
            label.replace("\n  ", "\n")
        );
        let file = options.parse("plan.md", &heading).unwrap();
        assert_eq!(file.plan.steps[0].acceptance.len(), 2, "{heading}");
    }
}

/// A gate that checks pass is a criterion of its task; one that a person decides is refused.
#[test]
fn gate_of_checks_is_a_criterion() {
    let task = |gate: &str| format!("# Plan\n\n- [ ] Do it\n  - {gate}\n- [ ] Then this\n");
    for gate in ["Gate: all tests pass", "**Gate**: CI is green", "Quality gate: `true` passes"] {
        let file = files::parse("plan.md", &task(gate)).unwrap();
        let text = gate.split_once(": ").unwrap().1.to_owned();
        assert_eq!(file.plan.steps[0].acceptance, [Criterion::Text(text)], "{gate}");
        for text in [plan(gate, "", ""), plan("", gate, "")] {
            let report = lint_text("plan.md", &text, None);
            assert!(line_of(&report, Severity::Warning, "gate: {question").is_some(), "{text}");
        }
    }
    for gate in [
        "Gate: all tests pass, then ask Bob",
        "Gate: review passes",
        "Gate: may it pass?",
        "Gate: Bob",
    ] {
        let report = lint_text("plan.md", &task(gate), None);
        assert_eq!(line_of(&report, Severity::Problem, "gate: {question"), Some(4), "{gate}");
    }
}

/// In a chapter about something else such a label may be about the product; a gate never is.
#[test]
fn label_in_a_chapter_of_its_own_is_a_warning_with_its_line() {
    for (label, form) in [
        ("Rate limit: 100 requests per minute", "caps: {run"),
        ("- **Budget**: $0, open source only", "budget: {attempts"),
        ("Test command: cargo test", "test_criteria"),
    ] {
        let text = plan("", "", label);
        files::parse("plan.md", &text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let report = lint_text("plan.md", &text, None);
        assert_eq!(line_of(&report, Severity::Warning, form), Some(14), "{text}");
    }
    let report = lint_text("plan.md", &plan("", "", "Gate: ask Bob"), None);
    assert_eq!(line_of(&report, Severity::Problem, "gate: {question"), Some(14));
    // What is done after a failure may be meant for the worker.
    for text in [plan("On failure: call Bob", "", ""), plan("", "", "On failure: call Bob")] {
        files::parse("plan.md", &text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let report = lint_text("plan.md", &text, None);
        assert!(line_of(&report, Severity::Warning, "failure: {rules").is_some(), "{text}");
    }
}

#[test]
fn prose_that_looks_like_a_label_is_prose() {
    for prose in [
        "Budget: to be discussed",
        "Budget per request: 5 ms",
        "The budget: $5",
        "Gate: none",
        "Approval: approved",
        "Tests: we write them first",
        "Run: `make`",
        "Note: the gate is open at 9:00",
        "> Budget: $5",
        "<!-- Budget: $5 -->",
        "<!--\nBudget: $5\n-->",
        "```\nBudget: $5\n```",
        "| Budget: | $5 |",
        "Done when: all of it works\n\nBudget matters.",
        "**Success criteria:**\n\n- Limit: 5 requests are answered",
    ] {
        for text in [plan(prose, "", ""), plan("", "", prose)] {
            files::parse("plan.md", &text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let report = lint_text("plan.md", &text, None);
            assert_eq!(
                line_of(&report, Severity::Warning, "in a native plan, write"),
                None,
                "{text}"
            );
        }
    }
    for chapter in ["Risks", "Open questions", "Success criteria"] {
        let text =
            format!("# Plan\n\n- [ ] a\n- [ ] b\n\n## {chapter}\n\n- Budget: $5 is little\n");
        files::parse("plan.md", &text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn criteria_before_the_first_chapter_are_those_of_the_plan() {
    for (head, expected) in [
        ("Done when: every page loads", &["every page loads"][..]),
        (
            "**Success criteria:**\n\n- it is fast\n- it is small\n\nMore.",
            &["it is fast", "it is small"],
        ),
        ("Definition of done: reviewed\nTests: we write them first", &["reviewed"]),
        ("Nothing of that.", &[]),
    ] {
        let read = files::parse("plan.md", &plan(head, "", "")).unwrap().plan;
        let expected: Vec<_> =
            expected.iter().map(|text| Criterion::Text((*text).into())).collect();
        assert_eq!(read.test_criteria, expected, "{head}");
        assert_eq!(read.steps.len(), 2);
        assert!(read.context.contains(head.lines().next().unwrap()), "{}", read.context);
    }
}

/// A phase of a PLAN artifact: the labels that its later tasks have are read, and what is written reads back.
#[test]
fn labels_of_the_later_tasks_of_a_phase_are_read() {
    let text = "# PLAN: Night\n\n## Phases\n1. **Phase 1: Work**\n   - [ ] `a`: x\n     - retry: 1 attempts\n   \
                - [ ] `b`: y\n     - retry: 3 attempts\n";
    let plan_file = files::parse("plan.md", text).unwrap();
    let attempts: Vec<u32> =
        plan_file.plan.steps.iter().map(|step| step.retry.as_ref().unwrap().max_attempts).collect();
    assert_eq!(attempts, [1, 3]);
    let again = plan_file.render(files::ExportFormat::Artifact).unwrap();
    assert!(again.contains("retry: 3 attempts"), "{again}");
    // A label that is refused is reported once, with its line.
    let text = text.replace("retry: 3 attempts", "gate: ask Bob");
    let report = lint_text("plan.md", &text, None);
    let refused = |it: &&files::Diagnostic| it.severity == Severity::Problem;
    assert_eq!(report.diagnostics.iter().filter(refused).count(), 1, "{report:?}");
    assert_eq!(line_of(&report, Severity::Problem, "gate: {question"), Some(8));
}
