//! Reading from any record, in reverse, by kind, by stream: always the result of a full walk.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plan_ledger::internals::format::NewRecord;
use plan_ledger::internals::sim::{SimDisk, sweep};
use plan_ledger::internals::storage::{
    Access, DiskStorage, Entry, FilesystemKind, LockOutcome, Map, Storage, StorageFile,
};
use plan_ledger::log::{Damage, Log, LogItem, LogReader, LoggedRecord};

use super::lab::{at, dir, kill, mix, reader, record, whole};
use super::sealed_segments::{STREAMS, stream_of, with_streams};

/// A log with several sealed and fenced segments, records of five kinds and some streams.
fn random_log(seed: u64) -> (SimDisk, Vec<LoggedRecord>) {
    let disk = SimDisk::new();
    let mut log = Log::create(&dir(), with_streams(&disk), at(0)).unwrap();
    let mut number = seed << 32;
    for round in 0..90 {
        let batch: Vec<NewRecord> = (0..=mix(number) % 4)
            .map(|part| {
                number += 1;
                let dice = mix(number + part);
                let size = match dice % 8 {
                    0 | 1 => (dice >> 8) % 200_000,
                    2 | 3 => dice >> 8 & 0x3FFF,
                    _ => dice >> 8 & 0xFF,
                };
                let kind = u16::try_from(dice >> 40 & 3).unwrap() + 1;
                NewRecord { kind, ..record(number, usize::try_from(size).unwrap()) }
            })
            .collect();
        if mix(number ^ seed).is_multiple_of(37) {
            // The write is done and HEAD is not: the next opening adds a fence.
            disk.crash_at(disk.calls() + 3);
            log.append(&batch, at(round)).unwrap_err();
            kill(&disk, log);
            log = Log::open(&dir(), with_streams(&disk), at(round)).unwrap().0;
        } else {
            log.append(&batch, at(round)).unwrap();
        }
    }
    log.close().unwrap();
    let records = whole(&reader(&disk));
    (disk, records)
}

/// Damage something in the log's folder; a description of it.
fn damage(disk: &SimDisk, seed: u64) -> String {
    let files = disk.files(&dir().join("log"));
    let pick = |number: u64, limit: usize| {
        usize::try_from(mix(seed * 7 + number)).unwrap_or(usize::MAX >> 1) % limit
    };
    let path = &files[pick(1, files.len())];
    let bytes = disk.read(path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let place = pick(2, used);
    let name = path.display();
    let offset = u64::try_from(place).unwrap();
    match pick(3, 9) {
        0..=4 => {
            disk.overwrite(path, offset, &[bytes[place] ^ (1 << pick(4, 8))]).unwrap();
            format!("a bit of byte {place} of {name}")
        }
        5 => {
            disk.overwrite(path, offset / 512 * 512, &[0; 512]).unwrap();
            format!("the sector at {place} of {name}")
        }
        6 => {
            disk.set_length(path, offset).unwrap();
            format!("{name} cut to {place}")
        }
        7 => {
            disk.overwrite(path, u64::try_from(pick(5, 4096)).unwrap(), b"x").unwrap();
            format!("the header of {name}")
        }
        _ => {
            disk.remove(path).unwrap();
            format!("{name} removed")
        }
    }
}

/// The items of a walk without what may differ between two ways to read: which records are after
/// damage.
fn plain(items: impl Iterator<Item = plan_ledger::Result<LogItem>>) -> Vec<String> {
    let text = |item| match item {
        LogItem::Record(record, status) => {
            let is_unacknowledged = status == plan_ledger::log::RecordStatus::Unacknowledged;
            let LoggedRecord { seq, segment, offset, chain, .. } = record;
            format!("record {seq} {segment} {offset} {chain} {is_unacknowledged}")
        }
        other => format!("{other:?}"),
    };
    items.map(|item| text(item.unwrap())).collect()
}

fn split(
    items: impl Iterator<Item = plan_ledger::Result<LogItem>>,
) -> (Vec<LoggedRecord>, Vec<Damage>) {
    let (mut records, mut damages) = (Vec::new(), Vec::new());
    for item in items {
        match item.unwrap() {
            LogItem::Record(record, _) => records.push(record),
            LogItem::Damage(damage) => damages.push(damage),
            LogItem::DerivedDamage(_) | LogItem::OpenEnd { .. } => {}
        }
    }
    (records, damages)
}

/// All ways to read a log yield the same as a full walk.
fn check(reader: &LogReader, original: &[LoggedRecord], story: &str) {
    let forwards = plain(reader.walk(1));
    let mut backwards = plain(reader.walk_reverse(u64::MAX));
    backwards.reverse();
    assert_eq!(backwards, forwards, "{story}: backwards");
    let (all, _) = split(reader.walk(1));
    let last = original.last().unwrap().seq;
    for round in 0..6 {
        let from = mix(round + last) % (last + 3);
        let upward = |record: &&LoggedRecord| record.seq >= from;
        let (found, named) = split(reader.walk(from));
        let expected: Vec<_> = all.iter().filter(upward).cloned().collect();
        assert!(found == expected, "{story}: from {from}");
        let (mut found, _) = split(reader.walk_reverse(from));
        found.reverse();
        let expected: Vec<_> = all.iter().filter(|each| each.seq <= from).cloned().collect();
        assert!(found == expected, "{story}: back from {from}");
        match reader.record(from) {
            Ok(Some(record)) => {
                assert!(all.contains(&record) && record.seq == from, "{story}: record {from}");
            }
            Ok(None) => assert!(
                original.iter().all(|each| each.seq != from),
                "{story}: record {from} is not named"
            ),
            Err(_) => assert!(
                named.iter().any(|each| (each.first_seq..=each.last_seq).contains(&from)),
                "{story}: record {from}"
            ),
        }
        for kind in 0..6 {
            let is_of = |record: &LoggedRecord| record.kind == kind && record.seq >= from;
            let selected = split(reader.walk_of_kind(kind, from));
            compare(selected, &all, original, is_of, &format!("{story}: kind {kind} from {from}"));
        }
        for stream in (0..64).step_by(7) {
            let is_of = |record: &LoggedRecord| {
                stream_of(&record.payload) == Some(stream) && record.seq >= from
            };
            let selected = split(reader.walk_of_stream(stream, STREAMS, from));
            compare(selected, &all, original, is_of, &format!("{story}: stream {stream}"));
        }
    }
}

/// The selected records that are readable are yielded; unreadable ones are reported.
fn compare(
    (found, named): (Vec<LoggedRecord>, Vec<Damage>),
    all: &[LoggedRecord],
    original: &[LoggedRecord],
    is_of: impl Fn(&LoggedRecord) -> bool,
    story: &str,
) {
    let expected: Vec<_> = all.iter().filter(|record| is_of(record)).cloned().collect();
    assert!(found == expected, "{story}");
    let seqs: BTreeSet<_> = found.iter().map(|record| record.seq).collect();
    for lost in original.iter().filter(|each| is_of(each) && !seqs.contains(&each.seq)) {
        let is_named =
            named.iter().any(|each| (each.first_seq..=each.last_seq).contains(&lost.seq));
        assert!(is_named, "{story}: record {} is lost silently: {named:?}", lost.seq);
    }
}

/// In reverse, from any record, by kind, by stream and by number: always the same as a full walk.
#[test]
fn all_ways_to_read_agree() {
    for seed in 1..5 {
        let (disk, records) = random_log(seed);
        let reader = reader(&disk);
        assert!(reader.segments().len() > 2, "seed {seed}");
        check(&reader, &records, &format!("seed {seed}"));
    }
}

/// The same with one or two faults: no way to read loses a record silently.
#[test]
fn sweep_all_ways_to_read_agree_on_damage() {
    for seed in 1..sweep(2, 4, 100) {
        let (whole, records) = random_log(seed);
        for round in 0..18 {
            let disk = whole.fork();
            let mut story = format!("seed {seed}: {}", damage(&disk, seed * 1000 + round));
            if round % 3 == 0 && disk.files(&dir().join("log")).len() > 1 {
                story = format!("{story}, {}", damage(&disk, seed * 2000 + round));
            }
            check(&reader(&disk), &records, &story);
        }
    }
}

/// An index is never trusted: a valid one with wrong content costs nothing. The seek entries and
/// postings of a sealed segment are changed, with correct checksums.
#[test]
fn valid_but_wrong_index_costs_nothing() {
    use plan_ledger::internals::format::{Footer, Index, SegmentHeader, index_crc};
    let (disk, records) = random_log(9);
    let sealed = disk.files(&dir().join("log")).into_iter().find_map(|path| {
        let bytes = disk.read(&path).unwrap();
        let place = bytes.len() - 4096;
        let footer = Footer::decode(&bytes[place..], u64::try_from(place).unwrap()).ok()?;
        Some((path, bytes, place, footer))
    });
    let (path, bytes, place, footer) = sealed.unwrap();
    let header = SegmentHeader::decode(&bytes).unwrap();
    let start = usize::try_from(footer.data_end).unwrap();
    let seeks: Vec<_> = {
        let index = Index::decode(bytes[start..place].to_vec(), &footer).unwrap();
        index.seeks().collect()
    };
    let mut lies = 0;
    let all_of_seeks = (0..seeks.len()).map(|number| 64 + number * 16);
    let words = all_of_seeks.flat_map(|entry| [entry, entry + 8]);
    let lists = 64 + seeks.len() * 16;
    for word in words.take(24).chain((lists..place - start).step_by(36)) {
        let mut index = bytes[start..place].to_vec();
        // One record, one page or one frame further.
        index[word] = index[word].wrapping_add(if word < lists && word % 16 == 8 { 64 } else { 1 });
        let index_crc = index_crc(header.segment, footer.data_end, &index);
        let footer = Footer { index_crc, ..footer.clone() };
        let disk = disk.fork();
        disk.overwrite(&path, footer.data_end, &index).unwrap();
        disk.overwrite(&path, footer.offset(), &footer.encode(&header)).unwrap();
        let reader = reader(&disk);
        let entry = seeks[(word.min(lists - 1) - 64) / 16];
        for from in [entry.seq, entry.seq + 1, entry.seq + 2] {
            let (found, named) = split(reader.walk(from).take(20));
            let start = usize::try_from(from).unwrap() - 1;
            assert!(named.is_empty() && records[start..].starts_with(&found), "word {word}");
            let record = reader.record(from).unwrap().unwrap();
            assert!(record == records[start], "word {word}");
        }
        let mut back = split(reader.walk_reverse(u64::MAX)).0;
        back.reverse();
        assert!(back == records, "word {word}");
        lies += 1;
    }
    assert!(lies > 10, "{lies}");
}

/// A real disk that only permits reads and measures the largest one.
#[derive(Debug, Default)]
struct ReadOnly {
    largest: Arc<AtomicU64>,
}

#[derive(Debug)]
struct ReadOnlyFile(Box<dyn StorageFile>, Arc<AtomicU64>);

impl Storage for ReadOnly {
    fn create_dir(&self, path: &Path) -> std::io::Result<()> {
        panic!("a reader makes a folder: {}", path.display())
    }
    fn list(&self, path: &Path) -> std::io::Result<Vec<Entry>> {
        DiskStorage.list(path)
    }
    fn create(&self, path: &Path) -> std::io::Result<Box<dyn StorageFile>> {
        panic!("a reader makes a file: {}", path.display())
    }
    fn open(&self, path: &Path, access: Access) -> std::io::Result<Box<dyn StorageFile>> {
        assert_eq!(access, Access::Read, "{}", path.display());
        let file = DiskStorage.open(path, access)?;
        Ok(Box::new(ReadOnlyFile(file, self.largest.clone())))
    }
    fn rename(&self, from: &Path, _: &Path) -> std::io::Result<()> {
        panic!("a reader renames {}", from.display())
    }
    fn remove(&self, path: &Path) -> std::io::Result<()> {
        panic!("a reader removes {}", path.display())
    }
    fn remove_dir(&self, path: &Path) -> std::io::Result<()> {
        panic!("a reader removes {}", path.display())
    }
    fn sync_dir(&self, path: &Path) -> std::io::Result<()> {
        panic!("a reader syncs {}", path.display())
    }
    fn lock(&self, path: &Path, _: &str) -> std::io::Result<LockOutcome> {
        panic!("a reader locks {}", path.display())
    }
    fn filesystem_kind(&self, path: &Path) -> std::io::Result<FilesystemKind> {
        DiskStorage.filesystem_kind(path)
    }
    fn process(&self) -> u32 {
        DiskStorage.process()
    }
}

impl StorageFile for ReadOnlyFile {
    fn length(&self) -> std::io::Result<u64> {
        self.0.length()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
        self.1.fetch_max(u64::try_from(buffer.len()).unwrap(), Ordering::Relaxed);
        self.0.read_at(buffer, offset)
    }
    fn write_at(&self, _: &[u8], offset: u64) -> std::io::Result<()> {
        panic!("a reader writes at {offset}")
    }
    fn sync(&self) -> std::io::Result<()> {
        panic!("a reader syncs a file")
    }
    fn set_length(&self, length: u64) -> std::io::Result<()> {
        panic!("a reader sets the length {length}")
    }
    fn make_read_only(&self) -> std::io::Result<()> {
        panic!("a reader changes a mode")
    }
    fn map(&self) -> std::io::Result<Map> {
        panic!("a reader without the lock maps a file")
    }
}

fn digest(folder: &Path) -> Vec<(PathBuf, Vec<u8>, std::time::SystemTime)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(digest(&path));
        } else {
            let time = std::fs::metadata(&path).unwrap().modified().unwrap();
            all.push((path.clone(), std::fs::read(&path).unwrap(), time));
        }
    }
    all.sort();
    all
}

/// A way to read; it returns the number of items.
type Call<'a> = Box<dyn Fn() -> usize + 'a>;

/// No reader changes a byte, a name or a time, takes a lock or opens a file for writing; and none
/// reads more at once than its window, however long the segments are. The folder is compared before
/// and after each call, through a disk that panics on anything but reading.
#[test]
fn readers_only_read_one_window_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("real.ledger");
    let (disk, records) = random_log(3);
    for file in disk.files(&dir()) {
        let to = path.join(file.strip_prefix(dir()).unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, disk.read(&file).unwrap()).unwrap();
    }
    let before = digest(folder.path());
    let counting = ReadOnly::default();
    let largest = counting.largest.clone();
    let storage: Arc<dyn Storage> = Arc::new(counting);
    let reader = LogReader::open(&storage, &path).unwrap();
    let calls: [(&str, Call<'_>); 7] = [
        ("walk", Box::new(|| reader.walk(1).count())),
        ("walk from", Box::new(|| reader.records(40).count())),
        ("back", Box::new(|| reader.walk_reverse(u64::MAX).count())),
        ("kind", Box::new(|| reader.records_of_kind(2, 1).count())),
        ("stream", Box::new(|| reader.records_of_stream(20, STREAMS, 1).count())),
        ("record", Box::new(|| usize::from(reader.record(9).unwrap().is_some()))),
        (
            "follow",
            Box::new(|| {
                let mut follow = reader.follow(1);
                std::iter::from_fn(|| follow.next(std::time::Duration::ZERO).unwrap()).count()
            }),
        ),
    ];
    for (name, call) in calls {
        assert!(call() > 0, "{name}");
        assert!(digest(folder.path()) == before, "{name} changed the folder");
    }
    assert!(reader.segments().iter().any(|segment| segment.length > 1 << 20));
    assert!(records.iter().all(|record| record.size < 256 * 1024));
    assert_eq!(largest.load(Ordering::Relaxed), 256 * 1024);
}

/// The records of a run are found through the streams of sealed segments, whose footers name the
/// rule.
#[test]
fn records_of_a_run_form_a_stream() {
    use plan_ledger::internals::ledger::{RUN_STREAMS, decode};
    use plan_ledger::{Json, Receipt, RunPolicy};
    let disk = SimDisk::new();
    let environment = plan_ledger::Environment {
        storage: Arc::new(disk.clone()),
        ..super::golden::deterministic()
    };
    let ledger = plan_ledger::Ledger::create(&dir(), &environment).unwrap();
    let steps: Vec<_> =
        (0..20).map(|number| serde_json::json!({ "id": format!("s{number}") })).collect();
    let plan: plan_ledger::Plan =
        serde_json::from_value(serde_json::json!({ "steps": steps })).unwrap();
    let runs =
        ["one", "two"].map(|name| ledger.start_run(name, &plan, RunPolicy::default()).unwrap());
    for run in runs.into_iter().cycle().take(40) {
        let task = ledger.dispatch(run, "worker").unwrap().unwrap();
        let output = Json::new(&serde_json::json!("x".repeat(60_000))).into();
        ledger.record_receipt(task.token, Receipt { output, ..Receipt::default() }).unwrap();
    }
    ledger.close().unwrap();
    let reader = reader(&disk);
    let all = whole(&reader);
    for run in runs {
        let of = |record: &&LoggedRecord| {
            decode(record).unwrap().and_then(|event| event.run()) == Some(run)
        };
        let found = reader.records_of_stream(u64::from(run.0), RUN_STREAMS, 1).map(Result::unwrap);
        let found: Vec<_> = found.collect();
        assert!(found.len() > 40 && found.iter().eq(all.iter().filter(of)));
    }
    let first = disk.read(&reader.segments()[0].path).unwrap();
    let place = first.len() - 4096;
    let footer = plan_ledger::internals::format::Footer::decode(
        &first[place..],
        u64::try_from(place).unwrap(),
    );
    assert_eq!(footer.unwrap().stream_rule, RUN_STREAMS.id);
}
