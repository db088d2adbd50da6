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
