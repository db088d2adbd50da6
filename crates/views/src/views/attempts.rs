//! The attempts at a step, each assembled from the records of the step.

use std::collections::BTreeMap;

use plan_ledger::plan::{AfterLoss, Dispatched, ResolvedOutcome, StepEvent};
use plan_ledger::{
    AttemptToken, Decision, Json, Receipt, Run, StepNumber, StepState, Timestamp, Verdict,
};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::history::HistoryEntry;
use crate::json::TimeJson;

/// What is known of the blob of an output.
#[derive(Debug)]
pub struct KnownBlob {
    /// Its state: ok, missing, or the problem.
    pub state: String,
    /// Its value, or why it cannot be read; `None` if it was not read.
    pub value: Option<Result<Json, String>>,
}

/// What is known of the blobs of outputs, by the record of the receipt.
pub type KnownBlobs = BTreeMap<u64, KnownBlob>;

/// An attempt.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AttemptLine<'a> {
    /// Its number at this step, from 1.
    attempt: Option<u32>,
    /// The state of the blob of its output: ok, missing, or the problem; null if the output is not
    /// a blob.
    blob: Option<&'a str>,
    /// The time of its dispatch.
    dispatched_at: Option<TimeJson>,
    /// The time of the record that decided the outcome.
    ended: Option<TimeJson>,
    /// The record.
    ended_seq: Option<u64>,
    /// Its idempotency key.
    idempotency_key: Option<&'a str>,
    /// The end of its first lease.
    lease_until: Option<TimeJson>,
    /// Its outcome: `in_flight`, reported, accepted, lost, `outcome_unknown`, landed, `did_not_happen`,
    /// `failed_and_retried`, `failed_and_fell_back`, `failed_and_replan`, `failed_and_asked` or failed.
    outcome: &'static str,
    /// Its receipt.
    receipt: Option<&'a Receipt>,
    /// The number of its receipts that came too late.
    receipts_refused: u32,
    /// The renewals of its lease.
    renewals: Vec<RenewalJson>,
    /// The time of its receipt.
    reported_at: Option<TimeJson>,
    /// Its token.
    token: AttemptToken,
    /// The verdicts on it.
    verdicts: Vec<TimedVerdictJson<'a>>,
    /// Its worker.
    worker: Option<&'a str>,
}

/// A renewal of a lease.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct RenewalJson {
    /// The end of the renewed lease.
    lease_until: TimeJson,
    /// The time of the renewal.
    time: TimeJson,
}

/// A verdict and its time.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct TimedVerdictJson<'a> {
    /// The time.
    time: TimeJson,
    /// The verdict.
    verdict: &'a Verdict,
}

/// One attempt, assembled from the records of its step.
#[derive(Debug)]
pub struct AttemptHistory<'a> {
    /// Its token.
    pub token: AttemptToken,
    /// The dispatch and its time; `None` if that record cannot be read.
    pub dispatch: Option<(Timestamp, &'a Dispatched)>,
    /// The receipt and its record.
    pub receipt: Option<(&'a HistoryEntry, &'a Receipt)>,
    renewals: Vec<RenewalJson>,
    verdicts: Vec<TimedVerdictJson<'a>>,
    /// The entry that ended it.
    end: Option<&'a HistoryEntry>,
    refused: u32,
    /// Whether the record of its end was lost before the ledger was salvaged.
    is_end_lost: bool,
}

impl<'a> AttemptHistory<'a> {
    /// The attempts at a step of a run, oldest first. `has_losses`: records were lost before the ledger was salvaged.
    #[must_use]
    pub fn all(
        run: &Run,
        number: StepNumber,
        entries: &'a [HistoryEntry],
        has_losses: bool,
    ) -> Vec<Self> {
        let mut attempts = BTreeMap::new();
        let mut current = None;
        for entry in entries {
            let Some(event) = entry.event() else { continue };
            if matches!(event, StepEvent::Dispatched(_)) {
                current = Some(AttemptToken(entry.record.seq));
            }
            // The event names no attempt but ends the current one.
            let is_current = matches!(event, StepEvent::Accepted(_));
            let token = if is_current { current } else { token_of(entry.record.seq, event) };
            let Some(token) = token else { continue };
            attempts.entry(token).or_insert_with(|| Self::new(token)).add(entry, event);
        }
        let current = run.step(number).and_then(StepState::attempt);
        for attempt in attempts.values_mut() {
            let is_current = current.is_some_and(|current| current.token == attempt.token);
            attempt.is_end_lost = has_losses && attempt.end.is_none() && !is_current;
        }
        attempts.into_values().collect()
    }

    fn new(token: AttemptToken) -> Self {
        Self {
            token,
            dispatch: None,
            receipt: None,
            renewals: Vec::new(),
            verdicts: Vec::new(),
            end: None,
            refused: 0,
            is_end_lost: false,
        }
    }

    /// Adds a record about it.
    fn add(&mut self, entry: &'a HistoryEntry, event: &'a StepEvent) {
        let time = entry.record.time;
        match event {
            StepEvent::Dispatched(event) => self.dispatch = Some((time, event)),
            StepEvent::LeaseRenewed(event) => {
                let lease_until = event.lease_until.into();
                self.renewals.push(RenewalJson { lease_until, time: time.into() });
            }
            StepEvent::ReceiptRecorded(event) => self.receipt = Some((entry, &event.receipt)),
            StepEvent::ReceiptRefused(_) => self.refused += 1,
            StepEvent::VerdictRecorded(event) => {
                let (time, verdict) = (time.into(), &event.verdict);
                self.verdicts.push(TimedVerdictJson { time, verdict });
            }
            StepEvent::AttemptLost(_)
            | StepEvent::FailureDecided(_)
            | StepEvent::OutcomeResolved(_)
            | StepEvent::Accepted(_) => self.end = Some(entry),
            _ => {}
        }
    }

    /// The outcome as a word.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        match self.end.and_then(HistoryEntry::event) {
            Some(StepEvent::Accepted(_)) => "accepted",
            Some(StepEvent::AttemptLost(lost)) => match lost.then {
                AfterLoss::Redispatch => "lost",
                AfterLoss::OutcomeUnknown => "outcome_unknown",
            },
            Some(StepEvent::FailureDecided(decided)) => match decided.decision {
                Decision::Retry | Decision::RetryAt { .. } => "failed_and_retried",
                Decision::Fail | Decision::Abort => "failed",
                Decision::Fallback => "failed_and_fell_back",
                Decision::Replan => "failed_and_replan",
                Decision::Escalate => "failed_and_asked",
                Decision::OutcomeUnknown => "outcome_unknown",
            },
            Some(StepEvent::OutcomeResolved(resolved)) => match resolved.finding {
                ResolvedOutcome::Landed => "landed",
                ResolvedOutcome::DidNotHappen => "did_not_happen",
            },
            None if self.is_end_lost => "lost",
            _ if self.receipt.is_some() => "reported",
            _ => "in_flight",
        }
    }

    /// The line of it.
    #[must_use]
    pub fn line(&self, blobs: &'a KnownBlobs) -> AttemptLine<'a> {
        let Self { token, dispatch, receipt, renewals, verdicts, end, refused, .. } = self;
        let blob = receipt.and_then(|(entry, _)| blobs.get(&entry.record.seq));
        AttemptLine {
            attempt: dispatch.map(|(_, dispatch)| dispatch.attempt),
            blob: blob.map(|blob| blob.state.as_str()),
            dispatched_at: dispatch.map(|(time, _)| time.into()),
            ended: end.map(|end| end.record.time.into()),
            ended_seq: end.map(|end| end.record.seq),
            idempotency_key: dispatch.map(|(_, dispatch)| dispatch.idempotency_key.as_str()),
            lease_until: dispatch.map(|(_, dispatch)| dispatch.lease_until.into()),
            outcome: self.outcome(),
            receipt: receipt.map(|(_, receipt)| receipt),
            receipts_refused: *refused,
            renewals: renewals.clone(),
            reported_at: receipt.map(|(entry, _)| entry.record.time.into()),
            token: *token,
            verdicts: verdicts.clone(),
            worker: dispatch.map(|(_, dispatch)| dispatch.worker.as_str()),
        }
    }
}

/// The attempt that an event names.
fn token_of(seq: u64, event: &StepEvent) -> Option<AttemptToken> {
    match event {
        StepEvent::Dispatched(_) => Some(AttemptToken(seq)),
        StepEvent::LeaseRenewed(event) => Some(event.token),
        StepEvent::AttemptLost(event) => Some(event.token),
        StepEvent::ReceiptRecorded(event) => Some(event.token),
        StepEvent::ReceiptRefused(event) => Some(event.token),
        StepEvent::VerdictRecorded(event) => Some(event.token),
        StepEvent::FailureDecided(event) => Some(event.token),
        StepEvent::OutcomeResolved(event) => Some(event.token),
        StepEvent::EffectIntended(event) => Some(event.token),
        StepEvent::EffectCommitted(event) => Some(event.token),
        StepEvent::CostCorrected(event) => Some(event.token),
        StepEvent::Accepted(_)
        | StepEvent::Skipped(_)
        | StepEvent::Reopened(_)
        | StepEvent::ConditionJudged(_)
        | StepEvent::DelayElapsed(_)
        | StepEvent::StepAsked(_)
        | StepEvent::StepAnswered(_)
        | StepEvent::StepQuestionExpired(_)
        | StepEvent::StepFailed(_) => None,
    }
}
