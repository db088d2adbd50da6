//! The folder in which a judge checks the work of a claim.
//!
//! A claim names the folder of its process, so the folder is only a hint: commands run in the plan's folder, or
//! in a worktree that the plan's repository itself lists, and nowhere else.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The plan's folder or the worktree of its repository that contains the folder of a claim; the plan's folder if
/// the claim has none.
///
/// # Errors
/// Why the work is checked nowhere, for people.
pub(crate) fn check_folder(plan: &Path, claimed: Option<&str>) -> Result<PathBuf, String> {
    let Some(claimed) = claimed else { return Ok(plan.to_owned()) };
    let Ok(folder) = Path::new(claimed).canonicalize() else {
        return Err(format!("the folder of its claim is gone: {claimed}"));
    };
    plan_ledger::mutant!(CheckedInAnyFolder => return Ok(folder));
    let places = [plan.to_owned()].into_iter().chain(worktrees(plan));
    let places = places.filter_map(|place| place.canonicalize().ok());
    let containing = places.filter(|place| folder.starts_with(place));
    let nearest = containing.max_by_key(|place| place.components().count());
    nearest.ok_or_else(|| {
        format!(
            "its claim was made in {claimed}, which is neither in {} nor in a worktree that \
             `git worktree list` names there",
            plan.display()
        )
    })
}

/// The worktrees that the repository of a folder lists; none if it is in no repository.
fn worktrees(folder: &Path) -> Vec<PathBuf> {
    let mut git = Command::new("git");
    // With -z, a name of a folder may contain a line break.
    git.args(["worktree", "list", "--porcelain", "-z"]).current_dir(folder);
    git.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").env_remove("GIT_COMMON_DIR");
    let Some(listed) = git.output().ok().filter(|it| it.status.success()) else {
        return Vec::new();
    };
    let lines = listed.stdout.split(|byte| *byte == 0);
    let folders = lines.filter_map(|line| line.strip_prefix(b"worktree "));
    folders.map(|folder| PathBuf::from(OsStr::from_bytes(folder))).collect()
}
