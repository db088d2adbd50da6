//! Finds runs, steps and attempts by name, number or token.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::{NameKind, RunOverview, closest_name, parse_number};
use plan_ledger::{
    AttemptToken, ContentHash, Error, Event, Rejection, Run, RunId, State, StepNumber, StepState,
    StepStatus,
};

use plan_ledger_views::recorded_status;

use crate::protocol::{Failure, OWN_LEDGER, StepName, shell_command};

/// The run with a name or a number (`#3`).
pub(crate) fn run_of<'a>(state: &'a State, name: &str) -> Result<&'a Run, Failure> {
    let meant = state.find_run(name).and_then(|id| state.runs.get(&id));
    meant.ok_or_else(|| {
        let names = names(state.runs.overviews());
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Failure::no_run(format!("there is no run `{name}`; the runs are: {there}"))
    })
}

/// Rejects an invalid name for a new item.
pub(crate) fn check_name(of: NameKind, name: &str) -> Result<(), Failure> {
    of.fault_in(name).map_or(Ok(()), |fault| Err(Failure::Usage(fault.to_owned())))
}

/// The run with a name. Without a name: the default run.
pub(crate) fn run_or_only<'a>(state: &'a State, name: Option<&str>) -> Result<&'a Run, Failure> {
    if let Some(name) = name {
        return run_of(state, name);
    }
    default_run(state)?.and_then(|id| state.runs.get(&id)).ok_or_else(|| {
        let what = "the ledger has no run yet\nhint: start one with `ledger run PLAN`";
        Failure::no_run(what.to_owned())
    })
}

/// The run of a commit, which may have ended it: that of its events, else the run that the name means.
pub(crate) fn run_after<'a>(
    state: &'a State,
    events: &[(u64, Event)],
    named: Option<&str>,
) -> Result<&'a Run, Failure> {
    let changed = events.iter().find_map(|(_, event)| event.run());
    let run = changed.and_then(|run| state.runs.get(&run));
    run.map_or_else(|| run_or_only(state, named), Ok)
}

/// The default run: the only active one, or the newest if none is active.
pub(crate) fn default_run(state: &State) -> Result<Option<RunId>, Failure> {
    let mut open = state.runs.open();
    match (open.next(), open.next()) {
        (Some(id), None) => Ok(Some(id)),
        (None, _) => Ok(state.runs.keys().next_back().copied()),
        (Some(_), Some(_)) => {
            let open = state.runs.overviews().filter(|(_, overview)| overview.is_open());
            Err(Failure::SeveralRuns(names(open.take(RUNS_MAX))))
        }
    }
}

fn names<'a>(runs: impl Iterator<Item = (RunId, Cow<'a, RunOverview>)>) -> Vec<String> {
    runs.map(|(_, overview)| overview.name.clone()).collect()
}

/// The maximum number of active runs that an error lists.
const RUNS_MAX: usize = 100;

/// The step with this id or number ([`Run::find_step`]), including removed steps.
pub(crate) fn step_of(run: &Run, word: &str) -> Result<StepNumber, Failure> {
    run.find_step(word).ok_or_else(|| {
        let hint = step_hint(run, word);
        Failure::no_step(format!("run {} has no step `{word}`{hint}", run.name))
    })
}

/// The step with this id or number, for a command that changes it. A removed step is rejected.
pub(crate) fn step_to_change(run: &Run, word: &str) -> Result<StepNumber, Failure> {
    let number = step_of(run, word)?;
    let is_removed = run.step(number).is_some_and(|step| step.status == StepStatus::Removed);
    if is_removed && parse_number(word).is_none() {
        let message =
            format!("run {}: step `{word}` was removed by a later plan version", run.name);
        return Err(Failure::no_step(message));
    }
    Ok(number)
}

/// A hint for a word that is not a step's id or number.
pub(crate) fn step_hint(run: &Run, word: &str) -> String {
    let close = || closest_name(word, run.steps.iter().map(StepState::id));
    if parse_number(word).is_some_and(|number| run.step(StepNumber(number)).is_some()) {
        return format!(
            "; `{word}` is the id of one step and the number of another: use the other step's id, or \
             this step's number"
        );
    }
    close().map_or_else(
        || "; use its id, or its number as in #37".to_owned(),
        |id| format!("; did you mean `{id}`?"),
    )
}

/// The run and the step of an attempt, if the state still has its run.
pub(crate) fn attempt_of(
    state: &State,
    token: AttemptToken,
) -> Result<(&Run, StepNumber, &StepState), Failure> {
    let find = || {
        let (run, number, _) = state.dispatched.get(&token)?;
        let run = state.runs.get(run)?;
        Some((run, *number, run.step(*number)?))
    };
    find().ok_or_else(|| Error::from(Rejection::StaleToken(token)).into())
}

/// A step's number and id.
pub(crate) fn name(run: &Run, number: StepNumber) -> String {
    StepName::of(run, number).to_string()
}

/// The members of a line that name a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct StepOfRun {
    /// The run.
    pub run: String,
    /// The step's id.
    pub step: String,
    /// The step number.
    pub number: u32,
}

impl StepOfRun {
    pub(super) fn new(run: &Run, number: StepNumber) -> Self {
        let StepName { number, id } = StepName::of(run, number);
        Self { run: run.name.clone(), step: id, number: number.0 }
    }
}

impl fmt::Display for StepOfRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        StepName { number: StepNumber(self.number), id: self.step.clone() }.fmt(f)
    }
}

/// A run's status, as answers report it.
pub(crate) fn run_status(run: &Run) -> String {
    recorded_status(run).to_owned()
}

/// A command line for a message of an answer. It names no ledger: the process that shows the answer adds it.
pub(crate) fn request_command(verb: &str, words: &[&str]) -> String {
    shell_command(verb, Path::new(OWN_LEDGER), words)
}

/// The record of the open request for a new plan of a run.
pub(crate) fn open_request(run: &Run) -> Option<u64> {
    Some(run.replan_hold()?.request().seq)
}

/// The text that a request for a new plan stays open, with the command to reject it.
pub(crate) fn open_request_text(run: &str, seq: u64) -> String {
    let withdraw = request_command("plan withdraw", &[run]);
    format!(
        "the request for a new plan (record {seq}) stays open: `{withdraw} --reason WHY` rejects it"
    )
}

/// Whether the typed digits are a long enough prefix of a hash.
pub(crate) fn begins_with(hash: ContentHash, typed: &str) -> bool {
    const DIGITS_MIN: usize = 8;
    typed.len() >= DIGITS_MIN && hash.to_string().starts_with(&typed.to_ascii_lowercase())
}

pub(crate) fn step_status(run: &Run, step: StepNumber) -> StepStatus {
    run.step(step).map_or(StepStatus::Removed, |step| step.status)
}
