//! What somebody says that the state was at a record: a snapshot note of the log, or the header of a
//! snapshot.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::log::{Finding, LogReader, LoggedRecord, SnapshotNote};
use crate::plan::{ContentHash, State};

use super::super::projection::Projection;
use super::{VerifyReport, at_record};

/// What is said, and where.
#[derive(Debug)]
pub(super) struct Claim {
    /// A finding there, should it turn out to be wrong.
    pub(super) place: Finding,
    pub(super) said: SnapshotNote,
}

/// The notes of the log, each compared with the chain of the record that it is about.
pub(super) fn of_notes<'a>(
    reader: &LogReader,
    notes: impl Iterator<Item = &'a LoggedRecord>,
    report: &mut VerifyReport,
) -> Result<Vec<Claim>> {
    let mut claims = Vec::new();
    for record in notes {
        report.notes += 1;
        let place = at_record(reader, record, format!("record {}: the snapshot note", record.seq));
        let said = SnapshotNote::in_record(record);
        let Some(said) = said.filter(|said| said.seq > 0 && said.seq < record.seq) else {
            let what = format!("record {}: intact snapshot note that breaks a rule", record.seq);
            report.log.keep([Finding { what, ..place }]);
            continue;
        };
        let claim = Claim { place, said };
        let chain = reader.chain_at(claim.said.seq)?.map(|chain| chain.to_string());
        // A record that cannot be read was reported, and says nothing.
        if let Some(chain) = chain.filter(|chain| *chain != claim.said.chain) {
            report.log.keep([claim.differs("chain", &claim.said.chain, &chain)]);
        }
        claims.push(claim);
    }
    Ok(claims)
}

impl Claim {
    /// The record at which it is about the ledger's own state, in the version that this program
    /// knows; `None` if it is about another projection.
    pub(super) fn state_seq(&self) -> Option<u64> {
        let SnapshotNote { projection, version, seq, .. } = &self.said;
        (projection == State::NAME && *version == State::VERSION).then_some(*seq)
    }

    /// What is wrong with it, where these are the hashes of the state.
    pub(super) fn against(&self, hashes: &BTreeMap<u64, ContentHash>) -> Option<Finding> {
        let hash = hashes.get(&self.state_seq()?)?.to_string();
        (self.said.state_hash != hash && !bug!(SnapshotUncompared))
            .then(|| self.differs("state hash", &self.said.state_hash, &hash))
    }

    fn differs(&self, what: &str, said: &str, found: &str) -> Finding {
        let Self { place, said: SnapshotNote { seq, .. } } = self;
        let what =
            format!("{} says that record {seq} has the {what} {said}, found {found}", place.what);
        Finding { what, ..place.clone() }
    }
}
