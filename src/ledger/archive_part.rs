//! The file of an archive before it has its name.
//!
//! Invariant: no file is removed or written over that somebody else made.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::storage::{Storage, StorageFile};

/// So many names are tried for the file of an archive that is being made.
const PARTS_MAX: u32 = 1000;

/// Make a file beside the archive, under a name that nobody has: what a process that was killed left
/// stays, and so does what somebody else called like that.
pub(super) fn create_beside(
    storage: &dyn Storage,
    to: &Path,
) -> Result<(PathBuf, Box<dyn StorageFile>)> {
    let mut number = 0;
    loop {
        let mut name = to.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}-{number}.part", storage.process()));
        let path = to.with_file_name(name);
        match storage.create(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if is_taken(&error) && number < PARTS_MAX => number += 1,
            Err(error) => return Err(Error::io("write the archive", &path, error)),
        }
    }
}

fn is_taken(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::AlreadyExists
}

/// Give it its name, durably.
pub(super) fn give_name(storage: &dyn Storage, temporary: &Path, to: &Path) -> Result<()> {
    storage
        .rename(temporary, to)
        .map_err(|error| Error::io("give the archive its name", to, error))?;
    let folder = to.parent().unwrap_or(Path::new(""));
    storage.sync_dir(folder).map_err(|error| Error::io("sync the folder", folder, error))
}
