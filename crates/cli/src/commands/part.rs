//! Files that have their name only when all of them is there.
//!
//! Invariant: whatever ends the work before removes what there is; what a killed process leaves has
//! another name.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use plan_ledger::error::Error;

use super::exit::Failure;

/// A file that does not have its name yet; it goes if it never gets one.
#[derive(Debug)]
pub(super) struct Part {
    path: PathBuf,
}

impl Part {
    /// One beside the name that it is to get, which nobody has yet.
    pub(super) fn beside(path: &Path) -> Result<Self, Failure> {
        expect_free(path)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        Ok(Self { path: path.with_file_name(name) })
    }

    /// Where it is until then.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Make it durable and give it its name.
    pub(super) fn name(&self, path: &Path) -> Result<(), Error> {
        let cannot = |error| Error::io("write the file", path, error);
        File::open(&self.path).and_then(|file| file.sync_all()).map_err(cannot)?;
        // A link never takes the place of what somebody made meanwhile; not every file system has
        // links.
        match std::fs::hard_link(&self.path, path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                std::fs::rename(&self.path, path).map_err(cannot)?;
            }
            linked => linked.map_err(cannot)?,
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(cannot)
    }
}

/// Whether a file that is to be made would take the place of something.
///
/// # Errors
/// `Usage` if there is anything.
pub(super) fn expect_free(path: &Path) -> Result<(), Failure> {
    if path.symlink_metadata().is_ok() {
        let there = path.display();
        let message = format!("{there} is there already: choose another name, or remove it");
        return Err(Failure::Usage(message));
    }
    Ok(())
}

impl Drop for Part {
    fn drop(&mut self) {
        // Half a file is of no use. One that has its name is not here any more.
        let _ = std::fs::remove_file(&self.path);
    }
}
