//! `ledger inspect DIR graph`: dependencies and statuses, for the terminal, Graphviz or Mermaid.
//!
//! Invariant: the graph has every step and barrier of the version, with all dependencies.

use clap::{Args, ValueEnum};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::{BarrierStatus, PlanVersion, TreeNode};
use plan_ledger::{Plan, Run, RunId, StepNumber, StepStatus};
use plan_ledger_files::{escape_dot, escape_mermaid};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::lookup::barrier_word;
use crate::commands::inspect::output::Output;
use crate::options::RunArg;
use crate::output::render::{Paint, width};
use crate::output::{Code, Failure, escape_control};
use plan_ledger_views::{barrier_paint, legend, status_mark, status_paint};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger graph
  ledger inspect .ledger graph my-plan --format dot | dot -Tsvg > plan.svg
  ledger inspect .ledger graph my-plan --format mermaid";

/// Dependencies and statuses: as a tree, for Graphviz, or for Mermaid
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    run: RunArg,
    /// The output format
    #[arg(long, value_name = "FORMAT", default_value = "tree")]
    format: GraphFormat,
    #[command(flatten)]
    at: AtArg,
}

/// A form of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GraphFormat {
    /// For the terminal
    Tree,
    /// For Graphviz
    Dot,
    /// For Mermaid, as in Markdown
    Mermaid,
}

pub(crate) fn graph(
    args: &GraphArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (ledger, id) = LedgerAt::of_run(context, args.at, args.run.name())?;
    let run = ledger.run(id)?;
    let Some(version) = run.active_version() else {
        let message = format!("run {} has no active plan yet", escape_control(&run.name));
        return Err(Failure::Usage(message));
    };
    match (context.form, args.format) {
        (Form::Json, _) => print_json(run, version, out)?,
        (Form::Text, GraphFormat::Tree) => {
            ledger.heading("graph", run, out)?;
            print_tree(run, version, out)?;
        }
        (Form::Text, GraphFormat::Dot) => print_dot(run, version, out)?,
        (Form::Text, GraphFormat::Mermaid) => print_mermaid(run, version, out)?,
    }
    ledger.finish(out)
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

/// The dependencies of a branch, by id.
fn waits<'a>(branch: &'a TreeNode<'a>) -> impl Iterator<Item = &'a str> {
    branch.under.into_iter().chain(branch.also.iter().copied())
}

fn print_json(run: &Run, version: &PlanVersion, out: &mut Output<'_>) -> Result<(), Failure> {
    let plan = version.plan.decode();
    for branch in plan.tree() {
        let step = step_of(run, version, &branch);
        let barrier = run.barriers.get(branch.id).filter(|_| step.is_none());
        let status = match (step, barrier) {
            (Some((_, status)), _) => Some(NodeStatus::Step(status)),
            (None, barrier) => barrier.map(|barrier| NodeStatus::Barrier(barrier.status)),
        };
        out.json(&NodeLine {
            id: branch.id,
            is: if step.is_some() { NodeWord::Step } else { NodeWord::Barrier },
            run: run.id,
            status,
            step: step.map(|(number, _)| number),
            under: branch.under,
            waits_for: waits(&branch).collect(),
        })?;
    }
    Ok(())
}

/// A step or a barrier of a plan.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct NodeLine<'a> {
    /// Its id.
    id: &'a str,
    /// Whether it is a step or a barrier.
    is: NodeWord,
    /// The run.
    run: RunId,
    /// Its status.
    status: Option<NodeStatus>,
    /// The number of the step; null for a barrier.
    step: Option<StepNumber>,
    /// The dependency under which it is drawn.
    under: Option<&'a str>,
    /// The ids of its dependencies; for a barrier, of its members.
    waits_for: Vec<&'a str>,
}

/// The kind of a node.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum NodeWord {
    /// A step.
    Step,
    /// A barrier.
    Barrier,
}

/// The status of a step or a barrier.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(untagged)]
enum NodeStatus {
    /// The status of a step.
    Step(StepStatus),
    /// The status of a barrier.
    Barrier(BarrierStatus),
}

fn print_tree(run: &Run, version: &PlanVersion, out: &mut Output<'_>) -> Result<(), Failure> {
    let mut statuses = Vec::new();
    let plan = version.plan.decode();
    let branches = plan.tree();
    let mut only_child = false;
    for branch in &branches {
        let lead = lead(branch, only_child);
        only_child = branch.children == 1;
        let step = step_of(run, version, branch);
        statuses.extend(step.map(|(_, status)| status));
        let (paint, mark, name) = head(run, version, branch);
        let also: Vec<String> = branch.also.iter().map(|id| escape_control(id)).collect();
        let also = if also.is_empty() {
            String::new()
        } else {
            format!(" (also after {})", also.join(", "))
        };
        let title = title(&plan, branch);
        let used = width(&lead) + 5 + width(&name);
        let rest = format!("{also}{title}");
        let rest = if rest.is_empty() { rest } else { out.style.fit(&rest, used) };
        let (mark, name) = (out.style.paint(paint, &mark), out.style.paint(paint, &name));
        let line = format!("{lead}{mark} {name}{}", out.style.paint(Paint::Faint, &rest));
        out.line(line.trim_end())?;
    }
    out.painted(Paint::Faint, &out.style.fit(&legend(&statuses), 0))
}

/// The lines that lead to a node. An only child is printed below its parent, after an arrow.
fn lead(branch: &TreeNode<'_>, is_only_child: bool) -> String {
    let mut levels = branch.follows.iter().skip(1).copied().collect::<Vec<bool>>();
    let own = if is_only_child { None } else { levels.pop() };
    let mut lead: String = levels.iter().map(|more| if *more { "|   " } else { "    " }).collect();
    match (is_only_child, own) {
        (true, _) => lead.push_str("-> "),
        (false, Some(true)) => lead.push_str("|-- "),
        (false, Some(false)) => lead.push_str("`-- "),
        (false, None) => {}
    }
    lead
}

/// The mark and the name of a node, and their paint.
fn head(run: &Run, version: &PlanVersion, branch: &TreeNode<'_>) -> (Paint, String, String) {
    match (step_of(run, version, branch), run.barriers.get(branch.id)) {
        (Some((number, status)), _) => {
            let mark = format!("[{}]", status_mark(status));
            (status_paint(status), mark, format!("#{number} {}", escape_control(branch.id)))
        }
        (None, Some(barrier)) => {
            let mark = match barrier.status {
                BarrierStatus::Released => "(+)",
                BarrierStatus::Closed => "( )",
                BarrierStatus::Broken => "(x)",
            };
            let count = format!("{}/{}", barrier.arrived.len(), barrier.needed);
            let name = format!("barrier {} {count}", escape_control(branch.id));
            (barrier_paint(barrier.status), mark.to_owned(), name)
        }
        (None, None) => (Paint::None, "( )".to_owned(), escape_control(branch.id)),
    }
}

fn title(plan: &Plan, branch: &TreeNode<'_>) -> String {
    let title =
        branch.step(plan).map(|step| if step.title.is_empty() { &step.goal } else { &step.title });
    title
        .filter(|title| !title.is_empty())
        .map_or_else(String::new, |text| format!("  {}", escape_control(text)))
}

/// A status as one word, for the name of a class.
fn status_word(status: StepStatus) -> String {
    status.to_string().replace(' ', "_")
}

/// The fill and line colours of a status.
fn colours(status: StepStatus) -> (&'static str, &'static str) {
    match status {
        StepStatus::Accepted => ("#d7f0d7", "#2e7d32"),
        StepStatus::Failed => ("#f8d7d7", "#c62828"),
        StepStatus::OutcomeUnknown
        | StepStatus::Reported
        | StepStatus::Gated
        | StepStatus::Delayed => ("#fff3cd", "#b8860b"),
        StepStatus::Dispatched | StepStatus::Ready => ("#d6e6fb", "#1565c0"),
        StepStatus::Waiting => ("#ffffff", "#666666"),
        StepStatus::Skipped | StepStatus::Removed | StepStatus::Cancelled => ("#eeeeee", "#999999"),
    }
}

fn print_dot(run: &Run, version: &PlanVersion, out: &mut Output<'_>) -> Result<(), Failure> {
    let quoted = |text: &str| escape_dot(&escape_control(text));
    out.line(&format!("digraph \"{}\" {{", quoted(&run.name)))?;
    out.line("  rankdir=LR;")?;
    out.line("  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];")?;
    let plan = version.plan.decode();
    let branches = plan.tree();
    for branch in &branches {
        let id = quoted(branch.id);
        let line = match (step_of(run, version, branch), run.barriers.get(branch.id)) {
            (Some((number, status)), _) => {
                let (fill, line) = colours(status);
                format!(
                    "  \"{id}\" [label=\"#{number} {id}\\n{status}\", fillcolor=\"{fill}\", \
                     color=\"{line}\"];"
                )
            }
            (None, barrier) => {
                let status = barrier.map_or("", |barrier| barrier_word(barrier.status));
                format!("  \"{id}\" [label=\"{id}\\n{status}\", shape=diamond, style=solid];")
            }
        };
        out.line(&line)?;
    }
    for branch in &branches {
        for on in waits(branch) {
            out.line(&format!("  \"{}\" -> \"{}\";", quoted(on), quoted(branch.id)))?;
        }
    }
    out.line("}")
}

fn print_mermaid(run: &Run, version: &PlanVersion, out: &mut Output<'_>) -> Result<(), Failure> {
    // Nodes are named by position, since ids may contain any character.
    let quoted = |text: &str| escape_mermaid(&escape_control(text));
    out.line("flowchart LR")?;
    let plan = version.plan.decode();
    let branches = plan.tree();
    let mut shown: Vec<StepStatus> = Vec::new();
    let mut places = std::collections::BTreeMap::new();
    for branch in &branches {
        places.insert(branch.id, branch.node);
        let (node, id) = (branch.node, quoted(branch.id));
        let line = match step_of(run, version, branch) {
            Some((number, status)) => {
                if !shown.contains(&status) {
                    shown.push(status);
                }
                format!("  n{node}[\"#35;{number} {id}\"]:::{}", status_word(status))
            }
            None => format!("  n{node}{{\"{id}\"}}"),
        };
        out.line(&line)?;
    }
    for branch in &branches {
        for on in waits(branch).filter_map(|on| places.get(on)) {
            out.line(&format!("  n{on} --> n{}", branch.node))?;
        }
    }
    shown.sort_unstable();
    shown.iter().try_for_each(|status| {
        let (fill, line) = colours(*status);
        out.line(&format!("  classDef {} fill:{fill},stroke:{line}", status_word(*status)))
    })
}
