//! Evaluation steps that several commits share.

use std::cell::Cell;

/// Evaluation steps that several commits share, so that together they delay others no longer than one
/// commit does.
#[derive(Debug)]
pub struct EvaluationPool(Cell<u64>);

impl EvaluationPool {
    /// The steps of one round of a server's event loop. They are a fraction of the budget of a commit,
    /// since a round may have to wait for a commit of another thread.
    pub const ROUND: u64 = 200_000;

    /// A pool with that many steps.
    #[must_use]
    pub fn new(steps: u64) -> Self {
        Self(Cell::new(steps))
    }

    /// The steps that are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.0.get()
    }

    /// Keeps the steps that a commit has left.
    pub(crate) fn keep(&self, left: u64) {
        self.0.set(left.min(self.left()));
    }
}
