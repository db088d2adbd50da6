//! Read-only memory maps of files. Only this file contains `unsafe`.
//!
//! Invariant: bytes of a map are used only after [`Map::populate`] proved that they can be read.
//! Otherwise a page that the storage cannot read, or that another program truncated, would end the
//! process with SIGBUS.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;

/// The bytes of a file that no longer has a writer.
pub struct Map(Bytes);

enum Bytes {
    Mapped(memmap2::Mmap),
    /// A simulated map: reading a byte of a fault ends the process.
    Owned {
        bytes: Vec<u8>,
        faults: Vec<Range<u64>>,
    },
}

impl Map {
    /// Map a file. The caller guarantees that the file no longer has a writer: it belongs to a log
    /// with a lock that this process holds, and a later segment replaced it.
    #[expect(unsafe_code, reason = "memory maps require it; the SAFETY comment argues why")]
    pub(super) fn of(file: &File) -> io::Result<Self> {
        // SAFETY: a map is sound as long as its bytes do not change. Only superseded segments are
        // mapped: this crate never writes to or truncates one (removing it keeps the mapped bytes),
        // and the exclusive lock excludes other writers of this crate. Another program that edits
        // the file may change the bytes. Every byte is validated with CRCs and copied before use,
        // no reference into the map outlives the check, and no type with invalid values, such as
        // `str`, is made from it. Pages that cannot be read are found by `populate`.
        let map = unsafe { memmap2::Mmap::map(file) }?;
        Ok(Self(Bytes::Mapped(map)))
    }

    /// A simulated map in which the pages of `faults` cannot be read.
    #[must_use]
    pub fn with_faults(bytes: Vec<u8>, faults: Vec<Range<u64>>) -> Self {
        Self(Bytes::Owned { bytes, faults })
    }

    /// Length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        let bytes = match &self.0 {
            Bytes::Mapped(map) => map.len(),
            Bytes::Owned { bytes, .. } => bytes.len(),
        };
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Read the pages of a range into memory, so that using them next raises no signal.
    ///
    /// # Errors
    /// A page cannot be read, or this platform cannot tell: the caller must read the file instead.
    pub fn populate(&self, range: Range<u64>) -> io::Result<()> {
        mutant!(MappedPageUnproven => return Ok(()));
        match &self.0 {
            Bytes::Mapped(map) => populate(map, &range),
            Bytes::Owned { faults, .. } if overlaps(faults, &range) => {
                Err(io::Error::other("a page of the map cannot be read"))
            }
            Bytes::Owned { .. } => Ok(()),
        }
    }

    /// The bytes of a range that was populated; fewer only at the end of the file.
    ///
    /// # Panics
    /// In a simulated map, where a real one would end the process with SIGBUS.
    #[must_use]
    pub fn get(&self, range: Range<u64>) -> &[u8] {
        let bytes: &[u8] = match &self.0 {
            Bytes::Mapped(map) => map,
            Bytes::Owned { bytes, faults } => {
                assert!(!overlaps(faults, &range), "SIGBUS: bytes {range:?} cannot be read");
                bytes
            }
        };
        let [start, end] =
            [range.start, range.end].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        bytes.get(start..end.min(bytes.len())).unwrap_or_default()
    }
}

/// Populating and then reading leaves a gap in which the kernel may drop a page and fail to read it
/// again: callers populate a window shortly before they use it.
#[cfg(target_os = "linux")]
fn populate(map: &memmap2::Mmap, range: &Range<u64>) -> io::Result<()> {
    let [start, end] = [range.start, range.end].map(usize::try_from);
    let (start, end) = (start.map_err(io::Error::other)?, end.map_err(io::Error::other)?);
    if start >= end {
        return Ok(());
    }
    if end > map.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    map.advise_range(memmap2::Advice::PopulateRead, start, end - start)
}

#[cfg(not(target_os = "linux"))]
fn populate(_: &memmap2::Mmap, _: &Range<u64>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn overlaps(faults: &[Range<u64>], range: &Range<u64>) -> bool {
    faults.iter().any(|fault| fault.start < range.end && range.start < fault.end)
}

impl From<Vec<u8>> for Map {
    fn from(bytes: Vec<u8>) -> Self {
        Self::with_faults(bytes, Vec::new())
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Map({} bytes)", self.length())
    }
}
