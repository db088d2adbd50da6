//! Listening: connections with their limits, TLS, and the answers of a process while another one holds the ledger.
//!
//! `connections` accepts, limits and ends connections, on a separate thread; `tls` encrypts them; `standby` answers
//! until this process holds the ledger.

pub(super) mod connections;
#[cfg(feature = "store")]
mod standby;
mod tls;
