//! A plan as a run holds it: all steps encoded in one buffer.
//!
//! The encoding is read-only. Snapshots hold it as it is (`format/snapshot.md`, section 3).
//!
//! Invariants:
//! - Decoding a step returns a value equal to the encoded one.
//! - A field with its default value takes no space, and equal plans have equal bytes.
//! - Reading a field skips the other fields without decoding them.

use std::fmt;

use serde::{Serialize, Serializer};

use super::bytes::take_bytes;
use super::fields::StepEncoder;
use super::step::CompactStep;
use crate::plan::model::plan::Plan;
use crate::plan::model::step::{Idempotence, RetryPolicy, Step};
use crate::plan::value::ids::Micros;

/// Number of steps per index entry; steps between two entries are found by their lengths.
const BLOCK: usize = 8;

/// A plan with encoded steps.
#[derive(Clone, Default, PartialEq)]
pub struct CompactPlan {
    header: Plan,
    bytes: Vec<u8>,
    /// Offset of each [`BLOCK`]th step in `bytes`.
    begins: Vec<usize>,
    steps: usize,
}

impl CompactPlan {
    /// The plan without its steps.
    #[must_use]
    pub fn header(&self) -> &Plan {
        &self.header
    }

    /// Number of steps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps
    }

    /// Whether the plan has no steps.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps == 0
    }

    /// The encoded steps, one after the other.
    pub(crate) fn step_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A plan of encoded steps; `None` if the bytes are not exactly that many steps.
    pub(crate) fn of_parts(mut header: Plan, bytes: Vec<u8>, steps: usize) -> Option<Self> {
        header.steps = Vec::new();
        let (mut begins, mut rest) = (Vec::new(), bytes.as_slice());
        for place in 0..steps {
            if place.is_multiple_of(BLOCK) {
                begins.push(bytes.len() - rest.len());
            }
            rest = take_bytes(rest)?.1;
        }
        let is_end = rest.is_empty();
        begins.shrink_to_fit();
        is_end.then_some(Self { header, bytes, begins, steps })
    }

    /// The step at an index.
    #[must_use]
    pub fn step(&self, place: usize) -> Option<CompactStep<'_>> {
        let begin = *self.begins.get(place / BLOCK).filter(|_| place < self.steps)?;
        let mut rest = self.bytes.get(begin..)?;
        for _ in 0..place % BLOCK {
            rest = take_bytes(rest)?.1;
        }
        Some(CompactStep::of(take_bytes(rest)?.0))
    }

    /// The steps, in plan order.
    #[must_use]
    pub fn steps(&self) -> impl ExactSizeIterator<Item = CompactStep<'_>> {
        let mut rest = self.bytes.as_slice();
        (0..self.steps).map(move |_| {
            let (step, after) = take_bytes(rest).unwrap_or_default();
            rest = after;
            CompactStep::of(step)
        })
    }

    /// Decodes the plan.
    #[must_use]
    pub fn decode(&self) -> Plan {
        Plan { steps: self.steps().map(CompactStep::decode).collect(), ..self.header.clone() }
    }

    /// The role or capability that may do a step.
    #[must_use]
    pub fn owner_of<'a>(&'a self, step: CompactStep<'a>) -> Option<&'a str> {
        step.owner().or(self.header.defaults.owner.as_deref())
    }

    /// Retry policy of a step.
    #[must_use]
    pub fn retry_of(&self, step: CompactStep<'_>) -> RetryPolicy {
        self.header.defaults.retry_or(step.retry())
    }

    /// Whether a step may be repeated; `Yes` if neither the step nor the plan sets it.
    #[must_use]
    pub fn idempotence_of(&self, step: CompactStep<'_>) -> Idempotence {
        self.header.defaults.idempotence_or(step.idempotent())
    }

    /// Lease of an attempt of a step.
    #[must_use]
    pub fn lease_of(&self, step: CompactStep<'_>) -> Micros {
        self.header.defaults.lease_or(step.lease_seconds())
    }

    /// The step as workers see it, with the plan's defaults filled in.
    #[must_use]
    pub fn with_defaults(&self, step: CompactStep<'_>) -> Step {
        step.decode().with_defaults(&self.header.defaults)
    }

    /// Appends steps.
    pub(crate) fn extend<'a>(&mut self, steps: impl IntoIterator<Item = &'a Step>) {
        let mut encoder = StepEncoder::default();
        steps.into_iter().for_each(|step| self.push(&mut encoder, step));
    }

    fn push(&mut self, encoder: &mut StepEncoder, step: &Step) {
        if self.steps.is_multiple_of(BLOCK) {
            self.begins.push(self.bytes.len());
        }
        encoder.put(&mut self.bytes, step);
        self.steps += 1;
    }

    /// Releases spare capacity once the plan is complete.
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
        self.decode() == *plan
    }
}

/// Serialized like the plan itself.
impl Serialize for CompactPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.decode().serialize(serializer)
    }
}

impl fmt::Debug for CompactPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.decode().fmt(f)
    }
}
