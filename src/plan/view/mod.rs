//! Views of a run: for an operator, and for an agent that continues it.
//!
//! Invariants:
//! - A view is a function of the state and of the caller's time, so it is current as of the last
//!   commit.
//! - Every text in a view is also available as data, so programs do not parse text.

pub(crate) mod execution;
pub(crate) mod facts;
pub(crate) mod operator;
pub(crate) mod trusted;
pub(crate) mod warnings;
