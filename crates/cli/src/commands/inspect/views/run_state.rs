//! The state after one record, and one complete run: the view `ledger inspect DIR runs RUN`.

use plan_ledger::{Run, RunId};
use plan_ledger_views::{BudgetRow, RunState, StateLine, elapsed};

use crate::commands::inspect::context::Form;
use crate::commands::inspect::ledger_at::LedgerAt;
use crate::commands::inspect::output::Output;
use crate::output::render::Paint;
use crate::output::{Failure, escape_control};
use plan_ledger_views::{progress_text, run_status_text, spent_text};

/// Shows one run in full, and the state that it belongs to.
pub(crate) fn run_state(
    ledger: &LedgerAt<'_>,
    id: RunId,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let run = ledger.run(id)?;
    let state = StateLine::of(&ledger.state);
    let view = RunState::of(run, ledger.now);
    if ledger.context.form == Form::Text {
        ledger.print_past(out)?;
        out.document(&state.document())?;
        out.line("")?;
        print_line(run, out)?;
        return out.document(&view.document());
    }
    out.json(&state)?;
    out.json(&view.run)?;
    view.steps.iter().try_for_each(|line| out.json(line))?;
    view.variables.iter().try_for_each(|line| out.json(line))?;
    view.barriers.iter().try_for_each(|line| out.json(line))?;
    view.questions.iter().try_for_each(|line| out.json(line))?;
    let parts = BudgetRow::all(&run.account, run.limits(), Some(elapsed(run, ledger.now)));
    parts.iter().try_for_each(|part| out.json(&part.line(Some(id))))
}

fn print_line(run: &Run, out: &mut Output<'_>) -> Result<(), Failure> {
    let (paint, status) = run_status_text(run.status);
    let status = out.style.paint(paint, &status);
    let name = out.style.paint(Paint::Heading, &format!("run {}", escape_control(&run.name)));
    out.line(&format!("{name} ({}): {status}", run.id))?;
    out.line(&format!("  {}", out.style.fit(&progress_text(run), 2)))?;
    out.line(&format!("  {}", out.style.fit(&spent_text(run), 2)))
}
