//! Problems and warnings about a plan.

use std::fmt;

/// A problem of a plan.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Path in the plan, such as `steps[3] (build).after[1]`.
    pub place: String,
    /// The fault, the expected value, and how to fix the fault.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}
