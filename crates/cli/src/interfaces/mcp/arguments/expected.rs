//! What a tool takes: the published schemas of arguments, and how the arguments of a call are read by them. Models send
//! texts, numbers and objects in each other's place, so those that mean the same are accepted; what is refused is
//! answered with what the tool takes.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::interfaces::mcp::call::ToolRefusal;

/// The published list, `format/mcp-tools.json`.
#[derive(Deserialize)]
struct PublishedTools {
    tools: Vec<PublishedTool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PublishedTool {
    name: String,
    input_schema: Arc<Map<String, Value>>,
}

/// The published schemas of arguments, by the names of the tools.
static SCHEMAS: LazyLock<BTreeMap<String, Arc<Map<String, Value>>>> = LazyLock::new(|| {
    let list: PublishedTools =
        serde_json::from_str(include_str!("tools.json")).expect("tests read the published list");
    list.tools.into_iter().map(|tool| (tool.name, tool.input_schema)).collect()
});

/// The schema of the arguments of a tool.
pub(crate) fn schema_of(tool: &str) -> Arc<Map<String, Value>> {
    SCHEMAS.get(tool).cloned().unwrap_or_default()
}

/// The arguments of a tool. A member that is null counts as absent. Where the schema has a text, the JSON of another
/// value is accepted as its text; where it has another type, a text with the JSON of that type is accepted.
pub(crate) fn arguments_of<A: DeserializeOwned>(
    tool: &str,
    mut arguments: Map<String, Value>,
) -> Result<A, ToolRefusal> {
    arguments.retain(|_, value| !value.is_null());
    let schema = schema_of(tool);
    let strict = serde_json::from_value(Value::Object(arguments.clone()));
    let arguments = typed(&schema, arguments);
    let wrong = wrong_type(&schema, &arguments);
    strict.or_else(|_| serde_json::from_value(Value::Object(arguments))).map_err(|error| {
        let what = wrong.unwrap_or_else(|| plain(&error));
        let takes = expected(&schema, &|_| true);
        ToolRefusal::arguments(&format!("{what}\nhint: {tool} takes {takes}"))
    })
}

/// The refusal of the arguments of `ledger_control` for an action.
pub(crate) fn refused_action(action: &str, error: &serde_json::Error) -> ToolRefusal {
    let (what, schema) = (plain(error), schema_of("ledger_control"));
    let takes = expected(&schema, &|member| is_for(member, action));
    ToolRefusal::arguments(&format!("{action}: {what}\nhint: {action} takes {takes}"))
}

/// Whether an argument of `ledger_control` is for an action: its description begins with `Of` and the actions, or it is
/// for all.
fn is_for(member: &Value, action: &str) -> bool {
    let description = member.get("description").and_then(Value::as_str).unwrap_or_default();
    let Some(of) = description.strip_prefix("Of ") else { return true };
    let actions = of.split_once(':').map_or(of, |(actions, _)| actions);
    actions.split([',', ' ']).any(|word| word == action)
}

/// An error in the words of a caller.
fn plain(error: &serde_json::Error) -> String {
    error.to_string().replacen("unknown variant", "unknown value", 1)
}

/// The type of an argument in the schema of its tool.
fn type_of<'a>(schema: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    schema.get("properties")?.get(name)?.get("type")?.as_str()
}

/// Whether a value has that type.
fn is_of_type(value: &Value, word: &str) -> bool {
    match word {
        "integer" => value.is_u64(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

/// The arguments with the JSON of a value where the schema has a text, and with the value of a text where it has another
/// type.
fn typed(schema: &Map<String, Value>, arguments: Map<String, Value>) -> Map<String, Value> {
    let typed = |(name, value): (String, Value)| {
        let value = match (type_of(schema, &name), value) {
            (Some("string"), value) if !value.is_string() => value.to_string().into(),
            (Some(word), Value::String(text)) if word != "string" => {
                // `01` is no number, and ` 1` is not exactly one.
                let parsed = serde_json::from_str::<Value>(&text).ok();
                let is_exact =
                    |it: &Value| serde_json::to_string(it).is_ok_and(|spelled| spelled == text);
                let exact = parsed.filter(|it| {
                    is_of_type(it, word) && (it.is_array() || it.is_object() || is_exact(it))
                });
                exact.unwrap_or(Value::String(text))
            }
            (_, value) => value,
        };
        (name, value)
    };
    arguments.into_iter().map(typed).collect()
}

/// What is wrong with an argument that has another type than in the schema.
fn wrong_type(schema: &Map<String, Value>, arguments: &Map<String, Value>) -> Option<String> {
    arguments.iter().find_map(|(name, value)| {
        let word = type_of(schema, name).filter(|word| !is_of_type(value, word))?;
        let expected = match word {
            "integer" => "a whole number",
            "boolean" => "true or false",
            "array" => "a list of texts",
            _ => "an object",
        };
        Some(format!("{name}: expected {expected}, found {value}"))
    })
}

/// What a tool takes: the names and types of the arguments that are chosen, what is needed first; the words that one can
/// have; and what an object has.
fn expected(schema: &Map<String, Value>, is_chosen: &dyn Fn(&Value) -> bool) -> String {
    let needed = schema.get("required").and_then(Value::as_array);
    let is_needed = |name: &str| needed.is_some_and(|it| it.iter().any(|it| it == name));
    let argument = |(name, member): (&String, &Value)| {
        let words = member.get("enum").and_then(Value::as_array);
        let kind = match words {
            Some(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "),
            None => match member.get("type").and_then(Value::as_str) {
                Some("string") => "text".to_owned(),
                Some("array") => "list of texts".to_owned(),
                Some("object") => match member.get("description").and_then(Value::as_str) {
                    Some(description) => format!("object. {description}"),
                    None => "object".to_owned(),
                },
                Some(word) => word.to_owned(),
                None => "any JSON".to_owned(),
            },
        };
        format!("{name}{} ({kind})", if is_needed(name) { ", needed" } else { "" })
    };
    let members = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let members = members.filter(|(_, member)| is_chosen(member));
    let (first, rest): (Vec<_>, Vec<_>) = members.partition(|(name, _)| is_needed(name));
    first.into_iter().chain(rest).map(argument).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    //! Goal: an action is answered with the arguments that its request has.

    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::requests::{Request, rules_of_requests};

    /// The members of the request of an action, in the words of the tool.
    fn members_of(action: &str) -> BTreeSet<String> {
        let schema = schemars::schema_for!(Request).to_value();
        let requests = schema["oneOf"].as_array().unwrap().clone();
        let of_action = |it: &&Value| it["properties"]["act"]["const"] == action;
        let request = requests.iter().find(of_action).unwrap();
        let mut own = request["properties"].as_object().unwrap().clone();
        if let Some(name) = request["$ref"].as_str() {
            let members = schema.pointer(name.trim_start_matches('#')).unwrap();
            own.extend(members["properties"].as_object().unwrap().clone());
        }
        let word = |name: String| match name.as_str() {
            "act" => "action".to_owned(),
            // A model limits one run, not the ledger.
            "scope" => "run".to_owned(),
            _ => name,
        };
        own.into_iter().map(|(name, _)| word(name)).collect()
    }

    #[test]
    fn actions_are_described_with_the_members_of_their_requests() {
        let schema = schema_of("ledger_control");
        let arguments = schema["properties"].as_object().unwrap();
        for (action, _) in rules_of_requests().filter(|(_, rules)| rules.control) {
            let described = arguments.iter().filter(|(_, member)| is_for(member, &action));
            let described: BTreeSet<String> = described.map(|(name, _)| name.clone()).collect();
            // What a model may not say, such as the cause of a pause by a runner, is no argument.
            let mut members = members_of(&action);
            members.retain(|name| arguments.contains_key(name));
            assert_eq!(described, members, "{action}");
        }
    }

    #[test]
    fn values_of_another_type_are_accepted_only_if_they_mean_the_same() {
        let schema = json!({ "properties": {
            "text": { "type": "string" }, "number": { "type": "integer" }, "flag": { "type": "boolean" },
            "list": { "type": "array" }, "object": { "type": "object" },
        } });
        let schema = schema.as_object().unwrap();
        for (name, given, read) in [
            ("text", json!({ "a": 1 }), json!("{\"a\":1}")),
            ("text", json!(7), json!("7")),
            ("number", json!("7"), json!(7)),
            ("flag", json!("true"), json!(true)),
            ("list", json!("[\"a\", \"b\"]"), json!(["a", "b"])),
            ("object", json!("{\"raise\": {\"tokens\": 5}}"), json!({ "raise": { "tokens": 5 } })),
        ] {
            let arguments = Map::from_iter([(name.to_owned(), given)]);
            let typed = typed(schema, arguments);
            assert_eq!((&typed[name], wrong_type(schema, &typed)), (&read, None), "{name}");
        }
        for (name, given) in [
            ("number", json!("07")),
            ("number", json!(" 7")),
            ("number", json!("1e3")),
            ("flag", json!("yes")),
            ("list", json!("a")),
            ("object", json!([1])),
        ] {
            let typed = typed(schema, Map::from_iter([(name.to_owned(), given.clone())]));
            assert_eq!(typed[name], given);
            assert!(wrong_type(schema, &typed).unwrap().starts_with(name));
        }
    }
}
