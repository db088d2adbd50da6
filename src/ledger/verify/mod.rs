//! Verifies a whole ledger: the log and, on request, everything that is derived from it or stored
//! beside it.
//!
//! Invariants:
//! - Verification writes nothing and takes no lock.
//! - Each level includes the previous ones.
//! - The verification continues after a finding.

pub(crate) mod anchors;
pub(crate) mod archive;
pub(crate) mod derived;
pub(crate) mod expected_hashes;
pub(crate) mod files;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod run;
