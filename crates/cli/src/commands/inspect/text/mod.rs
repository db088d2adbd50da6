//! The text forms that several views share.

pub(crate) mod chart;
pub(crate) mod event;
pub(crate) mod run;
pub(crate) mod status;
pub(crate) mod units;
pub(crate) mod waits;
