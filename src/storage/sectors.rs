//! Reads that continue after unreadable sectors: such a sector costs its own bytes and no others.

use std::io;
use std::ops::Range;

use super::port::StorageFile;

/// The unit in which an operating system caches and reads a file.
const PAGE: u64 = 4096;
/// The smallest unit that a device reads.
const SECTOR: u64 = 512;

/// The result of a read that continued after unreadable sectors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SectorRead {
    /// Number of bytes in the buffer: fewer than requested only at the end of the file.
    pub count: usize,
    /// Ranges of the file, in order, whose bytes in the buffer are zero because the storage cannot
    /// read them.
    pub unreadable: Vec<Range<u64>>,
}

impl SectorRead {
    /// The number of bytes, if all of them could be read.
    ///
    /// # Errors
    /// Names the first range that cannot be read.
    pub fn complete(self) -> io::Result<usize> {
        match self.unreadable.first() {
            None => Ok(self.count),
            Some(Range { start, end }) => {
                Err(io::Error::other(format!("the storage cannot read bytes {start} to {end}")))
            }
        }
    }

    fn add_unreadable(&mut self, range: Range<u64>) {
        match self.unreadable.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.unreadable.push(range),
        }
    }
}

/// Read up to the length of the buffer at an offset. If the storage cannot read all of it, it is
/// read page by page, and a bad page sector by sector. An error that passes costs nothing, since
/// every byte is read again.
///
/// # Errors
/// Every error that is not about a place on the medium.
pub fn read_sectors(
    file: &dyn StorageFile,
    buffer: &mut [u8],
    offset: u64,
) -> io::Result<SectorRead> {
    match file.read_at(buffer, offset) {
        Ok(count) => return Ok(SectorRead { count, unreadable: Vec::new() }),
        Err(error) if !is_medium_error(&error) || mutant!(UnreadableSectorEndsRead) => {
            return Err(error);
        }
        Err(_) => {}
    }
    let left = usize::try_from(file.length()?.saturating_sub(offset)).unwrap_or(usize::MAX);
    let available = buffer.len().min(left);
    let mut done = SectorRead::default();
    read_pieces(file, buffer.get_mut(..available).unwrap_or_default(), offset, PAGE, &mut done)?;
    Ok(done)
}

/// Read the pieces between multiples of `size`, and the bad ones in smaller pieces.
fn read_pieces(
    file: &dyn StorageFile,
    mut buffer: &mut [u8],
    mut offset: u64,
    size: u64,
    done: &mut SectorRead,
) -> io::Result<()> {
    while !buffer.is_empty() {
        let room = usize::try_from(size - offset % size).map_err(io::Error::other)?;
        let (piece, rest) = buffer.split_at_mut(room.min(buffer.len()));
        let end = offset + u64::try_from(piece.len()).map_err(io::Error::other)?;
        match file.read_at(piece, offset) {
            Ok(count) => {
                done.count += count;
                if count < piece.len() {
                    return Ok(());
                }
            }
            Err(error) if !is_medium_error(&error) => return Err(error),
            Err(_) if size > SECTOR => read_pieces(file, piece, offset, SECTOR, done)?,
            Err(_) => {
                piece.fill(0);
                done.count += piece.len();
                done.add_unreadable(offset..end);
            }
        }
        (buffer, offset) = (rest, end);
    }
    Ok(())
}

/// Whether an error says that the medium cannot return the bytes of this place. Other errors (a
/// closed device, too many open files) say nothing about the bytes.
fn is_medium_error(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|number| MEDIUM_ERRORS.contains(&number))
}

/// EIO, ENODATA, EBADMSG, EILSEQ, EUCLEAN and EREMOTEIO: what the kernel makes of a medium error, or
/// of a checksum of a device or file system.
#[cfg(any(target_os = "linux", target_os = "android"))]
const MEDIUM_ERRORS: &[i32] = &[5, 61, 74, 84, 117, 121];

/// EIO.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
const MEDIUM_ERRORS: &[i32] = &[5];

/// `ERROR_CRC`, `ERROR_SECTOR_NOT_FOUND`, `ERROR_READ_FAULT` and `ERROR_IO_DEVICE`.
#[cfg(not(unix))]
const MEDIUM_ERRORS: &[i32] = &[23, 27, 30, 1117];

#[cfg(all(test, unix))]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::sim::{FaultAction, FaultEffect, FaultRule, Operation, OsError, SimDisk};
    use crate::storage::Storage as _;

    fn disk() -> (SimDisk, Vec<u8>, Box<dyn StorageFile>) {
        let disk = SimDisk::new();
        let file = disk.create(Path::new("/file")).unwrap();
        let bytes: Vec<u8> =
            (0..10_000_u32).map(|at| u8::try_from(at % 251).unwrap() + 1).collect();
        file.write_at(&bytes, 0).unwrap();
        (disk, bytes, file)
    }

    /// Unreadable sectors cost their own bytes, whatever part of the file is read.
    #[test]
    fn neighbours_of_unreadable_sectors_are_read() {
        let (disk, bytes, file) = disk();
        for range in [600..601, 4096..4608, 4608..5120, 9_990..9_991] {
            disk.make_unreadable(Path::new("/file"), range).unwrap();
        }
        for (offset, count) in [(0, 20_000), (100, 9_000), (700, 200), (4_000, 1_200), (9_900, 50)]
        {
            let mut buffer = vec![7; count];
            let read = read_sectors(&*file, &mut buffer, u64::try_from(offset).unwrap()).unwrap();
            assert_eq!(read.count, count.min(10_000 - offset), "{offset}");
            for (at, byte) in (offset..).zip(&buffer[..read.count]) {
                let is_bad = matches!(at, 512..1024 | 4096..5120 | 9728..);
                assert_eq!(*byte, if is_bad { 0 } else { bytes[at] }, "byte {at}");
                let place = u64::try_from(at).unwrap();
                let is_named = read.unreadable.iter().any(|range| range.contains(&place));
                assert_eq!(is_named, is_bad, "byte {at}: {:?}", read.unreadable);
            }
        }
        let read = read_sectors(&*file, &mut [0; 10_000], 0).unwrap();
        assert_eq!(read.unreadable, [512..1024, 4096..5120, 9728..10_000]);
        let error = read.complete().unwrap_err();
        assert_eq!(error.to_string(), "the storage cannot read bytes 512 to 1024");
    }

    /// An error that passes costs nothing; one that is not about the medium is returned.
    #[test]
    fn passing_error_costs_nothing() {
        let (disk, bytes, file) = disk();
        let failure = |error| FaultAction::Error(error, FaultEffect::Nothing);
        disk.inject(FaultRule::next(failure(OsError::Io)).of(Operation::Read));
        let mut buffer = vec![0; 10_000];
        let read = read_sectors(&*file, &mut buffer, 0).unwrap();
        assert_eq!((read, &buffer), (SectorRead { count: 10_000, unreadable: Vec::new() }, &bytes));
        let refused = OsError::Other(io::ErrorKind::PermissionDenied);
        disk.inject(FaultRule::next(failure(refused)).of(Operation::Read));
        let error = read_sectors(&*file, &mut buffer, 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
