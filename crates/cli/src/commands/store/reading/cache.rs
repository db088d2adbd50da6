//! Objects that were read once, kept in a folder of this machine: `--cache DIR`.
//!
//! Objects of a log never change, so the cache is never stale. A cache is as untrusted as the store: readers verify its
//! bytes like those of the store.
//!
//! Invariants:
//! - Hints are never cached, nor is `LEDGER.json`, which names the ledger. Entries of another ledger have other names.
//! - An entry gets its name after it is complete. One that is damaged, short or of another object is read again.
//! - The folder has at most a number of bytes: the entries that were written first are removed first.
//! - A failure to write an entry does not make the read fail.

use std::fs;
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use plan_ledger::internals::format::content_hash;
use plan_ledger::internals::store::{
    BLOCK_SIZE, CreatedObject, LedgerIdentity, ListedObject, Objects, StoreTime, StoredObject,
    Unclear,
};

use crate::protocol::hex;
use crate::protocol::private_files;

/// The most bytes of a cache.
pub(super) const CACHE_MAX: u64 = 1 << 30;
/// The percentage of the limit that is kept when entries are removed.
const LEFT_PERCENT: u64 = 90;

const MAGIC: [u8; 8] = *b"\x89PLCACH\n";
/// Magic, the store's time of the object, and the hash of the key, both and the bytes.
const HEADER_SIZE: usize = 8 + 8 + 32;
const SUFFIX: &str = ".entry";
/// The suffix of an entry that is not complete.
const TEMPORARY: &str = ".entry.tmp";

/// A store that keeps objects in a folder after reading them.
#[derive(Debug)]
pub(super) struct CachedObjects {
    objects: Arc<dyn Objects>,
    /// Its entries have names that begin with this: the address and the ledger.
    place: String,
    folder: PathBuf,
    max: u64,
    /// The bytes in the folder, about.
    bytes: AtomicU64,
    counter: AtomicU64,
}

impl CachedObjects {
    /// A cache in a folder, which is created if it is missing.
    pub(super) fn open(
        objects: Arc<dyn Objects>,
        url: &str,
        identity: &LedgerIdentity,
        folder: &Path,
        max: u64,
    ) -> io::Result<Self> {
        private_files::create_folders(folder)?;
        let place = format!("{url}\n{}\n{}\n", hex(&identity.ledger), hex(&identity.genesis));
        let bytes = entries(folder)?.iter().map(|entry| entry.length).sum::<u64>();
        let (bytes, counter) = (AtomicU64::new(bytes), AtomicU64::new(0));
        Ok(Self { objects, place, folder: folder.to_owned(), max, bytes, counter })
    }

    /// The name of an object, or of one of its blocks.
    fn key(&self, name: &str, block: Option<u64>) -> String {
        let block = block.map_or_else(|| "whole".to_owned(), |block| block.to_string());
        format!("{}{name}\n{block}", self.place)
    }

    fn path(&self, key: &str) -> PathBuf {
        let hash = hex(&content_hash(key.as_bytes()));
        self.folder.join(format!("{}{SUFFIX}", hash.get(..40).unwrap_or(&hash)))
    }

    /// An entry, if it is complete and undamaged.
    fn read(&self, key: &str) -> Option<StoredObject> {
        let bytes = fs::read(self.path(key)).ok()?;
        let (head, content) = bytes.split_at_checked(HEADER_SIZE)?;
        let at = u64::from_le_bytes(*head.get(8..)?.first_chunk()?);
        let hash = head.last_chunk::<32>()?;
        let is_own = head.starts_with(&MAGIC) && *hash == hash_of(key, at, content);
        let at = Some(at).filter(|at| *at > 0).map(StoreTime);
        is_own.then(|| StoredObject { bytes: content.to_vec(), at })
    }

    /// Keep an object. Failures are ignored.
    fn keep(&self, key: &str, object: &StoredObject) {
        // Other processes may remove entries at the same time.
        if let Ok(length) = self.write(key, object)
            && self.bytes.fetch_add(length, Ordering::Relaxed) + length > self.max
        {
            let _ = self.shrink();
        }
    }

    fn write(&self, key: &str, object: &StoredObject) -> io::Result<u64> {
        let at = object.at.map_or(0, |at| at.0);
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let temporary = self.folder.join(format!("{}-{number}{TEMPORARY}", std::process::id()));
        let mut file = private_files::create(&temporary)?;
        let hash = hash_of(key, at, &object.bytes);
        let written = [&MAGIC[..], &at.to_le_bytes()[..], &hash[..], object.bytes.as_slice()]
            .into_iter()
            .try_for_each(|part| file.write_all(part))
            .and_then(|()| fs::rename(&temporary, self.path(key)));
        if let Err(error) = written {
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        Ok(u64::try_from(HEADER_SIZE + object.bytes.len()).unwrap_or(u64::MAX))
    }

    /// Remove the files that were written first, also those that a process left unfinished.
    fn shrink(&self) -> io::Result<()> {
        let mut entries = entries(&self.folder)?;
        entries.sort_by_key(|entry| entry.written);
        let mut bytes: u64 = entries.iter().map(|entry| entry.length).sum();
        let left = self.max / 100 * LEFT_PERCENT;
        for entry in entries {
            if bytes <= left {
                break;
            }
            fs::remove_file(&entry.path)?;
            bytes -= entry.length;
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn whole(&self, name: &str) -> Result<Option<StoredObject>, Unclear> {
        let key = self.key(name, None);
        if let Some(found) = self.read(&key) {
            return Ok(Some(found));
        }
        let found = self.objects.get(name, None)?;
        if let Some(found) = &found {
            self.keep(&key, found);
        }
        Ok(found)
    }

    /// Some blocks of an object. Those that are not cached are read with one request for each gap.
    fn blocks(&self, name: &str, blocks: Range<u64>) -> Result<Option<StoredObject>, Unclear> {
        let mut all = StoredObject { bytes: Vec::new(), at: None };
        let mut next = blocks.start;
        while next < blocks.end {
            if let Some(found) = self.read(&self.key(name, Some(next))) {
                let is_last = length(&found.bytes) < BLOCK_SIZE;
                all.bytes.extend_from_slice(&found.bytes);
                all.at = found.at;
                next += 1;
                if is_last {
                    break;
                }
                continue;
            }
            let is_missing = |block: &u64| !self.path(&self.key(name, Some(*block))).exists();
            let end = (next + 1..blocks.end).take_while(is_missing).last().unwrap_or(next) + 1;
            let range = next * BLOCK_SIZE..end * BLOCK_SIZE;
            let Some(found) = self.objects.get(name, Some(range.clone()))? else { return Ok(None) };
            let size = usize::try_from(BLOCK_SIZE).unwrap_or(usize::MAX);
            for (block, piece) in (next..end).zip(found.bytes.chunks(size)) {
                let piece = StoredObject { bytes: piece.to_vec(), at: found.at };
                self.keep(&self.key(name, Some(block)), &piece);
            }
            let is_last = length(&found.bytes) < range.end - range.start;
            all.bytes.extend_from_slice(&found.bytes);
            all.at = found.at;
            next = end;
            if is_last {
                break;
            }
        }
        Ok(Some(all))
    }
}

/// The hash of the content of an entry.
fn hash_of(key: &str, at: u64, bytes: &[u8]) -> [u8; 32] {
    let content = content_hash(bytes);
    let at = at.to_le_bytes();
    content_hash(&[key.as_bytes(), &b"\0"[..], &at[..], &content[..]].concat())
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Whether an object of a name never changes.
fn is_immutable(name: &str) -> bool {
    ["tail/", "seg/", "blob/", "snap/"].iter().any(|folder| name.starts_with(folder))
}

struct Entry {
    path: PathBuf,
    length: u64,
    written: SystemTime,
}

/// The files of a cache. Other files in the folder are not touched.
fn entries(folder: &Path) -> io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_own =
            name.to_str().is_some_and(|name| name.ends_with(SUFFIX) || name.ends_with(TEMPORARY));
        // It may have been removed in the meantime.
        if let Some(metadata) = entry.metadata().ok().filter(|_| is_own) {
            let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            found.push(Entry { path: entry.path(), length: metadata.len(), written });
        }
    }
    Ok(found)
}

impl Objects for CachedObjects {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<CreatedObject, Unclear> {
        self.objects.create(name, bytes)
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Option<StoredObject>, Unclear> {
        match range {
            _ if !is_immutable(name) => self.objects.get(name, range),
            None => self.whole(name),
            Some(range) => {
                let (first, last) = (range.start / BLOCK_SIZE, range.end / BLOCK_SIZE);
                let is_aligned = range == (first * BLOCK_SIZE..last * BLOCK_SIZE);
                if is_aligned && !range.is_empty() {
                    self.blocks(name, first..last)
                } else {
                    self.objects.get(name, Some(range))
                }
            }
        }
    }

    fn list_after(&self, folder: &str, after: &str) -> Result<Vec<ListedObject>, Unclear> {
        self.objects.list_after(folder, after)
    }

    fn put_hint(&self, name: &str, bytes: &[u8]) -> Result<(), Unclear> {
        self.objects.put_hint(name, bytes)
    }

    fn delete(&self, name: &str) -> Result<(), Unclear> {
        self.objects.delete(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan_ledger::internals::store::DirectoryObjects;

    const IDENTITY: LedgerIdentity = LedgerIdentity { ledger: [1; 16], genesis: [2; 16] };

    /// A store in a folder, and a cache of it.
    struct Place {
        root: tempfile::TempDir,
        store: Arc<dyn Objects>,
    }

    impl Place {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let store = DirectoryObjects::open(&root.path().join("store")).unwrap();
            Self { root, store: Arc::new(store) }
        }

        fn cache(&self, max: u64) -> CachedObjects {
            self.cache_of(&IDENTITY, max)
        }

        fn cache_of(&self, identity: &LedgerIdentity, max: u64) -> CachedObjects {
            let folder = self.root.path().join("cache");
            CachedObjects::open(Arc::clone(&self.store), "s3://b/x", identity, &folder, max)
                .unwrap()
        }

        /// The store loses an object: only a cache still has it.
        fn lose(&self, name: &str) {
            self.store.delete(name).unwrap();
        }
    }

    fn content(length: u64) -> Vec<u8> {
        (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect()
    }

    fn get(cache: &CachedObjects, name: &str, range: Option<Range<u64>>) -> Option<Vec<u8>> {
        cache.get(name, range).unwrap().map(|found| found.bytes)
    }

    /// Goal: an object and its time are read once, whole and in blocks, also by a later process.
    #[test]
    fn objects_are_read_once() {
        let place = Place::new();
        let bytes = content(2 * BLOCK_SIZE + 10);
        for name in ["seg/a", "tail/a", "blob/a"] {
            place.store.create(name, &bytes).unwrap();
            let cache = place.cache(CACHE_MAX);
            let first = cache.get(name, None).unwrap().unwrap();
            assert!(first.at.is_some());
            // A part that is cached, a part that is not, and a range beyond the end.
            assert_eq!(get(&cache, name, Some(BLOCK_SIZE..2 * BLOCK_SIZE)).unwrap().len(), 262_144);
            assert_eq!(get(&cache, name, Some(0..4 * BLOCK_SIZE)).unwrap(), bytes);
            place.lose(name);
            let later = place.cache(CACHE_MAX);
            assert_eq!(later.get(name, None).unwrap().unwrap(), first);
            assert_eq!(get(&later, name, Some(0..4 * BLOCK_SIZE)).unwrap(), bytes);
            assert_eq!(get(&later, name, Some(2 * BLOCK_SIZE..3 * BLOCK_SIZE)).unwrap().len(), 10);
        }
    }

    /// Goal: hints, ranges that are not blocks, and missing objects come from the store each time,
    /// and another ledger at the same address has its own entries.
    #[test]
    fn what_may_change_is_not_cached() {
        let place = Place::new();
        let cache = place.cache(CACHE_MAX);
        for name in ["OWNER.json", "nodes/1.json", "LEDGER.json", "takeover/1.json"] {
            for hint in [b"1", b"2"] {
                place.store.put_hint(name, hint).unwrap();
                assert_eq!(get(&cache, name, None).unwrap(), hint);
            }
        }
        assert_eq!(get(&cache, "tail/a", None), None);
        place.store.create("tail/a", b"later").unwrap();
        assert_eq!(get(&cache, "tail/a", Some(0..3)).unwrap(), b"lat");
        assert_eq!(get(&cache, "tail/a", None).unwrap(), b"later");
        place.lose("tail/a");
        let other = LedgerIdentity { ledger: [9; 16], ..IDENTITY };
        assert_eq!(get(&place.cache_of(&other, CACHE_MAX), "tail/a", None), None);
        assert_eq!(get(&cache, "tail/a", None).unwrap(), b"later");
    }

    /// Goal: an entry with any damaged byte, or any bytes missing or added, is read again and replaced.
    #[test]
    fn damaged_entry_is_read_again() {
        let place = Place::new();
        place.store.create("tail/a", b"the bytes").unwrap();
        let cache = place.cache(CACHE_MAX);
        assert_eq!(get(&cache, "tail/a", None).unwrap(), b"the bytes");
        let path = entries(&cache.folder).unwrap().remove(0).path;
        let whole = fs::read(&path).unwrap();
        let mut damaged: Vec<Vec<u8>> = (0..whole.len()).map(|end| whole[..end].to_vec()).collect();
        damaged.push([&whole[..], b"x"].concat());
        damaged.extend((0..whole.len()).map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            bytes
        }));
        for bytes in damaged {
            fs::write(&path, &bytes).unwrap();
            assert_eq!(get(&cache, "tail/a", None).unwrap(), b"the bytes");
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
        // An entry of another object under this name.
        place.store.create("tail/b", b"others").unwrap();
        get(&cache, "tail/b", None);
        let other = cache.path(&cache.key("tail/b", None));
        fs::copy(other, &path).unwrap();
        assert_eq!(get(&cache, "tail/a", None).unwrap(), b"the bytes");
    }

    /// Goal: the folder stays below its bound, the oldest entries go first, and files of others stay.
    #[test]
    fn oldest_entries_are_removed_first() {
        let place = Place::new();
        let cache = place.cache(50_000);
        fs::write(cache.folder.join("other"), vec![0; 90_000]).unwrap();
        let name = |number: u64| format!("tail/{number}");
        for number in 0..200 {
            place.store.create(&name(number), &content(1_000)).unwrap();
            get(&cache, &name(number), None);
            // The order of times within a tick of the clock is not defined.
            let path = cache.path(&cache.key(&name(number), None));
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(number);
            fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
            let bytes: u64 = entries(&cache.folder).unwrap().iter().map(|it| it.length).sum();
            assert!(bytes <= 50_000, "{bytes}");
        }
        let kept: Vec<u64> = (0..200)
            .filter(|number| cache.path(&cache.key(&name(*number), None)).exists())
            .collect();
        assert!(kept.len() > 30, "{kept:?}");
        assert_eq!(kept, (200 - u64::try_from(kept.len()).unwrap()..200).collect::<Vec<_>>());
        assert!(cache.folder.join("other").exists());
    }

    /// Goal: without write access to its folder, only the cache is lost.
    #[test]
    fn cache_that_cannot_be_written_is_no_failure() {
        let place = Place::new();
        place.store.create("tail/a", b"the bytes").unwrap();
        let cache = place.cache(CACHE_MAX);
        fs::remove_dir_all(&cache.folder).unwrap();
        assert_eq!(get(&cache, "tail/a", None).unwrap(), b"the bytes");
    }
}
