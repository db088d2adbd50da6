//! Every file of a ledger, and every act of a clumsy hand: cut, grown, zeroed, deleted, copied,
//! renamed, swapped with any other.
//!
//! One oracle judges them all: nothing panics; every record that is served is an original; every
//! acknowledged one that is not served is named by `verify`; the state is that of some record; an
//! output is the original or an error; reading writes nothing; and a writer goes on with the live
//! state or refuses and changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plan_ledger::format::content_hash;
use plan_ledger::ledger::{Condition, Level, VerifyReport, VerifyRequest, blob_of, decode, verify};
use plan_ledger::log::{Class, Item, LogReader, LoggedRecord};
use plan_ledger::plan::{ContentHash, Json, Output};
use plan_ledger::sim::SimDisk;
use plan_ledger::storage::Storage;
use plan_ledger::{
    Environment, Ledger, LedgerView, Projection, Recorded, RunPolicy, State, state_hash,
};

use crate::blobs::{large, plan, work};
use crate::golden::deterministic;
use crate::lab::{LOOKS, dir, log_digest, reader, whole};

pub(crate) fn on_disk(disk: &SimDisk) -> Environment {
    Environment { storage: Arc::new(disk.clone()), blob_threshold: 1000, ..deterministic() }
}

/// A ledger with all that a ledger can have, and what it was.
pub(crate) struct Specimen {
    pub(crate) disk: SimDisk,
    records: Vec<LoggedRecord>,
    /// The hash of the state after each record.
    states: BTreeSet<ContentHash>,
    live: ContentHash,
    /// What steps gave, and the record that names it if it lies beside the log.
    outputs: Vec<(Output, Json, Option<u64>)>,
    pub(crate) files: Vec<PathBuf>,
}

/// Two segments that rotations sealed, one that a fence closed, and the newest; two snapshots;
/// outputs beside the log.
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
    // Each does not fit into what is left of the segment.
    ledger.set_variable(run, "v", large(3, 1_044_000), None, "me").unwrap();
    output(&ledger, 4, 5000);
    ledger.snapshot::<State>().unwrap();
    ledger.set_variable(run, "v", large(5, 1_060_000), None, "me").unwrap();
    output(&ledger, 6, 30);
    // The write is done, its sync is not.
    disk.crash_at(disk.calls() + LOOKS + 3);
    let _ = ledger.set_variable(run, "w", Json::default(), None, "me");
    drop(ledger);
    disk.crash_at(u64::MAX);
    disk.kill_process();
    let (ledger, _) = Ledger::open(&dir(), &environment).unwrap();
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
        let recorded = Recorded { seq: record.seq, time: record.time, event };
        Projection::apply(&mut state, &recorded);
        states.insert(state_hash(&state));
    }
    assert!(states.contains(&live));
    let files = disk.files(&dir());
    let count =
        |folder: &str| files.iter().filter(|path| path.starts_with(dir().join(folder))).count();
    assert_eq!((count("log"), count("snap"), count("blob")), (4, 2, 3), "{files:?}");
    assert_eq!(files.len(), 11, "and HEAD and LOCK: {files:?}");
    Specimen { disk, records, states, live, outputs, files }
}

#[derive(Debug, Clone)]
enum Act<'a> {
    SetLength(&'a Path, u64),
    /// The sector of 512 bytes at that offset.
    Zero(&'a Path, u64),
    Delete(&'a Path),
    Copy(&'a Path, PathBuf),
    Rename(&'a Path, PathBuf),
    Swap(&'a Path, &'a Path),
}

impl Act<'_> {
    /// Whether a file is not, or no more, what it was.
    fn ruins(&self, file: &Path) -> bool {
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

fn carry_out(disk: &SimDisk, act: &Act<'_>) {
    match act {
        Act::SetLength(path, length) => disk.set_length(path, *length).unwrap(),
        Act::Zero(path, offset) => {
            let length = u64::try_from(disk.read(path).unwrap().len()).unwrap();
            let count = usize::try_from((length - offset).min(512)).unwrap();
            disk.overwrite(path, *offset, &vec![0; count]).unwrap();
        }
        Act::Delete(path) => disk.remove(path).unwrap(),
        Act::Copy(from, to) => put(disk, to, &disk.read(from).unwrap()),
        Act::Rename(from, to) => {
            put(disk, to, &disk.read(from).unwrap());
            disk.remove(from).unwrap();
        }
        Act::Swap(one, two) => {
            let (first, second) = (disk.read(one).unwrap(), disk.read(two).unwrap());
            put(disk, one, &second);
            put(disk, two, &first);
        }
    }
}

/// All of a record but its place: what a fence re-wrote is still where it was before, too.
fn content(of: &LoggedRecord) -> impl PartialEq + use<'_> {
    (of.seq, of.time, of.kind, of.codec, of.schema, of.batch_left, &of.payload, of.chain)
}

/// The path of every file, and what is in it.
pub(crate) fn digest(disk: &SimDisk) -> BTreeMap<PathBuf, [u8; 32]> {
    let files = disk.files(Path::new("/")).into_iter();
    files.map(|path| (path.clone(), content_hash(&disk.read(&path).unwrap()))).collect()
}

fn verified(environment: &Environment) -> VerifyReport {
    let watch = |_| ControlFlow::Continue(());
    let (level, jobs) = (Level::Snapshots, NonZeroUsize::MIN);
    verify(&dir(), environment, VerifyRequest { level, jobs, expected: None, watch: &watch })
        .unwrap()
}

/// What an act came to.
#[derive(Debug, Default)]
struct Toll {
    harmless: usize,
    told: usize,
    costly: usize,
    refused: usize,
}

/// Names that a file of its folder might have, and that no file has.
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
    fn judge(&self, act: &Act<'_>, toll: &mut Toll) {
        let story = format!("{act:?}");
        let disk = self.disk.fork();
        carry_out(&disk, act);
        let (before, environment) = (digest(&disk), on_disk(&disk));
        let storage: Arc<dyn Storage> = environment.storage.clone();
        let mut served = BTreeSet::new();
        for item in LogReader::open(&storage, &dir()).unwrap().walk(1) {
            if let Item::Record(record, _) = item.unwrap_or_else(|e| panic!("{story}: {e}")) {
                let original = self.records.get(usize::try_from(record.seq - 1).unwrap());
                let is_original = original.is_some_and(|own| content(own) == content(&record));
                assert!(is_original, "{story}: record {} was never written", record.seq);
                assert!(served.insert(record.seq), "{story}: record {} twice", record.seq);
            }
        }
        let report = verified(&environment);
        let all = self.records.iter().map(|each| each.seq);
        let missing: Vec<u64> = all.filter(|seq| !served.contains(seq)).collect();
        self.check_missing(&report, &missing, act);
        self.check_outputs(&environment, &report, &missing, &story);
        let fold = LedgerView::open(&dir(), &environment).unwrap().fold(u64::MAX).unwrap();
        let hash = state_hash(&fold.state);
        assert!(self.states.contains(&hash), "{story}: a state that never was");
        // The older slot of HEAD may not vouch for the last records: they are served as unproven.
        let is_all = missing.is_empty() && fold.unproven == 0;
        assert!(!is_all || hash == self.live, "{story}: another state");
        assert_eq!(digest(&disk), before, "{story}: a reader wrote");

        let log = log_digest(&disk);
        match Ledger::open(&dir(), &environment) {
            Ok((ledger, opened)) => {
                // What lies before the snapshot that it went on from was not read.
                let from = opened.from_snapshot.unwrap_or(0);
                let needed = missing.iter().find(|seq| **seq > from);
                assert_eq!(needed, None, "{story}: goes on without {missing:?}");
                // A fence adds a note.
                let last = u64::try_from(self.records.len()).unwrap();
                let state = ledger.state_at(last).unwrap();
                assert_eq!(state_hash(&state), self.live, "{story}");
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert_eq!(log_digest(&disk), log, "{story}: changed by who refused: {error}");
                toll.refused += 1;
            }
        }
        match (missing.is_empty(), report.condition()) {
            (false, _) => toll.costly += 1,
            (true, Condition::Whole) => toll.harmless += 1,
            (true, _) => toll.told += 1,
        }
    }

    fn check_missing(&self, report: &VerifyReport, missing: &[u64], act: &Act<'_>) {
        if missing.is_empty() {
            return;
        }
        assert_eq!(report.condition(), Condition::Damaged, "{act:?}: {missing:?} are missing");
        let findings = &report.log.findings;
        let damage = findings.iter().filter(|each| each.class == Class::Damage);
        let named: Vec<_> = damage.filter_map(|each| each.missing.as_ref()).collect();
        let mut silent =
            missing.iter().filter(|seq| !named.iter().any(|range| range.contains(seq)));
        // Without HEAD and the newest segment nothing knows where the log ended.
        let head = dir().join("HEAD");
        let newest = self.files.iter().rfind(|path| path.starts_with(dir().join("log"))).unwrap();
        let knows_end = !(act.ruins(&head) && act.ruins(newest));
        assert!(
            !knows_end || silent.next().is_none(),
            "{act:?}: {missing:?} silently: {findings:#?}"
        );
    }

    fn check_outputs(
        &self,
        environment: &Environment,
        report: &VerifyReport,
        missing: &[u64],
        story: &str,
    ) {
        let view = LedgerView::open(&dir(), environment).unwrap();
        for (output, original, named_by) in &self.outputs {
            match view.output(output) {
                Ok(value) => assert!(value == *original, "{story}: another output"),
                // A record that is missing names nothing any more.
                Err(_) if named_by.is_some_and(|seq| missing.contains(&seq)) => {}
                Err(error) => {
                    let path = error.location().path.clone();
                    let is_named =
                        report.log.findings.iter().any(|each| Some(&each.path) == path.as_ref());
                    assert!(is_named, "{story}: silent: {error}");
                }
            }
        }
    }

    /// Where a file is cut and where a sector of it is zeroed: at the borders of all frames and
    /// of all parts, in small files everywhere, in large ones by the stride.
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
        let sectors = (0..length).step_by(512 * usize::try_from(stride).unwrap());
        let all: BTreeSet<u64> = near.chain(sectors).filter(|at| *at < length).collect();
        all.into_iter().collect()
    }

    fn acts(&self, stride: u64) -> Vec<Act<'_>> {
        let mut acts = Vec::new();
        for path in &self.files {
            let bytes = self.disk.read(path).unwrap();
            let length = u64::try_from(bytes.len()).unwrap();
            for offset in self.offsets(path, stride) {
                acts.push(Act::SetLength(path, offset));
                let sector = offset / 512 * 512;
                let place = usize::try_from(sector).unwrap();
                if bytes[place..].iter().take(512).any(|byte| *byte != 0) {
                    acts.push(Act::Zero(path, sector));
                }
            }
            acts.extend([1, 4096, 8192].map(|more| Act::SetLength(path, length + more)));
            acts.push(Act::Delete(path));
            for name in names(path) {
                acts.extend([Act::Copy(path, name.clone()), Act::Rename(path, name)]);
            }
            for other in self.files.iter().filter(|other| *other != path) {
                acts.extend([Act::Copy(path, other.clone()), Act::Rename(path, other.clone())]);
                if path < other {
                    acts.push(Act::Swap(path, other));
                }
            }
        }
        let mut zeroed = BTreeSet::new();
        acts.retain(|act| match act {
            Act::Zero(path, sector) => zeroed.insert((*path, *sector)),
            _ => true,
        });
        acts
    }
}

/// Goal: whatever is done to whichever file of a ledger, nothing is lost silently.
/// Method: all acts on all files of a ledger with sealed, fenced and active segments, snapshots
/// and outputs. `PLAN_LEDGER_MISCHIEF_STRIDE=1` cuts small files at every byte and zeroes every
/// sector.
#[test]
fn no_act_on_any_file_costs_a_record_silently() {
    let stride = std::env::var("PLAN_LEDGER_MISCHIEF_STRIDE").ok();
    let stride = stride.map_or(1021, |stride| stride.parse().unwrap());
    let specimen = specimen();
    let acts = specimen.acts(stride);
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let tolls: Vec<Toll> = std::thread::scope(|scope| {
        let judged = (0..threads).map(|first| {
            let (specimen, acts) = (&specimen, &acts);
            scope.spawn(move || {
                let mut toll = Toll::default();
                for act in acts.iter().skip(first).step_by(threads) {
                    specimen.judge(act, &mut toll);
                }
                toll
            })
        });
        let judged: Vec<_> = judged.collect();
        judged.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let sum = |of: fn(&Toll) -> usize| tolls.iter().map(of).sum::<usize>();
    let (harmless, told) = (sum(|toll| toll.harmless), sum(|toll| toll.told));
    let (costly, refused) = (sum(|toll| toll.costly), sum(|toll| toll.refused));
    eprintln!(
        "{} acts: {harmless} harmless, {told} told, {costly} costly; {refused} refused",
        acts.len()
    );
    assert!(harmless > 0 && told > 0 && costly > 0 && refused > 0);
}
