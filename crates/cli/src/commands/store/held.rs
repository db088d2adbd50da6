//! A log that is held in a store, as its server sees it.

use std::sync::Arc;

use plan_ledger::Ledger;

use crate::output::Failure;

use super::lines::HeldStoreJson;
#[cfg(feature = "store")]
use super::lines::StandbyLine;

/// Is told what a standby does before it holds the ledger.
#[cfg(feature = "store")]
pub(crate) type StoreNews<'a> = dyn FnMut(&StandbyLine) -> Result<(), Failure> + 'a;

/// A log that this process holds in a store.
pub(crate) trait HeldLog {
    /// What is printed about it.
    fn json(&self) -> HeldStoreJson;

    /// Show signs of life from now on, with the address for HTTP.
    fn start(&mut self, ledger: &Arc<Ledger>, http: Option<&str>) -> Result<(), Failure>;

    /// Fails if another process took over.
    fn check(&self) -> Result<(), Failure>;

    /// The same failure, with the process that took over if that is the reason. `next_seq` follows the last record.
    fn explain(&self, failure: Failure, next_seq: u64) -> Failure;

    /// Show no more signs of life.
    fn stop(&mut self);

    /// Say that the ledger is free: it was closed, and a standby may take over at once.
    fn release(&mut self);
}
