//! The task of a worker: a dispatched step, with everything that the worker needs.

use std::cell::LazyCell;
use std::sync::Arc;

use crate::format::Uid;
use crate::ledger::codec::note::Note;
use crate::ledger::history::attempts::{self, EarlierAttempt};
use crate::ledger::history::finished::Finished;
use crate::plan::{
    AttemptToken, CompactPlan, Dispatched, Event, Json, Neighbours, RunId, Secret, State, Step,
    StepEvent, StepNumber, Timestamp, Token, Verdict,
};

use super::engine::Engine;
use super::planned_files::{PLANNED_FILES, PlannedFile, PlannedFiles};

/// A dispatched step, with everything that a worker needs.
#[derive(Debug, Clone)]
pub struct Task {
    /// The identifier of the ledger; zero until the rest of the data is added.
    #[doc(hidden)]
    pub ledger: Uid,
    /// The run.
    pub run: RunId,
    /// The run's name.
    pub run_name: String,
    /// The step's number.
    pub number: StepNumber,
    /// The step, with the plan's defaults filled in.
    pub step: Step,
    /// The whole plan.
    #[doc(hidden)]
    pub plan: Arc<CompactPlan>,
    /// The neighbours of the step in the plan.
    #[doc(hidden)]
    pub neighbours: Neighbours,
    /// The token of the attempt: the sequence number of the record that dispatched it, and the secret
    /// of the claim. A process that knows it speaks for the attempt.
    pub token: Token,
    /// The attempt's number at this step, from 1.
    pub attempt: u32,
    /// When the lease expires unless it is renewed, in microseconds.
    pub lease_until: Timestamp,
    /// The key that side effects should carry to other systems.
    pub idempotency_key: String,
    /// Values of the variables that the step names as inputs; `null` for one that is not set.
    pub inputs: Vec<(String, Json)>,
    /// The reason why the previous attempt failed, if it did.
    pub last_failure: Option<String>,
    /// The failed verdicts on the previous attempt, if it was judged.
    pub failed_criteria: Vec<Verdict>,
    /// The earlier attempts, the oldest first.
    pub earlier: Vec<EarlierAttempt>,
    /// The finished work before the step, with its results.
    pub finished: Finished,
    /// The last notes about the run and about the whole ledger, oldest first.
    pub notes: Vec<Note>,
    /// Why the version of the plan was proposed.
    #[doc(hidden)]
    pub plan_reason: String,
    /// The files that the step is expected to change, as they were when the plan was made, if they
    /// were recorded.
    #[doc(hidden)]
    pub planned_files: Vec<PlannedFile>,
}

impl Task {
    /// The task that a batch of events dispatched to a claim with this secret, if any, with the data
    /// that the state has; [`complete`] adds the rest.
    #[doc(hidden)]
    #[must_use]
    pub fn dispatched(state: &State, events: &[(u64, Event)], secret: Secret) -> Option<Self> {
        let (seq, run, number, dispatched) =
            events.iter().find_map(|(seq, event)| match event {
                Event::Step(record) => match &record.event {
                    StepEvent::Dispatched(event) => Some((*seq, record.run, record.step, event)),
                    _ => None,
                },
                _ => None,
            })?;
        let run = state.runs.get(&run)?;
        let version = run.active_version()?;
        let (plan, plan_reason) = (version.plan.clone(), version.reason.clone());
        let mut step = plan.with_defaults(run.plan_step(number)?);
        let Dispatched { attempt, lease_until, idempotency_key, second_owner, .. } =
            dispatched.clone();
        step.owner = second_owner.or(step.owner);
        let state = run.step(number)?;
        let value = |name: &String| {
            let variable = run.variables.get(name);
            (name.clone(), variable.map(|each| each.value.clone()).unwrap_or_default())
        };
        Some(Self {
            ledger: Uid::default(),
            run: run.id,
            run_name: run.name.clone(),
            number,
            inputs: step.inputs.iter().map(value).collect(),
            planned_files: Vec::new(),
            notes: Vec::new(),
            plan_reason,
            neighbours: run.neighbours(number),
            step,
            plan,
            token: Token { seq: AttemptToken(seq), secret },
            attempt,
            lease_until,
            idempotency_key,
            last_failure: state.last_failure().map(|(_, message)| message.to_string()),
            failed_criteria: state.failed_criteria().to_vec(),
            earlier: Vec::new(),
            finished: Finished::before(run, number),
        })
    }
}

/// Add the data that is read without the lock: the earlier attempts and the results of finished steps
/// that the log still has, and the planned files.
pub(crate) fn complete(engine: &Engine, mut task: Task) -> Task {
    // Only a fenced process has no identifier here, and its claim is rejected.
    task.ledger = engine.log.uid().unwrap_or_default();
    task.planned_files = planned_files(engine, task.run, &task.step);
    // Reading the log takes time, and most tasks need nothing from it.
    let log = LazyCell::new(|| engine.reader().ok());
    task.notes = engine.notes.of_run(task.run, || log.as_ref());
    if task.attempt > 1
        && let Some(log) = &*log
    {
        task.earlier = attempts::before(log, task.token.seq);
    }
    task.finished.add_results(task.run, &engine.finished, || log.as_ref());
    task
}

/// The recorded files of a step, for the active version of its run's plan.
fn planned_files(engine: &Engine, run: RunId, step: &Step) -> Vec<PlannedFile> {
    if step.changes.is_empty() {
        return Vec::new();
    }
    let planned = planned_files_of_run(engine, run);
    let file = |path: &String| {
        let hash = *planned.as_ref()?.files.get(path)?;
        Some(PlannedFile { path: path.clone(), hash })
    };
    if step.changes.iter().any(|path| path.contains('*')) {
        // The runner matches patterns.
        let all = planned.iter().flat_map(|planned| &planned.files);
        return all.map(|(path, hash)| PlannedFile { path: path.clone(), hash: *hash }).collect();
    }
    step.changes.iter().filter_map(file).collect()
}

fn planned_files_of_run(engine: &Engine, id: RunId) -> Option<Arc<PlannedFiles>> {
    // The value is parsed after the lock is released.
    let (active, version, value) = {
        let shared = engine.lock().ok()?;
        let run = shared.state.runs.get(&id)?;
        let variable = run.variables.get(PLANNED_FILES)?;
        let cached = engine.planned_files.get(id, variable.version);
        let value = cached.ok_or_else(|| variable.value.clone());
        (run.active, variable.version, value)
    };
    let files = match value {
        Ok(files) => files,
        Err(value) => engine.planned_files.parse(id, version, value.as_str()),
    };
    Some(files).filter(|files| files.version == active)
}
