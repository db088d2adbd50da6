//! A plan as a run keeps it: its steps take about the room of their texts, all of them together.
//!
//! Invariants:
//! - What went in comes out: a step is read back equal to what it was.
//! - A field that holds its default takes no room, and equal plans are kept as equal bytes.
//! - Looking at a field reads no other one, and copies nothing but what it returns.
//!
//! Left out on purpose: changing a step, which no run does; and any layout that is read elsewhere:
//! these bytes never leave the process.

use std::fmt;

use serde::{Serialize, Serializer};

use super::bytes::take_bytes;
use super::fields::Packer;
use super::step::CompactStep;
use crate::plan::model::plan::Plan;
use crate::plan::model::step::{Idempotence, RetryPolicy, Step};
use crate::plan::value::ids::Micros;

/// Of so many steps the place of the first one is kept: the others are found by their lengths.
const BLOCK: usize = 8;

/// A whole plan.
#[derive(Clone, Default, PartialEq)]
pub struct CompactPlan {
    header: Plan,
    bytes: Vec<u8>,
    /// Where each [`BLOCK`]th step begins in `bytes`.
    begins: Vec<usize>,
    steps: usize,
}

impl CompactPlan {
    /// All of the plan but its steps: that list is empty here.
    #[must_use]
    pub fn header(&self) -> &Plan {
        &self.header
    }

    /// How many steps it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps
    }

    /// Whether it has no step.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps == 0
    }

    /// The step at a place of its list.
    #[must_use]
    pub fn step(&self, place: usize) -> Option<CompactStep<'_>> {
        let begin = *self.begins.get(place / BLOCK).filter(|_| place < self.steps)?;
        let mut rest = self.bytes.get(begin..)?;
        for _ in 0..place % BLOCK {
            rest = take_bytes(rest)?.1;
        }
        Some(CompactStep::of(take_bytes(rest)?.0))
    }

    /// Its steps, in plan order.
    #[must_use]
    pub fn steps(&self) -> impl ExactSizeIterator<Item = CompactStep<'_>> {
        let mut rest = self.bytes.as_slice();
        (0..self.steps).map(move |_| {
            let (step, behind) = take_bytes(rest).unwrap_or_default();
            rest = behind;
            CompactStep::of(step)
        })
    }

    /// The plan as its author wrote it.
    #[must_use]
    pub fn whole(&self) -> Plan {
        Plan { steps: self.steps().map(CompactStep::whole).collect(), ..self.header.clone() }
    }

    /// The role or capability that may do a step.
    #[must_use]
    pub fn owner_of<'a>(&'a self, step: CompactStep<'a>) -> Option<&'a str> {
        step.owner().or(self.header.defaults.owner.as_deref())
    }

    /// How often, and how soon, a step is tried again.
    #[must_use]
    pub fn retry_of(&self, step: CompactStep<'_>) -> RetryPolicy {
        self.header.defaults.retry_or(step.retry())
    }

    /// Whether doing a step twice is as good as doing it once. A step that says nothing may be
    /// done again.
    #[must_use]
    pub fn idempotence_of(&self, step: CompactStep<'_>) -> Idempotence {
        self.header.defaults.idempotence_or(step.idempotent())
    }

    /// For how long an attempt of a step is held without a sign of life.
    #[must_use]
    pub fn lease_of(&self, step: CompactStep<'_>) -> Micros {
        self.header.defaults.lease_or(step.lease_seconds())
    }

    /// A step as a worker is shown it: with the plan's defaults where it does not say.
    #[must_use]
    pub fn with_defaults(&self, step: CompactStep<'_>) -> Step {
        step.whole().with_defaults(&self.header.defaults)
    }

    /// Adds steps behind the others.
    pub(crate) fn extend<'a>(&mut self, steps: impl IntoIterator<Item = &'a Step>) {
        let mut packer = Packer::default();
        for step in steps {
            if self.steps.is_multiple_of(BLOCK) {
                self.begins.push(self.bytes.len());
            }
            packer.put(&mut self.bytes, step);
            self.steps += 1;
        }
    }

    /// No more steps come.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
        self.begins.shrink_to_fit();
    }
}

impl From<Plan> for CompactPlan {
    fn from(mut plan: Plan) -> Self {
        let steps = std::mem::take(&mut plan.steps);
        let mut compact = Self { header: plan, ..Self::default() };
        compact.extend(&steps);
        compact.shrink_to_fit();
        compact
    }
}

impl PartialEq<Plan> for CompactPlan {
    fn eq(&self, plan: &Plan) -> bool {
        self.whole() == *plan
    }
}

/// As the plan itself.
impl Serialize for CompactPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.whole().serialize(serializer)
    }
}

impl fmt::Debug for CompactPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.whole().fmt(f)
    }
}
