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
