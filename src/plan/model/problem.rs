//! What is wrong with a plan, and where.

use std::fmt;

/// One problem of a plan, with its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where: a path such as `steps[3] (build).after[1]`.
    pub place: String,
    /// What is wrong, what was expected and found, and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}
