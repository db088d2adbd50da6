//! A log that is held in a store, as its server sees it.

use crate::output::Failure;

#[cfg(feature = "store")]
use super::lines::StandbyLine;
use super::lines::{HeldStoreJson, StoreLagLine};

/// Is told what a standby does before it holds the ledger.
#[cfg(feature = "store")]
pub(crate) type StoreNews<'a> = dyn FnMut(&StandbyLine) -> Result<(), Failure> + 'a;

/// A log that this process holds in a store.
pub(crate) trait HeldLog {
    /// What is printed about it.
    fn json(&self) -> HeldStoreJson;

    /// Show signs of life from now on, with the address for HTTP.
    fn start(&mut self, http: Option<&str>) -> Result<(), Failure>;

    /// What is new about the lag of the store. Fails if another process took over.
    fn check(&mut self) -> Result<Option<StoreLagLine>, Failure>;

    /// The same failure, with the process that took over if that is the reason.
    fn explain(&self, failure: Failure) -> Failure;

    /// Ship what the store lacks, unless something failed before, and show no more signs of life.
    fn finish(&mut self, has_failed: bool) -> Result<(), Failure>;

    /// Say that the ledger is free, if the store has all of it: it was closed, and a standby may take over at once.
    fn release(&mut self);
}
