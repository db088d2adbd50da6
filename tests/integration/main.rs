//! Integration tests: one binary, so that it links once. Table of contents:
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed, helpers included"
)]

// The bytes that are fixed for ever.
mod golden;
// `ledger inspect`: human output, JSON, damaged and live ledgers.
mod inspect;
// The rules of the house: layers, crates, sizes.
mod tidy;
