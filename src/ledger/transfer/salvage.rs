//! Salvages the intact records and blobs of a damaged ledger into a new one (`format/export.md`,
//! section 3).
//!
//! Invariants:
//! - The damaged ledger is only read.
//! - Sequence numbers are kept, since they are attempt tokens. A gap record replaces each record that
//!   cannot be salvaged.
//! - A complete batch stays a batch. If a record of a batch is missing, those before it become
//!   single records and those after it stay together. The batch loses its idempotency key, which
//!   would imply that the batch is complete.
//! - The new ledger has its own uid and genesis, so that it cannot be mistaken for the old one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, NewRecord};
use crate::log::{
    Ack, BlobId, BlobState, ChainOrigin, Damage, GapNote, KIND_BATCH_KEY, LogBuilder, LogReader,
    LoggedRecord, LostRange, RecordStatus,
};
use crate::storage::Storage;

use crate::ledger::blobs::blob_of;
use crate::ledger::codec::event::decode;
use crate::ledger::environment::Environment;

use super::damaged_log::{DamagedLogReader, Loss, SalvageItem, excluded};
use super::prune_evidence;

/// The maximum number of gap records in a salvaged ledger. If a header implies more, the salvage
/// stops before the gap.
pub const GAP_RECORDS_MAX: u64 = 1 << 22;
/// The reason why an idempotency key is not salvaged.
const KEY_OF_INCOMPLETE_BATCH: &str = "the key of a batch with a missing record";
/// The maximum number of ranges in a report.
const RANGES_MAX: usize = 1000;

/// The result of a salvage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalvageReport {
    /// The last record of the new ledger; `None` if there was nothing to salvage, and no ledger was
    /// created.
    pub ack: Option<Ack>,
    /// Salvaged records.
    pub records: u64,
    /// Salvaged records that were part of an incomplete batch.
    pub unbatched: u64,
    /// Salvaged records that were not acknowledged according to HEAD.
    pub unacknowledged: u64,
    /// Lost records.
    pub lost: u64,
    /// The first 1,000 damaged ranges, each with its first record. Ranges without lost records are
    /// included.
    pub ranges: Vec<(u64, LostRange)>,
    /// The number of ranges that are not listed.
    pub omitted_ranges: u64,
    /// A range that needs too many gap records: the salvage ended before it.
    pub unbridged_range: Option<(u64, u64)>,
    /// Copied blobs.
    pub blobs: u64,
    /// Referenced blobs that are missing or damaged.
    pub blobs_lost: u64,
}

/// Reject a pruned log: its state cannot be folded from the records that are left.
fn check_unpruned(reader: &LogReader, storage: &dyn Storage) -> Result<()> {
    if reader.first_seq() == 1 {
        return prune_evidence::find(reader, storage).map_or(Ok(()), Err);
    }
    let message = format!(
        "the log begins at record {}: its state cannot be folded from its records alone; restore it \
         from a copy, or read it with `ledger inspect`",
        reader.first_seq()
    );
    Err(Error::new(ErrorKind::Rejected, message).at_path(reader.dir()))
}

/// Create the ledger `to`, which must not exist, from the intact records of the ledger or the archive `from`.
///
/// # Errors
/// `NotALedger`; `Rejected` for a pruned log; `Io`, `DiskFull` and `Locked`. Damage is not an
/// error. After an error no file remains.
pub fn salvage(from: &Path, to: &Path, environment: &Environment) -> Result<SalvageReport> {
    let source = match environment.in_archive(from) {
        Ok(archive) => archive.storage,
        Err(error) if error.kind() == ErrorKind::Corrupt => return Err(error),
        // It is a folder, or there is nothing.
        Err(_) => environment.storage.clone(),
    };
    let reader = LogReader::open(&source, from)?;
    check_unpruned(&reader, &*source)?;
    let incomplete = incomplete_batches(&reader);
    let time = environment.clock.now();
    let builder = LogBuilder::create(to, environment.log_options(), ChainOrigin::New, time)?;
    let mut salvager = Salvager {
        builder,
        reader: &reader,
        from,
        incomplete,
        before: Some(Chain::GENESIS),
        pending: None,
        named: BTreeSet::new(),
        report: SalvageReport::empty(),
    };
    for item in DamagedLogReader::new(&reader) {
        match item {
            SalvageItem::Record(record, status) => salvager.record(record, status)?,
            SalvageItem::Lost(damage) => salvager.lost(damage, Loss::Record)?,
            SalvageItem::Excluded(damage, loss) => salvager.lost(damage, loss)?,
        }
        if salvager.report.unbridged_range.is_some() {
            break;
        }
    }
    salvager.close_gap(None)?;
    salvager.blobs()?;
    let Salvager { builder, mut report, .. } = salvager;
    if report.records > 0 {
        report.ack = Some(builder.finish()?);
    }
    Ok(report)
}

/// Ranges of records with an incomplete batch, by first and last record.
fn incomplete_batches(reader: &LogReader) -> BTreeMap<u64, u64> {
    let mut incomplete = BTreeMap::new();
    let mut open: Option<(u64, u64, u16)> = None;
    for item in DamagedLogReader::new(reader) {
        open = match (item, open) {
            (SalvageItem::Lost(damage), Some(_)) if damage.last_seq < damage.first_seq => open,
            (SalvageItem::Lost(_) | SalvageItem::Excluded(..), open) => {
                incomplete.extend(open.map(|(first, last, _)| (first, last)));
                None
            }
            (SalvageItem::Record(record, _), open) => {
                let continued = open.filter(|(_, _, left)| left - 1 == record.batch_left);
                if continued.is_none() {
                    incomplete.extend(open.map(|(first, last, _)| (first, last)));
                }
                let first = continued.map_or(record.seq, |(first, _, _)| first);
                (record.batch_left > 0).then_some((first, record.seq, record.batch_left))
            }
        };
    }
    incomplete.extend(open.map(|(first, last, _)| (first, last)));
    incomplete
}

struct Salvager<'a> {
    builder: LogBuilder,
    reader: &'a LogReader,
    from: &'a Path,
    incomplete: BTreeMap<u64, u64>,
    /// Chain value of the previous record in the damaged ledger.
    before: Option<Chain>,
    /// A lost range. Its gap records are not written yet, since the chain after it is not known
    /// yet.
    pending: Option<(u64, LostRange, Loss)>,
    named: BTreeSet<BlobId>,
    report: SalvageReport,
}

impl Salvager<'_> {
    fn record(&mut self, record: LoggedRecord, status: RecordStatus) -> Result<()> {
        self.close_gap(Some(record.chain))?;
        let range = self.incomplete.range(..=record.seq).next_back();
        let is_incomplete = range.is_some_and(|(_, last)| record.seq <= *last);
        if is_incomplete && record.kind == KIND_BATCH_KEY {
            let damage = excluded(self.reader, &record, KEY_OF_INCOMPLETE_BATCH.to_owned());
            self.lost(damage, Loss::Nothing)?;
            self.before = Some(record.chain);
            return Ok(());
        }
        let batch_left = if is_incomplete { 0 } else { record.batch_left };
        if let Ok(Some(event)) = decode(&record) {
            self.named.extend(blob_of(&event));
        }
        let LoggedRecord { kind, codec, schema, payload, .. } = record;
        let time = record.time.max(self.builder.time());
        self.builder.push(&NewRecord { kind, codec, schema, payload }, time, batch_left)?;
        self.before = Some(record.chain);
        self.report.records += 1;
        self.report.unbatched += u64::from(is_incomplete);
        self.report.unacknowledged += u64::from(status == RecordStatus::Unacknowledged);
        Ok(())
    }

    fn lost(&mut self, damage: Damage, loss: Loss) -> Result<()> {
        let (first, last) = (damage.first_seq, damage.last_seq);
        let range = LostRange {
            last,
            file: relative(&damage.path, self.from),
            offset: damage.offset,
            end: damage.end,
            what: damage.what,
            chain_before: None,
            chain_after: None,
        };
        if last < first {
            self.report_range(first, range);
            return Ok(());
        }
        self.close_gap(None)?;
        let count = last.saturating_sub(first).saturating_add(1);
        if self.report.lost.saturating_add(count) > GAP_RECORDS_MAX {
            self.report.unbridged_range = Some((first, last));
            self.report_range(first, range);
            return Ok(());
        }
        self.report.lost += count;
        let chain_before = self.before.take().map(|chain| chain.to_string());
        self.pending = Some((first, LostRange { chain_before, ..range }, loss));
        Ok(())
    }

    /// Write the gap records of the pending range. `after` is the chain value of the next record.
    fn close_gap(&mut self, after: Option<Chain>) -> Result<()> {
        let Some((first, mut range, loss)) = self.pending.take() else { return Ok(()) };
        range.chain_after = after.map(|chain| chain.to_string());
        for seq in first..=range.last {
            let range = (seq == first).then(|| range.clone());
            let note = GapNote { seq, first, range, no_loss: loss == Loss::Nothing };
            self.builder.push(&note.record(), self.builder.time(), 0)?;
        }
        self.report_range(first, range);
        Ok(())
    }

    fn report_range(&mut self, first: u64, range: LostRange) {
        if self.report.ranges.len() < RANGES_MAX {
            self.report.ranges.push((first, range));
        } else {
            self.report.omitted_ranges += 1;
        }
    }

    /// Copy the intact blobs.
    fn blobs(&mut self) -> Result<()> {
        let (blobs, store) = (self.reader.blobs(), self.builder.blobs());
        for blob in blobs.list().unwrap_or_default().blobs {
            if let Ok(bytes) = blobs.get(&blob.id) {
                store.put(&bytes)?;
                self.report.blobs += 1;
            }
        }
        let is_lost = |id: &&BlobId| blobs.check(id) != BlobState::Intact;
        let lost = self.named.iter().filter(is_lost).count();
        self.report.blobs_lost = u64::try_from(lost).unwrap_or(u64::MAX);
        Ok(())
    }
}

impl SalvageReport {
    fn empty() -> Self {
        Self {
            ack: None,
            records: 0,
            unbatched: 0,
            unacknowledged: 0,
            lost: 0,
            ranges: Vec::new(),
            omitted_ranges: 0,
            unbridged_range: None,
            blobs: 0,
            blobs_lost: 0,
        }
    }
}

/// A path relative to the damaged ledger, with the same separator on every platform.
fn relative(path: &Path, dir: &Path) -> String {
    let path = path.strip_prefix(dir).unwrap_or(path);
    let parts = path.components().map(|part| part.as_os_str().to_string_lossy());
    parts.collect::<Vec<_>>().join("/")
}
