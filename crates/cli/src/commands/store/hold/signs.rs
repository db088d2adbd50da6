//! The hints that a process writes about itself: `OWNER.json`, and its sign of life. A lost, old or forged hint is
//! safe: hints only decide when a standby tries to take over, and which process an error message names.

use serde::{Deserialize, Serialize};

use plan_ledger::internals::format::Uid;
use plan_ledger::internals::store::{LedgerIdentity, ObjectName, Objects, SlotHeader};

use crate::protocol::hex;

/// The name of the hint about the owner.
pub(super) const OWNER_NAME: &str = "OWNER.json";

/// Whether the owner holds the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OwnerState {
    /// It serves the ledger.
    Open,
    /// It ended in order: everything is in the store.
    Free,
}

/// The process that last held the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    /// When it acknowledges a result.
    pub(super) ack: String,
    /// The HTTP address that a standby gives to clients.
    pub(super) clients: Option<String>,
    /// The epoch that it opened.
    pub(super) epoch: u64,
    /// The folder of its ledger.
    pub(super) folder: String,
    /// Its address for HTTP.
    pub(super) http: Option<String>,
    /// The boot and the process namespace of the process.
    pub(super) machine: Option<String>,
    /// The process, as in its slots.
    pub(super) node: String,
    /// The process, for people.
    pub(super) process: String,
    pub(super) state: OwnerState,
}

/// The role of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NodeRole {
    Owner,
    Standby,
}

/// A sign of life. A reader only compares it with the previous one.
#[derive(Debug, Serialize)]
struct Sign {
    /// The number of signs before it.
    count: u64,
    node: String,
    role: NodeRole,
}

/// Writes the signs of life of a process.
#[derive(Debug)]
pub(super) struct Signs {
    node: String,
    role: NodeRole,
    count: u64,
}

/// The name of the sign of life of a process.
pub(super) fn sign_name(node: &str) -> String {
    format!("nodes/{node}.json")
}

impl Owner {
    /// The hint in a store. An unreadable one counts as missing.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Write the hint; a failure is the answer `false`.
    pub(super) fn write(&self, objects: &dyn Objects) -> bool {
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        objects.put_hint(OWNER_NAME, &bytes).is_ok()
    }

    /// The process and its address, for people.
    pub(super) fn text(&self) -> String {
        match &self.http {
            Some(http) => format!("{} at {http}", self.process),
            None => self.process.clone(),
        }
    }
}

impl Signs {
    pub(super) fn new(node: &Uid, role: NodeRole) -> Self {
        Self { node: hex(node), role, count: 0 }
    }

    /// Write the next sign of life. One that is lost is followed by another.
    pub(super) fn write(&mut self, objects: &dyn Objects) {
        let Self { node, role, count } = self;
        let sign = Sign { count: *count, node: node.clone(), role: *role };
        *count += 1;
        let bytes = serde_json::to_vec(&sign).unwrap_or_default();
        let _ = objects.put_hint(&sign_name(node), &bytes);
    }
}

/// A process that took over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Successor {
    pub(super) epoch: u64,
    pub(super) node: String,
    /// The process and its address for people, if the hint names it.
    pub(super) known: Option<String>,
}

impl Successor {
    /// The process that opened a later epoch at the next record; `None` if there is none, or the
    /// store gives no clear answer.
    pub(super) fn after(
        objects: &dyn Objects,
        identity: &LedgerIdentity,
        epoch: u64,
        next_seq: u64,
    ) -> Option<Self> {
        let length = u64::try_from(plan_ledger::internals::store::SLOT_HEADER_SIZE).ok()?;
        let name = ObjectName::Slot(next_seq).to_string();
        let found = objects.get(&name, Some(0..length)).ok()??;
        let header = SlotHeader::decode(&found.bytes).ok()?;
        let is_later = header.epoch > epoch
            && header.first_seq == next_seq
            && (header.ledger, header.genesis) == (identity.ledger, identity.genesis);
        if !is_later {
            return None;
        }
        let node = hex(&header.node);
        let owner = objects.get(OWNER_NAME, None).ok().flatten();
        let owner = owner.and_then(|found| Owner::parse(&found.bytes));
        let known = owner.filter(|owner| owner.node == node).map(|owner| owner.text());
        Some(Self { epoch: header.epoch, node, known })
    }
}
