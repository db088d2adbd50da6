//! One file before and after the setup.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use plan_ledger::Error;

use crate::output::Failure;

use super::own::Program;
use super::placement::{Content, Placement};
use super::target::Target;
use super::{json_file, toml_file};

/// Whether settings are added or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Add,
    Remove,
}

/// The content of a file before and after; `None` if the file does not exist.
#[derive(Debug)]
pub(super) struct FileEdit {
    pub(super) path: PathBuf,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

impl FileEdit {
    /// Reads the file of a placement and edits its text. Nothing is written.
    pub(super) fn of(
        placement: &Placement,
        program: &Program,
        direction: Direction,
    ) -> Result<Self, Failure> {
        let path = placement.path.clone();
        let before = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io("read the file", &path, error).into()),
        };
        let at = Target { path: &path, program };
        let after = match (placement.content, direction) {
            (_, Direction::Remove) if before.is_none() => None,
            (Content::Json(settings), Direction::Add) => {
                Some(json_file::with_settings(at, before.as_deref(), settings)?)
            }
            (Content::Json(settings), Direction::Remove) => {
                json_file::without_settings(at, before.as_deref().unwrap_or_default(), settings)?
            }
            (Content::Toml(settings), Direction::Add) => {
                Some(toml_file::with_settings(at, before.as_deref(), settings)?)
            }
            (Content::Toml(settings), Direction::Remove) => {
                toml_file::without_settings(at, before.as_deref().unwrap_or_default(), settings)?
            }
            (Content::Whole(text), direction) => whole(at, before.as_deref(), text, direction)?,
        };
        Ok(Self { path, before, after })
    }

    /// Writes the file if it changes. A process that is killed leaves the old file or the new one.
    pub(super) fn write(&self) -> Result<(), Failure> {
        if self.before == self.after {
            return Ok(());
        }
        let failed = |error| Error::io("write the file", &self.path, error);
        match &self.after {
            None => fs::remove_file(&self.path).map_err(failed)?,
            Some(text) => write(&self.path, text).map_err(failed)?,
        }
        Ok(())
    }
}

/// The text of a file that is ours as a whole.
fn whole(
    target: Target<'_>,
    before: Option<&str>,
    text: &str,
    direction: Direction,
) -> Result<Option<String>, Failure> {
    if before.is_some_and(|before| !Program::is_own_file(before)) {
        return Err(target.refused("the file exists, and `ledger setup` did not write it"));
    }
    Ok((direction == Direction::Add).then(|| target.program.put_into_text(text)))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    if !path.exists() {
        return fs::write(path, text);
    }
    // Settings may be linked from another folder: the link stays.
    let path = path.canonicalize()?;
    let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(fs::metadata(&path)?.permissions())?;
    file.persist(&path)?;
    Ok(())
}
