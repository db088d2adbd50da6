//! Any text as a plan file: an answer, never a panic; a plan that was read has a canonical form
//! that reads as the same plan; and what is written of it in any of our forms reads as it, too,
//! and is written again as it was.
#![cfg_attr(fuzzing, no_main)]

use plan_ledger::Plan;
use plan_ledger::files::{self, ExportFormat, PlanFile};

fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let checked = files::lint_text("fuzz", text, None);
    let Ok(imported) = files::parse("fuzz", text) else {
        assert!(checked.plan_file.is_none() && !checked.diagnostics.is_empty());
        return;
    };
    assert_eq!(checked.plan_file.as_ref(), Some(&imported));
    let canonical = imported.plan.canonical();
    let again: Plan = serde_json_from(&canonical);
    assert_eq!(again, imported.plan);
    assert_eq!(again.canonical(), canonical);
    for form in [ExportFormat::Yaml, ExportFormat::Json, ExportFormat::Markdown] {
        stays(&imported, form);
    }
    for form in [ExportFormat::Dot, ExportFormat::Mermaid] {
        files::render(&imported, form).expect("a picture can be drawn of any plan");
    }
}

/// What is written reads as it was; what a form cannot say, such as deep nesting, is refused.
fn stays(imported: &PlanFile, form: ExportFormat) {
    let Ok(written) = files::render(imported, form) else { return };
    let again = files::parse("written", &written).expect("what is written can be read");
    assert_eq!((&again.plan, &again.done), (&imported.plan, &imported.done));
    assert_eq!(files::render(&again, form).expect("it was written before"), written);
}

fn serde_json_from(text: &str) -> Plan {
    files::parse("canonical", text).expect("the canonical form is a plan file").plan
}

plan_ledger_fuzz::target!(check);
