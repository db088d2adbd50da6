//! Runs, steps and attempts by the names that people and tokens give them.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::runner::StepName;
use plan_ledger::error::Error;
use plan_ledger::plan::{
    AttemptToken, ContentHash, Glance, Named, Rejection, Run, RunId, RunStatus, State, StepNumber,
    StepState, StepStatus, name_fault, nearest, number_meant,
};

use crate::protocol::Failure;

/// The run of that name, or of that number (`#3`).
pub(crate) fn run_of<'a>(state: &'a State, name: &str) -> Result<&'a Run, Failure> {
    let meant = state.run_meant(name).and_then(|id| state.runs.get(&id));
    meant.ok_or_else(|| {
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

/// The step that is meant by a word ([`Run::step_meant`]), also one that a later version removed.
pub(crate) fn step_of(run: &Run, word: &str) -> Result<StepNumber, Failure> {
    run.step_meant(word).ok_or_else(|| {
        let hint = step_hint(run, word);
        Failure::Usage(format!("run {} has no step `{word}`{hint}", run.name))
    })
}

/// The same, for what is done about a step: one that was removed has none of it, and nobody should
/// have to guess which number the message is about.
pub(crate) fn step_to_change(run: &Run, word: &str) -> Result<StepNumber, Failure> {
    let number = step_of(run, word)?;
    let is_removed = run.step(number).is_some_and(|step| step.status == StepStatus::Removed);
    if is_removed && number_meant(word).is_none() {
        let message =
            format!("run {} has step `{word}` no more: its plan was changed without it", run.name);
        return Err(Failure::Usage(message));
    }
    Ok(number)
}

/// What may help somebody whose word for a step means none.
pub(crate) fn step_hint(run: &Run, word: &str) -> String {
    let bare = word.parse().ok().map(StepNumber).and_then(|number| run.step(number));
    let close = || nearest(word, run.steps.iter().map(StepState::id));
    if number_meant(word).is_some_and(|number| run.step(StepNumber(number)).is_some()) {
        return format!(
            "; `{word}` is the id of one, and the number of another: give the other's \
                        id, or the number of this one"
        );
    }
    match bare {
        Some(step) => format!("; the step of that number, `#{word}`, is `{}`", step.id()),
        None => close().map_or_else(
            || "; give its id, or its number as #37".to_owned(),
            |id| format!("; did you mean `{id}`?"),
        ),
    }
}

/// The run and the step of an attempt that was ever dealt in a run that is whole.
pub(crate) fn attempt_of(
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
pub(crate) fn name(run: &Run, number: StepNumber) -> String {
    StepName::of(run, number).to_string()
}

/// The members by which a line names a step.
pub(crate) fn step_json(kind: &str, run: &Run, number: StepNumber) -> Value {
    let id = run.step(number).map(StepState::id);
    json!({ "type": kind, "run": run.name, "step": id, "number": number.0 })
}

/// The line with these members, too.
pub(crate) fn with(mut line: Value, more: Value) -> Value {
    if let (Some(members), Value::Object(more)) = (line.as_object_mut(), more) {
        members.extend(more);
    }
    line
}

/// How a run stands, in a word.
pub(crate) fn status(run: Option<&Run>) -> String {
    match run.map(|run| run.status) {
        Some(RunStatus::Ended(ending)) => format!("{ending:?}").to_lowercase(),
        Some(RunStatus::Running) => "running".to_owned(),
        Some(RunStatus::Proposed) | None => "waiting for its plan".to_owned(),
    }
}

/// Whether a hash begins with what somebody typed of it: enough to mean it.
pub(crate) fn begins_with(hash: ContentHash, typed: &str) -> bool {
    const DIGITS_MIN: usize = 8;
    typed.len() >= DIGITS_MIN && hash.to_string().starts_with(&typed.to_ascii_lowercase())
}

/// A step's status.
pub(crate) fn step_status(run: &Run, step: StepNumber) -> StepStatus {
    run.step(step).map_or(StepStatus::Removed, |step| step.status)
}
