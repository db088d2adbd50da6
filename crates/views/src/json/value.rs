//! Values without a type of their own.

#[cfg(feature = "schema")]
use std::borrow::Cow;

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;

/// A value that a plan, a worker or a person wrote: any JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct AnyJson(pub Value);

impl From<Value> for AnyJson {
    fn from(value: Value) -> Self {
        Self(value)
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for AnyJson {
    fn schema_name() -> Cow<'static, str> {
        "AnyJson".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "A value that a plan, a worker or a person wrote: any JSON." })
    }
}
