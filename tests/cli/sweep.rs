//! Bit-flip sweep: flips every bit of the files of a small ledger, one at a time.
//!
//! `verify` detects and locates each flip, or the byte is dead for a reason that is stated and
//! asserted. Whatever is flipped, served records are the original ones, and missing records are
//! reported.

use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;

use plan_ledger::internals::format::{Codec, NewRecord, SegmentReason};
use plan_ledger::internals::ledger::{LedgerCondition, VerifyLevel, VerifyRequest};
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::internals::storage::Storage;
use plan_ledger::log::{
    FindingClass, Log, LogItem, LogReader, LoggedRecord, RecordStatus, Verification, VerifyFinding,
    VerifyOptions, verify,
};
use plan_ledger::{Environment, Ledger, LedgerView, Plan, RunPolicy, State};

use super::golden::deterministic;
use super::lab::{at, dir, kill, open, options, reader, record};

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    SegmentHeader,
    Frames,
    /// After the data of a sealed segment.
    Index,
    Footer,
    /// After the last record of the newest segment: zeros for the next records.
    Free,
    /// After the logical end of a superseded segment. Dead: no reader passes the end in the header of the
    /// successor.
    AfterLogicalEnd,
    HeadSlot,
    /// Text for people. Dead: the format forbids interpreting it.
    LockText,
}

impl Part {
    /// The class of the finding; `None` for dead bytes.
    fn class(self) -> Option<FindingClass> {
        match self {
            // The other slot proves the end of the log of this ledger, but one slot is no redundancy.
            Self::SegmentHeader | Self::Frames | Self::HeadSlot => Some(FindingClass::Damage),
            // Derived from the records, all of which are readable without them.
            Self::Index | Self::Footer => Some(FindingClass::DerivedDamage),
            // Free space contains nothing acknowledged.
            Self::Free => Some(FindingClass::Warning),
            Self::AfterLogicalEnd | Self::LockText => None,
        }
    }

    /// Whether a flip here may lose a record.
    fn may_lose_a_record(self) -> bool {
        matches!(self, Self::SegmentHeader | Self::Frames)
    }
}

/// A ledger with every part that a ledger can have, and its records.
struct Fixture {
    disk: SimDisk,
    records: Vec<LoggedRecord>,
    parts: Vec<(PathBuf, Range<u64>, Part)>,
}

/// A rotated and sealed segment with few records, because the next record is large; that record, and one
/// that a crash tore; a fence, and some more records.
fn fixture() -> Fixture {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    for (number, size) in [(1, 30), (2, 700), (3, 0)] {
        log.append(&[record(number, size)], at(number)).unwrap();
    }
    log.append(&[record(4, 5), record(5, 60)], at(5)).unwrap();
    // Zeros, for speed, and because a record may contain zeros.
    let large = NewRecord { kind: 1, codec: Codec::Raw, schema: 1, payload: vec![0; 1_045_000] };
    log.append(&[large], at(6)).unwrap();
    // As a power loss may leave it: HEAD is stale, and a sector of the last record is missing.
    let head = disk.read(&dir().join("HEAD")).unwrap();
    log.append(&[record(7, 3000)], at(7)).unwrap();
    kill(&disk, log);
    disk.overwrite(&dir().join("HEAD"), 0, &head).unwrap();
    let torn = whole(&reader(&disk), RecordStatus::Unacknowledged).pop().unwrap();
    let path = reader(&disk).segments().pop().unwrap().path;
    disk.overwrite(&path, torn.offset.next_multiple_of(512) + 512, &[0; 512]).unwrap();
    let log = open(&disk).unwrap().0;
    log.append(&[record(8, 300), record(9, 40)], at(1001)).unwrap();
    log.append(&[record(10, 40)], at(1002)).unwrap();
    log.close().unwrap();
    let reasons: Vec<_> =
        reader(&disk).segments().iter().map(|each| each.header.clone().unwrap().reason).collect();
    assert_eq!(
        reasons,
        [SegmentReason::Create, SegmentReason::Rotate, SegmentReason::FenceAfterCrash]
    );
    let records = whole(&reader(&disk), RecordStatus::Durable);
    let parts = parts(&disk);
    Fixture { disk, records, parts }
}

/// All records of an intact log; the last ones have at least that status.
fn whole(reader: &LogReader, at_least: RecordStatus) -> Vec<LoggedRecord> {
    let record = |item: LogItem| match item {
        LogItem::Record(record, status)
            if status == at_least || status == RecordStatus::Durable =>
        {
            record
        }
        other => panic!("unexpected: {other:?}"),
    };
    reader.walk(1).map(|item| record(item.unwrap())).collect()
}

fn parts(disk: &SimDisk) -> Vec<(PathBuf, Range<u64>, Part)> {
    let reader = reader(disk);
    let segments = reader.segments();
    let mut parts = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        let length = u64::try_from(disk.read(&segment.path).unwrap().len()).unwrap();
        let next = segments.get(index + 1).map(|next| next.header.as_ref().unwrap());
        let (end, rest) = match next {
            Some(next) => (next.prev_data_end, Part::AfterLogicalEnd),
            None => (reader.head().unwrap().data_end, Part::Free),
        };
        let mut add = |range: Range<u64>, part| parts.push((segment.path.clone(), range, part));
        add(0..4096, Part::SegmentHeader);
        add(4096..end, Part::Frames);
        if length.is_multiple_of(4096) {
            add(end..length, rest);
        } else {
            add(end..length - 4096, Part::Index);
            add(length - 4096..length, Part::Footer);
        }
    }
    for slot in [0, 4096] {
        parts.push((dir().join("HEAD"), slot..slot + 4096, Part::HeadSlot));
    }
    let lock = dir().join("LOCK");
    let length = u64::try_from(disk.read(&lock).unwrap().len()).unwrap();
    parts.push((lock, 0..length, Part::LockText));
    parts
}

fn flip(disk: &SimDisk, path: &Path, bit: u64) {
    let byte = disk.read_byte(path, bit / 8);
    disk.overwrite(path, bit / 8, &[byte ^ (1 << (bit % 8))]).unwrap();
}

/// Read one byte of a file without the rest.
trait ReadByte {
    fn read_byte(&self, path: &Path, offset: u64) -> u8;
}

impl ReadByte for SimDisk {
    fn read_byte(&self, path: &Path, offset: u64) -> u8 {
        let mut byte = [0];
        let file = self.open(path, plan_ledger::internals::storage::Access::Read).unwrap();
        file.read_at(&mut byte, offset).unwrap();
        byte[0]
    }
}

/// Verify. Returns the original records that were served; no other record may be.
fn look(disk: &SimDisk, originals: &[LoggedRecord], story: &str) -> (Verification, Vec<u64>) {
    let served = Mutex::new(Vec::new());
    let examine = |record: &LoggedRecord<&[u8]>| {
        let index = usize::try_from(record.seq - 1).unwrap();
        assert_eq!(
            Some(&record.clone().into_owned()),
            originals.get(index),
            "{story}: served, but never written"
        );
        served.lock().unwrap().push(record.seq);
        None
    };
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let options = VerifyOptions { check_record: &examine, ..VerifyOptions::DEFAULT };
    let found = verify(&storage, &dir(), options).unwrap();
    let mut served = served.into_inner().unwrap();
    served.sort_unstable();
    (found, served)
}

fn contains(finding: &VerifyFinding, path: &Path, byte: u64) -> bool {
    finding.path == path && (finding.offset..finding.end).contains(&byte)
}

/// Check the properties of one flip.
fn check(fixture: &Fixture, disk: &SimDisk, baseline: &[VerifyFinding], flipped: &Flip<'_>) {
    let Flip { path, bit, part } = *flipped;
    let story = format!("{part:?}: bit {} of byte {} of {}", bit % 8, bit / 8, path.display());
    flip(disk, path, bit);
    let (found, served) = look(disk, &fixture.records, &story);
    flip(disk, path, bit);
    let new: Vec<_> = found.findings.iter().filter(|each| !baseline.contains(each)).collect();
    if let Some(class) = part.class() {
        let locating = new.iter().find(|each| contains(each, path, bit / 8));
        let finding = locating.unwrap_or_else(|| panic!("{story}: not located: {found:#?}"));
        assert_eq!(finding.class, class, "{story}: {found:#?}");
        // The finding covers at most one frame, header or slot.
        assert!(finding.end - finding.offset <= 1 << 21, "{story}: {finding}");
    } else {
        assert!(new.is_empty(), "{story}: {new:#?}");
        assert!(found.opening.is_ok(), "{story}: {:?}", found.opening);
    }
    // Derived data never prevents opening.
    assert!(found.opening.is_ok() || !matches!(part, Part::Index | Part::Footer), "{story}");
    let mut lost = fixture.records.iter().filter(|each| served.binary_search(&each.seq).is_err());
    let reported = |seq| {
        found.findings.iter().any(|each| {
            each.class == FindingClass::Damage
                && each.missing.as_ref().is_some_and(|m| m.contains(&seq))
        })
    };
    if part.may_lose_a_record() {
        if let Some(silent) = lost.find(|each| !reported(each.seq)) {
            panic!("{story}: record {} is lost silently: {found:#?}", silent.seq);
        }
    } else {
        assert_eq!(lost.next(), None, "{story}: {found:#?}");
    }
    if part == Part::Frames {
        // Exactly the record with the flipped byte is missing.
        assert_eq!(served.len() + 1, fixture.records.len(), "{story}: {found:#?}");
    }
}

#[derive(Clone, Copy)]
struct Flip<'a> {
    path: &'a Path,
    bit: u64,
    part: Part,
}

/// The distance between flipped bits.
fn stride() -> u64 {
    plan_ledger::internals::sim::sweep(43, 11, 1)
}

/// The bits to flip: fields of headers and slots and frames by the stride; slow and uniform regions
/// (reserved bytes, free space, a payload of a megabyte) more sparsely.
fn bits_to_flip(part: Part, range: &Range<u64>, stride: u64) -> Vec<u64> {
    let bits = range.start * 8..range.end * 8;
    let is_field = |bit: u64| match part {
        Part::SegmentHeader => !(208 * 8..4060 * 8).contains(&bit),
        Part::HeadSlot => bit / 8 % 4096 < 164,
        Part::Footer => bit - range.start * 8 < 368 * 8 || bit + 64 >= range.end * 8,
        Part::Frames => bit < range.start * 8 + 16_384 || bit + 1024 >= range.end * 8,
        Part::Index | Part::LockText => true,
        Part::Free | Part::AfterLogicalEnd => {
            bit < range.start * 8 + 64 || bit + 64 >= range.end * 8
        }
    };
    let sparse = match part {
        Part::SegmentHeader | Part::HeadSlot | Part::Footer if stride == 1 => 1,
        Part::SegmentHeader | Part::HeadSlot | Part::Footer => stride * 97,
        _ => stride * 9973,
    };
    let field_stride = match part {
        Part::SegmentHeader => 1,
        _ => stride,
    };
    bits.filter(|bit| {
        bit % if is_field(*bit) { field_stride } else { sparse.max(field_stride) } == 0
    })
    .collect()
}

/// Goal: every flipped bit of any file is located or dead for a stated reason, and no flip is served or
/// loses a record silently.
/// Method: a ledger with a sealed, a fenced and an active segment. Flip every bit of the fields of the
/// segment headers, a stride of the bits of HEAD, index, footer and frames, and a
/// sample of reserved, free and zero bytes. With a stride of 1, flip every bit of headers, HEAD, indexes,
/// footers and frames; free space, dead bytes and the inside of a payload of a megabyte stay sampled
/// (the example `sweep` flips those at random as well).
#[test]
fn sweep_every_flipped_bit_is_located_or_dead() {
    let stride = stride();
    let fixture = fixture();
    let (clean, served) = look(&fixture.disk, &fixture.records, "nothing flipped");
    assert_eq!(served.len(), fixture.records.len());
    assert!(clean.findings.is_empty(), "{clean:#?}");
    let mut flips = Vec::new();
    for (path, range, part) in &fixture.parts {
        let bits = bits_to_flip(*part, range, stride);
        assert!(!bits.is_empty() || range.is_empty(), "{part:?} {range:?}");
        flips.extend(bits.into_iter().map(|bit| Flip { path, bit, part: *part }));
    }
    for part in [Part::AfterLogicalEnd, Part::Free, Part::Index, Part::Footer, Part::HeadSlot] {
        assert!(flips.iter().any(|flip| flip.part == part), "{part:?} was not flipped");
    }
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        for share in flips.chunks(flips.len().div_ceil(threads)) {
            let (fixture, clean) = (&fixture, &clean.findings);
            scope.spawn(move || {
                let disk = fixture.disk.fork();
                for flip in share {
                    check(fixture, &disk, clean, flip);
                }
            });
        }
    });
}

/// Goal: every flipped bit of a snapshot is located, and none changes the state: replay continues without
/// the snapshot.
/// Method: a stride of the bits of the only snapshot of a small ledger, from which
/// opening it would start.
#[test]
fn sweep_every_flipped_bit_of_a_snapshot_is_located() {
    let disk = SimDisk::new();
    let environment = Environment { storage: Arc::new(disk.clone()), ..deterministic() };
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    let plan: Plan = serde_json::from_str(r#"{"steps": [{"id": "one"}]}"#).unwrap();
    ledger.start_run("demo", &plan, RunPolicy::default()).unwrap();
    let path = ledger.snapshot::<State>().unwrap().path;
    let live = ledger.state_hash().unwrap();
    ledger.close().unwrap();
    let look = || {
        let watch = |_| ControlFlow::Continue(());
        let jobs = NonZeroUsize::MIN;
        let level = VerifyLevel::Snapshots;
        let request = VerifyRequest { level, jobs, expected: None, watch: &watch };
        request.run(&dir(), &environment).unwrap()
    };
    let clean = look();
    assert_eq!((clean.snapshots, clean.notes, clean.condition()), (1, 1, LedgerCondition::Valid));
    let length = u64::try_from(disk.read(&path).unwrap().len()).unwrap();
    let stride = usize::try_from(stride()).unwrap();
    for bit in (0..length * 8).step_by(stride) {
        flip(&disk, &path, bit);
        let found = look();
        let [finding] = &found.log.findings[..] else { panic!("bit {bit}: {found:#?}") };
        assert!(contains(finding, &path, bit / 8), "bit {bit}: {finding}");
        let class = if finding.what.contains("newer") {
            FindingClass::NewerFormat
        } else {
            FindingClass::DerivedDamage
        };
        assert_eq!(finding.class, class, "bit {bit}: {finding}");
        assert_ne!(found.condition(), LedgerCondition::Valid, "bit {bit}");
        if bit % 64 == 0 {
            let view = LedgerView::open(&dir(), &environment).unwrap();
            let fold = view.fold(u64::MAX).unwrap();
            assert_eq!(plan_ledger::state_hash(&fold.state), live, "bit {bit}");
        }
        flip(&disk, &path, bit);
    }
}
