//! Settings in a JSON file, which may have comments.
//!
//! The settings are an object. Its lists are lists of hooks: ours are added at the end, and replaced if
//! they differ. Its objects are entered; the MCP server is set as a whole. Other members are set if the
//! file lacks them. The text of everything else stays as it is.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::{Map, Value};

use crate::output::Failure;

use super::own::{Program, SERVER};
use super::target::Target;

/// JSON with comments and trailing commas, as hosts read it.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_extended_string_escapes: false,
    allow_non_finite_numbers: false,
};

/// The text of the file with the settings.
pub(super) fn with_settings(
    target: Target<'_>,
    text: Option<&str>,
    settings: &str,
) -> Result<String, Failure> {
    let text = text.filter(|text| !text.trim().is_empty()).unwrap_or("{\n}\n");
    let root = parse(target, text)?;
    let object = root.object_value().ok_or_else(|| not_an_object(target))?;
    add(target, &object, &own_settings(target, settings))?;
    Ok(root.to_string())
}

/// The text of the file without the settings; `None` if it has no other content.
pub(super) fn without_settings(
    target: Target<'_>,
    text: &str,
    settings: &str,
) -> Result<Option<String>, Failure> {
    let root = parse(target, text)?;
    let object = root.object_value().ok_or_else(|| not_an_object(target))?;
    let settings = own_settings(target, settings);
    let has_changed = remove(target, &object, &settings);
    let is_ours = |name: &str| settings.get(name).is_some_and(|value| !is_container(value));
    let is_left = |name: &Option<String>| !name.as_deref().is_some_and(is_ours);
    if has_changed && !names(&object).iter().any(is_left) && !has_comment(&root.children()) {
        return Ok(None);
    }
    Ok(Some(root.to_string()))
}

fn own_settings(target: Target<'_>, settings: &str) -> Map<String, Value> {
    let mut settings: Value = serde_json::from_str(settings).expect("the plugin folders are valid");
    target.program.put_into(&mut settings);
    match settings {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn parse(target: Target<'_>, text: &str) -> Result<CstRootNode, Failure> {
    CstRootNode::parse(text, &OPTIONS).map_err(|error| {
        let (line, column) = (error.line_display(), error.column_display());
        target.refused(&format!("the file is not valid JSON: line {line}, column {column}"))
    })
}

fn not_an_object(target: Target<'_>) -> Failure {
    target.refused("expected a JSON object, found another value")
}

fn add(
    target: Target<'_>,
    object: &CstObject,
    settings: &Map<String, Value>,
) -> Result<(), Failure> {
    for (name, value) in settings {
        match value {
            Value::Object(_) if name == SERVER => set_server(target, object, value)?,
            Value::Object(members) => {
                let inner = object.object_value_or_create(name);
                let other = || target.refused(&format!("expected an object in `{name}`"));
                add(target, &inner.ok_or_else(other)?, members)?;
            }
            Value::Array(entries) => add_hooks(target, object, name, entries)?,
            value if object.get(name).is_none() => {
                object.append(name, input(value));
            }
            _ => {}
        }
    }
    Ok(())
}

fn set_server(target: Target<'_>, object: &CstObject, server: &Value) -> Result<(), Failure> {
    let Some(property) = object.get(SERVER) else {
        object.append(SERVER, input(server));
        return Ok(());
    };
    let found = property.value().and_then(|value| value.to_serde_value()).unwrap_or_default();
    if !Program::is_own_server(&found) {
        let why = format!("there is another MCP server with the name `{SERVER}`");
        return Err(target.refused(&why));
    }
    if found != *server {
        property.set_value(input(server));
    }
    Ok(())
}

fn add_hooks(
    target: Target<'_>,
    object: &CstObject,
    name: &str,
    entries: &[Value],
) -> Result<(), Failure> {
    let list = object.array_value_or_create(name);
    let list = list.ok_or_else(|| target.refused(&format!("expected a list in `{name}`")))?;
    let own = || {
        list.elements().into_iter().filter_map(|element| {
            let value = element.to_serde_value()?;
            target.program.is_own_hook(&value).then_some((element, value))
        })
    };
    if own().map(|(_, value)| value).eq(entries.iter().cloned()) {
        return Ok(());
    }
    own().for_each(|(element, _)| element.remove());
    for entry in entries {
        list.append(input(entry));
    }
    Ok(())
}

/// Removes the settings. Returns whether there were any.
fn remove(target: Target<'_>, object: &CstObject, settings: &Map<String, Value>) -> bool {
    let mut has_changed = false;
    for (name, value) in settings {
        let Some(property) = object.get(name) else { continue };
        match value {
            Value::Object(_) if name == SERVER => {
                let found = property.value().and_then(|value| value.to_serde_value());
                if found.is_some_and(|found| Program::is_own_server(&found)) {
                    property.remove();
                    has_changed = true;
                }
            }
            Value::Object(members) => {
                let Some(inner) = property.object_value() else { continue };
                if remove(target, &inner, members) {
                    has_changed = true;
                    if inner.properties().is_empty() {
                        property.remove();
                    }
                }
            }
            Value::Array(_) => {
                let Some(list) = property.array_value() else { continue };
                for element in list.elements() {
                    let found = element.to_serde_value();
                    if found.is_some_and(|found| target.program.is_own_hook(&found)) {
                        element.remove();
                        has_changed = true;
                    }
                }
                if has_changed && list.elements().is_empty() {
                    property.remove();
                }
            }
            _ => {}
        }
    }
    has_changed
}

/// Whether a person wrote something that is not a setting.
fn has_comment(nodes: &[CstNode]) -> bool {
    nodes.iter().any(|node| node.is_comment() || has_comment(&node.children()))
}

fn names(object: &CstObject) -> Vec<Option<String>> {
    let names = object
        .properties()
        .into_iter()
        .map(|property| property.name().and_then(|name| name.decoded_value().ok()));
    names.collect()
}

fn is_container(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

/// A value for the editor of JSON texts.
fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), input(value)));
            CstInputValue::Object(members.collect())
        }
    }
}
