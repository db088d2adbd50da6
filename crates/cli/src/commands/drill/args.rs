//! The arguments of `ledger drill`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::Value;

use plan_ledger::Plan;

use crate::options::{AsJson, InputArgs, ReadPlanArgs};
use crate::output::Failure;
use crate::protocol::option;

/// The run's name in every ledger of a drill.
pub(super) const RUN: &str = "drill";

const EXAMPLES: &str = "\
Examples:
  ledger drill plan.yaml                           kill the run at step 37
  ledger drill tasks.json --kill-at 100            kill it at another step
  ledger drill plan.yaml --keep drill              keep both ledgers, to inspect them
  ledger drill plan.yaml --every-crash             crash at every change of the disk, and resume
  ledger drill plan.yaml --every-crash --agents flaky --seed 7

The stub workers answer `extra.stub` of a step, else values that fit its criteria.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DrillArgs {
    /// The plan: our own YAML, JSON or Markdown, or a file of task-master, Ralph, beads, spec-kit,
    /// OpenSpec, any JSON list of tasks, any Markdown with tasks (format/plan-files.md)
    #[arg(value_name = "PLAN")]
    pub(super) plan: PathBuf,
    /// The number of the step that is in flight when the run is killed, or the next one if that one
    /// is skipped [default: 37, or the middle of a shorter plan]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) kill_at: Option<u32>,
    /// How many stub workers may run at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) max_parallel: u16,
    /// Keep the ledgers in this folder, which is created and must be empty
    #[arg(long, value_name = "DIR")]
    pub(super) keep: Option<PathBuf>,
    /// Crash at every write of the run to a simulated disk, and resume each time
    #[arg(long, conflicts_with_all = ["kill_at", "keep"])]
    pub(super) every_crash: bool,
    /// The agents of `--every-crash`: flaky agents fail the first attempt of some steps
    #[arg(long, value_name = "WHO", default_value = "steady", requires = "every_crash")]
    pub(super) agents: AgentBehavior,
    /// The seed of `--every-crash`
    #[arg(long, value_name = "N", default_value_t = 1, requires = "every_crash")]
    pub(super) seed: u64,
    /// Try only the crash at this change, counted from 0
    #[arg(long, value_name = "K", requires = "every_crash")]
    pub(super) at: Option<usize>,
    #[command(flatten)]
    pub(super) inputs: InputArgs,
    #[command(flatten)]
    pub(super) read: ReadPlanArgs,
    #[command(flatten)]
    pub(super) json: AsJson,
}

impl DrillArgs {
    /// The values of the plan's inputs: none may be missing.
    pub(super) fn input_values(&self, plan: &Plan) -> Result<BTreeMap<String, Value>, Failure> {
        let values = self.inputs.values(plan)?;
        let missing = plan.missing_inputs(|name| values.contains_key(name));
        if missing.is_empty() {
            return Ok(values);
        }
        let add = missing.iter().map(|name| option("--set", &format!("{name}=VALUE")));
        Err(Failure::Rejected(format!(
            "the plan needs values for its inputs: {}\nhint: add {}",
            missing.join(", "),
            add.collect::<Vec<_>>().join(" ")
        )))
    }
}

/// How the agents of `--every-crash` behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum AgentBehavior {
    /// They report immediately, and always the same
    Steady,
    /// They fail the first attempt of some steps
    Flaky,
}

impl AgentBehavior {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Flaky => "flaky",
        }
    }
}
