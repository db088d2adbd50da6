//! Verdicts on criteria: the missing ones, and those that `settle` gives without a judge.

use std::collections::BTreeMap;

use crate::plan::event::receipt::Output;
use crate::plan::event::run_event::TextPolicy;
use crate::plan::event::step_event::{Ruling, Verdict};
use crate::plan::model::criterion::Criterion;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::run::Run;
use crate::plan::state::step_state::Attempt;
use crate::plan::value::evaluator::{Evaluation, Evaluator, Exhausted, Inputs};
use crate::plan::value::ids::StepNumber;
use crate::plan::value::json::Json;
use crate::plan::value::text::Text;

/// Judge of `text` criteria in runs that trust the worker.
pub(crate) const TRUST: &str = "policy:trust";

/// Judge of expressions.
pub(crate) const CEL: &str = "policy:cel";

pub(crate) fn failed_criterion(criteria: &[Criterion], verdict: &Verdict) -> Text {
    let place = usize::try_from(verdict.criterion).ok();
    let body = place.and_then(|place| criteria.get(place)).map_or("", Criterion::body);
    // Messages count from 1.
    let number = u64::from(verdict.criterion) + 1;
    let what = format!("criterion {number} (`{body}`) does not hold: ");
    Text::concat([&what.into(), &verdict.evidence])
}

pub(crate) fn criteria_without_verdict(
    criteria: &[Criterion],
    verdicts: &BTreeMap<u32, Verdict>,
) -> Vec<u32> {
    (0..u32::try_from(criteria.len()).unwrap_or(u32::MAX))
        .filter(|index| !verdicts.contains_key(index))
        .collect()
}

fn filter_criteria(
    missing: &[u32],
    criteria: &[Criterion],
    is_selected: fn(&Criterion) -> bool,
) -> Vec<u32> {
    let is_selected = |index: &u32| {
        let place = usize::try_from(*index).ok();
        place.and_then(|place| criteria.get(place)).is_some_and(is_selected)
    };
    missing.iter().copied().filter(is_selected).collect()
}

/// The missing criteria that are expressions.
pub(crate) fn expression_criteria(criteria: &[Criterion], missing: &[u32]) -> Vec<u32> {
    filter_criteria(missing, criteria, |each| matches!(each, Criterion::Cel(_)))
}

/// The missing criteria that the run trusts the worker for.
pub(crate) fn trusted_criteria(run: &Run, criteria: &[Criterion], missing: &[u32]) -> Vec<u32> {
    if run.policy.text != TextPolicy::Trust {
        return Vec::new();
    }
    filter_criteria(missing, criteria, |each| matches!(each, Criterion::Text(_)))
}

pub(crate) fn trusted_verdict(criterion: u32) -> Verdict {
    Verdict {
        criterion,
        ruling: Ruling::Pass,
        by: TRUST.to_owned(),
        evidence: "the run trusts the worker on text criteria".into(),
    }
}

/// Evaluates expression criteria of a step, over variables and output: as many as the budget
/// covers, at least one.
pub(super) fn evaluate_criteria(
    run: &Run,
    number: StepNumber,
    attempt: &Attempt,
    places: &[u32],
    evaluator: &mut Evaluator,
) -> Result<Vec<Verdict>, Exhausted> {
    let criteria = run.plan_step(number).map(CompactStep::acceptance).unwrap_or_default();
    verdicts(run, &criteria, places, output_of(attempt).as_ref(), evaluator)
}

/// The output of an attempt that expressions read.
pub(super) fn output_of(attempt: &Attempt) -> Option<Json> {
    attempt.receipt.as_ref().map(|receipt| match &receipt.output {
        Output::Inline(value) => value.clone(),
        // The declared outputs, which are stored with the blob reference.
        Output::Blob(blob) => {
            let values = blob.values.iter().map(|(name, value)| (name.clone(), value.value()));
            let salt =
                blob.values.iter().map(|(_, value)| value.own_salt()).find(|it| it.is_some());
            let output = Json::new(&serde_json::Value::Object(values.collect()));
            output.with_salt(salt.unwrap_or_default())
        }
    })
}

/// Evaluates expression criteria of the plan, over variables: as many as the budget covers, at
/// least one.
pub(crate) fn evaluate_plan_criteria(
    run: &Run,
    criteria: &[Criterion],
    places: &[u32],
    evaluator: &mut Evaluator,
) -> Result<Vec<Verdict>, Exhausted> {
    verdicts(run, criteria, places, None, evaluator)
}

fn verdicts(
    run: &Run,
    criteria: &[Criterion],
    places: &[u32],
    output: Option<&Json>,
    evaluator: &mut Evaluator,
) -> Result<Vec<Verdict>, Exhausted> {
    at_least_one(places, |place| {
        let index = usize::try_from(place).ok();
        let body = index.and_then(|index| criteria.get(index)).map_or("", Criterion::body);
        let Evaluation { holds, evidence, .. } = evaluate(run, body, output, evaluator)?;
        let ruling = if holds { Ruling::Pass } else { Ruling::Fail };
        Ok(Verdict { criterion: place, ruling, by: CEL.to_owned(), evidence })
    })
}

/// Evaluates the expressions at these places in order, until the budget does not cover one.
pub(super) fn at_least_one<T>(
    places: &[u32],
    mut evaluate: impl FnMut(u32) -> Result<T, Exhausted>,
) -> Result<Vec<T>, Exhausted> {
    let mut done = Vec::new();
    for place in places {
        match evaluate(*place) {
            Ok(result) => done.push(result),
            Err(exhausted) if done.is_empty() => return Err(exhausted),
            Err(Exhausted) => break,
        }
    }
    Ok(done)
}

/// Evaluates an expression over the variables of a run.
pub(crate) fn evaluate(
    run: &Run,
    body: &str,
    output: Option<&Json>,
    evaluator: &mut Evaluator,
) -> Result<Evaluation, Exhausted> {
    with_inputs(run, output, |inputs| evaluator.evaluate(body, inputs))
}

/// Evaluates an expression over an output, and over these values and the other variables of a run.
pub(super) fn evaluate_with(
    run: &Run,
    body: &str,
    (output, values): (&Json, &BTreeMap<String, Json>),
    evaluator: &mut Evaluator,
) -> Result<Evaluation, Exhausted> {
    let own = |name: &str| run.variables.get(name).map(|variable| variable.value.clone());
    let variable = |name: &str| values.get(name).cloned().or_else(|| own(name));
    let all = || {
        let own = run.variables.iter();
        let own = own.map(|(name, variable)| (name.clone(), variable.value.clone()));
        own.chain(values.iter().map(|(name, value)| (name.clone(), value.clone()))).collect()
    };
    let inputs = Inputs {
        run: run.id,
        variable: &variable,
        all: &all,
        output: Some(output),
        is_overlaid: true,
    };
    evaluator.evaluate(body, &inputs)
}

/// Evaluates an expression over the variables of a run, to explain an earlier result.
pub(crate) fn evaluate_again(
    run: &Run,
    body: &str,
    evaluator: &mut Evaluator,
) -> Result<Evaluation, Exhausted> {
    with_inputs(run, None, |inputs| evaluator.evaluate_again(body, inputs))
}

fn with_inputs<T>(run: &Run, output: Option<&Json>, then: impl FnOnce(&Inputs<'_>) -> T) -> T {
    let variable = |name: &str| run.variables.get(name).map(|variable| variable.value.clone());
    let all = || {
        let variables = run.variables.iter();
        variables.map(|(name, variable)| (name.clone(), variable.value.clone())).collect()
    };
    then(&Inputs { run: run.id, variable: &variable, all: &all, output, is_overlaid: false })
}
