//! Which fields a step has, and in what order they stand.

use serde::Serialize;

use crate::plan::Step;

use super::bytes::{put_bytes, put_number};

/// A field of a step: its bit among those that say which it has. What most steps have comes first,
/// so that one byte says it.
#[derive(Clone, Copy)]
pub(super) struct Field(pub(super) u32);

pub(super) const ID: Field = Field(0);
pub(super) const TITLE: Field = Field(1);
pub(super) const GOAL: Field = Field(2);
pub(super) const AFTER: Field = Field(3);
pub(super) const OUTPUTS: Field = Field(4);
pub(super) const OWNER: Field = Field(5);
pub(super) const ACCEPTANCE: Field = Field(6);
pub(super) const INPUTS: Field = Field(7);
pub(super) const COMMAND: Field = Field(8);
pub(super) const PHASE: Field = Field(9);
pub(super) const PRECONDITIONS: Field = Field(10);
pub(super) const ON_FALSE: Field = Field(11);
pub(super) const CONDITION: Field = Field(12);
pub(super) const TOOLS: Field = Field(13);
pub(super) const TAGS: Field = Field(14);
pub(super) const CHANGES: Field = Field(15);
pub(super) const FAILURE_HINTS: Field = Field(16);
pub(super) const RETRY: Field = Field(17);
pub(super) const FALLBACK: Field = Field(18);
pub(super) const SIDE_EFFECTS: Field = Field(19);
pub(super) const IDEMPOTENT: Field = Field(20);
pub(super) const PROBE: Field = Field(21);
pub(super) const TIMEOUT_SECONDS: Field = Field(22);
pub(super) const LEASE_SECONDS: Field = Field(23);
pub(super) const COST_ESTIMATE: Field = Field(24);
pub(super) const COST_LIMIT: Field = Field(25);
pub(super) const PRIORITY: Field = Field(26);
pub(super) const GATE: Field = Field(27);
pub(super) const EXTRA: Field = Field(28);

/// A step: which fields it has, then each of them, with its length before it.
pub(super) fn pack(step: &Step) -> Vec<u8> {
    let mut packer = Packer::default();
    packer.pack(step);
    let mut packed = Vec::with_capacity(packer.fields.len() + NUMBER_MAX);
    put_number(&mut packed, packer.has.into());
    packed.append(&mut packer.fields);
    packed
}

/// A number takes no more bytes.
const NUMBER_MAX: usize = 10;

/// Puts a step together.
#[derive(Default)]
struct Packer {
    has: u32,
    fields: Vec<u8>,
}

impl Packer {
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
        self.text(ID, Some(id).filter(|id| !id.is_empty()));
        self.text(TITLE, Some(title).filter(|title| !title.is_empty()));
        self.text(GOAL, Some(goal).filter(|goal| !goal.is_empty()));
        self.texts(AFTER, after);
        self.texts(OUTPUTS, outputs);
        self.text(OWNER, owner.as_ref());
        self.value(ACCEPTANCE, acceptance);
        self.texts(INPUTS, inputs);
        self.text(COMMAND, command.as_ref());
        self.text(PHASE, phase.as_ref());
        self.texts(PRECONDITIONS, preconditions);
        self.value(ON_FALSE, on_false);
        self.text(CONDITION, condition.as_ref());
        self.texts(TOOLS, tools);
        self.texts(TAGS, tags);
        self.texts(CHANGES, changes);
        self.value(FAILURE_HINTS, failure_hints);
        self.value(RETRY, retry);
        self.value(FALLBACK, fallback);
        self.texts(SIDE_EFFECTS, side_effects);
        self.value(IDEMPOTENT, idempotent);
        self.text(PROBE, probe.as_ref());
        self.value(TIMEOUT_SECONDS, timeout_seconds);
        self.value(LEASE_SECONDS, lease_seconds);
        self.value(COST_ESTIMATE, cost_estimate);
        self.value(COST_LIMIT, cost_limit);
        self.value(PRIORITY, priority);
        self.value(GATE, gate);
        self.value(EXTRA, extra);
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
            let mut list = Vec::new();
            texts.iter().for_each(|text| put_bytes(&mut list, text.as_bytes()));
            self.add(field, &list);
        }
    }

    fn value<T: Default + PartialEq + Serialize>(&mut self, field: Field, value: &T) {
        if *value != T::default() {
            let json = serde_json::to_vec(value).expect("what a plan file can say has a JSON text");
            self.add(field, &json);
        }
    }
}
