//! The records of a run as people ask for them: what happened, what it cost, how it went on.
//!
//! Invariants:
//! - What is read of a sealed segment is what its footer says is about the run.
//! - Damage ends nothing: it is named, and what is intact is there. What was pruned is not, and
//!   [`Chronicle::since`] says so.
//! - What the run has now is never taken from sums over the records, but from its state: where
//!   records are missing, the course begins with what they must have come to.
//!
//! Left out on purpose: the records of the run that a fork was; `compare` follows those.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, ErrorKind, Result};
use crate::log::{Damage, Item, LogReader, LoggedRecord, Proof};
use crate::plan::{
    Cost, Event, Micros, Run, RunId, State, StepEvent, StepNumber, StepRecord, StepStatus,
};

use super::books::{Books, StepCost};
use super::codec;
use super::history::ground;
use super::replay::{LedgerView, Recorded, fold_in};
use super::streams::RUNS;

/// What the log still has about a run.
#[derive(Debug, Clone)]
pub struct Chronicle {
    /// The first record that the log has: 1, unless those before were pruned.
    pub since: u64,
    /// The records about the run, in order.
    pub records: Vec<Recorded>,
    /// Damage that may have held some.
    pub damage: Vec<Damage>,
    /// Intact records that this program cannot read.
    pub unreadable: Vec<u64>,
    /// What had been set aside before the records begin.
    before: Books,
}

/// How far a run was after one of its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Milestone {
    /// The record.
    pub seq: u64,
    /// When.
    pub time: Micros,
    /// What was spent, lost attempts charged with what was set aside for them.
    pub spent: Cost,
    /// Attempts that were dealt.
    pub attempts: u64,
    /// Steps that were accepted or skipped.
    pub closed: u64,
    /// Steps of the active version.
    pub steps: u64,
}

impl LedgerView {
    /// The records about a run, up to that one.
    ///
    /// # Errors
    /// `Io`. Damage is no error here.
    pub fn chronicle(&self, run: RunId, last: u64) -> Result<Chronicle> {
        let since = self.log().first_seq();
        // Where the log cannot be folded, what is there is shown all the same.
        let before = ground(self.log()).ok();
        let before = Books::after(before.as_ref().and_then(|(_, state)| state.runs.get(&run)));
        let (records, damage, unreadable) = (Vec::new(), Vec::new(), Vec::new());
        let mut found = Chronicle { since, records, damage, unreadable, before };
        for item in self.log().walk_of_stream(u64::from(run.0), RUNS, since).up_to(last) {
            match item? {
                Item::Record(_, Proof::Unproven) if self.log().has_witness() => {}
                Item::Record(record, _) => found.note(&record),
                Item::Damage(damage) if damage.first_seq <= last => found.damage.push(damage),
                Item::Damage(_) | Item::Derived(_) | Item::OpenEnd { .. } => {}
            }
        }
        Ok(found)
    }

    /// The state after record `seq` as far as one run goes: nothing is in it of other runs, or of
    /// the ledger's caps. `None` if not every record about the run can be read; then
    /// [`LedgerView::state_at`] says more.
    ///
    /// # Errors
    /// `Io`.
    pub fn state_of_run(&self, run: RunId, seq: u64) -> Result<Option<State>> {
        let found = self.chronicle(run, seq)?;
        let mut state = State::default();
        let is_whole = found.is_whole();
        found.records.into_iter().for_each(|record| fold_in(&mut state, record));
        Ok(Some(state).filter(|state| is_whole && state.runs.contains_key(&run)))
    }

    /// What happened to a step of a run, oldest first: each of its records names the one before.
    ///
    /// # Errors
    /// `Corrupt` for damage in it; `Io`. What was pruned is left out.
    pub fn step_records(&self, run: &Run, step: StepNumber) -> Result<Vec<LoggedRecord>> {
        let last = run.step(step).map_or(0, |step| step.last_seq);
        let mut found =
            step_events(self.log(), last).map(|each| Ok(each?.0)).collect::<Result<Vec<_>>>()?;
        found.reverse();
        Ok(found)
    }
}

/// What happened to a step, from that record of it back, as far as the log goes.
pub(super) fn step_events(
    log: &LogReader,
    last: u64,
) -> impl Iterator<Item = Result<(LoggedRecord, StepEvent)>> + '_ {
    let mut seq = last;
    std::iter::from_fn(move || {
        if seq == 0 || seq < log.first_seq() {
            return None;
        }
        let read = log.record(seq).and_then(|record| {
            let Some(record) = record else { return Ok(None) };
            let Some(Event::Step(StepRecord { previous, event, .. })) = codec::decode(&record)?
            else {
                let message = "expected an event of a step, as the next one of that step says";
                return Err(Error::new(ErrorKind::Corrupt, message).at_seq(seq));
            };
            Ok(Some((previous.min(seq.saturating_sub(1)), record, event)))
        });
        match read {
            Ok(Some((previous, record, event))) => {
                seq = previous;
                Some(Ok((record, event)))
            }
            Ok(None) => None,
            Err(error) => {
                seq = 0;
                Some(Err(error))
            }
        }
    })
}

impl Chronicle {
    fn note(&mut self, record: &LoggedRecord) {
        match codec::decode(record) {
            Ok(event) => self.records.push(Recorded { seq: record.seq, time: record.time, event }),
            Err(_) => self.unreadable.push(record.seq),
        }
    }

    /// Whether every record of the run is there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.since == 1 && self.damage.is_empty() && self.unreadable.is_empty()
    }

    /// What each step cost over these records.
    #[must_use]
    pub fn costs(&self) -> BTreeMap<StepNumber, StepCost> {
        let mut books = self.before.clone();
        for record in &self.records {
            if let Some(event) = &record.event {
                books.note(record.seq, event);
            }
        }
        books.steps
    }

    /// How far the run was after each record that brought it further, or back. The last milestone
    /// is how it stands.
    #[must_use]
    pub fn course(&self, run: &Run) -> Vec<Milestone> {
        let mut course = Course { books: self.before.clone(), ..Course::default() };
        for record in &self.records {
            course.note(record);
        }
        course.shifted(run)
    }
}

/// What a course is made of.
#[derive(Debug, Default)]
struct Course {
    books: Books,
    closed: BTreeSet<StepNumber>,
    steps: u64,
    milestones: Vec<Milestone>,
}

impl Course {
    fn note(&mut self, record: &Recorded) {
        let Some(event) = &record.event else { return };
        self.books.note(record.seq, event);
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
        let milestone = Milestone {
            seq: record.seq,
            time: record.time,
            spent: self.books.total.spent,
            attempts: self.books.total.attempts,
            closed: count(self.closed.len()),
            steps: self.steps,
        };
        let is_same = |last: &Milestone| {
            let Milestone { seq, time, .. } = milestone;
            Milestone { seq, time, ..*last } == milestone
        };
        if !self.milestones.last().is_some_and(is_same) {
            self.milestones.push(milestone);
        }
    }

    /// The milestones, moved so that the last is how the run stands: what is missing was before.
    fn shifted(self, run: &Run) -> Vec<Milestone> {
        let mut milestones = self.milestones;
        let Some(last) = milestones.last().copied() else { return milestones };
        let closed = run.count(StepStatus::Accepted) + run.count(StepStatus::Skipped);
        let spent = run.account.spent.minus(last.spent);
        let attempts = run.account.attempts.saturating_sub(last.attempts);
        let closed = u64::from(closed).saturating_sub(last.closed);
        let steps = run.active_version().map_or(0, |version| version.step_count.into());
        for each in &mut milestones {
            each.spent = each.spent.plus(spent);
            each.attempts += attempts;
            each.closed += closed;
            if each.steps == 0 {
                each.steps = steps;
            }
        }
        milestones
    }
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
