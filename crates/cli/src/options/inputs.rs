//! `--set`: values for the inputs of a plan.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::Value;

use plan_ledger::Plan;
use plan_ledger::plan::InputType;

use crate::output::Failure;

use super::json_value::{read_json_value, read_text};

/// Values for the inputs of a plan.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InputArgs {
    /// The value of an input of a new run: JSON or text, @FILE for a file's content; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_input)]
    set: Vec<(String, String)>,
}

impl InputArgs {
    /// The values by name. An input of type `string` is text as it is typed.
    pub(crate) fn values(&self, plan: &Plan) -> Result<BTreeMap<String, Value>, Failure> {
        let mut values = BTreeMap::new();
        for (name, text) in &self.set {
            let is_text =
                plan.inputs.get(name).is_some_and(|input| input.kind == InputType::String);
            let value = match text.strip_prefix('@') {
                Some(file) if is_text => Value::String(read_text(file)?),
                None if is_text => Value::String(text.clone()),
                _ => read_json_value(text)?,
            };
            if values.insert(name.clone(), value).is_some() {
                return Err(Failure::Usage(format!("--set gives `{name}` twice")));
            }
        }
        Ok(values)
    }

    /// The options as words of a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let words =
            |(name, value): &(String, String)| ["--set".to_owned(), format!("{name}={value}")];
        self.set.iter().flat_map(words).collect()
    }
}

/// Parses `NAME=VALUE`.
fn parse_input(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}
