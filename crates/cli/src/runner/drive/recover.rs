//! Recovery: handles attempts that an earlier runner left in flight.
//!
//! Invariant: an attempt is recorded as lost only after its worker is known to be dead. Attempts of
//! workers that no runner hosted keep their leases.

use plan_ledger::{
    AttemptToken, Command, Ledger, LostCause, Result, RunId, State, StepNumber, StepStatus,
};

use crate::protocol::{StepName, WorkerKind};
use crate::runner::progress::{Observer, Progress};
use crate::runner::workers::Workers;

/// Record the in-flight attempts of an earlier runner as lost, once their workers are known to be
/// dead, and resolve the unknown outcomes that these workers can resolve. Returns the number of
/// lost attempts.
///
/// No other thread of this process may drive the run meanwhile.
pub fn recover(
    ledger: &Ledger,
    run: RunId,
    workers: &mut dyn Workers,
    observer: &mut dyn Observer,
) -> Result<u32> {
    workers.confirm_dead()?;
    let notes = workers.notes();
    let state = ledger.state()?;
    let mut lost = 0;
    for (token, (_, number)) in state.in_flight.iter().filter(|(_, (of, _))| *of == run) {
        let Some(the_run) = state.runs.get(&run) else { continue };
        let attempt = the_run.step(*number).and_then(|step| step.attempt());
        if !attempt.is_some_and(|attempt| WorkerKind::hosted(&attempt.worker)) {
            continue;
        }
        let note = notes.iter().find(|note| note.token == Some(*token));
        let note = note.map(|note| format!("; it {}", note.text)).unwrap_or_default();
        let detail = format!("the runner that hosted it ended before it reported{note}");
        ledger.report_lost(*token, LostCause::RunnerDied, &detail)?;
        lost += 1;
        observer.progress(&Progress::Lost {
            step: StepName::of(the_run, *number),
            token: *token,
            detail,
            status: status_of(&*ledger.state()?, run, *number),
        });
    }
    // These processes belong to attempts that are over, or to checks.
    for note in notes.iter().filter(|note| !is_in_flight(&state, run, note.token)) {
        let note = format!("an attempt or a check of an earlier runner {}", note.text);
        observer.progress(&Progress::Noted { step: None, note });
    }
    if let Some(finding) = workers.resolve_outcome() {
        let by = workers.kind().judge().to_owned();
        let outcome_unknown = ledger
            .state()?
            .runs
            .get(&run)
            .map(|run| run.outcome_unknown.clone())
            .unwrap_or_default();
        for step in outcome_unknown {
            let (by, evidence) = (by.clone(), String::new());
            ledger.execute(&Command::ResolveOutcome { run, step, finding, by, evidence })?;
        }
    }
    Ok(lost)
}

fn is_in_flight(state: &State, run: RunId, token: Option<AttemptToken>) -> bool {
    token.and_then(|token| state.in_flight.get(&token)).is_some_and(|(of, _)| *of == run)
}

/// The current status of a step.
pub(crate) fn status_of(state: &State, run: RunId, number: StepNumber) -> StepStatus {
    let step = state.runs.get(&run).and_then(|run| run.step(number));
    step.map_or(StepStatus::Removed, |step| step.status)
}
