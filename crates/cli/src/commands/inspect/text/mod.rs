//! The text forms that several views share.

pub(crate) mod units;
