//! Expected state hashes: a snapshot note in the log, or the header of a snapshot, states the hash
//! at a record.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::ledger::projection::Projection as _;
use crate::log::{LogReader, LoggedRecord, SnapshotNote, VerifyFinding};
use crate::plan::{ContentHash, State};

use super::report::VerifyReport;

/// The state hash that a note or a snapshot states for a record.
#[derive(Debug)]
pub(crate) struct ExpectedStateHash {
    /// The location to report if the hash differs.
    pub(crate) place: VerifyFinding,
    pub(crate) expected: SnapshotNote,
}

/// The hashes that the log's snapshot notes state, after a check of their chain values.
pub(crate) fn from_notes<'a>(
    reader: &LogReader,
    notes: impl Iterator<Item = &'a LoggedRecord>,
    report: &mut VerifyReport,
) -> Result<Vec<ExpectedStateHash>> {
    let mut hashes = Vec::new();
    for record in notes {
        report.notes += 1;
        let place = VerifyFinding::at_record(
            reader,
            record,
            &format!("record {}: the snapshot note", record.seq),
        );
        let expected = SnapshotNote::from_record(record);
        let expected = expected.filter(|expected| expected.seq > 0 && expected.seq < record.seq);
        let Some(expected) = expected else {
            let what = format!("record {}: intact snapshot note with invalid content", record.seq);
            report.log.add_findings([VerifyFinding { what, ..place }]);
            continue;
        };
        let hash = ExpectedStateHash { place, expected };
        let chain = reader.chain_at(hash.expected.seq)?.map(|chain| chain.to_string());
        // An unreadable record was already reported.
        if let Some(chain) = chain.filter(|chain| *chain != hash.expected.chain) {
            report.log.add_findings([hash.mismatch("chain", &hash.expected.chain, &chain)]);
        }
        hashes.push(hash);
    }
    Ok(hashes)
}

impl ExpectedStateHash {
    /// The record of the hash; `None` for another projection, or another version of the state.
    pub(crate) fn state_seq(&self) -> Option<u64> {
        let SnapshotNote { projection, version, seq, .. } = &self.expected;
        (projection == State::NAME && *version == State::VERSION).then_some(*seq)
    }

    /// The finding if the folded state has another hash.
    pub(crate) fn compare(&self, hashes: &BTreeMap<u64, ContentHash>) -> Option<VerifyFinding> {
        let hash = hashes.get(&self.state_seq()?)?.to_string();
        (self.expected.state_hash != hash && !mutant!(SnapshotNotComparedWithReplay))
            .then(|| self.mismatch("state hash", &self.expected.state_hash, &hash))
    }

    fn mismatch(&self, what: &str, expected: &str, found: &str) -> VerifyFinding {
        let Self { place, expected: SnapshotNote { seq, .. } } = self;
        let what =
            format!("{} gives record {seq} the {what} {expected}, found {found}", place.what);
        VerifyFinding { what, ..place.clone() }
    }
}
