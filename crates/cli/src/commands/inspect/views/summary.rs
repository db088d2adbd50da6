//! `ledger inspect DIR`: the log, its health, and the runs with their next actions.

use plan_ledger::internals::ledger::expect_valid;
use plan_ledger_views::RunView;

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::{LedgerOverview, holder};
use crate::commands::inspect::output::Output;
use crate::output::{Code, Failure};

use super::view::report_rollback;

pub(crate) fn summary(context: InspectContext<'_>, out: &mut Output<'_>) -> Result<Code, Failure> {
    let InspectContext { dir, form, environment } = context;
    let overview = LedgerOverview::recent(dir, environment)?;
    let holder = holder(dir, environment);
    report_rollback(context, out)?;
    let runs = &overview.fold.state.runs;
    let contents = overview.contents(dir, holder.as_deref());
    match form {
        Form::Json => {
            overview.damage_json(dir, out)?;
            for run in runs.values() {
                out.json(&RunView::of(overview.known(run)).line())?;
            }
            contents.ended_runs().try_for_each(|line| out.json(&line))?;
            out.json(&contents.line())?;
        }
        Form::Text => {
            let in_full = contents.in_full();
            let in_full = in_full.iter().filter_map(|id| runs.get(id));
            let in_full: Vec<RunView<'_>> =
                in_full.map(|run| RunView::of(overview.known(run))).collect();
            out.document(&contents.document(&in_full))?;
        }
    }
    expect_valid(&overview.fold.state)?;
    Ok(overview.code())
}
