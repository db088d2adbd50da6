//! Sets a variable of a run.

use std::fmt;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use plan_ledger::plan::NameKind;
use plan_ledger::{Command, Event, Json, RunId, State};

use crate::protocol::Failure;

use super::actor::Actor;
use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::find::{check_name, run_or_only};
use super::kind::RequestKind;
use super::members::{Author, RunOption};
use super::rules::{HttpMethod, Role, Rules};

/// Set a variable.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SetRequest {
    /// The run's name or number; by default the only run that has not ended.
    #[command(flatten)]
    #[serde(default)]
    pub run: RunOption,
    /// The variable's name.
    #[arg(skip)]
    pub name: String,
    /// Its value: any JSON.
    #[arg(skip)]
    pub value: Value,
    /// Only if the variable has this version; 0 if it is not set.
    #[arg(long, value_name = "N")]
    #[serde(default)]
    pub if_version: Option<u64>,
    /// The author, for the record.
    #[command(flatten)]
    pub by: Author,
}

/// A variable was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SetAnswer {
    /// The run.
    pub run: String,
    /// The variable's name.
    pub name: String,
    /// Its new version.
    pub version: u64,
}

impl RequestKind for SetRequest {
    const RULES: Rules = Rules::of(Role::Worker)
        .with_attempts()
        .at(HttpMethod::Put, "/v1/runs/{run}/variables/{name}")
        .of_control();

    type Answer = SetAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<SetAnswer, Failure> {
        check_name(NameKind::Variable, &self.name)?;
        let value = Json::new(&self.value);
        let make = |state: &State| {
            let run = run_or_only(state, self.run.name())?.id;
            let (name, value, origin) =
                (self.name.clone(), value.clone(), Actor::of(&self.by).origin());
            Ok(Command::SetVariable { run, name, value, expected_version: self.if_version, origin })
        };
        context.execute(&make, |state, events| {
            let set = events.iter().find_map(|(_, event)| match event {
                Event::VariableSet(set) => Some((set.run, set.version)),
                _ => None,
            });
            let (run, version) = set.unwrap_or((RunId(0), 0));
            let run = state.runs.get(&run).map_or_else(String::new, |run| run.name.clone());
            SetAnswer { run, name: self.name.clone(), version }
        })
    }
}

impl AnswerLine for SetAnswer {
    const WORD: &'static str = "set";
}

impl fmt::Display for SetAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, name, version } = self;
        write!(f, "{name} of run {run}: version {version}")
    }
}
