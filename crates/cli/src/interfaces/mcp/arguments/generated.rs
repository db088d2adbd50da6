//! Generates the schemas of arguments: flat objects, as all hosts accept them.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// Keywords that some hosts reject, and that models do not need.
const LEFT_OUT: [&str; 7] =
    ["$schema", "title", "format", "minimum", "maximum", "default", "additionalProperties"];

/// The schema of a type, without references, alternatives and null.
pub(crate) fn flat_schema<A: JsonSchema>() -> Map<String, Value> {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
    flatten(&mut schema);
    match schema {
        Value::Object(mut members) => {
            // The description of the tool explains it.
            members.remove("description");
            members.entry("properties").or_insert_with(|| Value::Object(Map::new()));
            members
        }
        _ => Map::new(),
    }
}

fn flatten(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    let is_schema = members.contains_key("type") || members.contains_key("anyOf");
    if is_schema || members.contains_key("enum") || members.contains_key("oneOf") {
        for word in LEFT_OUT {
            members.remove(word);
        }
        let description = members.get("description").cloned();
        if let Some(one) = members.remove("anyOf").and_then(without_null) {
            members.extend(one);
        }
        if let Some(description) = description {
            members.insert("description".to_owned(), description);
        }
        if let Some(Value::Array(words)) = members.remove("oneOf") {
            // Words with their own comments.
            let words = words.into_iter().filter_map(|word| word.get("const").cloned());
            members.insert("enum".to_owned(), words.collect());
            members.insert("type".to_owned(), "string".into());
        }
        if let Some(Value::Array(words)) = members.get_mut("enum") {
            words.retain(|word| !word.is_null());
        }
        if let Some(Value::Array(types)) = members.get("type") {
            let kept = types.iter().find(|it| *it != "null").cloned();
            members.insert("type".to_owned(), kept.unwrap_or(Value::Null));
        }
    }
    for (name, member) in members.iter_mut() {
        match member {
            Value::Object(inner) if name == "properties" => inner.values_mut().for_each(flatten),
            inner if name == "items" => flatten(inner),
            _ => {}
        }
    }
}

/// The alternative that is not null.
fn without_null(alternatives: Value) -> Option<Map<String, Value>> {
    let Value::Array(alternatives) = alternatives else { return None };
    let mut kept =
        alternatives.into_iter().filter(|it| it.get("type").is_none_or(|it| it != "null"));
    match kept.next() {
        Some(mut one @ Value::Object(_)) => {
            flatten(&mut one);
            if let Value::Object(mut members) = one {
                members.remove("description");
                return Some(members);
            }
            None
        }
        _ => None,
    }
}
