//! How often each session was held in a ledger: the length of a file below `work/holds`.
//!
//! Invariants:
//! - A hold is counted before it is answered. A session whose count cannot be written is not held.
//! - The folder has at most [`SESSIONS_MAX`] files of a few bytes. Without one, a session counts from zero.

use std::fs;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::time::SystemTime;

use crate::runner::{OwnFolder, create_own_folder};

/// How often a session is held.
const HOLDS_MAX: u64 = 2;

/// For how many sessions a ledger keeps a count.
const SESSIONS_MAX: usize = 128;

/// Counts a hold of a session; `false` if it was held often enough, or if the count cannot be written.
pub(super) fn count_hold(ledger: &Path, session: &str) -> bool {
    plan_ledger::mutant!(SessionHeldWithoutEnd => return true);
    let folder = ledger.join("work").join("holds");
    let counted = || {
        create_own_folder(&folder).ok()?;
        let mut file = OwnFolder::open(&folder).ok()?.append(session).ok()?;
        if file.metadata().ok()?.len() >= HOLDS_MAX {
            return None;
        }
        // Of two hooks at once, each gets a position of its own.
        file.write_all(b".").ok()?;
        file.stream_position().ok()
    };
    let is_held = counted().is_some_and(|count| count <= HOLDS_MAX);
    forget_oldest(&folder);
    is_held
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
    //! Goal: a session is held at most twice, and the counts of many sessions stay few.

    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn counts_are_bounded_and_private() {
        let ledger = tempfile::tempdir().unwrap();
        let counts: Vec<bool> = (0..5).map(|_| count_hold(ledger.path(), "codex-1")).collect();
        assert_eq!(counts, [true, true, false, false, false]);
        for session in 0..SESSIONS_MAX + 40 {
            assert!(count_hold(ledger.path(), &format!("codex-x{session}")));
        }
        let folder = ledger.path().join("work/holds");
        let files: Vec<_> = fs::read_dir(folder).unwrap().flatten().collect();
        assert_eq!(files.len(), SESSIONS_MAX);
        for file in files {
            let found = file.metadata().unwrap();
            assert_eq!(found.mode() & 0o777, 0o600);
            assert!(found.len() <= HOLDS_MAX);
        }
    }

    #[test]
    fn count_that_cannot_be_written_holds_nothing() {
        let ledger = tempfile::tempdir().unwrap();
        fs::write(ledger.path().join("work"), "in the way").unwrap();
        assert!(!count_hold(ledger.path(), "codex-1"));
    }
}
