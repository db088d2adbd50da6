//! The places of the parts of a plan in its file.
//!
//! A native plan has the shape of its tree, so a path in the plan is a path in the tree. The steps of other files
//! have a place each.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use crate::diagnostic::{Diagnostic, Severity};
use crate::syntax::{Field, LineIndex, Node};
use plan_ledger::plan::{Plan, Problem};

/// The place of a step in the file.
#[derive(Debug, Clone)]
pub(crate) enum StepSource {
    /// Its first and its last line, and the line with its status in words, if it has one.
    Lines { first: u64, last: u64, status: Option<u64> },
    /// The path of the record in the tree, and the name of its field with the dependencies.
    Path { record: String, dependencies: &'static str },
}

/// The cells of a table, whose texts are no values of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cells {
    /// Comma-separated values.
    Csv,
    /// A table of Markdown.
    Table,
}

/// Where the parts of a plan are in its file.
#[derive(Debug)]
pub(crate) struct Source {
    tree: Option<Node>,
    /// The form of the cells, if the records of the tree are rows.
    pub(crate) cells: Option<Cells>,
    /// The lines of the tree, once they are needed.
    lines: OnceCell<LineIndex>,
    /// The places of the steps; `None` if the tree is the plan.
    steps: Option<Vec<StepSource>>,
}

impl Source {
    /// The source of a plan that has the shape of its tree.
    pub(crate) fn of_plan(tree: Node) -> Self {
        Self { tree: Some(tree), cells: None, lines: OnceCell::new(), steps: None }
    }

    /// The source of steps with a place each.
    pub(crate) fn of_steps(steps: Vec<StepSource>) -> Self {
        Self { tree: None, cells: None, lines: OnceCell::new(), steps: Some(steps) }
    }

    /// Sets the tree in which the paths of the steps are.
    pub(crate) fn set_tree(&mut self, tree: Node) {
        self.tree = Some(tree);
    }

    /// The tree.
    pub(crate) fn into_tree(self) -> Option<Node> {
        self.tree
    }

    pub(crate) fn tree(&self) -> Option<&Node> {
        self.tree.as_ref()
    }

    /// The places of the steps, in the order of the plan; `None` if the tree is the plan.
    pub(crate) fn steps(&self) -> Option<&[StepSource]> {
        self.steps.as_deref()
    }

    /// The record of each step; `None` for a step that is none.
    pub(crate) fn records(&self) -> Vec<Option<&Node>> {
        let (Some(tree), Some(steps)) = (&self.tree, &self.steps) else { return Vec::new() };
        let mut nodes = BTreeMap::new();
        add_nodes(String::new(), tree, &mut nodes);
        let record = |source: &StepSource| match source {
            StepSource::Path { record, .. } => nodes.get(record).copied(),
            StepSource::Lines { .. } => None,
        };
        steps.iter().map(record).collect()
    }

    pub(super) fn is_of_plan(&self) -> bool {
        self.steps.is_none()
    }

    pub(super) fn add_step(&mut self, source: StepSource) {
        self.steps.get_or_insert_default().push(source);
    }

    /// The line of a path in the tree.
    fn line(&self, path: &str) -> Option<u64> {
        let tree = self.tree.as_ref()?;
        self.lines.get_or_init(|| LineIndex::of(tree)).line(path)
    }

    /// The line of a step.
    pub(crate) fn line_of_step(&self, step: usize) -> Option<u64> {
        match self.steps.as_ref()?.get(step)? {
            StepSource::Lines { first, .. } => Some(*first),
            StepSource::Path { record, .. } => self.line(record),
        }
    }

    /// The line of a place in the plan, such as `steps[3] (build).after[1]`.
    fn line_of_place(&self, plan: &Plan, place: &str) -> Option<u64> {
        let path = without_id(plan, place);
        let Some(steps) = &self.steps else { return self.line(&path) };
        let index = path.strip_prefix("steps[")?.split(']').next()?.parse::<usize>().ok()?;
        match steps.get(index)? {
            StepSource::Path { record, dependencies } if path.contains("].after") => {
                self.line(&format!("{record}.{dependencies}"))
            }
            _ => self.line_of_step(index),
        }
    }

    /// The problems of a plan as diagnostics with lines.
    pub(super) fn diagnostics(
        &self,
        plan: &Plan,
        problems: Vec<Problem>,
        severity: Severity,
    ) -> Vec<Diagnostic> {
        let diagnostic = |Problem { place, message }: Problem| {
            let line = self.line_of_place(plan, &place);
            Diagnostic { severity, line, column: None, place, message }
        };
        problems.into_iter().map(diagnostic).collect()
    }

    /// Adds the lines to diagnostics of a reader. If one has no line, its place is a path in the tree.
    pub(super) fn locate(&self, mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
        for diagnostic in diagnostics.iter_mut().filter(|diagnostic| diagnostic.line.is_none()) {
            diagnostic.line = self.line(&diagnostic.place);
        }
        diagnostics
    }
}

/// Adds the values of a tree that may be records, by their paths.
fn add_nodes<'a>(path: String, node: &'a Node, nodes: &mut BTreeMap<String, &'a Node>) {
    for (index, item) in node.items().iter().enumerate() {
        add_nodes(format!("{path}[{index}]"), item, nodes);
    }
    for Field { name, value, .. } in node.fields() {
        let is_top = path.is_empty();
        add_nodes(if is_top { name.clone() } else { format!("{path}.{name}") }, value, nodes);
    }
    nodes.entry(path).or_insert(node);
}

/// A path from a place, which has the id of the step in parentheses for readability.
fn without_id(plan: &Plan, place: &str) -> String {
    let Some((list, rest)) = place.split_once('[') else { return place.to_owned() };
    let Some((index, rest)) = rest.split_once(']') else { return place.to_owned() };
    let id = index.parse::<usize>().ok().and_then(|index| match list {
        "steps" => plan.steps.get(index).map(|step| step.id.as_str()),
        "barriers" => plan.barriers.get(index).map(|barrier| barrier.id.as_str()),
        "phases" => plan.phases.get(index).map(|phase| phase.id.as_str()),
        "failure.rules" => plan.failure.rules.get(index).map(|rule| rule.id.as_str()),
        _ => None,
    });
    let shown = id.map(|id| format!(" ({})", id.escape_debug()));
    let rest = shown.and_then(|shown| rest.strip_prefix(shown.as_str())).unwrap_or(rest);
    format!("{list}[{index}]{rest}")
}
