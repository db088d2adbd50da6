//! The state after one record, and one complete run: the view `ledger inspect DIR runs RUN`.

use plan_ledger::RunId;
use plan_ledger_views::{RunState, StateLine};

use crate::commands::inspect::context::Form;
use crate::commands::inspect::ledger_at::LedgerAt;
use crate::commands::inspect::output::Output;
use crate::output::Failure;

/// Shows one run in full, and the state that it belongs to.
pub(crate) fn run_state(
    ledger: &LedgerAt<'_>,
    id: RunId,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let state = StateLine::of(&ledger.state);
    let view = RunState::of(ledger.run(id)?, ledger.now);
    if ledger.context.form == Form::Text {
        ledger.print_past(out)?;
        let mut document = state.document();
        document.gap();
        document.append(view.document());
        return out.document(&document);
    }
    out.json(&state)?;
    out.json(&view.run)?;
    view.steps.iter().try_for_each(|line| out.json(line))?;
    view.variables.iter().try_for_each(|line| out.json(line))?;
    view.barriers.iter().try_for_each(|line| out.json(line))?;
    view.questions.iter().try_for_each(|line| out.json(line))?;
    view.budget.iter().try_for_each(|line| out.json(line))
}
