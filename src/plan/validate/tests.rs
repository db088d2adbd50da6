//! Every problem is reported with its place and message.

use proptest::prelude::*;
use serde_json::json;

use super::validator::{FAILURE_CLASSES, VALUE_DEPTH_MAX};
use super::*;
use crate::plan::model::graph::edges::ids;
use crate::plan::{
    Caps, Cost, Criterion, Defaults, FailureAction, FailureClass, FailureMatch, FailureRule,
    Fallback, Gate, OnTimeout, OwnerLimit, OwnerSettings, Phase, RetryPolicy,
};

fn step(id: &str, after: &[&str]) -> Step {
    let after = after.iter().map(|id| (*id).to_owned()).collect();
    Step { id: id.into(), after, ..Step::default() }
}

fn barrier(id: &str, members: &[&str], needs: BarrierNeeds) -> Barrier {
    let members = members.iter().map(|id| (*id).to_owned()).collect();
    Barrier { id: id.into(), members, needs, ..Barrier::default() }
}

fn plan(steps: Vec<Step>, barriers: Vec<Barrier>) -> Plan {
    Plan { steps, barriers, ..Plan::default() }
}

fn lines(plan: &Plan) -> Vec<String> {
    validate(plan).iter().map(ToString::to_string).collect()
}

#[test]
fn valid_plan_has_no_problems() {
    let good = plan(
        vec![step("a", &[]), step("b", &["a"]), step("c", &["gate"])],
        vec![barrier("gate", &["a", "b"], BarrierNeeds::AtLeast(2))],
    );
    assert_eq!(lines(&good), Vec::<String>::new());
}

#[test]
fn empty_plan_is_a_problem() {
    assert_eq!(lines(&Plan::default()), ["steps: the plan has no steps; add at least one"]);
}

#[test]
fn problems_have_places_in_plan_order() {
    let mut wrong = plan(
        vec![
            step("", &[]),
            step("build", &["tset", "build2", "tset"]),
            step("test", &["prep"]),
            step("build", &["test"]),
            step(" x\n", &[]),
            step("end ", &[]),
        ],
        vec![
            barrier("test", &[], BarrierNeeds::All),
            barrier("gate", &["tests", "gate2", "build", "build"], BarrierNeeds::AtLeast(9)),
            barrier("gate2", &["test"], BarrierNeeds::AtLeast(0)),
        ],
    );
    wrong.phases = vec![
        Phase { id: "prep".into(), title: String::new() },
        Phase { id: "prep".into(), title: String::new() },
    ];
    wrong.steps[2].phase = Some("prop".into());
    assert_eq!(
        lines(&wrong),
        [
            "phases[1] (prep).id: the id is taken by phases[0]; every phase needs its own",
            "steps[0].id: the id is empty; give it a name",
            "steps[1] (build).after[0]: there is no step or barrier `tset`; did you mean \
             `test`?",
            "steps[1] (build).after[1]: there is no step or barrier `build2`; did you mean \
             `build`?",
            "steps[1] (build).after[2]: `tset` is listed already, at after[0]; remove one",
            "steps[2] (test).phase: there is no phase `prop`; did you mean `prep`?",
            "steps[2] (test).after[0]: `prep` is a phase, which implies no order; name its \
             steps, or a barrier over them",
            "steps[3] (build).id: the id is taken by steps[1] (build); steps and barriers \
             share one namespace",
            "steps[4] ( x\\n).id: the id has a control character; use one printable line",
            "steps[5] (end ).id: the id begins or ends with white space; remove it",
            "barriers[0] (test).id: the id is taken by steps[2] (test); steps and barriers \
             share one namespace",
            "barriers[0] (test).members: the barrier has no members; name the steps that it \
             waits for",
            "barriers[1] (gate).members[0]: there is no step `tests`; did you mean `test`?",
            "barriers[1] (gate).members[1]: `gate2` is a barrier; members are steps, name \
             its members",
            "barriers[1] (gate).members[3]: `build` is listed already, at members[2]; remove \
             one",
            "barriers[1] (gate).needs: at_least is 9, but the barrier has 3 members",
            "barriers[2] (gate2).needs: at_least is 0, expected 1 or more",
        ]
    );
}

/// Values up to the depth limit are accepted; deeper ones are rejected with their place.
#[test]
fn value_depth_is_limited() {
    let nested = |depth| (0..depth).fold(json!(1), |value, _| json!([value]));
    for (depth, is_fine) in [(VALUE_DEPTH_MAX, true), (VALUE_DEPTH_MAX + 1, false)] {
        let mut deep = step("a", &[]);
        deep.extra.insert("x".into(), nested(depth));
        let value = json!({"y": nested(depth - 1)});
        deep.fallback = Some(Box::new(Fallback::Value { value, max_age_seconds: None }));
        let mut plan = plan(vec![deep], vec![]);
        plan.extra.insert("x".into(), nested(depth));
        let found = lines(&plan);
        assert!(found.iter().all(|line| line.contains("more than 120 levels")), "{found:?}");
        let places: Vec<_> = validate(&plan).into_iter().map(|problem| problem.place).collect();
        let expected = ["steps[0] (a).fallback", "steps[0] (a).extra.x", "plan.extra.x"];
        assert_eq!(places, if is_fine { [].as_slice() } else { &expected });
    }
}

#[test]
fn zero_limits_are_problems() {
    let retry = RetryPolicy {
        max_attempts: 0,
        per_class: [("transient".to_owned(), 0), ("transiant".to_owned(), 1)].into(),
        ..RetryPolicy::default()
    };
    let mut bad = step("a", &[]);
    bad.command = Some(" ".into());
    bad.acceptance = vec![Criterion::Text(String::new())];
    bad.retry = Some(Box::new(retry.clone()));
    bad.timeout_seconds = Some(0);
    bad.lease_seconds = Some(0);
    bad.repeat_limit = Some(1);
    bad.fallback = Some(Box::new(Fallback::Step("a".into())));
    bad.cost_limit = Some(Cost { money_micros: u64::MAX, tokens: 0 });
    bad.extra.insert("big".into(), json!({"deep": [1, -9_007_199_254_740_993_i64]}));
    let mut other = step("b", &[]);
    other.fallback = Some(Box::new(Fallback::Step("bb".into())));
    other.extra.insert("fine".into(), json!([9_007_199_254_740_992_u64, 1.5]));
    other.extra.insert("long".into(), json!(1.0e29));
    let mut gate = barrier("g", &["a"], BarrierNeeds::All);
    gate.deadline_seconds = Some(0);
    let mut wrong = plan(vec![bad, other], vec![gate]);
    wrong.caps = Caps {
        run: Some(0),
        owners: [("dba".to_owned(), 0)].into(),
        tags: [("gpu".to_owned(), 0)].into(),
    };
    wrong.budget.tokens = Some(u64::MAX);
    wrong.defaults = Defaults { timeout_seconds: Some(0), ..Defaults::default() };
    let places: Vec<String> = validate(&wrong).into_iter().map(|problem| problem.place).collect();
    assert_eq!(
        places,
        [
            "steps[0] (a).command",
            "steps[0] (a).acceptance[0]",
            "steps[0] (a).retry.max_attempts",
            "steps[0] (a).retry.per_class.transiant",
            "steps[0] (a).retry.per_class.transient",
            "steps[0] (a).timeout_seconds",
            "steps[0] (a).lease_seconds",
            "steps[0] (a).repeat_limit",
            "steps[0] (a).fallback",
            "steps[0] (a).cost_limit",
            "steps[0] (a).extra.big",
            "steps[1] (b).fallback",
            "steps[1] (b).extra.long",
            "barriers[0] (g).deadline_seconds",
            "caps.run",
            "caps.owners.dba",
            "caps.tags.gpu",
            "budget",
            "defaults.timeout_seconds",
        ]
    );
}

#[test]
fn invalid_expressions_gates_and_hints_are_problems() {
    let gate = |seconds, on_timeout| {
        let question = "Go?".to_owned();
        Some(Gate { question, deadline_seconds: seconds, on_timeout, ..Gate::default() })
    };
    let answer = |word: &str| Some(OnTimeout::Answer(word.to_owned()));
    let mut bad = step("a", &[]);
    bad.preconditions = vec!["x > 1".into(), "x >".into()].into();
    bad.condition = Some(" ".into());
    bad.acceptance = vec![Criterion::Cel("output.".into())];
    bad.probe = Some(String::new());
    bad.failure_hints = BTreeMap::from([(String::new(), FailureClass::Transient)]).into();
    bad.retry = Some(Box::new(RetryPolicy { jitter_percent: Some(101), ..RetryPolicy::default() }));
    bad.gate = Some(Box::new(Gate { deadline_seconds: Some(0), ..Gate::default() }));
    let mut other = step("b", &[]);
    other.gate = gate(None, answer("yes")).map(Box::new);
    let mut third = step("c", &[]);
    third.gate = gate(Some(1), answer("maybe")).map(Box::new);
    let mut fine = step("d", &[]);
    fine.gate = gate(Some(1), answer("skip")).map(Box::new);
    let mut wrong = plan(vec![bad, other, third, fine], Vec::new());
    // `skip` is not an answer to the gate of a plan.
    wrong.gate = gate(Some(1), answer("skip"));
    wrong.test_criteria = vec![Criterion::Cel(")".into())];
    wrong.budget.attempts = Some(0);
    wrong.budget.wall_seconds = Some(0);
    let places: Vec<String> = validate(&wrong).into_iter().map(|problem| problem.place).collect();
    assert_eq!(
        places,
        [
            "steps[0] (a).probe",
            "steps[0] (a).preconditions[1]",
            "steps[0] (a).condition",
            "steps[0] (a).acceptance[0]",
            "steps[0] (a).failure_hints",
            "steps[0] (a).retry.jitter_percent",
            "steps[0] (a).gate.question",
            "steps[0] (a).gate.deadline_seconds",
            "steps[1] (b).gate.on_timeout",
            "steps[2] (c).gate.on_timeout",
            "budget.attempts",
            "budget.wall_seconds",
            "test_criteria[0]",
            "gate.on_timeout",
        ]
    );
}

#[test]
fn failure_rules_name_existing_steps() {
    let mut own = step("a", &[]);
    own.owner = Some("ops".into());
    own.fallback = Some(Box::new(Fallback::Owner("backup".into())));
    let mut wrong = plan(vec![own], Vec::new());
    let rule = |id: &str, when, then| FailureRule { id: id.into(), when, then };
    let when = FailureMatch {
        step: Some("aa".into()),
        owner: Some("opps".into()),
        message: Some(String::new()),
        failures: Some(0),
        ..FailureMatch::default()
    };
    let fine = FailureMatch { owner: Some("backup".into()), ..FailureMatch::default() };
    let escalate = FailureAction::Escalate {
        to: None,
        deadline_seconds: Some(5),
        on_timeout: Some(OnTimeout::Answer("yes".into())),
    };
    wrong.failure.rules = vec![
        rule("one", when, FailureAction::Replan { from: Some("b".into()) }),
        rule("one", fine, escalate),
        rule("", FailureMatch::default(), FailureAction::Retry),
    ];
    assert_eq!(
        lines(&wrong),
        [
            "failure.rules[0] (one).when.step: there is no step `aa`; correct the name, or remove it",
            "failure.rules[0] (one).when.owner: no step has the owner `opps`; did you mean \
             `ops`?",
            "failure.rules[0] (one).when.message: an empty text matches every message; leave it \
             out to match all",
            "failure.rules[0] (one).when.failures: failures is 0, expected 1 or more; the \
             first failure is 1",
            "failure.rules[0] (one).then.replan.from: there is no step `b`; correct the name, or remove it",
            "failure.rules[1] (one).id: the id is taken by failure.rules[0]; every rule needs its own",
            "failure.rules[1] (one).then.escalate.on_timeout: `yes` is not an answer, \
             expected one of retry, skip, fail, replan, abort",
            "failure.rules[2].id: the id is empty; give it a name",
        ]
    );
}

/// A fallback must not depend on the step that it replaces.
#[test]
fn fallback_cannot_depend_on_its_step() {
    let with_fallback = |id: &str, after: &[&str], fallback: &str| Step {
        fallback: Some(Box::new(Fallback::Step(fallback.into()))),
        ..step(id, after)
    };
    let mutual = plan(vec![with_fallback("a", &[], "b"), with_fallback("b", &[], "a")], Vec::new());
    assert_eq!(
        lines(&mutual),
        ["steps[0] (a).fallback: a cycle through a fallback, each waits for the next or \
          falls back to it: a -> b -> a; name a fallback for `a` that does not wait for it"]
    );
    let indirect = plan(
        vec![with_fallback("a", &[], "c"), step("b", &["all"]), step("c", &["b"])],
        vec![barrier("all", &["a"], BarrierNeeds::All)],
    );
    assert_eq!(lines(&indirect).len(), 1);
    assert!(lines(&indirect)[0].contains("a -> c -> b -> all -> a"), "{:?}", lines(&indirect));
    let before =
        plan(vec![with_fallback("a", &["c"], "b"), step("b", &["c"]), step("c", &[])], Vec::new());
    assert_eq!(lines(&before), Vec::<String>::new());
}

#[test]
fn failure_classes_match_the_type() {
    for class in FAILURE_CLASSES {
        assert!(serde_json::from_value::<super::super::FailureClass>(json!(class)).is_ok());
    }
}

#[test]
fn cycle_is_printed_as_a_path_through_barriers() {
    let round = plan(
        vec![step("a", &["x", "b"]), step("b", &["gate"]), step("x", &[])],
        vec![barrier("gate", &["x", "a"], BarrierNeeds::Any)],
    );
    assert_eq!(
        lines(&round),
        ["steps[0] (a).after[1]: a cycle, each waits for the next: a -> b -> gate -> a; \
          remove one of these dependencies"]
    );
}

#[test]
fn each_cycle_is_reported_once() {
    let rings = plan(
        vec![step("a", &["a", "a"]), step("b", &["c", "c"]), step("c", &["b"]), step("d", &["b"])],
        Vec::new(),
    );
    let found: Vec<String> =
        lines(&rings).into_iter().filter(|line| line.contains("a cycle")).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains(" a -> a;") && found[1].contains(" b -> c -> b;"), "{found:?}");
}

#[test]
fn long_chain_is_validated_without_recursion() {
    const STEPS: u32 = 100_000;
    let id = |number: u32| format!("s{number}");
    let steps: Vec<Step> = (0..STEPS)
        .map(|number| Step {
            id: id(number),
            after: (number + 1 < STEPS).then(|| id(number + 1)).into_iter().collect(),
            ..Step::default()
        })
        .collect();
    let mut chain = plan(steps, Vec::new());
    assert_eq!(lines(&chain), Vec::<String>::new());
    chain.steps.last_mut().unwrap().after.push(id(0));
    let found = lines(&chain);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("s14 -> s15 -> (99984 more) -> s0;"), "{}", found[0]);
}

#[test]
fn unknown_names_are_searched_a_limited_number_of_times() {
    let steps =
        (0..100_000).map(|number| step(&format!("s{number}"), &[&format!("t{number}")])).collect();
    assert_eq!(validate(&plan(steps, Vec::new())).len(), 100_000);
}

#[test]
fn too_many_steps_are_rejected() {
    let many = plan(vec![step("a", &[]); STEPS_MAX + 1], Vec::new());
    assert_eq!(lines(&many)[0], "steps: 1000001 steps, at most 1000000; split the plan");
}

/// The reference algorithm: removes nodes without dependencies until none is left or none can be
/// removed.
fn has_cycle(plan: &Plan) -> bool {
    let mut open: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let names: BTreeSet<&str> = ids(plan).collect();
    let waits = plan.steps.iter().map(|step| (&step.id, &step.after));
    let joins = plan.barriers.iter().map(|barrier| (&barrier.id, &barrier.members));
    for (id, list) in waits.chain(joins) {
        let known = list.iter().map(String::as_str).filter(|name| names.contains(name));
        open.insert(id, known.collect());
    }
    loop {
        let free: Vec<&str> =
            open.iter().filter(|(_, list)| list.is_empty()).map(|(id, _)| *id).collect();
        if free.is_empty() {
            return !open.is_empty();
        }
        for id in free {
            open.remove(id);
            for list in open.values_mut() {
                list.remove(id);
            }
        }
    }
}

/// Any plan: names from a small set, so that they collide, and arbitrary ones.
fn any_plan() -> impl Strategy<Value = Plan> {
    let name = prop_oneof![8 => "[a-h]", 1 => "\\PC{0,4}", 1 => ".{0,3}"];
    let names = prop::collection::vec(name.clone(), 0..4);
    let step = (name.clone(), names.clone(), prop::option::of(0_u32..3)).prop_map(
        |(id, after, timeout_seconds)| Step { id, after, timeout_seconds, ..Step::default() },
    );
    let barrier = (name, names, 0_u32..4).prop_map(|(id, members, needed)| Barrier {
        id,
        members,
        needs: BarrierNeeds::AtLeast(needed),
        ..Barrier::default()
    });
    let lists = (prop::collection::vec(step, 0..10), prop::collection::vec(barrier, 0..3));
    lists.prop_map(|(steps, barriers)| plan(steps, barriers))
}

/// Plans with unique ids, so that the reference and the validator see the same graph.
fn named_plan() -> impl Strategy<Value = Plan> {
    let waits = prop::collection::vec(0_usize..14, 0..3);
    let lists = (prop::collection::vec(waits.clone(), 1..10), prop::collection::vec(waits, 0..4));
    lists.prop_map(|(steps, barriers)| {
        let count = steps.len();
        let names = |list: &[usize]| list.iter().map(|node| format!("n{node}")).collect();
        let steps = steps.iter().enumerate().map(|(node, list)| Step {
            id: format!("n{node}"),
            after: names(list),
            ..Step::default()
        });
        let barriers = barriers.iter().enumerate().map(|(index, list)| Barrier {
            id: format!("n{}", count + index),
            members: names(list),
            ..Barrier::default()
        });
        plan(steps.collect(), barriers.collect())
    })
}

proptest! {
    #[test]
    fn any_plan_is_validated(any in any_plan()) {
        let problems = validate(&any);
        prop_assert!(problems.iter().all(|problem| !problem.place.is_empty()));
        prop_assert_eq!(problems, validate(&any));
    }

    #[test]
    fn cycle_is_reported_exactly_when_there_is_one(named in named_plan()) {
        let problems = validate(&named);
        let cycles: Vec<&Problem> =
            problems.iter().filter(|problem| problem.message.contains("a cycle")).collect();
        prop_assert_eq!(!cycles.is_empty(), has_cycle(&named));
        let distinct: BTreeSet<&str> =
            cycles.iter().map(|problem| problem.message.as_str()).collect();
        prop_assert_eq!(distinct.len(), cycles.len());
    }
}

#[test]
fn second_owner_is_known_and_no_cycle() {
    let mut fine = plan(vec![step("a", &[])], Vec::new());
    fine.steps[0].owner = Some("claude".into());
    let then = |second: &str| OwnerSettings { limit: OwnerLimit { then: Some(second.into()) } };
    fine.owners =
        [("claude".into(), then("codex")), ("codex".into(), OwnerSettings::default())].into();
    assert_eq!(lines(&fine), Vec::<String>::new());
    let wrong = |owners: &[(&str, &str)]| {
        let owners = owners.iter().map(|(name, second)| ((*name).to_owned(), then(second)));
        lines(&Plan { owners: owners.collect(), ..fine.clone() })
    };
    assert_eq!(
        wrong(&[("claude", "codex")]),
        [
            "owners.claude.limit.then: there is no owner `codex`; add `codex: {}` to `owners`, or correct \
             the name"
        ]
    );
    assert_eq!(
        wrong(&[("claude", "codex"), ("codex", "gemini"), ("gemini", "codex")]),
        [
            "owners.codex.limit.then: the second owners lead back: codex -> gemini -> codex; remove one of them"
        ]
    );
    assert_eq!(
        wrong(&[("claude", "claude")]),
        [
            "owners.claude.limit.then: the second owners lead back: claude -> claude; remove one of them"
        ]
    );
    assert_eq!(
        wrong(&[("claudee", "claude")]),
        ["owners.claudee: no step has the owner `claudee`; did you mean `claude`?"]
    );
    assert_eq!(
        wrong(&[("claude", "human:ana")]),
        [
            "owners.claude.limit.then: a person has no usage limit, and cannot be a second owner; name an agent"
        ]
    );
}
