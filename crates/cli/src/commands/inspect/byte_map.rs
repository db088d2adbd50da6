//! Classifies every byte of a ledger's segments.
//!
//! Invariants: the regions of a file are contiguous from its first byte to its last; a region is
//! reported as intact only after its bytes were read and checked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plan_ledger::internals::storage::Access;
use plan_ledger::log::{
    Damage, DerivedDamage, Diagnosis, LogItem, RecordStatus, SegmentInfo, SegmentState,
};
use plan_ledger::{Environment, Error, LedgerView};
use plan_ledger_views::{Region, RegionClass};

use crate::output::Failure;

/// The regions of all segments, file by file.
pub(crate) fn regions(
    view: &LedgerView,
    diagnosis: Option<&Diagnosis>,
    environment: &Environment,
) -> Result<Vec<Region>, Failure> {
    let infos = view.log().segment_infos()?;
    let mut found = ScanResult::default();
    let mut walk = view.log().walk(1);
    while let Some(item) = walk.next_ref() {
        match item? {
            LogItem::Record(record, status) => {
                let place = (record.offset, record.offset.saturating_add(record.size));
                found.record(record.segment, place, record.seq, status);
            }
            LogItem::Damage(damage) => found.damage(damage),
            LogItem::DerivedDamage(damage) => found.derived.push(damage),
            LogItem::OpenEnd { .. } => {}
        }
    }
    let mut all = Vec::new();
    for each in &infos {
        let length = length(&each.summary.path, environment)?;
        all.extend(found.file(each, length, diagnosis));
    }
    // The remaining regions belong to missing segments.
    all.extend(std::mem::take(&mut found.by_path).into_values().flatten());
    Ok(all)
}

fn length(path: &Path, environment: &Environment) -> Result<u64, Error> {
    let io = |error| Error::io("measure the segment", path, error);
    environment.storage.open(path, Access::Read).and_then(|file| file.length()).map_err(io)
}

/// The result of a scan: records by segment number, everything else by file.
#[derive(Debug, Default)]
struct ScanResult {
    records: BTreeMap<u64, Vec<RecordRange>>,
    by_path: BTreeMap<PathBuf, Vec<Region>>,
    derived: Vec<DerivedDamage>,
}

/// Contiguous records of one class.
#[derive(Debug, Clone, Copy)]
struct RecordRange {
    class: RegionClass,
    offset: u64,
    end: u64,
    seqs: (u64, u64),
}

impl ScanResult {
    fn record(&mut self, segment: u64, (offset, end): (u64, u64), seq: u64, status: RecordStatus) {
        let class = match status {
            RecordStatus::Durable => RegionClass::Records,
            RecordStatus::AfterDamage => RegionClass::AfterDamage,
            RecordStatus::Unacknowledged => RegionClass::Unacknowledged,
        };
        let all = self.records.entry(segment).or_default();
        match all.last_mut() {
            Some(last) if last.class == class && last.end == offset => {
                (last.end, last.seqs.1) = (end, seq);
            }
            _ => all.push(RecordRange { class, offset, end, seqs: (seq, seq) }),
        }
    }

    fn damage(&mut self, damage: Damage) {
        let Damage { path, offset, end, first_seq, last_seq, what } = damage;
        let records = (first_seq <= last_seq).then_some((first_seq, last_seq));
        let class = RegionClass::Damaged;
        let region =
            Region { path: path.clone(), ordinal: None, offset, end, class, records, what };
        self.by_path.entry(path).or_default().push(region);
    }

    /// The regions of one file, from its first byte to its last.
    fn file(
        &mut self,
        infos: &SegmentInfo,
        length: u64,
        diagnosis: Option<&Diagnosis>,
    ) -> Vec<Region> {
        let path = &infos.summary.path;
        let ordinal = infos.summary.header.as_ref().ok().map(|header| header.ordinal);
        let mut file = FileRegions { path, ordinal, at: 0, length, all: Vec::new() };
        let mut read = self.by_path.remove(path).unwrap_or_default();
        // A wholly damaged file was not read: it may be a copy of another segment.
        let is_whole = |each: &Region| each.offset == 0 && (each.end == 0 || each.end >= length);
        let own = ordinal.filter(|_| !read.iter().any(is_whole));
        let records = own.and_then(|ordinal| self.records.remove(&ordinal));
        read.extend(records.into_iter().flatten().map(|records| records.region(path)));
        read.sort_by_key(|region| (region.offset, region.end));
        if read.first().is_none_or(|first| first.offset != 0) {
            file.add(HEADER_END, RegionClass::Header, "");
        }
        for region in read {
            file.add(region.offset, RegionClass::Unread, "");
            // An unreadable file has no known end.
            let end = if region.end == 0 { length } else { region.end };
            file.region(Region { end, ..region });
        }
        self.rest(infos, diagnosis, &mut file);
        file.all
    }

    /// The regions after the records.
    fn rest(&self, infos: &SegmentInfo, diagnosis: Option<&Diagnosis>, file: &mut FileRegions<'_>) {
        let mut of_file = self.derived.iter().filter(|derived| derived.path == *file.path);
        match &infos.state {
            SegmentState::Sealed(footer) => {
                let index = of_file.find(|derived| derived.offset == footer.data_end);
                let class = if index.is_some() { RegionClass::Damaged } else { RegionClass::Index };
                file.add(footer.data_end, RegionClass::Unread, "");
                file.add(footer.offset(), class, index.map_or("", |derived| &derived.what));
                file.add(file.length, RegionClass::Footer, "");
            }
            SegmentState::Damaged(damage) => {
                file.add(
                    damage.offset,
                    RegionClass::Unread,
                    "the index cannot be found without the footer",
                );
                file.add(file.length, RegionClass::Damaged, &damage.what);
            }
            SegmentState::Fenced => {
                file.add(file.length, RegionClass::Dead, "after the logical end");
            }
            SegmentState::Full => file.add(file.length, RegionClass::Free, ""),
            SegmentState::Active => file.tail(diagnosis),
            SegmentState::Unknown => file.add(file.length, RegionClass::Unread, ""),
        }
    }
}

impl RecordRange {
    fn region(self, path: &Path) -> Region {
        let Self { class, offset, end, seqs } = self;
        let (path, records, what) = (path.to_owned(), Some(seqs), String::new());
        Region { path, ordinal: None, offset, end, class, records, what }
    }
}

/// Collects the regions of one file.
#[derive(Debug)]
struct FileRegions<'a> {
    path: &'a Path,
    ordinal: Option<u64>,
    at: u64,
    length: u64,
    all: Vec<Region>,
}

impl FileRegions<'_> {
    /// Adds the bytes up to `end`.
    fn add(&mut self, end: u64, class: RegionClass, what: &str) {
        let path = self.path.to_owned();
        let (ordinal, offset, what) = (self.ordinal, self.at, what.to_owned());
        self.region(Region { path, ordinal, offset, end, class, records: None, what });
    }

    fn region(&mut self, region: Region) {
        let (offset, end) = (region.offset.max(self.at), region.end.min(self.length));
        // Damage without bytes is kept: it may name missing records.
        if offset < end || region.class == RegionClass::Damaged {
            let end = end.max(offset);
            self.at = end;
            self.all.push(Region { offset, end, ordinal: self.ordinal, ..region });
        }
    }

    /// Adds the tail of the active segment.
    fn tail(&mut self, diagnosis: Option<&Diagnosis>) {
        let here = |diagnosis: &&Diagnosis| {
            diagnosis.end.as_ref().is_some_and(|end| end.path == self.path)
        };
        let Some(diagnosis) = diagnosis.filter(here) else {
            return self.add(self.length, RegionClass::Unread, "");
        };
        let Some(end) = &diagnosis.end else { return };
        let class =
            if diagnosis.outcome.is_ok() { RegionClass::Torn } else { RegionClass::Damaged };
        for range in &end.discarded {
            self.add(range.offset.saturating_add(range.length), class, end.fault.describe());
        }
        self.add(self.length, RegionClass::Free, "");
    }
}

/// The end of a segment's header, where the records begin.
pub(crate) const HEADER_END: u64 = 4096;
const _: () =
    assert!(plan_ledger::internals::format::SEGMENT_HEADER_SIZE == 4096, "HEADER_END is its size");
