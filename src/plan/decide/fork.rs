//! Forks: a new run that starts with the plan versions, step numbers, finished work and variables
//! of another run at a given record. Attempts that were in flight are dispatched again.

use std::sync::Arc;

use super::ask::plan_question;
use crate::plan::command::PlanDraft;
use crate::plan::decide::versions;
use crate::plan::event::Event;
use crate::plan::event::plan_event::{HashedStep, PlanActivated, PlanReviewed};
use crate::plan::event::run_event::{
    BarrierChange, BarrierChanged, FailureSettingsChanged, InheritedStep, PauseCause,
    ReplanRequested, ReplanTrigger, RunForked, RunPaused, RunStarted, StepsInherited, VariableSet,
};
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::policy::FailureSettings;
use crate::plan::rejection::Rejection;
use crate::plan::state::State;
use crate::plan::state::run::{PlanVersion, Run, Variable};
use crate::plan::state::step_state::StepState;
use crate::plan::value::ids::{ContentHash, RunId, StepNumber, Timestamp};

/// Number of steps per record.
const CHUNK: usize = 1_000;

pub(super) fn fork(
    state: &State,
    now: Timestamp,
    (name, by): (&str, &str),
    parent: &Run,
    (at_seq, chain): (u64, ContentHash),
) -> Result<Vec<Event>, Rejection> {
    let run = versions::new_run(state, name)?;
    if parent.active == 0 {
        return Err(Rejection::NoActivePlan);
    }
    let mut events = vec![
        Event::RunStarted(RunStarted { run, name: name.to_owned(), policy: parent.policy }),
        Event::RunForked(RunForked {
            run,
            parent: parent.id,
            at_seq,
            chain,
            spent: parent.account.spent,
            by: by.to_owned(),
        }),
    ];
    if parent.failure_settings != FailureSettings::default() {
        events.push(Event::FailureSettingsChanged(FailureSettingsChanged {
            run,
            settings: parent.failure_settings,
            by: "policy:fork".to_owned(),
        }));
    }
    events.extend(parent.variables.iter().map(|(name, variable)| {
        Event::VariableSet(VariableSet {
            run,
            name: name.clone(),
            value: variable.value.clone(),
            version: variable.version,
            origin: variable.origin.clone(),
            since: variable.time.max(1),
        })
    }));
    // Within a batch the last version may be incomplete.
    let is_complete =
        |version: &&PlanVersion| u32::try_from(version.plan.len()) == Ok(version.step_count);
    for (version, number) in parent.versions.iter().take_while(is_complete).zip(1..) {
        events.extend(version_events(run, now, parent, (number, version))?);
    }
    let steps: Vec<InheritedStep> = inherited_steps(parent).collect();
    for chunk in steps.chunks(CHUNK) {
        events.push(Event::StepsInherited(StepsInherited { run, steps: chunk.to_vec() }));
    }
    events.extend(released_barriers(parent, run));
    events.extend(open_request(parent, run));
    events.extend(pause_before_repeating(parent, run));
    Ok(events)
}

/// The request for a new version that is open in the parent. The budget of the fork is not exhausted.
fn open_request(parent: &Run, run: RunId) -> Option<Event> {
    mutant!(ForkLosesRequest => return None);
    let request = parent.open_replan()?;
    let is_of_budget = request.trigger == ReplanTrigger::BudgetExhausted;
    let (trigger, reason) = (request.trigger.clone(), request.reason.clone());
    let from = request.from;
    let copy = ReplanRequested { run, trigger, from, reason };
    (!is_of_budget).then_some(Event::ReplanRequested(copy))
}

/// The pause of a fork with steps that must not be repeated and that the parent has begun: a person
/// checks which of them were done, and skips those.
fn pause_before_repeating(parent: &Run, run: RunId) -> Option<Event> {
    mutant!(ForkRepeatsOnce => return None);
    let begun = parent.begun_once().into_iter().filter_map(|number| parent.step(number));
    let ids: Vec<&str> = begun.map(StepState::id).collect();
    let reason = format!(
        "begun in run {} and not to be done twice: {}; skip what was done",
        parent.name,
        ids.join(", ")
    );
    let cause = PauseCause::Runner { reason: reason.clone() };
    (!ids.is_empty()).then_some(Event::RunPaused(RunPaused { run, cause, reason }))
}

/// The releases of barriers that a decision released in the parent.
fn released_barriers(parent: &Run, run: RunId) -> impl Iterator<Item = Event> {
    let released = parent.barriers.iter().filter(|(_, barrier)| barrier.is_force_released());
    released.map(move |(id, barrier)| {
        Event::BarrierChanged(BarrierChanged {
            run,
            barrier: id.clone(),
            change: BarrierChange::Overruled,
            arrived: u32::try_from(barrier.arrived.len()).unwrap_or(u32::MAX),
            needed: barrier.needed,
        })
    })
}

/// Copies a plan version of the parent: its proposal, review and activation.
fn version_events(
    run: RunId,
    now: Timestamp,
    parent: &Run,
    (number, version): (u32, &PlanVersion),
) -> Result<Vec<Event>, Rejection> {
    let steps = version.plan.steps().zip(version.step_hashes.iter());
    let draft = PlanDraft {
        hash: version.hash,
        header: Box::new(version.plan.header().clone()),
        steps: steps
            .map(|(step, hash)| HashedStep { hash: *hash, step: Arc::new(step.decode()) })
            .collect(),
        provenance: version.provenance.clone(),
        commands: None,
    };
    let count = versions::checked_step_count(&draft)?;
    let mut events = versions::proposal_events(run, number, &draft, count, &version.reason);
    if let Some(review) = version.review {
        events.push(Event::PlanReviewed(PlanReviewed {
            run,
            version: number,
            hash: version.hash,
            review,
            by: "policy:fork".to_owned(),
            note: version.note.clone(),
            commands: version.commands.clone(),
        }));
    } else if number > parent.active {
        events.extend(plan_question(run, number, &draft, now));
    }
    if !version.numbers.is_empty() {
        let is_active = number == parent.active;
        let (trusted, untrusted) =
            if is_active { variables_by_trust(parent) } else { Default::default() };
        events.push(Event::PlanActivated(PlanActivated {
            run,
            version: number,
            numbers: version.numbers.clone(),
            preserved: Vec::new(),
            invalidated: Vec::new(),
            removed: Vec::new(),
            added: Vec::new(),
            trusted,
            untrusted,
            request: 0,
            held: Vec::new(),
            answers: Vec::new(),
            // A copied version does not count as a replan of the fork.
            since: parent.activated_at.max(1),
        }));
    }
    Ok(events)
}

/// The trusted variables of the parent, and the others.
fn variables_by_trust(parent: &Run) -> (Vec<String>, Vec<String>) {
    type Named<'a> = Vec<(&'a String, &'a Variable)>;
    let (trusted, untrusted): (Named<'_>, Named<'_>) =
        parent.variables.iter().partition(|(_, variable)| variable.is_trusted);
    let names = |list: Named<'_>| list.into_iter().map(|(name, _)| name.clone()).collect();
    (names(trusted), names(untrusted))
}

/// The steps of the parent that are accepted, skipped or failed, or that had attempts.
fn inherited_steps(parent: &Run) -> impl Iterator<Item = InheritedStep> {
    parent.steps.iter().zip(1..).filter_map(|(step, number)| {
        let is_over =
            matches!(step.status, StepStatus::Accepted | StepStatus::Skipped | StepStatus::Failed);
        let is_untouched = step.attempts == 0 && step.failures == 0 && !is_over;
        if is_untouched || step.status == StepStatus::Removed {
            return None;
        }
        Some(InheritedStep {
            step: StepNumber(number),
            status: if is_over { step.status } else { StepStatus::Waiting },
            attempts: step.attempts,
            failures: step.failures,
            accepted: step.accepted().cloned(),
            last_failure: step.last_failure().cloned(),
        })
    })
}
