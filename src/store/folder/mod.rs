//! A ledger's folder and the log in a store: opening a folder that is bound to a store, restoring one,
//! and following the store.
//!
//! `ack` says when a commit is acknowledged, `client` is a store as a process uses it, `ahead` reads many objects at
//! once, `blobs` copies blobs, `common` and `follow` make a folder equal to the log in the store, `standby` keeps it
//! so, `keeper` commits or queues what an open log writes, `ship` makes slots of what is durable, `open` takes over,
//! `restore` makes new folders, `rejoin` makes place for one, `side_car` ships a folder that another process writes,
//! and `upload` uploads segments and parts of them, and repairs what the store lost.
//!
//! Invariants:
//! - In the mode `store`, HEAD of a folder covers no record that the store does not have. In the other modes the
//!   store has no record that HEAD of the folder did not cover.
//! - Records of a folder that may be acknowledged are never dropped: the folder is refused instead.
//! - A folder writes to the log only in an epoch that it opened, in a segment that only it knew before.

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
