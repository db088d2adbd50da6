//! Writing a log: group commit, rotation, idempotency keys, and creating or opening a ledger.
//!
//! [`Log`] is the public handle of one `SharedWriter`, which all threads use. `append` encodes
//! batches and waits for them, `group_commit` writes and syncs pending batches, `rotation`
//! continues in a new segment, and `background` does the work that no append needs to wait for.

mod append;
mod background;
mod batch;
#[cfg(feature = "ledger")]
mod builder;
mod group_commit;
mod idempotency;
mod log;
mod open;
mod rotation;
mod shared;
mod staging;
mod state;
mod sync;
mod waiters;

pub use batch::{Batch, Durability, Ticket};
#[cfg(feature = "ledger")]
pub use builder::{ChainOrigin, LogBuilder};
pub use idempotency::KEY_WINDOW;
pub use log::Log;
pub use open::{ClockContinuation, RecoveryReport};
#[cfg(feature = "ledger")]
pub use open::{CopiedRecord, LogCopy};
pub(crate) use staging::is_free;
