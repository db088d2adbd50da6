//! TODO

pub(crate) mod bytes;
mod fields;
pub(crate) mod plan;
pub(crate) mod step;
#[cfg(test)]
mod tests;
