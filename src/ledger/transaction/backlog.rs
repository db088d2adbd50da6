//! The backlog: consequences of earlier commands that did not fit into their batches. While there
//! is one, a tick is due.

use crate::plan::{Command, Event, MAX_BATCH_EVENTS};

/// Whether some consequences have not been recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backlog {
    Empty,
    Pending,
}

impl Backlog {
    /// The backlog that a batch of these events leaves.
    pub(crate) fn of<T>(events: &[T]) -> Self {
        if events.len() < MAX_BATCH_EVENTS { Self::Empty } else { Self::Pending }
    }

    /// The backlog after a command with these events.
    pub(crate) fn after(self, command: &Command, events: &[Event]) -> Self {
        match (command, Self::of(events)) {
            // Only a tick settles all runs; other commands keep an existing backlog.
            (Command::Tick, backlog) | (_, backlog @ Self::Pending) => backlog,
            (_, Self::Empty) => self,
        }
    }
}
