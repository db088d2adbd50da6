//! Forks a run.

use std::fmt;

use clap::{ArgGroup, Args};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::{Limits, NameKind};
use plan_ledger::{ForkPoint, Run};

use plan_ledger_views::recorded_text;

use crate::protocol::Failure;

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::find::{
    check_name, open_request, request_command, run_of, run_or_only, run_status, step_of,
};
use super::kind::RequestKind;
use super::members::{Author, RunArg};
use super::rules::{Role, Rules};

const EXAMPLES: &str = "\
Examples:
  ledger fork my-plan --at 120 --name what-if             as it was after record 120
  ledger fork my-plan --step deploy --name again          before that step was first dispatched

The new run has the same plan versions, finished work and variables. Steps that were in flight start
again, and the costs of the other run do not count against its budget. Your files stay as they are: a
fork does not rewind them. Continue it with `ledger run PLAN --run NEW`.";

/// Fork a run from its state at a record, or before a step.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("place").args(["at", "step"]).required(true))]
#[serde(deny_unknown_fields)]
pub struct ForkRequest {
    /// The run's name or number; by default the only run that has not ended, else the newest.
    #[command(flatten)]
    #[serde(default)]
    pub run: RunArg,
    /// The new run's name.
    #[arg(long, value_name = "NEW")]
    pub name: String,
    /// The last record of the run to keep; either this or `step`.
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    #[serde(default)]
    pub at: Option<u64>,
    /// Fork before the first dispatch of this step, by id or number (#37).
    #[arg(long, value_name = "STEP")]
    #[serde(default)]
    pub step: Option<String>,
    /// The author, for the record.
    #[command(flatten)]
    pub by: Author,
    /// Whether an agent makes it that decides for no person: it gives no run a new budget.
    #[arg(skip)]
    #[serde(skip)]
    pub is_of_agent: bool,
}

/// A run was forked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ForkAnswer {
    /// The new run.
    pub run: String,
    /// The run that was forked.
    pub parent: String,
    /// The last record of the parent that the new run includes.
    pub at_seq: u64,
    /// The status of the new run.
    pub status: String,
    /// The record of the request for a new plan that was open, which the new run has, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_request: Option<u64>,
    /// The steps that must not be done twice and were begun in the parent; the run is paused before them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begun_before: Vec<String>,
}

impl RequestKind for ForkRequest {
    const RULES: Rules = Rules::of(Role::Operator).long().creating_at("/v1/runs/{run}/fork");

    type Answer = ForkAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<ForkAnswer, Failure> {
        check_name(NameKind::Run, &self.name)?;
        let ledger = context.ledger;
        let (parent, parent_name) = context.read(|state| {
            let run = run_or_only(state, self.run.name())?;
            Ok::<_, Failure>((run.id, run.name.clone()))
        })??;
        if self.is_of_agent && ledger.run(parent)?.limits() != Limits::default() {
            let message = format!(
                "run {parent_name} has a budget, and a fork would have it once more, which only a person gives\nhint: tell the user \
                 what it is for; a person forks it in a shell that no agent host started"
            );
            return Err(Failure::Rejected(message));
        }
        let point = match (&self.step, self.at) {
            (Some(step), None) => ForkPoint::Before(step_of(&ledger.run(parent)?, step)?),
            (None, Some(at)) => ForkPoint::After(at),
            _ => {
                let message = "a fork needs either `at` (a record) or `step`";
                return Err(Failure::Usage(message.to_owned()));
            }
        };
        // Reading the parent run takes time and needs no lock.
        let command = ledger.fork_command(parent, point, &self.name, &self.by)?;
        context.execute(&|_| Ok(command.clone()), |_, _| ())?;
        context.read(|state| {
            let run = run_of(state, &self.name)?;
            Ok(ForkAnswer {
                run: self.name.clone(),
                parent: parent_name,
                at_seq: run.fork.as_ref().map_or(0, |forked| forked.at_seq),
                status: run_status(run),
                open_request: open_request(run),
                begun_before: begun_before(run),
            })
        })?
    }
}

/// The steps that must not be done twice, have had attempts, and are open.
fn begun_before(run: &Run) -> Vec<String> {
    let begun = run.begun_once().into_iter().filter_map(|number| run.step(number));
    begun.map(|step| step.id().to_owned()).collect()
}

impl AnswerLine for ForkAnswer {
    const WORD: &'static str = "forked";

    fn messages(&self) -> Vec<String> {
        // An agent may be the reader, and a person's command is not for it.
        let next = || request_command("next", &[&self.run]);
        let request = self.open_request.map(|seq| {
            format!(
                "the request for a new plan (record {seq}) stays open: `{}` says what answers it",
                next()
            )
        });
        let begun = (!self.begun_before.is_empty()).then(|| {
            format!(
                "begun in run {} and not to be done twice: {}; run {} is paused: skip what was done; `{}` says what continues it",
                self.parent,
                self.begun_before.join(", "),
                self.run,
                next()
            )
        });
        request.into_iter().chain(begun).collect()
    }
}

impl fmt::Display for ForkAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, parent, at_seq, status, .. } = self;
        let status = recorded_text(status);
        write!(f, "run {run}: forked from run {parent} at record {at_seq}; it is {status}")
    }
}
