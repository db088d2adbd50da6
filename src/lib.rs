#![doc = "placeholder"]
pub mod error;
pub mod ledger;
pub mod plan;
