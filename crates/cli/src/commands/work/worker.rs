//! The state of a worker: its options, its connections, its files and its counts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use plan_ledger::{Clock, Error, Outcome, Receipt};

use crate::options::environment;
use crate::output::Failure;
use crate::protocol::Answer;
use crate::runner::{GuardState, KeptClaim, StopRequest};
use crate::server::{Client, StopCheck};
use crate::signals::StopSignals;

use super::answers::text_in;
use super::args::WorkArgs;
use super::judge_process::expect_judge;
use super::lease::LedgerTime;

pub(super) struct Worker<'a> {
    pub(super) args: &'a WorkArgs,
    pub(super) signals: StopSignals,
    /// The absolute path of the ledger's folder. Where servers on other machines have the ledger, this is a folder with
    /// this worker's files alone.
    pub(super) ledger: PathBuf,
    _stand_in: Option<TempDir>,
    /// The files of the command's attempts. A judge has none.
    attempt_files: Option<TempDir>,
    pub(super) client: Client,
    /// A separate connection for renewals, so that they do not wait for other requests.
    pub(super) heartbeats: Client,
    pub(super) tally: WorkTally,
    /// The guards' record of the command.
    pub(super) guard: GuardState,
    pub(super) clock: Arc<dyn Clock>,
    /// The record of the claim that this worker works on.
    pub(super) kept: Option<KeptClaim>,
    /// Whether this process is inside an attempt or an agent session, and checks nothing.
    pub(super) is_inside: bool,
    /// The reports about criteria that are not checked.
    pub(super) told: BTreeSet<String>,
}

/// A folder that is removed at the end.
fn own_folder() -> Result<TempDir, Error> {
    tempfile::tempdir().map_err(|error| {
        Error::io("create a folder for the worker's files", &std::env::temp_dir(), error)
    })
}

/// Whether the signals make this request, or a stronger one.
pub(super) fn stop_at(signals: &StopSignals, request: StopRequest) -> StopCheck {
    let signals = signals.clone();
    StopCheck::new(move || signals.request() >= request)
}

impl<'a> Worker<'a> {
    pub(super) fn new(args: &'a WorkArgs) -> Result<Self, Failure> {
        let signals = StopSignals::register(args.ledger.dir())?;
        let failed = |error| Error::io("find the ledger's folder", args.ledger.dir(), error);
        let attempt_files = (!args.judge_only).then(own_folder).transpose()?;
        let stand_in = args.ledger.is_remote().then(own_folder).transpose()?;
        // The first claim reports a missing ledger.
        let ledger = match &stand_in {
            Some(folder) => folder.path().to_owned(),
            None => std::path::absolute(args.ledger.dir()).map_err(failed)?,
        };
        let (mut client, mut heartbeats) = (args.ledger.client()?, args.ledger.client()?);
        client.stop_when(stop_at(&signals, StopRequest::Kill));
        heartbeats.stop_when(stop_at(&signals, StopRequest::Kill));
        Ok(Self {
            args,
            signals,
            ledger,
            _stand_in: stand_in,
            attempt_files,
            client,
            heartbeats,
            tally: WorkTally::default(),
            guard: GuardState::default(),
            clock: environment().clock,
            kept: None,
            is_inside: !args.ledger.is_remote() && expect_judge(args.ledger.dir()).is_err(),
            told: BTreeSet::new(),
        })
    }

    /// The folder with the files of the command's attempts.
    pub(super) fn files(&self) -> &Path {
        self.attempt_files.as_ref().map_or(&self.ledger, TempDir::path)
    }

    /// Keeps that folder at the end.
    pub(super) fn keep_files(&mut self) {
        if let Some(files) = &mut self.attempt_files {
            files.disable_cleanup(true);
        }
    }

    /// Whether servers on other machines have the ledger: then its state cannot be read here.
    pub(super) fn is_remote(&self) -> bool {
        self.args.ledger.is_remote()
    }

    /// The ledger's time, as far as it can be known here.
    pub(super) fn time(&self) -> LedgerTime {
        if self.is_remote() { LedgerTime::ThisMachine } else { LedgerTime::Of(self.ledger.clone()) }
    }

    /// Whether the worker takes the steps of every run.
    pub(super) fn serves_every_run(&self) -> bool {
        self.args.run.name().is_none()
    }

    /// Whether a signal asked the worker to stop.
    pub(super) fn is_stopping(&self) -> bool {
        self.signals.request() != StopRequest::None
    }
}

/// The attempts so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WorkTally {
    /// Attempts with a recorded receipt.
    pub(super) reported: u64,
    /// Those that failed, by their receipt or by a criterion.
    pub(super) failed: u64,
}

impl WorkTally {
    /// Counts a receipt and the last answer about it.
    pub(super) fn count(&mut self, receipt: &Receipt, answer: &Answer) {
        let has_failed = matches!(receipt.outcome, Outcome::Failed { .. });
        let is_rejected = text_in(answer, "ruling").is_some_and(|ruling| ruling == "fail");
        self.reported += 1;
        self.failed += u64::from(has_failed || is_rejected);
    }

    pub(super) fn succeeded(self) -> u64 {
        self.reported.saturating_sub(self.failed)
    }
}
