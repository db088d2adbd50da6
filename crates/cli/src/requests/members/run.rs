//! The run of a request: the argument RUN where its command has one, else `--run`, else `LEDGER_RUN`.
//! Without a name it is the only run that is active, else the newest, which the process that executes the
//! request finds.

#[cfg(test)]
use std::borrow::Cow;

use clap::Args;
#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// A run by its name or number, as an option.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunOption {
    /// The run's name [default: the only active run, else the newest]
    #[arg(long, value_name = "RUN", env = "LEDGER_RUN", hide_env_values = true)]
    #[arg(value_parser = parse_name)]
    pub(crate) run: Option<String>,
}

impl RunOption {
    /// The name, if one is given.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.run.as_deref()
    }
}

impl From<Option<String>> for RunOption {
    fn from(run: Option<String>) -> Self {
        Self { run }
    }
}

impl From<String> for RunOption {
    fn from(run: String) -> Self {
        Self { run: Some(run) }
    }
}

/// A run by its name or number, as an argument or as an option.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(from = "Option<String>", into = "Option<String>")]
pub struct RunArg {
    /// The run's name [default: the only active run, else the newest]
    #[arg(id = "run_name", value_name = "RUN", value_parser = parse_name)]
    name: Option<String>,
    #[command(flatten)]
    option: RunOption,
}

impl RunArg {
    /// The name, if one is given.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref().or(self.option.name())
    }
}

impl From<Option<String>> for RunArg {
    fn from(name: Option<String>) -> Self {
        Self { name, option: RunOption::default() }
    }
}

impl From<String> for RunArg {
    fn from(name: String) -> Self {
        Some(name).into()
    }
}

impl From<RunArg> for Option<String> {
    fn from(run: RunArg) -> Self {
        run.name.or(run.option.run)
    }
}

#[cfg(test)]
impl JsonSchema for RunOption {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "RunOption".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Option::<String>::json_schema(generator)
    }
}

#[cfg(test)]
impl JsonSchema for RunArg {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "RunArg".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Option::<String>::json_schema(generator)
    }
}

/// Rejects an empty name: in a shell script it is mostly an unset variable.
pub(crate) fn parse_name(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("it is empty; give a name, or leave the option out".to_owned());
    }
    Ok(text.to_owned())
}
