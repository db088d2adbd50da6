//! Any text as a plan file gives a result, never a panic. The canonical form of a plan reads as the same plan,
//! and so does every native form that is written from it, which is then written unchanged.
#![cfg_attr(fuzzing, no_main)]

use plan_ledger::Plan;
use plan_ledger_files::{self as files, ExportFormat, PlanFile};

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
        imported.render(form).expect("a picture can be drawn of any plan");
    }
}

/// A written form reads as the same plan; a plan that the form cannot express, such as deep nesting, is
/// rejected.
fn stays(imported: &PlanFile, form: ExportFormat) {
    let Ok(written) = imported.render(form) else { return };
    let again = files::parse("written", &written).expect("what is written can be read");
    assert_eq!((&again.plan, &again.done), (&imported.plan, &imported.done));
    assert_eq!(again.render(form).expect("it was written before"), written);
}

fn serde_json_from(text: &str) -> Plan {
    files::parse("canonical", text).expect("the canonical form is a plan file").plan
}

plan_ledger_fuzz::target!(check);
