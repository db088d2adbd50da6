//! Integration tests: the engine from outside, on the simulated disk and on the real one.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds something else than it expects should stop right there"
)]

/// What the tests share: records, options, a model of what must be there.
mod lab;
/// Crashes before every call of the disk, and again during recovery.
mod log_crash;
/// Damaged bytes: flipped, zeroed, cut off.
mod log_damage;
/// Calls of the disk that fail, and full disks.
mod log_faults;
/// Files that are missing, swapped, copied, renamed, or not ours.
mod log_files;
/// Hazards that cost other engines data, by their number in the list that we keep.
mod log_hazards;
/// Who may write, and what readers change: nothing.
mod log_lock;
/// Appending, rotating, reopening, reading: nothing goes wrong.
mod log_round_trip;
