//! Listening: connections with their limits, TLS, and what a process answers while another one holds the ledger.
//!
//! `connections` accepts, limits and ends connections, on a thread of its own; `tls` encrypts them; `standby` answers
//! until this process holds the ledger.

pub(super) mod connections;
#[cfg(feature = "store")]
mod standby;
mod tls;
