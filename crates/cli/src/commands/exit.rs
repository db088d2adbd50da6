//! What the exit code says, and what a command line can die of: the same as an act (`serve`).

pub(super) use crate::server::{Code, Failure, code_of};
