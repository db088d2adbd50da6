//! Dependencies from the order of tasks, for files that do not write dependencies.
//!
//! A task waits for the task before it. Parallel tasks (`[P]`) wait for the last sequential task
//! before them, and the next sequential task waits for all of them. Phases are ordered in the same way. A
//! task with written dependencies waits for those, and also for the previous phase
//! unless one of them is in its own phase.
//!
//! Invariant: the number of dependencies is linear in the number of tasks. Where many tasks wait
//! for many others, a barrier joins them.

use std::collections::BTreeSet;

use plan_ledger::plan::Barrier;

/// The order of a task among its siblings.
#[derive(Clone, Copy)]
pub(crate) enum Concurrency {
    /// It waits for all tasks before it.
    Sequential,
    /// It may run at the same time as its parallel siblings.
    Parallel,
}

/// The dependencies of the next task, given the tasks so far.
pub(crate) struct ImplicitOrder {
    /// The dependencies of the next parallel task.
    previous: Vec<String>,
    /// Those of them that a later task waits for already.
    passed: BTreeSet<String>,
    /// Whether those of the phase are still among them.
    is_phase_ahead: bool,
    /// Parallel tasks after `previous`.
    parallel: Vec<String>,
    /// The dependencies of the current phase.
    phase_dependencies: Vec<String>,
    /// The tasks of the current phase.
    phase_tasks: BTreeSet<String>,
    /// The order of the current phase among the phases.
    phase_concurrency: Concurrency,
    /// The dependencies of the next parallel phase.
    before_parallel_phases: Vec<String>,
    /// The ends of the parallel phases after those.
    ends_of_parallel_phases: Vec<String>,
    /// The barriers made so far.
    pub(crate) barriers: Vec<Barrier>,
}

impl ImplicitOrder {
    pub(crate) fn new() -> Self {
        Self::after(Vec::new())
    }

    fn after(previous: Vec<String>) -> Self {
        Self {
            phase_dependencies: previous.clone(),
            previous,
            passed: BTreeSet::new(),
            is_phase_ahead: true,
            parallel: Vec::new(),
            phase_tasks: BTreeSet::new(),
            phase_concurrency: Concurrency::Sequential,
            before_parallel_phases: Vec::new(),
            ends_of_parallel_phases: Vec::new(),
            barriers: Vec::new(),
        }
    }

    /// Leaves out the dependencies that a later task waits for. This is done once for many tasks, so that the work
    /// stays linear.
    fn leave_out_passed(&mut self) {
        if self.passed.is_empty() {
            return;
        }
        let passed = std::mem::take(&mut self.passed);
        self.previous.retain(|name| !passed.contains(name));
    }

    /// The order of the subtasks of the next task.
    pub(crate) fn subtasks(&mut self, concurrency: Concurrency) -> Self {
        self.leave_out_passed();
        let previous = match concurrency {
            Concurrency::Sequential if !self.parallel.is_empty() => self.parallel.clone(),
            Concurrency::Sequential => self.previous.clone(),
            Concurrency::Parallel => self.join_previous(),
        };
        Self::after(previous)
    }

    /// Adds a task and returns its dependencies.
    pub(crate) fn add(&mut self, id: &str, concurrency: Concurrency) -> Vec<String> {
        self.phase_tasks.insert(id.to_owned());
        match concurrency {
            Concurrency::Parallel => {
                let dependencies = self.join_previous();
                self.parallel.push(id.to_owned());
                dependencies
            }
            Concurrency::Sequential => {
                self.leave_out_passed();
                self.is_phase_ahead = false;
                let previous = std::mem::replace(&mut self.previous, vec![id.to_owned()]);
                let parallel = std::mem::take(&mut self.parallel);
                if parallel.is_empty() { previous } else { parallel }
            }
        }
    }

    /// Adds a task with written dependencies, and returns all of its dependencies.
    pub(crate) fn add_with_dependencies(
        &mut self,
        id: &str,
        concurrency: Concurrency,
        written: Vec<String>,
    ) -> Vec<String> {
        let mut dependencies = written;
        if !dependencies.is_empty()
            && !dependencies.iter().any(|name| self.phase_tasks.contains(name))
        {
            let phase = join(&self.phase_dependencies, &mut self.barriers);
            // The author may have named the last task of the phase before.
            let is_new = |name: &String| *name != id && !dependencies.contains(name);
            let inferred: Vec<String> = phase.into_iter().filter(is_new).collect();
            dependencies.extend(inferred);
        }
        self.phase_tasks.insert(id.to_owned());
        match concurrency {
            Concurrency::Parallel => self.parallel.push(id.to_owned()),
            Concurrency::Sequential => {
                // The next task waits for this task, and for those that this task does not wait for.
                self.end_parallel();
                if std::mem::take(&mut self.is_phase_ahead) {
                    self.passed.extend(self.phase_dependencies.iter().cloned());
                }
                self.passed.extend(dependencies.iter().cloned());
                self.passed.remove(id);
                self.previous.push(id.to_owned());
            }
        }
        dependencies
    }

    /// Adds a task after its subtasks, and returns its dependencies on them.
    pub(crate) fn add_parent(
        &mut self,
        id: &str,
        concurrency: Concurrency,
        subtasks: Self,
    ) -> Vec<String> {
        self.phase_tasks.insert(id.to_owned());
        self.phase_tasks.extend(subtasks.phase_tasks.iter().cloned());
        self.barriers.extend(subtasks.barriers.iter().cloned());
        match concurrency {
            Concurrency::Parallel => self.parallel.push(id.to_owned()),
            Concurrency::Sequential => {
                self.parallel.clear();
                self.set_previous(vec![id.to_owned()]);
            }
        }
        if subtasks.parallel.is_empty() { subtasks.previous } else { subtasks.parallel }
    }

    /// Ends the current phase and begins another one.
    pub(crate) fn begin_phase(&mut self, concurrency: Concurrency) {
        self.end_parallel();
        self.leave_out_passed();
        let ends = std::mem::take(&mut self.previous);
        match self.phase_concurrency {
            Concurrency::Sequential => {
                self.before_parallel_phases = ends;
                self.ends_of_parallel_phases.clear();
            }
            Concurrency::Parallel => {
                let all = &mut self.ends_of_parallel_phases;
                let new: Vec<String> = ends.into_iter().filter(|end| !all.contains(end)).collect();
                all.extend(new);
            }
        }
        self.previous = match concurrency {
            Concurrency::Sequential if !self.ends_of_parallel_phases.is_empty() => {
                self.ends_of_parallel_phases.clone()
            }
            Concurrency::Sequential | Concurrency::Parallel => self.before_parallel_phases.clone(),
        };
        self.is_phase_ahead = true;
        self.phase_concurrency = concurrency;
        self.phase_dependencies.clone_from(&self.previous);
        self.phase_tasks.clear();
    }

    fn set_previous(&mut self, previous: Vec<String>) {
        self.previous = previous;
        self.passed.clear();
        self.is_phase_ahead = false;
    }

    /// The next task waits for the parallel ones, if there are any.
    fn end_parallel(&mut self) {
        let parallel = std::mem::take(&mut self.parallel);
        if !parallel.is_empty() {
            self.set_previous(parallel);
        }
    }

    fn join_previous(&mut self) -> Vec<String> {
        self.leave_out_passed();
        join(&self.previous, &mut self.barriers)
    }
}

/// Replaces several dependencies by one barrier.
fn join(names: &[String], barriers: &mut Vec<Barrier>) -> Vec<String> {
    let [first, .., last] = names else { return names.to_vec() };
    let id = format!("{first}..{last}");
    // It is mostly the last one; parallel phases come back to an earlier one.
    if !barriers.iter().rev().any(|barrier| barrier.id == id) {
        barriers.push(Barrier { id: id.clone(), members: names.to_vec(), ..Barrier::default() });
    }
    vec![id]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(order: &mut ImplicitOrder, id: &str, concurrency: Concurrency) -> String {
        order.add(id, concurrency).join(" ")
    }

    #[test]
    fn order_of_tasks_and_phases_becomes_dependencies() {
        let mut order = ImplicitOrder::new();
        assert_eq!(add(&mut order, "a", Concurrency::Sequential), "");
        assert_eq!(add(&mut order, "b", Concurrency::Parallel), "a");
        assert_eq!(add(&mut order, "c", Concurrency::Parallel), "a");
        assert_eq!(add(&mut order, "d", Concurrency::Sequential), "b c");
        assert_eq!(add(&mut order, "e", Concurrency::Parallel), "d");
        assert_eq!(add(&mut order, "f", Concurrency::Parallel), "d");
        order.begin_phase(Concurrency::Sequential);
        assert_eq!(add(&mut order, "g", Concurrency::Parallel), "e..f");
        assert_eq!(add(&mut order, "h", Concurrency::Parallel), "e..f");
        assert_eq!(order.barriers.len(), 1);
        assert_eq!(order.barriers[0].members, ["e", "f"]);
        let dependencies =
            order.add_with_dependencies("i", Concurrency::Sequential, vec!["g".to_owned()]);
        assert_eq!(dependencies, ["g"]);
        assert_eq!(add(&mut order, "j", Concurrency::Sequential), "h i");
        let dependencies =
            order.add_with_dependencies("k", Concurrency::Sequential, vec!["a".to_owned()]);
        assert_eq!(dependencies, ["a", "e..f"]);
        assert_eq!(add(&mut order, "l", Concurrency::Sequential), "j k");
    }

    #[test]
    fn parallel_phases_wait_for_the_last_sequential_one() {
        let mut order = ImplicitOrder::new();
        add(&mut order, "a", Concurrency::Parallel);
        add(&mut order, "b", Concurrency::Parallel);
        for (one, two) in [("c", "d"), ("e", "f")] {
            order.begin_phase(Concurrency::Parallel);
            assert_eq!(add(&mut order, one, Concurrency::Parallel), "a..b");
            assert_eq!(add(&mut order, two, Concurrency::Sequential), one);
            // A written dependency on another parallel phase is enough.
            let other = order.add_with_dependencies(
                &format!("{two}2"),
                Concurrency::Sequential,
                vec![two.to_owned()],
            );
            assert_eq!(other, [two]);
        }
        assert_eq!(order.barriers.len(), 1, "one barrier for both");
        order.begin_phase(Concurrency::Sequential);
        assert_eq!(add(&mut order, "g", Concurrency::Sequential), "d2 f2");
        order.begin_phase(Concurrency::Sequential);
        assert_eq!(add(&mut order, "h", Concurrency::Sequential), "g");
        // Phases that are parallel from the start wait for nothing.
        let mut order = ImplicitOrder::new();
        for id in ["a", "b"] {
            order.begin_phase(Concurrency::Parallel);
            assert_eq!(add(&mut order, id, Concurrency::Sequential), "");
        }
    }

    #[test]
    fn parent_waits_for_its_last_subtask() {
        let mut order = ImplicitOrder::new();
        add(&mut order, "a", Concurrency::Sequential);
        let mut subtasks = order.subtasks(Concurrency::Sequential);
        assert_eq!(add(&mut subtasks, "b.1", Concurrency::Sequential), "a");
        assert_eq!(add(&mut subtasks, "b.2", Concurrency::Sequential), "b.1");
        assert_eq!(order.add_parent("b", Concurrency::Sequential, subtasks), ["b.2"]);
        assert_eq!(add(&mut order, "c", Concurrency::Sequential), "b");
    }
}
