//! Which fields a step has, and in what order they stand.

use serde::Serialize;

use crate::plan::Step;

use super::bytes::{length_size, number_size, put_bytes, put_length, put_number};

/// A field of a step: its bit among those that say which it has. What most steps have comes first,
/// so that one byte says it.
#[derive(Clone, Copy)]
pub(super) struct Field(pub(super) u32);

impl Field {
    pub(super) const ID: Self = Self(0);
    pub(super) const TITLE: Self = Self(1);
    pub(super) const GOAL: Self = Self(2);
    pub(super) const AFTER: Self = Self(3);
    pub(super) const OUTPUTS: Self = Self(4);
    pub(super) const OWNER: Self = Self(5);
    pub(super) const ACCEPTANCE: Self = Self(6);
    pub(super) const INPUTS: Self = Self(7);
    pub(super) const COMMAND: Self = Self(8);
    pub(super) const PHASE: Self = Self(9);
    pub(super) const PRECONDITIONS: Self = Self(10);
    pub(super) const ON_FALSE: Self = Self(11);
    pub(super) const CONDITION: Self = Self(12);
    pub(super) const TOOLS: Self = Self(13);
    pub(super) const TAGS: Self = Self(14);
    pub(super) const CHANGES: Self = Self(15);
    pub(super) const FAILURE_HINTS: Self = Self(16);
    pub(super) const RETRY: Self = Self(17);
    pub(super) const FALLBACK: Self = Self(18);
    pub(super) const SIDE_EFFECTS: Self = Self(19);
    pub(super) const IDEMPOTENT: Self = Self(20);
    pub(super) const PROBE: Self = Self(21);
    pub(super) const TIMEOUT_SECONDS: Self = Self(22);
    pub(super) const LEASE_SECONDS: Self = Self(23);
    pub(super) const COST_ESTIMATE: Self = Self(24);
    pub(super) const COST_LIMIT: Self = Self(25);
    pub(super) const PRIORITY: Self = Self(26);
    pub(super) const GATE: Self = Self(27);
    pub(super) const EXTRA: Self = Self(28);
}

/// Puts steps together, one after the other.
#[derive(Default)]
pub(super) struct Packer {
    has: u32,
    fields: Vec<u8>,
}

impl Packer {
    /// Writes a step: which fields it has, then each of them, with its length before it; and the
    /// length of all that before them.
    pub(super) fn put(&mut self, out: &mut Vec<u8>, step: &Step) {
        self.has = 0;
        self.fields.clear();
        self.pack(step);
        put_length(out, number_size(self.has.into()) + self.fields.len());
        put_number(out, self.has.into());
        out.extend_from_slice(&self.fields);
    }

    /// Fields in the order of their bits. A new one shows where a step is put together again, which
    /// leaves none out.
    fn pack(&mut self, step: &Step) {
        let Step {
            id, title, goal, after, outputs, owner, acceptance, inputs, command, phase, ..
        } = step;
        let Step { preconditions, on_false, condition, tools, tags, changes, .. } = step;
        let Step { failure_hints, retry, fallback, side_effects, idempotent, probe, .. } = step;
        let Step { timeout_seconds, lease_seconds, cost_estimate, cost_limit, priority, .. } = step;
        let Step { gate, extra, .. } = step;
        self.text(Field::ID, Some(id).filter(|id| !id.is_empty()));
        self.text(Field::TITLE, Some(title).filter(|title| !title.is_empty()));
        self.text(Field::GOAL, Some(goal).filter(|goal| !goal.is_empty()));
        self.texts(Field::AFTER, after);
        self.texts(Field::OUTPUTS, outputs);
        self.text(Field::OWNER, owner.as_ref());
        self.value(Field::ACCEPTANCE, acceptance);
        self.texts(Field::INPUTS, inputs);
        self.text(Field::COMMAND, command.as_ref());
        self.text(Field::PHASE, phase.as_ref());
        self.texts(Field::PRECONDITIONS, preconditions);
        self.value(Field::ON_FALSE, on_false);
        self.text(Field::CONDITION, condition.as_ref());
        self.texts(Field::TOOLS, tools);
        self.texts(Field::TAGS, tags);
        self.texts(Field::CHANGES, changes);
        self.value(Field::FAILURE_HINTS, failure_hints);
        self.value(Field::RETRY, retry);
        self.value(Field::FALLBACK, fallback);
        self.texts(Field::SIDE_EFFECTS, side_effects);
        self.value(Field::IDEMPOTENT, idempotent);
        self.text(Field::PROBE, probe.as_ref());
        self.value(Field::TIMEOUT_SECONDS, timeout_seconds);
        self.value(Field::LEASE_SECONDS, lease_seconds);
        self.value(Field::COST_ESTIMATE, cost_estimate);
        self.value(Field::COST_LIMIT, cost_limit);
        self.value(Field::PRIORITY, priority);
        self.value(Field::GATE, gate);
        self.value(Field::EXTRA, extra);
    }

    fn add(&mut self, Field(bit): Field, bytes: &[u8]) {
        self.has |= 1 << bit;
        put_bytes(&mut self.fields, bytes);
    }

    fn text(&mut self, field: Field, text: Option<&String>) {
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
            let json = serde_json::to_vec(value).expect("what a plan file can say has a JSON text");
            self.add(field, &json);
        }
    }
}
