//! What an earlier runner left in flight.
//!
//! Invariant: an attempt is given up only after its worker is known to be dead; attempts that
//! nobody of this kind hosted are left to their leases.

use crate::error::Result;
use crate::ledger::Ledger;
use crate::plan::{Command, LostCause, RunId, StepNumber, StepStatus};

use super::{Observer, Progress, StepName, WorkerKind, Workers};

/// Give up the attempts that an earlier runner hosted, once their workers are known to be dead,
/// and answer the doubts that these workers can answer. How many attempts were given up.
///
/// Only for a run that no other thread of this process drives.
pub fn recover(
    ledger: &Ledger,
    run: RunId,
    workers: &mut dyn Workers,
    observer: &mut dyn Observer,
) -> Result<u32> {
    workers.confirm_dead()?;
    let state = ledger.state();
    let mut lost = 0;
    for (token, (_, number)) in state.in_flight.iter().filter(|(_, (of, _))| *of == run) {
        let Some(the_run) = state.runs.get(&run) else { continue };
        let attempt = the_run.step(*number).and_then(|step| step.attempt.as_ref());
        if !attempt.is_some_and(|attempt| WorkerKind::hosted(&attempt.worker)) {
            continue;
        }
        let detail = "the runner that hosted it ended before it reported";
        ledger.report_lost(*token, LostCause::RunnerDied, detail)?;
        lost += 1;
        observer.progress(&Progress::Lost {
            step: StepName::of(the_run, *number),
            token: *token,
            detail: detail.to_owned(),
            status: status_of(ledger, run, *number),
        });
    }
    if let Some(finding) = workers.resolve_doubt() {
        let by = workers.kind().judge().to_owned();
        let in_doubt =
            ledger.state().runs.get(&run).map(|run| run.in_doubt.clone()).unwrap_or_default();
        for step in in_doubt {
            let (by, evidence) = (by.clone(), String::new());
            ledger.execute(&Command::ResolveDoubt { run, step, finding, by, evidence })?;
        }
    }
    Ok(lost)
}

/// How a step stands now.
pub(super) fn status_of(ledger: &Ledger, run: RunId, number: StepNumber) -> StepStatus {
    let state = ledger.state();
    let step = state.runs.get(&run).and_then(|run| run.step(number));
    step.map_or(StepStatus::Removed, |step| step.status)
}
