//! Who waits for whom in the active version: names made into numbers, once per activation.
//!
//! Invariants: `Links` is a pure function of the plan and its step numbers, so it is no part of
//! the state hash. A name that the plan does not know is a dependency that is never settled:
//! validation reports it, and here it only keeps its step from being dealt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use super::{
    BarrierStatus, CompactPlan, CompactStep, Fallback, Lane, Queue, Run, StepNumber, expression,
};

/// Something that a step waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependency {
    /// A step.
    Step(StepNumber),
    /// A barrier, by id.
    Barrier(String),
    /// A name that the plan does not know: it is never settled.
    Unknown(String),
}

/// The steps around one, by their places in the active plan, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Near {
    /// Those that it waits for, also through a barrier.
    pub before: Vec<usize>,
    /// Those that wait for it, also through a barrier.
    pub after: Vec<usize>,
}

/// Lookups by step number and by name.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Whose links they are: the names are read there.
    plan: Arc<CompactPlan>,
    /// The place of each step, by number; [`NOWHERE`] of one that the plan does not have.
    places: Vec<u32>,
    /// Its steps, by id.
    by_id: Vec<StepNumber>,
    /// Each step that another one waits for, and that one.
    dependents: Vec<(StepNumber, StepNumber)>,
    memberships: BTreeMap<StepNumber, Vec<String>>,
    waiters: BTreeMap<String, Vec<StepNumber>>,
    /// The barriers that have a deadline.
    timed: Vec<String>,
    fallbacks: BTreeMap<StepNumber, StepNumber>,
    stands_in_for: BTreeMap<StepNumber, Vec<StepNumber>>,
    watchers: BTreeMap<String, Vec<(StepNumber, u32)>>,
    writers: BTreeMap<String, Vec<StepNumber>>,
    /// The steps that set any variable, if a precondition looks at all of them.
    all_writers: Vec<StepNumber>,
}

/// The place of a step that is not in the plan.
const NOWHERE: u32 = u32::MAX;

/// Lookups that runs of one plan have in common, if their steps have the same numbers.
#[derive(Debug)]
pub struct SharedLinks {
    numbers: Vec<StepNumber>,
    steps: usize,
    links: Arc<Links>,
}

impl Links {
    /// The links of a plan whose steps have these numbers, in a run that ever had `steps` steps.
    pub(super) fn new(plan: &Arc<CompactPlan>, numbers: &[StepNumber], steps: usize) -> Self {
        let mut links =
            Self { plan: Arc::clone(plan), places: vec![NOWHERE; steps], ..Self::default() };
        for (place, number) in (0..).zip(numbers.iter().take(plan.len())) {
            if let Some(entry) = links.places.get_mut(number.index()) {
                *entry = place;
                links.by_id.push(*number);
            }
        }
        // Each id is found once, and not whenever two are compared.
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
                for variable in expression::variables(expression) {
                    links.watchers.entry(variable).or_default().push((*number, place));
                }
            }
            step.outputs().for_each(|variable| links.add_writer(variable, *number));
            if let Some(Fallback::Step(name)) = step.fallback()
                && let Some(other) = links.step_named(&name)
            {
                links.fallbacks.insert(*number, other);
                links.stands_in_for.entry(other).or_default().push(*number);
            }
        }
        if links.watchers.contains_key(expression::ALL) {
            let writers = plan.steps().zip(numbers).filter(|(step, _)| !step.outputs().is_empty());
            links.all_writers = writers.map(|(_, number)| *number).collect();
        }
        // Those of one step stay in plan order.
        links.dependents.sort_by_key(|(on, _)| *on);
        // They stay as they are for long.
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

    /// A step is named once, however often it names the variable.
    fn add_writer(&mut self, variable: &str, number: StepNumber) {
        match self.writers.get_mut(variable) {
            Some(writers) if writers.last() == Some(&number) => {}
            Some(writers) => writers.push(number),
            None => drop(self.writers.insert(variable.to_owned(), vec![number])),
        }
    }

    /// The barriers that have a deadline.
    pub(super) fn timed_barriers(&self) -> &[String] {
        &self.timed
    }

    /// What a step waits for, each thing once.
    pub(super) fn dependencies(&self, step: CompactStep<'_>) -> BTreeSet<Dependency> {
        step.after().map(|name| self.dependency(name)).collect()
    }

    /// What a name in `after` means.
    pub(super) fn dependency(&self, name: &str) -> Dependency {
        match self.step_named(name) {
            Some(number) => Dependency::Step(number),
            None if self.waiters.contains_key(name) => Dependency::Barrier(name.to_owned()),
            None => Dependency::Unknown(name.to_owned()),
        }
    }

    /// The steps of those names.
    pub(super) fn members(&self, names: &[String]) -> BTreeSet<StepNumber> {
        names.iter().filter_map(|name| self.step_named(name)).collect()
    }

    pub(super) fn step_named(&self, id: &str) -> Option<StepNumber> {
        let behind = self.by_id.partition_point(|number| self.id_of(*number) <= id);
        let number = *self.by_id.get(behind.checked_sub(1)?)?;
        (self.id_of(number) == id).then_some(number)
    }

    /// The step's place in the plan's list.
    pub(super) fn place(&self, number: StepNumber) -> Option<usize> {
        let place = *self.places.get(number.index())?;
        usize::try_from(place).ok().filter(|_| place != NOWHERE)
    }

    fn id_of(&self, number: StepNumber) -> &str {
        let step = self.place(number).and_then(|place| self.plan.step(place));
        step.map_or("", CompactStep::id)
    }

    /// The steps that name this one in `after`.
    pub(super) fn dependents(&self, number: StepNumber) -> impl Iterator<Item = &StepNumber> {
        let from = self.dependents.partition_point(|(on, _)| *on < number);
        let rest = self.dependents.get(from..).unwrap_or_default().iter();
        rest.take_while(move |(on, _)| *on == number).map(|(_, dependent)| dependent)
    }

    /// The barriers that a step is a member of.
    pub(super) fn memberships(&self, number: StepNumber) -> &[String] {
        self.memberships.get(&number).map_or(&[], Vec::as_slice)
    }

    /// The step that stands in for this one when it fails for good.
    pub(super) fn fallback_of(&self, number: StepNumber) -> Option<StepNumber> {
        self.fallbacks.get(&number).copied()
    }

    /// Whether any precondition names a variable.
    pub(super) fn has_watchers(&self) -> bool {
        !self.watchers.is_empty()
    }

    /// The preconditions that name a variable, each with its step.
    pub(super) fn watchers(&self, variable: &str) -> &[(StepNumber, u32)] {
        self.watchers.get(variable).map_or(&[], Vec::as_slice)
    }

    /// The steps whose outputs set a variable.
    pub(super) fn writers(&self, variable: &str) -> &[StepNumber] {
        if variable == expression::ALL {
            return &self.all_writers;
        }
        self.writers.get(variable).map_or(&[], Vec::as_slice)
    }

    /// The steps that this one stands in for when they fail for good.
    pub(super) fn stands_in_for(&self, number: StepNumber) -> &[StepNumber] {
        self.stands_in_for.get(&number).map_or(&[], Vec::as_slice)
    }

    /// The steps that name this barrier in `after`.
    pub(super) fn waiters(&self, barrier: &str) -> &[StepNumber] {
        self.waiters.get(barrier).map_or(&[], Vec::as_slice)
    }
}

impl Run {
    /// The steps around one of the active plan. It costs what they are, however long the plan is.
    #[must_use]
    pub fn near(&self, number: StepNumber) -> Near {
        let links = &self.links;
        let (mut before, mut after) = (BTreeSet::new(), BTreeSet::new());
        let step = self.plan_step(number);
        for dependency in step.map(|step| links.dependencies(step)).unwrap_or_default() {
            match dependency {
                Dependency::Step(on) => before.extend(links.place(on)),
                Dependency::Barrier(id) => {
                    let members = self.barriers.get(&id).into_iter().flat_map(|it| &it.members);
                    before.extend(members.filter_map(|member| links.place(*member)));
                }
                Dependency::Unknown(_) => {}
            }
        }
        let waiters = links.memberships(number).iter().flat_map(|barrier| links.waiters(barrier));
        let dependents = links.dependents(number).chain(waiters);
        after.extend(dependents.filter_map(|step| links.place(*step)));
        Near { before: before.into_iter().collect(), after: after.into_iter().collect() }
    }

    /// Make the lookups of the active version anew: for a run that was put together from its
    /// fields, and not by folding. Those that runs of the same plan have are taken, or left for
    /// them.
    pub fn relink(&mut self, shared: &OnceLock<SharedLinks>) {
        let numbers = self.active_version().map(|version| version.numbers.as_slice());
        let numbers = numbers.unwrap_or_default();
        let known = shared.get_or_init(|| SharedLinks {
            numbers: numbers.to_vec(),
            steps: self.steps.len(),
            links: self.own_links(),
        });
        let is_same = known.numbers == numbers && known.steps == self.steps.len();
        self.links = if is_same { Arc::clone(&known.links) } else { self.own_links() };
        self.find_heads();
    }

    fn own_links(&self) -> Arc<Links> {
        let links = self
            .active_version()
            .map(|version| Links::new(&version.plan, &version.numbers, self.steps.len()));
        Arc::new(links.unwrap_or_default())
    }

    /// Makes the list of the lanes' heads anew.
    pub(super) fn find_heads(&mut self) {
        let heads = self.lanes.iter();
        let head = |(lane, queue): (&Lane, &Queue)| Some((*queue.first()?, lane.clone()));
        self.heads = heads.filter_map(head).collect();
    }

    /// What a step of the active version still waits for.
    #[must_use]
    pub fn waiting_for(&self, number: StepNumber) -> Vec<Dependency> {
        let Some(step) = self.plan_step(number) else { return Vec::new() };
        let all = self.links.dependencies(step);
        all.into_iter().filter(|dependency| !self.is_settled(dependency)).collect()
    }

    /// Whether what waits for this need wait no longer.
    pub(super) fn is_settled(&self, dependency: &Dependency) -> bool {
        match dependency {
            Dependency::Step(on) => self.step(*on).is_some_and(|step| step.status.is_closed()),
            Dependency::Barrier(id) => {
                self.barriers.get(id).is_some_and(|each| each.status == BarrierStatus::Released)
            }
            Dependency::Unknown(_) => false,
        }
    }
}
