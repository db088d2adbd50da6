//! `ledger inspect DIR record SEQ`: one record, and its bytes field by field.

use clap::Args;

use plan_ledger::internals::format::frame_fields;
use plan_ledger::internals::ledger::time_text;
use plan_ledger::internals::storage::Access;
use plan_ledger::log::{Damage, LogItem, LoggedRecord, RecordStatus};
use plan_ledger::{Environment, Error, ErrorKind, LedgerView};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::{DamageLine, Health, damage_text};
use crate::commands::inspect::json::event::event_json;
use crate::commands::inspect::output::Output;
use crate::commands::inspect::record_content::{
    RecordContent, RecordLine, content_text, kind_name,
};
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure, escape_control};
use crate::protocol::hex;

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger record 120                the content of record 120
  ledger inspect .ledger record 120 --hex          and its bytes, field by field
  ledger inspect .ledger record 120 --json | jq .event";

/// One record: its content, its position, its bytes field by field
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RecordArgs {
    /// Its sequence number
    #[arg(value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    seq: u64,
    /// Show the bytes of its frame too, each field with its name
    #[arg(long)]
    hex: bool,
}

/// The result of a lookup by sequence number.
enum RecordLookup {
    Record(LoggedRecord, RecordStatus),
    Damage(Damage),
    Nothing { last: u64 },
}

pub(crate) fn record(
    args: &RecordArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let InspectContext { dir, form, environment } = context;
    let view = LedgerView::open(dir, environment)?;
    view.log().check_unpruned(args.seq)?;
    let (record, status) = match find(&view, args.seq)? {
        RecordLookup::Record(record, status) => (record, status),
        RecordLookup::Damage(damage) => {
            match form {
                Form::Json => out.json(&DamageLine::from(&damage))?,
                Form::Text => {
                    let text = format!("damage: {}", damage_text(&damage));
                    out.painted(Paint::Bad, &text)?;
                }
            }
            return Ok(Code::Damaged);
        }
        RecordLookup::Nothing { last } => {
            let health = Health::of(view.log(), dir, environment)?;
            let message = format!("expected a record up to {last}, found {}", args.seq);
            return Err(if health.is_good() {
                Failure::Usage(message)
            } else {
                let message = format!("{message}; records are damaged or missing");
                Failure::Ledger(Error::new(ErrorKind::Corrupt, message))
            });
        }
    };
    let content = RecordContent::of(&record);
    let bytes = if args.hex { Some(frame(&view, &record, environment)?) } else { None };
    match form {
        Form::Json => {
            let line = RecordLine::of(&record, status, &content);
            out.json(&match &bytes {
                Some(bytes) => line.with_frame(bytes),
                None => line,
            })?;
        }
        Form::Text => {
            print(&record, status, &content, out)?;
            bytes.map_or(Ok(()), |bytes| print_frame(&record, &bytes, out))?;
        }
    }
    let is_read = !matches!(content, RecordContent::Unreadable(_));
    Ok(if is_read && status != RecordStatus::AfterDamage { Code::Success } else { Code::Damaged })
}

fn find(view: &LedgerView, seq: u64) -> Result<RecordLookup, Failure> {
    let mut last = view.log().head().map_or(0, |head| head.durable_seq);
    for item in view.log().walk(seq) {
        match item? {
            LogItem::Record(record, status) if record.seq == seq => {
                return Ok(RecordLookup::Record(record, status));
            }
            LogItem::Damage(damage) if (damage.first_seq..=damage.last_seq).contains(&seq) => {
                return Ok(RecordLookup::Damage(damage));
            }
            LogItem::Record(record, _) => last = last.max(record.seq),
            LogItem::Damage(_) | LogItem::DerivedDamage(_) | LogItem::OpenEnd { .. } => {}
        }
    }
    Ok(RecordLookup::Nothing { last })
}

/// The bytes of a record's frame on disk.
fn frame(
    view: &LedgerView,
    record: &LoggedRecord,
    environment: &Environment,
) -> Result<Vec<u8>, Failure> {
    let is_its = |ordinal: Option<u64>| ordinal == Some(record.segment);
    let segments = view.log().segments().into_iter();
    let mut segments = segments
        .filter(|segment| is_its(segment.header.as_ref().ok().map(|header| header.ordinal)));
    let Some(segment) = segments.next() else { return Ok(Vec::new()) };
    let io = |error| Error::io("read the frame", &segment.path, error);
    let file = environment.storage.open(&segment.path, Access::Read).map_err(io)?;
    // The frame was just read, so its size is within a record's limit.
    let mut bytes = vec![0; usize::try_from(record.size).unwrap_or(0)];
    let count = file.read_at(&mut bytes, record.offset).map_err(io)?;
    bytes.truncate(count);
    Ok(bytes)
}

fn print(
    record: &LoggedRecord,
    status: RecordStatus,
    content: &RecordContent,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let kind = kind_name(record.kind);
    out.painted(Paint::Heading, &format!("record {}: {kind}", record.seq))?;
    let (paint, text) = content_text(record, content);
    let text = out.style.paint(paint, &text);
    out.line(&format!("  {text}"))?;
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
            left => format!("{left} of its batch follow"),
        },
    );
    add("chain", record.chain.to_string());
    add(
        "status",
        match status {
            RecordStatus::Durable => "durable, and continues the previous record".to_owned(),
            RecordStatus::AfterDamage => {
                "intact, but the previous record is damaged or missing".to_owned()
            }
            RecordStatus::Unacknowledged => "intact, but after the durable end in HEAD".to_owned(),
        },
    );
    out.table(&table, 2)?;
    let fields = match content {
        RecordContent::Event(event) => event_json(event),
        _ => return Ok(()),
    };
    let text = serde_json::to_string_pretty(&fields).unwrap_or_default();
    out.line("")?;
    text.lines().try_for_each(|line| out.line(&format!("  {}", escape_control(line))))
}

/// Bytes of a line of the dump.
const ROW: usize = 16;

fn print_frame(record: &LoggedRecord, bytes: &[u8], out: &mut Output<'_>) -> Result<(), Failure> {
    out.line("")?;
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
            let line = format!("  {at:>10}  {name:<14}  {digits:<47}  {meaning}");
            out.line(line.trim_end())?;
        }
    }
    Ok(())
}
