//! A compact read-only encoding of plans, used in the state: a step takes about the size of its text.

pub(crate) mod bytes;
mod fields;
pub(crate) mod plan;
pub(crate) mod step;
#[cfg(test)]
mod tests;
