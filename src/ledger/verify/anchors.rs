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

/// The anchors of a log that begins later; those that do not hold.
pub(super) fn files(reader: &LogReader, report: &mut VerifyReport) -> Vec<Anchor> {
    let retention = reader.retention().filter(|_| reader.first_seq() > 1);
    let anchors = retention.map(|retention| retention.note.anchors.as_slice()).unwrap_or_default();
    let mut bad = Vec::new();
    for anchor in anchors {
        if let Err(error) = reader.check_anchor(anchor) {
            let what = format!("an anchor of the pruned log: {}", error.message());
            report.log.keep([Finding { what, ..Finding::of_error(Class::Damage, &error) }]);
            bad.push(anchor.clone());
        }
    }
    bad
}
