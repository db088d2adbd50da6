//! Events as bytes: the only place that names bincode, and the only one that knows record kinds.
//!
//! Invariants:
//! - A kind's number, and the bytes of each schema of it, never change their meaning; golden
//!   ledgers in `format/` fix them. A new field is a new schema number, decoded beside the old.
//! - Payloads are bincode 1.3 with variable-length integers, a size limit and no trailing bytes;
//!   plans travel as canonical JSON, the form that they are hashed in.
//! - A payload that its kind does not explain is an error, never a missing event.

use std::io;

use bincode::Options as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Codec, NewRecord, PAYLOAD_LENGTH_MAX, SKIPPABLE_KINDS_FROM};
use crate::log::LoggedRecord;
use crate::plan::{Event, RunId, State, StepEvent, StepNumber, StepRecord, canonical};

use super::receipt_codec::{self, InlineRecorded, InlineRefused};
use super::schema;

macro_rules! kinds {
    ($($name:ident = $number:literal $text:literal;)*) => {
        /// What a record's payload is. The numbers are on disk.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each is the event of the same name")]
        pub enum Kind { $($name),* }

        impl Kind {
            /// Every kind, by number.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The number on disk.
            #[must_use]
            pub fn number(self) -> u16 {
                match self { $(Self::$name => $number),* }
            }

            /// The name that people use.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

kinds! {
    RunStarted = 1 "run_started";
    PlanProposed = 2 "plan_proposed";
    PlanSteps = 3 "plan_steps";
    PlanReviewed = 4 "plan_reviewed";
    PlanActivated = 5 "plan_activated";
    PlanVerdict = 6 "plan_verdict";
    VariableSet = 7 "variable_set";
    BarrierChanged = 8 "barrier_changed";
    CapChanged = 9 "cap_changed";
    RunEnded = 10 "run_ended";
    RunReopened = 11 "run_reopened";
    RunPaused = 12 "run_paused";
    RunResumed = 13 "run_resumed";
    BudgetChanged = 14 "budget_changed";
    QuestionAsked = 15 "question_asked";
    QuestionAnswered = 16 "question_answered";
    QuestionExpired = 17 "question_expired";
    ReplanRequested = 18 "replan_requested";
    ReplanWithdrawn = 19 "replan_withdrawn";
    RunForked = 20 "run_forked";
    StepsInherited = 21 "steps_inherited";
    Dispatched = 32 "dispatched";
    LeaseRenewed = 33 "lease_renewed";
    AttemptLost = 34 "attempt_lost";
    ReceiptRecorded = 35 "receipt_recorded";
    ReceiptRefused = 36 "receipt_refused";
    VerdictRecorded = 37 "verdict_recorded";
    Accepted = 38 "accepted";
    FailureDecided = 39 "failure_decided";
    Skipped = 40 "skipped";
    Reopened = 41 "reopened";
    DoubtResolved = 42 "doubt_resolved";
    ConditionJudged = 43 "condition_judged";
    DelayElapsed = 44 "delay_elapsed";
    StepAsked = 45 "step_asked";
    StepAnswered = 46 "step_answered";
    StepQuestionExpired = 47 "step_question_expired";
    EffectIntended = 48 "effect_intended";
    EffectCommitted = 49 "effect_committed";
    CostCorrected = 50 "cost_corrected";
    StepFailed = 51 "step_failed";
    RecoveryNote = 0x8001 "recovery_note";
    RetentionNote = 0x8002 "retention_note";
    SnapshotNote = 0x8004 "snapshot_note";
    Gap = 0x8005 "gap";
}

impl Kind {
    /// The kind with that number.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.number() == number)
    }

    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The kind of an event's record.
    #[must_use]
    pub fn of(event: &Event) -> Self {
        match event {
            Event::RunStarted(_) => Self::RunStarted,
            Event::PlanProposed(_) => Self::PlanProposed,
            Event::PlanSteps(_) => Self::PlanSteps,
            Event::PlanReviewed(_) => Self::PlanReviewed,
            Event::PlanActivated(_) => Self::PlanActivated,
            Event::PlanVerdict(_) => Self::PlanVerdict,
            Event::VariableSet(_) => Self::VariableSet,
            Event::Barrier(_) => Self::BarrierChanged,
            Event::CapChanged(_) => Self::CapChanged,
            Event::RunEnded(_) => Self::RunEnded,
            Event::RunReopened(_) => Self::RunReopened,
            Event::RunPaused(_) => Self::RunPaused,
            Event::RunResumed(_) => Self::RunResumed,
            Event::BudgetChanged(_) => Self::BudgetChanged,
            Event::QuestionAsked(_) => Self::QuestionAsked,
            Event::QuestionAnswered(_) => Self::QuestionAnswered,
            Event::QuestionExpired(_) => Self::QuestionExpired,
            Event::ReplanRequested(_) => Self::ReplanRequested,
            Event::ReplanWithdrawn(_) => Self::ReplanWithdrawn,
            Event::RunForked(_) => Self::RunForked,
            Event::StepsInherited(_) => Self::StepsInherited,
            Event::Step(record) => match &record.event {
                StepEvent::Dispatched(_) => Self::Dispatched,
                StepEvent::LeaseRenewed(_) => Self::LeaseRenewed,
                StepEvent::AttemptLost(_) => Self::AttemptLost,
                StepEvent::ReceiptRecorded(_) => Self::ReceiptRecorded,
                StepEvent::ReceiptRefused(_) => Self::ReceiptRefused,
                StepEvent::VerdictRecorded(_) => Self::VerdictRecorded,
                StepEvent::Accepted(_) => Self::Accepted,
                StepEvent::FailureDecided(_) => Self::FailureDecided,
                StepEvent::Skipped(_) => Self::Skipped,
                StepEvent::Reopened(_) => Self::Reopened,
                StepEvent::DoubtResolved(_) => Self::DoubtResolved,
                StepEvent::ConditionJudged(_) => Self::ConditionJudged,
                StepEvent::DelayElapsed(_) => Self::DelayElapsed,
                StepEvent::Asked(_) => Self::StepAsked,
                StepEvent::Answered(_) => Self::StepAnswered,
                StepEvent::Expired(_) => Self::StepQuestionExpired,
                StepEvent::EffectIntended(_) => Self::EffectIntended,
                StepEvent::EffectCommitted(_) => Self::EffectCommitted,
                StepEvent::CostCorrected(_) => Self::CostCorrected,
                StepEvent::Failed(_) => Self::StepFailed,
            },
        }
    }
}

/// A step event's payload: who it is about, then the event's own fields.
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
    let (kind, schema) = (Kind::of(event), schema::lowest(event));
    let payload = schema::shorten(payload, kind, schema);
    NewRecord { kind: kind.number(), codec, schema, payload }
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
        StepEvent::ReceiptRecorded(event) => match InlineRecorded::of(event) {
            Some(event) => step_bytes(run, step, previous, &event),
            None => step_bytes(run, step, previous, event),
        },
        StepEvent::ReceiptRefused(event) => match InlineRefused::of(event) {
            Some(event) => step_bytes(run, step, previous, &event),
            None => step_bytes(run, step, previous, event),
        },
        StepEvent::VerdictRecorded(event) => step_bytes(run, step, previous, event),
        StepEvent::Accepted(event) => step_bytes(run, step, previous, event),
        StepEvent::FailureDecided(event) => step_bytes(run, step, previous, event),
        StepEvent::Skipped(event) => step_bytes(run, step, previous, event),
        StepEvent::Reopened(event) => step_bytes(run, step, previous, event),
        StepEvent::DoubtResolved(event) => step_bytes(run, step, previous, event),
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

/// The event in a record; `None` for a kind that concerns the log only, or that may be skipped.
///
/// # Errors
/// `Unsupported` for a kind or schema of a newer program, `Corrupt` for an intact payload that
/// is not what its kind says.
pub fn decode(record: &LoggedRecord) -> Result<Option<Event>> {
    let Some(kind) = Kind::from_number(record.kind) else {
        if record.kind >= SKIPPABLE_KINDS_FROM {
            return Ok(None);
        }
        return Err(newer(record, "kind"));
    };
    if kind.number() >= SKIPPABLE_KINDS_FROM {
        return Ok(None);
    }
    if !(1..=schema::newest(kind)).contains(&record.schema) {
        return Err(newer(record, "schema"));
    }
    let payload = record.payload.as_slice();
    let event = match (kind, record.codec) {
        (Kind::PlanProposed, Codec::Json) => json(payload).map(Event::PlanProposed),
        (Kind::PlanSteps, Codec::Json) => json(payload).map(Event::PlanSteps),
        (_, Codec::Bincode) => {
            let payload = schema::lengthen(payload, kind, record.schema);
            decode_bincode(kind, record.schema, &payload)
        }
        _ => Err(format!("a codec that is not used for it ({:?})", record.codec)),
    };
    let event = event.and_then(|event| schema::check(event, record.schema));
    event.map(Some).map_err(|what| {
        Error::new(
            ErrorKind::Corrupt,
            format!(
                "intact record of kind {} whose payload cannot be read: {what}; nothing was \
                 changed, and `ledger inspect` shows what can be read",
                kind.name()
            ),
        )
        .at_seq(record.seq)
    })
}

fn decode_bincode(kind: Kind, schema: u16, payload: &[u8]) -> std::result::Result<Event, String> {
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
        Kind::ReceiptRecorded if schema == receipt_codec::INLINE => {
            of_step(payload, |event: InlineRecorded<'_>| StepEvent::ReceiptRecorded(event.into()))
        }
        Kind::ReceiptRecorded => of_step(payload, StepEvent::ReceiptRecorded),
        Kind::ReceiptRefused if schema == receipt_codec::INLINE => {
            of_step(payload, |event: InlineRefused<'_>| StepEvent::ReceiptRefused(event.into()))
        }
        Kind::ReceiptRefused => of_step(payload, StepEvent::ReceiptRefused),
        Kind::VerdictRecorded => of_step(payload, StepEvent::VerdictRecorded),
        Kind::Accepted => of_step(payload, StepEvent::Accepted),
        Kind::FailureDecided => of_step(payload, StepEvent::FailureDecided),
        Kind::Skipped => of_step(payload, StepEvent::Skipped),
        Kind::Reopened => of_step(payload, StepEvent::Reopened),
        Kind::DoubtResolved => of_step(payload, StepEvent::DoubtResolved),
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
        | Kind::SnapshotNote
        | Kind::Gap => Err("a codec that is not used for it (bincode)".to_owned()),
    }
}

fn of_step<T: DeserializeOwned>(
    payload: &[u8],
    wrap: impl FnOnce(T) -> StepEvent,
) -> std::result::Result<Event, String> {
    let OfStep { run, step, previous, event } = value(payload)?;
    Ok(Event::Step(StepRecord { run, step, previous, event: wrap(event) }))
}

fn value<T: DeserializeOwned>(payload: &[u8]) -> std::result::Result<T, String> {
    options().deserialize(payload).map_err(|error| error.to_string())
}

fn json<T: DeserializeOwned>(payload: &[u8]) -> std::result::Result<T, String> {
    serde_json::from_slice(payload).map_err(|error| error.to_string())
}

fn bytes<T: Serialize>(value: &T) -> Vec<u8> {
    // Without a limit: the log refuses what is too long, and says so.
    bincode::DefaultOptions::new()
        .serialize(value)
        .expect("events are plain structs of integers, strings and vectors, which always encode")
}

/// The limit keeps a length inside a payload from asking for more memory than a record may hold.
fn options() -> impl bincode::Options {
    bincode::DefaultOptions::new().with_limit(u64::from(PAYLOAD_LENGTH_MAX))
}

/// Write the bytes that a state's hash is taken over, piece by piece.
pub(super) fn write_state(out: &mut dyn io::Write, state: &State) -> io::Result<()> {
    bincode::DefaultOptions::new().serialize_into(out, state).map_err(io::Error::other)
}

/// Write one value of a snapshot's body.
///
/// # Errors
/// What the writer says, and a value that is longer than a reader accepts.
pub(super) fn put<T: Serialize + ?Sized>(out: &mut dyn io::Write, value: &T) -> io::Result<()> {
    options().serialize_into(out, value).map_err(unwrapped)
}

/// Read one value of a snapshot's body. No length in it is believed beyond that of a record.
///
/// # Errors
/// What the reader says, and bytes that are no such value.
pub(super) fn take<T: DeserializeOwned>(input: &mut dyn io::Read) -> io::Result<T> {
    options().deserialize_from(input).map_err(unwrapped)
}

fn unwrapped(error: bincode::Error) -> io::Error {
    match *error {
        bincode::ErrorKind::Io(error) => error,
        _ => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}

fn newer(record: &LoggedRecord, what: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "record {what} that this program does not know (kind {}, schema {}); \
             use a newer `ledger`",
            record.kind, record.schema
        ),
    )
    .at_seq(record.seq)
}
