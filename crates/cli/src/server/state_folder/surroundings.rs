//! What is known of the runs of a ledger beside its records: the inputs of their views.

use std::path::{Path, PathBuf};

use plan_ledger::log::LogReader;
use plan_ledger::plan::Route;
use plan_ledger::{Run, RunStatus, State, Timestamp};
use plan_ledger_views::{
    Audience, GoneClaim, KnownRun, KnownRunner, RunnerWait, WaitingItem, waiting_items,
};

use super::last_runner::RunnerStatus;
use super::resume_place::resume_words;
use crate::runner::{gone_claims, may_ask_planner, misplaced, runner_waits};

/// What is known of the runs of a ledger beside its records.
#[derive(Debug)]
pub(crate) struct Surroundings {
    /// The ledger's folder.
    dir: PathBuf,
    /// Whether a runner is at work.
    pub(crate) runner: RunnerStatus,
    /// The claims of processes that are gone; none for a past state.
    gone: Vec<GoneClaim>,
    /// The waits of runners; none for a past state.
    pub(crate) waits: Vec<RunnerWait>,
    /// Whether the ledger is an archive, which is only read.
    is_archive: bool,
}

impl Surroundings {
    /// What is known now.
    pub(crate) fn now(dir: &Path, log: &LogReader, state: &State, now: Timestamp) -> Self {
        let runner = RunnerStatus::of(dir, log);
        let waits = runner_waits(dir, state, now, || runner.is_absent());
        let is_archive = log.manifest().is_some();
        Self { dir: dir.to_owned(), gone: gone_claims(dir, state), waits, runner, is_archive }
    }

    /// What is known of a past state: its folder says nothing about it.
    pub(crate) fn past(dir: &Path, log: &LogReader) -> Self {
        let (gone, waits) = (Vec::new(), Vec::new());
        let is_archive = log.manifest().is_some();
        Self { dir: dir.to_owned(), runner: RunnerStatus::Unknown, gone, waits, is_archive }
    }

    /// A run of a state at that time, and all that its views know of it. `is_damaged`: whether not all of its records
    /// can be read.
    pub(crate) fn known<'a>(
        &'a self,
        (state, run): (&'a State, &'a Run),
        now: Timestamp,
        is_damaged: bool,
        reader: Audience,
    ) -> KnownRun<'a> {
        let resume = resume_words(&self.runner, &run.name, &self.dir);
        let known = self.runner.known(run, resume, &self.dir, &self.gone, &self.waits);
        let had_planner = known.had_planner && may_ask_planner(run);
        KnownRun {
            state,
            run,
            runner: KnownRunner { had_planner, ..known },
            waiting: (!is_damaged).then(|| items(run, &self.dir, now)),
            ledger: &self.dir,
            now,
            reader,
            is_archive: self.is_archive,
        }
    }
}

/// Every item that an open run waits for at a time.
pub(crate) fn items(run: &Run, dir: &Path, now: Timestamp) -> Vec<WaitingItem> {
    if matches!(run.status, RunStatus::Ended(_)) {
        return Vec::new();
    }
    waiting_items(run, &Route::default(), now).into_iter().chain(misplaced(run, dir)).collect()
}
