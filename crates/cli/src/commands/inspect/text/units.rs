//! Amounts, times and names as people read them.

pub(crate) use plan_ledger_views::{moment, seconds, span, variant_words as words};
