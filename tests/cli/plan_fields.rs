//! Goal: no field of a plan is dropped in silence. Whatever field of the published schema a plan has, and
//! whichever way it comes in, the rest is read as it is without that field; and a list of tasks of another
//! tool that has a check, a command or a limit is read with it, or refused with its place.

use std::path::Path;

use plan_ledger::plan::Criterion;
use plan_ledger::{Plan, plan_hash};
use plan_ledger_files::{self as files, Severity, lint_text};
use serde_json::{Map, Value, json};

use super::command::{Place, start};
use super::http::Address;
use super::mcp::Client;

/// A plan that has a check, a command, a gate or a limit in each of its parts.
fn base() -> Value {
    json!({
        "title": "loan",
        "phases": [{"id": "first"}],
        "caps": {"run": 1},
        "budget": {"attempts": 20},
        "defaults": {"timeout_seconds": 60},
        "failure": {"max_replans": 1},
        "test_criteria": [{"command": "false"}],
        "barriers": [{"id": "both", "members": ["a", "b"]}],
        "steps": [
            {"id": "a", "goal": "g", "acceptance": [{"command": "false"}], "probe": "test -e x"},
            {"id": "b", "after": ["a"], "outputs": ["x"], "idempotent": "no",
                "gate": {"question": "really?"}, "acceptance": [{"cel": "output.x > 5"}]},
            {"id": "c", "after": ["both"], "outputs": ["y"], "command": "make", "cost_limit": {"tokens": 5},
                "retry": {"max_attempts": 2}, "acceptance": ["it is good"]},
        ],
    })
}

/// Values of fields for which a value of the right type is not enough: they name something.
fn named(owner: &str, field: &str) -> Option<Value> {
    Some(match (owner, field) {
        ("Plan", "barriers") => json!([{"id": "both", "title": "t", "members": ["a", "b"],
            "needs": {"at_least": 1}, "deadline_seconds": 60, "on_break": "ask"}]),
        ("Plan", "owners") => json!({"claude": {"limit": {"then": "codex"}}, "codex": {}}),
        ("Plan", "phases") => json!([{"id": "first", "title": "t"}, {"id": "more"}]),
        ("Plan", "gate") => json!({"question": "q", "to": "ana", "deadline_seconds": 9}),
        ("Plan", "test_criteria") => json!(["t", {"text": "u"}, {"command": "true"}]),
        ("Step", "acceptance") => {
            json!(["t", {"text": "u"}, {"command": "true"}, {"cel": "output.y"}])
        }
        ("Step", "after") => json!(["a"]),
        ("Step", "phase") => json!("first"),
        ("Step", "condition") | ("FailureMatch", "cel") => json!("has(variables.x)"),
        ("Step", "preconditions") => json!(["has(variables.x)"]),
        ("Step", "optional_outputs") => json!(["y"]),
        ("Step", "fallback") => json!({"value": {"value": 1, "max_age_seconds": 9}}),
        ("PlanInput", "default") => json!({"j": 1}),
        ("RetryPolicy", "per_class") => json!({"transient": 3}),
        ("FailureMatch", "step" | "tag" | "owner") => json!("a"),
        _ => return None,
    })
}

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format/plan.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A value for a field, as its schema says; not its default.
fn sample(schema: &Value, owner: &str, field: &str, node: &Value) -> Value {
    if let Some(value) = named(owner, field) {
        return value;
    }
    if let Some(name) = node["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return sample(schema, name, "", &schema["$defs"][name]);
    }
    if let Some(value) = node.get("const") {
        return value.clone();
    }
    for list in ["anyOf", "oneOf"] {
        if let Some(options) = node[list].as_array() {
            let last = options.iter().rfind(|option| option["type"] != "null").unwrap();
            return sample(schema, owner, "", last);
        }
    }
    let kind = match &node["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null").unwrap(),
        kind => kind,
    };
    match kind.as_str() {
        Some("string") => json!("text"),
        Some("integer" | "number") => json!(3),
        Some("boolean") => json!(true),
        Some("array") => json!([sample(schema, owner, "", &node["items"])]),
        Some("object") => match node["properties"].as_object() {
            Some(fields) => {
                let value = |(name, node)| (String::clone(name), sample(schema, owner, name, node));
                Value::Object(fields.iter().map(value).collect::<Map<_, _>>())
            }
            None => match &node["additionalProperties"] {
                more @ Value::Object(_) => json!({"k": sample(schema, owner, "", more)}),
                _ => json!({"k": [1, {"j": null}]}),
            },
        },
        _ => json!("any"),
    }
}

/// The base with each field of the schema set to another value, one at a time: a name, and the document.
fn documents() -> Vec<(String, Value)> {
    let schema = schema();
    let mut all = Vec::new();
    for (field, node) in schema["properties"].as_object().unwrap() {
        if !["steps", "marks"].contains(&field.as_str()) {
            let mut document = base();
            document[field] = sample(&schema, "Plan", field, node);
            if field == "owners" {
                document["steps"][0]["owner"] = json!("claude");
            }
            if field == "failure" {
                // What its rule names.
                document["steps"][0]["owner"] = json!("a");
                document["steps"][0]["tags"] = json!(["a"]);
                document["steps"][0]["failure_class"] = json!("text");
            }
            all.push((format!("plan-{field}"), document));
        }
    }
    for (field, node) in schema["$defs"]["Step"]["properties"].as_object().unwrap() {
        let mut document = base();
        document["steps"][2][field] = sample(&schema, "Step", field, node);
        all.push((format!("step-{field}"), document));
    }
    assert!(all.len() >= 50, "{}", all.len());
    all
}

/// The same document as YAML.
fn yaml(document: &Value) -> String {
    let line = |(name, value): (&String, &Value)| format!("{name}: {value}\n");
    document.as_object().unwrap().iter().map(line).collect()
}

/// The plan that a document is.
fn plan_of(name: &str, document: &Value) -> Plan {
    serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The forms in which a text has a plan of ours.
fn forms(document: &Value) -> Vec<(&'static str, String)> {
    let yaml = yaml(document);
    vec![
        ("json", format!("{document:#}")),
        ("front", format!("---\n{yaml}---\n")),
        (
            "fence-json",
            format!("# Here it is\n\n1. Read it\n\n```json\n{document:#}\n```\n\nBye.\n"),
        ),
        ("fence-yaml", format!("# Here it is\n\n1. Read it\n\n```yaml\n{yaml}```\n\nBye.\n")),
        ("yaml", yaml),
    ]
}

/// Every text that is a valid plan of ours is read as that plan, whatever fields it has.
#[test]
fn any_field_leaves_the_rest_of_a_plan_as_it_is() {
    for (name, document) in documents() {
        let expected = plan_of(&name, &document);
        assert_ne!(expected.canonical(), plan_of(&name, &base()).canonical(), "{name}");
        for (form, text) in forms(&document) {
            let read = files::parse("plan", &text);
            let read = read.unwrap_or_else(|error| panic!("{name} {form}: {error}\n{text}"));
            assert_eq!(read.plan.canonical(), expected.canonical(), "{name} {form}");
            assert!(read.format.is_native(), "{name} {form}");
        }
    }
}

/// The same through the program: a proposed file, a planner's output, MCP and HTTP; and what the program
/// prints of a version reads back as the same plan.
#[test]
fn any_field_of_a_plan_survives_every_interface() {
    // Each command reads the whole ledger: one for all of them would make most of the time reading.
    for documents in documents().chunks(10) {
        check_every_interface(documents);
    }
}

fn check_every_interface(documents: &[(String, Value)]) {
    let place = Place::new();
    place.ledger("init").code(0);
    let server = start(&mut place.command(&["serve", "--http"]));
    let http = Address::of(&place);
    let mut mcp = Client::of_session(&place, &["--role", "operator"]);
    for (name, document) in documents {
        place.write("plan.json", document.to_string());
        place.write("plan.yaml", yaml(document));
        let (json_run, yaml_run) = (format!("{name}-json"), format!("{name}-yaml"));
        place.ledger_with(&["plan", "propose", "plan.json", "--run", &json_run]).code(0);
        place.ledger_with(&["plan", "propose", "plan.yaml", "--run", &yaml_run]).code(0);
        let made = format!("{name}-made");
        let planner = ["--planner", "cat plan.json", "--run", &made];
        place.ledger_with(&[&["plan", "make", "--goal", "g"], &planner[..]].concat()).code(0);
        let called = json!({"mode": "propose", "plan": document.to_string(),
            "run": format!("{name}-mcp")});
        mcp.call("ledger_plan", &called);
        let body = json!({"run": format!("{name}-http"), "plan": document});
        http.lines("operator", "POST /v1/runs", &[], &body);
    }
    drop(mcp);
    let state = place.state();
    for (name, document) in documents {
        let expected = plan_hash(&plan_of(name, document));
        for way in ["json", "yaml", "mcp", "http", "made"] {
            let run = state.run_named(&format!("{name}-{way}")).unwrap();
            let mut plan = run.versions[0].plan.decode();
            if way == "made" && document["goal"].is_null() {
                // The goal of the request fills in a plan without one.
                assert_eq!(std::mem::take(&mut plan.goal), "g");
            }
            assert_eq!(plan_hash(&plan), expected, "{name} {way}");
        }
        // What is printed reads back.
        let file = place.write("plan.json", document.to_string());
        let shown = place.ledger_with(&["plan", "show", "--json", file.to_str().unwrap()]);
        let run = format!("{name}-json");
        let inspected = place.ledger_with(&["inspect", ".ledger", "plan", &run, "--json"]).code(0);
        let inspected: Value = serde_json::from_str(inspected.out.lines().next().unwrap()).unwrap();
        for text in [shown.code(0).out, inspected["plan"].to_string()] {
            let read = files::parse("printed", &text).unwrap();
            assert_eq!(plan_hash(&read.plan), expected, "{name}\n{text}");
        }
    }
    server.dismiss();
}

/// A planner that prints the plan that it was given changes nothing: a criterion that failed still fails.
#[test]
fn planner_that_repeats_its_plan_keeps_every_criterion() {
    let place = Place::new();
    let plan = json!({"failure": {"max_replans": 1}, "test_criteria": [{"command": "test -e never"}],
        "steps": [{"id": "a", "goal": "g", "command": "echo a >> $TALLY", "failure_class": "bureau",
            "retry": {"max_attempts": 1}, "acceptance": [{"command": "test -e never"}]}]});
    place.write("plan.json", plan.to_string());
    let planner =
        "python3 -c 'import json,sys; r=json.load(sys.stdin); print(json.dumps(r[\"plan\"]))'";
    let ended = place.ledger_with(&[
        "run",
        "plan.json",
        "--planner",
        planner,
        "--approve",
        "auto",
        "--on-unknown",
        "fail",
    ]);
    let run = place.state().runs.values().next().unwrap().clone();
    for version in &run.versions {
        let plan = version.plan.decode();
        assert_eq!(plan.test_criteria, [Criterion::Command("test -e never".into())]);
        assert_eq!(plan.steps[0].acceptance, [Criterion::Command("test -e never".into())]);
    }
    assert!(!ended.out.contains("done") && ended.status.code() != Some(0), "{ended:?}");
}

/// A list of tasks of another tool, with one more field of a task and one more around the list.
fn list(task: &str, around: &str) -> String {
    format!(
        "{{{around}\n\"tasks\": [\n{{\"id\": 1, \"title\": \"A\", \"status\": \"open\"{task}}}]}}"
    )
}

/// Fields of our plans in another tool's list are read where they have our form.
#[test]
fn native_fields_in_a_list_of_another_tool_are_read() {
    let text = list(
        r#", "command": "make", "probe": "test -e x", "gate": {"question": "really?"},
            "costLimit": {"tokens": 5}, "timeout_seconds": 30, "lease_seconds": 60,
            "retry": {"max_attempts": 2, "per_class": {"transient": 9}},
            "acceptance": ["good", {"command": "false"}, {"cel": "output.x > 5"}],
            "verification": {"coverage": "80 percent", "by": "ana", "automated": true},
            "checks": [{"id": "c1", "command": "true"}]"#,
        r#""budget": {"attempts": 3}, "caps": {"run": 1}, "failure": {"max_replans": 2},
            "defaults": {"retry": {"max_attempts": 4}}, "gate": {"question": "start?"},
            "test_criteria": ["all good", {"command": "false"}],"#,
    );
    let plan = files::parse("tasks.json", &text).unwrap().plan;
    let step = &plan.steps[0];
    assert_eq!(step.command.as_deref(), Some("make"));
    assert_eq!(step.probe.as_deref(), Some("test -e x"));
    assert_eq!(step.gate.as_ref().unwrap().question, "really?");
    assert_eq!(step.cost_limit.unwrap().tokens, 5);
    assert_eq!((step.timeout_seconds, step.lease_seconds), (Some(30), Some(60)));
    assert_eq!(step.retry.as_ref().unwrap().per_class["transient"], 9);
    let criteria = json!([{"text": "good"}, {"command": "false"}, {"cel": "output.x > 5"},
        {"text": "automated: true; by: ana; coverage: 80 percent"}, {"command": "true"}]);
    assert_eq!(json!(step.acceptance), criteria);
    assert_eq!((plan.budget.attempts, plan.caps.run), (Some(3), Some(1)));
    assert_eq!(plan.failure.max_replans, Some(2));
    assert_eq!(plan.defaults.retry.as_ref().unwrap().max_attempts, 4);
    assert_eq!(plan.gate.as_ref().unwrap().question, "start?");
    assert_eq!(json!(plan.test_criteria), json!([{"text": "all good"}, {"command": "false"}]));
}

/// The commands of such a list are approved as those of its criteria are: the run refuses them unasked.
#[test]
fn commands_in_a_list_of_another_tool_need_an_approval() {
    let place = Place::new();
    place.write("tasks.json", list(r#", "command": "touch made""#, ""));
    let refused = place.ledger("run tasks.json").code(2);
    refused.complains(&["touch made", "not approved", "--yes"]);
    assert!(!place.path("made").exists());
    place.ledger("run tasks.json --yes").code(0);
    assert!(place.path("made").exists());
}

/// A field of that type in a form that is not ours is refused, with its line and what is to be written.
#[test]
fn checks_and_limits_that_cannot_be_read_are_refused_with_their_place() {
    let tasks = [
        (r#""command": ["make", "all"]"#, "tasks[0].command", "command: make build"),
        (r#""gate": "ana must agree""#, "tasks[0].gate", "question"),
        (r#""probe": {"http": "x"}"#, "tasks[0].probe", "probe: "),
        (r#""timeout": 30"#, "tasks[0].timeout", "timeout_seconds: "),
        (r#""budget": 5"#, "tasks[0].budget", "cost_limit"),
        (r#""limits": {"usd": 3}"#, "tasks[0].limits", "cost_limit"),
        (r#""rules": ["be nice"]"#, "tasks[0].rules", "failure: {rules"),
        (r#""checks": [{"cmd": "make test"}]"#, "tasks[0].checks[0]", "acceptance"),
        (r#""on_false": "explode""#, "tasks[0].on_false", "on_false: skip"),
    ];
    for (field, place, hint) in tasks {
        let report = lint_text("tasks.json", &list(&format!(",\n{field}"), ""), None);
        assert!(report.plan_file.is_none(), "{field}");
        let found = &report.diagnostics[0];
        assert_eq!((found.place.as_str(), found.line), (place, Some(4)), "{field}: {found}");
        assert!(found.message.contains(hint), "{field}: {found}");
    }
    let plans = [
        (r#""budget": "two weeks","#, "budget"),
        (r#""caps": 4,"#, "caps"),
        (r#""failure": {"on": "never"},"#, "failure"),
        (r#""defaults": {"command": 5},"#, "defaults"),
        (r#""gate": true,"#, "gate"),
        (r#""test_criteria": [{"run": "make"}],"#, "test_criteria[0]"),
        (r#""rules": [{"when": "x"}],"#, "rules"),
        (r#""barriers": [{"id": "x", "members": ["1"]}],"#, "barriers"),
    ];
    for (field, place) in plans {
        let report = lint_text("tasks.json", &list("", &format!("\n{field}")), None);
        assert!(report.plan_file.is_none(), "{field}");
        let found = &report.diagnostics[0];
        assert_eq!((found.place.as_str(), found.line), (place, Some(2)), "{field}: {found}");
    }
    // The same in YAML, around a nested list, in a phase and between `---` lines of a Markdown text.
    for (text, line) in [
        ("tasks:\n  - id: 1\n    title: A\n    status: open\n    gate: yes please\n", 5),
        ("plan:\n  budget: 2 weeks\n  tasks:\n    - title: A\n      status: open\n", 2),
        ("phases:\n  - name: One\n    gate: a review\n    tasks:\n      - title: A\n", 3),
        ("---\nbudget: 2 weeks\n---\n# Plan\n\n- [ ] A\n- [ ] B\n", 1),
    ] {
        let report = lint_text("tasks", text, None);
        assert!(report.plan_file.is_none(), "{text}");
        assert_eq!(report.diagnostics[0].line, Some(line), "{text}{:?}", report.diagnostics);
    }
}

/// A budget beside the tasks of task-master is read whole, also where it has a word that the tool uses for
/// the progress of its work; a limit in another form is refused.
#[test]
fn budget_in_a_task_master_file_is_read() {
    let tasks = r#""tasks": [{"id": "1", "title": "A", "description": "d"},
        {"id": "2", "title": "B", "description": "e", "dependencies": ["1"]}]"#;
    let budget = r#""budget": {"attempts": 1}"#;
    let texts = [
        format!("{{{tasks}, {budget}}}"),
        format!(r#"{{"master": {{{tasks}, {budget}}}}}"#),
        format!(r#"{{"master": {{{tasks}}}, {budget}}}"#),
    ];
    for text in texts {
        let read = files::parse("tasks.json", &text).unwrap();
        assert_eq!(read.plan.budget.attempts, Some(1), "{text}");
    }
    for (text, expected) in [
        (format!(r#"{{{tasks}, "limits": {{"attempts": 1}}}}"#), "limits"),
        (format!(r#"{{"master": {{{tasks}, "limits": {{"attempts": 1}}}}}}"#), "master.limits"),
        // Two budgets: which one counts is not known.
        (format!(r#"{{"master": {{{tasks}, {budget}}}, {budget}}}"#), "master.budget"),
    ] {
        let report = lint_text("tasks.json", &text, None);
        assert!(report.plan_file.is_none(), "{text}");
        assert_eq!(report.diagnostics[0].place, expected, "{text}");
    }
    // The run of such a file stops at its budget.
    let place = Place::new();
    place.write("tasks.json", format!("{{{tasks}, {budget}}}"));
    place.ledger("run tasks.json --run r --worker true");
    assert_eq!(
        place.state().run_named("r").unwrap().versions[0].plan.decode().budget.attempts,
        Some(1)
    );
}

/// A check that a program judges never becomes a text, which the receipt of a worker satisfies.
#[test]
fn check_with_a_command_is_a_command_or_refused() {
    let names = [
        "acceptance",
        "verification",
        "testStrategy",
        "definition_of_done",
        "checks",
        "tests",
        "test",
    ];
    for name in names {
        for (item, expected) in [
            (r#"{"Command": "false"}"#, json!({"command": "false"})),
            (r#"{"type": "shell", "command": "false"}"#, json!({"command": "false"})),
            (r#"{"name": "x", "CEL": "output.x > 5"}"#, json!({"cel": "output.x > 5"})),
            (r#"{"name": "It is good", "type": "manual"}"#, json!({"text": "It is good"})),
        ] {
            let text = list(&format!(r#", "{name}": [{item}]"#), "");
            let read = files::parse("tasks.json", &text).unwrap();
            assert_eq!(json!(read.plan.steps[0].acceptance), json!([expected]), "{name} {item}");
        }
        for item in [
            r#"{"command": ["false"]}"#,
            r#"{"type": "shell", "value": "false"}"#,
            r#"{"type": "cel", "expression": "output.x > 5"}"#,
            r#"{"cli": "false"}"#,
            r#"{"automated": "false"}"#,
            r#"{"name": "x", "check": {"command": "false"}}"#,
            r#"{"command": "test", "args": ["-e", "x"]}"#,
            r#"{"command": "true", "cel": "false"}"#,
        ] {
            let text = list(&format!(r#", "{name}": [{item}]"#), "");
            let report = lint_text("tasks.json", &text, None);
            assert!(report.plan_file.is_none(), "{name} {item}");
            let found = &report.diagnostics[0];
            assert_eq!(found.place, format!("tasks[0].{name}[0]"), "{item}: {found}");
            assert!(found.message.contains("acceptance: [{command: "), "{found}");
        }
    }
}

/// Other names of checks, commands, gates, limits and rules are refused with their place, and prose and
/// data under such a name are kept.
#[test]
fn other_names_of_checks_and_limits_are_refused_and_prose_is_kept() {
    let tasks = [
        ("testCommand", r#""false""#, "acceptance: "),
        ("verify_command", r#""false""#, "acceptance: "),
        ("test", r#""npm test""#, "acceptance: "),
        ("run", r#""make""#, "command: "),
        ("cmd", r#""make""#, "command: "),
        ("script", r#""make""#, "command: "),
        ("shell", r#"["make"]"#, "command: "),
        ("success", r#"[{"command": "false"}]"#, "acceptance: "),
        ("requires_approval", "true", "gate: {question"),
        ("approval", r#"{"by": "ana"}"#, "gate: {question"),
        ("qualityGate", r#"{"question": "really?"}"#, "gate: {question"),
        ("max_cost", "5", "cost_limit"),
        ("maxTokens", "1000", "tokens"),
        ("token_limit", "1000", "tokens"),
        ("time_limit", r#""2h""#, "timeout_seconds"),
        ("timeout_ms", "5000", "timeout_seconds"),
        ("deadline", "3600", "timeout_seconds"),
        ("rate_limit", "3", "caps"),
        ("on_failure", r#""abort""#, "failure: {rules"),
        ("failure", r#"{"max_replans": 0}"#, "failure: {rules"),
        ("defaults", r#"{"command": "make"}"#, "task itself"),
        ("barriers", r#"[{"id": "x", "members": ["1"]}]"#, "native"),
    ];
    for (name, value, hint) in tasks {
        let report = lint_text("tasks.json", &list(&format!(r#", "{name}": {value}"#), ""), None);
        assert!(report.plan_file.is_none(), "{name}");
        let found = &report.diagnostics[0];
        assert_eq!(found.place, format!("tasks[0].{name}"), "{found}");
        assert!(found.message.contains(hint), "{found}");
    }
    let plans = [
        (r#""failure_policy": "stop","#, "failure_policy", "failure: {rules"),
        (r#""max_parallel": 2,"#, "max_parallel", "caps: {run"),
        (r#""concurrency": 2,"#, "concurrency", "caps: {run"),
        (r#""testCommand": "false","#, "testCommand", "test_criteria"),
        (r#""preconditions": ["has(variables.x)"],"#, "preconditions", "each step"),
        (r#""metadata": {"budget": {"attempts": 1}},"#, "metadata.budget", "beside the tasks"),
        (r#""metadata": {"gate": {"question": "q"}},"#, "metadata.gate", "beside the tasks"),
        (r#""metadata": {"command": "make"},"#, "metadata.command", "beside the tasks"),
        (r#""metadata": {"checks": [{"command": "x"}]},"#, "metadata.checks", "beside the tasks"),
    ];
    for (field, place, hint) in plans {
        let report = lint_text("tasks.json", &list("", field), None);
        assert!(report.plan_file.is_none(), "{field}");
        let found = &report.diagnostics[0];
        assert_eq!(found.place, place, "{found}");
        assert!(found.message.contains(hint), "{found}");
    }
    for field in [
        r#""test": "The login works with a wrong password""#,
        r#""tests": ["tests/login.py"]"#,
        r#""deadline": "2026-12-24""#,
        r#""run": 7"#,
        r#""failure": "It timed out""#,
        r#""barriers": ["no budget yet"]"#,
        r#""requires_approval": false"#,
        r#""approval": "none""#,
        r#""metadata": {"commit": {"sha": "x"}}"#,
    ] {
        let text = list(&format!(", {field}"), r#""preconditions": ["Docker is installed"],"#);
        files::parse("tasks.json", &text).unwrap_or_else(|error| panic!("{field}: {error}"));
    }
}

/// Settings are looked at as deep as they are, also those that a tool updates during the work.
#[test]
fn checks_deep_in_settings_are_refused_with_their_place() {
    for (field, place) in [
        (r#""metadata": {"ci": {"gate": "ask Bob"}}"#, "metadata.ci.gate"),
        (r#""config": {"a": [{"b": {"budget": 3}}]}"#, "config.a[0].b.budget"),
        (r#""options": {"checks": [{"command": "x"}]}"#, "options.checks"),
    ] {
        let report = lint_text("tasks.json", &list(&format!(", {field}"), ""), None);
        assert!(report.plan_file.is_none(), "{field}");
        assert_eq!(report.diagnostics[0].place, format!("tasks[0].{place}"));
    }
    let dex = |metadata: &str| {
        let task = |id: &str| {
            format!(
                r#"{{"id": "{id}", "parent_id": null, "name": "A", "blockedBy": [], "completed": false, "metadata": {metadata}}}"#
            )
        };
        format!("{}\n{}\n", task("a"), task("b"))
    };
    let report = lint_text("tasks.jsonl", &dex(r#"{"github": {"command": "make"}}"#), None);
    assert!(report.plan_file.is_none());
    assert!(report.diagnostics[0].place.ends_with("metadata.github.command"));
    files::parse("tasks.jsonl", &dex(r#"{"commit": {"sha": "x", "message": "y"}}"#)).unwrap();
}

/// Fields of checks, limits, decisions, conditions and commands under names that no list has, with a value.
const MEANT: &[(&str, &str)] = &[
    ("exit_criteria", r#""`false` exits 0""#),
    ("acceptance_tests", r#"[{"command": "false"}]"#),
    ("success_criterion", r#"{"command": "false"}"#),
    ("done_criteria", r#"["it works"]"#),
    ("post_conditions", r#"["it works"]"#),
    ("verification_plan", r#"{"command": "false"}"#),
    ("verify_with", r#"{"command": "false"}"#),
    ("quality_check", r#""it works""#),
    ("assertions", r#"[{"cel": "1 == 2"}]"#),
    ("invariants", r#"[{"cel": "1 == 2"}]"#),
    ("needs_verification", "true"),
    ("validator", r#""ana""#),
    ("cost_cap", "0.01"),
    ("budget_usd", r#""5""#),
    ("max_cost_usd", "5"),
    ("spend_cap", "5"),
    ("quota", "5"),
    ("wall_clock_limit", "60"),
    ("time_limit_seconds", "60"),
    ("max_turns", "5"),
    ("max_execution_time", "60"),
    ("retry_count", "5"),
    ("human_input", "true"),
    ("human_in_the_loop", r#""yes""#),
    ("review_required", "true"),
    ("sign_off", r#""ana""#),
    ("approvers", r#"["ana"]"#),
    ("quality_gate", r#""ana agrees""#),
    ("pre_check", "true"),
    ("guard", r#""x > 5""#),
    ("hooks", r#"{"before": "make"}"#),
    ("abort_if", r#""it rains""#),
    ("when", r#""x > 5""#),
    ("if", r#""x > 5""#),
    ("stop_condition", r#""x > 5""#),
    ("build_command", r#""make""#),
    ("setup_script", r#""make""#),
    ("non_idempotent", "true"),
];

/// Names that say nothing, with an object that has a command or an expression.
const SHAPED: &[(&str, &str)] = &[
    ("must", r#"[{"command": "false"}]"#),
    ("requirements", r#"[{"id": "R1", "command": "false"}]"#),
    ("test_cases", r#"[{"command": "false"}]"#),
    ("test_plan", r#"{"command": ["make", "test"]}"#),
    ("colour", r#"{"a": [{"b": {"cel": "1 == 2"}}]}"#),
];

/// A name in the spellings of tools.
fn spellings(name: &str) -> [String; 4] {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    let words: Vec<&str> = name.split('_').collect();
    let camel: String = words[1..].iter().map(|word| capital(word)).collect();
    [
        name.to_owned(),
        format!("{}{camel}", words[0]),
        name.replace('_', "-"),
        capital(&words.join(" ")),
    ]
}

/// Files of other tools with two tasks, the first of which has that field, or the file itself has it.
fn files_with(field: &str) -> Vec<(&'static str, String)> {
    let task = |more: &str| format!(r#"{{"id": "1", "title": "A", {more}, {field}}}"#);
    let open = task(r#""status": "open""#);
    let next = r#"{"id": "2", "title": "B", "status": "open"}"#;
    let beads = task(r#""issue_type": "task""#);
    let shrimp = task(r#""implementationGuide": "g""#);
    let master = task(r#""description": "d", "details": "e""#);
    let claude = format!(r#"{{"id": "1", "subject": "A", "blocks": [], {field}}}"#);
    vec![
        ("list", format!(r#"{{"tasks": [{open}, {next}]}}"#)),
        ("lines", format!("{open}\n{next}\n")),
        ("yaml", format!("tasks:\n  - {open}\n  - {next}\n")),
        ("front", format!("---\ntasks:\n  - {open}\n  - {next}\n---\nText.\n")),
        ("ralph", format!(r#"{{"userStories": [{open}, {next}]}}"#)),
        ("task-master", format!(r#"{{"master": {{"tasks": [{master}]}}}}"#)),
        ("beads", format!("{beads}\n")),
        ("shrimp", format!(r#"{{"tasks": [{shrimp}]}}"#)),
        ("claude", format!("[{claude}]")),
        ("around", format!(r#"{{{field}, "tasks": [{open}, {next}]}}"#)),
        ("around a tag", format!(r#"{{"master": {{{field}, "tasks": [{master}]}}}}"#)),
        ("phase", format!(r#"{{"phases": [{{"name": "P", {field}, "tasks": [{next}]}}]}}"#)),
        ("markdown", format!("---\n{{{field}}}\n---\n- [ ] a\n- [ ] b\n")),
    ]
}

/// A field that says what is checked, asked, executed or limited is read, or refused with its place: under any
/// name with such words, in any form, at any depth; and so is any object with a command or an expression.
#[test]
fn any_field_of_a_check_or_a_limit_is_read_or_refused() {
    let mut tried = 0;
    let mut check = |name: &str, form: &str, text: &str, is_kept: &dyn Fn(&str) -> bool| {
        tried += 1;
        let report = lint_text("plan", text, None);
        let found = report.diagnostics.iter().any(|each| {
            each.severity == Severity::Problem
                && (each.place.contains(name) || each.message.contains(name))
        });
        let Some(read) = report.plan_file else {
            assert!(found, "{form}: no place: {text}\n{:?}", report.diagnostics);
            return;
        };
        let criteria = read.plan.steps.iter().flat_map(|step| &step.acceptance);
        let is_read = criteria.chain(&read.plan.test_criteria).next().is_some();
        // Front matter above checkboxes has no criteria in words.
        let is_text = form == "markdown" && !text.contains("command") && !text.contains("cel");
        assert!(is_read || is_text, "{form}: {name} is dropped: {text}");
        assert!(is_text || !read.report.kept.keys().any(|it| is_kept(it)), "{form}: {text}");
    };
    for (name, value) in MEANT {
        for name in spellings(name) {
            let own = format!("{name:?}: {value}");
            for (form, text) in files_with(&own) {
                check(&name, form, &text, &|it| it == name);
            }
        }
        for around in ["metadata", "x-tool"] {
            let deep = format!(r#"{around:?}: {{"a": [{{"b": {{{name:?}: {value}}}}}]}}"#);
            for (form, text) in files_with(&deep) {
                check(name, form, &text, &|it| it == around);
            }
        }
    }
    for (name, value) in SHAPED {
        let own = format!("{name:?}: {value}");
        for field in [own.clone(), format!(r#""extra": {{{own}}}"#)] {
            for (form, text) in files_with(&field) {
                check(name, form, &text, &|it| it == *name);
            }
        }
    }
    // A cell has a text.
    for (name, cell) in [("budget_usd", "5"), ("quality check", "it works"), ("Sign-off", "ana")] {
        for name in spellings(&name.replace(' ', "_")) {
            for (form, text) in [
                ("csv", format!("id,title,{name}\n1,A,{cell}\n2,B,\n")),
                (
                    "table",
                    format!(
                        "# Plan\n\n| id | title | {name} |\n|---|---|---|\n| 1 | A | {cell} |\n| 2 | B | |\n"
                    ),
                ),
            ] {
                check(&name, form, &text, &|it| it == name);
            }
        }
    }
    assert!(tried > 2000, "{tried}");
}

/// What real files have as prose or data is kept, and the line about the file names each field once.
#[test]
fn fields_that_are_kept_are_named_with_their_count() {
    let place = Place::new();
    let data = r#""effort": 3, "reviewer": "ana", "estimated_cost": 5, "requirements": ["1.1"],
        "approved_by": "bob", "needs_review": false, "due": "2026-12-24", "test_files": ["a.py"],
        "extra": {"budget": 5}, "extra.max_turns": 3"#;
    let text = format!(
        r#"{{"owner_team": "x", "tasks": [{{"id": 1, "title": "A", "status": "todo", {data}}},
            {{"id": 2, "title": "B", "status": "todo", "effort": 1, "approved_by": null}}]}}"#
    );
    place.write("tasks.json", &text);
    let run = place.ledger("run tasks.json --yes --worker true").code(0);
    let line = "read 2 tasks; kept as data: `approved_by` (1), `due` (1), `effort` (2), `estimated_cost` (1), `extra` (1), \
        `extra.max_turns` (1), `needs_review` (1), `owner_team` (1), `requirements` (1), `reviewer` (1), `test_files` (1)";
    run.complains(&[line]);
    let lint = place.ledger("plan lint tasks.json --json").code(0);
    assert!(lint.out.contains(r#"{"count":2,"name":"effort"}"#), "{}", lint.out);
    // A refused field says how to keep it.
    let text = text.replace("\"extra.max_turns\"", "\"max_turns\"");
    let report = lint_text("tasks.json", &text, None);
    assert!(report.diagnostics[0].message.contains("if it is data, name it `extra.max_turns`"));
}

/// The tasks of `CrewAI`: what a person is to look at and what limits the work are refused, and the expected
/// output is a criterion.
#[test]
fn crewai_limits_are_refused_and_its_output_is_a_criterion() {
    let crew = |more: &str| {
        format!(
            "tasks:\n  - name: find\n    description: Find it\n    expected_output: A list\n{more}  - name: write\n    description: Write it\n"
        )
    };
    let read = files::parse("tasks.yaml", &crew("    async_execution: true\n")).unwrap();
    assert_eq!(json!(read.plan.steps[0].acceptance), json!([{"text": "A list"}]));
    for field in ["human_input: true", "max_iter: 3", "max_execution_time: 60", "guardrail: true"] {
        let report = lint_text("tasks.yaml", &crew(&format!("    {field}\n")), None);
        assert!(report.plan_file.is_none(), "{field}");
        assert_eq!(report.diagnostics[0].line, Some(5), "{:?}", report.diagnostics);
    }
    files::parse("tasks.yaml", &crew("    human_input: false\n")).unwrap();
}

/// A label of a Markdown task that names a gate, a limit or a command is no text.
#[test]
fn label_of_a_check_in_markdown_is_refused_with_its_line() {
    for (label, form) in [
        ("- Gate: ask Bob", "`gate: {question"),
        ("- **Gate**: ask Bob", "`gate: {question"),
        ("- Approval required: yes", "`gate: {question"),
        ("- Limit: $3", "`cost_limit"),
        ("- Budget:\n    - 100k tokens", "`cost_limit"),
        ("- Command: make all", "`command"),
        ("- Max time: 5 min", "`timeout_seconds"),
        ("- Rate limit: 3", "`caps"),
        ("Gate: ask Bob", "`gate: {question"),
    ] {
        let below = label.lines().map(|line| format!("  {line}\n")).collect::<String>();
        let boxes = format!("# Plan\n\n- [ ] Do it\n{below}- [ ] Then this\n");
        let heading = format!("# Plan\n\n## Step 1: Do it\n\n{label}\n\n## Step 2: Then this\n");
        for (text, line) in [(boxes, 4), (heading, 5)] {
            let report = lint_text("plan.md", &text, None);
            assert!(report.plan_file.is_none(), "{text}");
            let found = &report.diagnostics[0];
            assert_eq!(found.line, Some(line), "{text}: {found}");
            assert!(found.message.contains(form), "{text}: {found}");
        }
    }
    for label in [
        "- Gate: none",
        "- Limit: as few as possible",
        "- Run: `make`",
        "- Retries: 3",
        "- Note: the gate is open at 9:00",
        "- [ ] Command: write it",
        "```\n  command: make\n  ```",
        "**Acceptance**:\n  - Limit: 5 requests are answered",
    ] {
        let text = format!("# Plan\n\n- [ ] Do it\n  {label}\n- [ ] Then this\n");
        files::parse("plan.md", &text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

/// A budget above the checkboxes of a text is refused with its place, also in its native form.
#[test]
fn native_budget_above_checkboxes_is_refused_with_its_place() {
    for front in
        ["budget: {attempts: 1}", "title: A\nbudget: {attempts: 1}", "checks: [{command: x}]"]
    {
        let report = lint_text("a.md", &format!("---\n{front}\n---\n- [ ] a\n"), None);
        assert!(report.plan_file.is_none(), "{front}");
        let found = &report.diagnostics[0];
        assert_eq!(found.line, Some(1), "{found}");
        assert!(found.message.contains("in a native plan"), "{found}");
    }
    let read = files::parse("a.md", "---\ntitle: A\n---\n- [ ] a\n").unwrap();
    assert_eq!(read.plan.steps.len(), 1);
}
