//! Updates accounts and side effects after step events.
//!
//! Invariant: `reserved` is the sum over the attempts in flight, and `estimated` the sum over the
//! lost attempts whose cost is unknown.

use crate::plan::event::receipt::Receipt;
use crate::plan::event::table::StepEvent;
use crate::plan::model::budget::Cost;
use crate::plan::state::account::Account;
use crate::plan::state::run::{Effect, Run};
use crate::plan::value::ids::{AttemptToken, StepNumber};

/// A change of an account. Each pair of costs is the amount removed and the amount added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AccountDelta {
    pub(super) spent: (Cost, Cost),
    pub(super) estimated: (Cost, Cost),
    pub(super) reserved: (Cost, Cost),
    pub(super) attempts: u64,
}

impl Run {
    /// Charges an event. The charge is computed from the state before the event.
    pub(super) fn charge(&mut self, number: StepNumber, event: &StepEvent) -> AccountDelta {
        let delta = self.account_delta(number, event);
        self.account.apply_delta(delta);
        self.update_estimates(number, event);
        delta
    }

    fn account_delta(&self, number: StepNumber, event: &StepEvent) -> AccountDelta {
        let attempt = self.step(number).and_then(|step| step.attempt());
        let reserved = attempt.map_or_else(Cost::default, |attempt| attempt.reserved);
        let nothing = Cost::default();
        match event {
            StepEvent::Dispatched(dispatched) => AccountDelta {
                reserved: (nothing, dispatched.reserved),
                attempts: 1,
                ..AccountDelta::default()
            },
            StepEvent::ReceiptRecorded(recorded) => AccountDelta {
                reserved: (reserved, nothing),
                spent: (nothing, recorded.receipt.cost),
                ..AccountDelta::default()
            },
            // The cost is unknown: charge the reservation as an estimate.
            StepEvent::AttemptLost(_) => AccountDelta {
                reserved: (reserved, nothing),
                spent: (nothing, reserved),
                estimated: (nothing, reserved),
                ..AccountDelta::default()
            },
            StepEvent::ReceiptRefused(refused) => {
                self.late_receipt_delta(refused.token, &refused.receipt)
            }
            StepEvent::CostCorrected(corrected) => {
                let estimate = self.estimate(corrected.token);
                let actual = self.account.spent.minus(self.account.estimated);
                // The caller passes the previous charge, which may be wrong: never refund more than
                // the run has spent.
                let charged = if self.estimates.contains_key(&corrected.token) {
                    estimate
                } else {
                    corrected.charged.at_most(actual)
                };
                AccountDelta {
                    spent: (charged, corrected.cost),
                    estimated: (estimate, nothing),
                    ..AccountDelta::default()
                }
            }
            _ => AccountDelta::default(),
        }
    }

    /// The charge of a late receipt: its result is not used, but its cost was spent.
    fn late_receipt_delta(&self, token: AttemptToken, receipt: &Receipt) -> AccountDelta {
        if !self.estimates.contains_key(&token) {
            return AccountDelta::default();
        }
        let estimate = self.estimate(token);
        let nothing = Cost::default();
        AccountDelta {
            spent: (estimate, receipt.cost),
            estimated: (estimate, nothing),
            ..AccountDelta::default()
        }
    }

    fn estimate(&self, token: AttemptToken) -> Cost {
        self.estimates.get(&token).copied().unwrap_or_default()
    }

    /// Updates the list of attempts with estimated cost.
    fn update_estimates(&mut self, number: StepNumber, event: &StepEvent) {
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

    /// Records side effects that a worker announced (intended) or confirmed (committed).
    pub(super) fn apply_effect(&mut self, seq: u64, number: StepNumber, event: &StepEvent) {
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
                    self.add_effect(number, &intended.key);
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
                        self.add_effect(number, key);
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
    fn add_effect(&mut self, number: StepNumber, key: &str) {
        if let Some(step) = self.steps.get_mut(number.index()) {
            step.change_attempt(|attempt| attempt.effects.insert(key.to_owned()));
        }
    }
}

impl Account {
    /// Applies a change.
    pub(super) fn apply_delta(&mut self, delta: AccountDelta) {
        let change =
            |amount: Cost, (removed, added): (Cost, Cost)| amount.minus(removed).plus(added);
        self.spent = change(self.spent, delta.spent);
        self.estimated = change(self.estimated, delta.estimated);
        self.reserved = change(self.reserved, delta.reserved);
        self.attempts = self.attempts.saturating_add(delta.attempts);
    }
}
