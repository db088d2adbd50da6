//! Events as records: the kind, codec and payload of each event.
//!
//! Invariants:
//! - A kind's number and its bytes never change their meaning; golden ledgers in `format/` fix them.
//!   A new field needs a new schema number.
//! - Payloads are bincode without trailing bytes; plans are canonical JSON, and their hash covers
//!   the same bytes.
//! - A payload that does not fit its kind is an error, never a missing event.

use serde::de::DeserializeOwned;

use crate::error::{Advice, Error, ErrorKind, Result};
use crate::format::{Codec, NewRecord, SKIPPABLE_KINDS_FROM, detach};
use crate::log::LoggedRecord;
use crate::plan::{Event, StepEvent, StepRecord, canonical, with_events};

use super::detached;
use super::kind::Kind;
use super::values::{bytes, value};

/// The schema number of every kind.
const SCHEMA: u16 = 1;

macro_rules! define_codec {
    (
        ledger { $(
            $(#[$doc:meta])* $number:literal $name:ident $variant:ident($payload:ty)
            $codec:ident $stream:ident;
        )* }
        step { $(
            $(#[$step_doc:meta])* $step_number:literal $step_name:ident
            $step_variant:ident($step_payload:ty);
        )* }
    ) => {
        /// The payload of an event. That of a step's event begins with run, step and previous event.
        fn payload(event: &Event) -> Vec<u8> {
            match event {
                $(Event::$variant(event) => encode_as!($codec event),)*
                Event::Step(StepRecord { run, step, previous, event }) => match event {
                    $(StepEvent::$step_variant(event) => bytes(&(run, step, previous, event)),)*
                },
            }
        }

        /// The event of that kind in a payload.
        fn event(kind: Kind, payload: &[u8]) -> std::result::Result<Event, String> {
            match kind {
                $(Kind::$variant => decode_as!($codec payload).map(Event::$variant),)*
                $(Kind::$step_variant => of_step(payload, StepEvent::$step_variant),)*
                _ => Err("it is a note".to_owned()),
            }
        }
    };
}

macro_rules! encode_as {
    (Bincode $event:ident) => {
        bytes($event)
    };
    (Json $event:ident) => {
        canonical($event).into_bytes()
    };
}

macro_rules! decode_as {
    (Bincode $payload:ident) => {
        value($payload)
    };
    (Json $payload:ident) => {
        json($payload)
    };
}

with_events!(define_codec);

/// The record that holds an event.
#[must_use]
pub fn encode(event: &Event) -> NewRecord {
    let kind = Kind::of(event);
    let (body, values) = detached::collect(|| payload(event));
    let (codec, payload) = match values.as_slice() {
        [] => (kind.codec(), body),
        values => (Codec::Detached, detach(body, values)),
    };
    NewRecord { kind: kind.number(), codec, schema: SCHEMA, payload }
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
    let event = match record.codec {
        codec if codec == kind.codec() => event(kind, payload),
        Codec::Detached if kind.codec() == Codec::Bincode => {
            detached::decode(payload, |body| event(kind, body))
        }
        codec => Err(wrong_codec(codec)),
    };
    event.map(Some).map_err(|what| {
        Error::new(
            ErrorKind::Corrupt,
            format!("intact record of kind {} with an invalid payload: {what}", kind.name()),
        )
        .with_advice(Advice::ReadIntact)
        .at_seq(record.seq)
    })
}

fn of_step<T: DeserializeOwned>(
    payload: &[u8],
    wrap: impl FnOnce(T) -> StepEvent,
) -> std::result::Result<Event, String> {
    let (run, step, previous, event) = value(payload)?;
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
        Codec::Detached => "detached",
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
