//! What a record shows: a row of a list, or all of its fields and bytes.

use plan_ledger::internals::format::frame_fields;
use plan_ledger::internals::ledger::time_text;
use plan_ledger::log::{LoggedRecord, RecordStatus};

use super::content::{RecordContent, content_text, kind_name};
use crate::layout::{Block, Document, Paint, Table, Text};
use crate::words::hex;

/// A record as a row of a list.
#[derive(Debug)]
pub struct RecordRow {
    start: String,
    text: (Paint, String),
}

/// Columns that run and step usually take.
const OF_WIDTH: usize = 12;

impl RecordRow {
    /// The row of a record; `of` names its run and step.
    #[must_use]
    pub fn of(
        record: &LoggedRecord,
        status: RecordStatus,
        content: &RecordContent,
        of: &str,
    ) -> Self {
        let mark = match status {
            RecordStatus::Durable => ' ',
            RecordStatus::AfterDamage => '!',
            RecordStatus::Unacknowledged => '?',
        };
        let start = format!(
            "{:>7}{mark} {}  {:<16}  {of:<OF_WIDTH$}  ",
            record.seq,
            time_text(record.time),
            kind_name(record.kind)
        );
        Self { start, text: content_text(record, content) }
    }

    /// Its document.
    #[must_use]
    pub fn document(self) -> Document {
        let (start, text) = (self.start.into(), self.text.into());
        let mut document = Document::default();
        document.push(Block::Cut { indent: 0, start, text, end: Text::default() });
        document
    }
}

/// A record with all of its fields.
#[must_use]
pub fn record_document(
    record: &LoggedRecord,
    status: RecordStatus,
    content: &RecordContent,
) -> Document {
    let mut document = Document::default();
    document.painted(Paint::Heading, format!("record {}: {}", record.seq, kind_name(record.kind)));
    document.indented(2, content_text(record, content));
    let mut table = Table::default();
    let mut add = |name: &str, text: String| {
        table.row([(Paint::Faint, name.to_owned()), (Paint::None, text)]);
    };
    add("time", time_text(record.time));
    let payload = record.payload.len();
    add(
        "kind",
        format!("{:#06x}, schema {}, payload of {payload} bytes", record.kind, record.schema),
    );
    let end = record.offset.saturating_add(record.size);
    add("place", format!("segment {}, bytes {} to {end}", record.segment, record.offset));
    add(
        "batch",
        match record.batch_left {
            0 => "the last of its batch".to_owned(),
            1 => "1 more record of its batch follows".to_owned(),
            left => format!("{left} more records of its batch follow"),
        },
    );
    add("chain", record.chain.to_string());
    add(
        "status",
        match status {
            RecordStatus::Durable => "durable, and continues the previous record",
            RecordStatus::AfterDamage => "intact, but the previous record is damaged or missing",
            RecordStatus::Unacknowledged => "intact, but after the durable end in HEAD",
        }
        .to_owned(),
    );
    document.table(2, table);
    if let RecordContent::Event(event) = content {
        // The members of an object are in alphabetical order, as in JSON output.
        let fields = serde_json::to_value(event).unwrap_or_default();
        let fields = format!("{fields:#}");
        document.gap();
        fields.lines().for_each(|line| document.indented(2, line));
    }
    document
}

/// Bytes of a line of the dump.
const ROW: usize = 16;

/// The bytes of a record's frame, field by field.
#[must_use]
pub fn frame_document(record: &LoggedRecord, bytes: &[u8]) -> Document {
    let mut document = Document::default();
    document.gap();
    for field in frame_fields(bytes) {
        let content = bytes.get(field.start..field.end).unwrap_or_default();
        for (number, row) in content.chunks(ROW).enumerate() {
            let start = field.start.saturating_add(number.saturating_mul(ROW));
            let at = u64::try_from(start).unwrap_or(u64::MAX).saturating_add(record.offset);
            let name = if number == 0 { field.name } else { "" };
            let digits: Vec<String> = row.iter().map(|byte| hex(&[*byte])).collect();
            let is_shown = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
            let text: String = row
                .iter()
                .map(|byte| if is_shown(byte) { char::from(*byte) } else { '.' })
                .collect();
            let meaning = match field.number {
                Some(number) if field.name == "time" => time_text(number),
                Some(number) if field.name == "kind" => {
                    format!("{number} {}", kind_name(record.kind))
                }
                Some(number) if field.name.ends_with("crc") => format!("{number:#010x}"),
                Some(number) => number.to_string(),
                None => text,
            };
            let digits = digits.join(" ");
            let line = format!("{at:>10}  {name:<14}  {digits:<47}  {meaning}");
            document.indented(2, line.trim_end());
        }
    }
    document
}

#[cfg(test)]
mod tests {
    //! Goal: no text of a record drives a terminal: it is raw in the document, and the renderer escapes it.

    use plan_ledger::Note;
    use plan_ledger::internals::format::{Chain, Codec};
    use plan_ledger::internals::ledger::Kind;

    use super::*;
    use crate::render::{Style, escape_control, is_printable, text_lines};

    const HOSTILE: &str = "\u{1b}[2J\n\u{202e}\u{9b}31m";

    fn record(kind: Kind) -> LoggedRecord {
        LoggedRecord {
            seq: 9,
            time: 9,
            kind: kind.number(),
            codec: Codec::Json,
            schema: 1,
            batch_left: 0,
            payload: Vec::new(),
            chain: Chain([0; 32]),
            segment: 0,
            offset: 0,
            size: 0,
        }
    }

    fn expect_harmless(kind: Kind, content: &RecordContent) {
        let record = record(kind);
        let status = RecordStatus::Durable;
        let row = RecordRow::of(&record, status, content, HOSTILE).document();
        let whole = record_document(&record, status, content);
        for line in [row, whole].iter().flat_map(|document| text_lines(document, Style::PLAIN)) {
            assert!(line.chars().all(is_printable), "{line:?}");
        }
        let (_, text) = content_text(&record, content);
        assert!(
            text.contains('\u{202e}') && !escape_control(&text).contains('\u{202e}'),
            "{text:?}"
        );
    }

    #[test]
    fn texts_of_records_are_escaped_by_the_renderer() {
        let note = Note { by: HOSTILE.into(), run: None, step: None, text: HOSTILE.into() };
        expect_harmless(Kind::Note, &RecordContent::Note(note));
        expect_harmless(Kind::BatchKey, &RecordContent::Key(HOSTILE.to_owned()));
        expect_harmless(Kind::Gap, &RecordContent::Unreadable(HOSTILE.to_owned()));
    }
}
