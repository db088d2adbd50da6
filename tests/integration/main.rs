//! Integration tests: one binary, so that it links once. Table of contents:

// How the tests use the `ledger` binary.
mod command;
// The bytes that are fixed for ever.
mod golden;
// `ledger run`: what a run does, says and returns.
mod run;
// The rules of the house: layers, crates, sizes.
mod tidy;
