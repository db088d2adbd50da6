//! The model: the requested and the acknowledged records, and the guarantees that the ledger must
//! keep.
//!
//! Invariant: the model knows every acknowledged record with its chain value, and every payload of the
//! batches that were requested and not acknowledged.

use std::fmt;
use std::sync::Arc;

use plan_ledger::internals::format::{ContentHasher, NewRecord, content_hash};
use plan_ledger::log::{KIND_RECOVERY_NOTE, KIND_RETENTION_NOTE, KIND_SNAPSHOT_NOTE, LoggedRecord};

/// A guarantee of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guarantee {
    /// I1: acknowledged records exist, or exactly the missing ones are reported.
    AckedKept,
    /// I2: every record was requested, in this order, without gaps, byte for byte.
    PrefixOfIssued,
    /// I3: a batch exists completely or not at all.
    BatchesWhole,
    /// I4: the chain verifies.
    ChainHolds,
    /// I5: a second recovery changes nothing, and no recovery changes older bytes.
    RecoveryIdempotent,
    /// I6: recovered records survive an immediate crash.
    RecoveredKept,
    /// I7: the state at every record is the same, whether replayed from the start or from a snapshot.
    StateSame,
    /// I8: readers change no byte, and serve a prefix.
    ReadersOnlyRead,
    /// I9: every operation ends, without a panic.
    Ends,
    /// I10: errors have the right kind.
    ErrorKinds,
    /// I11: after a failed write or sync the writer rejects further writes.
    PoisonHolds,
    /// I12: readers report the verdict that opening the ledger gives.
    ReportIsVerdict,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AckedKept => "I1, acknowledged records are kept",
            Self::PrefixOfIssued => "I2, no record is invented",
            Self::BatchesWhole => "I3, batches are atomic",
            Self::ChainHolds => "I4, the chain holds",
            Self::RecoveryIdempotent => "I5, recovery is idempotent",
            Self::RecoveredKept => "I6, recovered records are kept",
            Self::StateSame => "I7, the state does not depend on snapshots",
            Self::ReadersOnlyRead => "I8, readers change nothing",
            Self::Ends => "I9, every operation ends without a panic",
            Self::ErrorKinds => "I10, errors have the right kind",
            Self::PoisonHolds => "I11, a failed writer rejects writes",
            Self::ReportIsVerdict => "I12, the reported verdict is the one of opening",
        })
    }
}

/// A violation of a guarantee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub guarantee: Guarantee,
    /// The expected and the found value.
    pub what: String,
}

impl Violation {
    /// Report a violation.
    pub fn new(guarantee: Guarantee, what: impl Into<String>) -> Self {
        Self { guarantee, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.guarantee, self.what)
    }
}

/// The requested and the acknowledged records of a ledger.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// Whether the ledger was created.
    pub is_created: bool,
    /// Acknowledged records that were not pruned.
    pub acked: Vec<Arc<LoggedRecord>>,
    /// Later batches that were requested and not acknowledged.
    pub pending: Vec<Vec<NewRecord>>,
    /// The last record that a prune was requested to remove.
    pub pruned: u64,
}

/// Whether the engine itself writes records of a kind.
fn is_note(kind: u16) -> bool {
    matches!(kind, KIND_RECOVERY_NOTE | KIND_SNAPSHOT_NOTE | KIND_RETENTION_NOTE)
}

impl Model {
    /// The last acknowledged record; 0 without one.
    #[must_use]
    pub fn last_acked(&self) -> u64 {
        self.acked.last().map_or(0, |record| record.seq)
    }

    /// Check the records of a ledger.
    ///
    /// # Errors
    /// The violated guarantee.
    pub fn check(&self, found: &[LoggedRecord]) -> Result<(), Violation> {
        let last = found.last().map_or(0, |record| record.seq);
        self.check_prefix(found)?;
        if last < self.last_acked() {
            let what = format!(
                "expected {} acknowledged records, found records up to {last}",
                self.last_acked()
            );
            return Err(Violation::new(Guarantee::AckedKept, what));
        }
        Ok(())
    }

    /// Check the records that a reader serves: they may be stale but must be correct.
    ///
    /// # Errors
    /// The violated guarantee.
    pub fn check_prefix(&self, found: &[LoggedRecord]) -> Result<(), Violation> {
        if let Some(first) = found.first()
            && first.seq > 1
            && first.seq > self.pruned + 1
        {
            let what =
                format!("the first record is {}, expected at most {}", first.seq, self.pruned + 1);
            return Err(Violation::new(Guarantee::AckedKept, what));
        }
        for (before, after) in found.iter().zip(found.iter().skip(1)) {
            if after.seq != before.seq + 1 {
                let what = format!("record {} follows record {}", after.seq, before.seq);
                return Err(Violation::new(Guarantee::PrefixOfIssued, what));
            }
        }
        let base = self.acked.first().map_or(1, |record| record.seq);
        for record in found.iter().filter(|record| record.seq >= base) {
            let index = usize::try_from(record.seq - base).unwrap_or(usize::MAX);
            if let Some(known) = self.acked.get(index) {
                expect_same(known, record)?;
            }
        }
        self.check_pending(found)
    }

    /// Check that every record was requested, at any position.
    ///
    /// # Errors
    /// A record that was not requested.
    pub fn check_known<'a>(
        &self,
        found: impl Iterator<Item = &'a LoggedRecord>,
    ) -> Result<(), Violation> {
        for record in found.filter(|record| !is_note(record.kind)) {
            let is_known = self
                .acked
                .iter()
                .any(|known| (known.kind, &known.payload) == (record.kind, &record.payload));
            let is_pending =
                self.pending.iter().flatten().any(|pending| {
                    (pending.kind, &pending.payload) == (record.kind, &record.payload)
                });
            let is_pruned = record.seq <= self.pruned;
            if !(is_known || is_pending || is_pruned) {
                let what =
                    format!("record {}, kind {}, was never requested", record.seq, record.kind);
                return Err(Violation::new(Guarantee::PrefixOfIssued, what));
            }
        }
        Ok(())
    }

    /// The records before an opening that found an older state and continued from it. Such an opening
    /// starts with a recovery note.
    pub(super) fn before_recovery<'a>(&self, found: &'a [LoggedRecord]) -> &'a [LoggedRecord] {
        let is_known = |note: &LoggedRecord| self.acked.iter().any(|it| it.chain == note.chain);
        let is_new = |it: &LoggedRecord| it.kind == KIND_RECOVERY_NOTE && !is_known(it);
        let end = found.iter().position(is_new).unwrap_or(found.len());
        found.split_at(end).0
    }

    /// Check the records after the acknowledged ones: complete pending batches in order, and notes of the
    /// engine.
    fn check_pending(&self, found: &[LoggedRecord]) -> Result<(), Violation> {
        let last = self.last_acked();
        let mut beyond =
            found.iter().filter(|record| record.seq > last && !is_note(record.kind)).peekable();
        for batch in &self.pending {
            if beyond.peek().is_none() {
                return Ok(());
            }
            for expected in batch {
                let Some(record) = beyond.next() else {
                    let what = format!("a batch of {} records is incomplete", batch.len());
                    return Err(Violation::new(Guarantee::BatchesWhole, what));
                };
                if (record.kind, &record.payload) != (expected.kind, &expected.payload) {
                    let what = format!("record {} is not the requested one", record.seq);
                    return Err(Violation::new(Guarantee::PrefixOfIssued, what));
                }
            }
        }
        match beyond.next() {
            None => Ok(()),
            Some(record) => {
                let what =
                    format!("record {}, kind {}, was never requested", record.seq, record.kind);
                Err(Violation::new(Guarantee::PrefixOfIssued, what))
            }
        }
    }

    /// Treat the found records as acknowledged from now on.
    pub(super) fn adopt(&mut self, found: Vec<LoggedRecord>) {
        self.pending.clear();
        self.acked = found.into_iter().map(Arc::new).collect();
    }

    /// Hash of the model: models with the same hash have the same requirements.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = ContentHasher::default();
        hasher.update(&[u8::from(self.is_created)]);
        hasher.update(&self.pruned.to_le_bytes());
        hasher.update(&self.last_acked().to_le_bytes());
        if let Some(last) = self.acked.last() {
            hasher.update(&last.chain.0);
        }
        for batch in &self.pending {
            hasher.update(&[0xFF]);
            for record in batch {
                hasher.update(&content_hash(&record.payload));
            }
        }
        hasher.finish()
    }
}

fn expect_same(known: &LoggedRecord, found: &LoggedRecord) -> Result<(), Violation> {
    if known.chain != found.chain || known.kind != found.kind || known.payload != found.payload {
        let what = format!("record {} is not the acknowledged one", found.seq);
        return Err(Violation::new(Guarantee::PrefixOfIssued, what));
    }
    Ok(())
}
