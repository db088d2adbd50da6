//! What the runner of a run waits for before it dispatches ready steps: the end of a limit, or its hours.

use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::{Run, StepNumber, Timestamp};

use crate::commands::inspect::text::units::moment;
use crate::json::TimeJson;
use crate::output::escape_control;
use crate::protocol::counted;
use crate::runner::RunWait;

/// What a runner waits for, for people.
pub(crate) fn wait_text(wait: &RunWait, run: &Run, now: Timestamp) -> String {
    let until = moment(wait.until, now);
    let reason = escape_control(wait.reason.lines().next().unwrap_or_default());
    let who = match (&wait.owner, wait.is_whole_run) {
        (_, true) => "the runner waits".to_owned(),
        (Some(owner), _) => format!("owner {} waits", escape_control(owner)),
        (None, _) => "the steps without an owner wait".to_owned(),
    };
    let ready = wait.ready_count(run);
    let ready = match u64::try_from(ready).unwrap_or(u64::MAX) {
        0 => String::new(),
        ready => format!(", {}", counted(ready, "ready step")),
    };
    format!("{who} until {until}{ready}: {reason}")
}

/// What the runner of a run waits for.
pub(crate) fn waits_of<'a>(
    waits: &'a [RunWait],
    run: &Run,
) -> impl Iterator<Item = &'a RunWait> + Clone {
    let id = run.id;
    waits.iter().filter(move |wait| wait.run == id)
}

/// Ready steps that the runner of a run does not dispatch before a time.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaitJson {
    /// Whose steps; null: those without an owner, or all of the run.
    owner: Option<String>,
    /// The ready steps that wait.
    ready: Vec<StepNumber>,
    /// The reason, for people.
    reason: String,
    /// When the wait ends; then one of the steps is tried.
    until: TimeJson,
    /// Whether all steps of the run wait.
    whole_run: bool,
}

impl WaitJson {
    pub(crate) fn of(wait: &RunWait, run: &Run) -> Self {
        let ready = run.ready().map(|(_, number)| number);
        Self {
            owner: wait.owner.clone(),
            ready: ready.filter(|number| wait.holds(run, *number)).collect(),
            reason: wait.reason.clone(),
            until: wait.until.into(),
            whole_run: wait.is_whole_run,
        }
    }

    /// What the runner of a run waits for.
    pub(crate) fn of_run(waits: &[RunWait], run: &Run) -> Vec<Self> {
        waits_of(waits, run).map(|wait| Self::of(wait, run)).collect()
    }
}
