//! Reads a ledger in its store, without a folder.
//!
//! The log is read to its end by the protocol, and every object is verified. Each record is put at its place in its
//! segment, segments with a successor are sealed, and HEAD states the end. The resulting files are those of a folder
//! that was closed at this record, so all readers of folders can read them. `parts` leaves sealed segments in the
//! store, for readers of few records.
//!
//! Invariants:
//! - Nothing is written to the store.
//! - Readers get only verified bytes: a damaged or missing object is an error with its name.

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
