#![doc = "placeholder"]
pub mod error;
pub mod format;
pub mod ledger;
pub mod log;
pub mod plan;
pub mod storage;
