//! Integration tests: one binary, so that it links once. Table of contents:
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed, helpers included"
)]

// How the tests use the `ledger` binary.
mod command;
// A disk that runs full.
mod disk_full;
// `ledger drill` over example plans and plans of other tools.
mod drill;
// Following a log while it grows.
mod follow;
// The facade: threads, exact replay, refused and failed writes.
mod facade;
// The bytes that are fixed for ever.
mod golden;
// `ledger inspect`: human output, JSON, damaged and live ledgers.
mod inspect;
// A run killed from outside, again and again.
mod kill;
// What the tests share: records, options, a model of what must be there.
mod lab;
// Crashes before every call of the disk, and again during recovery.
mod log_crash;
// Damaged bytes: flipped, zeroed, cut off.
mod log_damage;
// Calls of the disk that fail, and full disks.
mod log_faults;
// Files that are missing, swapped, copied, renamed, or not ours.
mod log_files;
// Hazards that cost other engines data, by their number in the list that we keep.
mod log_hazards;
// Who may write, and what readers change: nothing.
mod log_lock;
// Appending, rotating, reopening, reading: nothing goes wrong.
mod log_round_trip;
// Reading from anywhere, backwards, by kind, by stream.
mod readers;
// `ledger run`: what a run does, says and returns.
mod run;
// Sealed segments: index, footer, replica of the header.
mod sealed;
// The rules of the house: layers, crates, sizes.
mod tidy;
// What people get wrong.
mod wrong_input;
