//! What falls due, and what earlier commands had no room for: written before anything is dealt.
//!
//! Invariant: nobody is told that nothing is ready while something that follows by itself is left
//! over.

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::plan::{Command, Event, MAX_BATCH_EVENTS, State};

use super::execute::{Begun, NotBegun};
use super::wish::{Course, Make, Wish};
use super::{Ledger, Task};

/// Whether some of what follows by itself had no room in a batch, so that a tick is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    None,
    Some,
}

impl Rest {
    /// What a batch of so many events leaves over.
    pub(super) fn of<T>(events: &[T]) -> Self {
        if events.len() < MAX_BATCH_EVENTS { Self::None } else { Self::Some }
    }

    /// What is left over once such a command has led to these events.
    pub(super) fn after(self, command: &Command, events: &[Event]) -> Self {
        match (command, Self::of(events)) {
            // Only a tick looks at all runs.
            (Command::Tick, rest) | (_, rest @ Self::Some) => rest,
            (_, Self::None) => self,
        }
    }
}

impl Ledger {
    /// Turn what is due into events: leases, delays, questions, barriers, wall time. Whoever waits
    /// calls it at [`State::next_due`], or whenever it suits: late is as good as in time. Due is what
    /// the ledger's time has reached: the clock's, or that of the last record if it is later. So is
    /// what follows from earlier commands and had no room in their batches.
    pub fn tick(&self) -> Result<()> {
        while let Some(begun) = self.start_tick() {
            if self.finish(begun)?.1 == Rest::None {
                break;
            }
        }
        Ok(())
    }

    /// One batch of the same, not waited for; `None` if nothing is due.
    pub(super) fn start_tick(&self) -> Option<Begun<Rest, Error>> {
        let mut shared = match self.lock() {
            Ok(shared) => shared,
            Err(error) => return Some(Err(NotBegun::Failed(error))),
        };
        let now = self.now();
        let is_due = shared.state.next_due().is_some_and(|due| due <= now);
        if !is_due && shared.rest == Rest::None {
            return None;
        }
        let make = |_: &State| Ok::<_, Error>(Cow::Borrowed(&Command::Tick));
        let course = Course { make: &make, then: None, key: None };
        Some(self.begin(&mut shared, &course, |_, events| Rest::of(events)))
    }

    /// Carry out a claim once all is settled that had no room in earlier batches; what `read` makes
    /// of the task, if one was dealt.
    pub(super) fn deal<T>(
        &self,
        claim: &dyn Fn(&State) -> Result<Command>,
        read: impl Fn(&State, Option<Task>) -> T,
    ) -> Result<T> {
        loop {
            self.tick()?;
            let wish = Wish { key: None, command: Make::Of(claim), then: None };
            let (_, (told, rest)) = self.fulfil(&wish, |state, events| {
                let task = Task::dealt(state, events);
                let rest = if task.is_some() { Rest::None } else { Rest::of(events) };
                (read(state, task), rest)
            })?;
            if rest == Rest::None {
                return Ok(told);
            }
        }
    }
}
