//! The nine tools: for each its role, its description, its arguments, and the function that executes
//! it.
//!
//! The schemas of the arguments are those of the published list, which a test generates from the types.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::requests::Role;

#[cfg(test)]
use super::arguments::flat_schema;
use super::arguments::{
    AnswerArguments, ClaimArguments, ControlArguments, HeartbeatArguments, PlanArguments,
    ReleaseArguments, ReportArguments, ShowArguments, StatusArguments, arguments_of, schema_of,
};
use super::call::{ToolCall, ToolOutcome};
use super::{control, read, work};

pub(super) struct LedgerTool {
    pub(super) name: &'static str,
    /// The roles that may call it. Each role includes those before it.
    pub(super) role: Role,
    pub(super) description: &'static str,
    pub(super) effect: ToolEffect,
    /// Generates the schema of its arguments.
    #[cfg(test)]
    pub(super) generate: fn() -> Map<String, Value>,
    pub(super) execute: fn(&ToolCall<'_>, Map<String, Value>) -> ToolOutcome,
}

impl LedgerTool {
    /// The schema of its arguments.
    pub(super) fn schema(&self) -> Arc<Map<String, Value>> {
        schema_of(self.name)
    }
}

/// The effect of a tool, for hosts that ask before they call one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolEffect {
    /// Nothing.
    Reads,
    /// Something new each time.
    Adds,
    /// Repeated calls have no further effect.
    AddsOnce,
    /// It may end or replace something.
    Replaces,
}

macro_rules! tools {
    ($($name:literal $role:ident $effect:ident $arguments:ty => $execute:path: $description:literal;)*) => {
        /// The tools, in the order of the list.
        pub(super) static TOOLS: &[LedgerTool] = &[$(
            LedgerTool {
                name: $name,
                role: Role::$role,
                description: $description,
                effect: ToolEffect::$effect,
                #[cfg(test)]
                generate: flat_schema::<$arguments>,
                execute: |call, arguments| $execute(call, arguments_of::<$arguments>($name, arguments)?),
            },
        )*];
    };
}

tools! {
    "ledger_claim" Worker Adds ClaimArguments => work::claim:
        "Claim the next ready step of the plan, or the named one. Exactly one worker gets it. The answer \
         has the token, goal, acceptance criteria, inputs and earlier failures. Without a ready step it \
         says why and when to try again.";
    "ledger_report" Worker AddsOnce ReportArguments => work::report:
        "Report the end of a claimed step. `succeeded` does not make it done: the ledger accepts it when \
         its criteria have passed; the answer has the status.";
    "ledger_heartbeat" Worker AddsOnce HeartbeatArguments => work::heartbeat:
        "Renew the lease of a claim during long work, or record a side effect before and after it.";
    "ledger_release" Worker AddsOnce ReleaseArguments => work::release:
        "Give back a claim that you will not finish.";
    "ledger_status" Viewer Reads StatusArguments => read::status:
        "Where the plan is: counts, claims, what waits for a person, next steps, last changes, budget. \
         Call it first, and after a compaction.";
    "ledger_show" Viewer Reads ShowArguments => read::show:
        "Read more: a step with its attempts and records, why it is blocked; the plan, queue, variables, \
         questions or records.";
    "ledger_plan" Operator Adds PlanArguments => control::plan:
        "Check a plan, propose it as a new run or as the next version of a run, or add one step.";
    "ledger_answer" Operator AddsOnce AnswerArguments => control::answer:
        "Record a person's decision: ask the user first, and never decide for them.";
    "ledger_control" Operator Replaces ControlArguments => control::control:
        "Control a run, set a variable or write a note, as `action` says. `withdraw` rejects a request \
         for a new plan.";
}

pub(super) fn tools_of(role: Role) -> impl Iterator<Item = &'static LedgerTool> {
    TOOLS.iter().filter(move |tool| tool.role <= role)
}

#[cfg(test)]
mod tests {
    //! Goal: the published tools are those of the types, and the list is short.

    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::interfaces::mcp::service::{listed, tool_list};

    /// The most tokens of `tools/list`, by the estimate of four bytes for each token.
    const LIST_TOKENS_MAX: usize = 2000;

    /// `UPDATE_GOLDEN=1` writes the file again.
    #[test]
    fn published_tools_match_the_types() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format/mcp-tools.json");
        let generated = TOOLS.iter().map(|tool| listed(tool, Arc::new((tool.generate)())));
        let list = json!({ "tools": generated.collect::<Vec<_>>() });
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, format!("{list:#}\n")).unwrap();
        }
        let published: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert!(published == list, "format/mcp-tools.json is stale; run with UPDATE_GOLDEN=1");
        // The program was built with an earlier version of the file.
        if std::env::var_os("UPDATE_GOLDEN").is_none() {
            assert_eq!(json!({ "tools": tool_list(Role::Operator) }), published);
        }
    }

    #[test]
    fn list_of_tools_is_short() {
        let bytes = json!({ "tools": tool_list(Role::Operator) }).to_string().len();
        assert!(bytes / 4 <= LIST_TOKENS_MAX, "{bytes} bytes");
    }

    #[test]
    fn schemas_are_flat() {
        for tool in TOOLS {
            let schema = Value::Object((tool.generate)());
            let text = schema.to_string();
            for word in ["$ref", "$schema", "$defs", "oneOf", "anyOf", "allOf", "null"] {
                assert!(!text.contains(word), "{}: {word} in {text}", tool.name);
            }
            assert!(schema["properties"].as_object().unwrap().len() <= 12, "{}", tool.name);
        }
    }

    #[test]
    fn roles_have_their_tools() {
        let count = |role| tools_of(role).count();
        assert_eq!((count(Role::Viewer), count(Role::Worker), count(Role::Operator)), (2, 6, 9));
    }
}
