//! A file in memory, for a folder that is assembled from objects.
//!
//! Zeros at its end need no memory.

use std::fmt;
use std::io;
use std::sync::{PoisonError, RwLock};

use crate::storage::{Map, StorageFile};

#[derive(Default)]
pub struct MemoryFile(RwLock<Content>);

#[derive(Default)]
struct Content {
    /// The first bytes. Zeros follow, up to the length.
    bytes: Vec<u8>,
    length: u64,
}

impl Content {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = buffer.len().min(left);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let known = self.bytes.get(start..).unwrap_or_default();
        let known = known.get(..count).unwrap_or(known);
        let (have, rest) = buffer.split_at_mut(known.len());
        have.copy_from_slice(known);
        rest.get_mut(..count - known.len()).unwrap_or_default().fill(0);
        count
    }
}

impl fmt::Debug for MemoryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let content = self.0.read().unwrap_or_else(PoisonError::into_inner);
        write!(f, "MemoryFile({} bytes)", content.length)
    }
}

impl StorageFile for MemoryFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.read().unwrap_or_else(PoisonError::into_inner).length)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.0.read().unwrap_or_else(PoisonError::into_inner).read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut content = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let end = start.checked_add(bytes.len()).ok_or(io::ErrorKind::InvalidInput)?;
        if content.bytes.len() < end {
            content.bytes.resize(end, 0);
        }
        if let Some(place) = content.bytes.get_mut(start..end) {
            place.copy_from_slice(bytes);
        }
        content.length = content.length.max(u64::try_from(end).map_err(io::Error::other)?);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut content = self.0.write().unwrap_or_else(PoisonError::into_inner);
        content.bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        content.length = length;
        Ok(())
    }

    fn make_read_only(&self) -> io::Result<()> {
        Ok(())
    }

    fn map(&self) -> io::Result<Map> {
        let content = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = vec![0; usize::try_from(content.length).map_err(io::Error::other)?];
        content.read_at(&mut bytes, 0);
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &MemoryFile, count: usize, offset: u64) -> Vec<u8> {
        let mut buffer = vec![0xEE; count];
        let read = file.read_at(&mut buffer, offset).unwrap();
        buffer.truncate(read);
        buffer
    }

    /// Goal: a file in memory has the bytes and the length of one on a disk.
    #[test]
    fn bytes_and_length_are_those_of_a_file() {
        let file = MemoryFile::default();
        assert_eq!((read(&file, 4, 0), read(&file, 4, 9)), (vec![], vec![]));
        file.write_at(b"abc", 2).unwrap();
        assert_eq!(read(&file, 9, 0), b"\0\0abc");
        file.set_length(8).unwrap();
        assert_eq!(read(&file, 4, 3), b"bc\0\0");
        assert_eq!(read(&file, 4, 6), b"\0\0");
        assert!(read(&file, 4, 8).is_empty());
        file.set_length(3).unwrap();
        file.set_length(5).unwrap();
        assert_eq!(read(&file, 9, 0), b"\0\0a\0\0");
        assert_eq!((file.length().unwrap(), file.map().unwrap().length()), (5, 5));
    }
}
