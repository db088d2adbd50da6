//! The status of a run for its user: what is read for it.

use plan_ledger::{Run, RunStatus, StepNumber};
use plan_ledger_views::StatusView;

use crate::commands::inspect::context::Form;
use crate::commands::inspect::ledger_at::LedgerAt;
use crate::commands::inspect::output::Output;
use crate::output::Failure;
use crate::protocol::hand_off::files::stale_steps;

/// Prints the status of a run.
pub(crate) fn show_user(
    ledger: &LedgerAt<'_>,
    run: &Run,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let (known, at_work) = (ledger.known(run), ledger.at_work(run));
    let answers = ledger.answers_of_others(run.id);
    let view = StatusView::of(&known, &at_work, &answers, stale_files(ledger, run));
    if ledger.context.form == Form::Json {
        return out.json(&view.line());
    }
    out.document(&view.heading())?;
    ledger.print_past(out)?;
    out.document(&view.document())
}

/// The files of steps that did not begin which changed since the plan was made, if that is known.
pub(crate) fn stale_files(
    ledger: &LedgerAt<'_>,
    run: &Run,
) -> Option<Vec<(StepNumber, Vec<String>)>> {
    let is_open = run.status == RunStatus::Running;
    if is_open && !ledger.is_past() { stale_steps(run, None) } else { None }
}
