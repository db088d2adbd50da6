//! Fallbacks: whether one is available, and the acceptance by a fallback value.

use std::collections::BTreeMap;

use super::variables::{output_values, set_variables};
use crate::plan::event::Event;
use crate::plan::event::run_event::Origin;
use crate::plan::event::step_event::{Accepted, AcceptedBasis};
use crate::plan::event::step_status::StepStatus;
use crate::plan::event::table::StepEvent;
use crate::plan::model::step::Fallback;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::run::Run;
use crate::plan::value::ids::{SECOND, StepNumber, Timestamp};
use crate::plan::value::json::Json;

/// Whether a step has a fallback that is unused and available.
pub(crate) fn may_fall_back(run: &Run, number: StepNumber, time: Timestamp) -> bool {
    let Some(step) = run.step(number).filter(|step| !step.has_fallen_back) else { return false };
    match run.plan_step(number).and_then(CompactStep::fallback) {
        None => false,
        Some(Fallback::Step(_)) => run.links.fallback_of(number).is_some_and(|other| {
            let status = run.step(other).map_or(StepStatus::Removed, |step| step.status);
            // A skipped step has no result to use.
            other != number && (status.is_remaining() || status == StepStatus::Accepted)
        }),
        Some(Fallback::Owner(owner)) => step.owner() != Some(&owner),
        Some(fallback @ (Fallback::Value { .. } | Fallback::Variable { .. })) => {
            fallback_value(run, &fallback, time).is_some()
        }
    }
}

/// The fallback value and its source, unless it is too old.
fn fallback_value(run: &Run, fallback: &Fallback, time: Timestamp) -> Option<(Json, String)> {
    let fresh = |since: Timestamp, most: Option<u64>| {
        let age = time.saturating_sub(since) / SECOND;
        most.is_none_or(|most| age <= most).then_some(age)
    };
    match fallback {
        Fallback::Value { value, max_age_seconds } => {
            let age = fresh(run.activated_at, *max_age_seconds)?;
            Some((Json::new(value), format!("the plan's value, {age} s old")))
        }
        Fallback::Variable { name, max_age_seconds } => {
            let variable = run.variables.get(name)?;
            let age = fresh(variable.time, *max_age_seconds)?;
            Some((variable.value.clone(), format!("variable {name}, {age} s old")))
        }
        Fallback::Step(_) | Fallback::Owner(_) => None,
    }
}

/// The acceptance of a step by a fallback value, and the variables that it sets.
pub(crate) fn fallback_value_events(run: &Run, number: StepNumber, time: Timestamp) -> Vec<Event> {
    let step = run.plan_step(number);
    let fallback = step.and_then(CompactStep::fallback);
    let Some((value, reason)) = fallback.and_then(|each| fallback_value(run, &each, time)) else {
        return Vec::new();
    };
    let basis = AcceptedBasis::Fallback { reason };
    let mut events = vec![Event::step(run.id, number, StepEvent::Accepted(Accepted { basis }))];
    let values = step.map_or_else(BTreeMap::new, |step| output_values(step.outputs(), &value));
    events.extend(set_variables(run, values, &Origin::Fallback { step: number }));
    events
}
