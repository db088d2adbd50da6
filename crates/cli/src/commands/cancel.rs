//! `ledger cancel`: ends a run, and the workers that its last runner left.

use std::path::Path;

use plan_ledger::LedgerView;

use crate::options::{RequestArgs, environment};
use crate::output::{Code, Failure, print_note};
use crate::requests::{CancelAnswer, CancelRequest, line_of, run_of};
use crate::runner::end_workers;
use crate::server::RunnerStatus;

use super::inspect::read_state;

pub(crate) fn cancel(args: &RequestArgs<CancelRequest>) -> Result<Code, Failure> {
    let RequestArgs { ledger, request } = args;
    let answer = ledger.client().call(&request.clone().into())?;
    let code = ledger.print(&answer)?;
    if let Some(CancelAnswer { run, .. }) = line_of(&answer) {
        end_left_workers(ledger.dir(), &run)?;
    }
    Ok(code)
}

/// Ends the workers that the last runner of a cancelled run left at work. A runner that is at work does so itself.
fn end_left_workers(dir: &Path, run: &str) -> Result<(), Failure> {
    let view = LedgerView::open(dir, &environment())?;
    if !RunnerStatus::of(dir, view.log()).is_absent() {
        return Ok(());
    }
    let run = read_state(dir, |state| Ok(run_of(state, run)?.id))?;
    let Ok(folder) = dir.canonicalize() else { return Ok(()) };
    if let Some(note) = end_workers(&folder, run) {
        print_note(&format!("the last runner {note}"));
    }
    Ok(())
}
