//! Reported steps that no judge checks because of the folder of their work.

use std::path::Path;

use plan_ledger::{Run, StepNumber, StepStatus};
use plan_ledger_views::{StepName, WaitingItem};

use crate::protocol::WorkElsewhere;

/// The reported steps that no judge checks because of the folder of their work. Unlike the other items it depends
/// on the file system.
pub(crate) fn misplaced(run: &Run, ledger: &Path) -> Vec<WaitingItem> {
    run.reported.iter().filter_map(|number| misplaced_step(run, *number, ledger)).collect()
}

/// The item for a reported step that no judge checks because of the folder of its work.
fn misplaced_step(run: &Run, number: StepNumber, ledger: &Path) -> Option<WaitingItem> {
    run.step(number).filter(|step| step.status == StepStatus::Reported)?;
    let elsewhere = WorkElsewhere::of(run, number)?;
    let reason = elsewhere.problem()?;
    let WorkElsewhere { approved, work } = elsewhere;
    let (step, hash) = (StepName::of(run, number), run.active_version()?.hash);
    let is_there = Path::new(&work).is_dir();
    let ledger = is_there.then(|| ledger.canonicalize().unwrap_or_else(|_| ledger.to_owned()));
    Some(WaitingItem::Misplaced { step, approved, work, reason, hash, ledger })
}
