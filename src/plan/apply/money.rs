//! Applies the effect of step events on accounts and on side effects.
//!
//! Invariant: `reserved` is the sum over the attempts in flight, and `estimated` the sum over the lost
//! attempts whose cost is unknown.

use crate::plan::event::receipt::Receipt;
use crate::plan::event::step_event::StepEvent;
use crate::plan::model::budget::Cost;
use crate::plan::state::account::Account;
use crate::plan::state::run::{Effect, Run};
use crate::plan::value::ids::{AttemptToken, StepNumber};

/// A change of an account: the amounts removed and added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(super) spent: (Cost, Cost),
    pub(super) estimated: (Cost, Cost),
    pub(super) reserved: (Cost, Cost),
    pub(super) attempts: u64,
}

impl Run {
    /// Charges an event, by the state before it.
    pub(super) fn note_money(&mut self, number: StepNumber, event: &StepEvent) -> Entry {
        let entry = self.entry(number, event);
        self.account.enter(entry);
        self.note_estimate(number, event);
        entry
    }

    fn entry(&self, number: StepNumber, event: &StepEvent) -> Entry {
        let attempt = self.step(number).and_then(|step| step.attempt());
        let reserved = attempt.map_or_else(Cost::default, |attempt| attempt.reserved);
        let nothing = Cost::default();
        match event {
            StepEvent::Dispatched(dispatched) => {
                Entry { reserved: (nothing, dispatched.reserved), attempts: 1, ..Entry::default() }
            }
            StepEvent::ReceiptRecorded(recorded) => Entry {
                reserved: (reserved, nothing),
                spent: (nothing, recorded.receipt.cost),
                ..Entry::default()
            },
            // The cost is unknown: charge the reservation as an estimate.
            StepEvent::AttemptLost(_) => Entry {
                reserved: (reserved, nothing),
                spent: (nothing, reserved),
                estimated: (nothing, reserved),
                ..Entry::default()
            },
            StepEvent::ReceiptRefused(refused) => self.late(refused.token, &refused.receipt),
            StepEvent::CostCorrected(corrected) => {
                let estimate = self.estimate(corrected.token);
                let vouched = self.account.spent.minus(self.account.estimated);
                // The previous charge comes from the caller and may be wrong: never take back more than
                // the run has spent.
                let charged = if self.estimates.contains_key(&corrected.token) {
                    estimate
                } else {
                    corrected.charged.at_most(vouched)
                };
                Entry {
                    spent: (charged, corrected.cost),
                    estimated: (estimate, nothing),
                    ..Entry::default()
                }
            }
            _ => Entry::default(),
        }
    }

    /// A late receipt does not count as work, but its cost was spent.
    fn late(&self, token: AttemptToken, receipt: &Receipt) -> Entry {
        if !self.estimates.contains_key(&token) {
            return Entry::default();
        }
        let estimate = self.estimate(token);
        let nothing = Cost::default();
        Entry {
            spent: (estimate, receipt.cost),
            estimated: (estimate, nothing),
            ..Entry::default()
        }
    }

    fn estimate(&self, token: AttemptToken) -> Cost {
        self.estimates.get(&token).copied().unwrap_or_default()
    }

    /// Updates the list of attempts with estimated cost.
    fn note_estimate(&mut self, number: StepNumber, event: &StepEvent) {
        match event {
            StepEvent::AttemptLost(lost) => {
                let attempt = self.step(number).and_then(|step| step.attempt());
                let reserved = attempt.map_or_else(Cost::default, |attempt| attempt.reserved);
                self.estimates.insert(lost.token, reserved);
            }
            StepEvent::ReceiptRefused(refused) => drop(self.estimates.remove(&refused.token)),
            StepEvent::CostCorrected(corrected) => drop(self.estimates.remove(&corrected.token)),
            _ => {}
        }
    }

    /// Records announced and confirmed side effects.
    pub(super) fn note_effect(&mut self, seq: u64, number: StepNumber, event: &StepEvent) {
        match event {
            StepEvent::EffectIntended(intended) => {
                let effect = Effect {
                    step: number,
                    token: intended.token,
                    effect: intended.effect.clone(),
                    committed: 0,
                };
                let known = self.effects.entry(intended.key.clone()).or_insert(effect);
                if known.committed == 0 {
                    known.token = intended.token;
                    self.note_effect_of(number, &intended.key);
                }
            }
            StepEvent::EffectCommitted(committed) => {
                if let Some(effect) = self.effects.get_mut(&committed.key) {
                    effect.committed = seq;
                }
            }
            StepEvent::ReceiptRecorded(recorded) => {
                for key in &recorded.receipt.side_effects {
                    if !self.effects.contains_key(key) {
                        self.note_effect_of(number, key);
                    }
                    let effect = Effect {
                        step: number,
                        token: recorded.token,
                        effect: key.clone(),
                        committed: seq,
                    };
                    let known = self.effects.entry(key.clone()).or_insert(effect);
                    if known.committed == 0 {
                        known.committed = seq;
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds a side effect to the attempt of a step.
    fn note_effect_of(&mut self, number: StepNumber, key: &str) {
        if let Some(step) = self.steps.get_mut(number.index()) {
            step.change_attempt(|attempt| attempt.effects.insert(key.to_owned()));
        }
    }
}

impl Account {
    /// Applies a change.
    pub(super) fn enter(&mut self, entry: Entry) {
        let change = |held: Cost, (gone, new): (Cost, Cost)| held.minus(gone).plus(new);
        self.spent = change(self.spent, entry.spent);
        self.estimated = change(self.estimated, entry.estimated);
        self.reserved = change(self.reserved, entry.reserved);
        self.attempts = self.attempts.saturating_add(entry.attempts);
    }
}
