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

use crate::plan::model::graph::name_index::NameIndex;
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

/// A dependency of a step, resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A step.
    Step(StepNumber),
    /// A barrier, by its index in the plan.
    Barrier(u32),
    /// A name that the plan does not define, by its position in the step's list.
    Unknown(u32),
}

/// Lists in one allocation.
#[derive(Debug)]
struct Groups<T> {
    items: Vec<T>,
    /// The start of each list, and the end of the last one; empty if all lists are empty.
    begins: Vec<u32>,
}

impl<T> Default for Groups<T> {
    fn default() -> Self {
        Self { items: Vec::new(), begins: Vec::new() }
    }
}

impl<T> Groups<T> {
    /// The list at an index.
    fn list(&self, at: usize) -> &[T] {
        let begin = |at: usize| self.begins.get(at).and_then(|begin| usize::try_from(*begin).ok());
        let range = begin(at).zip(begin(at.saturating_add(1)));
        range.and_then(|(from, to)| self.items.get(from..to)).unwrap_or_default()
    }
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
    /// The dependencies of each step of the plan, without duplicates.
    dependencies: Groups<Target>,
    /// The direct dependents of each step, in plan order, by the index of its number.
    dependents: Groups<StepNumber>,
    /// The barriers with this step as a member.
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

#[cfg(test)]
thread_local! {
    /// Number of looked-up dependency names, for the scaling tests.
    pub(crate) static NAMES_RESOLVED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
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
        let in_order = links.by_id.clone();
        let ids: Vec<&str> = plan.steps().map(CompactStep::id).collect();
        let id_of = |number: &StepNumber| links.place(*number).and_then(|place| ids.get(place));
        let names = in_order.iter().map(|number| id_of(number).copied().unwrap_or_default());
        let names = NameIndex::new(names);
        let by_id = names.by_name().filter_map(|place| in_order.get(place).copied());
        links.by_id = by_id.collect();
        for barrier in &plan.header().barriers {
            links.waiters.insert(barrier.id.clone(), Vec::new());
            links.timed.extend(barrier.deadline_seconds.map(|_| barrier.id.clone()));
            for member in links.members(&barrier.members) {
                links.memberships.entry(member).or_default().push(barrier.id.clone());
            }
        }
        links.add_dependencies(numbers, (&names, &in_order));
        for (step, number) in plan.steps().zip(numbers) {
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
        links.writers.values_mut().for_each(Vec::shrink_to_fit);
        links
    }

    /// Adds the dependencies of all steps. Each name is looked up once.
    fn add_dependencies(
        &mut self,
        numbers: &[StepNumber],
        (names, in_order): (&NameIndex<'_>, &[StepNumber]),
    ) {
        let plan = Arc::clone(&self.plan);
        let dependencies = self.resolved(&plan, numbers.len(), (names, in_order));
        let mut begins = vec![0_u32; self.places.len().saturating_add(1)];
        for target in &dependencies.items {
            if let Target::Step(on) = target
                && let Some(count) = begins.get_mut(on.index().saturating_add(1))
            {
                *count = count.saturating_add(1);
            }
        }
        let mut total = 0_u32;
        for begin in &mut begins {
            total = total.saturating_add(*begin);
            *begin = total;
        }
        // The place of the next dependent of each step.
        let mut next = begins.clone();
        let mut dependents = vec![StepNumber(0); usize::try_from(total).unwrap_or_default()];
        for (place, number) in numbers.iter().enumerate() {
            for target in dependencies.list(place) {
                match target {
                    Target::Step(on) => {
                        let Some(at) = next.get_mut(on.index()) else { continue };
                        let free = usize::try_from(*at).ok().and_then(|at| dependents.get_mut(at));
                        if let Some(free) = free {
                            *free = *number;
                        }
                        *at = at.saturating_add(1);
                    }
                    Target::Barrier(at) => {
                        let barrier = usize::try_from(*at).ok();
                        let barrier = barrier.and_then(|at| plan.header().barriers.get(at));
                        let waiters = barrier.and_then(|each| self.waiters.get_mut(&each.id));
                        if let Some(waiters) = waiters {
                            waiters.push(*number);
                        }
                    }
                    Target::Unknown(_) => {}
                }
            }
        }
        if total > 0 {
            self.dependents = Groups { items: dependents, begins };
        }
        self.dependencies = dependencies;
    }

    /// The resolved dependencies of the first `count` steps of the plan.
    fn resolved(
        &self,
        plan: &CompactPlan,
        count: usize,
        (names, in_order): (&NameIndex<'_>, &[StepNumber]),
    ) -> Groups<Target> {
        let barriers = plan.header().barriers.iter().map(|barrier| barrier.id.as_str());
        let barriers = NameIndex::new(barriers);
        let resolve = |name: &str, position: u32| {
            #[cfg(test)]
            NAMES_RESOLVED.with(|count| count.set(count.get() + 1));
            // Of a repeated id the last one counts.
            let step = match names.repeated() {
                None => names.find(name).and_then(|place| in_order.get(place).copied()),
                Some(_) => self.step_named(name),
            };
            let barrier = || u32::try_from(barriers.find(name)?).ok().map(Target::Barrier);
            step.map(Target::Step).or_else(barrier).unwrap_or(Target::Unknown(position))
        };
        // The last step of the plan that named each step and each barrier.
        let mut steps_named_by = vec![NOT_IN_PLAN; self.places.len()];
        let mut barriers_named_by = vec![NOT_IN_PLAN; plan.header().barriers.len()];
        let mut groups = Groups { items: Vec::new(), begins: vec![0] };
        for (by, step) in (0..).zip(plan.steps().take(count)) {
            let mut unknown = BTreeSet::new();
            for (position, name) in (0..).zip(step.after()) {
                let target = resolve(name, position);
                let named_by = match target {
                    Target::Step(on) => steps_named_by.get_mut(on.index()),
                    Target::Barrier(place) => usize::try_from(place)
                        .ok()
                        .and_then(|place| barriers_named_by.get_mut(place)),
                    Target::Unknown(_) => None,
                };
                let is_new = match named_by {
                    Some(named_by) => std::mem::replace(named_by, by) != by,
                    None => unknown.insert(name),
                };
                groups.items.extend(is_new.then_some(target));
            }
            groups.begins.push(u32::try_from(groups.items.len()).unwrap_or(u32::MAX));
        }
        if groups.items.is_empty() {
            return Groups::default();
        }
        groups.items.shrink_to_fit();
        groups
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

    /// The dependencies of a step of the plan, without duplicates, in the order of its list.
    pub(crate) fn dependencies(&self, number: StepNumber) -> &[Target] {
        self.place(number).map_or(&[], |place| self.dependencies.list(place))
    }

    /// The id of the barrier of a dependency.
    pub(crate) fn barrier_id(&self, dependency: Target) -> Option<&str> {
        let Target::Barrier(place) = dependency else { return None };
        let barrier = self.plan.header().barriers.get(usize::try_from(place).ok()?)?;
        Some(&barrier.id)
    }

    /// A dependency with the names that the plan has for it.
    pub(crate) fn named(&self, number: StepNumber, dependency: Target) -> Dependency {
        let name = |position: u32| {
            let step = self.place(number).and_then(|place| self.plan.step(place));
            let after = step.map(CompactStep::after).unwrap_or_default();
            after.get(usize::try_from(position).ok()?).map(str::to_owned)
        };
        match dependency {
            Target::Step(on) => Dependency::Step(on),
            Target::Barrier(_) => {
                Dependency::Barrier(self.barrier_id(dependency).unwrap_or_default().to_owned())
            }
            Target::Unknown(position) => Dependency::Unknown(name(position).unwrap_or_default()),
        }
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
        self.dependents.list(number.index()).iter()
    }

    /// The barriers with this step as a member.
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
