//! Indexes of the active plan version: dependencies, barriers, fallbacks and variables by step
//! number.
//!
//! They are built once per activation and shared by runs of the same plan.
//!
//! Invariants: `Links` is a pure function of the plan and its step numbers, so it is not part of
//! the state hash. An unknown name is a dependency that is never met, so its step is never
//! dispatched; validation reports the name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::plan::model::step::Fallback;
use crate::plan::state::compact::plan::CompactPlan;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::value::expression;
use crate::plan::value::ids::StepNumber;

/// A dependency of a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependency {
    /// A step.
    Step(StepNumber),
    /// A barrier, by id.
    Barrier(String),
    /// A name that the plan does not define; it is never met.
    Unknown(String),
}

/// Direct dependencies and dependents of a step, as ascending indexes into the active plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Steps that it depends on, directly or through a barrier.
    pub dependencies: Vec<usize>,
    /// Steps that depend on it, directly or through a barrier.
    pub dependents: Vec<usize>,
}

/// Lookups by step number and by name.
///
/// A *watcher* of a variable is a precondition that reads it, a *writer* is a step that sets it,
/// and a *waiter* of a barrier is a step that depends on it.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// The plan, for its names.
    plan: Arc<CompactPlan>,
    /// Plan index of each step, by number; [`NOT_IN_PLAN`] for a step that is not in the plan.
    places: Vec<u32>,
    /// The step numbers, sorted by id.
    by_id: Vec<StepNumber>,
    /// Pairs of a step and a direct dependent, sorted.
    dependents: Vec<(StepNumber, StepNumber)>,
    /// The barriers of which a step is a member.
    memberships: BTreeMap<StepNumber, Vec<String>>,
    waiters: BTreeMap<String, Vec<StepNumber>>,
    /// The barriers with a deadline.
    timed: Vec<String>,
    /// The fallback step of each step that has one.
    fallbacks: BTreeMap<StepNumber, StepNumber>,
    /// For each fallback step, the steps that have it as their fallback.
    fallback_for: BTreeMap<StepNumber, Vec<StepNumber>>,
    watchers: BTreeMap<String, Vec<(StepNumber, u32)>>,
    /// The variables that each precondition reads.
    variables: BTreeMap<(StepNumber, u32), BTreeSet<String>>,
    writers: BTreeMap<String, Vec<StepNumber>>,
    /// The steps that set any variable; filled if a precondition reads all variables.
    all_writers: Vec<StepNumber>,
}

/// Marks a step that is not in the plan.
const NOT_IN_PLAN: u32 = u32::MAX;

/// Links shared by runs of one plan whose steps have the same numbers.
#[derive(Debug)]
pub struct SharedLinks {
    pub(crate) numbers: Vec<StepNumber>,
    pub(crate) steps: usize,
    pub(crate) links: Arc<Links>,
}

impl Links {
    /// The links of a plan with these step numbers, in a run with `steps` steps in total.
    pub(crate) fn new(plan: &Arc<CompactPlan>, numbers: &[StepNumber], steps: usize) -> Self {
        let mut links =
            Self { plan: Arc::clone(plan), places: vec![NOT_IN_PLAN; steps], ..Self::default() };
        for (place, number) in (0..).zip(numbers.iter().take(plan.len())) {
            if let Some(entry) = links.places.get_mut(number.index()) {
                *entry = place;
                links.by_id.push(*number);
            }
        }
        // Look up each id once instead of at every comparison.
        let named = links.by_id.iter().map(|number| (links.id_of(*number), *number));
        let mut named: Vec<_> = named.collect();
        named.sort_by_key(|(id, _)| *id);
        links.by_id = named.into_iter().map(|(_, number)| number).collect();
        for barrier in &plan.header().barriers {
            links.waiters.insert(barrier.id.clone(), Vec::new());
            links.timed.extend(barrier.deadline_seconds.map(|_| barrier.id.clone()));
            for member in links.members(&barrier.members) {
                links.memberships.entry(member).or_default().push(barrier.id.clone());
            }
        }
        for (step, number) in plan.steps().zip(numbers) {
            for dependency in links.dependencies(step) {
                links.add_dependent(&dependency, *number);
            }
            for (place, expression) in (0..).zip(step.preconditions()) {
                let variables = expression::variables(expression);
                for variable in &variables {
                    let watchers = links.watchers.entry(variable.clone()).or_default();
                    watchers.push((*number, place));
                }
                links.variables.insert((*number, place), variables);
            }
            step.outputs().for_each(|variable| links.add_writer(variable, *number));
            if let Some(Fallback::Step(name)) = step.fallback()
                && let Some(other) = links.step_named(&name)
            {
                links.fallbacks.insert(*number, other);
                links.fallback_for.entry(other).or_default().push(*number);
            }
        }
        if links.watchers.contains_key(expression::ALL) {
            let writers = plan.steps().zip(numbers).filter(|(step, _)| !step.outputs().is_empty());
            links.all_writers = writers.map(|(_, number)| *number).collect();
        }
        // A stable sort keeps the dependents of a step in plan order.
        links.dependents.sort_by_key(|(on, _)| *on);
        // They do not change until the next activation.
        links.dependents.shrink_to_fit();
        links.writers.values_mut().for_each(Vec::shrink_to_fit);
        links
    }

    fn add_dependent(&mut self, dependency: &Dependency, number: StepNumber) {
        match dependency {
            Dependency::Step(on) => self.dependents.push((*on, number)),
            Dependency::Barrier(id) => {
                if let Some(waiters) = self.waiters.get_mut(id) {
                    waiters.push(number);
                }
            }
            Dependency::Unknown(_) => {}
        }
    }

    /// Adds a step once, even if it lists the variable twice.
    fn add_writer(&mut self, variable: &str, number: StepNumber) {
        match self.writers.get_mut(variable) {
            Some(writers) if writers.last() == Some(&number) => {}
            Some(writers) => writers.push(number),
            None => drop(self.writers.insert(variable.to_owned(), vec![number])),
        }
    }

    /// The barriers with a deadline.
    pub(crate) fn timed_barriers(&self) -> &[String] {
        &self.timed
    }

    /// The dependencies of a step, without duplicates.
    pub(crate) fn dependencies(&self, step: CompactStep<'_>) -> BTreeSet<Dependency> {
        step.after().map(|name| self.dependency(name)).collect()
    }

    /// Resolves a name in `after`.
    pub(crate) fn dependency(&self, name: &str) -> Dependency {
        match self.step_named(name) {
            Some(number) => Dependency::Step(number),
            None if self.waiters.contains_key(name) => Dependency::Barrier(name.to_owned()),
            None => Dependency::Unknown(name.to_owned()),
        }
    }

    /// The steps with these names.
    pub(crate) fn members(&self, names: &[String]) -> BTreeSet<StepNumber> {
        names.iter().filter_map(|name| self.step_named(name)).collect()
    }

    pub(crate) fn step_named(&self, id: &str) -> Option<StepNumber> {
        let end = self.by_id.partition_point(|number| self.id_of(*number) <= id);
        let number = *self.by_id.get(end.checked_sub(1)?)?;
        (self.id_of(number) == id).then_some(number)
    }

    /// The index of a step in the plan.
    pub(crate) fn place(&self, number: StepNumber) -> Option<usize> {
        let place = *self.places.get(number.index())?;
        usize::try_from(place).ok().filter(|_| place != NOT_IN_PLAN)
    }

    fn id_of(&self, number: StepNumber) -> &str {
        let step = self.place(number).and_then(|place| self.plan.step(place));
        step.map_or("", CompactStep::id)
    }

    /// The direct dependents of a step.
    pub(crate) fn dependents(&self, number: StepNumber) -> impl Iterator<Item = &StepNumber> {
        let from = self.dependents.partition_point(|(on, _)| *on < number);
        let rest = self.dependents.get(from..).unwrap_or_default().iter();
        rest.take_while(move |(on, _)| *on == number).map(|(_, dependent)| dependent)
    }

    /// The barriers of which a step is a member.
    pub(crate) fn memberships(&self, number: StepNumber) -> &[String] {
        self.memberships.get(&number).map_or(&[], Vec::as_slice)
    }

    /// The fallback step of a step.
    pub(crate) fn fallback_of(&self, number: StepNumber) -> Option<StepNumber> {
        self.fallbacks.get(&number).copied()
    }

    /// Whether any precondition reads a variable.
    pub(crate) fn has_watchers(&self) -> bool {
        !self.watchers.is_empty()
    }

    /// The preconditions that read a variable, each with its step.
    pub(crate) fn watchers(&self, variable: &str) -> &[(StepNumber, u32)] {
        self.watchers.get(variable).map_or(&[], Vec::as_slice)
    }

    /// The variables that a precondition reads.
    pub(crate) fn variables_of(&self, number: StepNumber, place: u32) -> &BTreeSet<String> {
        static NONE: BTreeSet<String> = BTreeSet::new();
        self.variables.get(&(number, place)).unwrap_or(&NONE)
    }

    /// The steps that set a variable.
    pub(crate) fn writers(&self, variable: &str) -> &[StepNumber] {
        if variable == expression::ALL {
            return &self.all_writers;
        }
        self.writers.get(variable).map_or(&[], Vec::as_slice)
    }

    /// The steps that have this one as their fallback.
    pub(crate) fn fallback_for(&self, number: StepNumber) -> &[StepNumber] {
        self.fallback_for.get(&number).map_or(&[], Vec::as_slice)
    }

    /// The steps that depend on a barrier.
    pub(crate) fn waiters(&self, barrier: &str) -> &[StepNumber] {
        self.waiters.get(barrier).map_or(&[], Vec::as_slice)
    }
}
