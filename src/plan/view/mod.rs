//! What somebody wants to see of a run: three functions of the state.
//!
//! Invariants:
//! - A view is a function of the state and of the time that the caller gives, so it is current
//!   within the commit that changed it.
//! - A view holds no words of a language that a program would have to parse: what is said in
//!   words stands beside it as data.
//!
//! Left out on purpose: what happened on the way here, which the log holds.

pub(crate) mod execution;
pub(crate) mod operator;
pub(crate) mod user;
