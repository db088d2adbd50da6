//! Who is asked beside the workers of a run, and what workers are told of the plan: options of
//! `ledger run`.

use clap::{Args, ValueEnum};

use crate::runner::{Helpers, Judge, PlanContext, Planner};
use plan_ledger::files;
use plan_ledger::plan::{ApprovalPolicy, Plan};

/// What a planner's answer is called in messages about it.
const ANSWER_NAME: &str = "its answer";

/// Judge, planner and plan context.
#[derive(Debug, Args)]
pub(super) struct HelperArgs {
    /// Shell command that judges text criteria: it is asked in JSON, and prints a verdict as JSON
    #[arg(long, value_name = "CMD", conflicts_with = "stub")]
    pub(super) judge: Option<String>,
    /// Shell command that prints another plan when one is asked for: it is asked in JSON
    #[arg(long, value_name = "CMD", conflicts_with = "stub")]
    planner: Option<String>,
    /// Whether the planner's plans wait for somebody's yes
    #[arg(long, value_name = "HOW", default_value = "ask", requires = "planner")]
    approve: Approve,
    /// How much of the plan every worker is told
    #[arg(long, value_name = "PART", default_value = "near")]
    plan_context: Part,
}

/// What happens to a planner's plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Approve {
    /// It waits for `ledger plan approve`, unless the plan asks somebody itself
    Ask,
    /// It becomes active, unless the run or the plan wants somebody's yes
    Auto,
}

/// How much of the plan is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The steps that a step builds on, and those that build on it
    Near,
    /// All of it
    Full,
}

impl HelperArgs {
    /// Who is asked.
    pub(super) fn helpers(&self) -> Helpers {
        let judge = self.judge.clone().map(|command| Judge { command });
        let approval = match self.approve {
            Approve::Ask => ApprovalPolicy::Required,
            Approve::Auto => ApprovalPolicy::Automatic,
        };
        let planner =
            self.planner.clone().map(|command| Planner { command, approval, read: read_answer });
        Helpers { judge, planner }
    }

    /// What workers are told.
    pub(super) fn context(&self) -> PlanContext {
        match self.plan_context {
            Part::Near => PlanContext::Near,
            Part::Full => PlanContext::Full,
        }
    }
}

/// The plan that a planner printed, in any form that a plan file may have. What it marks as done is
/// of no account: the run knows better.
fn read_answer(printed: &[u8]) -> Result<Plan, String> {
    let text = std::str::from_utf8(printed).map_err(|error| error.to_string())?;
    let imported = files::parse(ANSWER_NAME, text).map_err(|error| error.to_string())?;
    Ok(imported.plan)
}
