//! The inputs of a run: checks the given values, and sets the variables.

use std::collections::BTreeMap;

use crate::plan::decide::lookup::expect_name;
use crate::plan::event::Event;
use crate::plan::event::run_event::{Origin, VariableSet};
use crate::plan::model::plan::Plan;
use crate::plan::rejection::Rejection;
use crate::plan::state::run::Run;
use crate::plan::value::ids::RunId;
use crate::plan::value::json::Json;
use crate::plan::value::names::NameKind;

/// The origin of a value that was given at the start of the run.
const GIVEN: &str = "input";

/// The origin of a default.
const DEFAULT: &str = "plan";

/// The variables of a new run: the given values, and the defaults of other inputs.
pub(super) fn at_start(
    run: RunId,
    plan: &Plan,
    given: &BTreeMap<String, Json>,
) -> Result<Vec<Event>, Rejection> {
    for (name, value) in given {
        check(plan, name, value)?;
    }
    expect_none_missing(plan, |name| given.contains_key(name))?;
    let set = given.iter().map(|(name, value)| set(run, name, value.clone(), GIVEN));
    let others = defaults(plan, |name| given.contains_key(name));
    Ok(set.chain(others.map(|(name, value)| self::set(run, name, value, DEFAULT))).collect())
}

/// Checks a given value. A plan without inputs takes any.
fn check(plan: &Plan, name: &str, value: &Json) -> Result<(), Rejection> {
    expect_name(NameKind::Variable, name)?;
    value.expect_readable()?;
    let invalid = |problem| Err(Rejection::InvalidInput { name: name.to_owned(), problem });
    match plan.inputs.get(name) {
        None if plan.inputs.is_empty() => Ok(()),
        None => {
            let names: Vec<&str> = plan.inputs.keys().map(String::as_str).collect();
            invalid(format!("the plan does not have it; its inputs are {}", names.join(", ")))
        }
        Some(input) if !input.kind.admits(&value.value()) => {
            invalid(format!("expected a value of type {}, found {value}", input.kind))
        }
        Some(_) => Ok(()),
    }
}

/// Checks that a run has a value for each input of a later version of its plan.
pub(super) fn expect_complete(run: &Run, plan: &Plan) -> Result<(), Rejection> {
    expect_none_missing(plan, |name| run.variables.contains_key(name))
}

fn expect_none_missing(plan: &Plan, is_set: impl Fn(&str) -> bool) -> Result<(), Rejection> {
    let missing = plan.missing_inputs(is_set);
    if missing.is_empty() { Ok(()) } else { Err(Rejection::MissingInputs(missing)) }
}

/// The defaults of a version that becomes active, for variables that are not set.
pub(super) fn at_activation(run: &Run, plan: &Plan) -> Vec<Event> {
    let values = defaults(plan, |name| run.variables.contains_key(name));
    values.map(|(name, value)| set(run.id, name, value, DEFAULT)).collect()
}

fn defaults(plan: &Plan, is_set: impl Fn(&str) -> bool) -> impl Iterator<Item = (&str, Json)> {
    plan.inputs.iter().filter_map(move |(name, input)| {
        let default = input.default.as_ref().filter(|_| !is_set(name))?;
        Some((name.as_str(), Json::new(default)))
    })
}

fn set(run: RunId, name: &str, value: Json, who: &str) -> Event {
    Event::VariableSet(VariableSet {
        run,
        name: name.to_owned(),
        value,
        version: 1,
        origin: Origin::Person { who: who.to_owned() },
        since: 0,
    })
}
