//! A step of a compact plan, decoded field by field.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;

use super::bytes::{Texts, take_bytes, take_number, text};
use super::fields::Field;
use crate::plan::model::budget::Cost;
use crate::plan::model::criterion::Criterion;
use crate::plan::model::fields::Extra;
use crate::plan::model::step::{
    FailureClass, Fallback, Gate, Idempotence, OnFalse, RetryPolicy, Step,
};

/// An encoded step: the presence mask, then each field with its length.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct CompactStep<'a>(&'a [u8]);

impl fmt::Debug for CompactStep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.decode().fmt(f)
    }
}

impl<'a> CompactStep<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// See [`Step::id`].
    #[must_use]
    pub fn id(self) -> &'a str {
        self.text(Field::ID).unwrap_or_default()
    }

    /// See [`Step::title`].
    #[must_use]
    pub fn title(self) -> &'a str {
        self.text(Field::TITLE).unwrap_or_default()
    }

    /// See [`Step::owner`].
    #[must_use]
    pub fn owner(self) -> Option<&'a str> {
        self.text(Field::OWNER)
    }

    /// See [`Step::goal`].
    #[must_use]
    pub fn goal(self) -> &'a str {
        self.text(Field::GOAL).unwrap_or_default()
    }

    /// See [`Step::phase`].
    #[must_use]
    pub fn phase(self) -> Option<&'a str> {
        self.text(Field::PHASE)
    }

    /// See [`Step::inputs`].
    #[must_use]
    pub fn inputs(self) -> Texts<'a> {
        self.texts(Field::INPUTS)
    }

    /// See [`Step::outputs`].
    #[must_use]
    pub fn outputs(self) -> Texts<'a> {
        self.texts(Field::OUTPUTS)
    }

    /// See [`Step::optional_outputs`].
    #[must_use]
    pub fn optional_outputs(self) -> Texts<'a> {
        self.texts(Field::OPTIONAL_OUTPUTS)
    }

    /// See [`Step::after`].
    #[must_use]
    pub fn after(self) -> Texts<'a> {
        self.texts(Field::AFTER)
    }

    /// See [`Step::preconditions`].
    #[must_use]
    pub fn preconditions(self) -> Texts<'a> {
        self.texts(Field::PRECONDITIONS)
    }

    /// See [`Step::on_false`].
    #[must_use]
    pub fn on_false(self) -> OnFalse {
        self.value(Field::ON_FALSE).unwrap_or_default()
    }

    /// See [`Step::condition`].
    #[must_use]
    pub fn condition(self) -> Option<&'a str> {
        self.text(Field::CONDITION)
    }

    /// See [`Step::tags`].
    #[must_use]
    pub fn tags(self) -> Texts<'a> {
        self.texts(Field::TAGS)
    }

    /// See [`Step::acceptance`].
    #[must_use]
    pub fn acceptance(self) -> Vec<Criterion> {
        self.value(Field::ACCEPTANCE).unwrap_or_default()
    }

    /// Whether condition, preconditions and gate of both are equal.
    #[must_use]
    pub fn is_held_like(self, other: CompactStep<'_>) -> bool {
        let is_same = |field| self.field(field) == other.field(field);
        [Field::CONDITION, Field::PRECONDITIONS, Field::GATE].into_iter().all(is_same)
    }

    /// Whether the acceptance criteria of both are equal.
    #[must_use]
    pub fn is_judged_like(self, other: CompactStep<'_>) -> bool {
        self.field(Field::ACCEPTANCE) == other.field(Field::ACCEPTANCE)
    }

    /// Whether the step has acceptance criteria.
    #[must_use]
    pub fn has_acceptance(self) -> bool {
        self.field(Field::ACCEPTANCE).is_some()
    }

    /// See [`Step::retry`].
    #[must_use]
    pub fn retry(self) -> Option<RetryPolicy> {
        self.value(Field::RETRY)
    }

    /// See [`Step::fallback`].
    #[must_use]
    pub fn fallback(self) -> Option<Fallback> {
        self.value(Field::FALLBACK)
    }

    /// See [`Step::idempotent`].
    #[must_use]
    pub fn idempotent(self) -> Option<Idempotence> {
        self.value(Field::IDEMPOTENT)
    }

    /// See [`Step::probe`].
    #[must_use]
    pub fn probe(self) -> Option<&'a str> {
        self.text(Field::PROBE)
    }

    /// See [`Step::timeout_seconds`].
    #[must_use]
    pub fn timeout_seconds(self) -> Option<u32> {
        self.value(Field::TIMEOUT_SECONDS)
    }

    /// See [`Step::estimate_seconds`].
    #[must_use]
    pub fn estimate_seconds(self) -> Option<u32> {
        self.value(Field::ESTIMATE_SECONDS)
    }

    /// See [`Step::repeat_limit`].
    #[must_use]
    pub fn repeat_limit(self) -> Option<u32> {
        self.value(Field::REPEAT_LIMIT)
    }

    /// See [`Step::lease_seconds`].
    #[must_use]
    pub fn lease_seconds(self) -> Option<u32> {
        self.value(Field::LEASE_SECONDS)
    }

    /// See [`Step::cost_estimate`].
    #[must_use]
    pub fn cost_estimate(self) -> Option<Cost> {
        self.value(Field::COST_ESTIMATE)
    }

    /// See [`Step::cost_limit`].
    #[must_use]
    pub fn cost_limit(self) -> Option<Cost> {
        self.value(Field::COST_LIMIT)
    }

    /// See [`Step::priority`].
    #[must_use]
    pub fn priority(self) -> i32 {
        self.value(Field::PRIORITY).unwrap_or_default()
    }

    /// See [`Step::gate`].
    #[must_use]
    pub fn gate(self) -> Option<Gate> {
        self.value(Field::GATE)
    }

    /// Whether the step has a gate.
    #[must_use]
    pub fn has_gate(self) -> bool {
        self.field(Field::GATE).is_some()
    }

    /// See [`Step::extra`].
    #[must_use]
    pub fn extra(self) -> Extra {
        self.value(Field::EXTRA).unwrap_or_default()
    }

    /// See [`Step::changes`].
    #[must_use]
    pub fn changes(self) -> Texts<'a> {
        self.texts(Field::CHANGES)
    }

    /// See [`Step::failure_hints`].
    #[must_use]
    pub fn failure_hints(self) -> BTreeMap<String, FailureClass> {
        self.value(Field::FAILURE_HINTS).unwrap_or_default()
    }

    /// See [`Step::failure_class`].
    #[must_use]
    pub fn failure_class(self) -> Option<&'a str> {
        self.text(Field::FAILURE_CLASS)
    }

    /// Decodes the step.
    #[must_use]
    pub fn decode(self) -> Step {
        let owned = |text: &str| text.to_owned();
        Step {
            id: self.id().to_owned(),
            title: self.title().to_owned(),
            goal: self.goal().to_owned(),
            phase: self.phase().map(owned),
            owner: self.owner().map(owned),
            command: self.text(Field::COMMAND).map(owned),
            inputs: self.inputs().owned(),
            outputs: self.outputs().owned(),
            optional_outputs: self.optional_outputs().owned().into(),
            after: self.after().owned(),
            preconditions: self.preconditions().owned().into(),
            on_false: self.on_false(),
            condition: self.condition().map(owned),
            tools: self.texts(Field::TOOLS).owned().into(),
            tags: self.tags().owned().into(),
            changes: self.changes().owned().into(),
            acceptance: self.acceptance(),
            failure_class: self.failure_class().map(owned),
            failure_hints: self.failure_hints().into(),
            retry: self.retry().map(Box::new),
            fallback: self.fallback().map(Box::new),
            side_effects: self.texts(Field::SIDE_EFFECTS).owned().into(),
            idempotent: self.idempotent(),
            probe: self.probe().map(owned),
            timeout_seconds: self.timeout_seconds(),
            estimate_seconds: self.estimate_seconds(),
            repeat_limit: self.repeat_limit(),
            lease_seconds: self.lease_seconds(),
            cost_estimate: self.cost_estimate(),
            cost_limit: self.cost_limit(),
            priority: self.priority(),
            gate: self.gate().map(Box::new),
            extra: self.extra(),
        }
    }

    fn field(self, Field(bit): Field) -> Option<&'a [u8]> {
        let (has, mut rest) = take_number(self.0)?;
        if has >> bit & 1 == 0 {
            return None;
        }
        for _ in 0..(has & ((1 << bit) - 1)).count_ones() {
            rest = take_bytes(rest)?.1;
        }
        Some(take_bytes(rest)?.0)
    }

    fn text(self, field: Field) -> Option<&'a str> {
        self.field(field).map(text)
    }

    fn texts(self, field: Field) -> Texts<'a> {
        Texts::of(self.field(field).unwrap_or_default())
    }

    fn value<T: DeserializeOwned>(self, field: Field) -> Option<T> {
        serde_json::from_slice(self.field(field)?).ok()
    }
}
