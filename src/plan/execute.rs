//! Executes a command as one atomic batch: `decide`, `apply`, then `settle` until no consequence is
//! pending.

use std::collections::BTreeSet;

use crate::plan::command::Command;
use crate::plan::decide::{MAX_BATCH_EVENTS, decide};
use crate::plan::event::Event;
use crate::plan::rejection::Rejection;
use crate::plan::settle::settle;
use crate::plan::state::State;
use crate::plan::value::ids::{RunId, Timestamp};

/// Executes a command and returns its events and all their consequences: one atomic batch. The
/// first event has sequence number `next_seq`, and all have the time `now`, or the time of the
/// state if that is later.
///
/// A rejected command changes nothing. If consequences do not fit into the batch, the next command
/// of the run settles them. A claim ([`Command::Dispatch`]) and a tick do so before anything else.
/// If such a claim then dispatches no step, it is not rejected: the caller gets events without a
/// `Dispatched` event, and claims again.
pub fn execute(
    state: &mut State,
    next_seq: u64,
    now: Timestamp,
    command: &Command,
) -> Result<Vec<Event>, Rejection> {
    let now = now.max(state.time);
    let mut batch = Batch { next_seq, now, events: Vec::new(), runs: BTreeSet::new() };
    match command {
        Command::Dispatch { run, .. } => batch.settle(state, *run),
        Command::Tick => batch.settle_rest(state),
        _ => {}
    }
    match decide(state, now, command) {
        _ if batch.is_full() => {}
        Ok(events) => events.into_iter().for_each(|event| batch.add(state, event)),
        Err(_) if !batch.events.is_empty() => {}
        Err(rejection) => return Err(rejection),
    }
    if matches!(command, Command::Tick) {
        batch.tick(state);
    }
    for run in std::mem::take(&mut batch.runs) {
        batch.settle(state, run);
    }
    mutant!(ReleaseNotLogged => if matches!(command, Command::ReportLost { .. }) {
        return Ok(Vec::new());
    });
    mutant!(LeaseExpiryNotLogged => if matches!(command, Command::Tick) { return Ok(Vec::new()) });
    Ok(batch.events)
}

/// Limit for the events of timers, which leaves room for their consequences.
const MAX_TICK_EVENTS: usize = MAX_BATCH_EVENTS / 2;

struct Batch {
    next_seq: u64,
    now: Timestamp,
    events: Vec<Event>,
    runs: BTreeSet<RunId>,
}

impl Batch {
    fn add(&mut self, state: &mut State, mut event: Event) {
        if let Event::Step(record) = &mut event {
            let step = state.runs.get(&record.run).and_then(|run| run.step(record.step));
            record.previous = step.map_or(0, |step| step.last_seq);
        }
        if let Event::PlanActivated(activated) = &mut event {
            let request = state.runs.get(&activated.run).and_then(|run| run.request.as_ref());
            activated.request = request.map_or(0, |request| request.seq);
        }
        state.apply(self.next_seq, self.now, &event);
        self.next_seq = self.next_seq.saturating_add(1);
        self.runs.extend(event.run());
        self.events.push(event);
    }

    /// Whether the batch is full.
    fn is_full(&self) -> bool {
        self.events.len() >= MAX_BATCH_EVENTS
    }

    /// Settles consequences that did not fit into earlier batches.
    fn settle_rest(&mut self, state: &mut State) {
        for run in state.runs.unsettled() {
            self.settle(state, run);
        }
    }

    /// Fires the timers that are due one by one, each on the state after the previous one. Timers
    /// that do not fit into the batch fire at the next tick.
    fn tick(&mut self, state: &mut State) {
        while self.events.len() < MAX_TICK_EVENTS {
            let due = decide(state, self.now, &Command::Tick).unwrap_or_default();
            if due.is_empty() {
                return;
            }
            for event in due {
                self.add(state, event);
            }
        }
    }

    fn settle(&mut self, state: &mut State, run: RunId) {
        // The limit also stops this loop if a bug makes consequences follow each other without end.
        while !self.is_full() {
            let follows = settle(state, run);
            if follows.is_empty() {
                return;
            }
            for event in follows {
                self.add(state, event);
            }
        }
    }
}
