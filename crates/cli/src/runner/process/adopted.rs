//! Adopted jobs: workers of an earlier runner that are still at work.
//!
//! They are not children of this process: their lock and their record show that they have ended, and their
//! environment shows which processes are theirs. Their supervisors enforce their time limits; this
//! process enforces the other limits.

use std::time::{Duration, Instant};

use crate::runner::process::limits::{EndedBy, JobLimits, LimitWatch, RepeatNote};
use crate::runner::process::scratch::Scratch;
use plan_ledger_views::Repeat;

/// A job of an earlier runner that is still at work.
pub(crate) struct AdoptedJob {
    stem: String,
    adopted: Instant,
    watch: LimitWatch,
    ended_by: Option<EndedBy>,
    /// When to kill it, if it was asked to end.
    kill_at: Option<Instant>,
}

impl AdoptedJob {
    pub(crate) fn new(stem: &str, limits: JobLimits, scratch: &Scratch) -> Self {
        // Only its supervisor knows when it began.
        let limits = JobLimits { timeout_seconds: None, ..limits };
        let watch = LimitWatch::new(limits, scratch, stem);
        // Its earlier repetitions are unknown here, so they are noted again.
        RepeatNote::Remove.keep(scratch, stem);
        let (stem, adopted) = (stem.to_owned(), Instant::now());
        Self { stem, adopted, watch, ended_by: None, kill_at: None }
    }

    /// End the job if it exceeds one of its limits, or has not ended in time after a request. Returns a note about it
    /// for people.
    pub(crate) fn enforce(&mut self, scratch: &Scratch) -> Option<String> {
        if self.ended_by.is_none()
            && let Some(by) = self.watch.exceeded(self.adopted)
        {
            self.end(by, scratch);
        }
        if self.kill_at.is_some_and(|at| at <= Instant::now()) {
            self.kill_at = None;
            self.kill(scratch);
        }
        self.watch.repeat_note().and_then(|note| note.keep(scratch, &self.stem))
    }

    /// The repetition at the last check of its limits.
    pub(crate) fn repeated(&self) -> Option<Repeat> {
        self.watch.repeated()
    }

    /// End all of its processes. The first reason is kept. A job that is asked to stop has a grace period to
    /// end by itself.
    pub(crate) fn end(&mut self, by: EndedBy, scratch: &Scratch) {
        if self.ended_by.is_some() {
            return;
        }
        self.ended_by = Some(by);
        let grace = if by == EndedBy::Stop { self.watch.grace() } else { Duration::ZERO };
        if grace.is_zero() {
            self.kill(scratch);
        } else {
            self.kill_at = Some(Instant::now() + grace);
            scratch.ask_to_end(&self.stem);
        }
    }

    pub(crate) fn kill(&self, scratch: &Scratch) {
        // One that cannot be killed is found when its end is confirmed.
        let _ = scratch.end_job(&self.stem, None);
    }

    /// Why this process ended it.
    pub(crate) fn ended_by(&self) -> Option<EndedBy> {
        self.ended_by
    }
}
