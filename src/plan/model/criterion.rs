//! Criteria: conditions that must hold before a step or a run is done.
//!
//! In a plan file a criterion is a string, which is a `text` criterion, or a map with exactly one
//! of the keys `text`, `command` and `cel`. It is always written as a map.

use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// One acceptance or test criterion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Criterion {
    /// Judged by a person or a judge, or trusted, as the run's policy says.
    Text(String),
    /// A shell command that the runner executes; exit status 0 passes.
    Command(String),
    /// A CEL expression over output and variables.
    Cel(String),
}

impl Criterion {
    /// The text, command or expression.
    #[must_use]
    pub fn body(&self) -> &str {
        match self {
            Self::Text(body) | Self::Command(body) | Self::Cel(body) => body,
        }
    }
}

impl<'de> Deserialize<'de> for Criterion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CriterionVisitor)
    }
}

struct CriterionVisitor;

impl<'de> Visitor<'de> for CriterionVisitor {
    type Value = Criterion;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a criterion: text, or an object with one of `text`, `command`, `cel`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Criterion, E> {
        Ok(Criterion::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Criterion, A::Error> {
        let Some(key) = map.next_key::<String>()? else {
            return Err(A::Error::custom(
                "an empty criterion; expected `text`, `command` or `cel`",
            ));
        };
        let body: String = map.next_value()?;
        let criterion = match key.as_str() {
            "text" => Criterion::Text(body),
            "command" => Criterion::Command(body),
            "cel" => Criterion::Cel(body),
            _ => return Err(A::Error::unknown_field(&key, &["text", "command", "cel"])),
        };
        if let Some(second) = map.next_key::<String>()? {
            return Err(A::Error::custom(format_args!(
                "a criterion has one key, found `{key}` and `{second}`; write two criteria"
            )));
        }
        Ok(criterion)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Criterion {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Criterion".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let one = |key: &str| {
            serde_json::json!({
                "type": "object",
                "properties": { key: { "type": "string" } },
                "required": [key],
                "additionalProperties": false
            })
        };
        schemars::json_schema!({
            "description": "A condition that must hold: a text, or a map with one of text, command, cel.",
            "oneOf": [{ "type": "string" }, one("text"), one("command"), one("cel")]
        })
    }
}
