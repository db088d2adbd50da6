//! A log that is held in a store, as its server sees it.

#[cfg(feature = "store")]
use std::fmt;
#[cfg(feature = "store")]
use std::sync::Arc;
#[cfg(feature = "store")]
use std::time::Duration;

#[cfg(feature = "store")]
use plan_ledger::{Ledger, OpenReport};

use crate::output::Failure;

use super::lines::{HeldStoreJson, StoreNewsLine};
#[cfg(feature = "store")]
use super::lines::{StandbyLine, StoreHealthLine};

/// Receives the reports of a standby before it holds the ledger, and its view of the store.
#[cfg(feature = "store")]
pub(crate) type StoreNews<'a> =
    dyn FnMut(StandbyLine, &Arc<dyn StoreView>) -> Result<(), Failure> + 'a;

/// A ledger with its log in a store, held by this process.
#[cfg(feature = "store")]
pub(crate) struct Held {
    pub(crate) ledger: Ledger,
    /// The report about opening it.
    pub(crate) report: OpenReport,
    pub(crate) log: Box<dyn HeldLog>,
}

/// The state of a ledger in a store, as this process knows it. It makes no request to the store.
#[cfg(feature = "store")]
pub(crate) trait StoreView: Send + Sync + fmt::Debug {
    /// The role of the process, and the lag of the store.
    fn health(&self) -> StoreHealthLine;

    /// The address for clients of another process that holds the ledger, if any.
    fn owner(&self) -> Option<String>;

    /// The reason why another process may hold the ledger now, although this one opened it.
    fn doubt(&self) -> Option<HoldDoubt>;
}

/// Why another process may hold the ledger now.
#[cfg(feature = "store")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldDoubt {
    /// It took over.
    Replaced,
    /// The store has given no answer for this long, which is at least the lease.
    NoContact(Duration),
}

/// The addresses of a server for HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpAddress {
    /// The address of its listener.
    pub(crate) bound: String,
    /// The address that clients on other machines use, if it is known. Only a store shows it to others.
    pub(crate) clients: Option<String>,
}

/// A log that this process holds in a store.
pub(crate) trait HeldLog {
    /// The lines that are printed about it.
    fn json(&self) -> HeldStoreJson;

    /// The known state.
    #[cfg(feature = "store")]
    fn view(&self) -> Arc<dyn StoreView>;

    /// Show signs of life from now on, with the address for HTTP.
    fn start(&mut self, http: Option<&HttpAddress>) -> Result<(), Failure>;

    /// New reports about the store: its lag, and damage in it. Fails if another process took over.
    fn check(&mut self) -> Result<Vec<StoreNewsLine>, Failure>;

    /// The same failure, with the process that took over if that is the reason.
    fn explain(&self, failure: Failure) -> Failure;

    /// Ship the records that the store lacks, unless an earlier call failed, and stop showing signs of life.
    fn finish(&mut self, has_failed: bool) -> Result<(), Failure>;

    /// Report that the ledger is free, if the store has all of it: the ledger was closed, and a standby may take over
    /// at once.
    fn release(&mut self);
}
