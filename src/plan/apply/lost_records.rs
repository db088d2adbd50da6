//! Adapts a step to its next event when the records before this event were lost.
//!
//! A salvaged ledger lacks records (`format/export.md`, section 3). The next event of a step is
//! then authoritative, even if it does not fit the status that follows from the remaining records.
//! [`Run::catch_up`] brings the step to the status and the attempt that the event presupposes; then
//! the event is applied like any other.
//!
//! Invariants:
//! - `catch_up` is called only after a recorded loss, and does nothing if the event fits.
//! - An attempt that `catch_up` ends was lost. If it was in flight, its reservation is charged as
//!   an estimate.
//! - Statuses and derived data change through the same functions as elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::money::AccountDelta;
use super::transition::transition;
use crate::plan::event::question::QuestionSubject;
use crate::plan::event::step_status::StepStatus;
use crate::plan::event::table::StepEvent;
use crate::plan::model::budget::Cost;
use crate::plan::state::run::Run;
use crate::plan::state::step_state::{Attempt, StepState};
use crate::plan::value::ids::{AttemptToken, StepNumber, Timestamp};
use crate::plan::value::token::SecretHash;

/// The worker of an attempt whose dispatch was lost.
const UNKNOWN_WORKER: &str = "unknown";

/// The attempt that an event presupposes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presupposed {
    /// No attempt.
    Nothing,
    /// The one that the step has.
    Same,
    /// This one.
    Attempt(AttemptToken),
}

impl Run {
    /// Brings a step to the status that the event presupposes, and returns the change of the
    /// account.
    pub(super) fn catch_up(
        &mut self,
        time: Timestamp,
        number: StepNumber,
        event: &StepEvent,
    ) -> AccountDelta {
        let Some(step) = self.steps.get_mut(number.index()) else { return AccountDelta::default() };
        if let StepEvent::Dispatched(dispatched) = event {
            // The dispatches of earlier attempts may be lost.
            step.attempts = step.attempts.max(dispatched.attempt.saturating_sub(1));
        }
        let is_allowed = transition(step.status, event.trigger()).is_some();
        let token = event.expected_attempt();
        if is_allowed && token.is_none_or(|token| step.has_attempt(token)) {
            return AccountDelta::default();
        }
        let Some((status, attempt)) = presupposed(step, event) else {
            return AccountDelta::default();
        };
        let from = step.status;
        let keeps = match attempt {
            Presupposed::Nothing => false,
            Presupposed::Same => true,
            Presupposed::Attempt(token) => step.has_attempt(token),
        };
        let delta = if keeps && status == StepStatus::Dispatched {
            AccountDelta::default()
        } else {
            self.charge_lost_attempt(number)
        };
        let begun = self.replace_attempt(time, number, keeps, attempt);
        self.set_status(number, status);
        if from.is_closed() && !status.is_closed() {
            self.open_dependents(number);
        }
        if attempt == Presupposed::Nothing {
            self.close_question_of(number);
            if let Some(step) = self.steps.get_mut(number.index()) {
                step.change_hold(|hold| (hold.delay, hold.answer) = (None, None));
            }
        }
        AccountDelta { attempts: u64::from(begun), ..delta }
    }

    /// Charges the reservation of an attempt in flight whose receipt was lost.
    fn charge_lost_attempt(&mut self, number: StepNumber) -> AccountDelta {
        let step = self.steps.get_mut(number.index());
        let Some(step) = step.filter(|step| step.status == StepStatus::Dispatched) else {
            return AccountDelta::default();
        };
        let charged =
            step.change_attempt(|attempt| (attempt.token, std::mem::take(&mut attempt.reserved)));
        let Some((token, reserved)) = charged else { return AccountDelta::default() };
        self.estimates.insert(token, reserved);
        let nothing = Cost::default();
        let delta = AccountDelta {
            reserved: (reserved, nothing),
            spent: (nothing, reserved),
            estimated: (nothing, reserved),
            ..AccountDelta::default()
        };
        self.account.apply_delta(delta);
        delta
    }

    /// Replaces the attempt of a step, and returns whether an attempt began that was not known.
    fn replace_attempt(
        &mut self,
        time: Timestamp,
        number: StepNumber,
        keeps: bool,
        attempt: Presupposed,
    ) -> bool {
        let Some(step) = self.steps.get_mut(number.index()).filter(|_| !keeps) else {
            return false;
        };
        step.take_attempt();
        step.accept(None);
        let Presupposed::Attempt(token) = attempt else { return false };
        step.attempts = step.attempts.saturating_add(1);
        let attempt = Box::new(Attempt {
            token,
            worker: UNKNOWN_WORKER.into(),
            dispatched: time,
            lease_until: time,
            reserved: Cost::default(),
            receipt: None,
            verdicts: BTreeMap::new(),
            effects: BTreeSet::new(),
            // The hash was lost with the dispatch: no token proves this attempt.
            secret_hash: SecretHash::default(),
            process: None,
            second_owner: None,
        });
        step.change(|detail| detail.attempt = Some(attempt));
        self.account.attempts = self.account.attempts.saturating_add(1);
        true
    }

    /// Lets the dependents of a step that is no longer closed wait for it again.
    fn open_dependents(&mut self, number: StepNumber) {
        let links = Arc::clone(&self.links);
        for dependent in links.dependents(number) {
            if let Some(step) = self.steps.get_mut(dependent.index()) {
                step.unmet = step.unmet.saturating_add(1);
            }
            self.refresh_status(*dependent);
        }
    }
}

/// The status and the attempt that an event presupposes of a step that it does not fit; `None` if the
/// event says nothing about them.
fn presupposed(step: &StepState, event: &StepEvent) -> Option<(StepStatus, Presupposed)> {
    use Presupposed::{Attempt, Nothing, Same};
    if matches!(step.status, StepStatus::Removed | StepStatus::Cancelled) {
        return None;
    }
    Some(match event {
        StepEvent::Dispatched(_) => (StepStatus::Ready, Nothing),
        StepEvent::LeaseRenewed(renewed) => (StepStatus::Dispatched, Attempt(renewed.token)),
        StepEvent::AttemptLost(lost) => (StepStatus::Dispatched, Attempt(lost.token)),
        StepEvent::ReceiptRecorded(recorded) => (StepStatus::Dispatched, Attempt(recorded.token)),
        StepEvent::EffectIntended(effect) => (StepStatus::Dispatched, Attempt(effect.token)),
        StepEvent::EffectCommitted(effect) => (StepStatus::Dispatched, Attempt(effect.token)),
        StepEvent::FailureDecided(decided) => (StepStatus::Reported, Attempt(decided.token)),
        StepEvent::OutcomeResolved(resolved) => {
            (StepStatus::OutcomeUnknown, Attempt(resolved.token))
        }
        StepEvent::Accepted(_) | StepEvent::Skipped(_) => match step.status {
            StepStatus::Dispatched => (StepStatus::Reported, Same),
            StepStatus::Failed => (StepStatus::Waiting, Nothing),
            _ => return None,
        },
        StepEvent::StepFailed(_) | StepEvent::ConditionJudged(_) | StepEvent::DelayElapsed(_) => {
            (StepStatus::Waiting, Nothing)
        }
        StepEvent::StepAsked(asked) => match asked.subject {
            QuestionSubject::Failure { .. } => (StepStatus::Gated, Same),
            _ => (StepStatus::Waiting, Nothing),
        },
        StepEvent::Reopened(_) => (StepStatus::Failed, Nothing),
        // Without its receipt, an attempt is not judged: the decision that follows says how it ended.
        StepEvent::VerdictRecorded(_)
        | StepEvent::StepAnswered(_)
        | StepEvent::StepQuestionExpired(_)
        | StepEvent::ReceiptRefused(_)
        | StepEvent::CostCorrected(_) => return None,
    })
}
