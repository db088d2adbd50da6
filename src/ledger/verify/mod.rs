//! Verifies a whole ledger: the log and, on request, everything that is derived from it or stored
//! beside it.
//!
//! Invariants:
//! - Verification writes nothing and takes no lock.
//! - Each level includes the previous ones.
//! - A finding does not end the verification.

pub(crate) mod anchors;
pub(crate) mod archive;
pub(crate) mod claims;
pub(crate) mod derived;
pub(crate) mod files;
pub(crate) mod findings;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod run;
