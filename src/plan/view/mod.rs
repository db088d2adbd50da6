//! Facts about a run: its execution state for an agent that continues it, its versions and warnings.
//!
//! Invariants:
//! - A view is a function of the state and of the caller's time, so it is current as of the last
//!   commit.
//! - Every text in a view is also available as data, so programs do not parse text.

pub(crate) mod execution;
pub(crate) mod facts;
pub(crate) mod trusted;
pub(crate) mod versions;
pub(crate) mod warnings;
