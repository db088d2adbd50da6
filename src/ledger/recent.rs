//! The newest state of a ledger, without reading all of it.
//!
//! Invariants: what was not read is not called good: the caller learns from which record on the
//! log was read. Wherever anything is wrong, everything is read, as if there were no snapshot.

use crate::error::Result;
use crate::format::SnapshotHeader;
use crate::log::{Item, Proof, SnapshotNote};
use crate::plan::State;

use super::load::load;
use super::replay::{Fold, Ground, LedgerView};
use super::snapshots;

/// So many snapshots are tried, newest first, before everything is read: as many as may be based on one
/// that is damaged, that one, and another.
const TRIED_MAX: usize = 18;

impl LedgerView {
    /// What [`LedgerView::fold`] finds, from the newest good snapshot on: records before it are
    /// not read, and damage among them is not seen. Where segments are damaged or missing, or
    /// there is damage behind the snapshot, all of the log is read.
    ///
    /// # Errors
    /// `Io`. Damage is no error here.
    pub fn fold_recent(&self) -> Result<Fold> {
        if self.log().first_seq() == 1 && self.log().has_witness() && self.log().is_row_whole()? {
            let names = snapshots::names::<State>(self.log()).unwrap_or_default();
            for name in names.iter().rev().take(TRIED_MAX) {
                let Ok((state, header)) = load::<State>(self.log(), name) else {
                    continue;
                };
                if let Some(fold) = self.fold_behind(state, &header)? {
                    return Ok(fold);
                }
            }
        }
        self.fold(u64::MAX)
    }

    /// Fold what follows a snapshot; `None` if anything is wrong there.
    fn fold_behind(&self, state: State, header: &SnapshotHeader) -> Result<Option<Fold>> {
        let mut fold = Fold::on(state, Ground::Snapshot(header.seq));
        fold.records = header.seq;
        let mut walk = self.log().walk(header.seq);
        while let Some(item) = walk.pass() {
            match item? {
                Item::Record(record, _) if record.seq <= header.seq => record.keep(&mut fold.last),
                Item::Record(_, Proof::Unproven) => {
                    fold.records += 1;
                    fold.unproven += 1;
                }
                Item::Record(record, Proof::Proven) => {
                    let note = SnapshotNote::in_record(&record);
                    if note.is_some_and(|note| note.contradicts(header)) {
                        return Ok(None);
                    }
                    fold.add(record, Proof::Proven);
                }
                Item::Derived(damage) => fold.derived.push(damage),
                Item::OpenEnd { .. } => {}
                Item::Damage(_) | Item::Record(_, Proof::BehindDamage) => return Ok(None),
            }
        }
        Ok(Some(fold).filter(|fold| fold.unreadable.is_none() && fold.state.runs.fault().is_none()))
    }
}
