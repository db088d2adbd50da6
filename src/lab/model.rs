//! What a ledger promised so far, and what it must therefore hold.
//!
//! Invariant: an acknowledged record is known by all that its chain value stands for; of a batch
//! that was asked for and not answered, every payload is known.

use std::fmt;
use std::sync::Arc;

use crate::format::{ContentHasher, NewRecord};
use crate::log::{KIND_RECOVERY_NOTE, KIND_RETENTION_NOTE, KIND_SNAPSHOT_NOTE, LoggedRecord};

/// A promise of the engine, which the oracle holds it to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// I1: what was acknowledged is there, or exactly what is missing is reported.
    AckedKept,
    /// I2: what is there was asked for: in order, without a gap, byte for byte.
    PrefixOfIssued,
    /// I3: of a batch all is there, or nothing.
    BatchesWhole,
    /// I4: the chain holds.
    ChainHolds,
    /// I5: to recover again changes nothing, and no recovery changes older bytes.
    RecoveryIdempotent,
    /// I6: what a recovery returned survives a crash that follows at once.
    RecoveredKept,
    /// I7: the state at every record is the same, replayed from the start or from a snapshot.
    StateSame,
    /// I8: readers change no byte, and what they serve is a prefix.
    ReadersOnlyRead,
    /// I9: no panic, and no call of the disk without end.
    Ends,
    /// I10: errors are of the right kind.
    ErrorKinds,
    /// I11: after a failed write or sync the writer refuses.
    PoisonHolds,
    /// I12: what is said without opening is what opening does.
    ReportIsVerdict,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AckedKept => "I1, acknowledged records are kept",
            Self::PrefixOfIssued => "I2, nothing is made up",
            Self::BatchesWhole => "I3, batches are whole",
            Self::ChainHolds => "I4, the chain holds",
            Self::RecoveryIdempotent => "I5, recovery changes nothing twice",
            Self::RecoveredKept => "I6, what recovery returned is kept",
            Self::StateSame => "I7, the state is the same by every way",
            Self::ReadersOnlyRead => "I8, readers only read",
            Self::Ends => "I9, everything ends, and nothing panics",
            Self::ErrorKinds => "I10, errors are of the right kind",
            Self::PoisonHolds => "I11, the writer refuses after a failure",
            Self::ReportIsVerdict => "I12, the report is the verdict",
        })
    }
}

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub promise: Promise,
    /// What was expected and found.
    pub what: String,
}

impl Violation {
    /// That promise was broken.
    pub fn new(promise: Promise, what: impl Into<String>) -> Self {
        Self { promise, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.what)
    }
}

/// What was asked of a ledger, and what it acknowledged.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// Whether it was ever there.
    pub is_created: bool,
    /// Acknowledged records, without those that a prune took.
    pub acked: Vec<Arc<LoggedRecord>>,
    /// Batches that were asked for after them, and not answered.
    pub pending: Vec<Vec<NewRecord>>,
    /// The last record that a prune was asked to take.
    pub pruned: u64,
}

/// Whether the engine itself writes records of that kind.
fn is_note(kind: u16) -> bool {
    matches!(kind, KIND_RECOVERY_NOTE | KIND_SNAPSHOT_NOTE | KIND_RETENTION_NOTE)
}

impl Model {
    /// The last acknowledged record; 0 before the first.
    #[must_use]
    pub fn last_acked(&self) -> u64 {
        self.acked.last().map_or(0, |record| record.seq)
    }

    /// Hold what a ledger serves against what it must hold.
    ///
    /// # Errors
    /// The promise that is broken.
    pub fn check(&self, found: &[LoggedRecord]) -> Result<(), Violation> {
        let last = found.last().map_or(0, |record| record.seq);
        self.check_prefix(found)?;
        if last < self.last_acked() {
            let what = format!(
                "expected the {} acknowledged records, found the last one to be {last}",
                self.last_acked()
            );
            return Err(Violation::new(Promise::AckedKept, what));
        }
        Ok(())
    }

    /// Hold what a reader serves against what was asked for: it may be late, but not wrong.
    ///
    /// # Errors
    /// The promise that is broken.
    pub fn check_prefix(&self, found: &[LoggedRecord]) -> Result<(), Violation> {
        if let Some(first) = found.first()
            && first.seq > 1
            && first.seq > self.pruned + 1
        {
            let what = format!("the first record is {}: nobody asked for that", first.seq);
            return Err(Violation::new(Promise::AckedKept, what));
        }
        for (before, after) in found.iter().zip(found.iter().skip(1)) {
            if after.seq != before.seq + 1 {
                let what = format!("record {} follows record {}", after.seq, before.seq);
                return Err(Violation::new(Promise::PrefixOfIssued, what));
            }
        }
        let base = self.acked.first().map_or(1, |record| record.seq);
        for record in found.iter().filter(|record| record.seq >= base) {
            let place = usize::try_from(record.seq - base).unwrap_or(usize::MAX);
            if let Some(known) = self.acked.get(place) {
                same(known, record)?;
            }
        }
        self.check_beyond(found)
    }

    /// Hold records against what was asked for, wherever they stand: none is made up.
    ///
    /// # Errors
    /// The record that nobody asked for.
    pub fn check_known<'a>(
        &self,
        found: impl Iterator<Item = &'a LoggedRecord>,
    ) -> Result<(), Violation> {
        for record in found.filter(|record| !is_note(record.kind)) {
            let is_known = self
                .acked
                .iter()
                .any(|known| (known.kind, &known.payload) == (record.kind, &record.payload));
            let is_asked = self
                .pending
                .iter()
                .flatten()
                .any(|asked| (asked.kind, &asked.payload) == (record.kind, &record.payload));
            let is_gone = record.seq <= self.pruned;
            if !(is_known || is_asked || is_gone) {
                let what = format!("nobody asked for record {}, kind {}", record.seq, record.kind);
                return Err(Violation::new(Promise::PrefixOfIssued, what));
            }
        }
        Ok(())
    }

    /// What was there before an opening that found an earlier moment went on behind it, which it
    /// begins with a note of its own.
    pub(super) fn before_recovery<'a>(&self, found: &'a [LoggedRecord]) -> &'a [LoggedRecord] {
        let is_known = |note: &LoggedRecord| self.acked.iter().any(|it| it.chain == note.chain);
        let is_new = |it: &LoggedRecord| it.kind == KIND_RECOVERY_NOTE && !is_known(it);
        let end = found.iter().position(is_new).unwrap_or(found.len());
        found.split_at(end).0
    }

    /// What is behind the acknowledged records: whole batches that were asked for, in order, and
    /// notes of the engine.
    fn check_beyond(&self, found: &[LoggedRecord]) -> Result<(), Violation> {
        let last = self.last_acked();
        let mut beyond =
            found.iter().filter(|record| record.seq > last && !is_note(record.kind)).peekable();
        for batch in &self.pending {
            if beyond.peek().is_none() {
                return Ok(());
            }
            for asked in batch {
                let Some(record) = beyond.next() else {
                    let what = format!("a batch of {} records is there in part", batch.len());
                    return Err(Violation::new(Promise::BatchesWhole, what));
                };
                if (record.kind, &record.payload) != (asked.kind, &asked.payload) {
                    let what = format!("record {} is not the one that was asked for", record.seq);
                    return Err(Violation::new(Promise::PrefixOfIssued, what));
                }
            }
        }
        match beyond.next() {
            None => Ok(()),
            Some(record) => {
                let what = format!("nobody asked for record {}, kind {}", record.seq, record.kind);
                Err(Violation::new(Promise::PrefixOfIssued, what))
            }
        }
    }

    /// All that is found counts as acknowledged from now on.
    pub(super) fn adopt(&mut self, found: Vec<LoggedRecord>) {
        self.pending.clear();
        self.acked = found.into_iter().map(Arc::new).collect();
    }

    /// Hash of it: models with the same hash ask for the same.
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
                hasher.update(&crate::format::content_hash(&record.payload));
            }
        }
        hasher.finish()
    }
}

fn same(known: &LoggedRecord, found: &LoggedRecord) -> Result<(), Violation> {
    if known.chain != found.chain || known.kind != found.kind || known.payload != found.payload {
        let what = format!("record {} is another one than was acknowledged", found.seq);
        return Err(Violation::new(Promise::PrefixOfIssued, what));
    }
    Ok(())
}
