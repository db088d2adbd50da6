//! A step decodes to an equal one, for any combination of fields.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::plan::CompactPlan;
use crate::plan::{Plan, Step};

/// A step in which no field holds its default.
fn full() -> Map<String, Value> {
    let step = json!({
        "id": "a", "title": "T\u{f6}\"\\", "goal": "g\n2", "phase": "p", "owner": "o",
        "command": "true", "inputs": ["u", ""], "outputs": ["v"], "optional_outputs": ["v"], "after": ["b", "c", "d"],
        "preconditions": ["u > 1"], "on_false": "skip", "condition": "v", "tools": ["t"],
        "tags": ["gpu"], "changes": ["x/y"], "acceptance": [{"text": "ok"}, {"cel": "u == 0.1"}],
        "failure_class": "retrieval_failure", "failure_hints": {"disk": "transient"}, "retry": {"max_attempts": 2, "backoff_seconds": 7},
        "fallback": {"value": {"value": {"k": [1, null, 90.422_252_909_423_83_f64]}}},
        "side_effects": ["mail"], "idempotent": "with_key", "probe": "p?", "timeout_seconds": 1,
        "estimate_seconds": 900, "repeat_limit": 50, "lease_seconds": 4_000_000, "cost_estimate": {"money_micros": 3, "tokens": 0},
        "cost_limit": {"money_micros": u64::MAX >> 11, "tokens": 9}, "priority": -5,
        "gate": {"question": "?", "to": "ana"}, "extra": {"k": {"b": [1, 2.5, null], "a": "\u{e9}"}},
    });
    let Value::Object(fields) = step else { unreachable!("it is written so") };
    fields
}

fn of(fields: &Map<String, Value>) -> Step {
    serde_json::from_value(Value::Object(fields.clone())).unwrap()
}

#[test]
fn every_field_is_tested() {
    let Value::Object(written) = serde_json::to_value(of(&full())).unwrap() else {
        panic!("a step is an object");
    };
    // The compiler says when one is missing here.
    assert_eq!(written.len(), full().len());
    let Step {
        id: _,
        title: _,
        goal: _,
        phase: _,
        owner: _,
        command: _,
        inputs: _,
        outputs: _,
        optional_outputs: _,
        after: _,
        preconditions: _,
        on_false: _,
        condition: _,
        tools: _,
        tags: _,
        changes: _,
        acceptance: _,
        failure_class: _,
        failure_hints: _,
        retry: _,
        fallback: _,
        side_effects: _,
        idempotent: _,
        probe: _,
        timeout_seconds: _,
        lease_seconds: _,
        cost_estimate: _,
        cost_limit: _,
        priority: _,
        gate: _,
        extra: _,
        estimate_seconds: _,
        repeat_limit: _,
    } = of(&full());
    assert_eq!(full().len(), 33);
}

proptest! {
    /// Any combination of fields, in several steps, also with long values.
    #[test]
    fn encoding_round_trips(has in vec(vec(any::<bool>(), 33), 0..6), long in 0_usize..40_000) {
        let step = |has: &Vec<bool>| {
            let has_it = |(name, has): (&String, &bool)| *has || name == "id";
            let fields = full().into_iter().zip(has);
            let fields = fields.filter(|((name, _), has)| has_it((name, has)));
            let mut step = of(&fields.map(|(field, _)| field).collect());
            step.goal = step.goal.repeat(long);
            step
        };
        let header = Plan { title: "t".into(), continues: true, ..Plan::default() };
        let plan = Plan { steps: has.iter().map(step).collect(), ..header.clone() };
        let compact = CompactPlan::from(plan.clone());
        prop_assert_eq!(compact.decode(), plan.clone());
        prop_assert_eq!(compact.header(), &header);
        prop_assert_eq!((compact.len(), compact.step(plan.steps.len())), (plan.steps.len(), None));
        for (place, step) in plan.steps.iter().enumerate() {
            let found = compact.step(place).unwrap();
            prop_assert_eq!(&found.decode(), step);
            prop_assert_eq!(found.has_gate(), step.gate.is_some());
            prop_assert_eq!(found.has_acceptance(), !step.acceptance.is_empty());
            for other in compact.steps() {
                let (one, two) = (step, other.decode());
                let is_same = (&one.condition, &one.preconditions, &one.gate)
                    == (&two.condition, &two.preconditions, &two.gate);
                prop_assert_eq!(found.is_held_like(other), is_same);
                prop_assert_eq!(found.is_judged_like(other), one.acceptance == two.acceptance);
            }
        }
    }
}

/// Goal: a plan comes back from its encoded steps, and from no other number of them.
#[test]
fn plan_comes_back_from_its_encoded_steps() {
    let step = |number: usize| Step { id: format!("s{number}"), ..of(&full()) };
    for count in [0, 1, 7, 8, 9, 45] {
        let steps: Vec<Step> = (0..count).map(step).collect();
        let whole = CompactPlan::from(Plan { steps, ..Plan::default() });
        let parts = |bytes: &[u8], count| {
            CompactPlan::of_parts(whole.header().clone(), bytes.to_vec(), count)
        };
        let bytes = whole.step_bytes();
        assert!(parts(bytes, count).is_some_and(|plan| plan == whole), "{count}");
        assert!(parts(bytes, count + 1).is_none(), "{count}");
        if let Some(fewer) = count.checked_sub(1) {
            assert!(parts(bytes, fewer).is_none(), "{count}");
            assert!(parts(&bytes[..bytes.len() - 1], count).is_none(), "{count}");
        }
    }
}
