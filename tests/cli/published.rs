//! Whether what is printed is what is published: every line of every `--json` is checked against
//! `format/json-lines.schema.json`, wherever a test looks at one.
//!
//! The published schema lets readers ignore members that they do not know. Here nothing is
//! unknown: a member, or a type of line, that the schema does not have is a failure.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use jsonschema::Validator;
use serde_json::{Value, json};

/// The schema, as it is published.
const PUBLISHED: &str = include_str!("../../format/json-lines.schema.json");

static SCHEMA: LazyLock<Value> = LazyLock::new(|| closed(PUBLISHED));

/// What workers, judges and planners are told, as it is published.
static HAND_OFF: LazyLock<Value> =
    LazyLock::new(|| closed(include_str!("../../format/hand-off.schema.json")));

fn closed(published: &str) -> Value {
    let mut schema: Value = serde_json::from_str(published).unwrap();
    close(&mut schema);
    schema
}

/// Validators by the name of the definition, made when they are first needed.
static VALIDATORS: Mutex<BTreeMap<String, Validator>> = Mutex::new(BTreeMap::new());

/// Objects with a list of members have no others.
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

/// The command that a command line is about, as the schema names it.
fn command(args: &[String]) -> String {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["inspect", _, same @ ("verify" | "blobs"), ..] => (*same).to_owned(),
        ["inspect", ..] => "inspect".to_owned(),
        ["plan", what, ..] => format!("plan_{what}"),
        [first, ..] => (*first).to_owned(),
        [] => String::new(),
    }
}

/// Asserts that a line is one that the schema describes.
#[track_caller]
pub(crate) fn check(args: &[String], line: &Value) {
    let kind = line["type"].as_str().unwrap_or_else(|| panic!("no type: {line}"));
    let name = match kind {
        // A command that comes to nothing says so in the same way, whichever it is.
        "error" => "any.error".to_owned(),
        kind => format!("{}.{kind}", command(args)),
    };
    check_as(&SCHEMA, &name, line);
    // Which kind of event it is stands beside it.
    if let (Some(kind), event @ Value::Object(_)) = (line["kind"].as_str(), &line["event"]) {
        check_as(&SCHEMA, &format!("event_{kind}"), event);
    }
}

/// Asserts that what a worker (`hand_off`), a judge (`judge_question`) or a planner
/// (`planner_request`) was told is what is published.
#[track_caller]
pub(crate) fn check_told(name: &str, told: &Value) {
    check_as(&HAND_OFF, name, told);
}

#[track_caller]
fn check_as(schema: &Value, name: &str, line: &Value) {
    assert!(schema["$defs"][name].is_object(), "{name} is not published: {line}");
    let mut validators = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
    let validator = validators.entry(name.to_owned()).or_insert_with(|| {
        let schema = json!({
            "$schema": schema["$schema"], "$defs": schema["$defs"],
            "$ref": format!("#/$defs/{name}"),
        });
        jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{name}: {error}"))
    });
    let faults: Vec<_> = validator
        .iter_errors(line)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{name}:\n{}\n{line}", faults.join("\n"));
}

/// Goal: the schema is one, names every line in its list, and lets readers meet new members.
#[test]
fn the_schema_is_sound() {
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

/// What a part of a schema leaves open although it should not.
fn loose(part: &Value, place: &str, found: &mut Vec<String>) {
    let text = |name: &str| part[name].as_str().unwrap_or_default();
    let says = |names: &[&str]| names.iter().any(|name| !part[*name].is_null());
    if !says(&["type", "const", "enum", "$ref", "anyOf", "oneOf"])
        && !text("description").contains("any JSON")
    {
        found.push(format!("{place}: anything"));
    }
    let types = part["type"].to_string();
    if types.contains("object") && !says(&["properties", "additionalProperties"])
        || part["additionalProperties"] == true
    {
        found.push(format!("{place}: an object of any members"));
    }
    if types.contains("array") && !says(&["items"]) {
        found.push(format!("{place}: a list of anything"));
    }
    for (name, below) in part["properties"].as_object().into_iter().flatten() {
        loose(below, &format!("{place}/{name}"), found);
    }
    for name in ["anyOf", "oneOf"] {
        for (number, below) in part[name].as_array().into_iter().flatten().enumerate() {
            loose(below, &format!("{place}/{name}/{number}"), found);
        }
    }
    for name in ["items", "additionalProperties"] {
        if part[name].is_object() {
            loose(&part[name], &format!("{place}/{name}"), found);
        }
    }
}

/// Goal: the schema says of every member what it is; where any JSON may be, it says that.
#[test]
fn nothing_is_left_open() {
    let schema: Value = serde_json::from_str(PUBLISHED).unwrap();
    let mut found = Vec::new();
    for (name, part) in schema["$defs"].as_object().unwrap() {
        // What plan files may hold is said where those are published.
        if !name.starts_with("plan_file_") {
            loose(part, name, &mut found);
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// A definition of another schema as it stands in this one: open to members that may be added, and
/// with the names that its parts have here.
fn as_adopted(part: &Value, name_here: &dyn Fn(&str) -> String) -> Value {
    match part {
        Value::Object(members) => members
            .iter()
            .filter(|(name, value)| *name != "additionalProperties" || **value != json!(false))
            .map(|(name, value)| match value.as_str().and_then(|it| it.strip_prefix("#/$defs/")) {
                Some(target) if name == "$ref" => {
                    (name.clone(), json!(format!("#/$defs/{}", name_here(target))))
                }
                _ => (name.clone(), as_adopted(value, name_here)),
            })
            .collect(),
        Value::Array(items) => items.iter().map(|item| as_adopted(item, name_here)).collect(),
        other => other.clone(),
    }
}

/// Goal: plans, steps and hand-offs within lines are what their own schemas say.
#[test]
fn what_other_schemas_say_is_repeated_truly() {
    let schema: Value = serde_json::from_str(PUBLISHED).unwrap();
    let own = &schema["$defs"];
    let plan: Value = serde_json::from_str(include_str!("../../format/plan.schema.json")).unwrap();
    let in_plan = |name: &str| format!("plan_file_{name}");
    let mut whole = plan.clone();
    for other in ["$defs", "$schema"] {
        whole.as_object_mut().unwrap().remove(other);
    }
    // A record may hold a plan whose steps are in the ones behind it.
    whole["properties"]["steps"].as_object_mut().unwrap().remove("minItems");
    assert_eq!(own["plan_file_Plan"], as_adopted(&whole, &in_plan), "Plan");
    for (name, part) in plan["$defs"].as_object().unwrap() {
        assert_eq!(own[in_plan(name)], as_adopted(part, &in_plan), "{name}");
    }
    let hand_off: Value =
        serde_json::from_str(include_str!("../../format/hand-off.schema.json")).unwrap();
    let in_hand_off = |name: &str| match name {
        "plan" => "plan_file_Plan".to_owned(),
        "step" => "plan_file_Step".to_owned(),
        other => format!("hand_off_{other}"),
    };
    let adopted = own.as_object().unwrap().keys().filter_map(|name| name.strip_prefix("hand_off_"));
    for name in adopted {
        let part = &hand_off["$defs"][name];
        assert_eq!(own[in_hand_off(name)], as_adopted(part, &in_hand_off), "{name}");
    }
}

/// Goal: the check has teeth.
#[test]
fn a_line_that_is_not_published_is_caught() {
    let args = ["root".to_owned()];
    let good = json!({ "type": "root", "seq": 1, "chain": "00" });
    check(&args, &good);
    for bad in [
        json!({ "type": "root", "seq": 1 }),
        json!({ "type": "root", "seq": "1", "chain": "00" }),
        json!({ "type": "root", "seq": 1, "chain": "00", "more": 1 }),
        json!({ "type": "leaf", "seq": 1, "chain": "00" }),
    ] {
        let caught = std::panic::catch_unwind(|| check(&args, &bad));
        assert!(caught.is_err(), "{bad}");
    }
}
