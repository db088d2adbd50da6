//! The author of a change: `--by`, else `LEDGER_BY`, else the login name. On the wire it is a name that
//! is not empty.

#[cfg(test)]
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use clap::Args;
#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::run::parse_name;
use crate::requests::actor::Actor;

/// The author of a change, for the record.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize)]
#[serde(transparent)]
pub struct Author {
    /// Your name, for the record [default: the login name]
    #[arg(long, value_name = "WHO", env = "LEDGER_BY", hide_env_values = true)]
    #[arg(default_value_t = login_name(), hide_default_value = true, value_parser = parse_author)]
    by: String,
}

impl From<String> for Author {
    fn from(by: String) -> Self {
        Self { by }
    }
}

impl From<Author> for String {
    fn from(author: Author) -> Self {
        author.by
    }
}

impl Deref for Author {
    type Target = str;

    fn deref(&self) -> &str {
        &self.by
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.by)
    }
}

impl<'de> Deserialize<'de> for Author {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let by = String::deserialize(from)?;
        if by.trim().is_empty() {
            return Err(D::Error::custom("`by` is empty: name the author"));
        }
        Ok(Self { by })
    }
}

#[cfg(test)]
impl JsonSchema for Author {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Author".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1 })
    }
}

/// Rejects an empty or reserved name of an author.
pub(crate) fn parse_author(text: &str) -> Result<String, String> {
    Actor::expect_own_name(text)?;
    parse_name(text)
}

/// The login name of the user of this process.
pub(crate) fn login_name() -> String {
    whoami::username().unwrap_or_else(|_| "operator".to_owned())
}
