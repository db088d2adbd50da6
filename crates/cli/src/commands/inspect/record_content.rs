//! The decoded payload of a record, as text and as JSON.

use serde_json::{Value, json};

use plan_ledger::internals::format::SKIPPABLE_KINDS_FROM;
use plan_ledger::internals::ledger::{Kind, decode};
use plan_ledger::internals::log::{
    GapNote, LoggedRecord, LoggedRetentionNote, RecordStatus, RecoveryNote, RetentionNote,
    SnapshotNote,
};
use plan_ledger::{Event, Note, RunId};

use crate::output::escape_control;

use super::json::event::{event_json, recovery_json};
use super::output::time_json;
use super::style::Paint;
use super::text::event::{
    event_subject, event_text, gap_text, note_text, pruned_text, recovery_text, snapshot_text,
};

/// The decoded payload of a record.
#[derive(Debug)]
pub(crate) enum RecordContent {
    Event(Event),
    Recovery(RecoveryNote),
    /// A record that a salvage could not copy.
    Gap(GapNote),
    Snapshot(SnapshotNote),
    Pruned(RetentionNote),
    /// The idempotency key of a batch.
    Key(String),
    Note(Note),
    /// A kind that this program does not know and may skip.
    Skipped,
    /// The payload cannot be decoded, and why.
    Unreadable(String),
}

impl RecordContent {
    pub(crate) fn of(record: &LoggedRecord) -> Self {
        match decode(record) {
            Ok(Some(event)) => Self::Event(event),
            Ok(None) if record.kind == Kind::RecoveryNote.number() => {
                match RecoveryNote::decode(&record.payload) {
                    Some(note) => Self::Recovery(note),
                    None => Self::Unreadable("a recovery note that cannot be read".to_owned()),
                }
            }
            Ok(None) if record.kind == Kind::Gap.number() => match GapNote::decode(&record.payload)
            {
                Some(gap) => Self::Gap(gap),
                None => Self::Unreadable("a gap that cannot be read".to_owned()),
            },
            Ok(None) if record.kind == Kind::RetentionNote.number() => {
                let note = LoggedRetentionNote::from_record(record)
                    .map(|retention| Self::Pruned(retention.note));
                let what = "an invalid retention note";
                note.unwrap_or_else(|| Self::Unreadable(what.to_owned()))
            }
            Ok(None) if record.kind == Kind::BatchKey.number() => {
                Self::Key(String::from_utf8_lossy(&record.payload).into_owned())
            }
            Ok(None) if record.kind == Kind::Note.number() => {
                Note::in_record(record).map_or(Self::Skipped, Self::Note)
            }
            Ok(None) => SnapshotNote::from_record(record).map_or(Self::Skipped, Self::Snapshot),
            Err(error) => Self::Unreadable(error.to_string()),
        }
    }

    pub(crate) fn run(&self) -> Option<RunId> {
        match self {
            Self::Event(event) => event_subject(event).0,
            Self::Note(comment) => comment.run,
            _ => None,
        }
    }
}

/// The decoded content of a record, for exports; `None` if it cannot be decoded.
pub(crate) fn meaning(record: &LoggedRecord) -> Option<Value> {
    let (content, fields) = match RecordContent::of(record) {
        RecordContent::Event(event) => (kind_name(record.kind), event_json(&event)),
        RecordContent::Recovery(note) => (kind_name(record.kind), recovery_json(&note)),
        RecordContent::Gap(gap) => (kind_name(record.kind), json!(gap)),
        RecordContent::Snapshot(note) => (kind_name(record.kind), json!(note)),
        RecordContent::Pruned(note) => (kind_name(record.kind), json!(note)),
        RecordContent::Key(key) => (kind_name(record.kind), json!({ "key": key })),
        RecordContent::Note(comment) => (kind_name(record.kind), json!(comment)),
        RecordContent::Skipped | RecordContent::Unreadable(_) => return None,
    };
    Some(json!({ content: fields }))
}

/// A kind's name, or its number if it is unknown.
pub(crate) fn kind_name(number: u16) -> String {
    Kind::from_number(number)
        .map_or_else(|| format!("{number:#06x}"), |kind| kind.name().to_owned())
}

/// A record's fields.
pub(crate) fn record_json(
    record: &LoggedRecord,
    status: RecordStatus,
    content: &RecordContent,
) -> Value {
    let (event, unreadable) = match content {
        RecordContent::Event(event) => (event_json(event), None),
        RecordContent::Recovery(note) => (recovery_json(note), None),
        RecordContent::Gap(gap) => (json!(gap), None),
        RecordContent::Snapshot(note) => (json!(note), None),
        RecordContent::Pruned(note) => (json!(note), None),
        RecordContent::Key(key) => (json!({ "key": key }), None),
        RecordContent::Note(comment) => (json!(comment), None),
        RecordContent::Skipped => (Value::Null, None),
        RecordContent::Unreadable(why) => (Value::Null, Some(why)),
    };
    json!({
        "seq": record.seq,
        "time": time_json(record.time),
        "kind": kind_name(record.kind),
        "kind_number": record.kind,
        "kind_schema": record.schema,
        "status": record_status_word(status),
        "batch_left": record.batch_left,
        "chain": record.chain.to_string(),
        "segment": record.segment,
        "offset": record.offset,
        "size": record.size,
        "event": event,
        "unreadable": unreadable,
    })
}

pub(crate) fn record_status_word(status: RecordStatus) -> &'static str {
    match status {
        RecordStatus::Durable => "durable",
        RecordStatus::AfterDamage => "after_damage",
        RecordStatus::Unacknowledged => "unacknowledged",
    }
}

/// The text of a record, and its paint.
pub(crate) fn content_text(record: &LoggedRecord, content: &RecordContent) -> (Paint, String) {
    match content {
        RecordContent::Event(event) => (Paint::None, event_text(event)),
        RecordContent::Recovery(recovery) => (Paint::Notice, recovery_text(recovery)),
        RecordContent::Gap(gap) => (Paint::Notice, gap_text(gap)),
        RecordContent::Snapshot(note) => (Paint::Faint, snapshot_text(note)),
        RecordContent::Pruned(note) => (Paint::Notice, pruned_text(note)),
        RecordContent::Key(key) => {
            (Paint::Faint, format!("key of the batch: {}", escape_control(key)))
        }
        RecordContent::Note(comment) => (Paint::Notice, note_text(comment)),
        RecordContent::Skipped => {
            let text = format!(
                "{} bytes of a kind that this program does not know (kinds from \
                 {SKIPPABLE_KINDS_FROM:#06x} may be passed over)",
                record.payload.len()
            );
            (Paint::Faint, text)
        }
        RecordContent::Unreadable(why) => (Paint::Bad, escape_control(why)),
    }
}
