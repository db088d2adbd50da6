//! The ledger that a command uses when the command line names none.
//!
//! The rule is the same for every command: `--ledger DIR` (or the argument DIR), else `LEDGER_DIR`,
//! else the first `.ledger` in the working folder or above it, else the one in the main worktree of
//! the git repository, else `.ledger` in the working folder. The command finds the main worktree
//! from git's own files, without running git. A lost ledger that this user wrote to counts like an
//! existing one, up to the top of the git checkout, and in the main worktree: the command reports
//! that it is gone.
//!
//! Invariant: a ledger of another user is only used if it is named. In a shared folder such as
//! `/tmp`, any user can create one above a folder of this user.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use plan_ledger::internals::storage::{DiskStorage, FolderAccess, Storage as _};

use crate::protocol::OWN_LEDGER;
use crate::server::is_gone;

/// The first `.ledger` in the working folder, above it, or in the main worktree; else `.ledger`.
pub(crate) fn default_ledger() -> PathBuf {
    // The parser of each command asks for it.
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    let find = || {
        let here = Path::new(OWN_LEDGER);
        if here.is_dir() {
            return here.to_owned();
        }
        let working_dir = std::env::current_dir().ok();
        let gone = working_dir.as_deref().and_then(gone_ledger_of);
        let found = gone.or_else(|| working_dir.as_deref().and_then(ledger_of));
        let is_elsewhere = |found: &PathBuf| found.parent() != working_dir.as_deref();
        found.filter(is_elsewhere).unwrap_or_else(|| here.to_owned())
    };
    FOUND.get_or_init(find).clone()
}

/// A ledger that a command line names. Commands name no `.ledger` in what they print, so where `LEDGER_DIR` names another
/// one, the folder is named as a path.
pub(crate) fn named(ledger: PathBuf) -> PathBuf {
    let own = Path::new(OWN_LEDGER);
    let is_other = |dir: std::ffi::OsString| !dir.is_empty() && Path::new(&dir) != own;
    if ledger == own && std::env::var_os("LEDGER_DIR").is_some_and(is_other) {
        return Path::new(".").join(own);
    }
    ledger
}

/// The lost ledger that a command in this folder would use: the nearest one, or that of the main
/// worktree.
pub(crate) fn gone_ledger_of(folder: &Path) -> Option<PathBuf> {
    let of_main = || {
        let ledger = main_worktree(folder)?.join(OWN_LEDGER);
        (ledger_of(folder).is_none() && is_gone(&ledger)).then_some(ledger)
    };
    gone_ledger(folder).or_else(of_main)
}

/// The nearest ledger in this folder and the folders above it in the same checkout, if it is lost.
fn gone_ledger(folder: &Path) -> Option<PathBuf> {
    let top = folder.ancestors().find(|above| above.join(".git").exists()).unwrap_or(folder);
    let within = folder.ancestors().take_while(|above| above.starts_with(top));
    let mut candidates = within.map(|above| above.join(OWN_LEDGER));
    candidates.find(|candidate| candidate.is_dir() || is_gone(candidate)).filter(|it| is_gone(it))
}

/// The ledger of a folder: the nearest one in it or above it, else the one in the main worktree;
/// `None` without one.
pub(crate) fn ledger_of(folder: &Path) -> Option<PathBuf> {
    nearest_ledger(folder).or_else(|| ledger_of_main_worktree(folder))
}

/// The nearest ledger in this folder and those above it.
fn nearest_ledger(folder: &Path) -> Option<PathBuf> {
    let mut candidates = folder.ancestors().map(|above| above.join(OWN_LEDGER));
    candidates.find(|candidate| candidate.is_dir()).filter(|ledger| is_own(ledger))
}

/// The ledger in the main worktree of the repository, for a folder in another worktree.
fn ledger_of_main_worktree(folder: &Path) -> Option<PathBuf> {
    let ledger = main_worktree(folder)?.join(OWN_LEDGER);
    (ledger.is_dir() && is_own(&ledger)).then_some(ledger)
}

/// Whether a ledger is this user's, or shared with a group of this user.
fn is_own(ledger: &Path) -> bool {
    use FolderAccess::{Group, Own};
    matches!(DiskStorage.folder_access(ledger), Ok(Own | Group))
        || plan_ledger::mutant!(LedgerOfAnotherUserFound)
}

/// The main worktree of the repository that has this folder in another worktree.
fn main_worktree(folder: &Path) -> Option<PathBuf> {
    // In a linked worktree, `.git` is a file that names a folder in the repository. In the main
    // worktree, it is the repository itself.
    let worktree = folder.ancestors().find(|above| above.join(".git").exists())?;
    let git_dir = named_path(&worktree.join(".git"), "gitdir: ")?;
    let common_dir = named_path(&git_dir.join("commondir"), "")?.canonicalize().ok()?;
    // A bare repository has no main worktree.
    if common_dir.file_name()? == ".git" { common_dir.parent().map(Path::to_owned) } else { None }
}

/// The path in a file of git, after a prefix. It may be relative to the file's folder.
fn named_path(file: &Path, prefix: &str) -> Option<PathBuf> {
    let mut text = String::new();
    let opened =
        File::open(file).ok().filter(|file| file.metadata().is_ok_and(|it| it.is_file()))?;
    opened.take(PATH_LENGTH_MAX).read_to_string(&mut text).ok()?;
    let path = text.lines().next()?.strip_prefix(prefix)?;
    Some(file.parent()?.join(path))
}

/// The largest number of bytes that are read of a file with a path.
const PATH_LENGTH_MAX: u64 = 8192;

#[cfg(test)]
mod tests {
    //! Goal: the nearest ledger above a folder is found, and the one of the main worktree.

    use super::*;

    #[test]
    fn nearest_ledger_above_is_found() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b/c");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir(root.path().join(OWN_LEDGER)).unwrap();
        assert_eq!(nearest_ledger(&deep), Some(root.path().join(OWN_LEDGER)));
        std::fs::create_dir(root.path().join("a").join(OWN_LEDGER)).unwrap();
        assert_eq!(nearest_ledger(&deep), Some(root.path().join("a").join(OWN_LEDGER)));
    }

    /// The files of a repository with one linked worktree, as git writes them.
    fn linked_worktree(root: &Path, git_dir: &str, common_dir: &str) {
        std::fs::create_dir_all(root.join("main/.git/worktrees/w")).unwrap();
        std::fs::create_dir_all(root.join("w/deep")).unwrap();
        std::fs::write(root.join("w/.git"), format!("gitdir: {git_dir}\n")).unwrap();
        let common = root.join("main/.git/worktrees/w/commondir");
        std::fs::write(common, format!("{common_dir}\n")).unwrap();
    }

    #[test]
    fn ledger_of_main_worktree_is_found_from_another_worktree() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let absolute = root.join("main/.git/worktrees/w");
        for git_dir in [absolute.to_str().unwrap(), "../main/.git/worktrees/w"] {
            linked_worktree(&root, git_dir, "../..");
            assert_eq!(main_worktree(&root.join("w/deep")), Some(root.join("main")), "{git_dir}");
        }
        assert_eq!(ledger_of_main_worktree(&root.join("w")), None);
        std::fs::create_dir(root.join("main").join(OWN_LEDGER)).unwrap();
        let found = ledger_of_main_worktree(&root.join("w/deep"));
        assert_eq!(found, Some(root.join("main").join(OWN_LEDGER)));
    }

    #[test]
    fn repositories_without_linked_worktree_name_no_main_worktree() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(main_worktree(root), None);
        // The main worktree itself, a submodule, and a repository without worktree.
        std::fs::create_dir_all(root.join("main/.git")).unwrap();
        assert_eq!(main_worktree(&root.join("main")), None);
        std::fs::create_dir_all(root.join("main/.git/modules/m")).unwrap();
        std::fs::create_dir(root.join("main/m")).unwrap();
        std::fs::write(root.join("main/m/.git"), "gitdir: ../.git/modules/m\n").unwrap();
        assert_eq!(main_worktree(&root.join("main/m")), None);
        std::fs::create_dir_all(root.join("bare.git/worktrees/w")).unwrap();
        std::fs::create_dir(root.join("w")).unwrap();
        std::fs::write(root.join("w/.git"), "gitdir: ../bare.git/worktrees/w\n").unwrap();
        std::fs::write(root.join("bare.git/worktrees/w/commondir"), "../..\n").unwrap();
        assert_eq!(main_worktree(&root.join("w")), None);
        std::fs::write(root.join("w/.git"), "nonsense").unwrap();
        assert_eq!(main_worktree(&root.join("w")), None);
    }
}
