//! A simulated disk: it loses unsynced changes at a power loss, injects faults, and logs them.
//!
//! It serves crash tests of the engine and of harnesses that use the engine.
//!
//! The model:
//! - It counts every call of `Storage` and `StorageFile`. The machine can stop before any of them
//!   ([`SimDisk::crash_at`]); later calls fail until [`SimDisk::lose_power`] or
//!   [`SimDisk::kill_process`] restarts it. Locks and open files end with the process. Killing the
//!   process keeps the cache, including bytes that no sync will write.
//! - It keeps the bytes and length of each file and the entries of each folder twice: in the cache,
//!   and as durable. A power loss ([`Loss`]) keeps any part of the difference that the device permits
//!   ([`Profile`]): of each write nothing, everything, a prefix, any sectors, any bytes, or garbage;
//!   any of the lengths that a file had; and each new, renamed or removed entry or not.
//! - Any call can fail ([`SimDisk::fail_at`], [`SimDisk::inject`]) with none, part or all of its
//!   effect. A failed sync leaves the bytes in the cache and marks them clean, or discards them, or
//!   leaves them to the next sync shortly before the machine stops. A failed sync of a folder leaves
//!   its entries to the next sync.
//! - The disk can be full ([`SimDisk::set_capacity`]): a write stores the bytes that fit, and
//!   fails.
//! - Sectors can be permanently unreadable ([`SimDisk::make_unreadable`]): every read of them fails with
//!   `EIO`, and using them through a map ends the process unless [`Map::populate`](crate::storage::Map)
//!   reported them before.
//! - [`SimDisk::injected`] lists every fault in order.
//!
//! The contract that an engine may rely on, with every profile except the last, while no injected
//! fault breaks it:
//! - Data survives once its sync returned `Ok`, unless an earlier sync of that file failed. Bytes
//!   outside the range of a write are never damaged by it.
//! - A rename is atomic. Nothing else is known about entries before `sync_dir`.
//! - A failed call may have had any effect. A successful read returns the stored bytes.
//!
//! Faults that break the contract ([`InjectedFault::is_violation`]): syncs that lie, lost or
//! misdirected writes, bit rot, short reads, and devices that damage the neighbours of a write
//! ([`Profile::NonPsow`]). No engine can keep its guarantees then. It must report the missing
//! records or refuse to continue, and it must never invent records.
//!
//! The same calls and seeds give the same bytes. A fork shares all unchanged pages.
//!
//! Not modelled: writes that land after a later sync, an order among directory entries, garbage in a
//! page to which only zeros were written (so that a new segment costs nothing), users, links, the
//! text of a lock file, and renames between folders.

mod fault;
mod file;
mod folder;
mod handle;
mod injected;
mod loss;
mod paged_bytes;
mod random;
mod sim_disk;
mod state;
mod storage;

pub use fault::{Fault, FaultAction, FaultEffect, FaultRule, Operation, OsError, Repeat};
pub use injected::{InjectedFault, InjectedKind};
pub use loss::{Loss, Profile};
pub use random::Random;
pub use sim_disk::SimDisk;
