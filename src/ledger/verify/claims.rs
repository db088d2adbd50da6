//! Claims about the state hash at a record: by a snapshot note in the log, or by a snapshot's header.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::ledger::projection::Projection as _;
use crate::log::{LogReader, LoggedRecord, SnapshotNote, VerifyFinding};
use crate::plan::{ContentHash, State};

use super::findings::at_record;
use super::report::VerifyReport;

/// A claim about the state hash at a record.
#[derive(Debug)]
pub(crate) struct StateClaim {
    /// The finding to report if the claim is wrong.
    pub(crate) place: VerifyFinding,
    pub(crate) claimed: SnapshotNote,
}

/// The claims of the log's snapshot notes, after a check of their chain values.
pub(crate) fn of_notes<'a>(
    reader: &LogReader,
    notes: impl Iterator<Item = &'a LoggedRecord>,
    report: &mut VerifyReport,
) -> Result<Vec<StateClaim>> {
    let mut claims = Vec::new();
    for record in notes {
        report.notes += 1;
        let place = at_record(reader, record, format!("record {}: the snapshot note", record.seq));
        let claimed = SnapshotNote::from_record(record);
        let claimed = claimed.filter(|claimed| claimed.seq > 0 && claimed.seq < record.seq);
        let Some(claimed) = claimed else {
            let what = format!("record {}: intact snapshot note with invalid content", record.seq);
            report.log.add_findings([VerifyFinding { what, ..place }]);
            continue;
        };
        let claim = StateClaim { place, claimed };
        let chain = reader.chain_at(claim.claimed.seq)?.map(|chain| chain.to_string());
        // An unreadable record was reported already.
        if let Some(chain) = chain.filter(|chain| *chain != claim.claimed.chain) {
            report.log.add_findings([claim.mismatch("chain", &claim.claimed.chain, &chain)]);
        }
        claims.push(claim);
    }
    Ok(claims)
}

impl StateClaim {
    /// The record that the claim is about; `None` if it is about another projection, or another version
    /// of the state.
    pub(crate) fn state_seq(&self) -> Option<u64> {
        let SnapshotNote { projection, version, seq, .. } = &self.claimed;
        (projection == State::NAME && *version == State::VERSION).then_some(*seq)
    }

    /// The finding if the claim contradicts the state hashes.
    pub(crate) fn compare(&self, hashes: &BTreeMap<u64, ContentHash>) -> Option<VerifyFinding> {
        let hash = hashes.get(&self.state_seq()?)?.to_string();
        (self.claimed.state_hash != hash && !mutant!(SnapshotNotComparedWithReplay))
            .then(|| self.mismatch("state hash", &self.claimed.state_hash, &hash))
    }

    fn mismatch(&self, what: &str, claimed: &str, found: &str) -> VerifyFinding {
        let Self { place, claimed: SnapshotNote { seq, .. } } = self;
        let what = format!("{} gives record {seq} the {what} {claimed}, found {found}", place.what);
        VerifyFinding { what, ..place.clone() }
    }
}
