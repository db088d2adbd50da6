//! The state of a ledger in a store, as its owner or a standby knows it, for the HTTP port of the process.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use plan_ledger::internals::store::{AckMode, StoreKeeper};
use plan_ledger::log::Keeper as _;

use crate::commands::store::copy::Findings;
use crate::commands::store::held::{HoldDoubt, StoreView};
use crate::commands::store::lines::{HeldStoreJson, StoreHealthLine, StoreRole};

use super::contact::Contact;
use super::signs::{Owner, OwnerState, Successor};

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The view of an owner.
pub(super) struct OwnerView {
    pub(super) json: HeldStoreJson,
    pub(super) keeper: Arc<StoreKeeper>,
    pub(super) contact: Arc<Contact>,
    pub(super) lease: Duration,
    pub(super) successor: Arc<OnceLock<Successor>>,
    pub(super) findings: Arc<Findings>,
}

impl fmt::Debug for OwnerView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerView").finish_non_exhaustive()
    }
}

impl StoreView for OwnerView {
    fn health(&self) -> StoreHealthLine {
        let lag = self.keeper.lag();
        StoreHealthLine {
            ack: Some(self.json.ack.clone()),
            contact_micros: self.contact.age().map(micros),
            damaged: Some(self.findings.count()),
            epoch: self.json.epoch,
            lag_bytes: Some(lag.bytes),
            lag_micros: Some(micros(lag.age)),
            lag_records: Some(lag.records),
            node: self.json.node.clone(),
            owner: None,
            role: StoreRole::Owner,
            seq: self.keeper.kept_seq(),
            url: self.json.url.clone(),
        }
    }

    fn owner(&self) -> Option<String> {
        None
    }

    fn doubt(&self) -> Option<HoldDoubt> {
        if self.successor.get().is_some() {
            return Some(HoldDoubt::Replaced);
        }
        // In the mode `local` the work continues during an outage of the store.
        let is_watched = self.keeper.ack() != AckMode::Local;
        let age = self.contact.age().filter(|age| is_watched && *age >= self.lease)?;
        Some(HoldDoubt::NoContact(age))
    }
}

/// The view of a standby.
#[derive(Debug)]
pub(super) struct StandbyView {
    pub(super) node: String,
    pub(super) url: String,
    pub(super) contact: Arc<Contact>,
    followed: Mutex<Followed>,
}

/// The part that changes while it follows.
#[derive(Debug, Clone, Default)]
struct Followed {
    epoch: u64,
    seq: u64,
    owner: Option<String>,
}

impl StandbyView {
    pub(super) fn new(node: String, url: String, contact: Arc<Contact>) -> Arc<Self> {
        Arc::new(Self { node, url, contact, followed: Mutex::default() })
    }

    fn change(&self, change: impl FnOnce(&mut Followed)) {
        change(&mut self.followed.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn followed(&self) -> Followed {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The folder was brought to a record.
    pub(super) fn follow(&self, epoch: u64, seq: u64) {
        self.change(|followed| (followed.epoch, followed.seq) = (epoch, seq));
    }

    /// The hint of the owner. After an orderly end it names no server.
    pub(super) fn see(&self, owner: Option<&Owner>) {
        let owner = owner.filter(|owner| owner.state == OwnerState::Open);
        let address = owner.and_then(|owner| owner.clients.clone());
        self.change(|followed| followed.owner = address);
    }

    /// The owner is gone, and this process takes over.
    pub(super) fn take_over(&self) {
        self.change(|followed| followed.owner = None);
    }
}

impl StoreView for StandbyView {
    fn health(&self) -> StoreHealthLine {
        let Followed { epoch, seq, owner } = self.followed();
        StoreHealthLine {
            ack: None,
            contact_micros: self.contact.age().map(micros),
            damaged: None,
            epoch,
            lag_bytes: None,
            lag_micros: None,
            lag_records: None,
            node: self.node.clone(),
            owner,
            role: StoreRole::Standby,
            seq,
            url: self.url.clone(),
        }
    }

    fn owner(&self) -> Option<String> {
        self.followed().owner
    }

    fn doubt(&self) -> Option<HoldDoubt> {
        None
    }
}
