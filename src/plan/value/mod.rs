//! Basic values: identifiers, names, JSON, expressions, and fields that are rarely set.

pub(crate) mod canonical;
pub(crate) mod detached;
pub(crate) mod effort;
pub(crate) mod evaluator;
pub(crate) mod expression;
pub(crate) mod ids;
pub(crate) mod json;
pub(crate) mod names;
pub(crate) mod nearest;
pub(crate) mod numbers;
pub(crate) mod rare_field;
pub(crate) mod text;
pub(crate) mod time;
pub(crate) mod token;
