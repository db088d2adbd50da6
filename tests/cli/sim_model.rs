//! The simulated disk against the real one, and against what it promises of power losses.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use plan_ledger::sim::{Loss, Profile, SimDisk, What};
use plan_ledger::storage::{
    Access, DiskStorage, EntryKind, LockGuard, Locking, Storage, StorageFile,
};

use super::lab::mix;

/// Numbers that only the seed decides.
struct Dice(u64);

impl Dice {
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

/// A disk, its folder for the test, and what is open on it.
struct Side<'a> {
    storage: &'a dyn Storage,
    root: PathBuf,
    files: Vec<Box<dyn StorageFile>>,
    locks: Vec<(Box<dyn LockGuard>, PathBuf)>,
}

/// What a call came to, in words that both disks must share.
fn said<T>(result: io::Result<T>, show: impl FnOnce(T) -> String) -> String {
    match result {
        Ok(value) => show(value),
        Err(error) => format!("{:?}", error.kind()),
    }
}

fn done<T>(result: io::Result<T>) -> String {
    said(result, |_| "ok".to_owned())
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

fn path(dice: &mut Dice) -> String {
    if dice.below(60) == 0 {
        return "n".repeat(254 + dice.below(4));
    }
    let (folder, name) = (dice.pick(&FOLDERS), dice.pick(&NAMES));
    if folder.is_empty() || dice.below(3) > 0 {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

fn bytes(dice: &mut Dice) -> Vec<u8> {
    let fill = [0, 0x5A, u8::try_from(dice.below(256)).unwrap()][dice.below(3)];
    let bound = [9, 700, 9000][dice.below(3)];
    vec![fill; dice.below(bound)]
}

fn offset(dice: &mut Dice) -> u64 {
    let bound = [20, 600, 20_000][dice.below(3)];
    u64::try_from(dice.below(bound)).unwrap()
}

fn step(dice: &mut Dice) -> Step {
    let handle = dice.below(64);
    match dice.below(40) {
        0..=2 => Step::CreateDir(path(dice)),
        3..=7 => Step::Create(path(dice)),
        8..=10 => Step::Open(path(dice), Access::ReadWrite),
        11..=12 => Step::Open(path(dice), Access::Read),
        13 => Step::Close(handle),
        14..=17 => Step::Read(handle, offset(dice), dice.below(9000)),
        18..=24 => Step::Write(handle, offset(dice), bytes(dice)),
        25..=26 => Step::SetLength(handle, offset(dice)),
        27 => Step::Length(handle),
        28 => Step::Sync(handle),
        29 => Step::MakeReadOnly(handle),
        30 => Step::Map(handle),
        31..=33 => {
            let from = path(dice);
            let folder = Path::new(&from).parent().unwrap().to_owned();
            Step::Rename(from, folder.join(dice.pick(&NAMES)).to_str().unwrap().to_owned())
        }
        34 => Step::Remove(path(dice)),
        35 => Step::List([path(dice), String::new()][dice.below(2)].clone()),
        36 => Step::SyncDir(path(dice)),
        37 => Step::Lock(["LOCK", "d/LOCK", "missing/LOCK", ""][dice.below(4)].to_owned()),
        38 => Step::CheckLock(handle),
        _ if dice.below(3) == 0 => Step::Remove("LOCK".to_owned()),
        _ => Step::Unlock(handle),
    }
}

impl Side<'_> {
    fn at(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(name) }
    }

    fn file(&self, number: usize) -> Option<&dyn StorageFile> {
        let number = number.checked_rem(self.files.len())?;
        Some(&*self.files[number])
    }

    fn keep(&mut self, result: io::Result<Box<dyn StorageFile>>) -> String {
        said(result, |file| {
            self.files.push(file);
            "ok".to_owned()
        })
    }

    /// Do a step, and say what came of it.
    fn take(&mut self, step: &Step) -> String {
        match step {
            Step::CreateDir(path) => done(self.storage.create_dir(&self.at(path))),
            Step::Create(path) => self.keep(self.storage.create(&self.at(path))),
            Step::Open(path, access) => self.keep(self.storage.open(&self.at(path), *access)),
            Step::Rename(from, to) => done(self.storage.rename(&self.at(from), &self.at(to))),
            Step::Remove(path) => done(self.storage.remove(&self.at(path))),
            Step::List(path) => said(self.storage.list(&self.at(path)), |all| format!("{all:?}")),
            Step::SyncDir(path) => done(self.storage.sync_dir(&self.at(path))),
            Step::Lock(path) => {
                said(self.storage.lock(&self.at(path), path), |answer| match answer {
                    Locking::HeldBy(holder) => format!("held by {holder}"),
                    Locking::Ours(guard) => {
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
                said(guard.is_in_place(path), |is_there| is_there.to_string())
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
                said(file.read_at(&mut buffer, *offset), |count| format!("{count}: {buffer:?}"))
            }
            Step::Write(_, offset, bytes) => done(file.write_at(bytes, *offset)),
            Step::SetLength(_, length) => done(file.set_length(*length)),
            Step::Length(_) => said(file.length(), |length| {
                // The length of a folder is nobody's business.
                let is_file = file.read_at(&mut [0], 0).is_ok();
                if is_file { length.to_string() } else { "a folder".to_owned() }
            }),
            Step::Sync(_) => done(file.sync()),
            Step::MakeReadOnly(_) => {
                let is_file = file.read_at(&mut [0], 0).is_ok();
                if is_file { done(file.make_read_only()) } else { "a folder".to_owned() }
            }
            Step::Map(_) => said(file.map(), |map| format!("{:?}", &*map)),
            _ => {
                drop(self.files.remove(number % self.files.len()));
                "closed".to_owned()
            }
        }
    }

    /// Everything below a folder, lock files left out: their text is not modelled.
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

/// Where real files are quick, if there is such a place, and now and then where they are not.
fn folder(history: u64) -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if !history.is_multiple_of(16) && memory.is_dir() {
        return tempfile::tempdir_in(memory).unwrap();
    }
    tempfile::tempdir().unwrap()
}

/// Whether this user may write to files that are read-only.
fn is_privileged() -> bool {
    let folder = folder(1);
    let path = folder.path().join("probe");
    DiskStorage.create(&path).unwrap().make_read_only().unwrap();
    DiskStorage.open(&path, Access::ReadWrite).is_ok()
}

/// Goal: as long as nothing crashes nobody can tell the simulated disk from a real one: the same
/// results, the same kinds of errors, the same bytes.
#[test]
fn the_simulated_disk_behaves_as_the_real_one() {
    let is_privileged = is_privileged();
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for history in 0..240 {
        let (sim, folder, mut dice) = (SimDisk::new(), folder(history), Dice(history));
        sim.create_dir(Path::new("/root")).unwrap();
        let side = |storage, root| Side { storage, root, files: Vec::new(), locks: Vec::new() };
        let mut ours = side(&sim, PathBuf::from("/root"));
        let mut real = side(&DiskStorage, folder.path().to_owned());
        for number in 0..200 {
            let step = step(&mut dice);
            let (found, expected) = (ours.take(&step), real.take(&step));
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
        assert!(ours.tree(&ours.root) == real.tree(&real.root), "history {history}");
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
        assert!(outcomes.contains_key(outcome), "{outcome} never came: {outcomes:?}");
    }
}

const FILE: &str = "/file";

/// A disk with a file whose bytes and name are safe.
fn disk_with(profile: Profile, content: &[u8]) -> (SimDisk, Box<dyn StorageFile>) {
    let disk = SimDisk::new();
    disk.become_device(profile);
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
    let is_violation = disk.injected().iter().any(plan_ledger::sim::Injected::is_violation);
    (disk.read(Path::new(FILE)).unwrap(), is_violation)
}

/// Everything that may be there after a power loss, in the letters of the case: garbage is `*`.
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

/// All words of a length.
fn all_words(letters: &str, length: usize) -> BTreeSet<String> {
    (0..length).fold(BTreeSet::from([String::new()]), |words, _| {
        words
            .iter()
            .flat_map(|word| letters.chars().map(move |next| format!("{word}{next}")))
            .collect()
    })
}

/// Goal: each outcome that a device may have really comes, and no other.
/// Method: writes so small that their outcomes can be listed by hand.
#[test]
fn each_permitted_outcome_of_a_write_comes_and_no_other() {
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

/// Goal: as above, for two writes to one sector, and for bytes at the end of a file.
#[test]
fn each_permitted_outcome_of_several_writes_comes_and_no_other() {
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
        // Garbage may look like anything.
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

/// Goal: of names that were not synced each change is kept or lost by itself.
#[test]
fn each_subset_of_changed_names_comes_and_no_other() {
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
        assert!(has("/moved") != has("/there"), "a move is atomic: {names:?}");
    }
}

/// Goal: a file that was moved twice has one name after any loss, also if only one move survives.
#[test]
fn a_file_that_moved_twice_has_one_name() {
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

/// Goal: a device without powersafe overwrite harms the neighbours of a write, not what is far
/// away, and this is noted as a breach of the contract; no other device does.
#[test]
fn only_a_device_without_powersafe_overwrite_harms_neighbours() {
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

/// What a file may be after a power loss, kept by a model that knows nothing of pages.
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
            // What was cut off is zero when the file grows again.
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
                assert_eq!(*byte, before, "{story}: byte {at} was not written to");
                continue;
            };
            let is_known = *byte == before || *byte == 0 && at >= self.synced.len();
            let is_allowed = has_garbage || is_known || written.contains(byte);
            assert!(is_allowed, "{story}: byte {at} is {byte}");
        }
    }
}

/// Goal: what was synced survives any loss on any device that keeps the contract; everything
/// else is something that was there or was written there, or garbage where the device allows it.
/// Method: random histories of writes, cuts, and syncs of one file; random losses of each.
#[test]
fn what_was_synced_survives_and_nothing_is_made_up() {
    for history in 0..150 {
        let mut dice = Dice(mix(history));
        let profile = PROFILES[dice.below(4)];
        let (disk, file) = disk_with(profile, b"");
        let mut shadow = Shadow::default();
        for _ in 0..dice.below(30) {
            match dice.below(12) {
                0..=7 => {
                    let (at, bytes) = (dice.below(9000), bytes(&mut dice));
                    file.write_at(&bytes, u64::try_from(at).unwrap()).unwrap();
                    shadow.write(at, &bytes);
                }
                8 => {
                    let length = dice.below(9000);
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
        let fixed = [Loss::Everything, Loss::Nothing, Loss::AllBut(dice.0)];
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

/// Goal: on a device that keeps the order a file is after a loss what it was at some moment, or
/// between two bytes of a write.
#[test]
fn in_order_means_in_order() {
    for history in 0..200 {
        let mut dice = Dice(mix(!history));
        let (disk, file) = disk_with(Profile::OrderedAppend, b"begin");
        let mut now = b"begin".to_vec();
        let mut moments = BTreeSet::from([now.clone()]);
        for _ in 0..dice.below(6) {
            if dice.below(4) == 0 {
                let length = dice.below(900);
                file.set_length(u64::try_from(length).unwrap()).unwrap();
                now.resize(length, 0);
                moments.insert(now.clone());
                continue;
            }
            let at = dice.below(now.len() + 1);
            for (offset, byte) in
                (at..).zip(vec![0xA0 + u8::try_from(dice.below(9)).unwrap(); dice.below(700)])
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

/// Goal: a power loss is noted with what it took.
#[test]
fn a_power_loss_is_noted() {
    let (disk, file) = disk_with(Profile::AtomicSector, &[b'o'; 1024]);
    file.write_at(&[b'n'; 1024], 0).unwrap();
    disk.lose_power(Loss::AllBut(1));
    let last = disk.injected().pop().unwrap();
    assert!(matches!(last.what, What::PowerLoss { kept: 1, lost: 1, .. }), "{last}");
    assert!(!last.is_violation());
}
