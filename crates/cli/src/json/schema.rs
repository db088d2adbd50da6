//! Generates `format/json-lines.schema.json` from the types of the lines.
//!
//! Definitions that no type has yet are kept as the file has them, as far as they are used.

use std::collections::BTreeSet;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::line::JsonLine;

/// The version of the lines of `ledger inspect` and `ledger status`.
const SCHEMA: u32 = 1;

/// The commands whose lines have the member `schema`.
const VERSIONED: [&str; 2] = ["inspect", "status"];

/// The published schema, line by line.
pub(crate) struct PublishedSchema {
    generator: SchemaGenerator,
    lines: Map<String, Value>,
}

impl PublishedSchema {
    pub(crate) fn new() -> Self {
        let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        Self { generator, lines: Map::new() }
    }

    /// Adds a line of a command.
    pub(crate) fn add<L: JsonLine>(&mut self, command: &str) {
        let mut schema = L::json_schema(&mut self.generator).to_value();
        match L::TYPE {
            Some(word) => self.insert(command, word, schema),
            None => {
                for variant in schema["oneOf"].take().as_array().expect("a tagged enum") {
                    let word = variant["properties"]["type"]["const"].as_str().expect("its tag");
                    self.insert(command, word, variant.clone());
                }
            }
        }
    }

    fn insert(&mut self, command: &str, word: &str, mut schema: Value) {
        let properties = schema["properties"].as_object_mut().expect("a line is an object");
        properties.insert("type".to_owned(), json!({ "const": word }));
        let mut required: Vec<Value> = vec![json!("type")];
        if VERSIONED.contains(&command) {
            properties.insert("schema".to_owned(), json!({ "const": SCHEMA }));
            required.push(json!("schema"));
        }
        let others = schema["required"].as_array().into_iter().flatten();
        required.extend(others.filter(|name| **name != "type").cloned());
        schema["required"] = Value::Array(required);
        let name =
            if word == "error" { "any.error".to_owned() } else { format!("{command}.{word}") };
        assert!(self.lines.insert(name.clone(), schema).is_none(), "{name} is listed twice");
    }

    /// The whole schema; `published` is the file as it is.
    pub(crate) fn finish(mut self, published: &Value) -> Value {
        let mut definitions = self.generator.take_definitions(true);
        definitions.extend(self.lines);
        definitions.values_mut().for_each(open);
        keep_others(&mut definitions, &published["$defs"]);
        let lines = definitions.keys().filter(|name| name.contains('.'));
        let lines: Vec<Value> =
            lines.map(|name| json!({ "$ref": format!("#/$defs/{name}") })).collect();
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "urn:plan-ledger:json-lines/1",
            "title": "What the commands of `ledger` print with --json, line by line",
            "description": "Version 1. A definition is named by command and type; one without a dot \
                            is a part of others. Members and types may be added: readers ignore \
                            unknown ones. This file is generated from the types of the program.",
            "anyOf": lines,
            "$defs": definitions,
        })
    }
}

/// Adds the definitions of lines and events that have no type yet, and their parts.
fn keep_others(definitions: &mut Map<String, Value>, published: &Value) {
    let published = published.as_object().expect("definitions");
    let is_kept = |name: &&String| {
        name.starts_with("event_") || (name.contains('.') && !definitions.contains_key(*name))
    };
    let mut open: Vec<String> = published.keys().filter(is_kept).cloned().collect();
    definitions.values().for_each(|part| references(part, &mut open));
    let mut seen = BTreeSet::new();
    while let Some(name) = open.pop() {
        if definitions.contains_key(&name) || !seen.insert(name.clone()) {
            continue;
        }
        let part = published.get(&name).unwrap_or_else(|| panic!("no definition of {name}"));
        references(part, &mut open);
        definitions.insert(name, part.clone());
    }
}

/// Collects the names of the definitions that a part refers to.
fn references(part: &Value, names: &mut Vec<String>) {
    match part {
        Value::Object(members) => {
            let target = members.get("$ref").and_then(Value::as_str);
            names.extend(target.and_then(|it| it.strip_prefix("#/$defs/")).map(str::to_owned));
            members.values().for_each(|part| references(part, names));
        }
        Value::Array(items) => items.iter().for_each(|part| references(part, names)),
        _ => {}
    }
}

/// Readers ignore unknown members, so no object is closed. The keys of a map may be any text.
fn open(part: &mut Value) {
    match part {
        Value::Object(members) => {
            members.values_mut().for_each(open);
            if members.get("additionalProperties") == Some(&json!(false)) {
                members.remove("additionalProperties");
            }
            if let Some(Value::Object(patterns)) = members.remove("patternProperties")
                && let Some(value) = patterns.into_iter().next()
            {
                members.insert("additionalProperties".to_owned(), value.1);
            }
            for name in ["format", "title"] {
                if members.get(name).is_some_and(Value::is_string) {
                    members.remove(name);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(open),
        _ => {}
    }
}
