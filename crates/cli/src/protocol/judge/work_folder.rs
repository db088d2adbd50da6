//! The folder in which a judge checks the work of a claim.
//!
//! A claim names the folder of its process, so the folder is only a hint. It only selects a
//! worktree of the repository with the plan's folder, and no folder inside a worktree: commands run
//! in the plan's folder, or in the same place of another worktree that the repository lists.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The plan's folder, or its place in the worktree of its repository that contains the folder of a claim; the
/// plan's folder if the claim has none.
///
/// # Errors
/// Why the work is checked nowhere, for people.
pub(crate) fn check_folder(plan: &Path, claimed: Option<&str>) -> Result<PathBuf, String> {
    let Some(claimed) = claimed else { return Ok(plan.to_owned()) };
    let Ok(folder) = Path::new(claimed).canonicalize() else {
        return Err(format!("the folder of its claim is gone: {claimed}"));
    };
    plan_ledger::mutant!(CheckedInAnyFolder => return Ok(folder));
    let Ok(plan) = plan.canonicalize() else {
        return Err(format!("the plan's folder is gone: {}", plan.display()));
    };
    if folder == plan {
        return Ok(plan);
    }
    let places = Worktrees::of(&plan);
    let top = places.as_ref().map_or(&plan, |it| &it.own);
    let others = places.iter().flat_map(|it| &it.others);
    let containing = [top].into_iter().chain(others).filter(|place| folder.starts_with(place));
    let nearest = containing.max_by_key(|place| place.components().count());
    let Some(nearest) = nearest else {
        return Err(format!(
            "its claim was made in {claimed}, which is neither in {} nor in a worktree that \
             `git worktree list` names there",
            top.display()
        ));
    };
    if nearest == top {
        return Ok(plan);
    }
    let there = nearest.join(plan.strip_prefix(top).unwrap_or(Path::new("")));
    // A link there must not lead out of the worktree.
    let real = there.canonicalize().ok().filter(|real| real.is_dir() && real.starts_with(nearest));
    real.ok_or_else(|| {
        let there = there.display();
        format!("its claim was made in {claimed}, and the plan's folder is missing there: {there}")
    })
}

/// The worktrees of a repository, without links in their paths.
struct Worktrees {
    /// The one with the plan's folder.
    own: PathBuf,
    others: Vec<PathBuf>,
}

impl Worktrees {
    /// Those of the repository of a folder; `None` if it is in no repository.
    fn of(folder: &Path) -> Option<Self> {
        let own = path_of(&git(folder, &["rev-parse", "--show-toplevel"])?).canonicalize().ok()?;
        let common = git(folder, &["rev-parse", "--git-common-dir"])?;
        let common = folder.join(path_of(&common)).canonicalize().ok()?;
        // With -z, a name of a folder may contain a line break.
        let listed = git(folder, &["worktree", "list", "--porcelain", "-z"]).unwrap_or_default();
        let paths = listed.split(|byte| *byte == 0);
        let paths = paths.filter_map(|line| line.strip_prefix(b"worktree "));
        let paths = paths.filter_map(|path| path_of(path).canonicalize().ok());
        let others = paths.filter(|tree| *tree != own && is_linked(tree, &common)).collect();
        Some(Self { own, others })
    }
}

/// Whether a folder and the repository name each other. Git lists the folders that the repository
/// names, even if they do not name the repository.
fn is_linked(tree: &Path, common: &Path) -> bool {
    let link = tree.join(".git");
    let Some(folder) = target(&link, tree) else { return false };
    folder == common
        || folder.parent() == Some(&common.join("worktrees"))
            && target(&folder.join("gitdir"), &folder).is_some_and(|it| it == link)
}

/// The folder or file that a file of a repository names; a folder names itself.
fn target(link: &Path, base: &Path) -> Option<PathBuf> {
    // A link of the file system is not a link of Git.
    let kind = fs::symlink_metadata(link).ok()?.file_type();
    if kind.is_dir() {
        return link.canonicalize().ok();
    }
    let text = fs::read(link).ok().filter(|_| kind.is_file())?;
    let path = text.strip_prefix(b"gitdir: ").unwrap_or(&text);
    base.join(path_of(path)).canonicalize().ok()
}

/// A path on a separate line.
fn path_of(line: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(line.strip_suffix(b"\n").unwrap_or(line)))
}

/// The output of Git in a folder.
fn git(folder: &Path, words: &[&str]) -> Option<Vec<u8>> {
    let mut git = Command::new("git");
    git.args(words).current_dir(folder);
    git.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").env_remove("GIT_COMMON_DIR");
    git.output().ok().filter(|it| it.status.success()).map(|it| it.stdout)
}
