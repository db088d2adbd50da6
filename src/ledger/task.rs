//! What a worker gets.

use std::sync::Arc;

use crate::plan::{
    AttemptToken, CompactPlan, Dispatched, Event, Json, Micros, Near, RunId, State, Step,
    StepEvent, StepNumber, Verdict,
};

use super::Ledger;
use super::attempts::{self, EarlierAttempt};
use super::files::PlannedFile;

/// A step that was dealt, with all that a worker needs.
#[derive(Debug, Clone)]
pub struct Task {
    /// The run.
    pub run: RunId,
    /// The run's name.
    pub run_name: String,
    /// The step's number.
    pub number: StepNumber,
    /// The step as the plan has it, defaults filled in.
    pub step: Step,
    /// The whole plan.
    pub plan: Arc<CompactPlan>,
    /// The steps around it in the plan.
    pub near: Near,
    /// The right to report.
    pub token: AttemptToken,
    /// The attempt's number at this step, from 1.
    pub attempt: u32,
    /// Until when the step is the worker's without a sign of life, in microseconds.
    pub lease_until: Micros,
    /// The key that side effects should carry to the outside.
    pub idempotency_key: String,
    /// Values of the variables that the step names as inputs; `null` for one that is not set.
    pub inputs: Vec<(String, Json)>,
    /// Why the attempt before failed, if one did.
    pub last_failure: Option<String>,
    /// The verdicts against the attempt before, if it was judged and did not hold.
    pub failed_criteria: Vec<Verdict>,
    /// The attempts before, the oldest first.
    pub earlier: Vec<EarlierAttempt>,
    /// How the files that the step is expected to change were when the plan was made, as far as
    /// somebody recorded it.
    pub planned_files: Vec<PlannedFile>,
}

impl Task {
    /// The task that a batch of events dealt, if it dealt one, as far as the state knows it:
    /// [`Ledger::with_earlier`] adds the rest.
    #[doc(hidden)]
    pub fn dealt(state: &State, events: &[(u64, Event)]) -> Option<Self> {
        let (seq, run, number, dispatched) =
            events.iter().find_map(|(seq, event)| match event {
                Event::Step(record) => match &record.event {
                    StepEvent::Dispatched(event) => Some((*seq, record.run, record.step, event)),
                    _ => None,
                },
                _ => None,
            })?;
        let run = state.runs.get(&run)?;
        let plan = run.active_version()?.plan.clone();
        let step = plan.with_defaults(run.plan_step(number)?);
        let Dispatched { attempt, lease_until, idempotency_key, .. } = dispatched.clone();
        let state = run.step(number)?;
        let value = |name: &String| {
            let variable = run.variables.get(name);
            (name.clone(), variable.map(|each| each.value.clone()).unwrap_or_default())
        };
        Some(Self {
            run: run.id,
            run_name: run.name.clone(),
            number,
            inputs: step.inputs.iter().map(value).collect(),
            planned_files: Vec::new(),
            near: run.near(number),
            step,
            plan,
            token: AttemptToken(seq),
            attempt,
            lease_until,
            idempotency_key,
            last_failure: state.last_failure().map(|(_, message)| message.clone()),
            failed_criteria: state.failed_criteria().to_vec(),
            earlier: Vec::new(),
        })
    }
}

impl Ledger {
    /// A task that was dealt, with what need not be read while others wait: the attempts before
    /// it, as far as the log has them, and its files.
    #[doc(hidden)]
    pub fn with_earlier(&self, mut task: Task) -> Task {
        task.planned_files = self.planned_files(task.run, &task.step);
        // Reading costs something, and a first attempt has nothing behind it.
        if task.attempt > 1
            && let Ok(log) = self.reader()
        {
            task.earlier = attempts::before(&log, task.token);
        }
        task
    }
}
