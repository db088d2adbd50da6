//! Files and folders that only their user can read: they have outputs, tokens and the ends of logs.
//!
//! Each file that the program writes for a user is created here, regardless of the umask: mode
//! 0600, and 0700 for folders.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The permissions of a file.
pub(crate) const FILE_MODE: u32 = 0o600;

/// The permissions of a folder.
pub(crate) const FOLDER_MODE: u32 = 0o700;

/// Creates a file that does not exist.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// Creates a file, or empties one that exists.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)
}

/// Opens a file to append to it, or creates it.
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(path)
}

/// Creates a folder, and those above it.
pub(crate) fn create_folders(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}
