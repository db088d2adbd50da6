//! Waiting: an idle loop sleeps until a delayed step becomes ready.
//!
//! Invariants: an idle loop waits only for timers. It never waits for a person or for the deadline of a question, which
//! may be days away. It notices records that other processes append in the meantime.

use std::time::Duration;

use plan_ledger::plan::{Micros, Timer};
use plan_ledger::{AttemptToken, Result, RunStatus, StepStatus, Timestamp};

use crate::protocol::{StepName, WorkerKind};
use crate::runner::drive::guard::{closed, held_by_disk, now};
use crate::runner::drive::state::Drive;
use crate::runner::progress::Progress;
use crate::runner::waits::hold::{Hold, Now};
use crate::runner::waits::nearest_second;

/// A wait that ends this much earlier makes the loop check again.
const JUMP_MIN: Micros = 1_000_000;

/// Clocks that differ by less are the same.
const DIFFERENCE_MIN: Micros = 60_000_000;

impl Drive<'_> {
    /// If idle, wait for the next due time and record it. Returns whether the loop continues.
    pub(crate) fn wait_for_time(&mut self) -> Result<bool> {
        if !self.may_start() {
            return Ok(false);
        }
        let Some((until, reason)) = self.due() else { return Ok(false) };
        self.note_holds(self.whole_hold());
        // A report about the disk, or about this wait, is not repeated.
        let wait = (until, reason);
        if self.no_room.as_ref() != Some(&wait.1) && self.said_wait.as_ref() != Some(&wait) {
            self.said_wait = Some(wait.clone());
            let (until, reason) = wait;
            let until = self.by_wall(until);
            self.observer.progress(&Progress::Waiting { until, reason });
        }
        let is_held = self.held_until().is_some();
        while self.may_start() {
            self.release_dead_claims()?;
            let left = until.saturating_sub(self.clock.now());
            if left == 0 {
                self.ledger.tick()?;
                self.count();
                // The ledger has recorded everything that was due. If the timer is still due, stop
                // waiting, or the wait would never end.
                return Ok(self.due().is_none_or(|(next, _)| next > until));
            }
            // The wall clock was set, or there is room, so the hold of the steps ends earlier.
            let end = self.held_until().map(|(end, _)| end);
            if is_held && end.is_none_or(|end| end.saturating_add(JUMP_MIN) < until)
                || self.no_room.is_none() && self.guard.has_early_end(self.clock)
            {
                return Ok(true);
            }
            if self.ledger.head().seq != self.seen {
                // Another process appended records, so there may be work now.
                self.count();
                return Ok(true);
            }
            // No worker runs, so no report can arrive and this call only sleeps.
            let report = self
                .workers
                .next(Duration::from_micros(left).min(crate::runner::drive::state::WAIT_MAX));
            debug_assert!(report.is_none(), "a report arrived although no worker runs");
            self.handle_stop_request();
        }
        Ok(false)
    }

    /// A time of the ledger as the clock of the machine shows it, if that was set while the machine was up, to the
    /// second.
    pub(crate) fn by_wall(&self, time: Timestamp) -> Timestamp {
        let Now { ledger, wall } = now(self.clock);
        if ledger.abs_diff(wall) < DIFFERENCE_MIN {
            return nearest_second(time);
        }
        nearest_second(time.saturating_add(wall).saturating_sub(ledger))
    }

    /// The hold of all steps: by the hours, or by a disk that is nearly full.
    pub(crate) fn whole_hold(&self) -> Option<Hold> {
        let by_disk = || {
            let reason = self.no_room.as_ref().filter(|_| self.disk_problem().is_some())?;
            Some(held_by_disk(reason, self.clock))
        };
        closed(self.options.guards).or_else(by_disk)
    }

    /// Until when a hold, the hours or the disk keep ready steps from being dispatched, and why.
    fn held_until(&self) -> Option<(Timestamp, String)> {
        let whole = self.whole_hold().map(|hold| (hold.end(now(self.clock)), hold.reason));
        whole.or_else(|| self.guard.next_end(self.clock))
    }

    /// The next timer after which the loop may have work, with its reason.
    fn due(&mut self) -> Option<(Timestamp, String)> {
        let state = self.state()?;
        let run = state.runs.get(&self.run)?;
        if matches!(run.status, RunStatus::Ended(_)) {
            return None;
        }
        // A paused run dispatches nothing.
        if run.pause.is_some() {
            return None;
        }
        let is_held = run.has_dispatchable() || self.guard.waits_for_second(run, self.clock);
        if let Some(held) = self.held_until().filter(|_| is_held) {
            return Some(held);
        }
        // An idle loop hosts no attempts: its runner's attempts are, or were, on another machine.
        let hosted = |token: AttemptToken| {
            let (_, number) = state.in_flight.get(&token)?;
            let attempt = run.step(*number).and_then(|step| step.attempt())?;
            WorkerKind::hosted(&attempt.worker).then_some(*number)
        };
        let (until, number, is_lease) =
            run.timers.iter().find_map(|(until, timer)| match timer {
                Timer::Delay(number) => Some((*until, *number, false)),
                Timer::Lease(token) => hosted(*token).map(|number| (*until, number, true)),
                Timer::Question(_) | Timer::Barrier(_) | Timer::Wall => None,
            })?;
        if is_lease {
            let step = StepName::of(run, number);
            return Some((until, format!("{step} may be at work on another machine until then")));
        }
        let others = run.count(StepStatus::Delayed).saturating_sub(1);
        let step = StepName::of(run, number);
        let text = match others {
            0 => format!("{step} is retried then"),
            _ => format!("{step} and {others} more are retried then"),
        };
        Some((until, text))
    }
}
