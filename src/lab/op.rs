//! What is done to a ledger in the laboratory, and how a case is written down.
//!
//! Invariant: what a workload appends depends on the place of each operation in it, and on
//! nothing else.

use std::fmt;

use crate::format::NewRecord;
use crate::ledger::encode;
use crate::plan::{Event, Json, Origin, RunId, RunPolicy, RunStarted, VariableSet};

/// One thing that a user of a ledger does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// Append one record over three sectors.
    Append,
    /// Append three records as one batch.
    Batch,
    /// Submit one batch that waits, write one that is not synced, then make both durable.
    Flush,
    /// Append a record that does not fit behind another one: the log goes on in a new segment.
    Rotate,
    /// Make a snapshot of the state.
    Snapshot,
    /// Close the ledger and open it again.
    Reopen,
    /// End the process in the middle, and open the ledger again.
    Kill,
    /// Make two snapshots, and remove all segments that they stand for.
    Prune,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Append,
        Self::Batch,
        Self::Flush,
        Self::Rotate,
        Self::Snapshot,
        Self::Reopen,
        Self::Kill,
        Self::Prune,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Batch => "batch",
            Self::Flush => "flush",
            Self::Rotate => "rotate",
            Self::Snapshot => "snapshot",
            Self::Reopen => "reopen",
            Self::Kill => "kill",
            Self::Prune => "prune",
        }
    }

    /// The operation of that name.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.word() == word)
    }

    /// The batches that it appends as operation number `place`.
    pub(super) fn batches(self, place: u64) -> Vec<Vec<NewRecord>> {
        match self {
            Self::Append => vec![vec![variable(place, 700)]],
            Self::Batch => vec![vec![run(place), variable(place, 900), run(place + 1)]],
            Self::Flush => vec![vec![variable(place, 300), run(place)], vec![variable(place, 10)]],
            Self::Rotate => vec![vec![variable(place, FILLING)]],
            Self::Snapshot | Self::Reopen | Self::Kill | Self::Prune => Vec::new(),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How long segments are in the laboratory: one page of records each.
pub(super) const SEGMENT: u64 = 8192;
/// A value that leaves room for nothing else in a segment.
const FILLING: usize = 3500;
/// How many runs and variables there are at most, so that long histories have small states.
const NAMES: u8 = 5;

fn run_id(place: u64) -> RunId {
    let [low, ..] = place.to_le_bytes();
    RunId(u32::from(low % NAMES) + 1)
}

fn run(place: u64) -> NewRecord {
    let run = run_id(place);
    let (name, policy) = (format!("run-{place}"), RunPolicy::default());
    encode(&Event::RunStarted(RunStarted { run, name, policy }))
}

/// A value without a zero in it.
fn variable(place: u64, size: usize) -> NewRecord {
    let text: String = "0123456789abcdef".chars().cycle().take(size).collect();
    let value = Json::new(&serde_json::Value::String(format!("{place}:{text}")));
    let (run, name) = (run_id(place), format!("v{}", place % u64::from(NAMES)));
    let origin = Origin::Person("lab".to_owned());
    let version = place;
    encode(&Event::VariableSet(VariableSet { run, name, value, version, origin, since: 0 }))
}

/// Operations in order, as one word: `append+rotate+kill`; `create` for none.
#[must_use]
pub fn words(ops: &[Op]) -> String {
    if ops.is_empty() {
        return "create".to_owned();
    }
    ops.iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
}
