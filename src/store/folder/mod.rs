//! A ledger's folder and the log in a store: opening a folder that is bound to a store, restoring one,
//! and following the store.
//!
//! `ack` defines the acknowledgement of commits, `client` is a process's connection to a store,
//! `ahead` reads many objects at once, `blobs` copies blobs, `common` and `follow` make a folder
//! equal to the log in the store, `standby` keeps it so, `keeper` commits or queues the records of
//! an open log, `ship` makes slots of durable records, `open` takes over, `restore` makes new
//! folders, `rejoin` makes room for one, `side_car` ships a folder that another process writes, and
//! `upload` uploads segments and parts of them, and repairs losses of the store.
//!
//! Invariants:
//! - In the mode `store`, HEAD of a folder covers no record that the store does not have. In the
//!   other modes HEAD of the folder covered each record of the store.
//! - Records of a folder that may be acknowledged are never dropped: the folder is refused instead.
//! - A folder writes to the log only in an epoch that it opened, in a segment that no other folder
//!   had before.

mod ack;
mod ahead;
mod blobs;
mod client;
mod common;
mod follow;
mod keeper;
mod open;
mod rejoin;
mod restore;
mod ship;
mod side_car;
mod standby;
mod upload;

pub use ack::{AckMode, AckedBy, MonotonicClock, StoreLag};
pub(super) use ahead::with_objects_ahead;
pub use client::StoreClient;
pub use follow::FolderProgress;
pub use keeper::StoreKeeper;
pub use open::{BoundLog, StoreOpening, open_bound};
pub use rejoin::{Rejoined, rejoin};
pub use restore::restore;
pub use side_car::SideCar;
pub use standby::{StandbyFolder, replicate};
pub use upload::{DamageState, ScrubStep, StoreDamage};
