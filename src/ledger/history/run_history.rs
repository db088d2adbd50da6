//! The history of a run: its records, its costs, and its progress over time.
//!
//! Invariants:
//! - Of a sealed segment, only the records that its footer lists for the run are read.
//! - Damage is reported, and the intact records after it are included. Pruned records are missing:
//!   [`RunHistory::since`] is then greater than 1.
//! - The final figures come from the run's state, not from sums over the records: if records are
//!   missing, the first point of the progress includes the missing amount.
//!
//! The history of a fork does not include the records of its parent; `compare` includes them.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::ledger::codec::streams::RUN_STREAMS;
use crate::ledger::projection::{RecordedEvent, apply_owned_record, decode_record};
use crate::ledger::view::LedgerView;
use crate::log::{Damage, LogItem, LoggedRecord, RecordStatus};
use crate::plan::{Cost, Event, Run, RunId, State, StepEvent, StepNumber, StepStatus, Timestamp};

use super::cost::{CostReport, StepCost};
use super::lineage::foldable_from;
use super::step_events::step_events;
use super::timeline::{StepTimeline, timelines};

/// The records of a run, and damage that may have lost some of them.
#[derive(Debug, Clone)]
pub struct RunHistory {
    /// The first record of the log: 1, unless earlier ones were pruned.
    pub since: u64,
    /// The records about the run, in order.
    pub records: Vec<RecordedEvent>,
    /// Damage that may have destroyed some of them.
    pub damage: Vec<Damage>,
    /// Intact records that this program cannot read.
    pub unreadable: Vec<u64>,
    /// The costs that were reserved before the first record.
    before: CostReport,
}

/// The progress of a run after one of its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgressPoint {
    /// The record.
    pub seq: u64,
    pub time: Timestamp,
    /// The cost so far. A lost attempt is charged with its reservation.
    pub spent: Cost,
    /// Dispatched attempts.
    pub attempts: u64,
    /// Accepted or skipped steps.
    pub closed: u64,
    /// Steps of the active version.
    pub steps: u64,
}

#[doc(hidden)]
impl LedgerView {
    /// The records of a run, up to record `last`.
    ///
    /// # Errors
    /// `Io`. Damage is not an error here.
    pub fn run_history(&self, run: RunId, last: u64) -> Result<RunHistory> {
        let since = self.reader.first_seq();
        // The records of a log that cannot be folded can still be shown.
        let before = foldable_from(&self.reader).ok();
        let before =
            CostReport::starting_from(before.as_ref().and_then(|(_, state)| state.runs.get(&run)));
        let (records, damage, unreadable) = (Vec::new(), Vec::new(), Vec::new());
        let mut found = RunHistory { since, records, damage, unreadable, before };
        for item in self.reader.walk_of_stream(u64::from(run.0), RUN_STREAMS, since).up_to(last) {
            match item? {
                LogItem::Record(_, RecordStatus::Unacknowledged)
                    if self.reader.head_names_present_segment() => {}
                LogItem::Record(record, _) => found.add(&record),
                LogItem::Damage(damage) if damage.first_seq <= last => found.damage.push(damage),
                LogItem::Damage(_) | LogItem::DerivedDamage(_) | LogItem::OpenEnd { .. } => {}
            }
        }
        Ok(found)
    }

    /// The state after record `seq` with this run only, without other runs and the ledger's caps.
    /// `None` if some record of the run cannot be read; [`LedgerView::state_at`] then reports the
    /// reason.
    ///
    /// # Errors
    /// `Io`.
    pub fn state_of_run(&self, run: RunId, seq: u64) -> Result<Option<State>> {
        let found = self.run_history(run, seq)?;
        let mut state = State::default();
        let is_complete = found.is_complete();
        found.records.into_iter().for_each(|record| apply_owned_record(&mut state, record));
        Ok(Some(state).filter(|state| is_complete && state.runs.contains_key(&run)))
    }

    /// The records of a step, oldest first. Pruned records are omitted.
    ///
    /// # Errors
    /// `Corrupt` for damage in them; `Io`.
    pub fn step_records(&self, run: &Run, step: StepNumber) -> Result<Vec<LoggedRecord>> {
        let last = run.step(step).map_or(0, |step| step.last_seq);
        let mut found =
            step_events(&self.reader, last).map(|each| Ok(each?.0)).collect::<Result<Vec<_>>>()?;
        found.reverse();
        Ok(found)
    }
}

impl RunHistory {
    fn add(&mut self, record: &LoggedRecord) {
        match decode_record(record) {
            Ok(record) => self.records.push(record),
            Err(_) => self.unreadable.push(record.seq),
        }
    }

    /// Whether no record of the run is missing.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.since == 1 && self.damage.is_empty() && self.unreadable.is_empty()
    }

    /// The cost of each step over these records.
    #[must_use]
    pub fn costs(&self) -> BTreeMap<StepNumber, StepCost> {
        let mut costs = self.before.clone();
        for record in &self.records {
            if let Some(event) = &record.event {
                costs.add(record.seq, event);
            }
        }
        costs.steps
    }

    /// The progress after each record that changed it. The last point is the current state of `run`.
    #[must_use]
    pub fn progress(&self, run: &Run) -> Vec<ProgressPoint> {
        let mut progress = ProgressFold { costs: self.before.clone(), ..ProgressFold::default() };
        for record in &self.records {
            progress.add(record);
        }
        progress.ending_with(run)
    }

    #[must_use]
    pub fn timelines(&self) -> BTreeMap<StepNumber, StepTimeline> {
        timelines(&self.records)
    }
}

#[derive(Debug, Default)]
struct ProgressFold {
    costs: CostReport,
    closed: BTreeSet<StepNumber>,
    steps: u64,
    points: Vec<ProgressPoint>,
}

impl ProgressFold {
    fn add(&mut self, record: &RecordedEvent) {
        let Some(event) = &record.event else { return };
        self.costs.add(record.seq, event);
        match event {
            Event::PlanActivated(activated) => {
                self.steps = count(activated.numbers.len());
                for step in activated.invalidated.iter().chain(&activated.removed) {
                    self.closed.remove(step);
                }
            }
            Event::StepsInherited(inherited) => {
                let closed = inherited.steps.iter().filter(|each| each.status.is_closed());
                self.closed.extend(closed.map(|each| each.step));
            }
            Event::Step(step) => match step.event {
                StepEvent::Accepted(_) | StepEvent::Skipped(_) => {
                    self.closed.insert(step.step);
                }
                StepEvent::Reopened(_) => {
                    self.closed.remove(&step.step);
                }
                _ => {}
            },
            _ => {}
        }
        let point = ProgressPoint {
            seq: record.seq,
            time: record.time,
            spent: self.costs.total.spent,
            attempts: self.costs.total.attempts,
            closed: count(self.closed.len()),
            steps: self.steps,
        };
        let is_same = |last: &ProgressPoint| {
            let ProgressPoint { seq, time, .. } = point;
            ProgressPoint { seq, time, ..*last } == point
        };
        if !self.points.last().is_some_and(is_same) {
            self.points.push(point);
        }
    }

    /// The points, shifted so that the last one is the current state of the run. The missing amount
    /// is added to all points, as if it came before the first one.
    fn ending_with(self, run: &Run) -> Vec<ProgressPoint> {
        let mut points = self.points;
        let Some(last) = points.last().copied() else { return points };
        let closed = run.count(StepStatus::Accepted) + run.count(StepStatus::Skipped);
        let spent = run.account.spent.minus(last.spent);
        let attempts = run.account.attempts.saturating_sub(last.attempts);
        let closed = u64::from(closed).saturating_sub(last.closed);
        let steps = run.active_version().map_or(0, |version| version.step_count.into());
        for each in &mut points {
            each.spent = each.spent.plus(spent);
            each.attempts += attempts;
            each.closed += closed;
            if each.steps == 0 {
                each.steps = steps;
            }
        }
        points
    }
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
