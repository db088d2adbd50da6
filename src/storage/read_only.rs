//! Common parts of read-only storages that keep their files elsewhere than in a folder.

use std::io;

use super::port::{Entry, EntryKind};

/// The refusal of every write.
pub(crate) fn read_only<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

/// The entries of a folder, sorted, from the paths of all files below it.
pub(crate) fn entries_of<'a>(inside: impl Iterator<Item = &'a str>) -> Vec<Entry> {
    let mut entries: Vec<_> = inside
        .map(|rest| match rest.split_once('/') {
            Some((name, _)) => Entry { name: name.to_owned(), kind: EntryKind::Folder },
            None => Entry { name: rest.to_owned(), kind: EntryKind::File },
        })
        .collect();
    entries.sort();
    entries.dedup();
    entries
}

/// The methods of a storage that is only read which would change something.
macro_rules! refuse_changes {
    () => {
        fn create_dir(&self, _: &Path) -> io::Result<()> {
            $crate::storage::read_only()
        }

        fn create(&self, _: &Path) -> io::Result<Box<dyn StorageFile>> {
            $crate::storage::read_only()
        }

        fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
            $crate::storage::read_only()
        }

        fn remove(&self, _: &Path) -> io::Result<()> {
            $crate::storage::read_only()
        }

        fn remove_dir(&self, _: &Path) -> io::Result<()> {
            $crate::storage::read_only()
        }

        fn sync_dir(&self, _: &Path) -> io::Result<()> {
            $crate::storage::read_only()
        }

        fn lock(&self, _: &Path, _: &str) -> io::Result<LockOutcome> {
            $crate::storage::read_only()
        }
    };
}

/// The methods of a file that is only read which would change something. There is nothing to make durable.
macro_rules! refuse_writes {
    () => {
        fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            $crate::storage::read_only()
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn set_length(&self, _: u64) -> io::Result<()> {
            $crate::storage::read_only()
        }

        fn make_read_only(&self) -> io::Result<()> {
            Ok(())
        }
    };
}

pub(crate) use refuse_changes;
pub(crate) use refuse_writes;
