//! `ledger plan request`: requests a new version of a run's plan.

use clap::Args;

use plan_ledger::plan::Token;

use crate::commands::inspect::run_name;
use crate::options::{ByOption, LedgerArgs, RunArg, parse_token, parse_words};
use crate::output::{Code, Failure};
use crate::requests::{PlanRequestKind, RequestPlanRequest};

const EXAMPLES: &str = "\
Examples:
  ledger plan request my-plan --from diagnose --reason 'the bug is in another file'
  ledger plan request my-plan --kind scope-change --reason 'also check business credit'
  ledger plan request --kind new-evidence --from score --reason 'a fraud signal' --by ana

The step of --from and its dependents are done again; the worker of the step gets the reason. A planner
(`ledger run --planner`) or a person (`ledger plan propose`) answers with a new version, or rejects
the request (`ledger plan withdraw`). Until then the run does not end, and the step of --from and its
dependents are not dispatched; without --from, only idempotent steps are. In a worker, the request
belongs to its attempt: $LEDGER_RUN, $LEDGER_TOKEN.";

/// Why a version is requested.
const KINDS: &[(&str, &str)] = &[
    ("replan", "The plan does not work"),
    ("new-evidence", "There is evidence that the plan does not take into account"),
    ("scope-change", "The goal changed; it does not count as a replan"),
];

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PlanRequestArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    run: RunArg,
    /// Why a new version is needed
    #[arg(long, value_name = "KIND", default_value = "replan")]
    #[arg(value_parser = parse_words::<PlanRequestKind>(KINDS))]
    kind: PlanRequestKind,
    /// The first step to do again, by id or number (#37)
    #[arg(long, value_name = "STEP")]
    from: Option<String>,
    /// The reason, for the planner and for the workers of the steps that are done again
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The attempt that requests it
    #[arg(long, value_name = "TOKEN", env = "LEDGER_TOKEN", hide_env_values = true)]
    #[arg(value_parser = parse_token)]
    token: Option<Token>,
    #[command(flatten)]
    author: ByOption,
}

pub(super) fn request(args: &PlanRequestArgs) -> Result<Code, Failure> {
    args.ledger.execute_for_worker(RequestPlanRequest {
        run: run_name(&args.ledger, args.run.name())?,
        kind: args.kind,
        from: args.from.clone(),
        reason: args.reason.clone(),
        by: args.author.by.clone(),
        token: args.token,
    })
}
