//! Strict parsing of native plans in JSON and YAML.

use serde_json::Value;

use super::all_errors;
use super::marks::MarkedPlan;
use crate::diagnostic::{Diagnostic, ReadError, ReadResult, Severity, plan_error};
use crate::draft::{PlanDraft, SourceMap};
use crate::plan_file::PlanFormat;
use crate::syntax;

/// Parses a JSON text that is a native plan without errors.
pub(crate) fn parse_valid_json(text: &str, value: &Value) -> Option<PlanDraft> {
    value.get("steps").filter(|steps| steps.is_array())?;
    plan_ledger::mutant!(RecordFieldOutvotesPlan => return None);
    let plan = syntax::parse_json::<MarkedPlan>(text).ok()?;
    if list_as_object(value, &plan).is_some() {
        return None;
    }
    Some(PlanDraft::complete(plan.into_plan_file(PlanFormat::Json), SourceMap::Json))
}

/// Parses a YAML text that is a native plan without errors.
pub(crate) fn parse_valid_yaml(text: &str) -> Option<PlanDraft> {
    let plan = syntax::parse_yaml::<MarkedPlan>(text).ok()?;
    Some(PlanDraft::complete(plan.into_plan_file(PlanFormat::Yaml), SourceMap::Yaml))
}

/// Parses a native JSON plan. `value` is the same text as an untyped value.
pub(crate) fn parse_json(text: &str, value: &Value) -> ReadResult<PlanDraft> {
    match syntax::parse_json::<MarkedPlan>(text) {
        Ok(plan) => match list_as_object(value, &plan) {
            None => Ok(PlanDraft::complete(plan.into_plan_file(PlanFormat::Json), SourceMap::Json)),
            Some(mut problem) => {
                problem.line = syntax::LineIndex::of_json(text).line(&problem.place);
                Err(ReadError::Invalid(vec![problem]))
            }
        },
        Err(error) => Err(with_all_errors(error, |_| all_errors::in_json(text, value))),
    }
}

/// The problem of a list where an object belongs. The YAML library reports it itself.
fn list_as_object(value: &Value, plan: &MarkedPlan) -> Option<Diagnostic> {
    let read = serde_json::to_value(plan.plan()).ok()?;
    let (place, message) = syntax::list_for_object(value, &read)?;
    Some(Diagnostic::at_path(Severity::Problem, place, message))
}

/// Parses a native YAML plan.
pub(crate) fn parse_yaml(text: &str) -> ReadResult<PlanDraft> {
    match syntax::parse_yaml::<MarkedPlan>(text) {
        Ok(plan) => Ok(PlanDraft::complete(plan.into_plan_file(PlanFormat::Yaml), SourceMap::Yaml)),
        Err(error) => Err(with_all_errors(error, |first| all_errors::in_yaml(text, first))),
    }
}

/// Replaces the first error by all of them, if there are several.
fn with_all_errors(first: ReadError, collect: impl Fn(ReadError) -> Vec<Diagnostic>) -> ReadError {
    let ReadError::Syntax { line, column, error } = first else { return first };
    let copy = || ReadError::Syntax { line, column, error: plan_error(error.message()) };
    let all = collect(copy());
    let is_plain = all.len() == 1 && !syntax::is_vague(error.message());
    if all.is_empty() || is_plain { copy() } else { ReadError::Invalid(all) }
}
