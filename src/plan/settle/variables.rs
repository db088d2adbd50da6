//! The variables that an accepted step sets.

use std::collections::BTreeMap;

use crate::plan::event::Event;
use crate::plan::event::receipt::Output;
use crate::plan::event::run_event::{Origin, VariableSet};
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::run::Run;
use crate::plan::state::step_state::Attempt;
use crate::plan::value::ids::StepNumber;
use crate::plan::value::json::Json;

/// The variables that an accepted attempt sets: the outputs of the step, then those of its receipt.
pub(crate) fn variable_events(run: &Run, number: StepNumber, attempt: &Attempt) -> Vec<Event> {
    let Some(receipt) = &attempt.receipt else { return Vec::new() };
    let mut values =
        run.plan_step(number).map(|step| outputs(step, &receipt.output)).unwrap_or_default();
    values.extend(receipt.variables.iter().cloned());
    set_variables(run, values, &Origin::Step { step: number, token: attempt.token })
}

/// The declared outputs that an attempt did not report and that are not optional.
pub(crate) fn missing_outputs(run: &Run, number: StepNumber, attempt: &Attempt) -> Vec<String> {
    let (Some(step), Some(receipt)) = (run.plan_step(number), &attempt.receipt) else {
        return Vec::new();
    };
    if step.outputs().next().is_none() || mutant!(MissingOutputAccepted) {
        return Vec::new();
    }
    let found = outputs(step, &receipt.output);
    let is_reported = |name: &str| {
        found.contains_key(name) || receipt.variables.iter().any(|(set, _)| set == name)
    };
    let is_missing = |name: &&str| {
        !is_reported(name) && !step.optional_outputs().any(|optional| optional == *name)
    };
    step.outputs().filter(is_missing).map(str::to_owned).collect()
}

pub(crate) fn set_variables(
    run: &Run,
    values: BTreeMap<String, Json>,
    origin: &Origin,
) -> Vec<Event> {
    let set = |(name, value): (String, Json)| {
        let version = run.variables.get(&name).map_or(0, |variable| variable.version);
        Event::VariableSet(VariableSet {
            run: run.id,
            name,
            value,
            version: version.saturating_add(1),
            origin: origin.clone(),
            since: 0,
        })
    };
    values.into_iter().map(set).collect()
}

/// The values of the outputs of a step. For a blob they are stored with its reference.
fn outputs(step: CompactStep<'_>, output: &Output) -> BTreeMap<String, Json> {
    match output {
        Output::Inline(value) => output_values(step.outputs(), value),
        Output::Blob(blob) => {
            let named = |(name, _): &&(String, Json)| step.outputs().contains(name);
            blob.values.iter().filter(named).cloned().collect()
        }
    }
}

/// The values of declared outputs by name. Each value is the member of the output with that name.
/// If the step declares one output and the member does not exist, the whole output is the value,
/// unless the worker had no output. An erased output gives the marker of the erased output.
pub(crate) fn output_values<'a>(
    outputs: impl Iterator<Item = &'a str> + Clone,
    output: &Json,
) -> BTreeMap<String, Json> {
    let is_only = match outputs.clone().take(2).count() {
        0 => return BTreeMap::new(),
        count => count == 1,
    };
    let whole = output.value();
    if output.erased_digest().is_some() {
        return outputs.map(|name| (name.to_owned(), output.clone())).collect();
    }
    let value_of = |name: &str| match whole.get(name) {
        // A part is erased together with the whole.
        Some(value) => Some(Json::new(value).with_salt(output.own_salt())),
        None if is_only && !whole.is_null() => Some(output.clone()),
        None => None,
    };
    outputs.filter_map(|name| Some((name.to_owned(), value_of(name)?))).collect()
}
