//! Records a note.

use std::fmt;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::{Note, StepState};

use crate::protocol::Failure;

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::find::{run_or_only, step_of};
use super::kind::RequestKind;
use super::members::{Author, RunOption};
use super::rules::{Role, Rules};

const EXAMPLES: &str = "\
Examples:
  ledger note 'the network was down from 3 to 4' --by ana
  ledger note 'took the small model' --step build  in a worker: $LEDGER_RUN, $LEDGER_STEP

A note is a separate record and changes nothing: `ledger inspect DIR records --kind note`.";

/// Attach a note to the ledger, a run or a step.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[command(after_help = EXAMPLES)]
#[serde(deny_unknown_fields)]
pub struct NoteRequest {
    /// The run's name or number. Without run and step the note is about the ledger.
    #[serde(default)]
    #[command(flatten)]
    pub run: RunOption,
    /// The step that it is about, by id or number (#37).
    #[arg(long, value_name = "STEP", env = "LEDGER_STEP", hide_env_values = true)]
    #[serde(default)]
    pub step: Option<String>,
    /// The text of the note.
    pub text: String,
    /// The author, for the record.
    #[command(flatten)]
    pub by: Author,
}

/// A note was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct NoteAnswer {
    /// The record.
    pub seq: u64,
    /// The run; null for a note about the ledger.
    pub run: Option<String>,
    /// The step's id; null for a note about the run or the ledger.
    pub step: Option<String>,
    /// The step number.
    pub number: Option<u32>,
}

impl RequestKind for NoteRequest {
    const RULES: Rules =
        Rules::of(Role::Worker).with_attempts().creating_at("/v1/notes").of_control();

    type Answer = NoteAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<NoteAnswer, Failure> {
        if self.text.trim().is_empty() {
            return Err(Failure::Usage("a note needs text".to_owned()));
        }
        let mut note =
            Note { run: None, step: None, by: self.by.to_string(), text: self.text.clone() };
        let mut answer = NoteAnswer { seq: 0, run: None, step: None, number: None };
        if self.run.name().is_some() || self.step.is_some() {
            context.read(|state| {
                let run = run_or_only(state, self.run.name())?;
                let number = self.step.as_ref().map(|step| step_of(run, step)).transpose()?;
                (note.run, note.step) = (Some(run.id), number);
                let step = number.and_then(|number| run.step(number)).map(StepState::id);
                answer.run = Some(run.name.clone());
                answer.step = step.map(str::to_owned);
                answer.number = number.map(|number| number.0);
                Ok::<_, Failure>(())
            })??;
        }
        answer.seq = context.ledger.add_note(&note, context.options.key)?.seq;
        Ok(answer)
    }
}

impl AnswerLine for NoteAnswer {
    const WORD: &'static str = "noted";
}

impl fmt::Display for NoteAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}: noted", self.seq)
    }
}
