//! Copies of the writer's state for readers, updated by applying the newer records.
//!
//! The writer's own state is never shared, so a reader that keeps an old copy does not slow down
//! the next command. A copy that no reader uses is updated with the newer events; the state is
//! cloned only if all copies are in use or there are too many newer events.
//!
//! Invariants:
//! - A copy equals the writer's state at the copy's sequence number.
//! - `recent` holds every record after the oldest copy, and nothing if there is no copy.
//! - Durability is the caller's concern: a copy may contain records that are not durable yet.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::plan::{Event, RunId, State, StepEvent, Timestamp};

/// How many unused copies are kept.
const IDLE_KEPT: usize = 2;
/// The limit of the records that are kept for the copies, as the sum of their weights.
const RECENT_WEIGHT_MAX: usize = 65_536;

/// A record that some copy does not contain yet.
#[derive(Debug)]
struct RecentRecord {
    seq: u64,
    time: Timestamp,
    /// `None` for a note.
    event: Option<Event>,
    weight: usize,
}

/// Copies of the state.
#[derive(Debug, Default)]
pub(crate) struct StateCache {
    copies: Vec<Arc<State>>,
    recent: VecDeque<RecentRecord>,
    weight: usize,
    /// How often the state was cloned.
    clones: u64,
}

impl StateCache {
    /// Drop all copies, since the writer's state was replaced.
    pub(crate) fn clear(&mut self) {
        self.copies.clear();
        self.trim();
    }

    /// Add a record that was applied to the writer's state.
    pub(crate) fn add_record(&mut self, seq: u64, time: Timestamp, event: Option<&Event>) {
        if self.copies.is_empty() {
            return;
        }
        let weight = event.map_or(1, weight);
        self.weight = self.weight.saturating_add(weight);
        self.recent.push_back(RecentRecord { seq, time, event: event.cloned(), weight });
        while self.weight > RECENT_WEIGHT_MAX && !self.copies.is_empty() {
            let oldest = self.copies.iter().map(|copy| copy.seq).min();
            self.copies.retain(|copy| Some(copy.seq) != oldest);
            self.trim();
        }
    }

    /// A copy of the state. The reader may keep it for any time.
    pub(crate) fn get(&mut self, state: &State) -> Arc<State> {
        let copy = self.current(state).unwrap_or_else(|| {
            self.clones = self.clones.saturating_add(1);
            Arc::new(state.clone())
        });
        let is_used = |copy: &Arc<State>| Arc::strong_count(copy) > 1;
        let mut idle = 0;
        self.copies.sort_by_key(|copy| std::cmp::Reverse(copy.seq));
        self.copies.retain(|copy| {
            idle += usize::from(!is_used(copy));
            is_used(copy) || idle <= IDLE_KEPT
        });
        self.copies.push(Arc::clone(&copy));
        self.trim();
        copy
    }

    /// A current copy, removed from the list: an existing one, or an unused one that is updated.
    fn current(&mut self, state: &State) -> Option<Arc<State>> {
        if let Some(at) = self.copies.iter().position(|copy| copy.seq == state.seq) {
            return Some(self.copies.swap_remove(at));
        }
        let is_idle = |(_, copy): &(usize, &Arc<State>)| Arc::strong_count(copy) == 1;
        let idle = self.copies.iter().enumerate().filter(is_idle);
        let (at, _) = idle.max_by_key(|(_, copy)| copy.seq)?;
        let mut copy = self.copies.swap_remove(at);
        // Only the list has this copy, so no reader can see the change.
        self.update(Arc::get_mut(&mut copy)?, state);
        Some(copy)
    }

    fn update(&self, copy: &mut State, state: &State) {
        let first = self.recent.partition_point(|record| record.seq <= copy.seq);
        let mut replanned: BTreeSet<RunId> = BTreeSet::new();
        for RecentRecord { seq, time, event, .. } in self.recent.range(first..) {
            match event {
                Some(event) => {
                    copy.apply(*seq, *time, event);
                    replanned.extend(planned_run(event));
                }
                None => copy.skip_record(*seq, *time),
            }
        }
        for run in replanned {
            if let (Some(own), Some(writers)) = (copy.runs.get_mut(&run), state.runs.get(&run)) {
                own.share(writers);
            }
        }
    }

    /// Drop the records that every copy contains.
    fn trim(&mut self) {
        let oldest = self.copies.iter().map(|copy| copy.seq).min().unwrap_or(u64::MAX);
        while self.recent.front().is_some_and(|record| record.seq <= oldest) {
            let gone = self.recent.pop_front().map_or(0, |record| record.weight);
            self.weight = self.weight.saturating_sub(gone);
        }
    }
}

/// The approximate cost of keeping and applying an event.
fn weight(event: &Event) -> usize {
    match event {
        Event::PlanSteps(added) => added.steps.len().saturating_add(1),
        Event::PlanActivated(activated) => activated.numbers.len().saturating_add(1),
        Event::StepsInherited(inherited) => inherited.steps.len().saturating_add(1),
        Event::Step(record) => match &record.event {
            StepEvent::ReceiptRecorded(recorded) => {
                let length = recorded.receipt.output.inline().map_or(0, |json| json.as_str().len());
                (length / 1024).saturating_add(1)
            }
            _ => 1,
        },
        _ => 1,
    }
}

/// The run of an event that proposes or activates a plan.
fn planned_run(event: &Event) -> Option<RunId> {
    match event {
        Event::PlanProposed(event) => Some(event.run),
        Event::PlanSteps(event) => Some(event.run),
        Event::PlanActivated(event) => Some(event.run),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::codec::hash::plan_draft;
    use crate::ledger::snapshot::state_hash::state_hash;
    use crate::plan::{Command, Plan, Route, RunPolicy, SecretHash, Step, execute};

    fn plan(steps: usize) -> Plan {
        let step = |number: usize| Step { id: format!("s{number}"), ..Step::default() };
        Plan { steps: (0..steps).map(step).collect(), ..Plan::default() }
    }

    struct Writer {
        state: State,
        cache: StateCache,
    }

    impl Writer {
        fn new(steps: usize) -> Self {
            let mut writer = Self { state: State::default(), cache: StateCache::default() };
            writer.start("first", steps);
            writer
        }

        fn start(&mut self, name: &str, steps: usize) {
            let (name, policy) = (name.to_owned(), RunPolicy::default());
            let draft = plan_draft(&plan(steps)).unwrap();
            self.execute(&Command::StartRun {
                name,
                policy,
                reason: String::new(),
                draft,
                inputs: std::collections::BTreeMap::new(),
            });
        }

        fn execute(&mut self, command: &Command) {
            let first = self.state.seq + 1;
            let events = execute(&mut self.state, first, 1, command).unwrap();
            for (seq, event) in (first..).zip(&events) {
                self.cache.add_record(seq, self.state.time, Some(event));
            }
        }

        fn dispatch(&mut self) {
            let worker = "w".to_owned();
            self.execute(&Command::Dispatch {
                process: None,
                secret: SecretHash::default(),
                run: RunId(1),
                step: None,
                worker,
                route: Route::default(),
                lease: None,
            });
        }

        fn copy(&mut self) -> Arc<State> {
            let copy = self.cache.get(&self.state);
            assert_eq!(state_hash(&copy), state_hash(&self.state));
            copy
        }
    }

    /// Goal: a reader that keeps a copy does not cause a clone for every command.
    #[test]
    fn kept_copy_causes_no_clone_per_command() {
        let mut writer = Writer::new(200);
        let held = writer.copy();
        for _ in 0..100 {
            writer.dispatch();
            drop(writer.copy());
        }
        assert_eq!(held.in_flight.len(), 0);
        assert_eq!(writer.cache.clones, 2, "the kept copy, and the updated one");
        drop(held);
        for _ in 0..100 {
            let before = writer.copy();
            writer.dispatch();
            assert_eq!(writer.copy().in_flight.len(), before.in_flight.len() + 1);
        }
        assert_eq!(writer.cache.clones, 2, "two copies alternate");
        assert!(writer.cache.recent.len() <= 2 && writer.cache.copies.len() <= IDLE_KEPT + 1);
    }

    /// Goal: the records kept for copies are limited, however long a reader keeps a copy.
    #[test]
    fn recent_records_are_limited() {
        let mut writer = Writer::new(1);
        let held = writer.copy();
        writer.start("second", RECENT_WEIGHT_MAX - 1000);
        assert!(writer.cache.weight <= RECENT_WEIGHT_MAX);
        writer.start("third", 2000);
        assert_eq!((writer.cache.weight, writer.cache.copies.len()), (0, 0));
        assert_eq!(held.runs.len(), 1);
        assert_eq!(writer.copy().runs.len(), 3);
    }

    /// Goal: copies share plans with the writer's state.
    #[test]
    fn plan_is_shared_with_the_writer() {
        let mut writer = Writer::new(1);
        drop(writer.copy());
        writer.start("second", 100);
        let copy = writer.copy();
        assert_eq!(writer.cache.clones, 1);
        let plan = |state: &State| Arc::clone(&state.runs[&RunId(2)].versions[0].plan);
        assert!(Arc::ptr_eq(&plan(&copy), &plan(&writer.state)));
    }
}
