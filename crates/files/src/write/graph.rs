//! Dependency graphs of a plan for Graphviz and Mermaid: a node for each step and barrier, and an
//! edge for each dependency.

use std::fmt::Write as _;

use plan_ledger::plan::{Plan, Step};

/// The length of a title in a node, in characters.
const TITLE_CHARS_MAX: usize = 48;

/// A graph for Graphviz.
pub(super) fn dot(plan: &Plan) -> String {
    let quoted = |text: &str| escape_dot(&without_control(text));
    let mut out = format!("digraph \"{}\" {{\n", quoted(&plan.title));
    out.push_str("  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
    for step in &plan.steps {
        let (id, title) = (quoted(&step.id), quoted(&short_title(step)));
        let _ = writeln!(out, "  \"{id}\" [label=\"{id}\\n{title}\"];");
    }
    for barrier in &plan.barriers {
        let id = quoted(&barrier.id);
        let _ = writeln!(out, "  \"{id}\" [label=\"{id}\", shape=diamond, style=solid];");
    }
    for (id, other) in edges(plan) {
        let _ = writeln!(out, "  \"{}\" -> \"{}\";", quoted(other), quoted(id));
    }
    out.push_str("}\n");
    out
}

/// A graph for Mermaid. Nodes are numbered, since Mermaid cannot express every id.
pub(super) fn mermaid(plan: &Plan) -> String {
    let quoted = |text: &str| escape_mermaid(&without_control(text));
    let ids = plan.steps.iter().map(|step| step.id.as_str());
    let ids = ids.chain(plan.barriers.iter().map(|barrier| barrier.id.as_str()));
    let numbers: std::collections::BTreeMap<&str, usize> = ids.zip(1..).collect();
    let number = |id: &str| numbers.get(id).copied().unwrap_or_default();
    let mut out = "flowchart LR\n".to_owned();
    for step in &plan.steps {
        let (id, title) = (quoted(&step.id), quoted(&short_title(step)));
        let _ = writeln!(out, "  n{}[\"{id}: {title}\"]", number(&step.id));
    }
    for barrier in &plan.barriers {
        let _ = writeln!(out, "  n{}{{{{\"{}\"}}}}", number(&barrier.id), quoted(&barrier.id));
    }
    for (id, other) in edges(plan) {
        let _ = writeln!(out, "  n{} --> n{}", number(other), number(id));
    }
    out
}

/// Each dependency: the waiting node and the node that it waits for.
fn edges(plan: &Plan) -> impl Iterator<Item = (&str, &str)> {
    let steps = plan.steps.iter().map(|step| (&step.id, &step.after));
    let barriers = plan.barriers.iter().map(|barrier| (&barrier.id, &barrier.members));
    steps
        .chain(barriers)
        .flat_map(|(id, names)| names.iter().map(|name| (id.as_str(), name.as_str())))
}

/// The first line of the title or goal, shortened.
fn short_title(step: &Step) -> String {
    let text = if step.title.is_empty() { &step.goal } else { &step.title };
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= TITLE_CHARS_MAX {
        return line.to_owned();
    }
    let cut: String = line.chars().take(TITLE_CHARS_MAX).collect();
    format!("{cut}...")
}

/// Escapes one line of text for a quoted string in Graphviz.
#[must_use]
pub fn escape_dot(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Escapes one line of text for a quoted string in Mermaid, which has entities but no escapes.
#[must_use]
pub fn escape_mermaid(text: &str) -> String {
    text.replace('#', "#35;").replace('"', "#quot;").replace('<', "#lt;").replace('>', "#gt;")
}

/// Replaces control characters, so that the graph cannot send escape sequences to a terminal.
fn without_control(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
