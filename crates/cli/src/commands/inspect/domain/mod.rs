//! What is asked about runs: the plan and how far it is, the past, and pictures of both.
//!
//! Invariants:
//! - Every answer is that of the pure layer (`plan::explain`, the views, the projections), for one
//!   state: the newest, or that of a record of the past. It says which.
//! - No answer needs all of a log: the state comes from a snapshot, a step's history from the links
//!   between its records, a run's from the postings. So these commands do not say that every byte
//!   is well; `ledger verify` does.
//! - Damage on the way ends nothing: the state before it is shown, with what is missing.

mod approvals;
mod at;
mod barriers;
mod budget;
mod chart;
mod compare;
mod cost;
mod diff;
mod graph;
mod history;
mod metrics;
mod operator;
mod pace;
mod plan;
mod queue;
mod reasons;
mod runs;
mod scene;
mod state_lines;
mod timeline;
mod variables;
mod view_json;
mod views;
mod why;

use clap::Subcommand;

use crate::output::{Code, Failure};

use super::Look;
use super::page::Page;

pub(super) use scene::{At, Scene, StepOf};
pub(crate) use views::StatusArgs;
pub(super) use views::status;
pub(super) use why::reasons_text;

/// The help of each is that of its arguments.
#[derive(Debug, Subcommand)]
pub(super) enum DomainWhat {
    Runs(runs::RunsArgs),
    Plan(plan::PlanArgs),
    Queue(queue::QueueArgs),
    Variables(variables::VariablesArgs),
    Barriers(barriers::BarriersArgs),
    Budget(budget::BudgetArgs),
    Approvals(approvals::ApprovalsArgs),
    Cost(cost::CostArgs),
    Metrics(metrics::MetricsArgs),
    View(views::ViewArgs),
    At(at::AtArgs),
    Diff(diff::DiffArgs),
    Why(why::WhyArgs),
    History(history::HistoryArgs),
    Timeline(timeline::TimelineArgs),
    Graph(graph::GraphArgs),
    Progress(pace::ProgressArgs),
}

/// Answer.
pub(super) fn answer(
    what: &DomainWhat,
    look: Look<'_>,
    page: &mut Page<'_>,
) -> Result<Code, Failure> {
    match what {
        DomainWhat::Runs(args) => runs::runs(args, look, page),
        DomainWhat::Plan(args) => plan::plan(args, look, page),
        DomainWhat::Queue(args) => queue::queue(args, look, page),
        DomainWhat::Variables(args) => variables::variables(args, look, page),
        DomainWhat::Barriers(args) => barriers::barriers(args, look, page),
        DomainWhat::Budget(args) => budget::budget(args, look, page),
        DomainWhat::Approvals(args) => approvals::approvals(args, look, page),
        DomainWhat::Cost(args) => cost::cost(args, look, page),
        DomainWhat::Metrics(args) => metrics::metrics(args, look, page),
        DomainWhat::View(args) => views::view(args, look, page),
        DomainWhat::At(args) => at::at(args, look, page),
        DomainWhat::Diff(args) => diff::diff(args, look, page),
        DomainWhat::Why(args) => why::why(args, look, page),
        DomainWhat::History(args) => history::history(args, look, page),
        DomainWhat::Timeline(args) => timeline::timeline(args, look, page),
        DomainWhat::Graph(args) => graph::graph(args, look, page),
        DomainWhat::Progress(args) => pace::progress(args, look, page),
    }
}
