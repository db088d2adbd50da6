//! Reads a damaged log as a sequence of records that can be salvaged and ranges that cannot.
//!
//! Invariants: the items are in the order of sequence numbers, and cover each number exactly once.
//! A read error loses the rest of its segment, but no other segment.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind};
use crate::log::{
    Damage, KIND_RETENTION_NOTE, KIND_SNAPSHOT_NOTE, LogItem, LogReader, LoggedRecord,
    RecordStatus, Walk,
};

use crate::ledger::codec::event::decode;

/// An item of a damaged log.
#[derive(Debug)]
pub(crate) enum SalvageItem {
    Record(LoggedRecord, RecordStatus),
    /// Lost records; `last_seq` is below `first_seq` if no record was lost.
    Lost(Damage),
    /// An intact record that is not salvaged.
    Excluded(Damage, Loss),
}

/// The loss that comes with a lost record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Nothing that matters: it was a note that says nothing in the new ledger.
    Nothing,
    Record,
}

/// Reads the items of a damaged log, in order.
pub(crate) struct DamagedLogReader<'a> {
    reader: &'a LogReader,
    walk: Walk<'a>,
    next_seq: u64,
    /// The record after a gap, to be returned after the gap.
    pending: Option<(LoggedRecord, RecordStatus)>,
    is_at_end: bool,
}

impl<'a> DamagedLogReader<'a> {
    pub(crate) fn new(reader: &'a LogReader) -> Self {
        Self { reader, walk: reader.walk(1), next_seq: 1, pending: None, is_at_end: false }
    }

    fn record(&mut self, record: LoggedRecord, status: RecordStatus) -> SalvageItem {
        if record.seq > self.next_seq {
            let last = record.seq - 1;
            self.pending = Some((record, status));
            return self.lost(&self.folder(), last, "no trace of these records was found");
        }
        self.next_seq = record.seq.saturating_add(1);
        match exclusion_reason(&record) {
            None => SalvageItem::Record(record, status),
            Some((what, loss)) => SalvageItem::Excluded(excluded(self.reader, &record, what), loss),
        }
    }

    /// Report the records from the next one to `last` as lost, at an unknown place in a file.
    fn lost(&mut self, path: &Path, last: u64, what: &str) -> SalvageItem {
        let first_seq = self.next_seq;
        self.next_seq = last.saturating_add(1);
        let (path, what) = (path.to_owned(), what.to_owned());
        SalvageItem::Lost(Damage { path, offset: 0, end: 0, first_seq, last_seq: last, what })
    }

    fn folder(&self) -> PathBuf {
        folder(self.reader)
    }

    fn damage(&mut self, damage: Damage) -> SalvageItem {
        let first_seq = self.next_seq;
        self.next_seq = first_seq.max(damage.last_seq.saturating_add(1));
        // Records that were already returned are not lost.
        SalvageItem::Lost(Damage { first_seq, ..damage })
    }

    /// Continue with the next readable segment.
    fn unreadable(&mut self, error: &Error) -> Option<SalvageItem> {
        let path = error.location().path.clone().unwrap_or_else(|| self.folder());
        let segments = self.reader.segments();
        let base = segments
            .iter()
            .filter_map(|segment| segment.header.as_ref().ok())
            .map(|header| header.base_seq)
            .filter(|base| *base > self.next_seq)
            .min();
        let last = if let Some(base) = base {
            self.walk = self.reader.walk(base);
            base - 1
        } else {
            self.is_at_end = true;
            self.last_durable().filter(|last| *last >= self.next_seq)?
        };
        Some(self.lost(&path, last, &error.to_string()))
    }

    fn last_durable(&self) -> Option<u64> {
        self.reader.head().map(|head| head.durable_seq)
    }
}

impl Iterator for DamagedLogReader<'_> {
    type Item = SalvageItem;

    fn next(&mut self) -> Option<SalvageItem> {
        if let Some((record, status)) = self.pending.take() {
            return Some(self.record(record, status));
        }
        while !self.is_at_end {
            match self.walk.next() {
                None => {
                    self.is_at_end = true;
                    let last = self.last_durable().filter(|last| *last >= self.next_seq)?;
                    let what = "acknowledged according to HEAD, but missing";
                    return Some(self.lost(&self.folder(), last, what));
                }
                // The record was already returned, or reported as lost.
                Some(Ok(LogItem::Record(record, _))) if record.seq < self.next_seq => {}
                Some(Ok(LogItem::Record(record, status))) => {
                    return Some(self.record(record, status));
                }
                Some(Ok(LogItem::Damage(damage))) => return Some(self.damage(damage)),
                Some(Ok(LogItem::DerivedDamage(_) | LogItem::OpenEnd { .. })) => {}
                Some(Err(error)) => match self.unreadable(&error) {
                    Some(item) => return Some(item),
                    None => return None,
                },
            }
        }
        None
    }
}

/// The range that replaces an intact record in the new ledger.
pub(crate) fn excluded(reader: &LogReader, record: &LoggedRecord, what: String) -> Damage {
    let path = reader.segment_path(record.segment);
    let (offset, end) = (record.offset, record.offset.saturating_add(record.size));
    let (first_seq, last_seq) = (record.seq, record.seq);
    Damage { path, offset, end, first_seq, last_seq, what }
}

fn folder(reader: &LogReader) -> PathBuf {
    let segments = reader.segments();
    let folder = segments.first().and_then(|segment| segment.path.parent());
    folder.unwrap_or(Path::new("log")).to_owned()
}

/// The reason why an intact record is not salvaged, if any.
fn exclusion_reason(record: &LoggedRecord) -> Option<(String, Loss)> {
    if record.kind == KIND_SNAPSHOT_NOTE {
        let what = "a note about a snapshot, which is not salvaged";
        return Some((what.to_owned(), Loss::Nothing));
    }
    if record.kind == KIND_RETENTION_NOTE {
        return Some(("a note about pruned segments".to_owned(), Loss::Nothing));
    }
    let error = decode(record).err()?;
    // A newer program can read a record that this one cannot.
    (error.kind() == ErrorKind::Corrupt).then(|| (error.to_string(), Loss::Record))
}
