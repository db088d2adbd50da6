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
    /// Ranges of the file, in order, that the storage cannot read: the buffer has zeros for them.
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

/// EIO, ENODATA, EBADMSG, EILSEQ, EUCLEAN and EREMOTEIO: the kernel's codes for a medium error, or
/// for a failed checksum of a device or file system.
#[cfg(any(target_os = "linux", target_os = "android"))]
const MEDIUM_ERRORS: &[i32] = &[5, 61, 74, 84, 117, 121];

/// EIO.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
const MEDIUM_ERRORS: &[i32] = &[5];

/// `ERROR_CRC`, `ERROR_SECTOR_NOT_FOUND`, `ERROR_READ_FAULT` and `ERROR_IO_DEVICE`.
#[cfg(not(unix))]
const MEDIUM_ERRORS: &[i32] = &[23, 27, 30, 1117];
