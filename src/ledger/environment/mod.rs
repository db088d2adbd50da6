//! The environment of a ledger: storage, clocks, identifiers and settings, and the ledger's time.

mod clock;
mod ledger_time;
mod settings;

pub use clock::{Clock, SystemClock};
pub use ledger_time::LedgerTime;
pub(crate) use ledger_time::{behind_text, ledger_time};
pub(crate) use settings::DEFAULT_SNAPSHOT_INTERVAL;
pub use settings::{Environment, IdSource, parse_duration, parse_time};
