//! The ledger that a command uses when the command line names none.
//!
//! The rule is the same for every command: `--ledger DIR` (or the argument DIR), else `LEDGER_DIR`,
//! else the first `.ledger` in the working folder or above it, else `.ledger` in the working folder.

use std::path::{Path, PathBuf};

/// The name of a ledger's folder.
pub(crate) const LEDGER_NAME: &str = ".ledger";

/// The first `.ledger` in the working folder or above it; `.ledger` if there is none.
pub(crate) fn default_ledger() -> PathBuf {
    let here = Path::new(LEDGER_NAME);
    if here.is_dir() {
        return here.to_owned();
    }
    let above = std::env::current_dir().ok().and_then(|working_dir| ledger_above(&working_dir));
    above.unwrap_or_else(|| here.to_owned())
}

/// The nearest ledger in the folders above this one.
fn ledger_above(folder: &Path) -> Option<PathBuf> {
    let mut candidates = folder.ancestors().skip(1).map(|above| above.join(LEDGER_NAME));
    candidates.find(|candidate| candidate.is_dir())
}

#[cfg(test)]
mod tests {
    //! Goal: the nearest ledger above a folder is found.

    use super::*;

    #[test]
    fn nearest_ledger_above_is_found() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b/c");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir(root.path().join(LEDGER_NAME)).unwrap();
        assert_eq!(ledger_above(&deep), Some(root.path().join(LEDGER_NAME)));
        std::fs::create_dir(root.path().join("a").join(LEDGER_NAME)).unwrap();
        assert_eq!(ledger_above(&deep), Some(root.path().join("a").join(LEDGER_NAME)));
    }
}
