//! Waiting: for steps that are dispatched again after a pause, and for nothing else.
//!
//! Invariants: a loop that has nothing to do waits only as long as time alone can change that. It
//! never waits for a person, nor for the deadline of an answer: that may take days. What others do
//! meanwhile is noticed.

use std::time::Duration;

use plan_ledger::error::Result;
use plan_ledger::plan::{Micros, RunStatus, StepStatus, Timer};

use crate::runner::drive::state::Drive;
use crate::runner::progress::{Progress, StepName};

impl Drive<'_> {
    /// With nothing to do, wait for what falls due, and let it. Whether the loop goes on.
    pub(crate) fn wait_for_time(&mut self) -> Result<bool> {
        if !self.may_start() {
            return Ok(false);
        }
        let Some((until, reason)) = self.due() else { return Ok(false) };
        self.observer.progress(&Progress::Waiting { until, reason });
        while self.may_start() {
            let left = until.saturating_sub(self.clock.now());
            if left == 0 {
                self.ledger.tick()?;
                self.count();
                // What fell due is due no more; if it were, waiting for it would never end.
                return Ok(self.due().is_none_or(|(next, _)| next > until));
            }
            if self.ledger.head().seq != self.seen {
                // Somebody else acted on the ledger, and there may be work now.
                self.count();
                return Ok(true);
            }
            // Nothing runs, so nothing is reported: this only sleeps.
            let report = self
                .workers
                .next(Duration::from_micros(left).min(crate::runner::drive::state::WAIT_MAX));
            debug_assert!(report.is_none(), "a worker reported that was not there");
            self.heed_stop_request();
        }
        Ok(false)
    }

    /// When the next thing falls due that is worth waiting for, and what it is.
    fn due(&mut self) -> Option<(Micros, String)> {
        let state = self.state()?;
        let run = state.runs.get(&self.run)?;
        if matches!(run.status, RunStatus::Ended(_)) {
            return None;
        }
        // Nothing is dispatched in a run that pauses, whatever becomes ready.
        if run.pause.is_some() {
            return None;
        }
        let (until, number) = run.timers.iter().find_map(|(until, timer)| match timer {
            Timer::Delay(number) => Some((*until, *number)),
            Timer::Question(_) | Timer::Barrier(_) | Timer::Lease(_) | Timer::Wall => None,
        })?;
        let others = run.count(StepStatus::Delayed).saturating_sub(1);
        let more = if others > 0 { format!(" and {others} more") } else { String::new() };
        Some((until, format!("{}{more} is tried again then", StepName::of(run, number))))
    }
}
