//! Pictures of a plan: every step and barrier, and what waits for what; and how a text is quoted in
//! the languages of such pictures.

use std::fmt::Write as _;

use crate::plan::{Plan, Step};

/// How much of a title fits into a box.
const CHARS_MAX: usize = 48;

/// For Graphviz.
pub(super) fn dot(plan: &Plan) -> String {
    let quoted = |text: &str| dot_quoted(&plain(text));
    let mut out = format!("digraph \"{}\" {{\n", quoted(&plan.title));
    out.push_str("  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
    for step in &plan.steps {
        let (id, title) = (quoted(&step.id), quoted(&short(step)));
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

/// For Mermaid. Its names are numbers, since it has no way to write every id.
pub(super) fn mermaid(plan: &Plan) -> String {
    let quoted = |text: &str| mermaid_quoted(&plain(text));
    let ids = plan.steps.iter().map(|step| step.id.as_str());
    let ids = ids.chain(plan.barriers.iter().map(|barrier| barrier.id.as_str()));
    let numbers: std::collections::BTreeMap<&str, usize> = ids.zip(1..).collect();
    let number = |id: &str| numbers.get(id).copied().unwrap_or_default();
    let mut out = "flowchart LR\n".to_owned();
    for step in &plan.steps {
        let (id, title) = (quoted(&step.id), quoted(&short(step)));
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

/// What waits, and for what.
fn edges(plan: &Plan) -> impl Iterator<Item = (&str, &str)> {
    let steps = plan.steps.iter().map(|step| (&step.id, &step.after));
    let barriers = plan.barriers.iter().map(|barrier| (&barrier.id, &barrier.members));
    steps
        .chain(barriers)
        .flat_map(|(id, names)| names.iter().map(|name| (id.as_str(), name.as_str())))
}

/// The first line of what a step is about, cut where it gets long.
fn short(step: &Step) -> String {
    let text = if step.title.is_empty() { &step.goal } else { &step.title };
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= CHARS_MAX {
        return line.to_owned();
    }
    let cut: String = line.chars().take(CHARS_MAX).collect();
    format!("{cut}...")
}

/// A text on one line as it stands within the quotes of Graphviz.
#[must_use]
pub fn dot_quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// A text on one line as it stands within the quotes of Mermaid: in entities, since it has no
/// escapes.
#[must_use]
pub fn mermaid_quoted(text: &str) -> String {
    text.replace('#', "#35;").replace('"', "#quot;").replace('<', "#lt;").replace('>', "#gt;")
}

/// A text with nothing in it that a terminal might obey.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
