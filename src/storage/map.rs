//! Read-only memory maps of files. Only this file contains `unsafe`.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Deref;

/// The bytes of a file that has no writer any longer.
pub struct Map(Bytes);

enum Bytes {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Map {
    /// Map a file. The caller guarantees that it has no writer any longer: it belongs to a log whose
    /// lock this process holds, and a later segment replaced it.
    #[expect(unsafe_code, reason = "memory maps require it; the SAFETY comment argues why")]
    pub(super) fn of(file: &File) -> io::Result<Self> {
        // SAFETY: a map is sound as long as its bytes do not change. Only superseded segments are
        // mapped: this crate never writes to or truncates one (removing it keeps the mapped bytes),
        // and the exclusive lock excludes other writers of this crate. Another program that edits
        // the file may change the bytes. Every byte is validated with CRCs and copied before use,
        // no reference into the map outlives the check, and no type with invalid values, such as
        // `str`, is made from it. A truncation by another program ends the process with SIGBUS,
        // which loses no acknowledged record.
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
