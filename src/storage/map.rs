//! Bytes of a file as a slice: the only file with `unsafe`.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Deref;

/// All bytes of a file that nobody writes to any more.
pub struct Map(Bytes);

enum Bytes {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Map {
    /// Map a file. The caller has made sure that nobody writes to it any more: it belongs to a
    /// log whose lock this process holds, and a later segment has taken its place.
    #[expect(unsafe_code, reason = "memory maps cannot be made without; the argument is below")]
    pub(super) fn of(file: &File) -> io::Result<Self> {
        // SAFETY: a map is sound as long as the bytes do not change under it. Only superseded
        // segments are mapped: this crate never writes to or shortens one (removing one leaves the
        // mapped bytes as they are), and the exclusive lock keeps other writers of this crate out.
        // A foreign program that edits the file all the same may change the bytes under us; every
        // byte is read through CRCs and copied before use, no reference into the map outlives the
        // check, and no `str` or other type with invalid values is ever made of it. A foreign
        // truncation ends the process with SIGBUS, which loses nothing that was acknowledged.
        let map = unsafe { memmap2::Mmap::map(file) }?;
        Ok(Self(Bytes::Mapped(map)))
    }
}

impl From<Vec<u8>> for Map {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Bytes::Owned(bytes))
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Map({} bytes)", self.len())
    }
}
