#![doc = "placeholder"]
pub mod error;
#[cfg(feature = "cli")]
pub mod import;
pub mod ledger;
pub mod plan;
