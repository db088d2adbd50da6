//! Folds a whole log, damaged or not, into a state, and reports what could not be used.
//!
//! [`fold`] reads from the first record and goes on after damage if a snapshot bridges it;
//! [`fold_recent`] starts at the newest valid snapshot and reads less.
//!
//! Invariants:
//! - The state is that of the last record before any damage, unless a snapshot replaces what is
//!   missing.
//! - Records that were not read are not reported as valid: the caller learns from which record on the
//!   log was read.

use std::ops::ControlFlow;

use crate::error::Result;
use crate::format::{SnapshotHeader, SnapshotName};
use crate::log::{
    Damage, DerivedDamage, LogItem, LogReader, LoggedRecord, RecordStatus, SnapshotNote,
};
use crate::plan::State;

use super::codec::event::decode;
use super::snapshot::load::{load, load_validated};
use super::snapshot::store;

/// How many snapshots [`fold_recent`] tries, newest first, before it reads everything: as many as a
/// damaged base can have on top of it, that base, and one more.
const SNAPSHOTS_TRIED_MAX: usize = 18;

/// The state from which a fold began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoldOrigin {
    /// The empty state before record 1.
    Start,
    /// The log is pruned: the snapshot at this record. Records up to it are counted, not folded.
    Anchor(u64),
    /// The snapshot at this record. Records before it were not read.
    Snapshot(u64),
    /// The log is pruned and no state is left to begin with: the reason.
    Missing(String),
}

/// A callback that sees a fold after each durable record, and may end it.
pub type FoldObserver<'a> = &'a mut dyn FnMut(&Fold, RecordStatus) -> ControlFlow<()>;

/// The result of folding a log.
#[derive(Debug, Clone)]
pub struct Fold {
    /// The state after the last record before any damage.
    pub state: State,
    /// Acknowledged bytes that cannot be read, in order.
    pub damage: Vec<Damage>,
    /// Invalid indexes and footers, in order. Every record is read without them.
    pub derived: Vec<DerivedDamage>,
    /// Intact records after damage. They are not part of the state.
    pub after_damage: u64,
    /// Records after the durable end that HEAD names: a write in progress, or one that was cut short
    /// and will be judged when the ledger is opened. They are not part of the state, unless HEAD is
    /// lost.
    pub unproven: u64,
    /// All intact records, before and after damage.
    pub records: u64,
    /// The last intact record, before or after damage.
    pub last: Option<LoggedRecord>,
    /// The state from which the fold began.
    pub origin: FoldOrigin,
    /// The record of the snapshot from which the fold went on after damage.
    pub from_snapshot: Option<u64>,
    /// Why other snapshots could not be used for that.
    pub ignored_snapshots: Vec<String>,
    /// Why the fold ended early although the bytes are intact: a record of a newer program.
    pub unreadable: Option<String>,
    /// A record before the last one is missing in the state.
    is_after_damage: bool,
}

/// Fold everything that can be trusted up to record `seq`. `observe` sees each durable record.
///
/// # Errors
/// `Io`. Damage is no error here.
pub(crate) fn fold(reader: &LogReader, seq: u64, observe: FoldObserver<'_>) -> Result<Fold> {
    let mut fold = Fold::new(State::default(), FoldOrigin::Start);
    fold.begin(reader, seq);
    // Listed when the first damage is found.
    let mut snapshots = None;
    let is_head_present = reader.head_names_present_segment();
    let mut walk = reader.walk(1);
    while let Some(item) = walk.next_ref() {
        match item? {
            LogItem::DerivedDamage(damage) => fold.derived.push(damage),
            LogItem::Damage(damage) if damage.first_seq > seq => break,
            LogItem::Damage(damage) => {
                fold.is_after_damage |= fold.is_affected_by(&damage);
                fold.damage.push(damage);
            }
            LogItem::OpenEnd { .. } => {}
            LogItem::Record(record, _) if record.seq > seq => break,
            LogItem::Record(_, RecordStatus::Unacknowledged) if is_head_present => {
                fold.records += 1;
                fold.unproven += 1;
            }
            LogItem::Record(record, proof) => {
                fold.add(record, proof);
                if fold.is_after_damage {
                    let names = snapshots.get_or_insert_with(|| fold.list_snapshots(reader));
                    fold.resume_from_snapshot(reader, names);
                }
                if observe(&fold, proof).is_break() {
                    break;
                }
            }
        }
    }
    Ok(fold)
}

/// The result of [`fold`] from the newest valid snapshot on: earlier records are not read, and damage
/// among them is not found. If segments are damaged or missing, or there is damage after the snapshot,
/// the whole log is read.
///
/// # Errors
/// `Io`. Damage is no error here.
pub(crate) fn fold_recent(reader: &LogReader) -> Result<Fold> {
    if reader.first_seq() == 1 && reader.head_names_present_segment() && reader.segments_intact()? {
        let names = store::names::<State>(reader).unwrap_or_default();
        for name in names.iter().rev().take(SNAPSHOTS_TRIED_MAX) {
            let Ok((state, header)) = load::<State>(reader, name) else {
                continue;
            };
            if let Some(fold) = fold_after(reader, state, &header)? {
                return Ok(fold);
            }
        }
    }
    fold(reader, u64::MAX, &mut |_, _| ControlFlow::Continue(()))
}

/// Fold the records after a snapshot; `None` if anything is wrong there.
fn fold_after(reader: &LogReader, state: State, header: &SnapshotHeader) -> Result<Option<Fold>> {
    let mut fold = Fold::new(state, FoldOrigin::Snapshot(header.seq));
    fold.records = header.seq;
    let mut walk = reader.walk(header.seq);
    while let Some(item) = walk.next_ref() {
        match item? {
            LogItem::Record(record, _) if record.seq <= header.seq => {
                record.copy_into(&mut fold.last)
            }
            LogItem::Record(_, RecordStatus::Unacknowledged) => {
                fold.records += 1;
                fold.unproven += 1;
            }
            LogItem::Record(record, RecordStatus::Durable) => {
                let note = SnapshotNote::from_record(&record);
                if note.is_some_and(|note| note.contradicts(header)) {
                    return Ok(None);
                }
                fold.add(record, RecordStatus::Durable);
            }
            LogItem::DerivedDamage(damage) => fold.derived.push(damage),
            LogItem::OpenEnd { .. } => {}
            LogItem::Damage(_) | LogItem::Record(_, RecordStatus::AfterDamage) => return Ok(None),
        }
    }
    Ok(Some(fold).filter(|fold| fold.unreadable.is_none() && fold.state.runs.fault().is_none()))
}

impl Fold {
    fn new(state: State, origin: FoldOrigin) -> Self {
        Self {
            state,
            damage: Vec::new(),
            derived: Vec::new(),
            after_damage: 0,
            unproven: 0,
            records: 0,
            last: None,
            origin,
            from_snapshot: None,
            ignored_snapshots: Vec::new(),
            unreadable: None,
            is_after_damage: false,
        }
    }

    /// A state that was folded elsewhere, without any known damage.
    #[must_use]
    pub fn of(state: State) -> Self {
        let origin = FoldOrigin::Snapshot(state.seq);
        Self::new(state, origin)
    }

    /// Whether the state is the one after the last record.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.last.as_ref().is_none_or(|last| last.seq == self.state.seq)
    }

    /// The first record that was read.
    #[must_use]
    pub fn read_from(&self) -> u64 {
        match self.origin {
            FoldOrigin::Snapshot(at) => at,
            FoldOrigin::Start | FoldOrigin::Anchor(_) | FoldOrigin::Missing(_) => 1,
        }
    }

    /// In a pruned log, begin with a snapshot.
    fn begin(&mut self, reader: &LogReader, seq: u64) {
        if reader.first_seq() == 1 {
            return;
        }
        let (oldest, ignored) = store::oldest_state(reader, seq);
        self.ignored_snapshots.extend(ignored.iter().map(ToString::to_string));
        if let Some((state, header)) = oldest {
            self.state = state;
            self.origin = FoldOrigin::Anchor(header.seq);
            return;
        }
        let first = reader.first_seq();
        let what = format!("the log begins at record {first}, and no earlier state is left");
        // An archive has no snapshots, and is complete without.
        if reader.manifest().is_none() {
            self.unreadable = Some(what.clone());
        }
        self.origin = FoldOrigin::Missing(what);
    }

    /// Whether damage lies between the origin and the records after it.
    fn is_affected_by(&self, damage: &Damage) -> bool {
        match self.origin {
            FoldOrigin::Anchor(at) | FoldOrigin::Snapshot(at) => {
                damage.first_seq.max(damage.last_seq) > at
            }
            FoldOrigin::Start | FoldOrigin::Missing(_) => true,
        }
    }

    fn add(&mut self, record: LoggedRecord<&[u8]>, proof: RecordStatus) {
        self.records += 1;
        self.unproven += u64::from(proof == RecordStatus::Unacknowledged);
        let is_folded = match self.origin {
            FoldOrigin::Start => true,
            FoldOrigin::Anchor(at) | FoldOrigin::Snapshot(at) => record.seq > at,
            FoldOrigin::Missing(_) => false,
        };
        if !is_folded {
            record.copy_into(&mut self.last);
            return;
        }
        // After a snapshot nothing is missing, although the chain has a gap before it.
        let is_bridged = self.from_snapshot.is_some() || self.origin != FoldOrigin::Start;
        self.is_after_damage |= proof == RecordStatus::AfterDamage && !is_bridged;
        if self.is_after_damage {
            self.after_damage += 1;
        } else if self.unreadable.is_none() {
            match decode(&record) {
                Ok(Some(event)) => self.state.apply_owned(record.seq, record.time, event),
                Ok(None) => self.state.skip_record(record.seq, record.time),
                Err(error) => self.unreadable = Some(error.to_string()),
            }
        }
        record.copy_into(&mut self.last);
    }

    fn list_snapshots(&mut self, reader: &LogReader) -> Vec<SnapshotName> {
        store::names::<State>(reader).unwrap_or_else(|error| {
            self.ignored_snapshots.push(error.to_string());
            Vec::new()
        })
    }

    /// Go on from a valid snapshot at the last record, if there is one: it replaces everything that is
    /// missing before.
    fn resume_from_snapshot(&mut self, reader: &LogReader, names: &[SnapshotName]) {
        let Some(seq) = self.last.as_ref().map(|last| last.seq) else { return };
        for name in names.iter().filter(|name| name.seq == seq) {
            match load_validated::<State>(reader, name) {
                Ok((state, _)) => {
                    self.state = state;
                    self.from_snapshot = Some(seq);
                    self.is_after_damage = false;
                    self.after_damage = 0;
                    self.unreadable = None;
                    return;
                }
                Err(error) => self.ignored_snapshots.push(error.to_string()),
            }
        }
    }
}
