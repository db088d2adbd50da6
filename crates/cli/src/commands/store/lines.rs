//! What the commands `ledger store` print with `--json`. These types are published also by programs that
//! were built without the feature `store`.

use schemars::JsonSchema;
use serde::Serialize;

/// The engine of a store, for readers of JSON.
#[cfg_attr(not(feature = "store"), expect(dead_code, reason = "only a store has one"))]
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EngineWord {
    /// S3, or a server that speaks its protocol.
    S3,
    /// Azure Blob Storage.
    Azure,
    /// Google Cloud Storage.
    Gcs,
    /// A folder.
    Folder,
}

/// Whether a store is fit to hold a ledger.
#[cfg_attr(not(feature = "store"), expect(dead_code, reason = "only `ledger store` prints it"))]
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StoreProbeLine {
    /// How many objects the probe created.
    pub(super) created: u64,
    /// The median duration of a create that succeeded.
    pub(super) create_median_micros: Option<u64>,
    /// The longest duration of a create that succeeded.
    pub(super) create_slowest_micros: Option<u64>,
    /// Where requests went, if the environment said so.
    pub(super) endpoint: Option<String>,
    /// The engine.
    pub(super) engine: EngineWord,
    /// Whether the store keeps its promises.
    pub(super) fit: bool,
    /// The objects of the probe that could not be removed.
    pub(super) left: Vec<String>,
    /// The promises that the store breaks.
    pub(super) problems: Vec<String>,
    /// How many creates were refused, because the name existed.
    pub(super) refused: u64,
    /// What the server calls itself.
    pub(super) server: Option<String>,
    /// Whether the store states when an object was created.
    pub(super) states_time: bool,
    /// The address.
    pub(super) url: String,
}

/// The ledger in a store.
#[cfg_attr(not(feature = "store"), expect(dead_code, reason = "only `ledger store` prints it"))]
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StoreStatusLine {
    /// The chain value of the last record; null if only a segment object has it.
    pub(super) chain: Option<String>,
    /// The epoch of the last slot; null without slots.
    pub(super) epoch: Option<u64>,
    /// Where requests went, if the environment said so.
    pub(super) endpoint: Option<String>,
    /// The engine.
    pub(super) engine: EngineWord,
    /// The last record that segment objects cover; 0 without any.
    pub(super) floor: u64,
    /// The genesis of the ledger, in hexadecimal.
    pub(super) genesis: String,
    /// The time of the last record, by the clock of its writer; null without slots.
    pub(super) last_record_micros: Option<u64>,
    /// The ledger, in hexadecimal.
    pub(super) ledger: String,
    /// The process that wrote the last slot, in hexadecimal; null without slots.
    pub(super) node: Option<String>,
    /// Objects of other names.
    pub(super) other_objects: u64,
    /// The process that last served the ledger, as it says itself; null if there is no such hint.
    pub(super) owner: Option<StoreOwnerJson>,
    /// The bytes of segment objects.
    pub(super) segment_bytes: u64,
    /// The number of segment objects.
    pub(super) segments: u64,
    /// The last record; 0 in an empty log.
    pub(super) seq: u64,
    /// What the server calls itself.
    pub(super) server: Option<String>,
    /// The bytes of slots.
    pub(super) slot_bytes: u64,
    /// The number of slots.
    pub(super) slots: u64,
    /// The address.
    pub(super) url: String,
}

/// The process that last served a ledger in a store, as it says itself.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StoreOwnerJson {
    /// The epoch that it opened.
    pub(super) epoch: u64,
    /// Whether it ended in order, so that the ledger is free.
    pub(super) free: bool,
    /// Its address for HTTP.
    pub(super) http: Option<String>,
    /// The process, in hexadecimal, as in its slots.
    pub(super) node: String,
    /// The process, for people.
    pub(super) process: String,
}

/// The log of a ledger in a store, of a server that holds it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct HeldStoreJson {
    /// The first record that the folder had, and that the log does not have: it was never acknowledged. Null if there
    /// is none.
    pub(super) dropped_first: Option<u64>,
    /// The last such record.
    pub(super) dropped_last: Option<u64>,
    /// The epoch that the server opened.
    pub(super) epoch: u64,
    /// The server, in hexadecimal, as in its slots.
    pub(super) node: String,
    /// How many records the store got that only the folder had.
    pub(super) shipped: u64,
    /// How many records the folder got from the store.
    pub(super) taken_in: u64,
    /// The address.
    pub(super) url: String,
}

impl HeldStoreJson {
    /// The same for people.
    pub(crate) fn text(&self) -> String {
        format!("{} (epoch {})", self.url, self.epoch)
    }
}

/// A standby has what is in the store, and follows it.
#[cfg_attr(not(feature = "store"), expect(dead_code, reason = "only a store has a standby"))]
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StandbyLine {
    /// The epoch of the last record.
    pub(super) epoch: u64,
    /// This process, in hexadecimal.
    pub(super) node: String,
    /// The last record of the folder.
    pub(super) seq: u64,
    /// The address.
    pub(super) url: String,
}

/// A folder has the log of a store.
#[cfg_attr(not(feature = "store"), expect(dead_code, reason = "only a store is restored"))]
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RestoredLine {
    /// The chain value of the last record.
    pub(super) chain: String,
    /// Whether the folder was created. Otherwise it had a copy of this ledger.
    pub(super) created: bool,
    /// The folder.
    pub(super) dir: String,
    /// The last record.
    pub(super) seq: u64,
    /// How many records the folder got from the store.
    pub(super) taken_in: u64,
    /// The address.
    pub(super) url: String,
}
