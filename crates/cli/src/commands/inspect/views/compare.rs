//! `ledger inspect DIR diff RUN RUN`: where two runs diverge, and how their results differ.

use plan_ledger::RunId;
use plan_ledger_views::{ComparisonLine, comparison_document};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::output::{Code, Failure};

pub(crate) fn compare(
    one: &str,
    other: &str,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let ledger = LedgerAt::of(context, AtArg::default())?;
    let runs = [ledger.find_run(one)?, ledger.find_run(other)?];
    let [first, second] = runs;
    let found = ledger.view.compare(first, second)?;
    match context.form {
        Form::Json => out.json(&ComparisonLine::from(&found))?,
        Form::Text => {
            let name = |id: RunId| {
                let known = ledger.state.names.iter().find(|(_, run)| **run == id);
                known.map_or_else(|| id.to_string(), |(name, _)| name.clone())
            };
            out.document(&comparison_document(&found, &runs.map(name)))?;
        }
    }
    ledger.finish(out)
}
