//! `ledger inspect DIR records SEQ`: one record in full, and its bytes field by field.

use plan_ledger::internals::storage::Access;
use plan_ledger::log::{Damage, LogItem, LoggedRecord, RecordStatus, VerifyFinding};
use plan_ledger::{Environment, Error, ErrorKind, LedgerView};
use plan_ledger_views::{
    FindingLine, RecordContent, RecordLine, finding_document, frame_document, record_document,
};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::Health;
use crate::commands::inspect::output::Output;
#[cfg(feature = "store")]
use crate::json::line_value;
use crate::output::{Code, Failure};

/// The result of a lookup by sequence number.
enum RecordLookup {
    Record(LoggedRecord, RecordStatus),
    Damage(Damage),
    Nothing { last: u64 },
}

/// Prints the record; `has_bytes`: and its bytes.
pub(super) fn record(
    seq: u64,
    has_bytes: bool,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let InspectContext { dir, form, environment } = context;
    let view = LedgerView::open(dir, environment)?;
    view.log().check_unpruned(seq)?;
    let (record, status) = match find(&view, seq)? {
        RecordLookup::Record(record, status) => (record, status),
        RecordLookup::Damage(damage) => {
            print_finding(&damage.into(), form, out)?;
            return Ok(Code::Damaged);
        }
        RecordLookup::Nothing { last } => {
            let health = Health::of(view.log(), dir, environment)?;
            let message = format!("expected a record up to {last}, found {seq}");
            return Err(if health.is_good() {
                Failure::Usage(message)
            } else {
                let message = format!("{message}; records are damaged or missing");
                Failure::Ledger(Error::new(ErrorKind::Corrupt, message))
            });
        }
    };
    let content = RecordContent::of(&record);
    let bytes = if has_bytes { Some(frame(&view, &record, environment)?) } else { None };
    match form {
        Form::Json => {
            let line = RecordLine::of(&record, status, &content);
            out.json(&match &bytes {
                Some(bytes) => line.with_frame(bytes),
                None => line,
            })?;
        }
        Form::Text => {
            out.document(&record_document(&record, status, &content))?;
            bytes.map_or(Ok(()), |bytes| out.document(&frame_document(&record, &bytes)))?;
        }
    }
    let is_read = !matches!(content, RecordContent::Unreadable(_));
    Ok(if is_read && status != RecordStatus::AfterDamage { Code::Success } else { Code::Damaged })
}

/// Prints a fault of the log in the place of records.
pub(super) fn print_finding(
    finding: &VerifyFinding,
    form: Form,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    match form {
        Form::Json => out.json(&FindingLine::from(finding)),
        Form::Text => out.document(&finding_document(finding)),
    }
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

/// The line of a durable record, as `ledger inspect ... records --json` prints it, without a newline.
#[cfg(feature = "store")]
pub(crate) fn record_json(record: &LoggedRecord) -> String {
    let content = RecordContent::of(record);
    line_value(&RecordLine::of(record, RecordStatus::Durable, &content)).to_string()
}
