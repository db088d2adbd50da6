//! Replaces the content of a file of the user's, so that it is the old or the new whole at any time.
//!
//! The new content is written beside the file, made durable, and renamed. A link stays, and the file that it names is
//! replaced. The mode stays. A file with another content than expected is not touched.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;

use plan_ledger::{Environment, Error};

use crate::protocol::private_files;

/// Replaces the content of a file that has the content `before`. Returns whether it did.
///
/// # Errors
/// Of the file system; then the file is the old or the new one.
pub(crate) fn replace_file(path: &Path, before: &str, after: &str) -> Result<bool, Error> {
    let failed = |error: io::Error| Error::io("replace the file", path, error);
    let target = path.canonicalize().map_err(failed)?;
    // A file that its user protected stays.
    OpenOptions::new().write(true).open(&target).map_err(failed)?;
    let mut name = target.file_name().unwrap_or_default().to_owned();
    let random = u128::from_le_bytes(Environment::system().ids.next_id());
    name.push(format!(".{random:032x}.part"));
    let temporary = target.with_file_name(name);
    let replaced = write_and_rename(&temporary, &target, before, after).map_err(failed);
    if !matches!(replaced, Ok(true)) {
        // After a failure there may be nothing to remove.
        let _ = fs::remove_file(&temporary);
    }
    replaced
}

fn write_and_rename(
    temporary: &Path,
    target: &Path,
    before: &str,
    after: &str,
) -> io::Result<bool> {
    let mut file = private_files::create_new(temporary)?;
    file.write_all(after.as_bytes())?;
    let (metadata, own) = (fs::metadata(target)?, file.metadata()?);
    if (metadata.uid(), metadata.gid()) != (own.uid(), own.gid()) {
        // Only the superuser gives files away; a group of the user's can be kept.
        let owned = chown(temporary, Some(metadata.uid()), Some(metadata.gid()));
        let _ = owned.or_else(|_| chown(temporary, None, Some(metadata.gid())));
    }
    file.set_permissions(metadata.permissions())?;
    file.sync_all()?;
    // Last, so that an edit meanwhile is noticed.
    if fs::read(target)? != before.as_bytes() {
        return Ok(false);
    }
    fs::rename(temporary, target)?;
    let folder = target.parent().unwrap_or(Path::new("/"));
    File::open(folder)?.sync_all()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn mode_and_link_of_a_replaced_file_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        assert!(replace_file(&link, "old", "new").unwrap());
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o640);
        assert!(!replace_file(&link, "old", "newer").unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else remains");
    }
}
