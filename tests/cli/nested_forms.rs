//! Goal: a wrong form inside a gate, a rule or another object of a plan is refused with its place and the form to write.

use plan_ledger_files::{self as files, lint_text};
use serde_json::{Value, json};

use super::command::{Place, start};
use super::http::Address;

/// A plan with that gate of its step and those rules, in JSON and in YAML.
fn texts(field: &str, value: &Value) -> [(&'static str, String); 2] {
    let document = match field {
        "failure" => json!({"failure": value, "steps": [{"id": "a", "goal": "g"}]}),
        _ => json!({"steps": [{"id": "a", "goal": "g", field: value}]}),
    };
    let yaml = match field {
        "failure" => format!("failure: {value}\nsteps:\n  - id: a\n"),
        _ => format!("steps:\n  - id: a\n    {field}: {value}\n"),
    };
    [("plan.json", format!("{document:#}")), ("plan.yaml", yaml)]
}

#[test]
fn nested_wrong_forms_name_the_right_form() {
    let gate = "{question: Deploy?}";
    let rules = "rules: [{id: down, when: {class: transient}, then: retry}]";
    for (field, value, expected) in [
        ("gate", json!({"ask": "ana"}), "did you mean `question`?"),
        ("gate", json!({"ask": "ana"}), gate),
        ("gate", json!({"who": "ana"}), gate),
        ("gate", json!({}), gate),
        ("gate", json!("ana must agree"), gate),
        ("gate", json!(["really?"]), gate),
        ("gate", json!(true), gate),
        ("gate", json!({"question": ["q"]}), "expected text"),
        ("gate", json!({"question": "q", "options": "yes"}), "expected a list"),
        ("gate", json!({"question": "q", "on_timeout": "never"}), "{escalate_to: NAME}"),
        ("gate", json!({"question": "q", "on_timeout": {"wait": 5}}), "{escalate_to: NAME}"),
        ("gate", json!({"question": "q", "deadline_seconds": "5m"}), "a whole number"),
        ("failure", json!({"when": "x"}), rules),
        ("failure", json!("retry"), rules),
        ("failure", json!(["rules"]), rules),
        ("failure", json!({"on_unknown": "ask"}), rules),
        (
            "failure",
            json!({"rules": [{"id": "a", "when": "transient", "then": "retry"}]}),
            "{class: transient}",
        ),
        (
            "failure",
            json!({"rules": [{"id": "a", "when": {"class": ["transient"]}, "then": "retry"}]}),
            "deterministic",
        ),
        (
            "failure",
            json!({"rules": [{"id": "a", "when": {"class": "transient"}, "then": "again"}]}),
            "{replan: {}}",
        ),
        (
            "failure",
            json!({"rules": [{"id": "a", "when": {"class": "transient"}, "then": {"escalate": "ana"}}]}),
            "{escalate: {to: NAME}}",
        ),
        ("failure", json!({"rules": [{"id": "a", "when": {"class": "transient"}}]}), "then: retry"),
        ("failure", json!({"rules": [{"id": "a", "on": "x", "then": "retry"}]}), "then: retry"),
        ("failure", json!({"rules": ["transient: retry"]}), "then: retry"),
        ("failure", json!({"on_stale": "stop"}), "replan"),
        ("retry", json!([3]), "{max_attempts: 3}"),
        ("cost_limit", json!([250_000]), "{money_micros: 250000}"),
    ] {
        for (name, text) in texts(field, &value) {
            let report = lint_text(name, &text, None);
            assert!(report.plan_file.is_none(), "{text}");
            let line = text.lines().position(|line| line.contains(field)).unwrap() + 1;
            let found = report.diagnostics.iter().find(|each| each.message.contains(expected));
            let found =
                found.unwrap_or_else(|| panic!("{expected}\n{text}\n{:?}", report.diagnostics));
            let end = if name == "plan.yaml" { line } else { text.lines().count() };
            let at = usize::try_from(found.line.unwrap()).unwrap();
            assert!((line..=end).contains(&at), "{text}: {found}");
        }
    }
}

/// The JSON library reads a list as an object, by the order of its items.
#[test]
fn list_in_the_place_of_an_object_is_refused() {
    let step = |fields: Value| json!({"steps": [{"id": "a", "goal": "g"}, fields]});
    let documents = [
        (step(json!({"id": "b", "gate": ["really?"]})), "steps[1].gate"),
        (step(json!({"id": "b", "retry": [3]})), "steps[1].retry"),
        (step(json!({"id": "b", "fallback": {"value": [3]}})), "steps[1].fallback.value"),
        (step(json!(["b", "title"])), "steps[1]"),
        (json!({"steps": [{"id": "a"}], "caps": [4]}), "caps"),
        (
            json!({"steps": [{"id": "a"}], "failure": {"rules": [["r", {"class": "transient"}, "retry"]]}}),
            "failure.rules[0]",
        ),
    ];
    let place = Place::new();
    place.ledger("init").code(0);
    let server = start(&mut place.command(&["serve", "--http"]));
    let http = Address::of(&place);
    for (document, path) in &documents {
        let report = lint_text("plan.json", &document.to_string(), None);
        assert!(report.plan_file.is_none(), "{document}");
        let found = report.diagnostics.iter().any(|each| each.place == *path);
        assert!(found, "{path}: {:?}", report.diagnostics);
        let detail =
            http.problem("operator", "POST /v1/runs", &json!({"run": "r", "plan": document}));
        assert!(detail.contains(path) && detail.contains("found a list"), "{detail}");
    }
    server.dismiss();
    // A list of another tool, and the JSON of a native plan in Markdown.
    let tasks = r#"{"tasks": [{"id": 1, "title": "A", "gate": ["really?"]}]}"#;
    let report = lint_text("tasks.json", tasks, None);
    assert!(report.plan_file.is_none());
    assert_eq!(report.diagnostics[0].place, "tasks[0].gate");
    let native = |gate: &str| {
        format!(
            "<!-- ledger plan 1 -->\n\n# P\n\n## Steps\n\n- [ ] `a` A\n  ```json\n  {{\"gate\": {gate}}}\n  ```\n"
        )
    };
    let text = native(r#"{"question": "really?"}"#);
    files::parse("p.md", &text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let report = lint_text("p.md", &native(r#"["really?"]"#), None);
    assert!(report.plan_file.is_none());
    assert!(
        report.diagnostics[0].message.contains("gate: found a list"),
        "{:?}",
        report.diagnostics
    );
}
