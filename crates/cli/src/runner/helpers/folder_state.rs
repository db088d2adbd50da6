//! The files of the working folder, to notice which ones a planner or a worker changed: a planner only
//! plans, and a step has a list of the files that it may change.
//!
//! Invariants:
//! - It compares sizes and times, and reads no content.
//! - Folders that tools write by themselves, such as `.git`, and the ledger are left out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::protocol::hand_off::files::is_within;

/// The maximum number of files that are compared, so that a large folder costs little time.
const FILES_MAX: usize = 20_000;

/// The maximum number of files in a note.
const NAMED_MAX: usize = 5;

/// Folders that are left out.
const IGNORED: [&str; 5] = [".git", ".ledger", "target", "node_modules", "__pycache__"];

/// Size and time of each file.
#[derive(Debug, Default)]
pub(crate) struct FolderState {
    files: BTreeMap<PathBuf, (u64, Option<SystemTime>)>,
}

impl FolderState {
    /// The files of the working folder, without those of the ledger.
    pub(crate) fn of_working_folder(ledger: &Path) -> Self {
        std::env::current_dir().map_or_else(|_| Self::default(), |dir| Self::of(&dir, ledger))
    }

    fn of(root: &Path, ledger: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            let mut entries: Vec<PathBuf> = fs::read_dir(&folder)
                .into_iter()
                .flatten()
                .filter_map(|entry| Some(entry.ok()?.path()))
                .collect();
            entries.sort_unstable();
            for path in entries {
                let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
                let is_ignored =
                    path.file_name().is_some_and(|name| IGNORED.iter().any(|it| name == *it));
                if metadata.is_dir() && !is_ignored && path != ledger {
                    folders.push(path);
                } else if metadata.is_file() {
                    let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
                    files.insert(name, (metadata.len(), metadata.modified().ok()));
                }
                if files.len() >= FILES_MAX {
                    return Self { files };
                }
            }
        }
        Self { files }
    }

    /// The files that differ later, in order, except those that `is_allowed`.
    fn changed(&self, later: &Self, is_allowed: impl Fn(&str) -> bool) -> Vec<String> {
        let is_same = |(path, state): &(&PathBuf, _)| self.files.get(*path) == Some(*state);
        let new = later.files.iter().filter(|file| !is_same(file)).map(|(path, _)| path);
        let gone = self.files.keys().filter(|path| !later.files.contains_key(*path));
        let mut changed: Vec<String> =
            new.chain(gone).map(|path| path.display().to_string()).collect();
        changed.retain(|path| !is_allowed(path));
        changed.sort_unstable();
        changed
    }

    /// A note about the files that differ later, if there are any.
    pub(crate) fn changes(&self, later: &Self) -> Option<String> {
        let changed = named(self.changed(later, |_| false))?;
        Some(format!("changed files, although it only plans: {changed}"))
    }

    /// A note about the files outside of a step's list that differ later, if there are any.
    pub(crate) fn changes_outside(&self, later: &Self, list: &[String]) -> Option<String> {
        // A folder with too many files is not compared, because the files that were not read would seem new.
        if self.files.len() >= FILES_MAX || later.files.len() >= FILES_MAX {
            return None;
        }
        let changed = named(self.changed(later, |path| is_within(path, list)))?;
        Some(format!("changed files outside the step's `changes`: {changed}"))
    }
}

/// The first files of a list, and how many more there are; `None` for an empty list.
fn named(mut changed: Vec<String>) -> Option<String> {
    let more = changed.len().saturating_sub(NAMED_MAX);
    changed.truncate(NAMED_MAX);
    if more > 0 {
        changed.push(format!("{more} more"));
    }
    (!changed.is_empty()).then(|| changed.join(", "))
}

#[cfg(test)]
mod tests {
    //! Goal: exactly the changed files are noticed.

    use super::*;

    #[test]
    fn changed_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let state = || FolderState::of(folder.path(), &path("ledger"));
        for name in ["ledger", ".git", "src"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path("a"), "1").unwrap();
        fs::write(path("src/b"), "1").unwrap();
        let before = state();
        assert_eq!(before.changes(&state()), None);
        fs::write(path("ledger/x"), "1").unwrap();
        fs::write(path(".git/x"), "1").unwrap();
        assert_eq!(before.changes(&state()), None);
        fs::remove_file(path("a")).unwrap();
        fs::write(path("src/b"), "22").unwrap();
        fs::write(path("src/c"), "1").unwrap();
        let note = before.changes(&state()).unwrap();
        assert!(note.ends_with(": a, src/b, src/c"), "{note}");
        let list = ["src".to_owned()];
        let note = before.changes_outside(&state(), &list).unwrap();
        assert!(note.ends_with("`changes`: a"), "{note}");
        let list = ["a".to_owned(), "src/*".to_owned()];
        assert_eq!(before.changes_outside(&state(), &list), None);
    }
}
