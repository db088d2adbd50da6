#![doc = "placeholder"]
pub mod error;
pub mod format;
pub mod ledger;
pub mod plan;
