//! Options of `ledger run` about the judge, the planner, the decider, and the part of the plan that
//! workers see.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use plan_ledger::ApprovalPolicy;
use plan_ledger_files::{PlanFile, Programs, ReadOptions, read_tools};

use crate::output::Failure;
use crate::protocol::PlanContext;
use crate::runner::{FailureDecider, Helpers, Judge, PlannedWork, Planner};
use crate::server::AgentSession;

/// The name of a planner's answer in error messages.
const ANSWER_NAME: &str = "its answer";

/// Judge, planner, decider and plan context.
#[derive(Debug, Args)]
pub(super) struct HelperArgs {
    /// Shell command that judges text criteria: reads a JSON request, prints a JSON verdict
    #[arg(long, value_name = "CMD", conflicts_with = "stub")]
    pub(super) judge: Option<String>,
    /// Shell command that prints a new plan on request: reads a JSON request
    #[arg(long, value_name = "CMD", conflicts_with = "stub")]
    planner: Option<String>,
    /// Shell command that decides about failures, for a plan with `decider: external`: reads a JSON
    /// request, prints a JSON decision
    #[arg(long, value_name = "CMD", conflicts_with = "stub")]
    decider: Option<String>,
    /// Complete the planner's plans from this registry of tools: YAML or JSON (format/tools.md)
    #[arg(long, value_name = "FILE", requires = "planner")]
    tools: Option<PathBuf>,
    /// Whether the planner's plans wait for approval
    #[arg(long, value_name = "HOW", default_value = "ask", requires = "planner")]
    approve: PlannerApproval,
    /// The part of the plan that each worker gets
    #[arg(long, value_name = "PART", default_value = "near")]
    plan_context: ContextChoice,
}

/// The handling of a planner's plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlannerApproval {
    /// It waits for `ledger plan approve`, unless the plan itself asks a person
    Ask,
    /// It becomes active, unless the run or the plan requires approval; only a person chooses this
    Auto,
}

/// The part of the plan that workers get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ContextChoice {
    /// The steps that a step depends on, and those that depend on it
    Near,
    /// All steps
    Full,
}

impl HelperArgs {
    /// The judge, the planner and the decider. With `commands_approved`, commands in the plans of
    /// the planner need no question.
    pub(super) fn helpers(&self, commands_approved: bool) -> Result<Helpers, Failure> {
        let chosen_by = AgentSession::of_environment().map(|session| session.name);
        let judge = self.judge.clone();
        let judge = judge.map(|command| Judge { command, chosen_by: chosen_by.clone() });
        let approval = match self.approve {
            PlannerApproval::Ask => ApprovalPolicy::Required,
            PlannerApproval::Auto => ApprovalPolicy::Automatic,
        };
        let tools = self.tools.as_ref().map(|file| read_tools(file)).transpose();
        let tools = tools.map_err(Failure::of_input)?;
        let planner = self.planner.clone().map(|command| Planner {
            command,
            approval,
            read: read_answer,
            commands_approved,
            tools,
        });
        let decider = self.decider.clone();
        let decider = decider.map(|command| FailureDecider { command, chosen_by });
        Ok(Helpers { judge, planner, decider })
    }

    /// Whether versions of the planner become active without a person.
    pub(super) fn approves_versions(&self) -> bool {
        self.planner.is_some() && self.approve == PlannerApproval::Auto
    }

    /// Whether there is a planner.
    pub(super) fn has_planner(&self) -> bool {
        self.planner.is_some()
    }

    /// Whether there is a decider.
    pub(super) fn has_decider(&self) -> bool {
        self.decider.is_some()
    }

    /// The part of the plan that workers get.
    pub(super) fn context(&self) -> PlanContext {
        match self.plan_context {
            ContextChoice::Near => PlanContext::Near,
            ContextChoice::Full => PlanContext::Full,
        }
    }
}

/// Reads the plan that a planner printed, in any form of a plan file, with its criteria that read as
/// commands. Its marks of finished steps are ignored: the run knows which steps are finished.
pub(crate) fn read_answer(printed: &[u8]) -> Result<PlannedWork, String> {
    let text = std::str::from_utf8(printed).map_err(|error| error.to_string())?;
    let options = ReadOptions { programs: Some(Programs::of_process()), ..ReadOptions::default() };
    let imported = options.parse(ANSWER_NAME, text);
    let PlanFile { plan, commands, .. } = imported.map_err(|error| error.to_string())?;
    let commands = commands.into_iter().map(|stated| stated.command).collect();
    Ok(PlannedWork { plan, commands })
}
