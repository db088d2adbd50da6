//! Reading a ledger in its store, without a folder of its own.
//!
//! The log is read to its end as the protocol says, and every object is verified on the way. Its
//! records are put in the place that they have in their segments, segments with a successor are sealed, and HEAD
//! states the end: the files are those of a folder that was closed there, so everything that reads a folder
//! reads them. `parts` leaves sealed segments in the store, for readers of few records.
//!
//! Invariants:
//! - Nothing is written to the store.
//! - What the store does not prove is not shown: a damaged or missing object is an error with its name.

mod answer;
mod blocks;
mod image;
mod memory;
mod parts;
mod storage;
mod whole;

pub use blocks::BLOCK_SIZE;
pub use image::NewFile;
pub use memory::MemoryFile;
pub use parts::read_parts_in_place;
pub use storage::StoreStorage;
pub use whole::read_in_place;
