//! The commands `ledger store`, the protocol of `format/store.md` on a real store, and owners and standbys as
//! processes: `LEDGER_STORE_URL` names the store, and its credentials come from the environment. Without it, the store
//! is a folder.
//!
//! `tests/store/run` starts real servers and runs these tests on each.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed, helpers included"
)]

mod ack;
mod commands;
mod damage;
mod errors;
mod faults;
mod flawed;
mod kill;
mod moves;
mod network;
mod node;
mod parts;
mod process;
mod reading;
mod refused_starts;
mod retention;
mod rows;
mod runner;
mod serve;
mod waits;
mod walk;
