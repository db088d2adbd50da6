//! A file's bytes, as they look and as they are on the medium.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) const PAGE: usize = 4096;
const SECTOR: usize = 512;
const ZEROS: [u8; PAGE] = [0; PAGE];

/// Bytes in pages; a page that is not there is zero.
#[derive(Debug, Clone, Default)]
pub(super) struct Image {
    pub(super) length: u64,
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
}

impl Image {
    /// Up to `count` bytes at `offset`, fewer where the file ends.
    pub(super) fn read(&self, offset: u64, count: usize) -> Vec<u8> {
        let rest = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; count.min(rest)];
        self.read_into(offset, &mut bytes);
        bytes
    }

    fn read_into(&self, offset: u64, bytes: &mut [u8]) {
        for (page, start, part) in pieces_mut(offset, bytes) {
            match self.pages.get(&page).and_then(|page| page.get(start..start + part.len())) {
                Some(content) => part.copy_from_slice(content),
                None => part.fill(0),
            }
        }
    }

    /// Write, and grow if need be.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (page, start, part) in pieces(offset, bytes, PAGE) {
            if ZEROS.starts_with(part) && !self.pages.contains_key(&page) {
                continue;
            }
            let content = self.pages.entry(page).or_insert_with(|| Arc::new(ZEROS));
            if let Some(place) = Arc::make_mut(content).get_mut(start..start + part.len()) {
                place.copy_from_slice(part);
            }
        }
        self.length = self.length.max(offset.saturating_add(widen(bytes.len())));
    }

    pub(super) fn set_length(&mut self, length: u64) {
        let old = std::mem::replace(&mut self.length, length);
        if length < old {
            let (last, inside) = (length / widen(PAGE), length % widen(PAGE));
            self.pages.retain(|page, _| *page < last || (*page == last && inside > 0));
            if let Some(page) = self.pages.get_mut(&last)
                && let Some(rest) =
                    Arc::make_mut(page).get_mut(usize::try_from(inside).unwrap_or(PAGE)..)
            {
                rest.fill(0);
            }
        }
    }

    fn is_zero_page(&self, page: u64) -> bool {
        self.pages.get(&page).is_none_or(|page| **page == ZEROS)
    }
}

/// A part of a write, inside of one sector.
#[derive(Debug, Clone)]
struct Part {
    write: u64,
    offset: u64,
    bytes: Vec<u8>,
}

/// A file.
#[derive(Debug, Clone, Default)]
pub(super) struct FileImage {
    pub(super) now: Image,
    pub(super) durable: Image,
    /// What may or may not be on the medium, in order.
    unsynced: Vec<Part>,
    /// Pages that the next sync writes.
    dirty: BTreeSet<u64>,
    writes: u64,
}

impl FileImage {
    /// Write those sectors that `keeps` wants.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8], mut keeps: impl FnMut() -> bool) {
        self.writes += 1;
        for (page, start, part) in pieces(offset, bytes, PAGE) {
            let is_nothing_new = ZEROS.starts_with(part)
                && self.now.is_zero_page(page)
                && self.durable.is_zero_page(page);
            let at = page * widen(PAGE) + widen(start);
            if is_nothing_new {
                self.now.length = self.now.length.max(at + widen(part.len()));
                continue;
            }
            for (sector, start, part) in pieces(at, part, SECTOR) {
                if keeps() {
                    let offset = sector * widen(SECTOR) + widen(start);
                    self.now.write(offset, part);
                    self.dirty.insert(page);
                    self.unsynced.push(Part { write: self.writes, offset, bytes: part.to_vec() });
                }
            }
        }
    }

    /// Make the file longer or shorter.
    pub(super) fn set_length(&mut self, length: u64) {
        if length < self.now.length {
            // Writes behind the new end are gone; what of them survives would be cut off anyway.
            self.unsynced.retain(|part| part.offset < length);
        }
        self.now.set_length(length);
    }

    /// A sync that does what it says.
    pub(super) fn sync(&mut self) {
        for page in &self.dirty {
            match self.now.pages.get(page) {
                Some(content) => self.durable.pages.insert(*page, content.clone()),
                None => self.durable.pages.remove(page),
            };
        }
        let dirty = std::mem::take(&mut self.dirty);
        self.unsynced.retain(|part| !dirty.contains(&(part.offset / widen(PAGE))));
        self.durable.set_length(self.now.length);
    }

    /// A sync that fails.
    pub(super) fn mark_clean(&mut self) {
        self.dirty.clear();
    }

    /// How many things can be lost.
    pub(super) fn unsynced(&self) -> usize {
        self.unsynced.len() + usize::from(self.now.length != self.durable.length)
    }

    /// Lose what `survives` does not want; it is asked once for each thing, with the number of
    /// the write that it belongs to, the length coming first as write 0.
    pub(super) fn lose(&mut self, mut survives: impl FnMut(u64) -> bool) {
        let keeps_length = self.now.length != self.durable.length && survives(0);
        let length = if keeps_length { self.now.length } else { self.durable.length };
        for part in std::mem::take(&mut self.unsynced) {
            if survives(part.write) {
                self.durable.write(part.offset, &part.bytes);
            }
        }
        self.durable.set_length(length);
        self.dirty.clear();
        self.now = self.durable.clone();
    }
}

/// Cut bytes at the multiples of `size`: the number of each block, the start in it, the bytes.
fn pieces(offset: u64, bytes: &[u8], size: usize) -> impl Iterator<Item = (u64, usize, &[u8])> {
    let (mut at, mut rest) = (offset, bytes);
    std::iter::from_fn(move || {
        let start = usize::try_from(at % widen(size)).ok()?;
        let (part, behind) = rest.split_at(rest.len().min(size - start));
        let block = at / widen(size);
        at += widen(part.len());
        rest = behind;
        (!part.is_empty()).then_some((block, start, part))
    })
}

fn pieces_mut(offset: u64, bytes: &mut [u8]) -> impl Iterator<Item = (u64, usize, &mut [u8])> {
    let (mut at, mut rest) = (offset, bytes);
    std::iter::from_fn(move || {
        let start = usize::try_from(at % widen(PAGE)).ok()?;
        let room = rest.len().min(PAGE - start);
        let (part, behind) = std::mem::take(&mut rest).split_at_mut(room);
        let block = at / widen(PAGE);
        at += widen(part.len());
        rest = behind;
        (!part.is_empty()).then_some((block, start, part))
    })
}

pub(super) fn widen(count: usize) -> u64 {
    u64::try_from(count).expect("no supported machine has longer slices")
}
