//! Options for opening a ledger.

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::format::HeadSync;

use crate::ledger::environment::{Clock, Environment};

use super::ledger::Ledger;

/// Options for opening a ledger: [`Ledger::options`].
///
/// ```
/// # fn main() -> plan_ledger::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let dir = folder.path().join("ledger");
/// let ledger = plan_ledger::Ledger::options().snapshot_every(Some(10_000)).open(&dir)?;
/// assert!(ledger.open_report().created);
/// # ledger.close()
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct LedgerOptions {
    environment: Environment,
    must_exist: bool,
}

/// Opening.
impl Ledger {
    /// Open the ledger in a folder, and recover it if necessary. If the folder does not exist or is
    /// empty, create a ledger. [`Ledger::open_report`] has the result.
    ///
    /// # Errors
    /// `Locked`, naming the lock holder; `Corrupt`, `Tampered` and `Ambiguous`, with the location;
    /// `Unsupported`; `NotALedger` for another folder; `Io` and `DiskFull`. None of these loses data.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        LedgerOptions::default().open(dir)
    }

    /// Options for opening a ledger.
    pub fn options() -> LedgerOptions {
        LedgerOptions::default()
    }
}

impl Default for LedgerOptions {
    fn default() -> Self {
        Self { environment: Environment::system(), must_exist: false }
    }
}

impl LedgerOptions {
    /// Replace the storage, the clock and all settings.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// The source of time. The default is the clock of the machine.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.environment.clock = Arc::new(clock);
        self
    }

    /// When the witness of the last durable record is synced. The records themselves are always
    /// synced before they are acknowledged.
    pub fn head_sync(mut self, head_sync: HeadSync) -> Self {
        self.environment.head_sync = head_sync;
        self
    }

    /// Make a snapshot of the state every so many records, which limits how many records opening the
    /// ledger folds. The default is 65,536. `None`: make them only on request.
    pub fn snapshot_every(mut self, records: Option<u64>) -> Self {
        self.environment.snapshot_every = records;
        self
    }

    /// Store an output in a separate file if it is longer than this. The default is 64 KiB.
    pub fn blob_threshold(mut self, bytes: usize) -> Self {
        self.environment.blob_threshold = bytes;
        self
    }

    /// Fail if there is no ledger, instead of creating one.
    pub fn must_exist(mut self) -> Self {
        self.must_exist = true;
        self
    }

    /// Open the ledger in a folder, and recover it if necessary. If the folder does not exist or is
    /// empty, create a ledger.
    ///
    /// # Errors
    /// As [`Ledger::open`]; `NotALedger` if the ledger must exist and does not.
    pub fn open(&self, dir: impl AsRef<Path>) -> Result<Ledger> {
        let dir = dir.as_ref();
        if self.must_exist {
            Ledger::open_with(dir, &self.environment).map(|(ledger, _)| ledger)
        } else {
            Ledger::open_or_create(dir, &self.environment).map(|(ledger, _)| ledger)
        }
    }
}
