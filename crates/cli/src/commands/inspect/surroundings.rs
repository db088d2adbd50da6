//! What is known of the runs of a ledger beside its records: the inputs of their views.

use std::path::Path;

use plan_ledger::plan::Route;
use plan_ledger::{Run, RunStatus, State, Timestamp};
use plan_ledger_views::{
    GoneClaim, KnownRun, KnownRunner, RunActivity, RunnerWait, WaitingItem, waiting_items,
};

use crate::output::reader;
use crate::runner::{may_ask_planner, misplaced};
use crate::server::RunnerStatus;

/// What is known of the runs of a ledger beside its records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// The ledger's folder, for commands.
    pub(crate) dir: &'a Path,
    pub(crate) now: Timestamp,
    pub(crate) runner: &'a RunnerStatus,
    /// The claims of processes that are gone.
    pub(crate) dead: &'a [GoneClaim],
    /// The waits of runners.
    pub(crate) waits: &'a [RunnerWait],
    /// Whether not all records can be read.
    pub(crate) is_damaged: bool,
}

impl<'a> Surroundings<'a> {
    /// A run, and all that its views know of it.
    pub(crate) fn known(self, state: &'a State, run: &'a Run) -> KnownRun<'a> {
        let Self { dir, now, dead, waits, .. } = self;
        let known = self.runner.known(run, dir, dead, waits);
        let had_planner = known.had_planner && may_ask_planner(run);
        KnownRun {
            state,
            run,
            runner: KnownRunner { had_planner, ..known },
            waiting: (!self.is_damaged).then(|| items(run, dir)),
            ledger: dir,
            now,
            reader: reader(),
        }
    }

    /// How a run stands.
    pub(crate) fn activity(self, state: &'a State, run: &'a Run) -> RunActivity {
        self.known(state, run).activity()
    }
}

/// Every item that an open run waits for.
pub(crate) fn items(run: &Run, dir: &Path) -> Vec<WaitingItem> {
    if matches!(run.status, RunStatus::Ended(_)) {
        return Vec::new();
    }
    waiting_items(run, &Route::default()).into_iter().chain(misplaced(run, dir)).collect()
}
