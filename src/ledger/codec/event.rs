//! Events as records: which kind, codec and payload an event has.
//!
//! Invariants:
//! - A kind's number and its bytes never change their meaning; golden ledgers in `format/` fix them.
//!   A new field needs a new schema number.
//! - Payloads are bincode without trailing bytes; plans are canonical JSON, which is also what
//!   their hash covers.
//! - A payload that does not fit its kind is an error, never a missing event.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Codec, NewRecord, SKIPPABLE_KINDS_FROM};
use crate::log::LoggedRecord;
use crate::plan::{Event, RunId, StepEvent, StepNumber, StepRecord, canonical};

use super::kind::Kind;
use super::values::{bytes, value};

/// The schema number of every kind.
const SCHEMA: u16 = 1;

/// A step event's payload: run, step and previous event, then the event's own fields.
#[derive(Serialize, Deserialize)]
struct OfStep<T> {
    run: RunId,
    step: StepNumber,
    previous: u64,
    event: T,
}

/// The record that holds an event.
#[must_use]
pub fn encode(event: &Event) -> NewRecord {
    let (codec, payload) = match event {
        Event::PlanProposed(event) => (Codec::Json, canonical(event).into_bytes()),
        Event::PlanSteps(event) => (Codec::Json, canonical(event).into_bytes()),
        Event::RunStarted(event) => (Codec::Bincode, bytes(event)),
        Event::PlanReviewed(event) => (Codec::Bincode, bytes(event)),
        Event::PlanActivated(event) => (Codec::Bincode, bytes(event)),
        Event::PlanVerdict(event) => (Codec::Bincode, bytes(event)),
        Event::VariableSet(event) => (Codec::Bincode, bytes(event)),
        Event::Barrier(event) => (Codec::Bincode, bytes(event)),
        Event::CapChanged(event) => (Codec::Bincode, bytes(event)),
        Event::RunEnded(event) => (Codec::Bincode, bytes(event)),
        Event::RunReopened(event) => (Codec::Bincode, bytes(event)),
        Event::RunPaused(event) => (Codec::Bincode, bytes(event)),
        Event::RunResumed(event) => (Codec::Bincode, bytes(event)),
        Event::BudgetChanged(event) => (Codec::Bincode, bytes(event)),
        Event::QuestionAsked(event) => (Codec::Bincode, bytes(event)),
        Event::QuestionAnswered(event) => (Codec::Bincode, bytes(event)),
        Event::QuestionExpired(event) => (Codec::Bincode, bytes(event)),
        Event::ReplanRequested(event) => (Codec::Bincode, bytes(event)),
        Event::ReplanWithdrawn(event) => (Codec::Bincode, bytes(event)),
        Event::RunForked(event) => (Codec::Bincode, bytes(event)),
        Event::StepsInherited(event) => (Codec::Bincode, bytes(event)),
        Event::Step(record) => (Codec::Bincode, encode_step(record)),
    };
    NewRecord { kind: Kind::of(event).number(), codec, schema: SCHEMA, payload }
}

fn step_bytes<T: Serialize>(run: RunId, step: StepNumber, previous: u64, event: &T) -> Vec<u8> {
    bytes(&OfStep { run, step, previous, event })
}

fn encode_step(record: &StepRecord) -> Vec<u8> {
    let StepRecord { run, step, previous, event } = record;
    let (run, step, previous) = (*run, *step, *previous);
    match event {
        StepEvent::Dispatched(event) => step_bytes(run, step, previous, event),
        StepEvent::LeaseRenewed(event) => step_bytes(run, step, previous, event),
        StepEvent::AttemptLost(event) => step_bytes(run, step, previous, event),
        StepEvent::ReceiptRecorded(event) => step_bytes(run, step, previous, event),
        StepEvent::ReceiptRefused(event) => step_bytes(run, step, previous, event),
        StepEvent::VerdictRecorded(event) => step_bytes(run, step, previous, event),
        StepEvent::Accepted(event) => step_bytes(run, step, previous, event),
        StepEvent::FailureDecided(event) => step_bytes(run, step, previous, event),
        StepEvent::Skipped(event) => step_bytes(run, step, previous, event),
        StepEvent::Reopened(event) => step_bytes(run, step, previous, event),
        StepEvent::OutcomeResolved(event) => step_bytes(run, step, previous, event),
        StepEvent::ConditionJudged(event) => step_bytes(run, step, previous, event),
        StepEvent::DelayElapsed(event) => step_bytes(run, step, previous, event),
        StepEvent::Asked(event) => step_bytes(run, step, previous, event),
        StepEvent::Answered(event) => step_bytes(run, step, previous, event),
        StepEvent::Expired(event) => step_bytes(run, step, previous, event),
        StepEvent::EffectIntended(event) => step_bytes(run, step, previous, event),
        StepEvent::EffectCommitted(event) => step_bytes(run, step, previous, event),
        StepEvent::CostCorrected(event) => step_bytes(run, step, previous, event),
        StepEvent::Failed(event) => step_bytes(run, step, previous, event),
    }
}

/// The kind of a record that holds an event, without decoding its payload; `None` for a note, or
/// for an unknown kind that may be skipped.
///
/// # Errors
/// `Unsupported` for a kind or schema of a newer program.
pub(crate) fn kind_of<P>(record: &LoggedRecord<P>) -> Result<Option<Kind>> {
    if record.kind >= SKIPPABLE_KINDS_FROM {
        return Ok(None);
    }
    let kind = Kind::from_number(record.kind).ok_or_else(|| newer(record, "kind"))?;
    if record.schema != SCHEMA {
        return Err(newer(record, "schema"));
    }
    Ok(Some(kind))
}

/// The event in a record; `None` for a note, or for an unknown kind that may be skipped.
///
/// # Errors
/// `Unsupported` for a kind or schema of a newer program; `Corrupt` for an intact payload that does
/// not fit its kind.
pub fn decode<P: AsRef<[u8]>>(record: &LoggedRecord<P>) -> Result<Option<Event>> {
    let Some(kind) = kind_of(record)? else { return Ok(None) };
    let payload = record.payload.as_ref();
    let event = match (kind, record.codec) {
        (Kind::PlanProposed, Codec::Json) => json(payload).map(Event::PlanProposed),
        (Kind::PlanSteps, Codec::Json) => json(payload).map(Event::PlanSteps),
        (_, Codec::Bincode) => decode_bincode(kind, payload),
        _ => Err(wrong_codec(record.codec)),
    };
    event.map(Some).map_err(|what| {
        Error::new(
            ErrorKind::Corrupt,
            format!(
                "intact record of kind {} with an invalid payload: {what}; nothing was changed; \
                 `ledger inspect` shows what can be read",
                kind.name()
            ),
        )
        .at_seq(record.seq)
    })
}

fn decode_bincode(kind: Kind, payload: &[u8]) -> std::result::Result<Event, String> {
    match kind {
        Kind::RunStarted => value(payload).map(Event::RunStarted),
        Kind::PlanReviewed => value(payload).map(Event::PlanReviewed),
        Kind::PlanActivated => value(payload).map(Event::PlanActivated),
        Kind::PlanVerdict => value(payload).map(Event::PlanVerdict),
        Kind::VariableSet => value(payload).map(Event::VariableSet),
        Kind::BarrierChanged => value(payload).map(Event::Barrier),
        Kind::CapChanged => value(payload).map(Event::CapChanged),
        Kind::RunEnded => value(payload).map(Event::RunEnded),
        Kind::RunReopened => value(payload).map(Event::RunReopened),
        Kind::RunPaused => value(payload).map(Event::RunPaused),
        Kind::RunResumed => value(payload).map(Event::RunResumed),
        Kind::BudgetChanged => value(payload).map(Event::BudgetChanged),
        Kind::QuestionAsked => value(payload).map(Event::QuestionAsked),
        Kind::QuestionAnswered => value(payload).map(Event::QuestionAnswered),
        Kind::QuestionExpired => value(payload).map(Event::QuestionExpired),
        Kind::ReplanRequested => value(payload).map(Event::ReplanRequested),
        Kind::ReplanWithdrawn => value(payload).map(Event::ReplanWithdrawn),
        Kind::RunForked => value(payload).map(Event::RunForked),
        Kind::StepsInherited => value(payload).map(Event::StepsInherited),
        Kind::Dispatched => of_step(payload, StepEvent::Dispatched),
        Kind::LeaseRenewed => of_step(payload, StepEvent::LeaseRenewed),
        Kind::AttemptLost => of_step(payload, StepEvent::AttemptLost),
        Kind::ReceiptRecorded => of_step(payload, StepEvent::ReceiptRecorded),
        Kind::ReceiptRefused => of_step(payload, StepEvent::ReceiptRefused),
        Kind::VerdictRecorded => of_step(payload, StepEvent::VerdictRecorded),
        Kind::Accepted => of_step(payload, StepEvent::Accepted),
        Kind::FailureDecided => of_step(payload, StepEvent::FailureDecided),
        Kind::Skipped => of_step(payload, StepEvent::Skipped),
        Kind::Reopened => of_step(payload, StepEvent::Reopened),
        Kind::OutcomeResolved => of_step(payload, StepEvent::OutcomeResolved),
        Kind::ConditionJudged => of_step(payload, StepEvent::ConditionJudged),
        Kind::DelayElapsed => of_step(payload, StepEvent::DelayElapsed),
        Kind::StepAsked => of_step(payload, StepEvent::Asked),
        Kind::StepAnswered => of_step(payload, StepEvent::Answered),
        Kind::StepQuestionExpired => of_step(payload, StepEvent::Expired),
        Kind::EffectIntended => of_step(payload, StepEvent::EffectIntended),
        Kind::EffectCommitted => of_step(payload, StepEvent::EffectCommitted),
        Kind::CostCorrected => of_step(payload, StepEvent::CostCorrected),
        Kind::StepFailed => of_step(payload, StepEvent::Failed),
        Kind::PlanProposed
        | Kind::PlanSteps
        | Kind::RecoveryNote
        | Kind::RetentionNote
        | Kind::BatchKey
        | Kind::Note
        | Kind::SnapshotNote
        | Kind::Gap => Err(wrong_codec(Codec::Bincode)),
    }
}

fn of_step<T: DeserializeOwned>(
    payload: &[u8],
    wrap: impl FnOnce(T) -> StepEvent,
) -> std::result::Result<Event, String> {
    let OfStep { run, step, previous, event } = value(payload)?;
    Ok(Event::Step(StepRecord { run, step, previous, event: wrap(event) }))
}

fn json<T: DeserializeOwned>(payload: &[u8]) -> std::result::Result<T, String> {
    // Validate the whole text at once: a plan has many short strings.
    let text = std::str::from_utf8(payload).map_err(|error| error.to_string())?;
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn wrong_codec(codec: Codec) -> String {
    let word = match codec {
        Codec::Bincode => "bincode",
        Codec::Json => "json",
        Codec::Raw => "raw",
    };
    format!("codec {word} is not used for this kind")
}

fn newer<P>(record: &LoggedRecord<P>, what: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "unknown record {what} (kind {}, schema {}); use a newer `ledger`",
            record.kind, record.schema
        ),
    )
    .at_seq(record.seq)
}
