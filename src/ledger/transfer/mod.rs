//! Moves a ledger to another place: export and import as JSON Lines, and salvage of the intact
//! records of a damaged ledger.

pub(crate) mod anchors;
pub(crate) mod damaged_log;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod lines;
pub(crate) mod prune_evidence;
pub(crate) mod salvage;
