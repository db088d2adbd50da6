//! The JSON output of the commands `ledger store`. These types are published also by programs that
//! were built without the feature `store`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "store")]
use crate::json::line_text;
use crate::protocol::{counted, size};

/// The engine of a store, for readers of JSON.
#[cfg_attr(not(feature = "store"), expect(dead_code, reason = "only a store has one"))]
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
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
#[cfg_attr(
    not(any(feature = "store", test)),
    expect(dead_code, reason = "only `ledger store` prints it")
)]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct StoreProbeLine {
    /// How many objects the probe created.
    pub(super) created: u64,
    /// The median duration of a create that succeeded.
    pub(super) create_median_micros: Option<u64>,
    /// The longest duration of a create that succeeded.
    pub(super) create_slowest_micros: Option<u64>,
    /// The endpoint of the requests, if the environment names one.
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
    /// The name that the server gives itself.
    pub(super) server: Option<String>,
    /// Whether the store states when an object was created.
    pub(super) states_time: bool,
    /// The address.
    pub(super) url: String,
}

/// The ledger in a store.
#[cfg_attr(
    not(any(feature = "store", test)),
    expect(dead_code, reason = "only `ledger store` prints it")
)]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct StoreStatusLine {
    /// The chain value of the last record; null if only a segment object has it.
    pub(super) chain: Option<String>,
    /// The epoch of the last slot; null without slots.
    pub(super) epoch: Option<u64>,
    /// The endpoint of the requests, if the environment names one.
    pub(super) endpoint: Option<String>,
    /// The engine.
    pub(super) engine: EngineWord,
    /// The last record that segment objects cover; 0 without any.
    pub(super) floor: u64,
    /// The genesis of the ledger, in hexadecimal.
    pub(super) genesis: String,
    /// The bytes of index objects.
    pub(super) index_bytes: u64,
    /// The number of index objects.
    pub(super) indexes: u64,
    /// The time of the last record, by the clock of its writer; null without slots.
    pub(super) last_record_micros: Option<u64>,
    /// The ledger, in hexadecimal.
    pub(super) ledger: String,
    /// The process that wrote the last slot, in hexadecimal; null without slots.
    pub(super) node: Option<String>,
    /// Objects of other names.
    pub(super) other_objects: u64,
    /// The process that last served the ledger, from its own hint; null without a hint.
    pub(super) owner: Option<StoreOwnerJson>,
    /// The bytes of segment objects.
    pub(super) segment_bytes: u64,
    /// The number of segment objects.
    pub(super) segments: u64,
    /// The last record; 0 in an empty log.
    pub(super) seq: u64,
    /// The name that the server gives itself.
    pub(super) server: Option<String>,
    /// The bytes of slots.
    pub(super) slot_bytes: u64,
    /// The number of slots.
    pub(super) slots: u64,
    /// The bytes of snapshots.
    pub(super) snapshot_bytes: u64,
    /// The record of the newest snapshot, by its name; null without one.
    pub(super) snapshot_seq: Option<u64>,
    /// The number of snapshots.
    pub(super) snapshots: u64,
    /// The address.
    pub(super) url: String,
}

/// The objects that can be deleted from a store, or were, and the number of kept slots by reason.
#[cfg_attr(
    not(any(feature = "store", test)),
    expect(dead_code, reason = "only `ledger store` prints it")
)]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct StoreGcLine {
    /// Whether the objects were deleted. Otherwise nothing was changed.
    pub(super) done: bool,
    /// The last record that segment objects cover; 0 without any.
    pub(super) floor: u64,
    /// The bytes of the index objects.
    pub(super) index_bytes: u64,
    /// The number of index objects that a longer one replaced 48 hours ago.
    pub(super) indexes: u64,
    /// Slots that are kept because they cannot be read.
    pub(super) kept_invalid: u64,
    /// Slots that are kept because they open an epoch.
    pub(super) kept_opening: u64,
    /// Slots that are kept because no segment object has all of their records.
    pub(super) kept_uncovered: u64,
    /// Slots that are kept because the store does not say that they are 48 hours old.
    pub(super) kept_young: u64,
    /// The bytes of the first parts.
    pub(super) part_bytes: u64,
    /// The number of first parts of segments that a longer object replaced 48 hours ago.
    pub(super) parts: u64,
    /// The bytes of the slots.
    pub(super) slot_bytes: u64,
    /// The number of slots with their records in segment objects.
    pub(super) slots: u64,
    /// The bytes of the snapshots.
    pub(super) snapshot_bytes: u64,
    /// The number of snapshots that two later ones replaced 48 hours ago, and that are not the
    /// start of a pruned log.
    pub(super) snapshots: u64,
    /// The address.
    pub(super) url: String,
}

/// The segments of a store that can be deleted because the ledger was pruned, or were.
#[cfg_attr(
    not(any(feature = "store", test)),
    expect(dead_code, reason = "only `ledger store` prints it")
)]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct StorePruneLine {
    /// The snapshots that were created in the store.
    pub(super) created: Vec<String>,
    /// Whether they were deleted. Otherwise nothing was changed.
    pub(super) done: bool,
    /// The folder that was named and has the snapshots that the store lacks; null if none was named, the store lacks none, or
    /// they were created.
    pub(super) found_in: Option<String>,
    /// The last record that the retention note covers; null without a note.
    pub(super) last_seq: Option<u64>,
    /// The snapshots that the store lacks.
    pub(super) missing: Vec<String>,
    /// The record with the retention note; null without one.
    pub(super) note_seq: Option<u64>,
    /// The bytes of the segment objects.
    pub(super) segment_bytes: u64,
    /// The number of segment objects.
    pub(super) segments: u64,
    /// The bytes of the snapshots.
    pub(super) snapshot_bytes: u64,
    /// The number of snapshots of pruned records.
    pub(super) snapshots: u64,
    /// The address.
    pub(super) url: String,
}

/// The process that last served a ledger in a store, from its own hint.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct StoreOwnerJson {
    /// When it acknowledges a result: `store`, `bounded:5s` or `local`.
    pub(super) ack: String,
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
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct HeldStoreJson {
    /// When the server acknowledges a result: `store`, `bounded:5s` or `local`.
    pub(super) ack: String,
    /// The first record of the folder that the log does not have: it was never acknowledged. Null
    /// if there is none.
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
        format!("{} (epoch {}, ack {})", self.url, self.epoch, self.ack)
    }
}

/// The store lacks results that were acknowledged longer ago than usual, or has them again.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct StoreLagLine {
    /// When the server acknowledges a result: `store`, `bounded:5s` or `local`.
    pub(super) ack: String,
    /// The bytes of the records that the store lacks.
    pub(super) bytes: u64,
    /// Whether the store lags. Otherwise it is caught up.
    pub(super) lags: bool,
    /// How long ago the oldest record became durable that the store lacks.
    pub(super) oldest_micros: u64,
    /// The number of records that the store lacks.
    pub(super) records: u64,
    /// The address.
    pub(super) url: String,
}

impl StoreLagLine {
    /// The same for people.
    pub(crate) fn text(&self) -> String {
        let Self { ack, bytes, oldest_micros, records, url, .. } = self;
        if !self.lags {
            return format!("the store is caught up: {url}");
        }
        let wait = if ack.starts_with("bounded") { "; results wait for it" } else { "" };
        format!(
            "the store lags: {} ({}) are only in the folder, the oldest for {} s{wait}: {url}",
            counted(*records, "record"),
            size(*bytes),
            oldest_micros / 1_000_000,
        )
    }
}

/// The state of damage in a store.
#[cfg_attr(not(feature = "store"), expect(dead_code, reason = "only a store is checked"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum DamageWord {
    /// It was repaired from the folder, restored, or is no longer needed.
    Repaired,
    /// The folder has its content. Once a person deletes the object, it is created again.
    Deletable,
    /// The folder does not have its content.
    Lost,
    /// The folder cannot be read there, so it is unknown whether the object is whole. It does not count as damaged.
    Uncompared,
}

/// An object that a restore of the ledger needs was missing or damaged in the store, or is.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct StoreDamageLine {
    /// When the server acknowledges a result: `store`, `bounded:5s` or `local`; null if this process acknowledges none.
    pub(super) ack: Option<String>,
    /// How many objects are damaged or missing now.
    pub(super) damaged: u64,
    /// Only derived data is damaged: a restore has every record.
    #[serde(skip)]
    pub(super) is_derived: bool,
    /// The name of the object below the address.
    pub(super) object: String,
    /// Its state.
    pub(super) state: DamageWord,
    /// The address.
    pub(super) url: String,
    /// The problem, for people.
    pub(super) what: String,
}

impl StoreDamageLine {
    /// The same for people.
    pub(crate) fn text(&self) -> String {
        let Self { object, url, what, .. } = self;
        let remedy = match self.state {
            DamageWord::Repaired => {
                return format!("the store was damaged and is whole again: {url}/{object}: {what}");
            }
            DamageWord::Uncompared => {
                return format!(
                    "the folder is damaged, so an object of the store is not checked: {url}/{object}: {what}; run \
                     \"ledger verify\""
                );
            }
            DamageWord::Deletable => {
                "the folder has its content: move the object out of the prefix with the tool of the store, and keep it; \
                 within a minute it is created again"
            }
            DamageWord::Lost => {
                "the folder does not have it: bring it back from a copy of the store"
            }
        };
        if self.is_derived {
            return format!(
                "the store is damaged, but a restore still gets every record: {url}/{object}: {what}; {remedy}"
            );
        }
        format!(
            "the store is damaged, and cannot restore this ledger if the folder is lost: \
             {url}/{object}: {what}; {remedy}"
        )
    }
}

/// News about the store of a ledger.
#[cfg_attr(not(feature = "store"), expect(dead_code, reason = "only a store has news"))]
#[derive(Debug)]
pub(crate) enum StoreNewsLine {
    /// Records that it lacks.
    Lag(StoreLagLine),
    /// Objects that it lost.
    Damage(StoreDamageLine),
}

/// A standby has copied the store, and follows it.
#[cfg_attr(
    not(any(feature = "store", test)),
    expect(dead_code, reason = "only a store has a standby")
)]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct StandbyLine {
    /// The epoch of the last record.
    pub(super) epoch: u64,
    /// Its address for HTTP, at which it names the process that holds the ledger.
    pub(super) http: Option<String>,
    /// This process, in hexadecimal.
    pub(super) node: String,
    /// The last record of the folder.
    pub(super) seq: u64,
    /// The address of the store.
    pub(super) url: String,
}

#[cfg(feature = "store")]
impl StandbyLine {
    /// The same, with an address for HTTP.
    pub(crate) fn with_http(self, http: Option<String>) -> Self {
        Self { http, ..self }
    }
}

/// The role of a process for a ledger in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoreRole {
    /// It holds the ledger.
    Owner,
    /// It follows the store, and takes over when the owner is gone.
    Standby,
}

#[cfg(feature = "store")]
impl StoreRole {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Standby => "standby",
        }
    }
}

/// The role of a process for a ledger in a store, and the lag of the store: the answer of `/v1/health`.
#[cfg_attr(
    not(any(feature = "store", test)),
    expect(dead_code, reason = "only a store has such a process")
)]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct StoreHealthLine {
    /// When the owner acknowledges a result: `store`, `bounded:5s` or `local`; null for a standby.
    pub(crate) ack: Option<String>,
    /// How long ago the store answered last; null before its first answer.
    pub(crate) contact_micros: Option<u64>,
    /// The number of objects that are missing or damaged in the store, and that this process cannot repair; null for a
    /// standby.
    pub(crate) damaged: Option<u64>,
    /// The epoch that the owner opened; for a standby the one that it follows.
    pub(crate) epoch: u64,
    /// The bytes of the records that the store lacks; null for a standby.
    pub(crate) lag_bytes: Option<u64>,
    /// How long ago the oldest record became durable that the store lacks; null for a standby.
    pub(crate) lag_micros: Option<u64>,
    /// The number of records that the store lacks; null for a standby.
    pub(crate) lag_records: Option<u64>,
    /// This process, in hexadecimal, as in its slots.
    pub(crate) node: String,
    /// The address for clients of the process that holds the ledger, if it is another one and known.
    pub(crate) owner: Option<String>,
    /// The role of this process.
    pub(crate) role: StoreRole,
    /// The last record that the store is known to have.
    pub(crate) seq: u64,
    /// The address of the store.
    pub(crate) url: String,
}

/// A store that gave no answer for so many seconds is mentioned.
#[cfg(feature = "store")]
const SILENT_SECONDS: u64 = 5;

#[cfg(feature = "store")]
impl StoreHealthLine {
    /// The line of JSON, with its end.
    pub(crate) fn line(&self) -> String {
        line_text(self)
    }

    /// The same for people.
    pub(crate) fn text(&self) -> String {
        let Self { ack, epoch, url, .. } = self;
        let ack = ack.as_ref().map_or_else(String::new, |ack| format!(", ack {ack}"));
        let what = match (self.role, self.lag_records.unwrap_or_default(), &self.owner) {
            (StoreRole::Owner, 0, _) => "it has every record".to_owned(),
            (StoreRole::Owner, records, _) => format!(
                "{} ({}) are only in this folder, the oldest for {} s",
                counted(records, "record"),
                size(self.lag_bytes.unwrap_or_default()),
                self.lag_micros.unwrap_or_default() / 1_000_000
            ),
            (StoreRole::Standby, _, Some(owner)) => {
                format!("this machine stands by at record {}; the owner is at {owner}", self.seq)
            }
            (StoreRole::Standby, _, None) => {
                format!("this machine stands by at record {}", self.seq)
            }
        };
        let silent = self.contact_micros.map(|micros| micros / 1_000_000);
        let silent = match silent {
            Some(seconds) if seconds >= SILENT_SECONDS => {
                format!("; the store gave no answer for {seconds} s")
            }
            _ => String::new(),
        };
        let damaged = match self.damaged {
            Some(objects) if objects > 0 => {
                format!("; {} damaged or missing there", counted(objects, "object"))
            }
            _ => String::new(),
        };
        format!("the log is in {url} (epoch {epoch}{ack}): {what}{damaged}{silent}")
    }

    /// The line of a standby without other knowledge.
    #[cfg(test)]
    pub(crate) fn of_standby(epoch: u64, owner: Option<String>) -> Self {
        Self {
            ack: None,
            contact_micros: None,
            damaged: None,
            epoch,
            lag_bytes: None,
            lag_micros: None,
            lag_records: None,
            node: String::new(),
            owner,
            role: StoreRole::Standby,
            seq: 0,
            url: String::new(),
        }
    }
}

/// A folder has the log of a store.
#[cfg_attr(
    not(any(feature = "store", test)),
    expect(dead_code, reason = "only a store is restored")
)]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RestoredLine {
    /// The chain value of the last record.
    pub(super) chain: String,
    /// Whether the folder was created. Otherwise it had a copy of this ledger.
    pub(super) created: bool,
    /// The folder.
    pub(super) dir: String,
    /// The objects of large outputs that records reference and the store does not have, or has
    /// damaged.
    pub(super) missing_blobs: Vec<String>,
    /// The last record.
    pub(super) seq: u64,
    /// How many records the folder got from the store.
    pub(super) taken_in: u64,
    /// The address.
    pub(super) url: String,
}

/// The records that another process wrote to a folder are in a store.
#[cfg_attr(
    not(any(feature = "store", test)),
    expect(dead_code, reason = "only a store is shipped to")
)]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ReplicatedLine {
    /// The bytes of the durable records that the store lacks.
    pub(super) bytes: u64,
    /// The folder.
    pub(super) dir: String,
    /// How long ago the oldest record was seen that the store lacks.
    pub(super) oldest_micros: u64,
    /// The number of durable records that the store lacks.
    pub(super) records: u64,
    /// The last record in the store.
    pub(super) seq: u64,
    /// How many records were added to the store since the line before.
    pub(super) shipped: u64,
    /// The address.
    pub(super) url: String,
}

/// A folder that diverged from its store: the records that only it has, and their fate.
#[cfg_attr(
    not(any(feature = "store", test)),
    expect(dead_code, reason = "only a store is joined again")
)]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RejoinLine {
    /// How many of the lost records are known to be acknowledged. The others may be, too, if the mode was not `store`.
    pub(super) acknowledged: u64,
    /// The last record that folder and store have in common.
    pub(super) common_seq: u64,
    /// The folder.
    pub(super) dir: String,
    /// Whether the folder was set aside. Otherwise nothing was changed.
    pub(super) done: bool,
    /// The file with the records that only the folder has, as JSON Lines; null if nothing was changed, or there are none.
    pub(super) exported: Option<String>,
    /// The new name of the folder that diverged; null if nothing was changed.
    pub(super) kept: Option<String>,
    /// How many records only the folder has. They follow the last common one.
    pub(super) lost: u64,
    /// The last record of the store.
    pub(super) seq: u64,
    /// The address.
    pub(super) url: String,
}
