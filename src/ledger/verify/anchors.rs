//! Checks the retention notes of a pruned log, and the anchors that the newest one names.
//!
//! Invariant: anchors are checked on every level. They are primary data: the records that they replace
//! cannot be folded again.

use crate::error::Result;
use crate::log::{
    Anchor, FindingClass, LogReader, LoggedRecord, LoggedRetentionNote, VerifyFinding,
};

use super::report::VerifyReport;

/// Compare the retention notes with the records that the log still has.
pub(crate) fn check_retention_notes(
    reader: &LogReader,
    notes: &[LoggedRecord],
    report: &mut VerifyReport,
) -> Result<()> {
    for record in notes {
        let finding = |what: &str| {
            VerifyFinding::at_record(reader, record, &format!("record {}: {what}", record.seq))
        };
        let Some(LoggedRetentionNote { note, .. }) = LoggedRetentionNote::from_record(record)
        else {
            report.log.add_findings([finding("intact retention note with invalid content")]);
            continue;
        };
        // An unreadable record was already reported.
        let chain = reader.chain_at(note.last_seq)?;
        if chain.is_some_and(|chain| note.chain() != Some(chain)) {
            let what = format!(
                "the retention note gives record {} the chain {}, but the log has another one",
                note.last_seq, note.chain
            );
            report.log.add_findings([finding(&what)]);
        }
    }
    Ok(())
}

/// Check the anchors of a pruned log, and return the bad ones. `open` makes a reader of the log as it
/// is now: a prune in progress replaces anchors by newer ones.
pub(crate) fn check_anchor_files(
    open: &dyn Fn() -> Result<LogReader>,
    report: &mut VerifyReport,
) -> Result<Vec<Anchor>> {
    let mut reader = open()?;
    loop {
        let bad = bad_anchors(&reader);
        if bad.is_empty() {
            return Ok(Vec::new());
        }
        let again = open()?;
        if note_seq(&again) == note_seq(&reader) {
            let (anchors, findings): (Vec<_>, Vec<_>) = bad.into_iter().unzip();
            report.log.add_findings(findings);
            return Ok(anchors);
        }
        reader = again;
    }
}

/// The record of the newest retention note.
fn note_seq(reader: &LogReader) -> Option<u64> {
    reader.retention().map(|retention| retention.seq)
}

fn bad_anchors(reader: &LogReader) -> Vec<(Anchor, VerifyFinding)> {
    let retention = reader.retention().filter(|_| reader.first_seq() > 1);
    let anchors = retention.map(|retention| retention.note.anchors.as_slice()).unwrap_or_default();
    let check = |anchor: &Anchor| {
        let error = reader.check_anchor(anchor).err()?;
        let what = format!("anchor of the pruned log: {}", error.message());
        let finding =
            VerifyFinding { what, ..VerifyFinding::of_error(FindingClass::Damage, &error) };
        Some((anchor.clone(), finding))
    };
    anchors.iter().filter_map(check).collect()
}
