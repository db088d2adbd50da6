//! Failed attempts: which rule decides about them, and the fallbacks that take their place.

mod fallbacks;
mod rules;
