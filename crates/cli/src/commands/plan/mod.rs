//! `ledger plan`: plan files, and the versions of a run's plan.
//!
//! Plan files are only read, but for their marks (`export --into`). A result goes to standard output, or into a file that
//! must not exist.

mod add;
mod diff;
mod enrich;
mod export;
mod forms;
pub(crate) mod into;
pub(crate) mod lint;
mod make;
mod planned_files;
mod propose;
pub(crate) mod review;
mod show;

use clap::{Args, Subcommand};

use crate::options::RequestArgs;
use crate::output::{Code, Failure};
use crate::requests::{RequestPlanRequest, ReviewRequest, WithdrawRequest};

const EXAMPLES: &str = "\
Examples:
  ledger plan lint plan.yaml                       find errors and likely mistakes
  ledger plan export tasks.json -o plan.yaml       convert a plan of another tool
  ledger plan propose plan.yaml                    start a run of it, for `ledger work`
  ledger plan review my-plan                       show the version that waits for approval

Each command has more examples in its `--help`.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanArgs {
    #[command(subcommand)]
    task: PlanTask,
}

#[derive(Debug, Subcommand)]
enum PlanTask {
    /// List errors and likely mistakes in a plan file, with their lines
    Lint(lint::PlanLintArgs),
    /// Show a plan file of any form
    Show(show::PlanShowArgs),
    /// Convert a plan file to our own YAML, JSON or Markdown, or to a diagram
    Export(export::PlanExportArgs),
    /// Compare two plan files: steps, fields, order
    Diff(diff::PlanDiffArgs),
    /// Fill in fields of a plan's steps from a registry of tools
    Enrich(enrich::PlanEnrichArgs),
    /// Let a planner command make the first plan of a run from a goal
    Make(make::PlanMakeArgs),
    /// Start a run of a plan, or propose the next version of a run's plan
    Propose(propose::PlanProposeArgs),
    /// Propose a version with one more step
    Add(add::PlanAddArgs),
    /// Show the version of a run's plan that waits for approval
    Review(review::PlanReviewArgs),
    /// Approve the version that waits, so that it becomes active
    Approve(RequestArgs<ReviewRequest>),
    /// Reject the version that waits
    Reject(RequestArgs<ReviewRequest>),
    Request(RequestArgs<RequestPlanRequest>),
    Withdraw(RequestArgs<WithdrawRequest>),
}

pub(crate) fn plan(args: &PlanArgs) -> Result<Code, Failure> {
    match &args.task {
        PlanTask::Lint(args) => lint::lint(args),
        PlanTask::Show(args) => show::show(args),
        PlanTask::Export(args) => export::export(args),
        PlanTask::Diff(args) => diff::diff_files(args),
        PlanTask::Enrich(args) => enrich::enrich_file(args),
        PlanTask::Make(args) => make::make(args),
        PlanTask::Propose(args) => propose::propose(args),
        PlanTask::Add(args) => add::add(args),
        PlanTask::Review(args) => review::review(args),
        PlanTask::Approve(args) => review::approve(args),
        PlanTask::Reject(args) => review::reject(args),
        PlanTask::Request(args) => args.execute(),
        PlanTask::Withdraw(args) => args.execute(),
    }
}
