//! Options of the guards, which pause a run before every step has failed.

use clap::Args;

use crate::protocol::parse_seconds;
use crate::runner::{Guards, Hours};

/// When a run is paused so that a person looks at it.
#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
    /// Hold the steps of an owner, and at last pause the run, after this many workers in a row failed at
    /// once, at several steps; 0: never
    #[arg(long, value_name = "N", default_value_t = 3)]
    max_quick_failures: u32,
    /// How long to wait before one step is tried, after quick failures and at a usage limit without a time: the
    /// first time, the second and the third; then quick failures pause the run
    #[arg(long, value_name = "DURATIONS", default_value = "5m,15m,1h", value_parser = parse_waits)]
    limit_waits: [u64; 3],
    /// Start work by itself only in these hours of the day, in the time zone of the machine, such
    /// as 23:00-07:00; work that has started continues
    #[arg(long, value_name = "FROM-TO", value_parser = Hours::parse)]
    hours: Option<Hours>,
    /// Pause the run while the ledger's disk has less room than this many MB [default: 64, or
    /// nothing on disks of less than 1 GB]
    #[arg(long, value_name = "MB")]
    min_free: Option<u64>,
}

impl GuardArgs {
    /// The guards that the options set.
    pub(crate) fn guards(&self) -> Guards {
        Guards {
            max_quick_failures: self.max_quick_failures,
            waits: self.limit_waits,
            hours: self.hours,
            free_min: self.min_free.map(|mb| mb.saturating_mul(1_000_000)),
        }
    }
}

/// Three durations, with commas between them.
fn parse_waits(text: &str) -> Result<[u64; 3], String> {
    let waits: Vec<u64> = text.split(',').map(parse_seconds).collect::<Result<_, _>>()?;
    waits.try_into().map_err(|_| "expected three times, such as 5m,15m,1h".to_owned())
}
