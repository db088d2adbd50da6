//! `ledger inspect DIR graph`: dependencies and statuses, for the terminal, Graphviz or Mermaid.
//!
//! Invariant: the graph has every step and barrier of the version, with all dependencies.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};

use plan_ledger::StepStatus;
use plan_ledger_files::{escape_dot, escape_mermaid};
use plan_ledger_views::{Block, Document, GraphView, NodeStatus, barrier_word};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::options::RunArg;
use crate::output::{Code, Failure, escape_control};

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
        let message = format!("run {} has no active plan yet", run.name);
        return Err(Failure::Usage(message));
    };
    let graph = GraphView::of(run, version);
    let verbatim = |text: String| Document::of(Block::Verbatim(text));
    match (context.form, args.format) {
        (Form::Json, _) => graph.nodes.iter().try_for_each(|node| out.json(node))?,
        (Form::Text, GraphFormat::Tree) => {
            ledger.heading("graph", run, out)?;
            out.document(&graph.document())?;
        }
        (Form::Text, GraphFormat::Dot) => out.document(&verbatim(dot(&run.name, &graph)))?,
        (Form::Text, GraphFormat::Mermaid) => out.document(&verbatim(mermaid(&graph)))?,
    }
    ledger.finish(out)
}

/// A status as one word, for the name of a class.
fn status_word(status: StepStatus) -> String {
    status.to_string().replace(' ', "_")
}

/// The fill and line colors of a status.
fn colors(status: StepStatus) -> (&'static str, &'static str) {
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

/// The graph in the language of Graphviz.
fn dot(run: &str, graph: &GraphView) -> String {
    let quoted = |text: &str| escape_dot(&escape_control(text));
    let mut lines = vec![
        format!("digraph \"{}\" {{", quoted(run)),
        "  rankdir=LR;".to_owned(),
        "  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];".to_owned(),
    ];
    for node in &graph.nodes {
        let id = quoted(&node.id);
        lines.push(match (node.step, node.status) {
            (Some(number), Some(NodeStatus::Step(status))) => {
                let (fill, line) = colors(status);
                format!(
                    "  \"{id}\" [label=\"#{number} {id}\\n{status}\", fillcolor=\"{fill}\", \
                     color=\"{line}\"];"
                )
            }
            (_, status) => {
                let status = match status {
                    Some(NodeStatus::Barrier(status)) => barrier_word(status),
                    _ => "",
                };
                format!("  \"{id}\" [label=\"{id}\\n{status}\", shape=diamond, style=solid];")
            }
        });
    }
    for node in &graph.nodes {
        let edge = |on: &String| format!("  \"{}\" -> \"{}\";", quoted(on), quoted(&node.id));
        lines.extend(node.waits_for.iter().map(edge));
    }
    lines.push("}".to_owned());
    lines.join("\n")
}

/// The graph in the language of Mermaid. Nodes are named by position, since ids may contain any character.
fn mermaid(graph: &GraphView) -> String {
    let quoted = |text: &str| escape_mermaid(&escape_control(text));
    let mut lines = vec!["flowchart LR".to_owned()];
    let mut shown: Vec<StepStatus> = Vec::new();
    let places: BTreeMap<&str, usize> =
        graph.nodes.iter().map(|node| (node.id.as_str(), node.place)).collect();
    for node in &graph.nodes {
        let (place, id) = (node.place, quoted(&node.id));
        lines.push(match (node.step, node.status) {
            (Some(number), Some(NodeStatus::Step(status))) => {
                if !shown.contains(&status) {
                    shown.push(status);
                }
                format!("  n{place}[\"#35;{number} {id}\"]:::{}", status_word(status))
            }
            _ => format!("  n{place}{{\"{id}\"}}"),
        });
    }
    for node in &graph.nodes {
        let known = node.waits_for.iter().filter_map(|on| places.get(on.as_str()));
        lines.extend(known.map(|on| format!("  n{on} --> n{}", node.place)));
    }
    shown.sort_unstable();
    lines.extend(shown.iter().map(|status| {
        let (fill, line) = colors(*status);
        format!("  classDef {} fill:{fill},stroke:{line}", status_word(*status))
    }));
    lines.join("\n")
}
