//! Consequences: events that follow from the state without a command.
//!
//! A reported step is accepted or fails, conditions are evaluated, questions are asked, barriers are
//! released or break, and a run ends. Timers are not consequences: they need a clock and fire in
//! `Command::Tick`.
//!
//! Invariants:
//! - A consequence is a function of the state alone: no clock, no command.
//! - One call returns the events of one consequence, and applying them removes it. Settling until nothing
//!   follows therefore terminates.
//! - Nothing is searched: `apply` maintains the lists of steps and barriers with consequences.

mod answers;
pub(crate) mod budget;
mod criteria;
pub(crate) mod disposition;
mod ending;
pub(crate) mod failure;
pub(crate) mod fallback;
pub(crate) mod opening;
pub(crate) mod outcome;
pub(crate) mod reported;
pub(crate) mod variables;

use crate::plan::event::Event;
use crate::plan::event::step_event::{Accepted, AcceptedBasis, StepEvent, VerdictRecorded};
use crate::plan::state::State;
use crate::plan::state::run::{Run, RunStatus};
use crate::plan::state::step_state::Attempt;
use crate::plan::value::ids::{Micros, RunId, StepNumber};
use answers::{asked_again, is_answered, is_unasked, of_answer};
use criteria::{TRUST, judged, trust};
use failure::FailedAttempt;
use reported::{ReportedConsequence, is_decided_by_rules, reported_consequence};
use variables::variables;

/// The events of one consequence in a run; none if everything is settled.
#[must_use]
pub fn settle(state: &State, run: RunId) -> Vec<Event> {
    let Some(run) = state.runs.get(&run) else { return Vec::new() };
    match run.status {
        RunStatus::Running => {}
        RunStatus::Proposed => return ending::of_proposed(run),
        RunStatus::Ended(_) => return Vec::new(),
    }
    let of_steps = run.due.iter().map(|number| step_consequence(run, *number, state.time));
    let of_barriers = run.due_barriers.iter().map(|id| ending::of_barrier(run, id));
    let of_late = run.links.timed_barriers().iter().map(|id| ending::of_late_barrier(run, id));
    let first = of_steps.chain(of_barriers).chain(of_late).find(|events| !events.is_empty());
    first.unwrap_or_else(|| ending::of_run(state, run))
}

/// Whether a step has a consequence.
pub(crate) fn has_consequence(run: &Run, number: StepNumber) -> bool {
    match reported_consequence(run, number) {
        Some(ReportedConsequence::Decide(..)) => is_decided_by_rules(run),
        Some(_) => true,
        None => {
            is_answered(run, number)
                || is_unasked(run, number)
                || opening::has_consequence(run, number)
        }
    }
}

fn step_consequence(run: &Run, number: StepNumber, time: Micros) -> Vec<Event> {
    let Some(attempt) = run.step(number).and_then(|step| step.attempt()) else {
        return opening::consequence_events(run, number, time);
    };
    let event = |event| Event::step(run.id, number, event);
    let verdict = |verdict| {
        event(StepEvent::VerdictRecorded(VerdictRecorded { token: attempt.token, verdict }))
    };
    match reported_consequence(run, number) {
        None if is_unasked(run, number) => asked_again(run, number, time),
        None => of_answer(run, number, time),
        Some(ReportedConsequence::Judge(criteria)) => {
            criteria.into_iter().map(|place| verdict(judged(run, number, attempt, place))).collect()
        }
        Some(ReportedConsequence::Trust(criteria)) => {
            criteria.into_iter().map(trust).map(verdict).collect()
        }
        Some(ReportedConsequence::Accept) => {
            let accepted = Accepted { basis: basis(run, number, attempt) };
            let mut events = vec![event(StepEvent::Accepted(accepted))];
            events.extend(variables(run, number, attempt));
            events
        }
        Some(ReportedConsequence::Decide(class, message, attempt)) => {
            let failure = FailedAttempt::of(run, number, attempt, class, message);
            failure.consequence(time)
        }
    }
}

fn basis(run: &Run, number: StepNumber, attempt: &Attempt) -> AcceptedBasis {
    if run.plan_step(number).is_none_or(|step| !step.has_acceptance()) {
        AcceptedBasis::Receipt
    } else if attempt.verdicts.values().any(|verdict| verdict.by == TRUST) {
        AcceptedBasis::WorkersWord
    } else {
        AcceptedBasis::Verdicts
    }
}
