//! Executes a command as one atomic batch: `decide`, `apply`, then `settle` until no consequence is
//! pending.

use std::collections::BTreeSet;

use crate::plan::command::Command;
use crate::plan::decide::{MAX_BATCH_EVENTS, decide};
use crate::plan::event::Event;
use crate::plan::rejection::Rejection;
use crate::plan::settle::settle;
use crate::plan::state::State;
use crate::plan::value::evaluator::{Evaluator, Exhausted};
use crate::plan::value::ids::{RunId, Timestamp};

/// The events of a command, and whether they include all consequences.
#[derive(Debug)]
pub(crate) struct Executed {
    pub(crate) events: Vec<Event>,
    /// Otherwise some consequences did not fit into the batch, or into the budget of the commit.
    pub(crate) is_settled: bool,
}

/// Executes a command with the whole budget of a commit: see `execute_within`.
pub fn execute(
    state: &mut State,
    next_seq: u64,
    now: Timestamp,
    command: &Command,
) -> Result<Vec<Event>, Rejection> {
    let executed = execute_within(state, next_seq, now, command, &mut Evaluator::default())?;
    Ok(executed.events)
}

/// Executes a command and returns its events and all their consequences: one atomic batch. The
/// first event has sequence number `next_seq`, and all have the time `now`, or the time of the
/// state if that is later.
///
/// A rejected command changes nothing. If consequences do not fit into the batch, or need more
/// evaluations than the budget of the commit covers, the next command of the run settles them. A
/// claim ([`Command::Dispatch`]) and a tick do so before anything else. If such a claim then
/// dispatches no step, it is not rejected: the caller gets events without a `Dispatched` event, and
/// claims again.
pub(crate) fn execute_within(
    state: &mut State,
    next_seq: u64,
    now: Timestamp,
    command: &Command,
    evaluator: &mut Evaluator,
) -> Result<Executed, Rejection> {
    let now = now.max(state.time);
    let (events, runs) = (Vec::new(), BTreeSet::new());
    let mut batch = Batch { next_seq, now, events, runs, evaluator, is_settled: true };
    match command {
        Command::Dispatch { run, .. } => batch.settle(state, *run),
        Command::Tick => batch.settle_rest(state),
        _ => {}
    }
    // A claim must not miss a consequence: a step that is ready, or one that must stop.
    let is_cut = !batch.is_settled && matches!(command, Command::Dispatch { .. });
    match decide(state, now, command) {
        _ if batch.is_full() || is_cut => {}
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
    let Batch { events, is_settled, .. } = batch;
    mutant!(ReleaseNotLogged => if matches!(command, Command::ReportLost { .. }) {
        return Ok(Executed { events: Vec::new(), is_settled });
    });
    mutant!(LeaseExpiryNotLogged => if matches!(command, Command::Tick) {
        return Ok(Executed { events: Vec::new(), is_settled });
    });
    Ok(Executed { events, is_settled })
}

/// Limit for the events of timers, which leaves room for their consequences.
const MAX_TICK_EVENTS: usize = MAX_BATCH_EVENTS / 2;

struct Batch<'a> {
    next_seq: u64,
    now: Timestamp,
    events: Vec<Event>,
    runs: BTreeSet<RunId>,
    evaluator: &'a mut Evaluator,
    /// Whether every run that was settled has no consequences left.
    is_settled: bool,
}

impl Batch<'_> {
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

    /// Adds the consequences of a run, until none is left or the batch has no room for the next one.
    fn settle(&mut self, state: &mut State, run: RunId) {
        // The limit also stops this loop if a bug makes consequences follow each other without end.
        while !self.is_full() {
            match settle(state, run, self.evaluator) {
                Ok(follows) if follows.is_empty() => return,
                Ok(follows) => follows.into_iter().for_each(|event| self.add(state, event)),
                Err(Exhausted) => break,
            }
        }
        self.is_settled = false;
    }
}
