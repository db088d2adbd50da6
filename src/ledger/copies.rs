//! The state as readers take it: copies of the writer's, kept up to date by what happened since.
//!
//! The writer's own state is never handed out, so whoever keeps an old one costs the next command
//! nothing. A copy that nobody holds any more is brought up to date by folding in the events
//! since; the state is copied as a whole only where all copies are held, or too much happened.
//!
//! Invariants:
//! - A copy is the fold of the same records as the writer's state was at its sequence number.
//! - `since` holds every record behind the oldest copy, and nothing if there is no copy.
//!
//! Left out on purpose: whether what was folded in is durable (the caller waits for that).

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::plan::{Event, Micros, RunId, State, StepEvent};

/// How many copies are kept that nobody holds.
const IDLE_KEPT: usize = 2;
/// How much may be held back to be folded into copies: about so many steps and events.
const SINCE_MAX: usize = 65_536;

/// A record that is not in every copy yet.
#[derive(Debug)]
struct Since {
    seq: u64,
    time: Micros,
    /// `None` for a record that concerns the log only.
    event: Option<Event>,
    weight: usize,
}

/// Copies of the state.
#[derive(Debug, Default)]
pub(super) struct Copies {
    kept: Vec<Arc<State>>,
    since: VecDeque<Since>,
    weight: usize,
    /// How often the state was copied as a whole.
    made: u64,
}

impl Copies {
    /// Forget all copies: the writer's state is no longer what they lead to.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
        self.trim();
    }

    /// Note a record that was folded into the writer's state.
    pub(super) fn note(&mut self, seq: u64, time: Micros, event: Option<&Event>) {
        if self.kept.is_empty() {
            return;
        }
        let weight = event.map_or(1, weight);
        self.weight = self.weight.saturating_add(weight);
        self.since.push_back(Since { seq, time, event: event.cloned(), weight });
        while self.weight > SINCE_MAX && !self.kept.is_empty() {
            let oldest = self.kept.iter().map(|copy| copy.seq).min();
            self.kept.retain(|copy| Some(copy.seq) != oldest);
            self.trim();
        }
    }

    /// The state, to be kept for as long as anybody likes.
    pub(super) fn take(&mut self, state: &State) -> Arc<State> {
        let copy = self.current(state).unwrap_or_else(|| {
            self.made = self.made.saturating_add(1);
            Arc::new(state.clone())
        });
        let held = |copy: &Arc<State>| Arc::strong_count(copy) > 1;
        let mut idle = 0;
        self.kept.sort_by_key(|copy| std::cmp::Reverse(copy.seq));
        self.kept.retain(|copy| {
            idle += usize::from(!held(copy));
            held(copy) || idle <= IDLE_KEPT
        });
        self.kept.push(Arc::clone(&copy));
        self.trim();
        copy
    }

    /// A copy that is up to date, taken from the list, if there is one or one can be made so.
    fn current(&mut self, state: &State) -> Option<Arc<State>> {
        if let Some(at) = self.kept.iter().position(|copy| copy.seq == state.seq) {
            return Some(self.kept.swap_remove(at));
        }
        let is_idle = |(_, copy): &(usize, &Arc<State>)| Arc::strong_count(copy) == 1;
        let idle = self.kept.iter().enumerate().filter(is_idle);
        let (at, _) = idle.max_by_key(|(_, copy)| copy.seq)?;
        let mut copy = self.kept.swap_remove(at);
        // Nobody can have got hold of it in between: it was only in the list.
        self.catch_up(Arc::get_mut(&mut copy)?, state);
        Some(copy)
    }

    fn catch_up(&self, copy: &mut State, state: &State) {
        let first = self.since.partition_point(|record| record.seq <= copy.seq);
        let mut replanned: BTreeSet<RunId> = BTreeSet::new();
        for Since { seq, time, event, .. } in self.since.range(first..) {
            match event {
                Some(event) => {
                    copy.apply(*seq, *time, event);
                    replanned.extend(planned(event));
                }
                None => copy.pass(*seq, *time),
            }
        }
        for run in replanned {
            if let (Some(own), Some(writers)) = (copy.runs.get_mut(&run), state.runs.get(&run)) {
                own.share(writers);
            }
        }
    }

    /// Forget the records that every copy has.
    fn trim(&mut self) {
        let oldest = self.kept.iter().map(|copy| copy.seq).min().unwrap_or(u64::MAX);
        while self.since.front().is_some_and(|record| record.seq <= oldest) {
            let gone = self.since.pop_front().map_or(0, |record| record.weight);
            self.weight = self.weight.saturating_sub(gone);
        }
    }
}

/// About how much it takes to hold an event, and to fold it in.
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

/// The run whose plan an event brings or activates.
fn planned(event: &Event) -> Option<RunId> {
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
    use crate::ledger::hash::{draft, state_hash};
    use crate::plan::{Command, Plan, RunPolicy, Step, execute};

    fn plan(steps: usize) -> Plan {
        let step = |number: usize| Step { id: format!("s{number}"), ..Step::default() };
        Plan { steps: (0..steps).map(step).collect(), ..Plan::default() }
    }

    struct Writer {
        state: State,
        copies: Copies,
    }

    impl Writer {
        fn new(steps: usize) -> Self {
            let mut writer = Self { state: State::default(), copies: Copies::default() };
            writer.start("first", steps);
            writer
        }

        fn start(&mut self, name: &str, steps: usize) {
            let (name, policy) = (name.to_owned(), RunPolicy::default());
            let draft = draft(&plan(steps)).unwrap();
            self.ask(&Command::StartRun { name, policy, draft });
        }

        fn ask(&mut self, command: &Command) {
            let first = self.state.seq + 1;
            let events = execute(&mut self.state, first, 1, command).unwrap();
            for (seq, event) in (first..).zip(&events) {
                self.copies.note(seq, self.state.time, Some(event));
            }
        }

        fn deal(&mut self) {
            let worker = "w".to_owned();
            self.ask(&Command::Dispatch { run: RunId(1), step: None, worker, lease: None });
        }

        fn take(&mut self) -> Arc<State> {
            let taken = self.copies.take(&self.state);
            assert_eq!(state_hash(&taken), state_hash(&self.state));
            taken
        }
    }

    /// Goal: whoever holds a state while commands go on makes nobody copy it again and again.
    #[test]
    fn a_state_that_is_held_is_not_copied_for_every_command() {
        let mut writer = Writer::new(200);
        let held = writer.take();
        for _ in 0..100 {
            writer.deal();
            drop(writer.take());
        }
        assert_eq!(held.in_flight.len(), 0);
        assert_eq!(writer.copies.made, 2, "the one that is held, and the one that is kept up");
        drop(held);
        for _ in 0..100 {
            let before = writer.take();
            writer.deal();
            assert_eq!(writer.take().in_flight.len(), before.in_flight.len() + 1);
        }
        assert_eq!(writer.copies.made, 2, "two copies take turns");
        assert!(writer.copies.since.len() <= 2 && writer.copies.kept.len() <= IDLE_KEPT + 1);
    }

    /// Goal: what waits to be folded into copies is bounded, however long somebody holds one.
    #[test]
    fn what_is_held_back_is_bounded() {
        let mut writer = Writer::new(1);
        let held = writer.take();
        writer.start("second", SINCE_MAX - 1000);
        assert!(writer.copies.weight <= SINCE_MAX);
        writer.start("third", 2000);
        assert_eq!((writer.copies.weight, writer.copies.kept.len()), (0, 0));
        assert_eq!(held.runs.len(), 1);
        assert_eq!(writer.take().runs.len(), 3);
    }

    /// Goal: copies share the plans with the writer.
    #[test]
    fn a_plan_is_held_once() {
        let mut writer = Writer::new(1);
        drop(writer.take());
        writer.start("second", 100);
        let taken = writer.take();
        assert_eq!(writer.copies.made, 1);
        let plan = |state: &State| Arc::clone(&state.runs[&RunId(2)].versions[0].plan);
        assert!(Arc::ptr_eq(&plan(&taken), &plan(&writer.state)));
    }
}
