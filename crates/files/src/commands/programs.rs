//! The programs of a machine that a criterion can start if it reads as a command.

use std::fs;
use std::path::{Path, PathBuf};

use super::text::first_word;

/// The search path for commands, and the tree in which they work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Programs {
    /// The folders of `PATH`.
    pub folders: Vec<PathBuf>,
    /// The working folder of commands.
    pub tree: PathBuf,
}

impl Programs {
    /// The programs of this process, in its current folder.
    #[must_use]
    pub fn of_process() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self { folders: std::env::split_paths(&path).collect(), tree: PathBuf::from(".") }
    }

    /// Whether the first word of a command is a program on the path, or a file in the tree.
    #[must_use]
    pub fn can_start(&self, command: &str) -> bool {
        let Some(word) = first_word(command) else { return false };
        // `cd DIR && COMMAND`: the shell itself does it.
        if word == "cd" {
            return true;
        }
        if word.contains('/') {
            return self.tree.join(word).is_file();
        }
        self.folders.iter().any(|folder| is_program(&folder.join(word)))
            || self.tree.join(word).is_file()
    }

    /// Whether a path of the plan is a file or a folder of the tree.
    pub(super) fn has_file(&self, path: &str) -> bool {
        self.tree.join(path).exists()
    }
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_on_the_path_or_in_the_tree() {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("check.sh"), "true").unwrap();
        let folders = vec![PathBuf::from("/bin"), PathBuf::from("/usr/bin")];
        let programs = Programs { folders, tree: tree.path().to_owned() };
        for command in ["sh -c true", "A=1 sh", "./check.sh --all", "check.sh", "cd web && sh"] {
            assert!(programs.can_start(command), "{command}");
        }
        for command in ["no-such-program x", "./missing.sh", "", "A=1"] {
            assert!(!programs.can_start(command), "{command}");
        }
    }
}
