//! Completes the steps of a plan with the properties of their tools in a tool registry.
//!
//! Invariants:
//! - Only unset fields are filled in; a default of the plan counts as set. The step lists the
//!   fields that were filled in.
//! - The result is a pure function of plan and registry, and idempotent.
//! - A tool that is not in the registry adds nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fields::is_default;
use super::plan::Plan;
use super::step::{Idempotence, RetryPolicy, Step};

/// The extra field of a step that lists the fields that were filled in.
const MARK: &str = "enriched";

/// A registry of tools.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolRegistry {
    /// The tools, by the name that steps use.
    pub tools: BTreeMap<String, Tool>,
}

/// Defaults for steps that use a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tool {
    /// Retry policy.
    #[serde(skip_serializing_if = "is_default")]
    pub retry: Option<RetryPolicy>,
    /// Timeout in seconds.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout_seconds: Option<u32>,
    /// Lease of an attempt in seconds.
    #[serde(skip_serializing_if = "is_default")]
    pub lease_seconds: Option<u32>,
    /// Side effects.
    #[serde(skip_serializing_if = "is_default")]
    pub side_effects: Vec<String>,
    /// Whether using it twice has the same effect as using it once.
    #[serde(skip_serializing_if = "is_default")]
    pub idempotent: Option<Idempotence>,
}

#[doc(hidden)]
impl Plan {
    /// Fills in the unset fields of all steps. If a step has several tools, the most cautious value is
    /// used: the fewest attempts, the longest timeout and lease, all side effects, and `no` before
    /// `with_key` before `yes`.
    #[must_use]
    pub fn enriched(&self, registry: &ToolRegistry) -> Plan {
        let mut rich = self.clone();
        for step in &mut rich.steps {
            let tools = step.tools.iter().filter_map(|name| registry.tools.get(name));
            if let Some(known) = combine(tools) {
                complete(step, self, known);
            }
        }
        rich
    }
}

/// The combined values for a step that uses all of these tools.
fn combine<'a>(tools: impl Iterator<Item = &'a Tool>) -> Option<Tool> {
    tools.cloned().reduce(|one, other| {
        let mut effects = BTreeSet::new();
        let both = one.side_effects.into_iter().chain(other.side_effects);
        Tool {
            retry: fewer_attempts(one.retry, other.retry),
            timeout_seconds: one.timeout_seconds.max(other.timeout_seconds),
            lease_seconds: one.lease_seconds.max(other.lease_seconds),
            side_effects: both.filter(|effect| effects.insert(effect.clone())).collect(),
            idempotent: more_cautious(one.idempotent, other.idempotent),
        }
    })
}

/// The policy with fewer attempts. If they are equal, the one with the longer backoff, else the
/// first.
fn fewer_attempts(one: Option<RetryPolicy>, other: Option<RetryPolicy>) -> Option<RetryPolicy> {
    let caution = |policy: &RetryPolicy| (policy.max_attempts, u32::MAX - policy.backoff_seconds);
    match (one, other) {
        (Some(one), Some(other)) if caution(&other) < caution(&one) => Some(other),
        (one, other) => one.or(other),
    }
}

/// The more cautious of two values.
fn more_cautious(one: Option<Idempotence>, other: Option<Idempotence>) -> Option<Idempotence> {
    let caution = |each: &Option<Idempotence>| match each {
        None => 0,
        Some(Idempotence::Yes) => 1,
        Some(Idempotence::WithKey) => 2,
        Some(Idempotence::No) => 3,
    };
    if caution(&other) > caution(&one) { other } else { one }
}

fn complete(step: &mut Step, plan: &Plan, known: Tool) {
    let defaults = &plan.defaults;
    let mut filled = Vec::new();
    if defaults.retry.is_none() {
        fill(&mut step.retry, known.retry.map(Box::new), "retry", &mut filled);
    }
    if defaults.timeout_seconds.is_none() {
        fill(&mut step.timeout_seconds, known.timeout_seconds, "timeout_seconds", &mut filled);
    }
    if defaults.lease_seconds.is_none() {
        fill(&mut step.lease_seconds, known.lease_seconds, "lease_seconds", &mut filled);
    }
    if defaults.idempotent.is_none() {
        fill(&mut step.idempotent, known.idempotent, "idempotent", &mut filled);
    }
    if step.side_effects.is_empty() && !known.side_effects.is_empty() {
        step.side_effects = known.side_effects.into();
        filled.push("side_effects");
    }
    if !filled.is_empty() {
        mark(step, &filled);
    }
}

fn fill<T>(field: &mut Option<T>, known: Option<T>, name: &'static str, filled: &mut Vec<&str>) {
    if field.is_none() && known.is_some() {
        *field = known;
        filled.push(name);
    }
}

/// Adds the names to those that an earlier run filled in.
fn mark(step: &mut Step, filled: &[&str]) {
    let before = step.extra.get(MARK).and_then(Value::as_array).cloned().unwrap_or_default();
    let before = before.iter().filter_map(Value::as_str);
    let all: BTreeSet<&str> = before.chain(filled.iter().copied()).collect();
    let all = json!(all);
    step.extra.insert(MARK.to_owned(), all);
}

#[cfg(test)]
mod tests {
    //! Only unset fields are filled in, each of them is listed, and the operation is idempotent.

    use proptest::prelude::*;

    use super::*;

    fn registry() -> ToolRegistry {
        let retry = |max_attempts, backoff_seconds| {
            Some(RetryPolicy { max_attempts, backoff_seconds, ..RetryPolicy::default() })
        };
        let shell = Tool {
            retry: retry(3, 5),
            timeout_seconds: Some(60),
            idempotent: Some(Idempotence::Yes),
            ..Tool::default()
        };
        let mail = Tool {
            retry: retry(1, 0),
            timeout_seconds: Some(30),
            lease_seconds: Some(90),
            side_effects: vec!["mail".into()],
            idempotent: Some(Idempotence::No),
        };
        let pay = Tool {
            side_effects: vec!["payment".into(), "mail".into()],
            idempotent: Some(Idempotence::WithKey),
            ..Tool::default()
        };
        ToolRegistry {
            tools: [("shell", shell), ("mail", mail), ("pay", pay)]
                .map(|(name, tool)| (name.to_owned(), tool))
                .into(),
        }
    }

    fn step(tools: &[&str]) -> Step {
        let tools = tools.iter().map(|tool| (*tool).to_owned()).collect::<Vec<_>>();
        Step { id: "a".into(), tools: tools.into(), ..Step::default() }
    }

    fn enriched(step: Step) -> Step {
        let plan = Plan { steps: vec![step], ..Plan::default() };
        plan.enriched(&registry()).steps.remove(0)
    }

    #[test]
    fn most_careful_tool_wins() {
        let found = enriched(step(&["shell", "mail", "pay", "unknown"]));
        assert_eq!(found.retry.map(|retry| retry.max_attempts), Some(1));
        assert_eq!((found.timeout_seconds, found.lease_seconds), (Some(60), Some(90)));
        assert_eq!(found.idempotent, Some(Idempotence::No));
        assert_eq!(*found.side_effects, ["mail", "payment"]);
        let all = ["idempotent", "lease_seconds", "retry", "side_effects", "timeout_seconds"];
        assert_eq!(found.extra[MARK], json!(all));
    }

    #[test]
    fn set_fields_are_kept() {
        let stated = Step {
            timeout_seconds: Some(5),
            idempotent: Some(Idempotence::Yes),
            side_effects: vec!["own".into()].into(),
            ..step(&["mail"])
        };
        let found = enriched(stated.clone());
        assert_eq!((found.timeout_seconds, found.idempotent), (Some(5), Some(Idempotence::Yes)));
        assert_eq!(*found.side_effects, ["own"]);
        assert_eq!(found.extra[MARK], json!(["lease_seconds", "retry"]));
        assert_eq!(enriched(step(&["unknown"])), step(&["unknown"]));
        let mut plan = Plan { steps: vec![step(&["pay"])], ..Plan::default() };
        plan.defaults.idempotent = Some(Idempotence::No);
        assert_eq!(plan.enriched(&registry()).steps[0].idempotent, None);
    }

    proptest! {
        #[test]
        fn enrich_is_idempotent(
            tools in prop::collection::vec(prop::sample::select(vec!["shell", "mail", "pay", "x"]), 0..4),
            timeout in prop::option::of(1_u32..9),
            default in prop::option::of(1_u32..9),
        ) {
            let mut plan = Plan {
                steps: vec![Step { timeout_seconds: timeout, ..step(&tools) }],
                ..Plan::default()
            };
            plan.defaults.lease_seconds = default;
            let once = plan.enriched(&registry());
            prop_assert_eq!(once.enriched(&registry()), once);
        }
    }
}
