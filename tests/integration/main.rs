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
/// Appending, rotating, reopening, reading: nothing goes wrong.
mod log_round_trip;
