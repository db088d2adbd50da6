//! Settles a run: derives its consequences, the events that follow from the state without a
//! command.
//!
//! A reported step is accepted or fails, conditions are evaluated, questions are asked, barriers
//! are released or break, and a run ends. Timers are not consequences: they need a clock and fire
//! in `Command::Tick`.
//!
//! Invariants:
//! - A consequence is a function of the state alone: no clock, no command.
//! - One call returns the events of one consequence. Applying them removes this consequence, and
//!   without a command no removed consequence returns, so repeated calls end.
//! - No search over all steps: `apply` maintains the lists of steps and barriers with pending
//!   consequences.
//! - Expressions are evaluated within the budget of the commit. If it does not cover the next one,
//!   the run has consequences left, and nothing is derived from their absence.

mod answers;
pub(crate) mod backoff;
pub(crate) mod budget;
mod criteria;
pub(crate) mod disposition;
pub(crate) mod ending;
pub(crate) mod failure;
pub(crate) mod fallback;
pub(crate) mod opening;
pub(crate) mod outcome;
pub(crate) mod reported;
pub(crate) mod variables;
mod words;

use crate::plan::event::Event;
use crate::plan::event::step_event::{Accepted, AcceptedBasis, VerdictRecorded};
use crate::plan::event::table::StepEvent;
use crate::plan::state::State;
use crate::plan::state::run::{Run, RunStatus};
use crate::plan::state::step_state::Attempt;
use crate::plan::value::evaluator::{Evaluator, Exhausted};
use crate::plan::value::ids::{RunId, StepNumber, Timestamp};
use answers::{answer_events, ask_again, is_answered, must_ask_again};
use criteria::{TRUST, evaluate_criteria, trusted_verdict};
use failure::FailedAttempt;
use reported::{
    ReportedConsequence, is_decided_by_rules, is_settled_without_criteria, reported_consequence,
};
use variables::variable_events;

/// The events of one pending consequence of a run; none if the run is settled.
///
/// # Errors
/// The next consequence needs an evaluation that the rest of the budget does not cover.
pub fn settle(
    state: &State,
    run: RunId,
    evaluator: &mut Evaluator,
) -> Result<Vec<Event>, Exhausted> {
    let Some(run) = state.runs.get(&run) else { return Ok(Vec::new()) };
    match run.status {
        RunStatus::Running => {}
        RunStatus::Proposed => return Ok(ending::proposed_run_events(run)),
        RunStatus::Ended(_) => return Ok(Vec::new()),
    }
    for number in &run.pending_steps {
        let events = step_events(run, *number, state.time, evaluator)?;
        if !events.is_empty() {
            return Ok(events);
        }
    }
    let barriers = run.pending_barriers.iter().map(|id| ending::barrier_events(run, id));
    let late_barriers =
        run.links.timed_barriers().iter().map(|id| ending::late_barrier_events(run, id));
    match barriers.chain(late_barriers).find(|events| !events.is_empty()) {
        Some(events) => Ok(events),
        None => ending::run_events(state, run, evaluator),
    }
}

/// Whether a step has a consequence.
pub(crate) fn has_consequence(run: &Run, number: StepNumber) -> bool {
    if run.waits_to_request(number) {
        return false;
    }
    if is_settled_without_criteria(run, number) {
        return true;
    }
    match reported_consequence(run, number) {
        Some(ReportedConsequence::Decide(..)) => is_decided_by_rules(run),
        Some(_) => true,
        None => {
            is_answered(run, number)
                || must_ask_again(run, number)
                || opening::has_consequence(run, number)
        }
    }
}

fn step_events(
    run: &Run,
    number: StepNumber,
    time: Timestamp,
    evaluator: &mut Evaluator,
) -> Result<Vec<Event>, Exhausted> {
    if run.waits_to_request(number) {
        return Ok(Vec::new());
    }
    let Some(attempt) = run.step(number).and_then(|step| step.attempt()) else {
        return opening::consequence_events(run, number, time, evaluator);
    };
    let event = |event| Event::step(run.id, number, event);
    let verdict = |verdict| {
        event(StepEvent::VerdictRecorded(VerdictRecorded { token: attempt.token, verdict }))
    };
    Ok(match reported_consequence(run, number) {
        None if must_ask_again(run, number) => ask_again(run, number, time, evaluator)?,
        None => answer_events(run, number, time),
        Some(ReportedConsequence::Evaluate(criteria)) => {
            let verdicts = evaluate_criteria(run, number, attempt, &criteria, evaluator)?;
            verdicts.into_iter().map(verdict).collect()
        }
        Some(ReportedConsequence::Trust(criteria)) => {
            criteria.into_iter().map(trusted_verdict).map(verdict).collect()
        }
        Some(ReportedConsequence::Accept) => {
            let accepted = Accepted { basis: acceptance_basis(run, number, attempt) };
            let mut events = vec![event(StepEvent::Accepted(accepted))];
            events.extend(variable_events(run, number, attempt));
            events
        }
        Some(ReportedConsequence::Decide(class, message, attempt)) => {
            let failure = FailedAttempt::of(run, number, attempt, class, message);
            failure.decision_events(time, evaluator)?
        }
    })
}

fn acceptance_basis(run: &Run, number: StepNumber, attempt: &Attempt) -> AcceptedBasis {
    if run.plan_step(number).is_none_or(|step| !step.has_acceptance()) {
        AcceptedBasis::Receipt
    } else if attempt.verdicts.values().any(|verdict| verdict.by == TRUST) {
        AcceptedBasis::WorkersWord
    } else {
        AcceptedBasis::Verdicts
    }
}
