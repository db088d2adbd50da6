//! The places of the parts of a plan in its file.
//!
//! A native plan has the shape of its tree, so a path in the plan is a path in the tree. The steps of other files
//! have a place each.

use std::cell::OnceCell;

use crate::diagnostic::{Diagnostic, Severity};
use crate::syntax::{LineIndex, Node};
use plan_ledger::plan::{Plan, Problem};

/// The place of a step in the file.
#[derive(Debug, Clone)]
pub(crate) enum StepSource {
    Line(u64),
    /// The path of the record in the tree, and the name of its field with the dependencies.
    Path {
        record: String,
        dependencies: &'static str,
    },
}

/// Where the parts of a plan are in its file.
#[derive(Debug)]
pub(crate) struct Source {
    tree: Option<Node>,
    /// The lines of the tree, once they are needed.
    lines: OnceCell<LineIndex>,
    /// The places of the steps; `None` if the tree is the plan.
    steps: Option<Vec<StepSource>>,
}

impl Source {
    /// The source of a plan that has the shape of its tree.
    pub(crate) fn of_plan(tree: Node) -> Self {
        Self { tree: Some(tree), lines: OnceCell::new(), steps: None }
    }

    /// The source of steps with a place each.
    pub(crate) fn of_steps(steps: Vec<StepSource>) -> Self {
        Self { tree: None, lines: OnceCell::new(), steps: Some(steps) }
    }

    /// Sets the tree in which the paths of the steps are.
    pub(crate) fn set_tree(&mut self, tree: Node) {
        self.tree = Some(tree);
    }

    /// The tree.
    pub(crate) fn into_tree(self) -> Option<Node> {
        self.tree
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
            StepSource::Line(line) => Some(*line),
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
