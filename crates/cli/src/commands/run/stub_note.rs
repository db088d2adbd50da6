//! What stub workers did in a run that is no rehearsal.

use std::collections::BTreeMap;

use plan_ledger::plan::{StepEvent, StepRecord};
use plan_ledger::{Event, Ledger, RunId, StepNumber, StepStatus};

use crate::output::Failure;
use crate::protocol::WorkerKind;
use crate::runner::RunSummary;

/// How many accepted steps stub workers did, where others did the rest: those are no rehearsal.
pub(super) fn stub_note(
    ledger: &Ledger,
    run: RunId,
    summary: &RunSummary,
) -> Result<Option<String>, Failure> {
    if summary.counts.attempts == u64::from(summary.session.dispatched) {
        return Ok(None);
    }
    // The first records of a log may be pruned: then it is not known.
    let Ok(records) = ledger.replay(1) else { return Ok(None) };
    let mut workers = BTreeMap::new();
    for record in records {
        if let Some(Event::Step(StepRecord { run: of, step, event, .. })) = record.event
            && let (StepEvent::Dispatched(dispatched), true) = (event, of == run)
        {
            workers.insert(step, dispatched.worker);
        }
    }
    let state = ledger.state()?;
    let is_accepted = |step: &StepNumber| {
        let found = state.runs.get(&run).and_then(|run| run.step(*step));
        found.is_some_and(|step| step.status == StepStatus::Accepted)
    };
    workers.retain(|step, _| is_accepted(step));
    let stubs = workers.values().filter(|worker| WorkerKind::Stub.has_hosted(worker)).count();
    Ok((stubs > 0 && stubs < workers.len()).then(|| {
        format!("stub workers, which do nothing, did {stubs} of {} accepted steps", workers.len())
    }))
}
