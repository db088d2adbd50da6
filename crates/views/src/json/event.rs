//! Events in lines.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use plan_ledger::Event;

/// The schema of an event: one of the definitions `event_KIND`.
#[derive(Debug)]
pub struct EventSchema;

/// The name of the definition of a kind of event.
#[must_use]
pub fn event_definition(kind: &str) -> String {
    format!("event_{kind}")
}

impl JsonSchema for EventSchema {
    fn schema_name() -> Cow<'static, str> {
        "Event".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let kinds = Event::schemas(generator).into_iter();
        let kinds: Vec<Value> = kinds
            .map(|(kind, _)| json!({ "$ref": format!("#/$defs/{}", event_definition(kind)) }))
            .collect();
        json_schema!({
            "description": "What a record says: the kind of the record names the definition.",
            "anyOf": kinds,
        })
    }
}
