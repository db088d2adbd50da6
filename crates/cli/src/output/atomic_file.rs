//! Files that appear under their name only when they are complete.
//!
//! The file is written beside its final name. If the work ends early, the file is removed. So that a signal does not
//! end the process between the two, signals are taken over first ([`LongTask`]). The file of a killed process remains under another name (`NAME.RANDOM.part`): its digits are random, so that
//! no other user can prepare or block it. An existing file is never replaced.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use plan_ledger::{Environment, Error};

use crate::protocol::Failure;
use crate::protocol::private_files;

use super::progress_bar::LongTask;

/// The file that an option names. `-` names standard output, as does no option.
pub(crate) fn output_file(option: Option<&PathBuf>) -> Option<&Path> {
    option.map(PathBuf::as_path).filter(|path| path.as_os_str() != "-")
}

/// A file that does not have its final name yet. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct AtomicFile {
    temporary: PathBuf,
}

impl AtomicFile {
    /// Reserves a temporary name beside `path`, which must not exist. `_signals` are taken over.
    pub(crate) fn beside(path: &Path, _signals: &LongTask) -> Result<Self, Failure> {
        expect_absent(path)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        let random = u128::from_le_bytes(Environment::system().ids.next_id());
        name.push(format!(".{random:032x}.part"));
        Ok(Self { temporary: path.with_file_name(name) })
    }

    /// Creates the file. Only this user can read it: it may have secrets of outputs.
    ///
    /// # Errors
    /// Of the file system.
    pub(crate) fn create(&self) -> std::io::Result<File> {
        private_files::create_new(&self.temporary)
    }

    /// The path of the new content.
    pub(crate) fn temporary_path(&self) -> &Path {
        &self.temporary
    }

    /// Makes the content durable and gives the file its final name.
    pub(crate) fn publish(&self, path: &Path) -> Result<(), Error> {
        let failed = |error| Error::io("write the file", path, error);
        File::open(&self.temporary).and_then(|file| file.sync_all()).map_err(failed)?;
        // A hard link never replaces a file that appeared meanwhile, but some file systems have no
        // links.
        match std::fs::hard_link(&self.temporary, path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                std::fs::rename(&self.temporary, path).map_err(failed)?;
            }
            linked => linked.map_err(failed)?,
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
    }
}

/// Checks that a new file would not replace anything.
///
/// # Errors
/// `Usage` if the path exists.
pub(crate) fn expect_absent(path: &Path) -> Result<(), Failure> {
    if path.symlink_metadata().is_ok() {
        let message =
            format!("{} already exists\nhint: choose another name, or remove it", path.display());
        return Err(Failure::Usage(message));
    }
    Ok(())
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        // After a rename or a failed create there is nothing to remove.
        let _ = std::fs::remove_file(&self.temporary);
    }
}
