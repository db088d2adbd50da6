//! What can be read of a damaged ledger, in a new one (`format/export.md`, section 3).
//!
//! Invariants:
//! - The damaged ledger is only read.
//! - Sequence numbers stay: they are attempt tokens. Each record that cannot be taken over is a
//!   gap record.
//! - A batch that is whole stays one. The records of a batch of which a later one is missing
//!   stand alone; those behind the missing one stay together. Its key goes: it would say that the
//!   whole batch is there.
//! - The new ledger has a uid and a genesis of its own: nobody can take it for the old one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, NewRecord};
use crate::log::{
    Ack, BlobId, BlobState, Damage, GapNote, Genesis, KIND_BATCH_KEY, LogBuilder, LogReader,
    LoggedRecord, LostRange, Proof,
};
use crate::storage::Storage;

use super::Environment;
use super::blobs::blob_of;
use super::codec;
use super::islands::{Islands, Piece, in_place_of};
use super::lost_note;

/// The most gap records of a salvaged ledger. A header that claims more is not believed.
pub const GAPS_MAX: u64 = 1 << 22;
/// Why the key of a batch is not taken over.
const KEY_OF_CUT: &str =
    "the key of a batch of which a record is missing, and which it would vouch for";
/// How many ranges a report names.
const RANGES_MAX: usize = 1000;

/// What was salvaged, and what was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// The last record of the new ledger; `None` if there was nothing to salvage, and so no ledger
    /// was made.
    pub ack: Option<Ack>,
    /// Records that were taken over.
    pub records: u64,
    /// Those of them that had been part of a batch, and stand alone now.
    pub alone: u64,
    /// Those of them of which nobody was told, as far as HEAD says.
    pub unproven: u64,
    /// Records that were lost.
    pub lost: u64,
    /// The damage that cost them, and damage that cost none, each with the first record: the
    /// first 1,000.
    pub ranges: Vec<(u64, LostRange)>,
    /// How many more there are.
    pub ranges_more: u64,
    /// A range that is too long to be bridged by gap records: it was not, and nothing behind it
    /// was taken over.
    pub not_bridged: Option<(u64, u64)>,
    /// Blobs that were copied.
    pub blobs: u64,
    /// Blobs that records name and that are missing or damaged.
    pub blobs_lost: u64,
}

/// A state that stands on anchors is more than what the records that are left fold to: a ledger of
/// these alone would be another one.
fn expect_start(reader: &LogReader, storage: &dyn Storage) -> Result<()> {
    if reader.first_seq() == 1 {
        return lost_note::signs(reader, storage).map_or(Ok(()), Err);
    }
    let message = format!(
        "the log begins at record {}: its state cannot be made from its records alone; restore it \
         from a copy, or look at what is there with `ledger inspect`",
        reader.first_seq()
    );
    Err(Error::new(ErrorKind::Rejected, message).at_path(reader.dir()))
}

/// Make the ledger `to`, which is not there yet, out of what can be read of the ledger `from`.
///
/// # Errors
/// `NotALedger`; `Rejected` for a log that begins later because it was pruned; `Io`, `DiskFull` and `Locked`. Damage is no error, and nothing is left behind by
/// an error.
pub fn salvage(from: &Path, to: &Path, environment: &Environment) -> Result<Salvaged> {
    let reader = LogReader::open(&environment.storage, from)?;
    expect_start(&reader, &*environment.storage)?;
    let cut = cut_batches(&reader);
    let time = environment.clock.now();
    let builder = LogBuilder::create(to, environment.log_options(), Genesis::Own, time)?;
    let mut work = Work {
        builder,
        reader: &reader,
        from,
        cut,
        before: Some(Chain::GENESIS),
        pending: None,
        named: BTreeSet::new(),
        report: Salvaged::nothing(),
    };
    for piece in Islands::new(&reader) {
        match piece {
            Piece::Record(record, proof) => work.record(record, proof)?,
            Piece::Lost(damage) | Piece::Left(damage) => work.lost(damage)?,
        }
        if work.report.not_bridged.is_some() {
            break;
        }
    }
    work.close_gap(None)?;
    work.blobs()?;
    let Work { builder, mut report, .. } = work;
    if report.records > 0 {
        report.ack = Some(builder.finish()?);
    }
    Ok(report)
}

/// Records of batches of which a later record is missing: first and last of each such row.
fn cut_batches(reader: &LogReader) -> BTreeMap<u64, u64> {
    let mut cut = BTreeMap::new();
    let mut open: Option<(u64, u64, u16)> = None;
    for piece in Islands::new(reader) {
        open = match (piece, open) {
            (Piece::Lost(damage), Some(_)) if damage.last_seq < damage.first_seq => open,
            (Piece::Lost(_) | Piece::Left(_), open) => {
                cut.extend(open.map(|(first, last, _)| (first, last)));
                None
            }
            (Piece::Record(record, _), open) => {
                let goes_on = open.filter(|(_, _, left)| left - 1 == record.batch_left);
                if goes_on.is_none() {
                    cut.extend(open.map(|(first, last, _)| (first, last)));
                }
                let first = goes_on.map_or(record.seq, |(first, _, _)| first);
                (record.batch_left > 0).then_some((first, record.seq, record.batch_left))
            }
        };
    }
    cut.extend(open.map(|(first, last, _)| (first, last)));
    cut
}

struct Work<'a> {
    builder: LogBuilder,
    reader: &'a LogReader,
    from: &'a Path,
    cut: BTreeMap<u64, u64>,
    /// Chain value of the record before the next one, in the damaged ledger.
    before: Option<Chain>,
    /// A range whose gap records are not written yet: the chain behind it is not known.
    pending: Option<(u64, LostRange)>,
    named: BTreeSet<BlobId>,
    report: Salvaged,
}

impl Work<'_> {
    fn record(&mut self, record: LoggedRecord, proof: Proof) -> Result<()> {
        self.close_gap(Some(record.chain))?;
        let is_cut = self.cut.range(..=record.seq).next_back();
        let is_cut = is_cut.is_some_and(|(_, last)| record.seq <= *last);
        if is_cut && record.kind == KIND_BATCH_KEY {
            self.lost(in_place_of(self.reader, &record, KEY_OF_CUT.to_owned()))?;
            self.before = Some(record.chain);
            return Ok(());
        }
        let batch_left = if is_cut { 0 } else { record.batch_left };
        if let Ok(Some(event)) = codec::decode(&record) {
            self.named.extend(blob_of(&event));
        }
        let LoggedRecord { kind, codec, schema, payload, .. } = record;
        let time = record.time.max(self.builder.time());
        self.builder.push(&NewRecord { kind, codec, schema, payload }, time, batch_left)?;
        self.before = Some(record.chain);
        self.report.records += 1;
        self.report.alone += u64::from(is_cut);
        self.report.unproven += u64::from(proof == Proof::Unproven);
        Ok(())
    }

    fn lost(&mut self, damage: Damage) -> Result<()> {
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
            self.note(first, range);
            return Ok(());
        }
        self.close_gap(None)?;
        let count = last.saturating_sub(first).saturating_add(1);
        if self.report.lost.saturating_add(count) > GAPS_MAX {
            self.report.not_bridged = Some((first, last));
            self.note(first, range);
            return Ok(());
        }
        self.report.lost += count;
        let chain_before = self.before.take().map(|chain| chain.to_string());
        self.pending = Some((first, LostRange { chain_before, ..range }));
        Ok(())
    }

    /// Write the gap records of the last range. `after` is the chain of the record behind it.
    fn close_gap(&mut self, after: Option<Chain>) -> Result<()> {
        let Some((first, mut range)) = self.pending.take() else { return Ok(()) };
        range.chain_after = after.map(|chain| chain.to_string());
        for seq in first..=range.last {
            let range = (seq == first).then(|| range.clone());
            let note = GapNote { seq, first, range };
            self.builder.push(&note.record(), self.builder.time(), 0)?;
        }
        self.note(first, range);
        Ok(())
    }

    fn note(&mut self, first: u64, range: LostRange) {
        if self.report.ranges.len() < RANGES_MAX {
            self.report.ranges.push((first, range));
        } else {
            self.report.ranges_more += 1;
        }
    }

    /// Copy the blobs that are intact.
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

impl Salvaged {
    fn nothing() -> Self {
        Self {
            ack: None,
            records: 0,
            alone: 0,
            unproven: 0,
            lost: 0,
            ranges: Vec::new(),
            ranges_more: 0,
            not_bridged: None,
            blobs: 0,
            blobs_lost: 0,
        }
    }
}

/// A path as the damaged ledger's folder has it, the same on every machine.
fn relative(path: &Path, dir: &Path) -> String {
    let path = path.strip_prefix(dir).unwrap_or(path);
    let parts = path.components().map(|part| part.as_os_str().to_string_lossy());
    parts.collect::<Vec<_>>().join("/")
}
