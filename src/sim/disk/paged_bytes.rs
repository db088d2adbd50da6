//! The bytes of a file in copy-on-write pages.
//!
//! Invariants: an absent page is zero, and so are all bytes after the length. A copy costs one
//! reference count per 256 KiB.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::format::{ContentHasher, to_u64};

pub(super) const PAGE: usize = 4096;
pub(super) const SECTOR: usize = 512;
/// Pages that share a reference count.
const CHUNK: usize = 64;
const ZEROS: [u8; PAGE] = [0; PAGE];

type Page = Arc<[u8; PAGE]>;

#[derive(Debug, Clone)]
struct Chunk([Option<Page>; CHUNK]);

impl Chunk {
    const EMPTY: Self = Self([const { None }; CHUNK]);

    fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

/// Bytes of any length, stored as pages.
#[derive(Debug, Clone, Default)]
pub(super) struct PagedBytes {
    pub(super) length: u64,
    chunks: BTreeMap<u64, Arc<Chunk>>,
}

fn slot_of(page: u64) -> (u64, usize) {
    let chunk = to_u64(CHUNK);
    (page / chunk, usize::try_from(page % chunk).expect("less than a chunk"))
}

impl PagedBytes {
    /// A page; `None` for a hole.
    pub(super) fn page(&self, page: u64) -> Option<&Page> {
        let (chunk, index) = slot_of(page);
        self.chunks.get(&chunk)?.0.get(index)?.as_ref()
    }

    /// Replace a page, or make it a hole.
    pub(super) fn put(&mut self, page: u64, content: Option<Page>) {
        if content.is_none() && self.page(page).is_none() {
            return;
        }
        *self.slot(page) = content;
    }

    fn slot(&mut self, page: u64) -> &mut Option<Page> {
        let (chunk, index) = slot_of(page);
        let chunk = self.chunks.entry(chunk).or_insert_with(|| Arc::new(Chunk::EMPTY));
        Arc::make_mut(chunk).0.get_mut(index).expect("an index below CHUNK")
    }

    /// Up to `count` bytes at `offset`, fewer at the end.
    pub(super) fn read(&self, offset: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count.min(self.rest(offset))];
        self.copy(offset, &mut bytes, |_| {});
        bytes
    }

    /// Read into a buffer up to the end. Returns the number of bytes.
    pub(super) fn read_into(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let count = buffer.len().min(self.rest(offset));
        if let Some(bytes) = buffer.get_mut(..count) {
            self.copy(offset, bytes, |hole| hole.fill(0));
        }
        count
    }

    fn rest(&self, offset: u64) -> usize {
        usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX)
    }

    fn copy(&self, offset: u64, bytes: &mut [u8], hole: impl Fn(&mut [u8])) {
        for (page, start, part) in pieces_mut(offset, bytes) {
            match self.page(page).and_then(|page| page.get(start..start + part.len())) {
                Some(content) => part.copy_from_slice(content),
                None => hole(part),
            }
        }
    }

    /// Write, and extend the length if necessary.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (page, start, part) in pieces(offset, bytes, PAGE) {
            if is_zero(part) && self.page(page).is_none() {
                continue;
            }
            let content = self.slot(page).get_or_insert_with(|| Arc::new(ZEROS));
            if let Some(target) = Arc::make_mut(content).get_mut(start..start + part.len()) {
                target.copy_from_slice(part);
            }
        }
        if !bytes.is_empty() {
            self.length = self.length.max(offset.saturating_add(to_u64(bytes.len())));
        }
    }

    pub(super) fn set_length(&mut self, length: u64) {
        let old = std::mem::replace(&mut self.length, length);
        if length >= old {
            return;
        }
        let (last, inside) = (length / to_u64(PAGE), length % to_u64(PAGE));
        let (last_chunk, _) = slot_of(last);
        self.chunks.split_off(&(last_chunk + 1));
        let first_gone = if inside == 0 { last } else { last + 1 };
        for page in first_gone..(last_chunk + 1) * to_u64(CHUNK) {
            self.put(page, None);
        }
        if self.chunks.get(&last_chunk).is_some_and(|chunk| chunk.is_empty()) {
            self.chunks.remove(&last_chunk);
        }
        if inside > 0 && self.page(last).is_some() {
            let page = self.slot(last).get_or_insert_with(|| Arc::new(ZEROS));
            let start = usize::try_from(inside).unwrap_or(PAGE);
            if let Some(rest) = Arc::make_mut(page).get_mut(start..) {
                rest.fill(0);
            }
        }
    }

    /// Hash the length and every nonzero page.
    pub(super) fn digest(&self, hasher: &mut ContentHasher) {
        hasher.update(&self.length.to_le_bytes());
        for number in self.pages_from(0) {
            if let Some(page) = self.page(number).filter(|page| !is_zero(&page[..])) {
                hasher.update(&number.to_le_bytes());
                hasher.update(&page[..]);
            }
        }
    }

    /// The numbers of the pages from `first` on that are not holes.
    pub(super) fn pages_from(&self, first: u64) -> impl Iterator<Item = u64> {
        let (chunk, _) = slot_of(first);
        let chunks = self.chunks.range(chunk..);
        chunks
            .flat_map(|(chunk, pages)| {
                let numbers = chunk * to_u64(CHUNK)..;
                numbers.zip(&pages.0).filter(|(_, page)| page.is_some()).map(|(number, _)| number)
            })
            .filter(move |page| *page >= first)
    }
}

pub(super) fn is_zero(bytes: &[u8]) -> bool {
    ZEROS.starts_with(bytes)
}

/// Split bytes at multiples of `size`: block number, start in the block, and bytes of each piece.
pub(super) fn pieces(
    offset: u64,
    bytes: &[u8],
    size: usize,
) -> impl Iterator<Item = (u64, usize, &[u8])> {
    let (mut at, mut rest) = (offset, bytes);
    std::iter::from_fn(move || {
        let start = usize::try_from(at % to_u64(size)).ok()?;
        let (part, tail) = rest.split_at(rest.len().min(size - start));
        let block = at / to_u64(size);
        at += to_u64(part.len());
        rest = tail;
        (!part.is_empty()).then_some((block, start, part))
    })
}

fn pieces_mut(offset: u64, bytes: &mut [u8]) -> impl Iterator<Item = (u64, usize, &mut [u8])> {
    let (mut at, mut rest) = (offset, bytes);
    std::iter::from_fn(move || {
        let start = usize::try_from(at % to_u64(PAGE)).ok()?;
        let room = rest.len().min(PAGE - start);
        let (part, tail) = std::mem::take(&mut rest).split_at_mut(room);
        let block = at / to_u64(PAGE);
        at += to_u64(part.len());
        rest = tail;
        (!part.is_empty()).then_some((block, start, part))
    })
}
