//! Integration tests: one binary, so that it links once. Table of contents:
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed, helpers included"
)]

/// What the tests of the log share: records, options, a model of what must be there.
mod lab;
/// The log: appending, rotating, reopening, reading.
mod log_round_trip;

/// The log: crashes before every call of the disk, and again during recovery.
mod log_crash;

/// The bytes that are fixed for ever.
mod golden;

/// `ledger inspect`: human output, JSON, damaged and live ledgers.
mod inspect;

/// The rules of the house: layers, crates, sizes.
mod tidy;
