//! Checks JSON output against the published schemas. Every test that reads a line of `--json` output
//! checks it against `format/json-lines.schema.json`.
//!
//! The published schema is open, so that readers ignore unknown members. Here it is closed: a member
//! or a type of line that is not in the schema fails the test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, Mutex, PoisonError};

use jsonschema::Validator;
use serde_json::{Value, json};

/// The published schema of JSON lines.
const PUBLISHED: &str = include_str!("../../format/json-lines.schema.json");

static SCHEMA: LazyLock<Value> = LazyLock::new(|| closed(PUBLISHED));

/// The published schema of the input of workers, judges and planners.
static HAND_OFF: LazyLock<Value> =
    LazyLock::new(|| closed(include_str!("../../format/hand-off.schema.json")));

fn closed(published: &str) -> Value {
    let mut schema: Value = serde_json::from_str(published).unwrap();
    close(&mut schema);
    schema
}

/// Validators by the name of the definition, built on first use.
static VALIDATORS: Mutex<BTreeMap<String, Validator>> = Mutex::new(BTreeMap::new());

/// Rejects unknown members in every object with a list of members.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.values_mut().for_each(close);
            if members.contains_key("properties") && !members.contains_key("additionalProperties") {
                members.insert("additionalProperties".to_owned(), json!(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// The name of a command in the schema.
fn command_name(args: &[String]) -> String {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["inspect", ..] => "inspect".to_owned(),
        ["plan", subcommand, ..] => format!("plan_{subcommand}"),
        [first, ..] => (*first).to_owned(),
        [] => String::new(),
    }
}

/// Asserts that a line is valid by the schema.
#[track_caller]
pub(crate) fn check(args: &[String], line: &Value) {
    let kind = line["type"].as_str().unwrap_or_else(|| panic!("no type: {line}"));
    let name = match kind {
        // All commands share one line for errors.
        "error" => "any.error".to_owned(),
        kind => format!("{}.{kind}", command_name(args)),
    };
    check_as(&SCHEMA, &name, line);
    // The kind of an event is the member next to it.
    if let (Some(kind), event @ Value::Object(_)) = (line["kind"].as_str(), &line["event"]) {
        check_as(&SCHEMA, &format!("event_{kind}"), event);
    }
}

/// Asserts that the input of a worker (`hand_off`), a judge (`judge_question`) or a planner
/// (`planner_request`) is valid by the schema.
#[track_caller]
pub(crate) fn check_input(name: &str, input: &Value) {
    check_as(&HAND_OFF, name, input);
}

/// The published description of the HTTP interface.
static DESCRIPTION: LazyLock<Value> =
    LazyLock::new(|| closed(include_str!("../../format/http.openapi.json")));

/// Asserts that a response over HTTP is valid by the description. `line` has the method and the path of the request.
#[track_caller]
pub(crate) fn check_response(line: &str, status: u16, body: &Value) {
    let (method, path) = line.split_once(' ').expect("a method and a path");
    let path = path.split('?').next().unwrap_or_default();
    let fits = |template: &str| {
        let (own, parts) = (template.split('/'), path.split('/'));
        own.clone().count() == parts.clone().count()
            && own.zip(parts).all(|(own, part)| own.starts_with('{') || own == part)
    };
    let found = DESCRIPTION["paths"].as_object().unwrap().iter().find(|(path, _)| fits(path));
    let operation = found.map(|(_, methods)| &methods[method.to_lowercase()]);
    let Some(operation) = operation.filter(|operation| operation.is_object()) else {
        assert!(status >= 400 || !path.starts_with("/v1"), "{line} is not described");
        return;
    };
    let described = &operation["responses"][status.to_string()];
    let described =
        if described.is_object() { described } else { &operation["responses"]["default"] };
    let content = described["content"].as_object().unwrap().values().next().unwrap();
    let Some(target) = content["schema"]["$ref"].as_str() else { return };
    let is_problem = target.ends_with("/Problem");
    assert_eq!(is_problem, status >= 400, "{line}: {status} is not described");
    check_by(target, body, || json!({ "components": DESCRIPTION["components"], "$ref": target }));
}

#[track_caller]
fn check_as(schema: &Value, name: &str, line: &Value) {
    assert!(schema["$defs"][name].is_object(), "{name} is not in the schema: {line}");
    check_by(name, line, || {
        json!({
            "$schema": schema["$schema"], "$defs": schema["$defs"],
            "$ref": format!("#/$defs/{name}"),
        })
    });
}

/// Asserts that a value is valid by a schema, which has a name of its own.
#[track_caller]
fn check_by(name: &str, line: &Value, schema: impl Fn() -> Value) {
    let mut validators = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
    let validator = validators.entry(name.to_owned()).or_insert_with(|| {
        jsonschema::validator_for(&schema()).unwrap_or_else(|error| panic!("{name}: {error}"))
    });
    let errors: Vec<_> = validator
        .iter_errors(line)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}:\n{}\n{line}", errors.join("\n"));
}

/// The schema is valid, lists every type of line, and allows new members.
#[test]
fn json_lines_schema_is_valid_and_open() {
    let schema: Value = serde_json::from_str(PUBLISHED).unwrap();
    jsonschema::validator_for(&schema).unwrap();
    assert!(schema["$id"].as_str().unwrap().ends_with("/1"));
    let listed: Vec<_> =
        schema["anyOf"].as_array().unwrap().iter().map(|each| each["$ref"].clone()).collect();
    for name in schema["$defs"].as_object().unwrap().keys() {
        let is_line = name.contains('.');
        let reference = json!(format!("#/$defs/{name}"));
        assert_eq!(listed.contains(&reference), is_line, "{name}");
    }
    assert!(!PUBLISHED.contains("additionalProperties\": false"));
}

/// Collects the parts of a schema that allow any value without saying so.
fn find_unspecified(part: &Value, place: &str, found: &mut Vec<String>) {
    let text = |name: &str| part[name].as_str().unwrap_or_default();
    let has_any = |names: &[&str]| names.iter().any(|name| !part[*name].is_null());
    if !has_any(&["type", "const", "enum", "$ref", "anyOf", "oneOf"])
        && !text("description").to_lowercase().contains("any json")
    {
        found.push(format!("{place}: any value"));
    }
    let types = part["type"].to_string();
    if types.contains("object") && !has_any(&["properties", "additionalProperties"])
        || part["additionalProperties"] == true
    {
        found.push(format!("{place}: an object with any members"));
    }
    if types.contains("array") && !has_any(&["items"]) {
        found.push(format!("{place}: a list of any values"));
    }
    for (name, below) in part["properties"].as_object().into_iter().flatten() {
        find_unspecified(below, &format!("{place}/{name}"), found);
    }
    for name in ["anyOf", "oneOf"] {
        for (number, below) in part[name].as_array().into_iter().flatten().enumerate() {
            find_unspecified(below, &format!("{place}/{name}/{number}"), found);
        }
    }
    for name in ["items", "additionalProperties"] {
        if part[name].is_object() {
            find_unspecified(&part[name], &format!("{place}/{name}"), found);
        }
    }
}

/// The schema gives every member a type; where any JSON is allowed, the description says so.
#[test]
fn json_lines_schema_specifies_every_member() {
    let schema: Value = serde_json::from_str(PUBLISHED).unwrap();
    let mut found = Vec::new();
    let plan: Value = serde_json::from_str(include_str!("../../format/plan.schema.json")).unwrap();
    for (name, part) in schema["$defs"].as_object().unwrap() {
        // Plan files have their own schema.
        let is_of_plan = name == "Plan" || plan["$defs"][name].is_object();
        if !is_of_plan && !name.starts_with("plan_file_") {
            find_unspecified(part, name, &mut found);
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The names of the members of an object, and of its variants.
fn members(part: &Value) -> BTreeSet<&str> {
    let variants = part["oneOf"].as_array().into_iter().flatten();
    let own = part["properties"].as_object().into_iter().flatten();
    own.map(|(name, _)| name.as_str()).chain(variants.flat_map(members)).collect()
}

/// Plans in lines and hand-offs have the members of plan files.
#[test]
fn plans_have_the_members_of_plan_files() {
    let plan: Value = serde_json::from_str(include_str!("../../format/plan.schema.json")).unwrap();
    for own in [&SCHEMA["$defs"], &HAND_OFF["$defs"]] {
        let mut of_file = members(&plan);
        // Marks of other tools are read from a file and are not part of its plan.
        of_file.retain(|name| *name != "marks");
        assert_eq!(members(&own["Plan"]), of_file, "Plan");
        for (name, part) in plan["$defs"].as_object().unwrap() {
            if own[name].is_object() {
                assert_eq!(members(&own[name]), members(part), "{name}");
            }
        }
    }
}

/// A test of the check itself.
#[test]
fn line_outside_of_the_schema_fails_the_check() {
    let args = ["root".to_owned()];
    let good = json!({ "type": "root", "seq": 1, "chain": "00" });
    check(&args, &good);
    for bad in [
        json!({ "type": "root", "seq": 1 }),
        json!({ "type": "root", "seq": "1", "chain": "00" }),
        json!({ "type": "root", "seq": 1, "chain": "00", "more": 1 }),
        json!({ "type": "leaf", "seq": 1, "chain": "00" }),
    ] {
        let result = std::panic::catch_unwind(|| check(&args, &bad));
        assert!(result.is_err(), "{bad}");
    }
}
