//! The attempts at a step, each assembled from the records of the step.

use std::collections::BTreeMap;

use plan_ledger::log::LoggedRecord;
use plan_ledger::plan::{AfterLoss, Dispatched, ResolvedOutcome, StepEvent, UtcTime};
use plan_ledger::{AttemptToken, Decision, Json, Receipt, Run, StepNumber, StepState, Verdict};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::history::HistoryEntry;

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
    pub(super) dispatched_at: Option<UtcTime>,
    /// The time of the record that decided the outcome.
    ended: Option<UtcTime>,
    /// The record.
    ended_seq: Option<u64>,
    /// Its idempotency key.
    idempotency_key: Option<&'a str>,
    /// The end of its first lease.
    lease_until: Option<UtcTime>,
    /// Its outcome: `in_flight`, reported, accepted, lost, `outcome_unknown`, landed, `did_not_happen`,
    /// `failed_and_retried`, `failed_and_fell_back`, `failed_and_replan`, `failed_and_asked` or failed.
    pub(super) outcome: &'static str,
    /// Its receipt.
    pub receipt: Option<&'a Receipt>,
    /// The number of its receipts that came too late.
    receipts_refused: u32,
    /// The renewals of its lease.
    renewals: Vec<RenewalJson>,
    /// The time of its receipt.
    reported_at: Option<UtcTime>,
    /// Its token.
    pub token: AttemptToken,
    /// The verdicts on it.
    verdicts: Vec<TimedVerdictJson<'a>>,
    /// Its worker.
    worker: Option<&'a str>,
    /// Its dispatch; `None` if that record cannot be read.
    #[serde(skip)]
    pub dispatch: Option<&'a Dispatched>,
}

/// A renewal of a lease.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct RenewalJson {
    /// The end of the renewed lease.
    lease_until: UtcTime,
    /// The time of the renewal.
    time: UtcTime,
}

/// A verdict and its time.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct TimedVerdictJson<'a> {
    /// The time.
    time: UtcTime,
    /// The verdict.
    verdict: &'a Verdict,
}

impl<'a> AttemptLine<'a> {
    /// The attempts at a step of a run, oldest first. `has_losses`: records were lost before the ledger was salvaged.
    #[must_use]
    pub fn all(
        run: &Run,
        number: StepNumber,
        entries: &'a [HistoryEntry],
        blobs: &'a KnownBlobs,
        has_losses: bool,
    ) -> Vec<Self> {
        let mut attempts: BTreeMap<AttemptToken, Self> = BTreeMap::new();
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
            let attempt = attempts.entry(token).or_insert_with(|| Self::new(token));
            attempt.add(&entry.record, event, blobs);
        }
        let current = run.step(number).and_then(StepState::attempt).map(|attempt| attempt.token);
        for attempt in attempts.values_mut() {
            let is_over = has_losses && current != Some(attempt.token);
            if is_over && attempt.ended.is_none() {
                attempt.outcome = "lost";
            }
        }
        attempts.into_values().collect()
    }

    fn new(token: AttemptToken) -> Self {
        Self {
            attempt: None,
            blob: None,
            dispatched_at: None,
            ended: None,
            ended_seq: None,
            idempotency_key: None,
            lease_until: None,
            outcome: "in_flight",
            receipt: None,
            receipts_refused: 0,
            renewals: Vec::new(),
            reported_at: None,
            token,
            verdicts: Vec::new(),
            worker: None,
            dispatch: None,
        }
    }

    /// Adds a record about it.
    fn add(&mut self, record: &LoggedRecord, event: &'a StepEvent, blobs: &'a KnownBlobs) {
        let time = UtcTime::from(record.time);
        match event {
            StepEvent::Dispatched(event) => {
                self.attempt = Some(event.attempt);
                self.dispatch = Some(event);
                self.dispatched_at = Some(time);
                self.idempotency_key = Some(&event.idempotency_key);
                self.lease_until = Some(event.lease_until.into());
                self.worker = Some(&event.worker);
            }
            StepEvent::LeaseRenewed(event) => {
                self.renewals.push(RenewalJson { lease_until: event.lease_until.into(), time });
            }
            StepEvent::ReceiptRecorded(event) => {
                self.blob = blobs.get(&record.seq).map(|blob| blob.state.as_str());
                self.receipt = Some(&event.receipt);
                self.reported_at = Some(time);
            }
            StepEvent::ReceiptRefused(_) => self.receipts_refused += 1,
            StepEvent::VerdictRecorded(event) => {
                self.verdicts.push(TimedVerdictJson { time, verdict: &event.verdict });
            }
            _ => {}
        }
        if let Some(outcome) = outcome(event) {
            self.ended = Some(record.time.into());
            self.ended_seq = Some(record.seq);
            self.outcome = outcome;
        } else if self.ended.is_none() && self.receipt.is_some() {
            self.outcome = "reported";
        }
    }
}

/// The outcome that an event decides, as a word.
fn outcome(event: &StepEvent) -> Option<&'static str> {
    Some(match event {
        StepEvent::Accepted(_) => "accepted",
        StepEvent::AttemptLost(lost) => match lost.then {
            AfterLoss::Redispatch => "lost",
            AfterLoss::OutcomeUnknown => "outcome_unknown",
        },
        StepEvent::FailureDecided(decided) => match decided.decision {
            Decision::Retry | Decision::RetryAt { .. } => "failed_and_retried",
            Decision::Fail | Decision::Abort => "failed",
            Decision::Fallback => "failed_and_fell_back",
            Decision::Replan => "failed_and_replan",
            Decision::Escalate => "failed_and_asked",
            Decision::OutcomeUnknown => "outcome_unknown",
        },
        StepEvent::OutcomeResolved(resolved) => match resolved.finding {
            ResolvedOutcome::Landed => "landed",
            ResolvedOutcome::DidNotHappen => "did_not_happen",
        },
        _ => return None,
    })
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
