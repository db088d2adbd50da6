//! Files that a plan names: their current state, and whether a worker changed other files.
//!
//! Paths are relative to the working folder of the runner and its workers. An entry of `changes` is
//! a file, a folder (with everything below it), or a pattern: `*` matches any part of one name,
//! `**` any number of names. Files without a step that names them are not examined.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;

use rustix::fs::OFlags;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path};

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::{PlannedFile, PlannedFiles, bytes_hash};
use plan_ledger::plan::{CompactPlan, CompactStep};
use plan_ledger::{Artifact, ContentHash, Run, StepNumber, StepStatus};

/// The maximum number of files of a plan that are recorded.
const FILES_MAX: usize = 10_000;

/// A file that a step is expected to change, in its state at dispatch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ChangedFile {
    /// The path as in the plan.
    pub path: String,
    /// The type of the file.
    pub state: FileState,
    /// The hash of its content, if it is a regular file.
    pub hash: Option<ContentHash>,
    /// Its hash when the plan was made.
    pub planned_hash: Option<ContentHash>,
    /// Whether the file changed since the plan was made; `None` without a recorded hash, or if it
    /// is not a regular file.
    pub changed: Option<bool>,
}

/// The type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A regular file that is too long to be hashed: more than 4 GiB.
    Long,
    /// Missing.
    Absent,
    /// Another type, or a file that cannot be read.
    Other,
}

/// The current state of a step's files, compared with the recorded state.
pub(crate) fn changed_files(changes: &[String], planned: &[PlannedFile]) -> Vec<ChangedFile> {
    let file = |path: &String| {
        let (state, hash) = look(path);
        let before = planned.iter().find(|file| file.path == *path).map(|file| file.hash);
        let is_known = matches!(state, FileState::File | FileState::Absent);
        ChangedFile {
            path: path.clone(),
            state,
            hash,
            planned_hash: before.flatten(),
            changed: before.filter(|_| is_known).map(|before| before != hash),
        }
    };
    let planned_in = |entry: &String| {
        let names: Vec<&str> = planned.iter().map(|file| file.path.as_str()).collect();
        let entry = [entry.clone()];
        names.into_iter().filter(|path| is_within(path, &entry)).map(str::to_owned).collect()
    };
    let paths = |entry: &String| -> BTreeSet<String> {
        if !is_pattern(entry) {
            return BTreeSet::from([entry.clone()]);
        }
        // Lost files are among the planned ones.
        let planned: Vec<String> = planned_in(entry);
        files_like(entry).into_iter().chain(planned).collect()
    };
    let all: BTreeSet<String> = changes.iter().flat_map(paths).collect();
    if changes.iter().any(|entry| is_pattern(entry)) {
        all.iter().take(FILES_MAX).map(file).collect()
    } else {
        changes.iter().map(file).collect()
    }
}

/// The files that changed since the plan was made although no other step may change them.
pub(crate) fn stale_files(files: &[ChangedFile], others: &[String]) -> Vec<String> {
    let is_stale =
        |file: &&ChangedFile| file.changed == Some(true) && !is_within(&file.path, others);
    files.iter().filter(is_stale).map(|file| file.path.clone()).collect()
}

/// The most files that a view compares, and their bytes: it must answer soon.
const COMPARED_FILES_MAX: usize = 1_000;
const COMPARED_BYTES_MAX: u64 = 256 << 20;

/// The most changed files that a view looks up in the plan.
const CHANGED_FILES_MAX: usize = 100;

/// The steps that have not begun with files that changed since the plan was made, although no other
/// step may change them; or the files of one of these steps. A runner reports them before it starts
/// the steps.
///
/// `None` if this is not known: no file was recorded for the active version, the files are too many
/// or too long, or none of the recorded ones is in this folder, which is probably not that of the
/// plan.
pub(crate) fn stale_steps(
    run: &Run,
    only: Option<StepNumber>,
) -> Option<Vec<(StepNumber, Vec<String>)>> {
    let planned = PlannedFiles::of(run).filter(|planned| planned.version == run.active)?;
    let steps = (1..).map(StepNumber).zip(&run.steps);
    let steps = steps.filter_map(|(number, state)| {
        let changes = run.plan_step(number)?.changes().map(str::to_owned).collect();
        let waits = matches!(
            state.status,
            StepStatus::Waiting | StepStatus::Ready | StepStatus::Gated | StepStatus::Delayed
        );
        let is_meant = only.is_none_or(|only| only == number);
        Some((number, waits && state.attempts == 0 && is_meant, changes))
    });
    let steps: Vec<(StepNumber, bool, Vec<String>)> = steps.collect();
    let meant = steps.iter().filter(|(_, is_meant, _)| *is_meant);
    let (patterns, paths): (Vec<String>, Vec<String>) =
        meant.flat_map(|(_, _, changes)| changes.clone()).partition(|entry| is_pattern(entry));
    let paths: BTreeSet<String> = paths.into_iter().collect();
    let files = planned.files.iter();
    let files: Vec<_> =
        files.filter(|(path, _)| paths.contains(*path) || is_within(path, &patterns)).collect();
    let changed = changed_among(&files)?;
    let mut stale: BTreeMap<StepNumber, Vec<String>> = BTreeMap::new();
    for path in changed.into_iter().take(CHANGED_FILES_MAX) {
        let mut of = steps.iter().filter(|(_, _, changes)| is_within(path, changes));
        if let (Some((number, true, _)), None) = (of.next(), of.next()) {
            stale.entry(*number).or_default().push(path.to_owned());
        }
    }
    Some(stale.into_iter().collect())
}

/// The recorded files that changed; `None` if this is not known.
fn changed_among<'a>(files: &[(&'a String, &Option<ContentHash>)]) -> Option<Vec<&'a str>> {
    let length = |(path, _): &(&String, _)| fs::metadata(path).map_or(0, |found| found.len());
    if files.len() > COMPARED_FILES_MAX
        || files.iter().map(length).fold(0, u64::saturating_add) > COMPARED_BYTES_MAX
    {
        return None;
    }
    let mut changed = Vec::new();
    let (mut had, mut found) = (false, false);
    for (path, before) in files {
        let (state, hash) = look(path);
        had |= before.is_some();
        found |= before.is_some() && state != FileState::Absent;
        if matches!(state, FileState::File | FileState::Absent) && **before != hash {
            changed.push(path.as_str());
        }
    }
    (found || !had).then_some(changed)
}

fn is_pattern(entry: &str) -> bool {
    entry.contains('*')
}

/// The files that match a pattern, in order, at most [`FILES_MAX`].
fn files_like(pattern: &str) -> Vec<String> {
    let fixed: Vec<&str> = pattern.split('/').take_while(|name| !name.contains('*')).collect();
    let base = if fixed.is_empty() { ".".to_owned() } else { fixed.join("/") };
    let entry = [pattern.to_owned()];
    let (mut found, mut open, mut seen) = (Vec::new(), vec![base], 0);
    while let Some(folder) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for each in entries.flatten() {
            seen += 1;
            if seen > FILES_MAX * 10 || found.len() >= FILES_MAX {
                return found;
            }
            let name = each.file_name().to_string_lossy().into_owned();
            let path = if folder == "." { name.clone() } else { format!("{folder}/{name}") };
            // Links are not followed, and hidden folders are not part of a project's files.
            match each.file_type() {
                Ok(kind) if kind.is_dir() && !name.starts_with('.') => open.push(path),
                Ok(kind) if kind.is_file() && is_within(&path, &entry) => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// The state of a plan's files, to be recorded when the plan becomes active; `None` if the plan has
/// no files, or too many to record.
pub(crate) fn planned_files(version: u32, plan: &CompactPlan) -> Option<PlannedFiles> {
    let paths = plan.steps().flat_map(CompactStep::changes);
    let paths = paths.flat_map(|path| {
        let entry = path.to_owned();
        if is_pattern(&entry) { files_like(&entry) } else { vec![entry] }
    });
    let files: BTreeMap<String, Option<ContentHash>> =
        paths.take(FILES_MAX + 1).map(|path| (path.clone(), look(&path).1)).collect();
    let is_of_use = !files.is_empty() && files.len() <= FILES_MAX;
    is_of_use.then_some(PlannedFiles { version, files })
}

/// The type of the file at a path, and its hash if it is a regular file.
fn look(path: &str) -> (FileState, Option<ContentHash>) {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) => {
            // A file without read permission still exists.
            let is_absent = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
            return (if is_absent { FileState::Absent } else { FileState::Other }, None);
        }
    };
    if found.is_dir() {
        return (FileState::Folder, None);
    }
    // Reading a special file may never end.
    let hash = found.is_file().then(|| hash_of(path)).flatten();
    let is_long = found.is_file() && found.len() > HASHED_LENGTH_MAX;
    let other = if is_long { FileState::Long } else { FileState::Other };
    (if hash.is_some() { FileState::File } else { other }, hash)
}

/// The maximum length of a file for computing its hash, in bytes: a few seconds. A sparse file can
/// be far longer than its disk.
const HASHED_LENGTH_MAX: u64 = 4 << 30;

/// The hash of a file, unless it is too long or grows without end.
fn hash_of(path: &str) -> Option<ContentHash> {
    let file = open_regular(Path::new(path)).ok()?;
    let is_long = |file: &File| {
        !plan_ledger::mutant!(FileOfAnyLengthHashed)
            && file.metadata().is_ok_and(|it| it.len() > HASHED_LENGTH_MAX)
    };
    if is_long(&file) {
        return None;
    }
    let hash = bytes_hash(&mut (&file).take(HASHED_LENGTH_MAX)).ok()?;
    (!is_long(&file)).then_some(hash)
}

/// Add the hashes that a worker left out of its artifacts, and report artifacts that are wrong.
pub(crate) fn examine(artifacts: &mut [Artifact], changes: &[String]) -> Vec<String> {
    let mut notes = Vec::new();
    for artifact in artifacts {
        let (state, hash) = look(&artifact.path);
        match hash {
            Some(hash) if artifact.hash.is_empty() => artifact.hash = hash.to_string(),
            Some(hash)
                if ContentHash::parse(&artifact.hash).is_some_and(|reported| reported != hash) =>
            {
                notes.push(format!("the artifact {} has a different hash: {hash}", artifact.path));
            }
            None if state == FileState::Long => {
                notes.push(format!("the artifact {} is too long to be hashed", artifact.path));
            }
            None if state == FileState::Absent => {
                notes.push(format!("the artifact {} does not exist", artifact.path));
            }
            _ => {}
        }
        if !changes.is_empty() && !is_within(&artifact.path, changes) {
            notes.push(format!("the artifact {} is outside the step's changes", artifact.path));
        }
    }
    notes
}

/// Whether a path equals one of the entries, is below one, or matches a pattern.
pub(crate) fn is_within(path: &str, changes: &[String]) -> bool {
    let path = names(path);
    changes.iter().any(|entry| matches(&names(entry), &path))
}

/// The components of a path, relative to the working folder if it is inside.
fn names(path: &str) -> Vec<String> {
    let own = std::env::current_dir().unwrap_or_default();
    let path = Path::new(path);
    let path = path.strip_prefix(&own).unwrap_or(path);
    let mut names: Vec<String> = Vec::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if names.last().is_some_and(|name| name != "..") => {
                names.pop();
            }
            other => names.push(other.as_os_str().to_string_lossy().into_owned()),
        }
    }
    names
}

/// Whether a path matches an entry, or is below it.
fn matches(entry: &[String], path: &[String]) -> bool {
    let all_below = ["**".to_owned()];
    let entry: Vec<&String> = entry.iter().chain(&all_below).collect();
    let is_like = |pattern: &&String, name: &String| {
        is_met(pattern.as_bytes(), name.as_bytes(), |byte| *byte == b'*', |one, other| one == other)
    };
    is_met(&entry, path, |pattern| *pattern == "**", is_like)
}

/// Whether a pattern matches a whole text; wildcard pieces match any number of items. The matcher
/// tracks all reachable positions at once, so its time is bounded for every pattern.
fn is_met<P, T>(
    pattern: &[P],
    text: &[T],
    is_any: impl Fn(&P) -> bool,
    is_same: impl Fn(&P, &T) -> bool,
) -> bool {
    let reach = |places: &mut BTreeSet<usize>| {
        for (place, piece) in pattern.iter().enumerate() {
            if places.contains(&place) && is_any(piece) {
                places.insert(place + 1);
            }
        }
    };
    let mut places = BTreeSet::from([0]);
    reach(&mut places);
    for each in text {
        let mut next = BTreeSet::new();
        for place in places {
            let Some(piece) = pattern.get(place) else { continue };
            if is_any(piece) {
                next.insert(place);
            } else if is_same(piece, each) {
                next.insert(place + 1);
            }
        }
        reach(&mut next);
        places = next;
    }
    places.contains(&pattern.len())
}

/// Open a file that a worker may have created. Only a regular file is accepted: opening a named
/// pipe blocks until a writer appears, and reading a device may never end.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let at_once = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(at_once).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
    }
}

#[cfg(test)]
mod tests {
    //! Goal: paths inside a step's changes are distinguished from paths outside.

    use super::*;
    use plan_ledger::{Plan, Step};

    #[test]
    fn entries_are_files_folders_or_patterns() {
        let own = std::env::current_dir().unwrap();
        let absolute = own.join("src/a.rs").to_string_lossy().into_owned();
        for (entry, path, expected) in [
            ("src/a.rs", "src/a.rs", true),
            ("src/a.rs", "./src/x/../a.rs", true),
            ("src/a.rs", absolute.as_str(), true),
            ("src/a.rs", "src/a.rs.bak", false),
            ("src/a.rs", "a.rs", false),
            ("src/", "src/deep/er.rs", true),
            ("src", "source", false),
            ("src/*.rs", "src/b.rs", true),
            ("src/*.rs", "src/deep/b.rs", false),
            ("src/**/*.rs", "src/b.rs", true),
            ("src/**/*.rs", "src/deep/er/b.rs", true),
            ("**/b.rs", "x/b.rs", true),
            ("src/a.rs", "../src/a.rs", false),
            (".", "anything", true),
        ] {
            assert_eq!(is_within(path, &[entry.to_owned()]), expected, "{entry} {path}");
        }
    }

    #[test]
    fn artifacts_get_hashes_and_notes() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        fs::write(path("a"), "text").unwrap();
        let wrong = "0".repeat(64);
        let mut artifacts = vec![
            Artifact { path: path("a"), hash: String::new() },
            Artifact { path: path("a"), hash: wrong.clone() },
            Artifact { path: path("b"), hash: "sha1:77".to_owned() },
        ];
        let notes = examine(&mut artifacts, &[path("a")]);
        let hash = bytes_hash(&mut &b"text"[..]).unwrap().to_string();
        assert_eq!(artifacts[0].hash, hash);
        assert_eq!(artifacts[1].hash, wrong, "a reported hash is kept");
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes[0].contains("different hash"), "{notes:?}");
        assert!(notes[1].contains("does not exist"), "{notes:?}");
        assert!(notes[2].contains("outside"), "{notes:?}");
        assert_eq!(examine(&mut artifacts[..1], &[]), Vec::<String>::new());
    }

    #[test]
    fn unreadable_file_is_not_reported_as_absent() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        fs::write(path("a"), "text").unwrap();
        std::os::unix::fs::symlink(path("b"), path("b")).unwrap();
        assert_eq!(look(&path("none")).0, FileState::Absent);
        assert_eq!(look(&path("a/b")).0, FileState::Absent, "a file has nothing below it");
        assert_eq!(look(&path("b")).0, FileState::Other, "a link to itself");
    }

    #[test]
    fn file_changed_since_planning_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        for name in ["same", "other", "gone"] {
            fs::write(path(name), "before").unwrap();
        }
        let names = ["same", "other", "gone", "new", "never"].map(path);
        let step = Step { changes: names.to_vec().into(), ..Default::default() };
        let plan = Plan { steps: vec![step], ..Plan::default() };
        let planned = planned_files(1, &plan.into()).unwrap();
        fs::write(path("other"), "after").unwrap();
        fs::write(path("new"), "after").unwrap();
        fs::remove_file(path("gone")).unwrap();
        let before: Vec<PlannedFile> = planned
            .files
            .iter()
            .map(|(path, hash)| PlannedFile { path: path.clone(), hash: *hash })
            .collect();
        let files = changed_files(&names, &before);
        let changed: Vec<_> = files.iter().map(|file| file.changed.unwrap()).collect();
        assert_eq!(changed, [false, true, true, true, false]);
        let unknown = changed_files(&names, &[]);
        assert!(unknown.iter().all(|file| file.changed.is_none()));
    }
}
