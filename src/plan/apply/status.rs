//! Changes the status of steps, and updates everything derived from it: queues, counts, barriers
//! and dependents.
//!
//! Invariant: a status changes only in `set_status`, or in an activation, which rebuilds all
//! derived data.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::counts::{count_down, count_up};
use crate::plan::event::run_event::{BarrierChange, BarrierChanged};
use crate::plan::event::step_event::Ruling;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::plan::OnBreak;
use crate::plan::settle::has_consequence;
use crate::plan::state::barrier_state::BarrierStatus;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::links::Links;
use crate::plan::state::run::{Lane, Queue, Run, Timer};
use crate::plan::state::step_state::StepState;
use crate::plan::value::expression;
use crate::plan::value::ids::{StepNumber, Timestamp};

impl Run {
    /// Changes the status of a step and updates the data that depends on the status.
    pub(super) fn set_status(&mut self, number: StepNumber, to: StepStatus) {
        let Some(from) = self.step(number).map(|step| step.status) else { return };
        if from == to {
            return;
        }
        self.remove_from_indexes(number);
        if let Some(step) = self.steps.get_mut(number.index()) {
            step.status = to;
        }
        self.add_to_indexes(number);
        let links = Arc::clone(&self.links);
        self.update_barriers(&links, number, to);
        // Only an activation, which rebuilds everything, opens a closed step.
        if to.is_closed() && !from.is_closed() {
            for dependent in links.dependents(number) {
                self.dependency_met(*dependent);
            }
        }
        self.refresh_fallback_links(&links, number);
        if from.is_remaining() && !to.is_remaining() && links.has_watchers() {
            self.refresh_variable_readers(&links, number);
        }
    }

    /// Refreshes the steps whose preconditions read the outputs of a step that can no longer set
    /// them.
    fn refresh_variable_readers(&mut self, links: &Links, number: StepNumber) {
        let outputs = self.plan_step(number).map(CompactStep::outputs).unwrap_or_default();
        if outputs.is_empty() {
            return;
        }
        let named = outputs.flat_map(|name| links.watchers(name));
        let watchers: Vec<_> = named.chain(links.watchers(expression::ALL)).collect();
        for (watcher, _) in watchers {
            self.refresh_pending(*watcher);
        }
    }

    /// Refreshes the steps that have this one as fallback, and its own fallback.
    fn refresh_fallback_links(&mut self, links: &Links, number: StepNumber) {
        for other in links.fallback_for(number) {
            self.refresh_pending(*other);
        }
        if let Some(fallback) = links.fallback_of(number) {
            self.refresh_pending(fallback);
        }
    }

    /// Updates whether a step has a pending consequence.
    pub(super) fn refresh_pending(&mut self, number: StepNumber) {
        if has_consequence(self, number) {
            self.pending_steps.insert(number);
        } else {
            self.pending_steps.remove(&number);
        }
    }

    fn lane(&self, step: &StepState) -> Lane {
        // Skip the intersection if no tag is capped.
        let tags = if self.capped_tags.is_empty() {
            BTreeSet::new()
        } else {
            step.tags().intersection(&self.capped_tags).cloned().collect()
        };
        (step.owner().map(str::to_owned), tags)
    }

    /// Rebuilds the lanes after the set of capped tags changed.
    pub(super) fn rebuild_lanes(&mut self) {
        let mut lanes: BTreeMap<Lane, Vec<_>> = BTreeMap::new();
        // Usually no tag is capped, and the lane of a step is its owner.
        let mut by_owner: BTreeMap<Option<&str>, Vec<_>> = BTreeMap::new();
        for (step, number) in self.steps.iter().zip(self.step_numbers()) {
            if step.status != StepStatus::Ready {
                continue;
            }
            let key = (Reverse(step.priority()), number);
            if self.capped_tags.is_empty() {
                by_owner.entry(step.owner()).or_default().push(key);
            } else {
                lanes.entry(self.lane(step)).or_default().push(key);
            }
        }
        let lane = |owner: Option<&str>| (owner.map(str::to_owned), BTreeSet::new());
        lanes.extend(by_owner.into_iter().map(|(owner, keys)| (lane(owner), keys)));
        // Bulk construction fills the tree nodes; insertion in order would leave them half empty.
        self.lanes =
            lanes.into_iter().map(|(lane, keys)| (lane, keys.into_iter().collect())).collect();
        self.rebuild_lane_heads();
    }

    /// Changes the queue of a lane and updates the index of heads.
    fn change_lane(&mut self, lane: Lane, change: impl FnOnce(&mut Queue)) {
        let queue = self.lanes.entry(lane.clone()).or_default();
        let before = queue.first().copied();
        change(queue);
        let after = queue.first().copied();
        if after.is_none() {
            self.lanes.remove(&lane);
        }
        if before != after {
            before.map(|head| self.lane_heads.remove(&head));
            after.map(|head| self.lane_heads.insert(head, lane));
        }
    }

    /// Adds a step to the queue, list and count of its status.
    pub(super) fn add_to_indexes(&mut self, number: StepNumber) {
        let Some(step) = self.steps.get(number.index()) else { return };
        let status = step.status;
        match status {
            StepStatus::Removed => return,
            StepStatus::Ready => {
                let key = (Reverse(step.priority()), number);
                let lane = self.lane(step);
                self.change_lane(lane, |queue| _ = queue.insert(key));
            }
            StepStatus::Reported => drop(self.reported.insert(number)),
            StepStatus::OutcomeUnknown => drop(self.outcome_unknown.insert(number)),
            StepStatus::Delayed => {
                if let Some(until) = step.hold().delay {
                    self.timers.insert((until, Timer::Delay(number)));
                }
            }
            _ => {}
        }
        count_up(&mut self.counts, &status);
    }

    fn remove_from_indexes(&mut self, number: StepNumber) {
        let Some(step) = self.steps.get(number.index()) else { return };
        let (status, delay) = (step.status, step.hold().delay);
        match status {
            StepStatus::Removed => return,
            StepStatus::Ready => {
                let key = (Reverse(step.priority()), number);
                let lane = self.lane(step);
                self.change_lane(lane, |queue| _ = queue.remove(&key));
            }
            StepStatus::Reported => drop(self.reported.remove(&number)),
            StepStatus::OutcomeUnknown => drop(self.outcome_unknown.remove(&number)),
            // The delay ends when the step leaves this status.
            StepStatus::Delayed => self.remove_delay_timer(number, delay),
            _ => {}
        }
        count_down(&mut self.counts, &status);
    }

    /// Removes the delay of a step from the timers.
    pub(super) fn remove_delay_timer(&mut self, number: StepNumber, delay: Option<Timestamp>) {
        if let Some(until) = delay {
            self.timers.remove(&(until, Timer::Delay(number)));
        }
    }

    /// The status of an open step: ready, or waiting, gated or delayed if it is blocked.
    pub(super) fn open_status(&self, number: StepNumber) -> StepStatus {
        let Some(step) = self.step(number) else { return StepStatus::Waiting };
        let hold = step.hold();
        let waits_for_fallback = hold.is_standby || hold.fallback_step.is_some();
        if step.attempt().is_some() {
            // A question about its failure is open or answered.
            StepStatus::Gated
        } else if step.unmet > 0 || waits_for_fallback || !self.conditions_hold(number) {
            StepStatus::Waiting
        } else if hold.question.is_some() || !self.is_gate_open(number) {
            StepStatus::Gated
        } else if hold.delay.is_some() {
            StepStatus::Delayed
        } else {
            StepStatus::Ready
        }
    }

    fn conditions_hold(&self, number: StepNumber) -> bool {
        let Some((plan, step)) = self.plan_step(number).zip(self.step(number)) else { return true };
        let is_met = plan.condition().is_none() || step.hold().condition == Some(Ruling::Pass);
        let passed =
            step.hold().preconditions.values().filter(|each| **each == Ruling::Pass).count();
        is_met && passed >= plan.preconditions().count()
    }

    /// Whether a person must approve before a step is dispatched: it has a gate, or it was accepted
    /// before and must not be done twice.
    pub(crate) fn needs_approval(&self, number: StepNumber) -> bool {
        self.plan_step(number).is_some_and(CompactStep::has_gate) || self.is_repetition(number)
    }

    /// Whether an open step was accepted before, was invalidated, and must not be done twice.
    pub(crate) fn is_repetition(&self, number: StepNumber) -> bool {
        self.step(number).is_some_and(|step| step.status.is_open() && step.accepted().is_some())
    }

    fn is_gate_open(&self, number: StepNumber) -> bool {
        !self.needs_approval(number)
            || self.step(number).is_some_and(|step| step.hold().is_gate_open)
    }

    /// Recomputes the status of an open step.
    pub(super) fn refresh_status(&mut self, number: StepNumber) {
        if self.step(number).is_some_and(|step| step.status.is_open()) {
            self.set_status(number, self.open_status(number));
            self.refresh_pending(number);
        }
    }

    /// Counts down the unmet dependencies of a step.
    fn dependency_met(&mut self, number: StepNumber) {
        let Some(step) = self.steps.get_mut(number.index()) else { return };
        step.unmet = step.unmet.saturating_sub(1);
        // Nearly always: it still waits, and has no consequence that could have changed.
        if step.unmet > 0 && step.status == StepStatus::Waiting && step.waits_for_dependencies() {
            self.pending_steps.remove(&number);
            return;
        }
        self.refresh_status(number);
    }

    fn update_barriers(&mut self, links: &Links, number: StepNumber, to: StepStatus) {
        for id in links.memberships(number) {
            if let Some(barrier) = self.barriers.get_mut(id) {
                barrier.set_member_status(number, to);
                self.refresh_pending_barrier(id);
            }
        }
    }

    /// Updates whether a barrier has a pending consequence. The status of a broken barrier returns
    /// to `Closed` if its failed members were reopened or skipped.
    pub(super) fn refresh_pending_barrier(&mut self, id: &str) {
        let Some(barrier) = self.barriers.get_mut(id) else { return };
        if barrier.status == BarrierStatus::Broken && !barrier.is_unreachable() {
            barrier.status = BarrierStatus::Closed;
            self.fatal_barriers.remove(id);
            if let Some(deadline) = barrier.deadline {
                self.timers.insert((deadline, Timer::Barrier(id.to_owned())));
            }
        }
        if barrier.pending_change().is_some()
            || barrier.must_ask()
            || barrier.obsolete_question().is_some()
        {
            self.pending_barriers.insert(id.to_owned());
        } else {
            self.pending_barriers.remove(id);
        }
    }

    pub(super) fn change_barrier(&mut self, changed: &BarrierChanged) {
        let id = changed.barrier.as_str();
        let Some(barrier) = self.barriers.get_mut(id) else { return };
        let may = match changed.change {
            BarrierChange::Overruled => barrier.status != BarrierStatus::Released,
            _ => barrier.status == BarrierStatus::Closed,
        };
        if !may {
            return;
        }
        if let Some(deadline) = barrier.deadline {
            self.timers.remove(&(deadline, Timer::Barrier(id.to_owned())));
        }
        match changed.change {
            BarrierChange::Broken | BarrierChange::Late => {
                barrier.is_late |= changed.change == BarrierChange::Late;
                barrier.status = BarrierStatus::Broken;
                if barrier.on_break == OnBreak::Fail {
                    self.fatal_barriers.insert(id.to_owned());
                }
            }
            BarrierChange::Released | BarrierChange::Overruled => {
                barrier.status = BarrierStatus::Released;
                self.fatal_barriers.remove(id);
                let links = Arc::clone(&self.links);
                for waiter in links.waiters(id) {
                    self.dependency_met(*waiter);
                }
            }
        }
        self.refresh_pending_barrier(id);
    }
}
