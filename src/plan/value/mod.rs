//! TODO

pub(crate) mod expression;
pub(crate) mod ids;
pub(crate) mod json;
pub(crate) mod names;
pub(crate) mod nearest;
pub(crate) mod numbers;
pub(crate) mod rare_field;
