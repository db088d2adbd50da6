//! The steps and barriers of a run's active version, with their dependencies and statuses.
//!
//! Invariant: the graph has every step and barrier of the version, with all dependencies.

use plan_ledger::plan::{BarrierStatus, PlanVersion, TreeNode};
use plan_ledger::{Plan, Run, RunId, StepNumber, StepStatus};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Block, Document, Paint, Text, Tree, TreeRow};
use crate::words::{barrier_paint, legend};

/// A step or a barrier of a plan.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct NodeLine {
    /// Its id.
    pub id: String,
    /// The kind: a step or a barrier.
    is: NodeWord,
    /// The run.
    run: RunId,
    /// Its status.
    pub status: Option<NodeStatus>,
    /// The number of the step; null for a barrier.
    pub step: Option<StepNumber>,
    /// The dependency under which it is drawn.
    under: Option<String>,
    /// The ids of its dependencies; for a barrier, of its members.
    pub waits_for: Vec<String>,
    /// Its place in the version, from 0.
    #[serde(skip)]
    pub place: usize,
}

/// The kind of a node.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NodeWord {
    /// A step.
    Step,
    /// A barrier.
    Barrier,
}

/// The status of a step or a barrier.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(untagged)]
pub enum NodeStatus {
    /// The status of a step.
    Step(StepStatus),
    /// The status of a barrier.
    Barrier(BarrierStatus),
}

/// A plan as a graph.
#[derive(Debug)]
pub struct GraphView {
    /// A line for each node.
    pub nodes: Vec<NodeLine>,
    tree: Tree,
    legend: String,
}

impl GraphView {
    /// The graph of a version of a run's plan.
    #[must_use]
    pub fn of(run: &Run, version: &PlanVersion) -> Self {
        let plan = version.plan.decode();
        let branches = plan.tree();
        let mut statuses = Vec::new();
        let row = |branch: &TreeNode<'_>| {
            statuses.extend(step_of(run, version, branch).map(|(_, status)| status));
            let also = branch.also.join(", ");
            let also =
                if also.is_empty() { String::new() } else { format!(" (also after {also})") };
            TreeRow {
                follows: branch.follows.clone(),
                children: branch.children,
                label: head(run, version, branch),
                rest: Text::painted(Paint::Faint, format!("{also}{}", title(&plan, branch))),
            }
        };
        let tree = Tree { rows: branches.iter().map(row).collect() };
        let nodes = branches.iter().map(|branch| NodeLine::of(run, version, branch)).collect();
        Self { nodes, tree, legend: legend(&statuses) }
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        document.push(Block::Tree(self.tree.clone()));
        document.cut(0, (Paint::Faint, self.legend.as_str()));
        document
    }
}

impl NodeLine {
    fn of(run: &Run, version: &PlanVersion, branch: &TreeNode<'_>) -> Self {
        let step = step_of(run, version, branch);
        let barrier = run.barrier(branch.id).filter(|_| step.is_none());
        let status = match (step, barrier) {
            (Some((_, status)), _) => Some(NodeStatus::Step(status)),
            (None, barrier) => barrier.map(|barrier| NodeStatus::Barrier(barrier.status)),
        };
        let waits = branch.under.into_iter().chain(branch.also.iter().copied());
        Self {
            id: branch.id.to_owned(),
            is: if step.is_some() { NodeWord::Step } else { NodeWord::Barrier },
            place: branch.node,
            run: run.id,
            status,
            step: step.map(|(number, _)| number),
            under: branch.under.map(str::to_owned),
            waits_for: waits.map(str::to_owned).collect(),
        }
    }
}

/// The number and status of a branch that is a step.
fn step_of(
    run: &Run,
    version: &PlanVersion,
    branch: &TreeNode<'_>,
) -> Option<(StepNumber, StepStatus)> {
    let number = *version.numbers.get(branch.node)?;
    Some((number, run.step(number)?.status))
}

/// The mark and the name of a node.
fn head(run: &Run, version: &PlanVersion, branch: &TreeNode<'_>) -> Text {
    match (step_of(run, version, branch), run.barrier(branch.id)) {
        (Some((number, status)), _) => Text::step(number, status, branch.id),
        (None, Some(barrier)) => {
            let mark = match barrier.status {
                BarrierStatus::Released => "(+)",
                BarrierStatus::Closed => "( )",
                BarrierStatus::Broken => "(x)",
            };
            let (arrived, needed) = (barrier.arrived.len(), barrier.needed);
            let text = format!("{mark} barrier {} {arrived}/{needed}", branch.id);
            Text::painted(barrier_paint(barrier.status), text)
        }
        (None, None) => Text::from(format!("( ) {}", branch.id)),
    }
}

fn title(plan: &Plan, branch: &TreeNode<'_>) -> String {
    let title =
        branch.step(plan).map(|step| if step.title.is_empty() { &step.goal } else { &step.title });
    title.filter(|title| !title.is_empty()).map_or_else(String::new, |text| format!("  {text}"))
}
