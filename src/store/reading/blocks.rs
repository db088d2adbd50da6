//! An object as a file that is read in blocks, each with one request, when its bytes are needed.
//!
//! The bytes are not verified here: a reader of the file checks them as it checks bytes on a disk.
//!
//! Invariants:
//! - A request begins and ends at a multiple of [`BLOCK_SIZE`], so that a cache below has few entries for an object.
//! - A request that continues where the last one ended reads twice as much, up to [`REQUEST_MAX`]: a scan needs few
//!   requests.
//! - No more than [`MEMORY_MAX`] bytes of blocks are kept.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::storage::{Map, StorageFile, refuse_writes};
use crate::store::folder::StoreClient;

use super::answer::answer;

/// The unit of reading, in bytes.
pub const BLOCK_SIZE: u64 = 256 << 10;
/// The most bytes that one request reads ahead.
const REQUEST_MAX: u64 = 8 << 20;
/// The bytes of blocks that are kept in memory.
const MEMORY_MAX: u64 = 64 << 20;

/// Blocks of objects, and where more of them come from.
pub(super) struct Blocks {
    client: StoreClient,
    kept: Mutex<Kept>,
}

/// The name of an object, and the number of a block of it.
type BlockKey = (Arc<str>, u64);

#[derive(Default)]
struct Kept {
    blocks: BTreeMap<BlockKey, KeptBlock>,
    bytes: u64,
    moment: u64,
}

struct KeptBlock {
    /// The moment of its last use.
    used: u64,
    bytes: Arc<[u8]>,
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blocks({} bytes)", self.kept().bytes)
    }
}

impl Blocks {
    pub(super) fn new(client: &StoreClient) -> Self {
        Self { client: client.clone(), kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Get some blocks of an object with one request, as far as it has them.
    fn fetch(&self, name: &Arc<str>, first: u64, count: u64) -> io::Result<()> {
        let end = first.saturating_add(count);
        let range = first.saturating_mul(BLOCK_SIZE)..end.saturating_mul(BLOCK_SIZE);
        let objects = self.client.objects();
        let found = answer(&self.client, || objects.get(name, Some(range.clone())))?;
        let bytes = found.ok_or(io::ErrorKind::NotFound)?.bytes;
        let size = usize::try_from(BLOCK_SIZE).map_err(io::Error::other)?;
        let mut kept = self.kept();
        for (block, piece) in (first..end).zip(bytes.chunks(size)) {
            kept.insert((name.clone(), block), piece.into());
        }
        Ok(())
    }
}

impl Kept {
    fn get(&mut self, key: &BlockKey) -> Option<Arc<[u8]>> {
        self.moment += 1;
        let block = self.blocks.get_mut(key)?;
        block.used = self.moment;
        Some(block.bytes.clone())
    }

    fn insert(&mut self, key: BlockKey, bytes: Arc<[u8]>) {
        self.moment += 1;
        self.bytes += length(&bytes);
        let block = KeptBlock { used: self.moment, bytes };
        if let Some(before) = self.blocks.insert(key, block) {
            self.bytes -= length(&before.bytes);
        }
        while self.bytes > MEMORY_MAX {
            let oldest = self.blocks.iter().min_by_key(|(_, block)| block.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
            if let Some(block) = self.blocks.remove(&oldest) {
                self.bytes -= length(&block.bytes);
            }
        }
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// An object as a file.
#[derive(Debug)]
pub(super) struct BlockFile {
    blocks: Arc<Blocks>,
    name: Arc<str>,
    /// The length of the object.
    stored: u64,
    /// The length of the file. Zeros follow the stored bytes.
    length: u64,
    /// Parts of the file that are known without the object: their offsets and bytes.
    known: Vec<(u64, Vec<u8>)>,
    ahead: Mutex<Ahead>,
    /// The object was not there when it was read.
    is_gone: AtomicBool,
}

/// The bytes of the last request.
#[derive(Debug, Default)]
struct Ahead {
    /// The block after it.
    next: u64,
    /// The number of its blocks.
    count: u64,
}

impl BlockFile {
    pub(super) fn new(blocks: &Arc<Blocks>, name: &str, stored: u64) -> Self {
        let (known, ahead, is_gone) = (Vec::new(), Mutex::default(), AtomicBool::new(false));
        let blocks = blocks.clone();
        Self { blocks, name: name.into(), stored, length: stored, known, ahead, is_gone }
    }

    /// The same with zeros up to a length.
    pub(super) fn with_length(self, length: u64) -> Self {
        Self { length, ..self }
    }

    /// The same with bytes that are known.
    pub(super) fn with_known(mut self, offset: u64, bytes: Vec<u8>) -> Self {
        self.known.push((offset, bytes));
        self
    }

    /// Copy known bytes at an offset, if they are all that is needed.
    fn read_known(&self, buffer: &mut [u8], offset: u64) -> bool {
        self.known.iter().any(|(start, bytes)| {
            let from = offset.checked_sub(*start).and_then(|from| usize::try_from(from).ok());
            let found = from.and_then(|from| bytes.get(from..)?.get(..buffer.len()));
            found.is_some_and(|found| {
                buffer.copy_from_slice(found);
                true
            })
        })
    }

    /// A block, and those up to `last` that are needed next.
    fn block(&self, block: u64, last: u64) -> io::Result<Option<Arc<[u8]>>> {
        let key = (self.name.clone(), block);
        if let Some(found) = self.blocks.kept().get(&key) {
            return Ok(Some(found));
        }
        let end = self.stored.div_ceil(BLOCK_SIZE);
        let needed = {
            let mut kept = self.blocks.kept();
            let is_missing = |at: &u64| kept.get(&(self.name.clone(), *at)).is_none();
            length_of((block..=last).take_while(is_missing))
        };
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let doubled =
            if block == ahead.next && block > 0 { ahead.count.saturating_mul(2) } else { 1 };
        let count = needed.max(doubled.min(REQUEST_MAX / BLOCK_SIZE));
        let count = count.min(end.saturating_sub(block));
        let fetched = self.blocks.fetch(&self.name, block, count);
        if fetched.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            self.is_gone.store(true, Ordering::Relaxed);
        }
        fetched?;
        *ahead = Ahead { next: block.saturating_add(count), count };
        Ok(self.blocks.kept().get(&key))
    }
}

fn length_of(blocks: impl Iterator<Item = u64>) -> u64 {
    u64::try_from(blocks.count()).unwrap_or(u64::MAX)
}

impl StorageFile for BlockFile {
    /// A listed object that is gone was deleted: then the file is deleted, too.
    fn length(&self) -> io::Result<u64> {
        if self.is_gone.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(self.length)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = buffer.len().min(left);
        let buffer = buffer.get_mut(..count).unwrap_or_default();
        if buffer.is_empty() || self.read_known(buffer, offset) {
            return Ok(count);
        }
        let end = offset.saturating_add(length(buffer)).min(self.stored);
        let mut at = offset;
        while at < end {
            let (block, last) = (at / BLOCK_SIZE, (end - 1) / BLOCK_SIZE);
            let bytes = self.block(block, last)?;
            let inside = usize::try_from(at % BLOCK_SIZE).map_err(io::Error::other)?;
            let place = usize::try_from(at - offset).map_err(io::Error::other)?;
            let found = bytes.as_deref().and_then(|bytes| bytes.get(inside..)).unwrap_or_default();
            let room = usize::try_from(end - at).map_err(io::Error::other)?;
            let found = found.get(..room).unwrap_or(found);
            if found.is_empty() {
                // The object is shorter than in the listing: a reader finds that the file ends here.
                return Ok(place);
            }
            if let Some(to) = buffer.get_mut(place..place + found.len()) {
                to.copy_from_slice(found);
            }
            at += length(found);
        }
        let from = usize::try_from(self.stored.max(offset) - offset).unwrap_or(usize::MAX);
        buffer.get_mut(from..).unwrap_or_default().fill(0);
        Ok(count)
    }

    refuse_writes!();

    fn map(&self) -> io::Result<Map> {
        let mut bytes = vec![0; usize::try_from(self.length).map_err(io::Error::other)?];
        let count = self.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimStore;
    use crate::store::Objects as _;

    fn object(length: u64) -> Vec<u8> {
        (0..length).map(|at| u8::try_from((at * 7 + at / 251) % 256).unwrap()).collect()
    }

    fn file(store: &SimStore, stored: u64) -> BlockFile {
        let client = StoreClient::new("a store", Arc::new(store.clone()), |unclear| unclear < 3);
        BlockFile::new(&Arc::new(Blocks::new(&client)), "seg/a", stored)
    }

    fn read(file: &BlockFile, offset: u64, count: usize) -> Vec<u8> {
        let mut buffer = vec![0xEE; count];
        let found = file.read_at(&mut buffer, offset).unwrap();
        buffer.truncate(found);
        buffer
    }

    /// Goal: a file in blocks has the bytes of its object, known bytes in their place, and zeros at
    /// the end.
    #[test]
    fn file_has_the_bytes_of_its_object() {
        let store = SimStore::new();
        let stored = 3 * BLOCK_SIZE + 1_000;
        let bytes = object(stored);
        store.create("seg/a", &bytes).unwrap();
        let length = stored + 500;
        let file = file(&store.handle(), stored).with_length(length).with_known(64, vec![1; 32]);
        let mut expected = bytes;
        expected.resize(usize::try_from(length).unwrap(), 0);
        for (offset, count) in [
            (0, 10),
            (BLOCK_SIZE - 5, 10),
            (BLOCK_SIZE, 1),
            (10, 3 * 262_144),
            (stored - 1, 2),
            (stored, 600),
            (length - 3, 9),
            (length, 4),
            (length + 9, 4),
        ] {
            let from = usize::try_from(offset).unwrap().min(expected.len());
            let to = (from + count).min(expected.len());
            assert_eq!(read(&file, offset, count), expected[from..to], "{offset} {count}");
        }
        assert_eq!(read(&file, 70, 20), [1; 20]);
        assert_eq!(file.map().unwrap().length(), length);
    }

    /// Goal: blocks are asked for once, a scan needs few requests, and a single read one.
    #[test]
    fn scan_needs_few_requests() {
        let store = SimStore::new();
        let stored = 64 * BLOCK_SIZE;
        store.create("seg/a", &object(stored)).unwrap();
        let process = store.handle();
        let file = file(&process, stored);
        read(&file, 40 * BLOCK_SIZE + 7, 100);
        read(&file, 40 * BLOCK_SIZE + 9, 100);
        assert_eq!(process.calls(), 1);
        read(&file, 50 * BLOCK_SIZE, 5 * 262_144);
        assert_eq!(process.calls(), 2);
        for offset in (0..stored).step_by(100_000) {
            read(&file, offset, 100_000);
        }
        assert!(process.calls() < 12, "{}", process.calls());
    }

    /// Goal: the cache is bounded for any sequence of reads.
    #[test]
    fn memory_is_bounded() {
        let mut kept = Kept::default();
        let block: Arc<[u8]> = vec![0; usize::try_from(BLOCK_SIZE).unwrap()].into();
        for number in 0..1_000 {
            kept.insert(("seg/a".into(), number), block.clone());
            assert!(kept.get(&("seg/a".into(), 0)).is_some());
            assert!(kept.bytes <= MEMORY_MAX);
        }
        assert!(kept.get(&("seg/a".into(), 1)).is_none());
        assert_eq!(kept.bytes, MEMORY_MAX);
    }

    /// Goal: a short object ends the file early, and a missing object and a silent store are
    /// errors.
    #[test]
    fn short_and_missing_objects_are_told_apart() {
        let store = SimStore::new();
        store.create("seg/a", &object(1_000)).unwrap();
        let short = file(&store.handle(), 2_000);
        assert_eq!(read(&short, 900, 500).len(), 100);
        store.tamper("seg/a", None);
        let deleted = file(&store.handle(), 2_000);
        assert_eq!(deleted.length().unwrap(), 2_000);
        let gone = deleted.read_at(&mut [0; 9], 0).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
        assert_eq!(deleted.length().unwrap_err().kind(), io::ErrorKind::NotFound);
        let process = store.handle();
        (1..9).for_each(|call| process.set_fate(call, crate::sim::StoreFate::Lost));
        let unanswered = file(&process, 2_000).read_at(&mut [0; 9], 0).unwrap_err();
        assert_eq!(unanswered.kind(), io::ErrorKind::HostUnreachable);
    }
}
