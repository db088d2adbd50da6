//! What somebody says that the state was at a record: a snapshot note of the log, or the header of a
//! snapshot.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::log::{Finding, LogReader, LoggedRecord, SnapshotNote};
use crate::plan::{ContentHash, State};

use super::super::projection::Projection;
use super::replay::Moment;
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
    /// Whether it is about the ledger's own state, in a version that this program knows: then at
    /// which record, and in which version.
    pub(super) fn moment(&self) -> Option<Moment> {
        let SnapshotNote { projection, version, seq, .. } = &self.said;
        let is_known =
            projection == State::NAME && (State::OLDEST..=State::VERSION).contains(version);
        is_known.then_some((*seq, *version))
    }

    /// What is wrong with it, where these are the hashes of the state.
    pub(super) fn against(&self, hashes: &BTreeMap<Moment, ContentHash>) -> Option<Finding> {
        let hash = hashes.get(&self.moment()?)?.to_string();
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
