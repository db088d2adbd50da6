//! Counts the holds of each session in a ledger, with their reasons: the lines of a file below
//! `work/holds`.
//!
//! Invariants:
//! - A hold is counted before it is answered. A session is not held if its count cannot be written.
//! - The folder has at most [`SESSIONS_MAX`] files of at most [`FILE_LENGTH_MAX`] bytes. Without a
//!   file, a session counts from zero; with a full file, it is not held.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::time::SystemTime;

use crate::runner::{OwnFolder, create_own_folder};

/// How often a session is held for the same.
const HOLDS_MAX: usize = 2;

/// For how many sessions a ledger keeps a count.
const SESSIONS_MAX: usize = 128;

/// The longest file of a session.
const FILE_LENGTH_MAX: u64 = 4096;

/// Counts a hold of a session at a stop, or at the completion of a task; `false` if it was held for that often
/// enough, or if the count cannot be written.
pub(super) fn count_hold(ledger: &Path, session: &str, task: Option<&str>) -> bool {
    plan_ledger::mutant!(SessionHeldWithoutEnd => return true);
    let folder = ledger.join("work").join("holds");
    let is_held = add_line(&folder, session, &line_of(task)).is_ok_and(|count| count <= HOLDS_MAX);
    forget_oldest(&folder);
    is_held
}

/// Adds a line to the file of a session, unless it has the line often enough or is full. Returns how often it has
/// the line now; one more if it was not added.
fn add_line(folder: &Path, session: &str, line: &str) -> io::Result<usize> {
    create_own_folder(folder).map_err(io::Error::other)?;
    let folder = OwnFolder::open(folder)?;
    let mut file = folder.append(session)?;
    let lines_until = |end: u64| -> io::Result<usize> {
        let mut text = String::new();
        folder.read(session)?.take(end).read_to_string(&mut text)?;
        Ok(text.lines().filter(|known| *known == line).count())
    };
    let length = file.metadata()?.len();
    if length >= FILE_LENGTH_MAX || lines_until(length)? >= HOLDS_MAX {
        return Ok(HOLDS_MAX.saturating_add(1));
    }
    // If two hooks run at once, each counts up to the end of its own line.
    file.write_all(format!("{line}\n").as_bytes())?;
    let end = file.stream_position()?;
    lines_until(end)
}

/// The line of a hold at a stop, or for a task.
fn line_of(task: Option<&str>) -> String {
    let Some(task) = task else { return "stop".to_owned() };
    let mut hasher = DefaultHasher::new();
    task.hash(&mut hasher);
    format!("task {:016x}", hasher.finish())
}

/// Removes the oldest counts if there are too many.
fn forget_oldest(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut files: Vec<_> = entries
        .flatten()
        .map(|entry| {
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            (changed.unwrap_or(SystemTime::UNIX_EPOCH), entry.path())
        })
        .collect();
    files.sort();
    let excess = files.len().saturating_sub(SESSIONS_MAX);
    for (_, path) in files.into_iter().take(excess) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a session is held at most twice at its stops and twice for each task, and the counts of many
    //! sessions stay few.

    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn counts_are_bounded_and_private() {
        let ledger = tempfile::tempdir().unwrap();
        let counts = |task: Option<&str>| -> Vec<bool> {
            (0..5).map(|_| count_hold(ledger.path(), "codex-1", task)).collect()
        };
        for task in [None, Some("one"), Some("two")] {
            assert_eq!(counts(task), [true, true, false, false, false]);
        }
        let tasks = (0..1000).map(|task| format!("task {task}"));
        let held = tasks.filter(|task| count_hold(ledger.path(), "codex-2", Some(task))).count();
        assert!((100..500).contains(&held), "{held}");
        assert!(!count_hold(ledger.path(), "codex-2", None));
        for session in 0..SESSIONS_MAX + 40 {
            assert!(count_hold(ledger.path(), &format!("codex-x{session}"), None));
        }
        let folder = ledger.path().join("work/holds");
        let files: Vec<_> = fs::read_dir(folder).unwrap().flatten().collect();
        assert_eq!(files.len(), SESSIONS_MAX);
        for file in files {
            let found = file.metadata().unwrap();
            assert_eq!(found.mode() & 0o777, 0o600);
            assert!(found.len() < FILE_LENGTH_MAX + 32);
        }
    }

    #[test]
    fn count_that_cannot_be_written_holds_nothing() {
        let ledger = tempfile::tempdir().unwrap();
        fs::write(ledger.path().join("work"), "in the way").unwrap();
        assert!(!count_hold(ledger.path(), "codex-1", None));
    }
}
