//! What a pruned log stands on: its retention notes, and the anchors that the newest one names.
//!
//! Invariant: anchors are looked at on every level, since they are primary data: what they stand
//! for cannot be folded again.

use crate::error::Result;
use crate::log::{Anchor, Class, Finding, LogReader, LoggedRecord, Retention};

use super::{VerifyReport, at_record};

/// The log's retention notes, each held against the log as far as it reaches back.
pub(super) fn notes(
    reader: &LogReader,
    notes: &[LoggedRecord],
    report: &mut VerifyReport,
) -> Result<()> {
    for record in notes {
        let finding =
            |what: &str| at_record(reader, record, format!("record {}: {what}", record.seq));
        let Some(Retention { note, .. }) = Retention::in_record(record) else {
            report.log.keep([finding("intact retention note that breaks a rule")]);
            continue;
        };
        // A record that cannot be read was reported, and says nothing.
        let chain = reader.chain_at(note.last_seq)?;
        if chain.is_some_and(|chain| note.chain() != Some(chain)) {
            let what = format!(
                "the retention note says that record {} has the chain {}, and it has another one",
                note.last_seq, note.chain
            );
            report.log.keep([finding(&what)]);
        }
    }
    Ok(())
}

/// The anchors of a log that begins later; those that do not hold. `open` makes a reader of the log
/// as it is now: a prune that goes on puts newer anchors in the place of the ones that it removes.
pub(super) fn files(
    open: &dyn Fn() -> Result<LogReader>,
    report: &mut VerifyReport,
) -> Result<Vec<Anchor>> {
    let mut reader = open()?;
    loop {
        let bad = bad(&reader);
        if bad.is_empty() {
            return Ok(Vec::new());
        }
        let again = open()?;
        if noted(&again) == noted(&reader) {
            let (anchors, findings): (Vec<_>, Vec<_>) = bad.into_iter().unzip();
            report.log.keep(findings);
            return Ok(anchors);
        }
        reader = again;
    }
}

/// The record by which the log begins later.
fn noted(reader: &LogReader) -> Option<u64> {
    reader.retention().map(|retention| retention.seq)
}

fn bad(reader: &LogReader) -> Vec<(Anchor, Finding)> {
    let retention = reader.retention().filter(|_| reader.first_seq() > 1);
    let anchors = retention.map(|retention| retention.note.anchors.as_slice()).unwrap_or_default();
    let check = |anchor: &Anchor| {
        let error = reader.check_anchor(anchor).err()?;
        let what = format!("an anchor of the pruned log: {}", error.message());
        let finding = Finding { what, ..Finding::of_error(Class::Damage, &error) };
        Some((anchor.clone(), finding))
    };
    anchors.iter().filter_map(check).collect()
}
