//! The text forms that several views share.

pub(crate) mod run;
pub(crate) mod units;
pub(crate) mod waits;
