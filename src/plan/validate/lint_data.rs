//! Warnings about variables: those that no step sets, and steps that read one before it is set.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::model::graph::cycle::Edge;
use crate::plan::model::graph::edges::{Item, edges, ids, shown};
use crate::plan::model::graph::name_index::NameIndex;
use crate::plan::model::input::PlanInput;
use crate::plan::model::plan::Plan;
use crate::plan::model::problem::Problem;
use crate::plan::model::step::Step;
use crate::plan::value::expression;

/// How many nodes the search for dependencies visits in all, so that linting a large plan ends soon.
const VISITS_MAX: usize = 2_000_000;

/// The variables of a plan, and the steps and inputs that set them.
pub(super) struct VariableLint<'a> {
    writers: BTreeMap<&'a str, Vec<usize>>,
    inputs: &'a BTreeMap<String, PlanInput>,
    edges: Vec<Vec<Edge>>,
    visits: usize,
}

impl<'a> VariableLint<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        let mut writers: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, step) in plan.steps.iter().enumerate() {
            for name in &step.outputs {
                writers.entry(name).or_default().push(index);
            }
        }
        let edges = edges(plan, &NameIndex::new(ids(plan)));
        Self { writers, inputs: &plan.inputs, edges, visits: 0 }
    }

    /// The warnings about the inputs of a step.
    pub(super) fn step(&mut self, plan: &Plan, item: Item<'_>, step: &Step) -> Vec<Problem> {
        let mut found = Vec::new();
        let mut before = None;
        for (index, name) in step.inputs.iter().enumerate() {
            let field = format!(".inputs[{index}]");
            if self.is_unset(name) {
                let name = shown(name);
                let text =
                    format!("no step has the output `{name}`: it is null unless it is set by hand");
                found.push(item.problem(field, text));
            } else if let Some(writer) = self.late_writer(item.index, name, &mut before) {
                found.push(item.problem(field, late_text(plan, name, writer)));
            }
        }
        // A condition is evaluated once, a precondition again when its variable is set.
        for name in step.condition.iter().flat_map(|body| expression::free_variables(body)) {
            if self.is_unset(&name) {
                found.push(item.problem(".condition", unset_text(&name)));
            } else if let Some(writer) = self.late_writer(item.index, &name, &mut before) {
                found.push(item.problem(".condition", late_text(plan, &name, writer)));
            }
        }
        for (index, body) in step.preconditions.iter().enumerate() {
            for name in expression::free_variables(body) {
                if self.is_unset(&name) {
                    let field = format!(".preconditions[{index}]");
                    found.push(item.problem(field, unset_text(&name)));
                }
            }
        }
        found
    }

    /// Whether neither a step nor an input of the plan sets a variable.
    fn is_unset(&self, name: &str) -> bool {
        !self.writers.contains_key(name) && !self.inputs.contains_key(name)
    }

    /// A step that sets a variable, if no writer of it comes before this step.
    fn late_writer(
        &mut self,
        node: usize,
        name: &str,
        before: &mut Option<BTreeSet<usize>>,
    ) -> Option<usize> {
        if self.inputs.contains_key(name) {
            return None;
        }
        let writers = self.writers.get(name)?.clone();
        let first = writers.first().copied().filter(|_| !writers.contains(&node))?;
        let before = before.get_or_insert_with(|| self.before(node));
        if self.visits >= VISITS_MAX || writers.iter().any(|writer| before.contains(writer)) {
            return None;
        }
        Some(first)
    }

    /// The nodes that a node waits for, directly or not.
    fn before(&mut self, node: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open = vec![node];
        while let Some(next) = open.pop() {
            for edge in self.edges.get(next).into_iter().flatten() {
                self.visits = self.visits.saturating_add(1);
                if self.visits >= VISITS_MAX {
                    return found;
                }
                if found.insert(edge.to) {
                    open.push(edge.to);
                }
            }
        }
        found
    }
}

fn unset_text(name: &str) -> String {
    format!("no step has the output `{}`: set it by hand, or correct the name", shown(name))
}

fn late_text(plan: &Plan, name: &str, writer: usize) -> String {
    let id = plan.steps.get(writer).map_or("", |step| step.id.as_str());
    format!(
        "reads `{}`, but does not come after `{}`, which sets it; add it to after",
        shown(name),
        shown(id)
    )
}
