//! What follows from a step's status: queues, counts, barriers, and the steps that wait for it.
//!
//! Invariants: a status changes only by `shift` (or by an activation, which rebuilds
//! everything), so what is derived from it never lags behind.

use std::cmp::Reverse;
use std::sync::Arc;

use super::{count_down, count_up};
use crate::plan::{
    BarrierChange, BarrierChanged, BarrierState, BarrierStatus, OnBreak, Run, StepNumber,
    StepStatus,
};

impl Run {
    /// Moves a step to another status, with all that follows.
    pub(super) fn shift(&mut self, number: StepNumber, to: StepStatus) {
        let Some(from) = self.step(number).map(|step| step.status) else { return };
        if from == to {
            return;
        }
        self.delist(number);
        if let Some(step) = self.steps.get_mut(number.index()) {
            step.status = to;
        }
        self.enlist(number);
        self.move_in_barriers(number, to);
        // A closed step is only opened by an activation, which rebuilds everything.
        if to.is_closed() && !from.is_closed() {
            let links = Arc::clone(&self.links);
            for dependent in links.dependents(number) {
                self.dependency_settled(*dependent);
            }
        }
    }

    /// Enters a step in the queue, list and count that its status belongs to.
    pub(super) fn enlist(&mut self, number: StepNumber) {
        let Some(step) = self.steps.get(number.index()) else { return };
        match step.status {
            StepStatus::Removed => return,
            StepStatus::Ready => {
                let key = (Reverse(step.priority), number);
                self.ready.insert(key);
                self.queues.entry(step.owner.clone()).or_default().insert(key);
            }
            StepStatus::Reported => drop(self.reported.insert(number)),
            StepStatus::InDoubt => drop(self.in_doubt.insert(number)),
            _ => {}
        }
        count_up(&mut self.counts, &step.status);
    }

    fn delist(&mut self, number: StepNumber) {
        let Some(step) = self.steps.get(number.index()) else { return };
        match step.status {
            StepStatus::Removed => return,
            StepStatus::Ready => {
                let key = (Reverse(step.priority), number);
                self.ready.remove(&key);
                if let Some(queue) = self.queues.get_mut(&step.owner) {
                    queue.remove(&key);
                    if queue.is_empty() {
                        self.queues.remove(&step.owner);
                    }
                }
            }
            StepStatus::Reported => drop(self.reported.remove(&number)),
            StepStatus::InDoubt => drop(self.in_doubt.remove(&number)),
            _ => {}
        }
        count_down(&mut self.counts, &step.status);
    }

    /// Ready, or waiting if something that the step depends on is not settled.
    pub(super) fn open_status(&self, number: StepNumber) -> StepStatus {
        match self.step(number) {
            Some(step) if step.unmet == 0 => StepStatus::Ready,
            _ => StepStatus::Waiting,
        }
    }

    /// Something that a step depends on need no longer be waited for.
    fn dependency_settled(&mut self, number: StepNumber) {
        let Some(step) = self.steps.get_mut(number.index()) else { return };
        step.unmet = step.unmet.saturating_sub(1);
        if step.status == StepStatus::Waiting {
            self.shift(number, self.open_status(number));
        }
    }

    fn move_in_barriers(&mut self, number: StepNumber, to: StepStatus) {
        let links = Arc::clone(&self.links);
        for id in links.memberships(number) {
            if let Some(barrier) = self.barriers.get_mut(id) {
                barrier.place(number, to);
                self.review_barrier(id);
            }
        }
    }

    /// Notes whether something follows from a barrier's members. A broken barrier whose failed
    /// members were reopened or skipped is closed again.
    pub(super) fn review_barrier(&mut self, id: &str) {
        let Some(barrier) = self.barriers.get_mut(id) else { return };
        if barrier.status == BarrierStatus::Broken && !barrier.is_out_of_reach() {
            barrier.status = BarrierStatus::Closed;
            self.fatal_barriers.remove(id);
        }
        if barrier.due().is_some() {
            self.due_barriers.insert(id.to_owned());
        } else {
            self.due_barriers.remove(id);
        }
    }

    pub(super) fn change_barrier(&mut self, changed: &BarrierChanged) {
        let id = changed.barrier.as_str();
        let Some(barrier) = self.barriers.get_mut(id) else { return };
        if barrier.status != BarrierStatus::Closed {
            return;
        }
        self.due_barriers.remove(id);
        match changed.change {
            BarrierChange::Broken => {
                barrier.status = BarrierStatus::Broken;
                if barrier.on_break == OnBreak::Fail {
                    self.fatal_barriers.insert(id.to_owned());
                }
            }
            BarrierChange::Released => {
                barrier.status = BarrierStatus::Released;
                let links = Arc::clone(&self.links);
                for waiter in links.waiters(id) {
                    self.dependency_settled(*waiter);
                }
            }
        }
    }
}

impl BarrierState {
    /// Enters a member of that status where it belongs.
    pub(super) fn place(&mut self, member: StepNumber, status: StepStatus) {
        self.arrived.remove(&member);
        self.failed.remove(&member);
        if status.is_closed() {
            self.arrived.insert(member);
        } else if status == StepStatus::Failed {
            self.failed.insert(member);
        }
    }

    /// Whether as many as are needed have arrived.
    pub(super) fn has_enough(&self) -> bool {
        u32::try_from(self.arrived.len()).map_or(true, |arrived| arrived >= self.needed)
    }

    /// Whether as many as are needed can no longer arrive.
    pub(super) fn is_out_of_reach(&self) -> bool {
        let possible = self.members.len().saturating_sub(self.failed.len());
        u32::try_from(possible).is_ok_and(|possible| possible < self.needed)
    }

    /// What follows from how the members stand.
    pub(in crate::plan) fn due(&self) -> Option<BarrierChange> {
        if self.status != BarrierStatus::Closed {
            None
        } else if self.has_enough() {
            Some(BarrierChange::Released)
        } else if self.is_out_of_reach() {
            Some(BarrierChange::Broken)
        } else {
            None
        }
    }
}
