//! The fields of a compact step, and its encoder.

use serde::Serialize;

use super::bytes::{length_size, number_size, put_bytes, put_length, put_number};
use crate::plan::model::step::Step;

/// A field of a step: its bit in the presence mask. Frequent fields come first, so that the mask of
/// most steps takes one byte.
#[derive(Clone, Copy)]
pub(crate) struct Field(pub(crate) u32);

impl Field {
    pub(crate) const ID: Self = Self(0);
    pub(crate) const TITLE: Self = Self(1);
    pub(crate) const GOAL: Self = Self(2);
    pub(crate) const AFTER: Self = Self(3);
    pub(crate) const OUTPUTS: Self = Self(4);
    pub(crate) const OWNER: Self = Self(5);
    pub(crate) const ACCEPTANCE: Self = Self(6);
    pub(crate) const INPUTS: Self = Self(7);
    pub(crate) const COMMAND: Self = Self(8);
    pub(crate) const PHASE: Self = Self(9);
    pub(crate) const PRECONDITIONS: Self = Self(10);
    pub(crate) const ON_FALSE: Self = Self(11);
    pub(crate) const CONDITION: Self = Self(12);
    pub(crate) const TOOLS: Self = Self(13);
    pub(crate) const TAGS: Self = Self(14);
    pub(crate) const CHANGES: Self = Self(15);
    pub(crate) const FAILURE_HINTS: Self = Self(16);
    pub(crate) const RETRY: Self = Self(17);
    pub(crate) const FALLBACK: Self = Self(18);
    pub(crate) const SIDE_EFFECTS: Self = Self(19);
    pub(crate) const IDEMPOTENT: Self = Self(20);
    pub(crate) const PROBE: Self = Self(21);
    pub(crate) const TIMEOUT_SECONDS: Self = Self(22);
    pub(crate) const LEASE_SECONDS: Self = Self(23);
    pub(crate) const COST_ESTIMATE: Self = Self(24);
    pub(crate) const COST_LIMIT: Self = Self(25);
    pub(crate) const PRIORITY: Self = Self(26);
    pub(crate) const GATE: Self = Self(27);
    pub(crate) const EXTRA: Self = Self(28);
    pub(crate) const OPTIONAL_OUTPUTS: Self = Self(29);
    pub(crate) const ESTIMATE_SECONDS: Self = Self(30);
    pub(crate) const FAILURE_CLASS: Self = Self(31);
    pub(crate) const REPEAT_LIMIT: Self = Self(32);
}

/// Encodes steps.
#[derive(Default)]
pub(crate) struct StepEncoder {
    has: u64,
    fields: Vec<u8>,
}

impl StepEncoder {
    /// Appends a step: its length, the presence mask, then each field with its length.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, step: &Step) {
        self.has = 0;
        self.fields.clear();
        self.encode(step);
        put_length(out, number_size(self.has) + self.fields.len());
        put_number(out, self.has);
        out.extend_from_slice(&self.fields);
    }

    /// Encodes the fields in the order of their bits. The decoder builds a `Step` from all fields,
    /// so the compiler reports a missing one.
    fn encode(&mut self, step: &Step) {
        let Step {
            id, title, goal, after, outputs, owner, acceptance, inputs, command, phase, ..
        } = step;
        let Step { preconditions, on_false, condition, tools, tags, changes, .. } = step;
        let Step { failure_hints, retry, fallback, side_effects, idempotent, probe, .. } = step;
        let Step { timeout_seconds, lease_seconds, cost_estimate, cost_limit, priority, .. } = step;
        let Step {
            gate,
            extra,
            optional_outputs,
            failure_class,
            estimate_seconds,
            repeat_limit,
            ..
        } = step;
        self.text(Field::ID, Some(id.as_str()).filter(|id| !id.is_empty()));
        self.text(Field::TITLE, Some(title.as_str()).filter(|title| !title.is_empty()));
        self.text(Field::GOAL, Some(goal.as_str()).filter(|goal| !goal.is_empty()));
        self.texts(Field::AFTER, after);
        self.texts(Field::OUTPUTS, outputs);
        self.text(Field::OWNER, owner.as_deref());
        self.value(Field::ACCEPTANCE, acceptance);
        self.texts(Field::INPUTS, inputs);
        self.text(Field::COMMAND, command.as_deref());
        self.text(Field::PHASE, phase.as_deref());
        self.texts(Field::PRECONDITIONS, preconditions);
        self.value(Field::ON_FALSE, on_false);
        self.text(Field::CONDITION, condition.as_deref());
        self.texts(Field::TOOLS, tools);
        self.texts(Field::TAGS, tags);
        self.texts(Field::CHANGES, changes);
        self.value(Field::FAILURE_HINTS, failure_hints);
        self.value(Field::RETRY, retry);
        self.value(Field::FALLBACK, fallback);
        self.texts(Field::SIDE_EFFECTS, side_effects);
        self.value(Field::IDEMPOTENT, idempotent);
        self.text(Field::PROBE, probe.as_deref());
        self.value(Field::TIMEOUT_SECONDS, timeout_seconds);
        self.value(Field::LEASE_SECONDS, lease_seconds);
        self.value(Field::COST_ESTIMATE, cost_estimate);
        self.value(Field::COST_LIMIT, cost_limit);
        self.value(Field::PRIORITY, priority);
        self.value(Field::GATE, gate);
        self.value(Field::EXTRA, extra);
        self.texts(Field::OPTIONAL_OUTPUTS, optional_outputs);
        self.value(Field::ESTIMATE_SECONDS, estimate_seconds);
        self.text(Field::FAILURE_CLASS, failure_class.as_deref());
        self.value(Field::REPEAT_LIMIT, repeat_limit);
    }

    fn add(&mut self, Field(bit): Field, bytes: &[u8]) {
        self.has |= 1 << bit;
        put_bytes(&mut self.fields, bytes);
    }

    fn text(&mut self, field: Field, text: Option<&str>) {
        if let Some(text) = text {
            self.add(field, text.as_bytes());
        }
    }

    fn texts(&mut self, field: Field, texts: &[String]) {
        if !texts.is_empty() {
            self.has |= 1 << field.0;
            let size = |text: &String| length_size(text.len()) + text.len();
            put_length(&mut self.fields, texts.iter().map(size).sum());
            for text in texts {
                put_bytes(&mut self.fields, text.as_bytes());
            }
        }
    }

    fn value<T: Default + PartialEq + Serialize>(&mut self, field: Field, value: &T) {
        if *value != T::default() {
            let json = serde_json::to_vec(value).expect("every field of a plan serializes to JSON");
            self.add(field, &json);
        }
    }
}
