//! Model tests of the simulated disk: without crashes it behaves like a real disk, and a power loss
//! has exactly the outcomes that the device profile permits.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use plan_ledger::internals::sim::{InjectedKind, Loss, Profile, SimDisk};
use plan_ledger::internals::storage::{
    Access, DiskStorage, EntryKind, LockGuard, LockOutcome, Storage, StorageFile,
};

use super::lab::mix;

/// Seeded random numbers.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = mix(self.0);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

const PROFILES: [Profile; 5] = [
    Profile::Psow512,
    Profile::Psow4096,
    Profile::AtomicSector,
    Profile::OrderedAppend,
    Profile::NonPsow,
];

/// A disk under test, its test folder, and its open files and locks.
struct Subject<'a> {
    storage: &'a dyn Storage,
    root: PathBuf,
    files: Vec<Box<dyn StorageFile>>,
    locks: Vec<(Box<dyn LockGuard>, PathBuf)>,
}

/// The result of a call as text, which must be the same on both disks.
fn outcome_of<T>(result: io::Result<T>, show: impl FnOnce(T) -> String) -> String {
    match result {
        Ok(value) => show(value),
        Err(error) => format!("{:?}", error.kind()),
    }
}

fn done<T>(result: io::Result<T>) -> String {
    outcome_of(result, |_| "ok".to_owned())
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const FOLDERS: [&str; 5] = ["", "d", "e", "missing", "a"];

#[derive(Debug)]
enum Step {
    CreateDir(String),
    Create(String),
    Open(String, Access),
    Close(usize),
    Read(usize, u64, usize),
    Write(usize, u64, Vec<u8>),
    SetLength(usize, u64),
    Length(usize),
    Sync(usize),
    MakeReadOnly(usize),
    Map(usize),
    Rename(String, String),
    Remove(String),
    List(String),
    SyncDir(String),
    Lock(String),
    CheckLock(usize),
    Unlock(usize),
}

fn path(rng: &mut Rng) -> String {
    if rng.below(60) == 0 {
        return "n".repeat(254 + rng.below(4));
    }
    let (folder, name) = (rng.pick(&FOLDERS), rng.pick(&NAMES));
    if folder.is_empty() || rng.below(3) > 0 { name.to_owned() } else { format!("{folder}/{name}") }
}

fn bytes(rng: &mut Rng) -> Vec<u8> {
    let fill = [0, 0x5A, u8::try_from(rng.below(256)).unwrap()][rng.below(3)];
    let bound = [9, 700, 9000][rng.below(3)];
    vec![fill; rng.below(bound)]
}

fn offset(rng: &mut Rng) -> u64 {
    let bound = [20, 600, 20_000][rng.below(3)];
    u64::try_from(rng.below(bound)).unwrap()
}

fn step(rng: &mut Rng) -> Step {
    let handle = rng.below(64);
    match rng.below(40) {
        0..=2 => Step::CreateDir(path(rng)),
        3..=7 => Step::Create(path(rng)),
        8..=10 => Step::Open(path(rng), Access::ReadWrite),
        11..=12 => Step::Open(path(rng), Access::Read),
        13 => Step::Close(handle),
        14..=17 => Step::Read(handle, offset(rng), rng.below(9000)),
        18..=24 => Step::Write(handle, offset(rng), bytes(rng)),
        25..=26 => Step::SetLength(handle, offset(rng)),
        27 => Step::Length(handle),
        28 => Step::Sync(handle),
        29 => Step::MakeReadOnly(handle),
        30 => Step::Map(handle),
        31..=33 => {
            let from = path(rng);
            let folder = Path::new(&from).parent().unwrap().to_owned();
            Step::Rename(from, folder.join(rng.pick(&NAMES)).to_str().unwrap().to_owned())
        }
        34 => Step::Remove(path(rng)),
        35 => Step::List([path(rng), String::new()][rng.below(2)].clone()),
        36 => Step::SyncDir(path(rng)),
        37 => Step::Lock(["LOCK", "d/LOCK", "missing/LOCK", ""][rng.below(4)].to_owned()),
        38 => Step::CheckLock(handle),
        _ if rng.below(3) == 0 => Step::Remove("LOCK".to_owned()),
        _ => Step::Unlock(handle),
    }
}

impl Subject<'_> {
    fn at(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(name) }
    }

    fn file(&self, number: usize) -> Option<&dyn StorageFile> {
        let number = number.checked_rem(self.files.len())?;
        Some(&*self.files[number])
    }

    fn keep(&mut self, result: io::Result<Box<dyn StorageFile>>) -> String {
        outcome_of(result, |file| {
            self.files.push(file);
            "ok".to_owned()
        })
    }

    /// Run a step. Returns its outcome.
    fn run(&mut self, step: &Step) -> String {
        match step {
            Step::CreateDir(path) => done(self.storage.create_dir(&self.at(path))),
            Step::Create(path) => self.keep(self.storage.create(&self.at(path))),
            Step::Open(path, access) => self.keep(self.storage.open(&self.at(path), *access)),
            Step::Rename(from, to) => done(self.storage.rename(&self.at(from), &self.at(to))),
            Step::Remove(path) => done(self.storage.remove(&self.at(path))),
            Step::List(path) => {
                outcome_of(self.storage.list(&self.at(path)), |all| format!("{all:?}"))
            }
            Step::SyncDir(path) => done(self.storage.sync_dir(&self.at(path))),
            Step::Lock(path) => {
                outcome_of(self.storage.lock(&self.at(path), path), |answer| match answer {
                    LockOutcome::HeldBy(holder) => format!("held by {holder}"),
                    LockOutcome::Acquired(guard) => {
                        self.locks.push((guard, self.at(path)));
                        "ours".to_owned()
                    }
                })
            }
            Step::CheckLock(_) | Step::Unlock(_) => self.take_lock(step),
            _ => self.take_file(step),
        }
    }

    fn take_lock(&mut self, step: &Step) -> String {
        match step {
            Step::CheckLock(number) if !self.locks.is_empty() => {
                let number = number % self.locks.len();
                let (guard, path) = &self.locks[number];
                outcome_of(guard.is_at(path), |is_there| is_there.to_string())
            }
            Step::Unlock(number) if !self.locks.is_empty() => {
                drop(self.locks.remove(number % self.locks.len()));
                "gone".to_owned()
            }
            _ => "nothing".to_owned(),
        }
    }

    fn take_file(&mut self, step: &Step) -> String {
        let number = match step {
            Step::Close(number)
            | Step::Read(number, ..)
            | Step::Write(number, ..)
            | Step::SetLength(number, _)
            | Step::Length(number)
            | Step::Sync(number)
            | Step::MakeReadOnly(number)
            | Step::Map(number) => *number,
            other => unreachable!("{other:?}"),
        };
        let Some(file) = self.file(number) else { return "nothing".to_owned() };
        match step {
            Step::Read(_, offset, count) => {
                let mut buffer = vec![0xEE; *count];
                outcome_of(file.read_at(&mut buffer, *offset), |count| {
                    format!("{count}: {buffer:?}")
                })
            }
            Step::Write(_, offset, bytes) => done(file.write_at(bytes, *offset)),
            Step::SetLength(_, length) => done(file.set_length(*length)),
            Step::Length(_) => outcome_of(file.length(), |length| {
                // The length of a folder is not specified.
                let is_file = file.read_at(&mut [0], 0).is_ok();
                if is_file { length.to_string() } else { "a folder".to_owned() }
            }),
            Step::Sync(_) => done(file.sync()),
            Step::MakeReadOnly(_) => {
                let is_file = file.read_at(&mut [0], 0).is_ok();
                if is_file { done(file.make_read_only()) } else { "a folder".to_owned() }
            }
            Step::Map(_) => outcome_of(file.map(), |map| format!("{:?}", map.get(0..map.length()))),
            _ => {
                drop(self.files.remove(number % self.files.len()));
                "closed".to_owned()
            }
        }
    }

    /// Everything below a folder except lock files: their text is not modelled.
    fn tree(&self, below: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut all = BTreeMap::new();
        for entry in self.storage.list(below).unwrap() {
            let path = below.join(&entry.name);
            let name = path.strip_prefix(&self.root).unwrap().to_owned();
            if entry.kind == EntryKind::Folder {
                all.insert(name, None);
                all.extend(self.tree(&path));
            } else if entry.name != "LOCK" {
                let file = self.storage.open(&path, Access::Read).unwrap();
                let mut bytes = vec![0; usize::try_from(file.length().unwrap()).unwrap()];
                assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
                all.insert(name, Some(bytes));
            }
        }
        all
    }
}

/// A folder in memory for most histories, and on disk for some.
fn folder(history: u64) -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if !history.is_multiple_of(16) && memory.is_dir() {
        return tempfile::tempdir_in(memory).unwrap();
    }
    tempfile::tempdir().unwrap()
}

/// Whether this user may write to read-only files.
fn is_privileged() -> bool {
    let folder = folder(1);
    let path = folder.path().join("probe");
    DiskStorage.create(&path).unwrap().make_read_only().unwrap();
    DiskStorage.open(&path, Access::ReadWrite).is_ok()
}

/// Goal: without crashes, the simulated disk behaves like a real one: the same results, the same kinds
/// of errors, the same bytes.
#[test]
fn simulated_disk_behaves_like_the_real_one() {
    let is_privileged = is_privileged();
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for history in 0..240 {
        let (sim, folder, mut rng) = (SimDisk::new(), folder(history), Rng(history));
        sim.create_dir(Path::new("/root")).unwrap();
        let subject =
            |storage, root| Subject { storage, root, files: Vec::new(), locks: Vec::new() };
        let mut simulated = subject(&sim, PathBuf::from("/root"));
        let mut real = subject(&DiskStorage, folder.path().to_owned());
        for number in 0..200 {
            let step = step(&mut rng);
            let (found, expected) = (simulated.run(&step), real.run(&step));
            if is_privileged && found == "PermissionDenied" && expected == "ok" {
                real.files.pop();
                continue;
            }
            assert!(
                found == expected,
                "history {history}, {number}: {step:?}:\n{found}\n{expected}"
            );
            if !found.starts_with(|first: char| first.is_ascii_digit() || first == '[') {
                *outcomes.entry(found).or_default() += 1;
            }
        }
        assert!(simulated.tree(&simulated.root) == real.tree(&real.root), "history {history}");
    }
    for outcome in [
        "AlreadyExists",
        "NotFound",
        "NotADirectory",
        "IsADirectory",
        "DirectoryNotEmpty",
        "InvalidFilename",
        "InvalidInput",
        "Uncategorized",
        "held by LOCK",
        "ours",
        "false",
    ] {
        assert!(outcomes.contains_key(outcome), "{outcome} never happened: {outcomes:?}");
    }
}

const FILE: &str = "/file";

/// A disk with a synced file.
fn disk_with(profile: Profile, content: &[u8]) -> (SimDisk, Box<dyn StorageFile>) {
    let disk = SimDisk::new();
    disk.set_profile(profile);
    let file = disk.create(Path::new(FILE)).unwrap();
    file.write_at(content, 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    assert_eq!(disk.unsynced(), 0);
    (disk, file)
}

fn after(disk: &SimDisk, loss: Loss) -> (Vec<u8>, bool) {
    let disk = disk.fork();
    disk.lose_power(loss);
    let is_violation =
        disk.injected().iter().any(plan_ledger::internals::sim::InjectedFault::is_violation);
    (disk.read(Path::new(FILE)).unwrap(), is_violation)
}

/// Every outcome of a power loss, in the letters of the case; garbage is `*`.
fn images(disk: &SimDisk, range: std::ops::Range<usize>, letters: &str) -> BTreeSet<String> {
    let letter = |byte: &u8| {
        let letter = if *byte == 0 { '0' } else { char::from(*byte) };
        if letters.contains(letter) { letter } else { '*' }
    };
    let losses = [Loss::Everything, Loss::Nothing].into_iter().chain((0..4000).map(Loss::Some));
    let image = |loss| {
        let (bytes, _) = after(disk, loss);
        bytes[range.start.min(bytes.len())..range.end.min(bytes.len())].iter().map(letter).collect()
    };
    losses.map(image).collect()
}

fn words(all: &str) -> BTreeSet<String> {
    all.split_whitespace().map(str::to_owned).collect()
}

/// All words of a length over an alphabet.
fn all_words(letters: &str, length: usize) -> BTreeSet<String> {
    (0..length).fold(BTreeSet::from([String::new()]), |words, _| {
        words
            .iter()
            .flat_map(|word| letters.chars().map(move |next| format!("{word}{next}")))
            .collect()
    })
}

/// Goal: each permitted outcome of a write occurs, and no other.
/// Method: writes so small that their outcomes can be listed by hand.
#[test]
fn exactly_the_permitted_outcomes_of_a_write_occur() {
    for profile in PROFILES {
        // Two bytes of one sector.
        let (disk, file) = disk_with(profile, &[b'o'; 1024]);
        file.write_at(b"nn", 100).unwrap();
        let torn = all_words("on*", 2);
        let expected = match profile {
            Profile::Psow512 | Profile::Psow4096 | Profile::NonPsow => torn.clone(),
            Profile::AtomicSector => words("oo nn"),
            Profile::OrderedAppend => words("oo no nn"),
        };
        assert_eq!(images(&disk, 100..102, "on"), expected, "{profile:?}");

        // One byte each of two sectors.
        let (disk, file) = disk_with(profile, &[b'o'; 1024]);
        file.write_at(b"nn", 511).unwrap();
        let expected = match profile {
            Profile::Psow512 | Profile::Psow4096 | Profile::NonPsow => torn,
            Profile::AtomicSector => words("oo no on nn"),
            Profile::OrderedAppend => words("oo no nn"),
        };
        assert_eq!(images(&disk, 511..513, "on"), expected, "{profile:?}");
        let masks = (0..4).map(|mask| after(&disk, Loss::AllBut(mask)).0[511..513].to_vec());
        let masks: BTreeSet<Vec<u8>> = masks.collect();
        let count = match profile {
            Profile::Psow512 | Profile::AtomicSector | Profile::NonPsow => (2, 4),
            Profile::Psow4096 => (1, 2),
            Profile::OrderedAppend => (2, 3),
        };
        assert_eq!((disk.unsynced(), masks.len()), count, "{profile:?}");
    }
}

/// Goal: the same for two writes to one sector, and for bytes at the end of a file.
#[test]
fn exactly_the_permitted_outcomes_of_several_writes_occur() {
    for profile in &PROFILES[..4] {
        let (disk, file) = disk_with(*profile, &[b'o'; 1024]);
        file.write_at(b"x", 7).unwrap();
        file.write_at(b"y", 8).unwrap();
        let expected = match profile {
            Profile::AtomicSector | Profile::OrderedAppend => words("oo xo xy"),
            Profile::Psow512 | Profile::Psow4096 | Profile::NonPsow => {
                let all = all_words("oxy*", 2);
                all.into_iter()
                    .filter(|word| !word.starts_with('y') && !word.ends_with('x'))
                    .collect()
            }
        };
        let found = images(&disk, 7..9, "oxy");
        assert!(found.is_superset(&expected), "{profile:?}: {found:?}");
        let is_new = |word: &&String| !expected.contains(*word);
        // Garbage can equal any other outcome.
        assert!(found.iter().filter(is_new).count() < 3, "{profile:?}: {found:?}");

        let (disk, file) = disk_with(*profile, b"o");
        file.write_at(b"x", 1).unwrap();
        file.write_at(b"y", 2).unwrap();
        let found = images(&disk, 0..9, "oxy0");
        let expected = match profile {
            Profile::OrderedAppend => words("o ox oxy"),
            Profile::AtomicSector => words("o o0 ox o00 ox0 oxy"),
            _ => words("o o0 ox o* o00 o0y ox0 oxy o*0 o0* o*y ox* o**"),
        };
        assert!(found.is_superset(&expected), "{profile:?}: {found:?}");
        let is_exact = matches!(profile, Profile::OrderedAppend | Profile::AtomicSector);
        assert!(!is_exact || found == expected, "{profile:?}: {found:?}");
    }
}

/// Goal: each unsynced change of a directory entry survives or is lost independently.
#[test]
fn unsynced_directory_entries_survive_independently() {
    let disk = SimDisk::new();
    for name in ["/moved", "/removed"] {
        disk.create(Path::new(name)).unwrap();
    }
    disk.sync_dir(Path::new("/")).unwrap();
    disk.create(Path::new("/new")).unwrap();
    disk.rename(Path::new("/moved"), Path::new("/there")).unwrap();
    disk.remove(Path::new("/removed")).unwrap();
    assert_eq!(disk.unsynced(), 3);
    let names = |loss| {
        let disk = disk.fork();
        disk.lose_power(loss);
        disk.files(Path::new("/"))
    };
    let by_seed: BTreeSet<_> = (0..200).map(|seed| names(Loss::Some(seed))).collect();
    let by_mask: BTreeSet<_> = (0..8).map(|mask| names(Loss::AllBut(mask))).collect();
    assert_eq!(by_seed, by_mask);
    assert_eq!(by_mask.len(), 8);
    for names in &by_mask {
        let has = |name: &str| names.iter().any(|path| path == Path::new(name));
        assert!(has("/moved") != has("/there"), "a rename is atomic: {names:?}");
    }
}

/// Goal: a file that was renamed twice has one name after any loss.
#[test]
fn twice_renamed_file_has_one_name() {
    let (disk, _) = disk_with(Profile::AtomicSector, b"o");
    disk.rename(Path::new(FILE), Path::new("/second")).unwrap();
    disk.rename(Path::new("/second"), Path::new("/third")).unwrap();
    let names = (0..4).map(|mask| {
        let disk = disk.fork();
        disk.lose_power(Loss::AllBut(mask));
        disk.files(Path::new("/"))
    });
    let names: Vec<Vec<PathBuf>> = names.collect();
    let expected = [FILE, "/second", "/third", "/third"].map(|name| vec![PathBuf::from(name)]);
    assert_eq!(names, expected);
}

/// Goal: only a device without powersafe overwrite damages the neighbours of a write; it damages nothing
/// farther away, and the fault log marks it as a violation.
#[test]
fn only_non_psow_devices_damage_neighbours() {
    for profile in PROFILES {
        let mut harmed = 0;
        for seed in 0..300 {
            let (disk, file) = disk_with(profile, &[b'o'; 4096]);
            file.write_at(&[b'n'; 100], 1100).unwrap();
            let (bytes, is_violation) = after(&disk, Loss::Some(seed));
            let is_harmed =
                |range: std::ops::Range<usize>| bytes[range].iter().any(|byte| *byte != b'o');
            let beside = is_harmed(0..1100) || is_harmed(1200..4096);
            assert!(!beside || is_violation, "{profile:?} {seed}");
            assert!(!is_harmed(0..512) && !is_harmed(2048..4096), "{profile:?} {seed}");
            harmed += u32::from(beside);
        }
        assert_eq!(harmed > 0, profile == Profile::NonPsow, "{profile:?}: {harmed}");
    }
}

/// A model of the possible contents of a file after a power loss. It does not model pages.
#[derive(Default)]
struct Shadow {
    synced: Vec<u8>,
    now: Vec<u8>,
    lengths: Vec<usize>,
    /// What was written to each byte since.
    written: BTreeMap<usize, Vec<u8>>,
}

impl Shadow {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        if end > self.now.len() {
            self.now.resize(end, 0);
            self.lengths.push(end);
        }
        self.now[offset..end].copy_from_slice(bytes);
        for (at, byte) in (offset..).zip(bytes) {
            self.written.entry(at).or_default().push(*byte);
        }
    }

    fn set_length(&mut self, length: usize) {
        for at in length..self.now.len() {
            // Truncated bytes are zero when the file grows again.
            self.written.entry(at).or_default().push(0);
        }
        self.now.resize(length, 0);
        self.lengths.push(length);
    }

    fn sync(&mut self) {
        self.synced = self.now.clone();
        self.lengths.clear();
        self.written.clear();
    }

    fn check(&self, found: &[u8], has_garbage: bool, story: &str) {
        let is_length = found.len() == self.synced.len() || self.lengths.contains(&found.len());
        assert!(is_length, "{story}: {} bytes, {:?}", found.len(), self.lengths);
        for (at, byte) in found.iter().enumerate() {
            let before = self.synced.get(at).copied().unwrap_or(0);
            let Some(written) = self.written.get(&at) else {
                assert_eq!(*byte, before, "{story}: byte {at} was never written");
                continue;
            };
            let is_known = *byte == before || *byte == 0 && at >= self.synced.len();
            let is_allowed = has_garbage || is_known || written.contains(byte);
            assert!(is_allowed, "{story}: byte {at} is {byte}");
        }
    }
}

/// Goal: synced bytes survive any loss on any device that keeps the contract. Any other byte has an old
/// or a written value, or is garbage where the device permits it.
/// Method: random histories of writes, truncations and syncs of one file, and random losses.
#[test]
fn synced_bytes_survive_and_nothing_is_invented() {
    for history in 0..150 {
        let mut rng = Rng(mix(history));
        let profile = PROFILES[rng.below(4)];
        let (disk, file) = disk_with(profile, b"");
        let mut shadow = Shadow::default();
        for _ in 0..rng.below(30) {
            match rng.below(12) {
                0..=7 => {
                    let (at, bytes) = (rng.below(9000), bytes(&mut rng));
                    file.write_at(&bytes, u64::try_from(at).unwrap()).unwrap();
                    shadow.write(at, &bytes);
                }
                8 => {
                    let length = rng.below(9000);
                    file.set_length(u64::try_from(length).unwrap()).unwrap();
                    if length != shadow.now.len() {
                        shadow.set_length(length);
                    }
                }
                _ => {
                    file.sync().unwrap();
                    shadow.sync();
                }
            }
        }
        assert_eq!(disk.read(Path::new(FILE)).unwrap(), shadow.now, "history {history}");
        let has_garbage = matches!(profile, Profile::Psow512 | Profile::Psow4096);
        let fixed = [Loss::Everything, Loss::Nothing, Loss::AllBut(rng.0)];
        for loss in fixed.into_iter().chain((0..8).map(Loss::Some)) {
            let story = format!("history {history}, {profile:?}, {loss:?}");
            let (found, is_violation) = after(&disk, loss);
            assert!(!is_violation, "{story}");
            let may_be_garbage = has_garbage && matches!(loss, Loss::Some(_));
            if profile != Profile::OrderedAppend {
                shadow.check(&found, may_be_garbage, &story);
            }
            match loss {
                Loss::Everything => assert_eq!(found, shadow.synced, "{story}"),
                Loss::Nothing => assert_eq!(found, shadow.now, "{story}"),
                _ => {}
            }
            assert_eq!(found, after(&disk, loss).0, "{story}: not the same twice");
        }
    }
}

/// Goal: on a device that keeps the order, a file is after a loss what it was at some moment, or in the
/// middle of a write.
#[test]
fn ordered_device_keeps_a_prefix_of_changes() {
    for history in 0..200 {
        let mut rng = Rng(mix(!history));
        let (disk, file) = disk_with(Profile::OrderedAppend, b"begin");
        let mut now = b"begin".to_vec();
        let mut moments = BTreeSet::from([now.clone()]);
        for _ in 0..rng.below(6) {
            if rng.below(4) == 0 {
                let length = rng.below(900);
                file.set_length(u64::try_from(length).unwrap()).unwrap();
                now.resize(length, 0);
                moments.insert(now.clone());
                continue;
            }
            let at = rng.below(now.len() + 1);
            for (offset, byte) in
                (at..).zip(vec![0xA0 + u8::try_from(rng.below(9)).unwrap(); rng.below(700)])
            {
                now.resize(now.len().max(offset + 1), 0);
                now[offset] = byte;
                moments.insert(now.clone());
            }
            let written = &now[at..];
            let count = written.iter().take_while(|byte| **byte == written[0]).count();
            file.write_at(&written[..count], u64::try_from(at).unwrap()).unwrap();
        }
        for seed in 0..20 {
            let (found, _) = after(&disk, Loss::Some(seed));
            assert!(moments.contains(&found), "history {history}, seed {seed}");
        }
    }
}

/// Goal: a power loss is logged with the number of kept and lost changes.
#[test]
fn power_loss_is_logged() {
    let (disk, file) = disk_with(Profile::AtomicSector, &[b'o'; 1024]);
    file.write_at(&[b'n'; 1024], 0).unwrap();
    disk.lose_power(Loss::AllBut(1));
    let last = disk.injected().pop().unwrap();
    assert!(matches!(last.kind, InjectedKind::PowerLoss { kept: 1, lost: 1, .. }), "{last}");
    assert!(!last.is_violation());
}
