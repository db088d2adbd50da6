//! When which step was worked on, and what it waited for in between: what a timeline shows.
//!
//! Invariants: the stretches of a step do not overlap, and stand in the order of time; at most the
//! last one is open. Left out on purpose: what a step waits for before it is dealt for the first
//! time, which the plan says.

use std::collections::BTreeMap;

use crate::plan::{AfterLoss, Decision, Event, Micros, Outcome, StepEvent, StepNumber};

use super::chronicle::Chronicle;
use super::replay::Recorded;

/// What a step did over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Track {
    /// Stretches in which something went on, in order.
    pub stretches: Vec<Stretch>,
    /// How many attempts were dealt.
    pub attempts: u32,
}

/// A time in which the same thing went on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// From when.
    pub from: Micros,
    /// Until when; `None` if it still goes on.
    pub until: Option<Micros>,
    /// What.
    pub kind: StretchKind,
    /// The record that began it.
    pub seq: u64,
    /// Who had the attempt, if it is one.
    pub worker: Option<String>,
}

/// What went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StretchKind {
    /// An attempt that has not ended.
    InFlight,
    /// An attempt that reported success.
    Succeeded,
    /// An attempt that reported a failure.
    Failed,
    /// An attempt that asked for another plan.
    ReplanRequested,
    /// An attempt that never reported.
    Lost,
    /// Verdicts, or a decision, were missing.
    Judged,
    /// It waited a while after a failure.
    Delayed,
    /// Somebody was asked.
    Asked,
    /// Nobody knew what a lost attempt had done.
    InDoubt,
}

impl Chronicle {
    /// What each step did over time.
    #[must_use]
    pub fn tracks(&self) -> BTreeMap<StepNumber, Track> {
        let mut tracks: BTreeMap<StepNumber, Track> = BTreeMap::new();
        for record in &self.records {
            let Some(Event::Step(step)) = &record.event else { continue };
            tracks.entry(step.step).or_default().note(record, &step.event);
        }
        tracks.retain(|_, track| !track.stretches.is_empty());
        tracks
    }
}

impl Track {
    fn note(&mut self, record: &Recorded, event: &StepEvent) {
        use StretchKind as Kind;
        match event {
            StepEvent::Dispatched(dispatched) => {
                self.begin(record, Kind::InFlight);
                self.attempts = self.attempts.saturating_add(1);
                let worker = Some(dispatched.worker.clone());
                self.stretches
                    .last_mut()
                    .into_iter()
                    .for_each(|last| last.worker.clone_from(&worker));
            }
            StepEvent::ReceiptRecorded(recorded) => {
                self.report(match &recorded.receipt.outcome {
                    Outcome::Succeeded => Kind::Succeeded,
                    Outcome::Failed { .. } => Kind::Failed,
                    Outcome::ReplanRequested { .. } => Kind::ReplanRequested,
                });
                self.begin(record, Kind::Judged);
            }
            StepEvent::AttemptLost(lost) => {
                self.report(Kind::Lost);
                match lost.then {
                    AfterLoss::DealAgain => self.end(record.time),
                    AfterLoss::InDoubt => self.begin(record, Kind::InDoubt),
                }
            }
            StepEvent::FailureDecided(decided) => match decided.decision {
                Decision::RetryAt(_) => self.begin(record, Kind::Delayed),
                Decision::Doubt => self.begin(record, Kind::InDoubt),
                Decision::Escalate => {}
                _ => self.end(record.time),
            },
            StepEvent::Asked(_) => self.begin(record, Kind::Asked),
            StepEvent::Answered(_)
            | StepEvent::Expired(_)
            | StepEvent::Accepted(_)
            | StepEvent::Skipped(_)
            | StepEvent::Failed(_)
            | StepEvent::DelayElapsed(_)
            | StepEvent::DoubtResolved(_) => self.end(record.time),
            StepEvent::LeaseRenewed(_)
            | StepEvent::ReceiptRefused(_)
            | StepEvent::VerdictRecorded(_)
            | StepEvent::Reopened(_)
            | StepEvent::ConditionJudged(_)
            | StepEvent::EffectIntended(_)
            | StepEvent::EffectCommitted(_)
            | StepEvent::CostCorrected(_) => {}
        }
    }

    /// What became of the attempt that is in flight.
    fn report(&mut self, kind: StretchKind) {
        let open = self.stretches.last_mut().filter(|last| last.until.is_none());
        if let Some(last) = open.filter(|last| last.kind == StretchKind::InFlight) {
            last.kind = kind;
        }
    }

    fn end(&mut self, time: Micros) {
        let Some(last) = self.stretches.last_mut().filter(|last| last.until.is_none()) else {
            return;
        };
        last.until = Some(time);
        // A wait that took no time is none.
        if last.from == time && !last.kind.is_attempt() {
            self.stretches.pop();
        }
    }

    fn begin(&mut self, record: &Recorded, kind: StretchKind) {
        self.end(record.time);
        let (from, seq) = (record.time, record.seq);
        self.stretches.push(Stretch { from, until: None, kind, seq, worker: None });
    }
}

impl StretchKind {
    /// Whether somebody worked, or should have.
    #[must_use]
    pub fn is_attempt(self) -> bool {
        matches!(
            self,
            Self::InFlight | Self::Succeeded | Self::Failed | Self::ReplanRequested | Self::Lost
        )
    }
}
