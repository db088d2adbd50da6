//! Tells native plans from the files of other tools.

use crate::draft::NATIVE_FIELDS;
use crate::syntax::Node;

/// Fields that only native plans have.
const PLAN_FIELDS: [&str; 4] = ["barriers", "defaults", "caps", "failure"];

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

/// Whether an invalid tree is probably a native plan: it has steps, and they do not belong to
/// another tool.
pub(crate) fn is_native(tree: &Node) -> bool {
    tree.field("steps").is_some_and(|steps| !has_foreign_steps(tree, steps))
}

/// Whether a tree without steps has other fields of a native plan. The strict parser then
/// reports the missing steps.
pub(crate) fn resembles_native(tree: &Node) -> bool {
    let names = ["title", "goal", "outcome", "context", "phases"];
    names.iter().chain(&PLAN_FIELDS).any(|name| tree.field(name).is_some())
}

fn has_foreign_steps(plan: &Node, steps: &Node) -> bool {
    let has_any = |names: &[&str]| {
        let fields = steps.items().iter().flat_map(Node::fields);
        fields.into_iter().any(|field| names.contains(&field.name.as_str()))
    };
    let of_steps: Vec<&str> = NATIVE_FIELDS.iter().map(|(name, _)| *name).collect();
    let is_native = PLAN_FIELDS.iter().any(|name| plan.field(name).is_some()) || has_any(&of_steps);
    let is_record = has_any(&RECORD_FIELDS)
        || plan_ledger::mutant!(RecordFieldOutvotesPlan) && has_any(&["failure_class"]);
    is_record || !is_native && has_any(&FOREIGN_STEP_FIELDS)
}
