//! The operations of a workload.
//!
//! Invariant: the records that an operation appends depend only on its position in the workload.

use std::fmt;

use plan_ledger::internals::format::NewRecord;
use plan_ledger::internals::ledger::encode;
use plan_ledger::plan::{Event, Json, Origin, RunId, RunPolicy, RunStarted, VariableSet};

/// An operation on a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// Append one record that spans three sectors.
    Append,
    /// Append three records as one batch.
    Batch,
    /// Submit one batch that waits for a sync and one that does not, then flush.
    Flush,
    /// Append a record that does not fit into the segment, so that the log rotates.
    Rotate,
    /// Write a snapshot of the state.
    Snapshot,
    /// Close the ledger and open it again.
    Reopen,
    /// Kill the process, and open the ledger again.
    Kill,
    /// Write two snapshots, and prune all segments that they cover.
    Prune,
}

impl Op {
    /// Every operation.
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

    fn name(self) -> &'static str {
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

    /// The operation with a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }

    /// The batches that operation number `number` appends.
    pub(super) fn batches(self, number: u64) -> Vec<Vec<NewRecord>> {
        match self {
            Self::Append => vec![vec![variable(number, 700)]],
            Self::Batch => vec![vec![run(number), variable(number, 900), run(number + 1)]],
            Self::Flush => {
                vec![vec![variable(number, 300), run(number)], vec![variable(number, 10)]]
            }
            Self::Rotate => vec![vec![variable(number, FULL_SEGMENT)]],
            Self::Snapshot | Self::Reopen | Self::Kill | Self::Prune => Vec::new(),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The length of a value that fills a segment of an environment in simulation.
const FULL_SEGMENT: usize = 3500;
/// The maximum number of runs and variables, so that long histories have small states.
const NAMES: u8 = 5;

fn run_id(number: u64) -> RunId {
    let [low, ..] = number.to_le_bytes();
    RunId(u32::from(low % NAMES) + 1)
}

fn run(number: u64) -> NewRecord {
    let run = run_id(number);
    let (name, policy) = (format!("run-{number}"), RunPolicy::default());
    encode(&Event::RunStarted(RunStarted { run, name, policy }))
}

/// A value without zero bytes.
fn variable(number: u64, size: usize) -> NewRecord {
    let text: String = "0123456789abcdef".chars().cycle().take(size).collect();
    let value = Json::new(&serde_json::Value::String(format!("{number}:{text}")));
    let (run, name) = (run_id(number), format!("v{}", number % u64::from(NAMES)));
    let origin = Origin::Person { who: "lab".to_owned() };
    let version = number;
    encode(&Event::VariableSet(VariableSet { run, name, value, version, origin, since: 0 }))
}

/// The name of a workload, such as `append+rotate+kill`; `create` for no operations.
#[must_use]
pub fn workload_name(ops: &[Op]) -> String {
    if ops.is_empty() {
        return "create".to_owned();
    }
    ops.iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
}
