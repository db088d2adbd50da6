//! Tampering with every file of a ledger: truncated, extended, zeroed, deleted, copied, renamed, or
//! swapped with any other file.
//!
//! The same oracle checks every case. Nothing panics. Every served record is an original, and
//! `verify` names every acknowledged record that is not served. The state is that of some record,
//! and an output is the original or an error. Reading writes nothing. A writer continues with the
//! live state, or refuses and changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plan_ledger::internals::format::content_hash;
use plan_ledger::internals::ledger::{
    LedgerCondition, SegmentSizes, VerifyLevel, VerifyReport, VerifyRequest, blob_of, decode,
};
use plan_ledger::internals::sim::{SimDisk, sweep};
use plan_ledger::internals::storage::Storage;
use plan_ledger::log::{FindingClass, LogItem, LogReader, LoggedRecord};
use plan_ledger::{
    ContentHash, Environment, Json, Ledger, LedgerView, Output, Projection, RecordedEvent,
    RunPolicy, State, state_hash,
};

use crate::blobs::{large, plan, work};
use crate::golden::deterministic;
use crate::lab::{LOOKS, dir, log_digest, reader, whole};

pub(crate) fn on_disk(disk: &SimDisk) -> Environment {
    // Each change is followed by many reads of the whole ledger.
    let segments = SegmentSizes { first: 64 << 10, largest: 1 << 20 };
    let storage = Arc::new(disk.clone());
    Environment { storage, blob_threshold: 1000, segments, ..deterministic() }
}

/// A ledger with every type of file, and its original content.
pub(crate) struct Specimen {
    pub(crate) disk: SimDisk,
    records: Vec<LoggedRecord>,
    /// The hash of the state after each record.
    states: BTreeSet<ContentHash>,
    live: ContentHash,
    /// The outputs of steps; for one in a blob, also the record that names it.
    outputs: Vec<(Output, Json, Option<u64>)>,
    pub(crate) files: Vec<PathBuf>,
}

/// Two segments sealed by rotation, one closed by a fence, and the active one; two snapshots; and
/// outputs in blobs.
pub(crate) fn specimen() -> Specimen {
    let disk = SimDisk::new();
    let environment = on_disk(&disk);
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    let run = ledger.start_run("r", &plan(8), RunPolicy::default()).unwrap();
    let mut outputs = Vec::new();
    let mut output = |ledger: &Ledger, number, size| {
        let value = large(number, size);
        outputs.push((work(ledger, run, value.clone()), value, None));
    };
    output(&ledger, 1, 3000);
    output(&ledger, 2, 20);
    // Each value does not fit into the rest of its segment.
    ledger.set_variable(run, "v", large(3, 60_960), None, "me").unwrap();
    output(&ledger, 4, 5000);
    ledger.snapshot::<State>().unwrap();
    ledger.set_variable(run, "v", large(5, 76_960), None, "me").unwrap();
    output(&ledger, 6, 30);
    // A crash after the write, before its sync.
    disk.crash_at(disk.calls() + LOOKS + 3);
    let _ = ledger.set_variable(run, "w", Json::default(), None, "me");
    drop(ledger);
    disk.crash_at(u64::MAX);
    disk.kill_process();
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    output(&ledger, 7, 3000);
    ledger.set_variable(run, "v", Json::default(), None, "me").unwrap();
    ledger.snapshot::<State>().unwrap();
    output(&ledger, 8, 40);
    let live = ledger.state_hash().unwrap();
    ledger.close().unwrap();

    let records = whole(&reader(&disk));
    let mut state = State::default();
    let mut states = BTreeSet::from([state_hash(&state)]);
    for record in &records {
        let event = decode(record).unwrap();
        if let Some(blob) = event.as_ref().and_then(blob_of) {
            let is_it =
                |output: &Output| matches!(output, Output::Blob(own) if own.hash.0 == blob.hash);
            outputs.iter_mut().find(|output| is_it(&output.0)).unwrap().2 = Some(record.seq);
        }
        let recorded = RecordedEvent { seq: record.seq, time: record.time, event, is_lost: false };
        Projection::apply(&mut state, &recorded);
        states.insert(state_hash(&state));
    }
    assert!(states.contains(&live));
    // The .gitignore is no data: the ledger never reads it.
    let is_data = |path: &PathBuf| !path.ends_with(".gitignore");
    let files: Vec<PathBuf> = disk.files(&dir()).into_iter().filter(is_data).collect();
    let count =
        |folder: &str| files.iter().filter(|path| path.starts_with(dir().join(folder))).count();
    assert_eq!((count("log"), count("snap"), count("blob")), (4, 2, 3), "{files:?}");
    assert_eq!(files.len(), 11, "with HEAD and LOCK: {files:?}");
    Specimen { disk, records, states, live, outputs, files }
}

#[derive(Debug, Clone)]
enum Change<'a> {
    SetLength(&'a Path, u64),
    /// Zeroes the 512-byte sector at that offset.
    Zero(&'a Path, u64),
    Delete(&'a Path),
    Copy(&'a Path, PathBuf),
    Rename(&'a Path, PathBuf),
    Swap(&'a Path, &'a Path),
}

impl Change<'_> {
    /// Whether `file` no longer has its original content.
    fn alters(&self, file: &Path) -> bool {
        match self {
            Self::SetLength(path, _) | Self::Zero(path, _) | Self::Delete(path) => *path == file,
            Self::Copy(_, to) => to == file,
            Self::Rename(from, to) => *from == file || to == file,
            Self::Swap(one, two) => *one == file || *two == file,
        }
    }
}

pub(crate) fn put(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    if disk.read(path).is_err() {
        disk.create(path).unwrap();
    }
    disk.set_length(path, 0).unwrap();
    disk.overwrite(path, 0, bytes).unwrap();
}

fn apply(disk: &SimDisk, change: &Change<'_>) {
    match change {
        Change::SetLength(path, length) => disk.set_length(path, *length).unwrap(),
        Change::Zero(path, offset) => {
            let length = u64::try_from(disk.read(path).unwrap().len()).unwrap();
            let count = usize::try_from((length - offset).min(512)).unwrap();
            disk.overwrite(path, *offset, &vec![0; count]).unwrap();
        }
        Change::Delete(path) => disk.remove(path).unwrap(),
        Change::Copy(from, to) => put(disk, to, &disk.read(from).unwrap()),
        Change::Rename(from, to) => {
            put(disk, to, &disk.read(from).unwrap());
            disk.remove(from).unwrap();
        }
        Change::Swap(one, two) => {
            let (first, second) = (disk.read(one).unwrap(), disk.read(two).unwrap());
            put(disk, one, &second);
            put(disk, two, &first);
        }
    }
}

/// A record without its position, which a fence may have changed.
fn content(of: &LoggedRecord) -> impl PartialEq + use<'_> {
    (of.seq, of.time, of.kind, of.codec, of.schema, of.batch_left, &of.payload, of.chain)
}

/// The content hash of every file.
pub(crate) fn digest(disk: &SimDisk) -> BTreeMap<PathBuf, [u8; 32]> {
    let files = disk.files(Path::new("/")).into_iter();
    files.map(|path| (path.clone(), content_hash(&disk.read(&path).unwrap()))).collect()
}

fn verified(environment: &Environment) -> VerifyReport {
    let watch = |_| ControlFlow::Continue(());
    let (level, jobs) = (VerifyLevel::Snapshots, NonZeroUsize::MIN);
    VerifyRequest { level, jobs, expected: None, watch: &watch }.run(&dir(), environment).unwrap()
}

/// How many cases ended in which way.
#[derive(Debug, Default)]
struct Outcomes {
    harmless: usize,
    reported: usize,
    lossy: usize,
    refused: usize,
}

/// Unused names that a file of that folder could have.
fn names(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().unwrap().to_str().unwrap();
    let mut names = vec![format!("{name}.tmp"), format!("{name}.bak"), format!("x{name}")];
    match path.parent().unwrap().file_name().unwrap().to_str().unwrap() {
        "log" => {
            let (base, _) = name.split_once('-').unwrap();
            names.extend([
                format!("{base}-00000004.seg"),
                "00000000000000000999-00000004.seg".to_owned(),
                "00000000000000000002-00000000.seg".to_owned(),
            ]);
        }
        "snap" => names.extend([
            name.replace("00000", "00001"),
            name.replace("-v1-", "-v2-"),
            name.replace("state", "other"),
        ]),
        "ledger" => names.push("HEAD2".to_owned()),
        two => names.push(format!("{two}{}", "0".repeat(62))),
    }
    names.into_iter().map(|name| path.with_file_name(name)).collect()
}

impl Specimen {
    fn check(&self, change: &Change<'_>, outcomes: &mut Outcomes) {
        let case = format!("{change:?}");
        let disk = self.disk.fork();
        apply(&disk, change);
        let (before, environment) = (digest(&disk), on_disk(&disk));
        let storage: Arc<dyn Storage> = environment.storage.clone();
        let mut served = BTreeSet::new();
        for item in LogReader::open(&storage, &dir()).unwrap().walk(1) {
            if let LogItem::Record(record, _) = item.unwrap_or_else(|e| panic!("{case}: {e}")) {
                let original = self.records.get(usize::try_from(record.seq - 1).unwrap());
                let is_original = original.is_some_and(|own| content(own) == content(&record));
                assert!(is_original, "{case}: record {} was never written", record.seq);
                assert!(served.insert(record.seq), "{case}: record {} twice", record.seq);
            }
        }
        let report = verified(&environment);
        let all = self.records.iter().map(|each| each.seq);
        let missing: Vec<u64> = all.filter(|seq| !served.contains(seq)).collect();
        self.check_missing(&report, &missing, change);
        self.check_outputs(&environment, &report, &missing, &case);
        let fold = LedgerView::open(&dir(), &environment).unwrap().fold(u64::MAX).unwrap();
        let hash = state_hash(&fold.state);
        assert!(self.states.contains(&hash), "{case}: not the state of any record");
        // An older HEAD slot does not cover the last records: they are served as unacknowledged.
        let is_all = missing.is_empty() && fold.unacknowledged == 0;
        assert!(!is_all || hash == self.live, "{case}: another state");
        assert_eq!(digest(&disk), before, "{case}: reading changed a file");

        let log = log_digest(&disk);
        match Ledger::open_with(&dir(), &environment) {
            Ok((ledger, opened)) => {
                // Records before the snapshot in use were not read.
                let from = opened.from_snapshot.unwrap_or(0);
                let needed = missing.iter().find(|seq| **seq > from);
                assert_eq!(needed, None, "{case}: opened without {missing:?}");
                // Opening may add a note about a fence.
                let last = u64::try_from(self.records.len()).unwrap();
                let state = ledger.state_at(last).unwrap();
                assert_eq!(state_hash(&state), self.live, "{case}");
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert_eq!(
                    log_digest(&disk),
                    log,
                    "{case}: the refused open changed the log: {error}"
                );
                outcomes.refused += 1;
            }
        }
        match (missing.is_empty(), report.condition()) {
            (false, _) => outcomes.lossy += 1,
            (true, LedgerCondition::Valid) => outcomes.harmless += 1,
            (true, _) => outcomes.reported += 1,
        }
    }

    fn check_missing(&self, report: &VerifyReport, missing: &[u64], change: &Change<'_>) {
        if missing.is_empty() {
            return;
        }
        assert_eq!(
            report.condition(),
            LedgerCondition::Damaged,
            "{change:?}: {missing:?} are missing"
        );
        let findings = &report.log.findings;
        let damage = findings.iter().filter(|each| each.class == FindingClass::Damage);
        let named: Vec<_> = damage.filter_map(|each| each.missing.as_ref()).collect();
        let mut silent =
            missing.iter().filter(|seq| !named.iter().any(|range| range.contains(seq)));
        // Without both HEAD and the newest segment the end of the log is unknown.
        let head = dir().join("HEAD");
        let newest = self.files.iter().rfind(|path| path.starts_with(dir().join("log"))).unwrap();
        let knows_end = !(change.alters(&head) && change.alters(newest));
        assert!(
            !knows_end || silent.next().is_none(),
            "{change:?}: {missing:?} silently: {findings:#?}"
        );
    }

    fn check_outputs(
        &self,
        environment: &Environment,
        report: &VerifyReport,
        missing: &[u64],
        case: &str,
    ) {
        let view = LedgerView::open(&dir(), environment).unwrap();
        for (output, original, named_by) in &self.outputs {
            match view.output(output) {
                Ok(value) => assert!(value == *original, "{case}: another output"),
                // A missing record no longer names the output.
                Err(_) if named_by.is_some_and(|seq| missing.contains(&seq)) => {}
                Err(error) => {
                    let path = error.location().path.clone();
                    let is_named =
                        report.log.findings.iter().any(|each| Some(&each.path) == path.as_ref());
                    assert!(is_named, "{case}: silent: {error}");
                }
            }
        }
    }

    /// Where to truncate a file and zero a sector: around every frame and section, and after every
    /// `stride` bytes of a small file, or `stride` / 16 sectors of another one.
    fn offsets(&self, path: &Path, stride: u64) -> Vec<u64> {
        let length = u64::try_from(self.disk.read(path).unwrap().len()).unwrap();
        if length <= 16 << 10 {
            return (0..length).step_by(usize::try_from(stride).unwrap().min(257)).collect();
        }
        let reader = reader(&self.disk);
        let segments = reader.segments();
        let own = segments.iter().find(|segment| segment.path == path);
        let own = own.map(|segment| segment.header.as_ref().unwrap().ordinal);
        let frames = self.records.iter().filter(|record| Some(record.segment) == own);
        let borders = frames.flat_map(|frame| [frame.offset, frame.offset + frame.size]);
        let parts = [0, 208, 4060, 4096, length - 4096, length - 4, length];
        let near = borders.chain(parts).flat_map(|at| [at.saturating_sub(1), at, at + 1]);
        let sectors = (0..length).step_by(512 * usize::try_from(stride.div_ceil(16)).unwrap());
        let all: BTreeSet<u64> = near.chain(sectors).filter(|at| *at < length).collect();
        all.into_iter().collect()
    }

    fn changes(&self, stride: u64) -> Vec<Change<'_>> {
        let mut changes = Vec::new();
        for path in &self.files {
            let bytes = self.disk.read(path).unwrap();
            let length = u64::try_from(bytes.len()).unwrap();
            for offset in self.offsets(path, stride) {
                changes.push(Change::SetLength(path, offset));
                let sector = offset / 512 * 512;
                let place = usize::try_from(sector).unwrap();
                if bytes[place..].iter().take(512).any(|byte| *byte != 0) {
                    changes.push(Change::Zero(path, sector));
                }
            }
            changes.extend([1, 4096, 8192].map(|more| Change::SetLength(path, length + more)));
            changes.push(Change::Delete(path));
            for name in names(path) {
                changes.extend([Change::Copy(path, name.clone()), Change::Rename(path, name)]);
            }
            for other in self.files.iter().filter(|other| *other != path) {
                changes.extend([
                    Change::Copy(path, other.clone()),
                    Change::Rename(path, other.clone()),
                ]);
                if path < other {
                    changes.push(Change::Swap(path, other));
                }
            }
        }
        let mut zeroed = BTreeSet::new();
        changes.retain(|change| match change {
            Change::Zero(path, sector) => zeroed.insert((*path, *sector)),
            _ => true,
        });
        changes
    }
}

/// No change to a file loses an acknowledged record silently.
///
/// Applies every change to every file of a ledger with sealed, fenced and active segments,
/// snapshots and outputs; at full strength, truncates small files at every byte and zeroes every
/// sector.
#[test]
fn sweep_no_file_change_loses_a_record_silently() {
    let specimen = specimen();
    let mut changes = specimen.changes(sweep(1021, 1021, 1));
    let mut kept = (0..sweep(5, 1, 1)).cycle().map(|place| place == 0);
    changes.retain(|_| kept.next().unwrap_or_default());
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let outcomes: Vec<Outcomes> = std::thread::scope(|scope| {
        let handles = (0..threads).map(|first| {
            let (specimen, changes) = (&specimen, &changes);
            scope.spawn(move || {
                let mut outcomes = Outcomes::default();
                for change in changes.iter().skip(first).step_by(threads) {
                    specimen.check(change, &mut outcomes);
                }
                outcomes
            })
        });
        let handles: Vec<_> = handles.collect();
        handles.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let sum = |of: fn(&Outcomes) -> usize| outcomes.iter().map(of).sum::<usize>();
    let (harmless, reported) =
        (sum(|outcomes| outcomes.harmless), sum(|outcomes| outcomes.reported));
    let (lossy, refused) = (sum(|outcomes| outcomes.lossy), sum(|outcomes| outcomes.refused));
    eprintln!(
        "{} changes: {harmless} harmless, {reported} reported, {lossy} lossy; {refused} refused",
        changes.len()
    );
    assert!(harmless > 0 && reported > 0 && lossy > 0 && refused > 0);
}
