//! Options of the guards, which pause a run before every step has failed.

use clap::Args;

use crate::runner::Guards;

/// When a run is paused so that a person looks at it.
#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
    /// Pause the run after this many workers in a row failed at once, at several steps; 0: never
    #[arg(long, value_name = "N", default_value_t = 3)]
    max_quick_failures: u32,
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
            free_min: self.min_free.map(|mb| mb.saturating_mul(1_000_000)),
        }
    }
}
