//! Strict reading of native plans from a tree. If a plan has errors, each field is read for itself, so that all of
//! them are reported at once, with the references of the rest that name nothing.
//!
//! Invariant: a plan that can be read has no errors. Their number is bounded.

use super::marks::{MARKS_FIELD, MarkedPlan};
use crate::diagnostic::{Diagnostic, ReadError, ReadResult, Severity};
use crate::draft::{PlanDraft, Source};
use crate::plan_file::PlanFormat;
use crate::syntax::{Field, Kind, Node, TypedError, typed, yaml_tree};
use plan_ledger::plan::{Plan, Step};

/// How many errors are collected.
const ERRORS_MAX: usize = 50;

/// The largest malformed YAML text that is read again, in bytes.
const YAML_BYTES_MAX: usize = 1024 * 1024;

/// Reads a native plan.
pub(crate) fn parse(tree: Node, format: PlanFormat) -> ReadResult<PlanDraft> {
    match typed::<MarkedPlan>(&tree) {
        Ok(plan) => Ok(PlanDraft::complete(plan.into_plan_file(format), Source::of_plan(tree))),
        Err(error) => Err(with_all_errors(error, &tree, format)),
    }
}

/// Reads a native plan without errors, if it is one; else gives the tree back.
pub(crate) fn parse_valid(
    tree: Node,
    format: PlanFormat,
    is_wanted: bool,
) -> Result<PlanDraft, Node> {
    let plan = typed::<MarkedPlan>(&tree).ok().filter(|_| is_wanted);
    match plan {
        Some(plan) => Ok(PlanDraft::complete(plan.into_plan_file(format), Source::of_plan(tree))),
        None => Err(tree),
    }
}

/// The errors of malformed YAML. The field with an error is left out and the rest is read again, so that all errors
/// of the syntax are reported, and then those of the fields. If the rest stays malformed, only the first error is
/// kept, since the others may follow from it.
pub(crate) fn yaml_errors(text: &str, first: ReadError) -> ReadError {
    if text.len() > YAML_BYTES_MAX {
        return first;
    }
    let mut lines: Vec<&str> = text.lines().collect();
    let (mut errors, mut next, mut last) = (Vec::new(), Some(first), 0_u64);
    while let Some(error) = next.take() {
        let ReadError::Syntax { line: Some(line), .. } = &error else { return error };
        let line = *line;
        let at = usize::try_from(line).ok().and_then(|line| line.checked_sub(1));
        let at = at.filter(|_| line > last && errors.len() < ERRORS_MAX);
        let is_left_out = at.is_some_and(|at| leave_out_field(&mut lines, at));
        last = line;
        errors.push(error);
        if !is_left_out {
            break;
        }
        match yaml_tree(&lines.join("\n")) {
            Err(error) => next = Some(error),
            Ok(tree) => {
                let of_fields = all_errors(&tree, PlanFormat::Yaml);
                if errors.len() == 1 && of_fields.is_empty() {
                    break;
                }
                let mut all: Vec<Diagnostic> =
                    errors.into_iter().flat_map(ReadError::into_diagnostics).collect();
                all.extend(of_fields);
                all.truncate(ERRORS_MAX);
                return ReadError::Invalid(all);
            }
        }
    }
    errors.swap_remove(0)
}

/// Leaves out a field: its line, and the lines below that are indented deeper. The dash of an item stays. Returns
/// whether there was anything to leave out.
fn leave_out_field(lines: &mut [&str], at: usize) -> bool {
    let Some(line) = lines.get_mut(at) else { return false };
    let content = line.trim_start();
    let inner = content.strip_prefix("- ").map(str::trim_start);
    let inner = inner.filter(|inner| inner.contains(": ") || inner.ends_with(':'));
    let indent = line.len().saturating_sub(inner.unwrap_or(content).len());
    if content.is_empty() {
        return false;
    }
    *line = if inner.is_some() { line.get(..indent).unwrap_or_default() } else { "" };
    for line in lines.iter_mut().skip(at.saturating_add(1)) {
        let depth = line.len().saturating_sub(line.trim_start().len());
        if !line.trim().is_empty() && depth <= indent {
            break;
        }
        *line = "";
    }
    true
}

/// Replaces the first error by all of them, if there are several.
fn with_all_errors(first: TypedError, tree: &Node, format: PlanFormat) -> ReadError {
    let errors = all_errors(tree, format);
    if errors.len() > 1 { ReadError::Invalid(errors) } else { first.into() }
}

/// The errors of all fields, and the references of the rest that name nothing.
fn all_errors(tree: &Node, format: PlanFormat) -> Vec<Diagnostic> {
    let mut check = Check { errors: Vec::new(), lacks_names: false };
    let rest = check.plan(tree);
    if !check.lacks_names
        && let Ok(plan) = typed::<MarkedPlan>(&rest)
    {
        let draft = PlanDraft::complete(plan.into_plan_file(format), Source::of_plan(rest.clone()));
        check.errors.extend(reference_errors(draft));
    }
    check.errors
}

/// The references of a plan without its wrong fields that name nothing.
fn reference_errors(draft: PlanDraft) -> Vec<Diagnostic> {
    match draft.validate() {
        Err(ReadError::Invalid(mut found)) => {
            found.retain(|each| {
                each.severity == Severity::Problem && each.message.starts_with("there is no ")
            });
            found
        }
        _ => Vec::new(),
    }
}

/// Reads the fields of a plan one by one.
struct Check {
    errors: Vec<Diagnostic>,
    /// Whether the name of a step or a barrier may be among the wrong fields.
    lacks_names: bool,
}

impl Check {
    /// Checks the fields of a plan, and returns those that can be read.
    fn plan(&mut self, tree: &Node) -> Node {
        let mut kept = Vec::new();
        for field in tree.fields() {
            match &field.value.kind {
                Kind::List(steps) if field.name == "steps" => {
                    let steps: Vec<Node> = (0_usize..)
                        .zip(steps)
                        .map(|(index, step)| self.step(&format!("steps[{index}]"), step))
                        .collect();
                    let value = Node { kind: Kind::List(steps), ..field.value.clone() };
                    kept.push(Field { value, ..field.clone() });
                }
                _ => {
                    let alone = object(tree, vec![field.clone()]);
                    let read = match field.name.as_str() {
                        MARKS_FIELD => typed::<MarkedPlan>(&alone).map(drop),
                        _ => typed::<Plan>(&alone).map(drop),
                    };
                    if self.keep(read, "") {
                        kept.push(field.clone());
                    } else {
                        self.lacks_names |= ["steps", "barriers"].contains(&field.name.as_str());
                    }
                }
            }
        }
        object(tree, kept)
    }

    /// Checks the fields of a step, and returns those that can be read.
    fn step(&mut self, path: &str, step: &Node) -> Node {
        let is_object = matches!(step.kind, Kind::Map(_));
        if is_object && step.field("id").is_none() {
            self.lacks_names = true;
            self.keep(typed::<Step>(&object(step, Vec::new())).map(drop), path);
        }
        if !is_object {
            self.lacks_names = true;
            self.keep(typed::<Step>(step).map(drop), path);
            return step.clone();
        }
        let id = Node { place: step.place, kind: Kind::Text("x".to_owned()) };
        let id = Field { name: "id".to_owned(), place: step.place, value: id };
        let mut kept = Vec::new();
        for field in step.fields() {
            let mut alone = vec![field.clone()];
            if field.name != "id" {
                alone.push(id.clone());
            }
            if self.keep(typed::<Step>(&object(step, alone)).map(drop), path) {
                kept.push(field.clone());
            } else {
                self.lacks_names |= field.name == "id";
            }
        }
        object(step, kept)
    }

    /// Whether a part could be read; else its error is kept.
    fn keep(&mut self, read: Result<(), TypedError>, path: &str) -> bool {
        let Err(error) = read else { return true };
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error.diagnostic(path));
        }
        false
    }
}

/// The same object with other fields.
fn object(of: &Node, fields: Vec<Field>) -> Node {
    Node { place: of.place, kind: Kind::Map(fields) }
}
