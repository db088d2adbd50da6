//! Failed attempts: which rule decides about them, and the fallbacks that replace them.

mod fallbacks;
mod rules;
