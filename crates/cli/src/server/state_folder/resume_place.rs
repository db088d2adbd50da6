//! The folder in which a run is resumed: the working folder of its last runner, or the
//! corresponding one after the ledger was moved or copied.
//!
//! The corresponding folder has the same place relative to the folder with the ledger, since both
//! are moved or copied together.
//!
//! Invariant: a ledger that was moved or copied with its working folder never has workers in the old one.

use std::path::{Path, PathBuf};

use crate::protocol::{Failure, sh_word};
use crate::requests::request_command;

use super::last_runner::{LastRunner, RunnerStatus, id_of_folder};

/// The words after `ledger resume` that start the last runner of a run again; `None` if it is not known, or cannot be
/// started where the ledger is now. Where it may still be at work, that command asks.
pub(crate) fn resume_words(status: &RunnerStatus, run: &str, dir: &Path) -> Option<Vec<String>> {
    let last = status.last()?;
    let options = resume_options(last.of_run(run)?, dir)?;
    let run = last.has_several().then(|| run.to_owned());
    Some(run.into_iter().chain(options).collect())
}

/// The options with which `ledger resume` starts a runner with the ledger in a folder: a person confirms that the ledger
/// was moved or copied there. `None` if it cannot be started there.
pub(crate) fn resume_options(last: &LastRunner, dir: &Path) -> Option<Vec<String>> {
    let found = dir.canonicalize().ok()?;
    if last.ledger == found {
        return Some(Vec::new());
    }
    let place = ResumePlace::of(last, &id_of_folder(&found)?, &found).ok()?;
    Some(place.doubt.iter().map(|_| "--yes".to_owned()).collect())
}

/// The folder in which a run is resumed.
#[derive(Debug)]
pub(crate) struct ResumePlace {
    /// The working folder.
    pub(crate) folder: PathBuf,
    /// Why a person confirms it, if one has to.
    pub(crate) doubt: Option<String>,
}

impl ResumePlace {
    /// The place for the last runner of a ledger that is now in the folder `found`, which is absolute.
    pub(crate) fn of(last: &LastRunner, id: &str, found: &Path) -> Result<Self, Failure> {
        let old = &last.working_dir;
        if last.ledger == found {
            return Ok(Self { folder: old.clone(), doubt: None });
        }
        let there = last.ledger.display();
        let is_copy = last.is_of_copy(id, found);
        let parents = last.ledger.parent().zip(found.parent());
        let folder = match parents.map(|(from, to)| corresponding(old, from, to)) {
            Some(Moved::With(folder)) => folder,
            // The working folder is not near the ledger, and stayed where it was.
            Some(Moved::Apart) if !is_copy => old.clone(),
            _ => {
                return Err(Failure::Rejected(format!(
                    "the last runner worked in {} with the ledger at {there}, and this ledger is a copy of that one\n\
                     hint: resume that one; to continue with the copy, start a runner with `{}` in a working \
                     folder of its own",
                    old.display(),
                    runner_of(last)
                )));
            }
        };
        plan_ledger::mutant!(ResumedInOldFolder => return Ok(Self { folder: old.clone(), doubt: None }));
        if is_copy && folder == *old {
            return Err(Failure::Rejected(format!(
                "this ledger is a copy of {there}, and the working folder {} belongs to that one\n\
                 hint: resume that one, or copy the working folder, too",
                old.display()
            )));
        }
        if !folder.is_dir() {
            return Err(Failure::Rejected(format!(
                "the ledger was at {there}, and the last runner worked in {}; there is no folder {}\n\
                 hint: move the working folder to the same place beside the ledger, or start a runner \
                 with `{}`",
                old.display(),
                folder.display(),
                runner_of(last)
            )));
        }
        if let Some(file) = left_behind(&last.arguments, old, &folder) {
            return Err(Failure::Rejected(format!(
                "the ledger was at {there}, and the last runner worked in {}, where {file} is; there is none \
                 in {}\nhint: move or copy the working folder, too, or start a runner there with `{}`",
                old.display(),
                folder.display(),
                runner_of(last)
            )));
        }
        let is_parent_there = last.ledger.parent().is_some_and(Path::exists);
        let doubt = if is_copy {
            Some(format!("this ledger is a copy of {there}, which still exists"))
        } else {
            is_parent_there
                .then(|| format!("the ledger was at {there} when the last runner started"))
        };
        Ok(Self { folder, doubt })
    }
}

impl ResumePlace {
    /// The arguments of the last runner, with each path in its working folder replaced by the path
    /// in this place.
    pub(crate) fn relocated(&self, last: &LastRunner) -> Result<Vec<String>, Failure> {
        let (from, to) = (last.working_dir.to_str(), self.folder.to_str());
        let Some((from, to)) = from.zip(to).filter(|(from, to)| from != to && *from != "/") else {
            return Ok(last.arguments.clone());
        };
        let moved = last.arguments.iter().map(|word| {
            moved_word(word, from, to).ok_or_else(|| {
                Failure::Rejected(format!(
                    "the command line of the last runner names a path in {from}, and the new folder {to} has \
                     characters with a special meaning in a shell: {word}\n\
                     hint: start a runner there with `{}`",
                    runner_of(last)
                ))
            })
        });
        moved.collect()
    }
}

/// The command that starts a runner of the same run. Without the name of the run, it would name this command again.
fn runner_of(last: &LastRunner) -> String {
    request_command("run", &[&last.run])
}

/// A file that the command line names and that is in the old working folder only: the ledger was moved or
/// copied without it.
fn left_behind<'a>(arguments: &'a [String], old: &Path, folder: &Path) -> Option<&'a String> {
    let is_in = |folder: &Path, word: &str| folder.join(word).is_file();
    arguments.iter().find(|word| {
        let path = Path::new(word.as_str());
        let below = if path.is_relative() { Some(path) } else { path.strip_prefix(old).ok() };
        let below = below.and_then(Path::to_str);
        below.is_some_and(|below| folder != old && is_in(old, below) && !is_in(folder, below))
    })
}

/// A word with each path in the folder `from` as the same path in the folder `to`. `None` if a shell would read the
/// new path as something else.
fn moved_word(word: &str, from: &str, to: &str) -> Option<String> {
    let is_end = |c: char| c == '/' || !(c.is_alphanumeric() || "._-+~".contains(c));
    let is_start = |c: char| !(c.is_alphanumeric() || "/._-+~".contains(c));
    let (mut moved, mut rest, mut before) = (String::new(), word, None);
    while let Some((kept, after)) = rest.split_once(from) {
        before = kept.chars().next_back().or(before);
        moved.push_str(kept);
        if before.is_none_or(is_start) && after.chars().next().is_none_or(is_end) {
            // The whole word is a path; in a command, a shell splits it.
            let is_command = word.contains(char::is_whitespace);
            if is_command && sh_word(to) != to {
                return None;
            }
            moved.push_str(to);
        } else {
            moved.push_str(from);
        }
        (rest, before) = (after, from.chars().next_back());
    }
    moved.push_str(rest);
    Some(moved)
}

/// The move or copy of a working folder with its ledger.
enum Moved {
    /// It is here now.
    With(PathBuf),
    /// It is not near the ledger.
    Apart,
    /// It does not correspond to a folder near the new place.
    Unknown,
}

/// The working folder that corresponds to `working`, for a ledger in the folder `from` that is now in `to`.
fn corresponding(working: &Path, from: &Path, to: &Path) -> Moved {
    if let Ok(below) = working.strip_prefix(from) {
        return Moved::With(if below.as_os_str().is_empty() {
            to.to_owned()
        } else {
            to.join(below)
        });
    }
    let Ok(below) = from.strip_prefix(working) else { return Moved::Apart };
    if to.starts_with(working) {
        // The ledger was moved within the working folder.
        return Moved::Apart;
    }
    let mut folder = to;
    for name in below.components().rev() {
        match (folder.file_name(), folder.parent()) {
            (Some(own), Some(parent)) if own == name.as_os_str() => folder = parent,
            _ => return Moved::Unknown,
        }
    }
    Moved::With(folder.to_owned())
}

#[cfg(test)]
mod tests {
    //! Goal: only the folder that corresponds to the working folder is found.

    use super::*;

    #[test]
    fn working_folder_moves_with_the_ledger() {
        let folder = |working: &str, from: &str, to: &str| match corresponding(
            Path::new(working),
            Path::new(from),
            Path::new(to),
        ) {
            Moved::With(folder) => folder.to_str().unwrap().to_owned(),
            Moved::Apart => "apart".to_owned(),
            Moved::Unknown => "unknown".to_owned(),
        };
        assert_eq!(folder("/a", "/a", "/b"), "/b");
        assert_eq!(folder("/a/x/y", "/a", "/b/c"), "/b/c/x/y");
        assert_eq!(folder("/a", "/a/state", "/b/state"), "/b");
        assert_eq!(folder("/a", "/a/state", "/b"), "unknown");
        assert_eq!(folder("/a", "/a/x", "/a/y"), "apart");
        assert_eq!(folder("/w", "/ledgers", "/other"), "apart");
    }

    #[test]
    fn paths_in_a_command_line_move_with_the_folder() {
        let moved = |word: &str| moved_word(word, "/a/old", "/b/new");
        for (word, expected) in [
            ("/a/old/plan.yaml", "/b/new/plan.yaml"),
            ("/a/old", "/b/new"),
            ("--worker=/a/old/w.sh", "--worker=/b/new/w.sh"),
            (
                "sh '/a/old/w.sh' /a/old/x /a/older/y /x/a/old/z",
                "sh '/b/new/w.sh' /b/new/x /a/older/y /x/a/old/z",
            ),
            ("PATH=/bin:/a/old w", "PATH=/bin:/b/new w"),
            ("plan.yaml", "plan.yaml"),
        ] {
            assert_eq!(moved(word).as_deref(), Some(expected));
        }
        let spaced = |word: &str| moved_word(word, "/a/old", "/b/new one");
        assert_eq!(spaced("/a/old/plan.yaml").as_deref(), Some("/b/new one/plan.yaml"));
        assert_eq!(spaced("sh /a/old/w.sh"), None);
    }
}
