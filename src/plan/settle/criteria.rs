//! Criteria: which are judged, by whom, and what a verdict says.

use std::collections::BTreeMap;

use crate::plan::event::receipt::Output;
use crate::plan::event::run_event::TextPolicy;
use crate::plan::event::step_event::{Ruling, Verdict};
use crate::plan::model::criterion::Criterion;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::run::Run;
use crate::plan::state::step_state::Attempt;
use crate::plan::value::expression;
use crate::plan::value::ids::StepNumber;
use crate::plan::value::json::Json;

/// Who judges `text` criteria where the run takes the worker's word.
pub(crate) const TRUST: &str = "policy:trust";

/// Who judges expressions.
const CEL: &str = "policy:cel";

pub(crate) fn failed_criterion(criteria: &[Criterion], verdict: &Verdict) -> String {
    let place = usize::try_from(verdict.criterion).ok();
    let body = place.and_then(|place| criteria.get(place)).map_or("", Criterion::body);
    // People count from 1.
    let number = u64::from(verdict.criterion) + 1;
    format!("criterion {number} (`{body}`) does not hold: {}", verdict.evidence)
}

/// The criteria that no verdict names.
pub(crate) fn unjudged(criteria: &[Criterion], verdicts: &BTreeMap<u32, Verdict>) -> Vec<u32> {
    (0..u32::try_from(criteria.len()).unwrap_or(u32::MAX))
        .filter(|index| !verdicts.contains_key(index))
        .collect()
}

fn those(missing: &[u32], criteria: &[Criterion], is_meant: fn(&Criterion) -> bool) -> Vec<u32> {
    let is_meant = |index: &u32| {
        let place = usize::try_from(*index).ok();
        place.and_then(|place| criteria.get(place)).is_some_and(is_meant)
    };
    missing.iter().copied().filter(is_meant).collect()
}

/// Those of the missing criteria that are expressions.
pub(crate) fn of_cel(criteria: &[Criterion], missing: &[u32]) -> Vec<u32> {
    those(missing, criteria, |each| matches!(each, Criterion::Cel(_)))
}

/// Those of the missing criteria for which the run takes the worker's word.
pub(crate) fn trusted(run: &Run, criteria: &[Criterion], missing: &[u32]) -> Vec<u32> {
    if run.policy.text != TextPolicy::Trust {
        return Vec::new();
    }
    those(missing, criteria, |each| matches!(each, Criterion::Text(_)))
}

pub(crate) fn trust(criterion: u32) -> Verdict {
    Verdict {
        criterion,
        ruling: Ruling::Pass,
        by: TRUST.to_owned(),
        evidence: "the run takes the worker's word for text criteria".to_owned(),
    }
}

/// The judgement of a criterion of a step that is an expression, over variables and output.
pub(super) fn judged(run: &Run, number: StepNumber, attempt: &Attempt, place: u32) -> Verdict {
    let criteria = run.plan_step(number).map(CompactStep::acceptance).unwrap_or_default();
    let output = attempt.receipt.as_ref().map(|receipt| match &receipt.output {
        Output::Inline(value) => value.clone(),
        // What was taken out of the blob when it came.
        Output::Blob(blob) => {
            let values = blob.values.iter().map(|(name, value)| (name.clone(), value.value()));
            Json::new(&serde_json::Value::Object(values.collect()))
        }
    });
    verdict(run, &criteria, place, output.as_ref())
}

/// The judgement of a criterion of the plan that is an expression, over variables.
pub(crate) fn judged_of_plan(run: &Run, criteria: &[Criterion], place: u32) -> Verdict {
    verdict(run, criteria, place, None)
}

fn verdict(run: &Run, criteria: &[Criterion], place: u32, output: Option<&Json>) -> Verdict {
    let index = usize::try_from(place).ok();
    let body = index.and_then(|index| criteria.get(index)).map_or("", Criterion::body);
    let expression::Judgement { holds, evidence } = judge(run, body, output);
    let ruling = if holds { Ruling::Pass } else { Ruling::Fail };
    Verdict { criterion: place, ruling, by: CEL.to_owned(), evidence }
}

/// An expression, judged by the variables of a run.
pub(crate) fn judge(run: &Run, body: &str, output: Option<&Json>) -> expression::Judgement {
    let value = |name: &str| run.variables.get(name).map(|variable| variable.value.clone());
    let all = || {
        let variables = run.variables.iter();
        variables.map(|(name, variable)| (name.clone(), variable.value.clone())).collect()
    };
    expression::judge(body, &value, &all, output)
}
