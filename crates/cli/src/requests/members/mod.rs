//! Members that several requests have, each with its option of the command line and its form on the wire.

mod author;
mod run;

pub use author::Author;
pub(crate) use author::{login_name, parse_author};
pub(crate) use run::parse_name;
pub use run::{RunArg, RunOption};
