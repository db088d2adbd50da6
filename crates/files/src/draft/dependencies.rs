//! Settles the dependencies of a draft: drops impossible ones, and adds the inferred ones.
//!
//! - A written dependency is dropped, and reported, if it names no step, its own step, or finished
//!   work in a cycle. Every other cycle of written dependencies stays, and makes the plan invalid.
//! - An inferred dependency (from the order, from a task on its subtasks, from a task around it)
//!   is added only if it contradicts no written one, and never listed twice.
//!
//! The steps are put into an order that follows all kept dependencies. If each remaining step still
//! waits for another one, the search starts at the first of them in the file, follows its written
//! dependencies to a step that waits for inferred ones only, and drops these. So the work is
//! linear, and the order of the file is kept where it contradicts no dependency.

use std::collections::{BTreeMap, BTreeSet};

use crate::read_report::{Correction, CorrectionKind};
use plan_ledger::plan::{Barrier, Step};

/// The steps and barriers of a draft.
pub(super) struct Dependencies<'a> {
    pub(super) steps: &'a mut [Step],
    pub(super) barriers: &'a [Barrier],
    /// The inferred dependencies of each step.
    pub(super) inferred: &'a [Vec<String>],
    /// Whether a step is finished or dropped.
    pub(super) is_finished: &'a dyn Fn(&str) -> bool,
    /// The line of a step.
    pub(super) line: &'a dyn Fn(usize) -> Option<u64>,
}

impl Dependencies<'_> {
    /// Settles all dependencies and returns the corrections.
    pub(super) fn settle(self) -> Vec<Correction> {
        let mut corrections = Vec::new();
        let nodes = self.nodes();
        for (index, step) in self.steps.iter_mut().enumerate() {
            let mut seen = BTreeSet::new();
            let id = step.id.clone();
            step.after.retain(|name| {
                let kind = match nodes.get(name.as_str()) {
                    None => CorrectionKind::MissingDependency,
                    Some(_) if *name == id => CorrectionKind::OwnDependency,
                    Some(_) => return seen.insert(name.clone()),
                };
                let line = (self.line)(index);
                corrections.push(Correction { kind, step: id.clone(), name: name.clone(), line });
                false
            });
        }
        let order = Sorter::new(&self, &nodes).sort();
        for (index, name) in order.finished {
            if let Some(step) = self.steps.get_mut(index) {
                step.after.retain(|each| *each != name);
                let (kind, step) = (CorrectionKind::FinishedDependency, step.id.clone());
                corrections.push(Correction { kind, step, name, line: (self.line)(index) });
            }
        }
        for (step, added) in self.steps.iter_mut().zip(order.added) {
            let known: BTreeSet<String> = step.after.iter().cloned().collect();
            let mut seen = known;
            step.after.extend(added.into_iter().filter(|name| seen.insert(name.clone())));
        }
        corrections
    }

    /// The number of each step and barrier. Of a repeated name the first one counts.
    fn nodes(&self) -> BTreeMap<String, usize> {
        let steps = self.steps.iter().map(|step| step.id.clone());
        let barriers = self.barriers.iter().map(|barrier| barrier.id.clone());
        let mut nodes = BTreeMap::new();
        for (node, id) in steps.chain(barriers).enumerate() {
            nodes.entry(id).or_insert(node);
        }
        nodes
    }
}

/// The result of the sort.
struct Order {
    /// The inferred dependencies to add to each step.
    added: Vec<Vec<String>>,
    /// Dependencies in a cycle through finished work.
    finished: Vec<(usize, String)>,
}

/// Puts the nodes into an order, and drops the inferred dependencies that prevent one.
struct Sorter<'a> {
    names: Vec<&'a str>,
    /// The dependencies of each node that must be kept.
    written: Vec<BTreeSet<usize>>,
    /// The other dependencies of each node.
    inferred: Vec<Vec<usize>>,
    dependents: Vec<Vec<usize>>,
    /// How many dependencies of each node are not placed yet.
    open: Vec<usize>,
    is_placed: Vec<bool>,
    is_finished: Vec<bool>,
    /// The members of each barrier, by node.
    members: BTreeMap<usize, Vec<usize>>,
    order: Order,
}

impl<'a> Sorter<'a> {
    fn new(all: &'a Dependencies<'_>, nodes: &BTreeMap<String, usize>) -> Self {
        let numbers = |names: &[String]| -> BTreeSet<usize> {
            names.iter().filter_map(|name| nodes.get(name).copied()).collect()
        };
        let steps = all.steps.iter().map(|step| numbers(&step.after));
        let barriers: Vec<BTreeSet<usize>> =
            all.barriers.iter().map(|barrier| numbers(&barrier.members)).collect();
        let first_barrier = all.steps.len();
        let members = (first_barrier..)
            .zip(&barriers)
            .map(|(node, members)| (node, members.iter().copied().collect()))
            .collect();
        let written: Vec<BTreeSet<usize>> = steps.chain(barriers).collect();
        let names: Vec<&str> = all
            .steps
            .iter()
            .map(|step| step.id.as_str())
            .chain(all.barriers.iter().map(|barrier| barrier.id.as_str()))
            .collect();
        let mut inferred = vec![Vec::new(); written.len()];
        for ((node, list), names) in inferred.iter_mut().enumerate().zip(all.inferred) {
            let own = written.get(node);
            let mut seen = BTreeSet::new();
            let found = names.iter().filter_map(|name| nodes.get(name).copied());
            *list = found
                .filter(|to| *to != node && !own.is_some_and(|own| own.contains(to)))
                .filter(|to| seen.insert(*to))
                .collect();
        }
        let mut dependents = vec![Vec::new(); written.len()];
        let mut open = vec![0_usize; written.len()];
        for (node, (written, inferred)) in written.iter().zip(&inferred).enumerate() {
            for to in written.iter().chain(inferred) {
                if let Some(list) = dependents.get_mut(*to) {
                    list.push(node);
                }
            }
            if let Some(open) = open.get_mut(node) {
                *open = written.len().saturating_add(inferred.len());
            }
        }
        let is_finished = names.iter().map(|name| (all.is_finished)(name)).collect();
        let added = vec![Vec::new(); all.steps.len()];
        Self {
            is_placed: vec![false; names.len()],
            names,
            written,
            inferred,
            dependents,
            open,
            is_finished,
            members,
            order: Order { added, finished: Vec::new() },
        }
    }

    fn sort(mut self) -> Order {
        let mut ready: BTreeSet<usize> =
            (0..).zip(&self.open).filter(|(_, open)| **open == 0).map(|(node, _)| node).collect();
        let mut next = 0_usize;
        // The nodes on the way from the first one that is not placed.
        let mut path: Vec<usize> = Vec::new();
        loop {
            while let Some(node) = ready.pop_first() {
                self.place(node, &mut ready);
            }
            while path.last().is_some_and(|node| self.is_placed(*node)) {
                path.pop();
            }
            if path.is_empty() {
                while next < self.names.len() && self.is_placed(next) {
                    next = next.saturating_add(1);
                }
                if next == self.names.len() {
                    return self.order;
                }
                path.push(next);
            }
            let Some(node) = path.last().copied() else { continue };
            let blocker = self
                .written
                .get(node)
                .and_then(|written| written.iter().copied().find(|to| !self.is_placed(*to)));
            match blocker {
                // Only inferred dependencies are open: they are dropped.
                None => {
                    ready.insert(node);
                }
                Some(to) => match path.iter().position(|each| *each == to) {
                    None => path.push(to),
                    Some(start) => {
                        let cycle: Vec<usize> = path.split_off(start);
                        if !self.break_cycle(&cycle) {
                            // The plan is invalid, and validation reports the cycle.
                            self.place_rest();
                            return self.order;
                        }
                    }
                },
            }
        }
    }

    fn is_placed(&self, node: usize) -> bool {
        self.is_placed.get(node).copied().unwrap_or(true)
    }

    /// Places a node after the dependencies that are placed; the other ones are dropped.
    fn place(&mut self, node: usize, ready: &mut BTreeSet<usize>) {
        if self.is_placed(node) {
            return;
        }
        let mut kept = Vec::new();
        for to in self.inferred.get(node).cloned().unwrap_or_default() {
            if self.is_placed(to) {
                kept.push(to);
            } else if let Some(members) = self.members.get(&to) {
                // Of a barrier that cannot be waited for, some members still can.
                kept.extend(members.iter().copied().filter(|member| self.is_placed(*member)));
            }
        }
        let names: Vec<String> = kept
            .iter()
            .filter_map(|to| self.names.get(*to))
            .map(|name| (*name).to_owned())
            .collect();
        if let Some(added) = self.order.added.get_mut(node) {
            *added = names;
        }
        if let Some(flag) = self.is_placed.get_mut(node) {
            *flag = true;
        }
        for dependent in self.dependents.get(node).into_iter().flatten() {
            if let Some(open) = self.open.get_mut(*dependent) {
                *open = open.saturating_sub(1);
                if *open == 0 {
                    ready.insert(*dependent);
                }
            }
        }
    }

    /// Drops a dependency in a cycle that finished work makes meaningless.
    fn break_cycle(&mut self, cycle: &[usize]) -> bool {
        let pairs = cycle.iter().zip(cycle.iter().cycle().skip(1));
        let is_finished = |node: usize| self.is_finished.get(node) == Some(&true);
        let found = pairs.map(|(from, to)| (*from, *to)).find(|(from, to)| {
            *from < self.order.added.len() && (is_finished(*from) || is_finished(*to))
        });
        let Some((from, to)) = found else { return false };
        if let Some(written) = self.written.get_mut(from) {
            written.remove(&to);
        }
        if let Some(list) = self.dependents.get_mut(to) {
            list.retain(|node| *node != from);
        }
        if let Some(open) = self.open.get_mut(from) {
            *open = open.saturating_sub(1);
        }
        if let Some(name) = self.names.get(to) {
            self.order.finished.push((from, (*name).to_owned()));
        }
        true
    }

    /// Adds the inferred dependencies of all other steps.
    fn place_rest(&mut self) {
        for (node, added) in self.order.added.iter_mut().enumerate() {
            if self.is_placed.get(node) == Some(&false) {
                let inferred = self.inferred.get(node).into_iter().flatten();
                let names = inferred.filter_map(|to| self.names.get(*to));
                *added = names.map(|name| (*name).to_owned()).collect();
            }
        }
    }
}
