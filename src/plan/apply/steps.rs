//! What a step event changes in its step.

use std::collections::BTreeMap;

use crate::plan::settle::{failure_of, has_consequence};
use crate::plan::transition::{Next, transition};
use crate::plan::{
    AfterLoss, Attempt, AttemptToken, Dispatched, Finding, Micros, Run, StepEvent, StepNumber,
    StepState, Verdict,
};

impl Run {
    pub(super) fn apply_step(
        &mut self,
        seq: u64,
        time: Micros,
        number: StepNumber,
        event: &StepEvent,
    ) {
        let Some(step) = self.steps.get_mut(number.index()) else { return };
        step.last_seq = seq;
        let Some(next) = transition(step.status, event.trigger()) else { return };
        if event.attempt().is_some_and(|token| !step.has_attempt(token)) {
            return;
        }
        self.note(seq, time, number, event);
        match next {
            Next::Same => {}
            Next::Open => self.shift(number, self.open_status(number)),
            Next::To(status) => self.shift(number, status),
        }
        if has_consequence(self, number) {
            self.due.insert(number);
        } else {
            self.due.remove(&number);
        }
    }

    /// Writes down what the event says, all but the status.
    fn note(&mut self, seq: u64, time: Micros, number: StepNumber, event: &StepEvent) {
        let failure = match event {
            StepEvent::FailureDecided(_) => failure_of(self, number),
            _ => None,
        };
        let Some(step) = self.steps.get_mut(number.index()) else { return };
        match event {
            StepEvent::Dispatched(dispatched) => step.begin(seq, time, dispatched),
            StepEvent::LeaseRenewed(renewed) => {
                step.with_attempt(|attempt| attempt.lease_until = renewed.lease_until);
            }
            StepEvent::AttemptLost(lost) => {
                if lost.then == AfterLoss::DealAgain {
                    step.attempt = None;
                }
            }
            StepEvent::ReceiptRecorded(recorded) => {
                step.with_attempt(|attempt| attempt.receipt = Some(recorded.receipt.clone()));
                let cost = recorded.receipt.cost;
                self.spent.money_micros = self.spent.money_micros.saturating_add(cost.money_micros);
                self.spent.tokens = self.spent.tokens.saturating_add(cost.tokens);
            }
            StepEvent::ReceiptRefused(_) => {}
            StepEvent::VerdictRecorded(judged) => {
                step.with_attempt(|attempt| attempt.judge(&judged.verdict));
            }
            StepEvent::Accepted(accepted) => {
                step.accepted = Some(accepted.basis.clone());
                step.last_failure = None;
                step.attempt = None;
            }
            StepEvent::FailureDecided(decided) => {
                let message = failure.map_or_else(|| decided.reason.clone(), |(_, what)| what);
                step.last_failure = Some((decided.class, message));
                step.failures = step.failures.saturating_add(1);
                step.attempt = None;
            }
            StepEvent::Skipped(_) => step.attempt = None,
            StepEvent::Reopened(_) => step.failures = 0,
            StepEvent::DoubtResolved(doubt) => {
                if doubt.finding == Finding::DidNotHappen {
                    step.attempt = None;
                }
            }
        }
    }
}

impl StepState {
    fn has_attempt(&self, token: AttemptToken) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| attempt.token == token)
    }

    fn with_attempt(&mut self, change: impl FnOnce(&mut Attempt)) {
        if let Some(attempt) = &mut self.attempt {
            change(attempt);
        }
    }

    fn begin(&mut self, seq: u64, time: Micros, dispatched: &Dispatched) {
        self.attempts = self.attempts.saturating_add(1);
        self.attempt = Some(Attempt {
            token: AttemptToken(seq),
            worker: dispatched.worker.clone(),
            dispatched: time,
            lease_until: dispatched.lease_until,
            receipt: None,
            verdicts: BTreeMap::new(),
        });
    }
}

impl Attempt {
    fn judge(&mut self, verdict: &Verdict) {
        self.verdicts.entry(verdict.criterion).or_insert_with(|| verdict.clone());
    }
}

impl StepEvent {
    /// The attempt that must be the step's current one for the event to count.
    fn attempt(&self) -> Option<AttemptToken> {
        match self {
            Self::LeaseRenewed(renewed) => Some(renewed.token),
            Self::AttemptLost(lost) => Some(lost.token),
            Self::ReceiptRecorded(recorded) => Some(recorded.token),
            Self::VerdictRecorded(judged) => Some(judged.token),
            Self::FailureDecided(decided) => Some(decided.token),
            Self::DoubtResolved(doubt) => Some(doubt.token),
            // The first makes an attempt, and the others are about the step.
            Self::Dispatched(_)
            | Self::ReceiptRefused(_)
            | Self::Accepted(_)
            | Self::Skipped(_)
            | Self::Reopened(_) => None,
        }
    }
}
