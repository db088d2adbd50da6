//! Tells native plans in JSON from the files of other tools.

use serde_json::Value;

/// Fields that only native plans have.
const NATIVE_FIELDS: [&str; 4] = ["barriers", "defaults", "caps", "failure"];

/// Fields that only native steps have.
const NATIVE_STEP_FIELDS: [&str; 20] = [
    "command",
    "optional_outputs",
    "after",
    "preconditions",
    "on_false",
    "condition",
    "failure_hints",
    "retry",
    "fallback",
    "side_effects",
    "idempotent",
    "probe",
    "timeout_seconds",
    "estimate_seconds",
    "repeat_limit",
    "lease_seconds",
    "cost_estimate",
    "cost_limit",
    "gate",
    "extra",
];

/// Fields that only steps of other tools have. One of them makes a list of steps foreign, unless
/// another field is native; then the foreign field is a mistake in a native plan.
const FOREIGN_STEP_FIELDS: [&str; 20] = [
    "order",
    "step",
    "step_number",
    "stepNumber",
    "name",
    "description",
    "details",
    "status",
    "files_to_modify",
    "filesToModify",
    "files_to_create",
    "files",
    "validation",
    "test_criteria",
    "testCriteria",
    "acceptance_criteria",
    "acceptanceCriteria",
    "dependencies",
    "depends_on",
    "dependsOn",
];

/// Fields of step records of other tools. A record with one of them is not a native step, even if
/// it also has `preconditions` or `idempotent`.
const RECORD_FIELDS: [&str; 3] = ["success_signal", "retry_policy", "files_to_create"];

/// Whether an invalid JSON value is probably a native plan: it has steps, and they do not belong to
/// another tool.
pub(crate) fn is_native(value: &Value) -> bool {
    value.get("steps").is_some_and(|steps| !has_foreign_steps(value, steps))
}

/// Whether a JSON value without steps has other fields of a native plan. The strict parser then
/// reports the missing steps.
pub(crate) fn resembles_native(value: &Value) -> bool {
    let names = ["title", "goal", "outcome", "context", "phases"];
    names.iter().chain(&NATIVE_FIELDS).any(|name| value.get(name).is_some())
}

fn has_foreign_steps(plan: &Value, steps: &Value) -> bool {
    let steps: Vec<&Value> = steps.as_array().into_iter().flatten().collect();
    let has_any =
        |names: &[&str]| steps.iter().any(|step| names.iter().any(|name| step.get(name).is_some()));
    let is_native =
        NATIVE_FIELDS.iter().any(|name| plan.get(name).is_some()) || has_any(&NATIVE_STEP_FIELDS);
    let is_record = has_any(&RECORD_FIELDS)
        || plan_ledger::mutant!(RecordFieldOutvotesPlan) && has_any(&["failure_class"]);
    is_record || !is_native && has_any(&FOREIGN_STEP_FIELDS)
}
