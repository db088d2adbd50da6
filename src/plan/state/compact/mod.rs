//! A compact read-only encoding of plans in the state: a step takes about as many bytes as its
//! text.

pub(crate) mod bytes;
mod fields;
pub(crate) mod plan;
pub(crate) mod step;
#[cfg(test)]
mod tests;
