//! The checks of a run that run now.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::{Run, StepNumber};

use crate::commands::inspect::ledger_at::LedgerAt;
use crate::json::TimeJson;
use crate::runner::CheckAtWork;

/// A check of a criterion that runs now.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct CheckJson {
    /// The criterion, from 0.
    criterion: u32,
    /// The process.
    process: u32,
    /// Since when.
    since: TimeJson,
    /// The step; null for a criterion of the plan.
    step: Option<StepNumber>,
}

impl CheckJson {
    pub(crate) fn of_run(ledger: &LedgerAt<'_>, run: &Run) -> Vec<Self> {
        let json = |CheckAtWork { step, criterion, process, since }| Self {
            criterion,
            process,
            since: since.into(),
            step,
        };
        ledger.checks_at_work(run).into_iter().map(json).collect()
    }
}
