//! Runs, steps and attempts by the names that people and tokens give them.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::error::Error;
use crate::plan::{
    AttemptToken, ContentHash, Glance, Named, Rejection, Run, RunId, RunStatus, State, StepNumber,
    StepState, name_fault,
};
use crate::runner::StepName;

use super::Failure;

/// The run of that name, or else of that number (`#3`).
pub(crate) fn run_of<'a>(state: &'a State, name: &str) -> Result<&'a Run, Failure> {
    let numbered = || state.runs.get(&RunId(name.strip_prefix('#').unwrap_or(name).parse().ok()?));
    state.run_named(name).or_else(numbered).ok_or_else(|| {
        let names = names(state.runs.glances());
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Failure::Usage(format!("there is no run `{name}`; the ledger's runs: {there}"))
    })
}

/// Whether something new may be called that.
pub(crate) fn check_name(of: Named, name: &str) -> Result<(), Failure> {
    name_fault(of, name).map_or(Ok(()), |fault| Err(Failure::Usage(fault.to_owned())))
}

/// The run of that name; without one, the only run, or the only one that has not ended.
pub(crate) fn run_or_only<'a>(state: &'a State, name: Option<&str>) -> Result<&'a Run, Failure> {
    if let Some(name) = name {
        return run_of(state, name);
    }
    let mut open = state.runs.open();
    let id = match (open.next(), open.next()) {
        (Some(id), None) => Some(id),
        // All of them have ended: the newest is as good as any to say so.
        (None, _) => state.runs.keys().next_back().copied(),
        (Some(_), Some(_)) => {
            let open = state.runs.glances().filter(|(_, glance)| glance.is_open());
            let names = names(open.take(NAMES_MAX));
            return Err(Failure::Usage(format!("which run? there are {}", names.join(", "))));
        }
    };
    id.and_then(|id| state.runs.get(&id)).ok_or_else(|| {
        let what = "the ledger has no run yet; start one with `ledger plan propose FILE`";
        Failure::Usage(what.to_owned())
    })
}

fn names<'a>(runs: impl Iterator<Item = (RunId, Cow<'a, Glance>)>) -> Vec<String> {
    runs.map(|(_, glance)| glance.name.clone()).collect()
}

/// How many names a message lists.
const NAMES_MAX: usize = 8;

/// The step of that id, or else of that number: `#37` or `37`.
pub(super) fn step_of(run: &Run, text: &str) -> Result<StepNumber, Failure> {
    let by_number = || {
        let number = StepNumber(text.strip_prefix('#').unwrap_or(text).parse().ok()?);
        run.step(number).map(|_| number)
    };
    run.step_named(text).or_else(by_number).ok_or_else(|| {
        Failure::Usage(format!(
            "run {} has no step `{text}`; give its id, or its number as #37",
            run.name
        ))
    })
}

/// The run and the step of an attempt that was ever dealt in a run that is whole.
pub(super) fn attempt_of(
    state: &State,
    token: AttemptToken,
) -> Result<(&Run, StepNumber, &StepState), Failure> {
    let find = || {
        let (run, number) = state.dealt.get(&token)?;
        let run = state.runs.get(run)?;
        Some((run, *number, run.step(*number)?))
    };
    find().ok_or_else(|| Error::from(Rejection::StaleToken(token)).into())
}

/// A step's number and id.
pub(super) fn name(run: &Run, number: StepNumber) -> String {
    StepName::of(run, number).to_string()
}

/// The members by which a line names a step.
pub(super) fn step_json(kind: &str, run: &Run, number: StepNumber) -> Value {
    let id = run.step(number).map(StepState::id);
    json!({ "type": kind, "run": run.name, "step": id, "number": number.0 })
}

/// The line with these members, too.
pub(super) fn with(mut line: Value, more: Value) -> Value {
    if let (Some(members), Value::Object(more)) = (line.as_object_mut(), more) {
        members.extend(more);
    }
    line
}

/// How a run stands, in a word.
pub(super) fn status(run: Option<&Run>) -> String {
    match run.map(|run| run.status) {
        Some(RunStatus::Ended(ending)) => format!("{ending:?}").to_lowercase(),
        Some(RunStatus::Running) => "running".to_owned(),
        Some(RunStatus::Proposed) | None => "waiting for its plan".to_owned(),
    }
}

/// Whether a hash begins with what somebody typed of it: enough to mean it.
pub(super) fn begins_with(hash: ContentHash, typed: &str) -> bool {
    const DIGITS_MIN: usize = 8;
    typed.len() >= DIGITS_MIN && hash.to_string().starts_with(&typed.to_ascii_lowercase())
}
