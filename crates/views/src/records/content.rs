//! The decoded payload of a record, as text and as JSON.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use plan_ledger::internals::format::{FrameField, SKIPPABLE_KINDS_FROM, frame_fields};
use plan_ledger::internals::ledger::{Kind, decode};
use plan_ledger::log::{
    ErasureNote, GapNote, LoggedRecord, LoggedRetentionNote, RecordStatus, RecoveryNote,
    RetentionNote, SnapshotNote, WriterNote,
};
use plan_ledger::plan::UtcTime;
use plan_ledger::{BatchKey, Event, Note, RunId};

use super::text::{
    erasure_text, event_subject, event_text, gap_text, note_text, pruned_text, recovery_text,
    snapshot_text, writer_text,
};
use crate::layout::Paint;
use crate::words::hex;

/// The decoded payload of a record.
#[derive(Debug)]
pub enum RecordContent {
    /// An event.
    Event(Event),
    /// A recovery.
    Recovery(RecoveryNote),
    /// A record that a salvage could not copy.
    Gap(GapNote),
    /// A snapshot.
    Snapshot(SnapshotNote),
    /// Records that were pruned.
    Pruned(RetentionNote),
    /// The idempotency key of a batch.
    Key(String),
    /// A note of a person.
    Note(Note),
    /// An erasure.
    Erasure(ErasureNote),
    /// A process began to write to a log in a store.
    Writer(WriterNote),
    /// A kind that this program does not know and may skip.
    Skipped,
    /// The payload cannot be decoded, and why.
    Unreadable(String),
}

impl RecordContent {
    /// The content of a record.
    #[must_use]
    pub fn of(record: &LoggedRecord) -> Self {
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
                match BatchKey::from_payload(&record.payload) {
                    Ok(key) => Self::Key(String::from_utf8_lossy(key.as_bytes()).into_owned()),
                    Err(error) => Self::Unreadable(error.to_string()),
                }
            }
            Ok(None) if record.kind == Kind::Erasure.number() => {
                ErasureNote::from_record(record).map_or(Self::Skipped, Self::Erasure)
            }
            Ok(None) if record.kind == Kind::WriterNote.number() => {
                let what = "an invalid writer note";
                WriterNote::from_logged(record)
                    .map_or_else(|| Self::Unreadable(what.to_owned()), Self::Writer)
            }
            Ok(None) if record.kind == Kind::Note.number() => {
                Note::in_record(record).map_or(Self::Skipped, Self::Note)
            }
            Ok(None) => SnapshotNote::from_record(record).map_or(Self::Skipped, Self::Snapshot),
            Err(error) => Self::Unreadable(error.to_string()),
        }
    }

    /// The content in JSON; `None` if it is skipped or cannot be read.
    fn form(&self) -> Option<ContentJson<'_>> {
        Some(match self {
            Self::Event(event) => ContentJson::Event(event),
            Self::Recovery(note) => ContentJson::Recovery(note),
            Self::Gap(gap) => ContentJson::Gap(gap),
            Self::Snapshot(note) => ContentJson::Snapshot(note),
            Self::Pruned(note) => ContentJson::Pruned(note),
            Self::Key(key) => ContentJson::Key(BatchKeyJson { key }),
            Self::Note(note) => ContentJson::Note(note),
            Self::Erasure(note) => ContentJson::Erasure(note),
            Self::Writer(note) => ContentJson::Writer(note),
            Self::Skipped | Self::Unreadable(_) => return None,
        })
    }

    /// The run that it is about.
    #[must_use]
    pub fn run(&self) -> Option<RunId> {
        match self {
            Self::Event(event) => event_subject(event).0,
            Self::Note(comment) => comment.run,
            _ => None,
        }
    }
}

/// The decoded content of a record by the name of its kind, for exports; `None` if it cannot be
/// decoded.
///
/// # Panics
/// Never: a record consists of JSON values.
#[must_use]
pub fn meaning(record: &LoggedRecord) -> Option<Value> {
    let content = RecordContent::of(record);
    let fields = serde_json::to_value(content.form()?).expect("a record consists of JSON values");
    Some(Value::Object([(kind_name(record.kind), fields)].into_iter().collect()))
}

/// The content of a record: an event, or a note that changes no state.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(untagged)]
enum ContentJson<'a> {
    Event(#[cfg_attr(feature = "schema", schemars(with = "crate::json::EventSchema"))] &'a Event),
    Recovery(&'a RecoveryNote),
    Gap(&'a GapNote),
    Snapshot(&'a SnapshotNote),
    Pruned(&'a RetentionNote),
    Key(BatchKeyJson<'a>),
    Note(&'a Note),
    Erasure(&'a ErasureNote),
    Writer(&'a WriterNote),
}

/// The idempotency key of a batch.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct BatchKeyJson<'a> {
    /// The key.
    key: &'a str,
}

/// A kind's name, or its number if it is unknown.
#[must_use]
pub fn kind_name(number: u16) -> String {
    Kind::from_number(number)
        .map_or_else(|| format!("{number:#06x}"), |kind| kind.name().to_owned())
}

/// A record.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RecordLine<'a> {
    /// The number of later records in the same batch.
    batch_left: u16,
    /// Its chain value.
    chain: String,
    /// Its content; null for a kind that is skipped or cannot be read.
    event: Option<ContentJson<'a>>,
    /// The fields of its frame, with `--hex`.
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Vec<FrameFieldJson>>,
    /// The bytes of its frame in hexadecimal, with `--hex`.
    #[serde(skip_serializing_if = "Option::is_none")]
    frame: Option<String>,
    /// The name of its kind; `0x....` for a kind without a name.
    kind: String,
    /// The number of its kind.
    kind_number: u16,
    /// The version of the payload.
    kind_schema: u16,
    /// The offset of its frame in the segment.
    offset: u64,
    /// Its status.
    status: RecordStatusWord,
    /// The number of its segment.
    segment: u64,
    /// Its sequence number.
    seq: u64,
    /// The size of its frame in bytes.
    size: u64,
    /// Its time.
    time: UtcTime,
    /// The reason why the payload cannot be read.
    unreadable: Option<&'a str>,
}

impl<'a> RecordLine<'a> {
    /// The line of a record.
    #[must_use]
    pub fn of(record: &LoggedRecord, status: RecordStatus, content: &'a RecordContent) -> Self {
        let unreadable = match content {
            RecordContent::Unreadable(why) => Some(why.as_str()),
            _ => None,
        };
        Self {
            batch_left: record.batch_left,
            chain: record.chain.to_string(),
            event: content.form(),
            fields: None,
            frame: None,
            kind: kind_name(record.kind),
            kind_number: record.kind,
            kind_schema: record.schema,
            offset: record.offset,
            status: status.into(),
            segment: record.segment,
            seq: record.seq,
            size: record.size,
            time: record.time.into(),
            unreadable,
        }
    }

    /// Adds the bytes of the frame, field by field.
    #[must_use]
    pub fn with_frame(mut self, bytes: &[u8]) -> Self {
        let field = |field: &FrameField| FrameFieldJson::of(field, bytes);
        self.fields = Some(frame_fields(bytes).iter().map(field).collect());
        self.frame = Some(hex(bytes));
        self
    }
}

/// A field of a frame.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FrameFieldJson {
    /// Its end, from the start of the frame.
    end: usize,
    /// Its bytes in hexadecimal.
    hex: String,
    /// Its name.
    name: &'static str,
    /// Its value, if it is a number.
    number: Option<u64>,
    /// Its start, from the start of the frame.
    start: usize,
}

impl FrameFieldJson {
    fn of(field: &FrameField, bytes: &[u8]) -> Self {
        let FrameField { name, start, end, number } = *field;
        Self { end, hex: hex(bytes.get(start..end).unwrap_or_default()), name, number, start }
    }
}

/// The proofs of a record.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RecordStatusWord {
    /// It is durable and continues the record before it.
    Durable,
    /// It is intact, but a record before it is damaged.
    AfterDamage,
    /// It is intact, but after the durable end in HEAD.
    Unacknowledged,
}

impl RecordStatusWord {
    /// The word of it in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::AfterDamage => "after_damage",
            Self::Unacknowledged => "unacknowledged",
        }
    }
}

impl From<RecordStatus> for RecordStatusWord {
    fn from(status: RecordStatus) -> Self {
        match status {
            RecordStatus::Durable => Self::Durable,
            RecordStatus::AfterDamage => Self::AfterDamage,
            RecordStatus::Unacknowledged => Self::Unacknowledged,
        }
    }
}

/// The text of a record, and its paint.
#[must_use]
pub fn content_text(record: &LoggedRecord, content: &RecordContent) -> (Paint, String) {
    match content {
        RecordContent::Event(event) => (Paint::None, event_text(event)),
        RecordContent::Recovery(recovery) => (Paint::Notice, recovery_text(recovery)),
        RecordContent::Gap(gap) => (Paint::Notice, gap_text(gap)),
        RecordContent::Snapshot(note) => (Paint::Faint, snapshot_text(note)),
        RecordContent::Pruned(note) => (Paint::Notice, pruned_text(note)),
        RecordContent::Key(key) => (Paint::Faint, format!("key of the batch: {key}")),
        RecordContent::Note(comment) => (Paint::Notice, note_text(comment)),
        RecordContent::Erasure(note) => (Paint::Notice, erasure_text(note)),
        RecordContent::Writer(note) => (Paint::Notice, writer_text(note)),
        RecordContent::Skipped => {
            let text = format!(
                "{} bytes of a kind that this program does not know (kinds from \
                 {SKIPPABLE_KINDS_FROM:#06x} may be passed over)",
                record.payload.len()
            );
            (Paint::Faint, text)
        }
        RecordContent::Unreadable(why) => (Paint::Bad, why.clone()),
    }
}
