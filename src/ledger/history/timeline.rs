//! Timelines: the attempts of each step, and its waits between them. The wait before the first
//! dispatch is not included; see `explain`.
//!
//! Invariant: the intervals of a step do not overlap and are in order of time; at most the last one is
//! open.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::ledger::projection::RecordedEvent;
use crate::plan::{AfterLoss, Decision, Event, Outcome, StepEvent, StepNumber, Timestamp};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepTimeline {
    /// Its intervals, in order.
    pub intervals: Vec<TimelineInterval>,
    /// How many attempts were dispatched.
    pub attempts: u32,
}

/// An attempt at a step, or a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineInterval {
    /// Its start.
    pub from: Timestamp,
    /// Its end; `None` while it is open.
    pub until: Option<Timestamp>,
    /// An outcome of an attempt, or the cause of a wait.
    pub kind: IntervalKind,
    /// The record that began it.
    pub seq: u64,
    /// The record that ended it; `None` while it is open.
    pub end_seq: Option<u64>,
    /// The worker, if the interval is an attempt.
    pub worker: Option<String>,
}

/// The outcome of an attempt, or the cause of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum IntervalKind {
    /// An attempt that has not ended.
    InFlight,
    /// An attempt that reported success.
    Succeeded,
    /// An attempt that reported success and failed a criterion.
    Rejected,
    /// An attempt that reported a failure.
    Failed,
    /// An attempt that asked for another plan.
    ReplanRequested,
    /// An attempt that never reported.
    Lost,
    /// Waiting for verdicts, or for a decision.
    Judged,
    /// Waiting before a retry.
    Delayed,
    /// Waiting for an answer.
    Asked,
    /// Waiting for the outcome of a lost attempt.
    OutcomeUnknown,
}

/// The timeline of each step that appears in the records of a run.
pub(crate) fn timelines(records: &[RecordedEvent]) -> BTreeMap<StepNumber, StepTimeline> {
    let mut timelines: BTreeMap<StepNumber, StepTimeline> = BTreeMap::new();
    for record in records {
        let Some(Event::Step(step)) = &record.event else { continue };
        timelines.entry(step.step).or_default().add(record.seq, record.time, &step.event);
    }
    timelines.retain(|_, timeline| !timeline.intervals.is_empty());
    timelines
}

impl StepTimeline {
    /// Adds the next record about the step.
    pub fn add(&mut self, seq: u64, time: Timestamp, event: &StepEvent) {
        use IntervalKind as Kind;
        let record = (seq, time);
        match event {
            StepEvent::Dispatched(dispatched) => {
                self.begin(record, Kind::InFlight);
                self.attempts = self.attempts.saturating_add(1);
                if let Some(last) = self.intervals.last_mut() {
                    last.worker = Some(dispatched.worker.clone());
                }
            }
            StepEvent::ReceiptRecorded(recorded) => {
                self.finish_attempt(match &recorded.receipt.outcome {
                    Outcome::Succeeded => Kind::Succeeded,
                    Outcome::Failed { .. } => Kind::Failed,
                    Outcome::ReplanRequested { .. } => Kind::ReplanRequested,
                });
                self.begin(record, Kind::Judged);
            }
            StepEvent::AttemptLost(lost) => {
                self.finish_attempt(Kind::Lost);
                match lost.then {
                    AfterLoss::Redispatch => self.end(record),
                    AfterLoss::OutcomeUnknown => self.begin(record, Kind::OutcomeUnknown),
                }
            }
            StepEvent::FailureDecided(decided) => {
                // Only a failed criterion makes a failure of a success.
                let last = self.intervals.iter_mut().rev().find(|it| it.kind.is_attempt());
                if let Some(last) = last.filter(|last| last.kind == Kind::Succeeded) {
                    last.kind = Kind::Rejected;
                }
                match decided.decision {
                    Decision::RetryAt { .. } => self.begin(record, Kind::Delayed),
                    Decision::OutcomeUnknown => self.begin(record, Kind::OutcomeUnknown),
                    Decision::Escalate => {}
                    _ => self.end(record),
                }
            }
            StepEvent::StepAsked(_) => self.begin(record, Kind::Asked),
            StepEvent::StepAnswered(_)
            | StepEvent::StepQuestionExpired(_)
            | StepEvent::Accepted(_)
            | StepEvent::Skipped(_)
            | StepEvent::StepFailed(_)
            | StepEvent::DelayElapsed(_)
            | StepEvent::OutcomeResolved(_) => self.end(record),
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

    /// End the attempt in flight with this outcome.
    fn finish_attempt(&mut self, kind: IntervalKind) {
        let open = self.intervals.last_mut().filter(|last| last.until.is_none());
        if let Some(last) = open.filter(|last| last.kind == IntervalKind::InFlight) {
            last.kind = kind;
        }
    }

    fn end(&mut self, (seq, time): (u64, Timestamp)) {
        let Some(last) = self.intervals.last_mut().filter(|last| last.until.is_none()) else {
            return;
        };
        (last.until, last.end_seq) = (Some(time), Some(seq));
        // Drop a wait that lasted no time.
        if last.from == time && !last.kind.is_attempt() {
            self.intervals.pop();
        }
    }

    fn begin(&mut self, record: (u64, Timestamp), kind: IntervalKind) {
        self.end(record);
        let (seq, from) = record;
        let (until, end_seq, worker) = (None, None, None);
        self.intervals.push(TimelineInterval { from, until, kind, seq, end_seq, worker });
    }
}

impl IntervalKind {
    /// Whether the interval is an attempt.
    #[must_use]
    pub fn is_attempt(self) -> bool {
        matches!(
            self,
            Self::InFlight
                | Self::Succeeded
                | Self::Rejected
                | Self::Failed
                | Self::ReplanRequested
                | Self::Lost
        )
    }
}
