//! Folds a whole log, damaged or not, into a state, and reports the records that could not be used.
//!
//! [`LedgerView::fold`] reads from the first record and continues after damage if a snapshot bridges
//! it; [`LedgerView::fold_recent`] starts at the newest valid snapshot and reads less.
//!
//! Invariants:
//! - The state is the one after the last record before any damage, unless a snapshot replaces the
//!   missing records.
//! - Records that were not read are not reported as valid: the result has the first record that was
//!   read.

use std::ops::{ControlFlow, Range};

use crate::error::Result;
use crate::format::{SnapshotHeader, SnapshotName};
use crate::log::{
    BatchSink, Damage, DerivedDamage, LogItem, LogReader, LoggedRecord, RecordStatus, SnapshotNote,
    is_full_batch, read_ahead,
};
use crate::plan::State;

use super::projection::{RecordedEvent, apply_owned_record, decode_record};
use super::snapshot::load::{load, load_validated};
use super::snapshot::store;
use super::view::LedgerView;

/// How many snapshots [`LedgerView::fold_recent`] tries, newest first, before it reads everything. A damaged
/// base affects itself and at most 16 deltas, so that is 16 + 1, and one more.
const SNAPSHOTS_TRIED_MAX: usize = 18;

/// Items of a log, decoded, in order.
#[derive(Default)]
struct Batch {
    items: Vec<Item>,
    payloads: Vec<u8>,
}

/// An item with its payload in the batch.
type Item = LogItem<DecodedPayload>;

struct DecodedPayload {
    /// Range of the payload in the batch.
    bytes: Range<usize>,
    /// The event, if the record is folded.
    event: Option<Result<RecordedEvent>>,
}

impl Batch {
    fn add(&mut self, item: LogItem<&[u8]>, first_folded: u64) {
        self.items.push(match item {
            LogItem::Record(record, status) => {
                let is_folded = record.seq >= first_folded;
                let event = is_folded.then(|| decode_record(&record));
                let begin = self.payloads.len();
                self.payloads.extend_from_slice(record.payload);
                let bytes = begin..self.payloads.len();
                LogItem::Record(record.with_payload(DecodedPayload { bytes, event }), status)
            }
            LogItem::Damage(damage) => LogItem::Damage(damage),
            LogItem::DerivedDamage(damage) => LogItem::DerivedDamage(damage),
            LogItem::OpenEnd { path, offset, fault } => LogItem::OpenEnd { path, offset, fault },
        });
    }

    fn is_full(&self) -> bool {
        is_full_batch(self.items.len(), self.payloads.len())
    }
}

/// The starting state of a fold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoldOrigin {
    /// The empty state before record 1.
    Start,
    /// The log is pruned: the snapshot at this record. Records up to it are counted, not folded.
    Anchor(u64),
    /// The snapshot at this record. Records before it were not read.
    Snapshot(u64),
    /// The log is pruned, and there is no snapshot from which the fold could begin, for this
    /// reason.
    Missing(String),
}

/// A callback that is called with the fold after each durable record. If it returns `Break`, the
/// fold stops.
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
    /// Records after the durable end that HEAD names: a write in progress, or an interrupted write
    /// that recovery classifies when the ledger is opened. They are not part of the state, unless
    /// HEAD is lost.
    pub unacknowledged: u64,
    /// All intact records, before and after damage.
    pub records: u64,
    /// The last intact record, before or after damage.
    pub last: Option<LoggedRecord>,
    /// The starting state of the fold.
    pub origin: FoldOrigin,
    /// The snapshot after the damage from which the fold continued, by its record.
    pub from_snapshot: Option<u64>,
    /// The errors of the snapshots that could not be used for that.
    pub ignored_snapshots: Vec<String>,
    /// The reason why the fold ended early although the bytes are intact: a newer program wrote a
    /// record.
    pub unreadable: Option<String>,
    /// Whether the state lacks a record before the last one.
    has_missing_records: bool,
}

#[doc(hidden)]
impl LedgerView {
    /// Fold all valid records up to record `seq`, and report the damage. After damage the fold
    /// continues from the next valid snapshot, which replaces the missing records.
    ///
    /// # Errors
    /// `Io`. Damage is not an error here.
    pub fn fold(&self, seq: u64) -> Result<Fold> {
        self.fold_with(seq, &mut |_, _| ControlFlow::Continue(()))
    }

    /// As [`LedgerView::fold`]. `observe` is called with the fold after each durable record; if it
    /// returns `Break`, the fold stops. Its state is the one after that record, unless the record
    /// comes after damage.
    ///
    /// # Errors
    /// As [`LedgerView::fold`].
    pub fn fold_with(&self, seq: u64, observe: FoldObserver<'_>) -> Result<Fold> {
        let mut fold = Fold::new(State::default(), FoldOrigin::Start);
        fold.begin(&self.reader, seq);
        fold.read(&self.reader, 1, seq, observe)?;
        Ok(fold)
    }

    /// As [`LedgerView::fold`], from the newest valid snapshot on: earlier records are not read, and
    /// damage among them is not found. If segments are damaged or missing, or there is damage after the
    /// snapshot, the whole log is read.
    ///
    /// # Errors
    /// `Io`. Damage is not an error here.
    pub fn fold_recent(&self) -> Result<Fold> {
        if self.reader.first_seq() == 1
            && self.reader.head_names_present_segment()
            && self.reader.segments_intact()?
        {
            let names = store::names::<State>(&self.reader).unwrap_or_default();
            for name in names.iter().rev().take(SNAPSHOTS_TRIED_MAX) {
                let Ok((state, header)) = load::<State>(&self.reader, name) else {
                    continue;
                };
                if let Some(fold) = fold_after(&self.reader, state, &header)? {
                    return Ok(fold);
                }
            }
        }
        self.fold(u64::MAX)
    }
}

/// Fold the records after a snapshot; `None` if anything is wrong there.
fn fold_after(reader: &LogReader, state: State, header: &SnapshotHeader) -> Result<Option<Fold>> {
    let mut fold = Fold::new(state, FoldOrigin::Snapshot(header.seq));
    // The records before that of the snapshot are counted, but not read.
    fold.records = header.seq.saturating_sub(1);
    let mut is_usable = true;
    fold.read(reader, header.seq, u64::MAX, &mut |fold, status| {
        let note = fold.last.as_ref().and_then(SnapshotNote::from_record);
        let is_contradicted = note.is_some_and(|note| note.contradicts(header));
        is_usable = status == RecordStatus::Durable && !is_contradicted;
        if is_usable { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    is_usable &= fold.damage.is_empty() && fold.unreadable.is_none();
    Ok(Some(fold).filter(|fold| is_usable && fold.state.runs.fault().is_none()))
}

impl Fold {
    fn new(state: State, origin: FoldOrigin) -> Self {
        Self {
            state,
            damage: Vec::new(),
            derived: Vec::new(),
            after_damage: 0,
            unacknowledged: 0,
            records: 0,
            last: None,
            origin,
            from_snapshot: None,
            ignored_snapshots: Vec::new(),
            unreadable: None,
            has_missing_records: false,
        }
    }

    /// A fold with a state that was computed elsewhere, without known damage.
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

    /// If the log is pruned, begin with a snapshot.
    fn begin(&mut self, reader: &LogReader, seq: u64) {
        if reader.first_seq() == 1 {
            return;
        }
        let (first, ignored) = store::first_state(reader, seq);
        self.ignored_snapshots.extend(ignored.iter().map(ToString::to_string));
        if let Some((state, at)) = first {
            self.state = state;
            self.origin = FoldOrigin::Anchor(at);
            return;
        }
        let first = reader.first_seq();
        let what = format!("the log begins at record {first}, and no earlier state is left");
        // An archive has no snapshots and needs none.
        if reader.manifest().is_none() {
            self.unreadable = Some(what.clone());
        }
        self.origin = FoldOrigin::Missing(what);
    }

    /// Fold the records from `from` to `seq`.
    fn read(
        &mut self,
        reader: &LogReader,
        from: u64,
        seq: u64,
        observe: FoldObserver<'_>,
    ) -> Result<()> {
        // Listed when the first damage is found.
        let mut snapshots = None;
        let is_head_present = reader.head_names_present_segment();
        let first_folded = self.first_folded();
        let read = |sink: BatchSink<'_, Batch>| {
            let mut batch = Batch::default();
            let mut walk = reader.walk(from).up_to(seq);
            while let Some(item) = walk.next_ref() {
                match item {
                    Ok(item) => batch.add(item, first_folded),
                    Err(error) => {
                        let _ = sink(batch);
                        return Err(error);
                    }
                }
                if batch.is_full() && sink(std::mem::take(&mut batch)).is_break() {
                    return Ok(());
                }
            }
            let _ = sink(batch);
            Ok(())
        };
        let mut apply = |item: Item, payloads: &[u8]| {
            match item {
                LogItem::DerivedDamage(damage) => self.derived.push(damage),
                LogItem::Damage(damage) if damage.first_seq > seq => return ControlFlow::Break(()),
                LogItem::Damage(damage) => {
                    self.has_missing_records |= self.is_affected_by(&damage);
                    self.damage.push(damage);
                }
                LogItem::OpenEnd { .. } => {}
                LogItem::Record(_, RecordStatus::Unacknowledged) if is_head_present => {
                    self.records += 1;
                    self.unacknowledged += 1;
                }
                LogItem::Record(mut record, status) => {
                    let event = record.payload.event.take();
                    let payload = payloads.get(record.payload.bytes.clone()).unwrap_or_default();
                    self.add(record.with_payload(payload), status, event);
                    if self.has_missing_records {
                        let names = snapshots.get_or_insert_with(|| self.list_snapshots(reader));
                        self.resume_from_snapshot(reader, names);
                    }
                    return observe(self, status);
                }
            }
            ControlFlow::Continue(())
        };
        read_ahead(reader.is_long(from, seq), read, |Batch { items, payloads }| {
            items.into_iter().try_for_each(|item| apply(item, &payloads))
        })
    }

    /// The first record that is folded into the state.
    fn first_folded(&self) -> u64 {
        match self.origin {
            FoldOrigin::Start => 1,
            FoldOrigin::Anchor(at) | FoldOrigin::Snapshot(at) => at.saturating_add(1),
            FoldOrigin::Missing(_) => u64::MAX,
        }
    }

    /// Whether the damage affects the state, since it is after the origin. A lost header costs no record: where the
    /// records after it do not follow from the records before it, their status says so.
    fn is_affected_by(&self, damage: &Damage) -> bool {
        if damage.is_of_header_only() {
            return false;
        }
        match self.origin {
            FoldOrigin::Anchor(at) | FoldOrigin::Snapshot(at) => {
                damage.first_seq.max(damage.last_seq) > at
            }
            FoldOrigin::Start | FoldOrigin::Missing(_) => true,
        }
    }

    /// Adds a record, and folds it if it was decoded.
    fn add(
        &mut self,
        record: LoggedRecord<&[u8]>,
        status: RecordStatus,
        event: Option<Result<RecordedEvent>>,
    ) {
        self.records += 1;
        self.unacknowledged += u64::from(status == RecordStatus::Unacknowledged);
        let Some(event) = event else {
            record.copy_into(&mut self.last);
            return;
        };
        // A snapshot replaces the missing records before it, although the chain has a gap there.
        let is_bridged = self.from_snapshot.is_some() || self.origin != FoldOrigin::Start;
        self.has_missing_records |= status == RecordStatus::AfterDamage && !is_bridged;
        if self.has_missing_records {
            self.after_damage += 1;
        } else if self.unreadable.is_none() {
            match event {
                Ok(record) => apply_owned_record(&mut self.state, record),
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

    /// Continue from a valid snapshot at the last record, if there is one: it replaces all missing
    /// records before it.
    fn resume_from_snapshot(&mut self, reader: &LogReader, names: &[SnapshotName]) {
        let Some(seq) = self.last.as_ref().map(|last| last.seq) else { return };
        for name in names.iter().filter(|name| name.seq == seq) {
            match load_validated::<State>(reader, name) {
                Ok((state, _)) => {
                    self.state = state;
                    self.from_snapshot = Some(seq);
                    self.has_missing_records = false;
                    self.after_damage = 0;
                    self.unreadable = None;
                    return;
                }
                Err(error) => self.ignored_snapshots.push(error.to_string()),
            }
        }
    }
}
