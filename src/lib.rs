#![doc = "placeholder"]
pub mod error;
pub mod format;
pub mod ledger;
pub mod log;
pub mod plan;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod storage;
