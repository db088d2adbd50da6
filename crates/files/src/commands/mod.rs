//! Criteria of other tools that are commands: which texts state one, and whether this machine can
//! start it.

mod convert;
mod programs;
mod text;

pub use convert::as_written_commands;
pub(super) use convert::{StatedFacts, apply_facts};
pub use programs::Programs;
