//! Any text as a plan file: an answer, never a panic; and a plan that was read has a canonical
//! form that reads as the same plan.
#![cfg_attr(fuzzing, no_main)]

use plan_ledger::Plan;
use plan_ledger::import;

fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(imported) = import::parse("fuzz", text) else { return };
    let canonical = imported.plan.canonical();
    let again: Plan = serde_json_from(&canonical);
    assert_eq!(again, imported.plan);
    assert_eq!(again.canonical(), canonical);
}

fn serde_json_from(text: &str) -> Plan {
    import::parse("canonical", text).expect("the canonical form is a plan file").plan
}

plan_ledger_fuzz::target!(check);
