//! A file: its bytes and length, both as cached and as durable.
//!
//! Invariant: every difference between the two is in `changes`, or its page is in `diverged_pages`.
//! After a power loss they are equal.

use std::collections::BTreeSet;
use std::ops::Range;

use super::loss::{Extent, LossPlan, Profile};
use super::paged_bytes::{PAGE, PagedBytes, SECTOR, is_zero, pieces};
use super::random::Random;
use crate::format::{ContentHasher, to_u64};

/// A change since the last sync.
#[derive(Debug, Clone)]
enum Change {
    Bytes(Extent),
    Length(u64),
}

#[derive(Debug, Clone, Default)]
pub(super) struct FileImage {
    /// The page cache, which reads return.
    pub(super) cached: PagedBytes,
    /// The bytes that survive every power loss.
    pub(super) durable: PagedBytes,
    /// Changes that may or may not survive, in order.
    changes: Vec<Change>,
    /// Pages that the next sync writes.
    dirty: BTreeSet<u64>,
    /// Pages with durable bytes that differ from those that the device reported.
    diverged_pages: BTreeSet<u64>,
    /// The smallest length since the last sync.
    least_length: Option<u64>,
    /// Whether a sync failed: some changes may never be written by a sync.
    has_failed: bool,
    writes: u64,
    unreadable: Vec<Range<u64>>,
    /// Whether the file has no write permission.
    pub(super) is_read_only: bool,
}

fn page_of(extent: &Extent) -> u64 {
    extent.offset / to_u64(PAGE)
}

impl FileImage {
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.writes += 1;
        let (write, end) = (self.writes, offset + to_u64(bytes.len()));
        for (page, start, part) in pieces(offset, bytes, PAGE) {
            if is_zero(part) && self.is_hole(page) {
                continue;
            }
            let at = page * to_u64(PAGE) + to_u64(start);
            let extent = Extent { write, start: offset, end, offset: at, bytes: part.into() };
            self.changes.push(Change::Bytes(extent));
            self.dirty.insert(page);
            self.write_cached(at, part);
        }
        self.grow(offset, bytes);
    }

    /// Write to the cache only: the device acknowledges the write and loses it.
    pub(super) fn write_cache_only(&mut self, offset: u64, bytes: &[u8]) {
        self.diverged_pages.extend(pieces(offset, bytes, PAGE).map(|(page, ..)| page));
        self.write_cached(offset, bytes);
        self.grow(offset, bytes);
    }

    /// Write to the durable bytes only, up to the end of the file. Returns the number of bytes.
    pub(super) fn write_durable_only(&mut self, offset: u64, bytes: &[u8]) -> usize {
        let rest = self.durable.length.saturating_sub(offset);
        let count = bytes.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        let bytes = bytes.get(..count).unwrap_or(bytes);
        self.diverged_pages.extend(pieces(offset, bytes, PAGE).map(|(page, ..)| page));
        self.durable.write(offset, bytes);
        count
    }

    /// Flip one durable bit. Returns its byte and bit, unless the file is empty.
    pub(super) fn flip_bit(&mut self, random: &mut Random) -> Option<(u64, u8)> {
        let pages: Vec<u64> = self.durable.pages_from(0).collect();
        let offset = match pages.get(usize::try_from(random.below(to_u64(pages.len()))).ok()?) {
            // Holes can rot as well, but pages in use are the better test.
            Some(page) if random.coin() => page * to_u64(PAGE) + random.below(to_u64(PAGE)),
            _ => random.below(self.durable.length),
        };
        let bit = u8::try_from(random.below(8)).unwrap_or(0);
        let [byte] = <[u8; 1]>::try_from(self.durable.read(offset, 1)).ok()?;
        self.write_durable_only(offset, &[byte ^ (1 << bit)]);
        Some((offset, bit))
    }

    /// Write to the cache without changing the length.
    fn write_cached(&mut self, offset: u64, bytes: &[u8]) {
        let length = self.cached.length;
        self.cached.write(offset, bytes);
        self.cached.length = length;
    }

    fn grow(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + to_u64(bytes.len());
        if !bytes.is_empty() && end > self.cached.length {
            self.cached.length = end;
            self.changes.push(Change::Length(end));
        }
    }

    /// Whether a page is zero for every set of surviving changes.
    fn is_hole(&self, page: u64) -> bool {
        let is_dirty = self.has_failed || self.dirty.contains(&page);
        !is_dirty && self.cached.page(page).is_none() && self.durable.page(page).is_none()
    }

    /// Extend or truncate the file.
    pub(super) fn set_length(&mut self, length: u64) {
        if length == self.cached.length {
            return;
        }
        if length < self.cached.length {
            self.least_length = Some(self.least_length.map_or(length, |least| least.min(length)));
        }
        self.cached.set_length(length);
        self.changes.push(Change::Length(length));
    }

    /// A successful sync.
    pub(super) fn sync(&mut self) {
        if self.is_settled() {
            return;
        }
        let written = (!self.diverged_pages.is_empty()).then(|| self.written());
        if let Some(least) = self.least_length.take().filter(|least| *least < self.durable.length) {
            self.durable.set_length(least);
        }
        let dirty = std::mem::take(&mut self.dirty);
        for page in &dirty {
            let source = written.as_ref().filter(|_| self.diverged_pages.contains(page));
            let content = source.unwrap_or(&self.cached).page(*page).cloned();
            self.durable.put(*page, content);
        }
        self.changes.retain(
            |change| matches!(change, Change::Bytes(extent) if !dirty.contains(&page_of(extent))),
        );
        self.durable.set_length(self.cached.length);
    }

    /// The durable bytes after writing the dirty pages and no other pages.
    fn written(&self) -> PagedBytes {
        let mut image = self.durable.clone();
        for change in &self.changes {
            match change {
                Change::Bytes(extent) if self.dirty.contains(&page_of(extent)) => {
                    image.write(extent.offset, &extent.bytes);
                }
                Change::Bytes(_) => {}
                Change::Length(length) => image.set_length(*length),
            }
        }
        image
    }

    /// A failed sync: the bytes stay in the cache, and no later sync writes them.
    pub(super) fn mark_clean(&mut self) {
        self.dirty.clear();
        self.has_failed = true;
    }

    /// A failed sync: the cache discards the dirty pages and holds the durable bytes. The length stays.
    pub(super) fn revert(&mut self) {
        let mut durable = self.durable.clone();
        if let Some(least) = self.least_length {
            durable.set_length(least.min(durable.length));
        }
        durable.set_length(durable.length.min(self.cached.length));
        let dirty = std::mem::take(&mut self.dirty);
        for page in &dirty {
            self.cached.put(*page, durable.page(*page).cloned());
        }
        self.changes.retain(
            |change| !matches!(change, Change::Bytes(extent) if dirty.contains(&page_of(extent))),
        );
        self.has_failed = true;
    }

    /// Reload the clean pages from the durable bytes.
    pub(super) fn drop_cache(&mut self) {
        let pending = self.pages_of_changes();
        for page in std::mem::take(&mut self.diverged_pages) {
            if pending.contains(&page) {
                self.diverged_pages.insert(page);
            } else {
                self.cached.put(page, self.durable.page(page).cloned());
            }
        }
    }

    fn pages_of_changes(&self) -> BTreeSet<u64> {
        let extents = self.changes.iter().filter_map(|change| match change {
            Change::Bytes(extent) => Some(page_of(extent)),
            Change::Length(_) => None,
        });
        extents.collect()
    }

    /// Change bytes in the cache and durably.
    pub(super) fn overwrite(&mut self, offset: u64, bytes: &[u8]) {
        self.cached.write(offset, bytes);
        self.durable.write(offset, bytes);
    }

    /// Change the length in the cache and durably.
    pub(super) fn force_length(&mut self, length: u64) {
        self.cached.set_length(length);
        self.durable.set_length(length);
    }

    /// Make the sectors of a range unreadable.
    pub(super) fn make_unreadable(&mut self, range: &Range<u64>) {
        let sector = to_u64(SECTOR);
        let end = range.end.div_ceil(sector).saturating_mul(sector);
        self.unreadable.push(range.start / sector * sector..end);
    }

    pub(super) fn unreadable(&self) -> &[Range<u64>] {
        &self.unreadable
    }

    /// The first unreadable offset of a range.
    pub(super) fn first_unreadable(&self, offset: u64, count: usize) -> Option<u64> {
        let end = offset.saturating_add(to_u64(count)).min(self.cached.length);
        let overlaps = self.unreadable.iter().filter(|bad| bad.start < end && offset < bad.end);
        overlaps.map(|bad| bad.start.max(offset)).min()
    }

    fn is_settled(&self) -> bool {
        self.changes.is_empty()
            && self.diverged_pages.is_empty()
            && self.cached.length == self.durable.length
    }

    /// Hash everything that distinguishes the file from another.
    pub(super) fn digest(&self, hasher: &mut ContentHasher) {
        self.cached.digest(hasher);
        hasher.update(&[u8::from(self.is_read_only), u8::from(self.is_durable())]);
        if !self.is_durable() {
            self.durable.digest(hasher);
            hasher.update(&to_u64(self.changes.len()).to_le_bytes());
            self.dirty.iter().for_each(|page| hasher.update(&page.to_le_bytes()));
        }
        for Range { start, end } in &self.unreadable {
            hasher.update(&start.to_le_bytes());
            hasher.update(&end.to_le_bytes());
        }
    }

    /// Whether a power loss changes nothing.
    pub(super) fn is_durable(&self) -> bool {
        self.is_settled() && !self.has_failed && self.dirty.is_empty()
    }

    /// How many changes can be lost.
    pub(super) fn unsynced(&self, profile: Profile) -> usize {
        let units = |change: &Change| match change {
            Change::Bytes(extent) => extent.units(profile),
            Change::Length(_) => usize::from(profile == Profile::OrderedAppend),
        };
        let has_length = self.changes.iter().any(|change| matches!(change, Change::Length(_)));
        let own = usize::from(has_length && profile != Profile::OrderedAppend);
        self.changes.iter().map(units).sum::<usize>() + own
    }

    /// Apply a power loss. Returns the ranges outside every write that became garbage.
    pub(super) fn apply_loss(&mut self, plan: &mut LossPlan) -> Vec<Range<u64>> {
        if self.is_durable() {
            return Vec::new();
        }
        plan.next_file();
        let changes = std::mem::take(&mut self.changes);
        if plan.profile == Profile::OrderedAppend {
            self.apply_in_order(&changes, plan);
        } else {
            self.apply_in_any_order(&changes, plan);
        }
        let mut damaged = Vec::new();
        for (offset, garbage) in plan.collateral_damage(self.durable.length) {
            damaged.push(offset..offset + to_u64(garbage.len()));
            self.durable.write(offset, &garbage);
        }
        self.dirty.clear();
        self.diverged_pages.clear();
        (self.least_length, self.has_failed) = (None, false);
        self.cached = self.durable.clone();
        damaged
    }

    fn apply_in_any_order(&mut self, changes: &[Change], plan: &mut LossPlan) {
        let lengths = changes.iter().filter_map(|change| match change {
            Change::Bytes(_) => None,
            Change::Length(length) => Some(*length),
        });
        let lengths: Vec<u64> = lengths.collect();
        let kept = if lengths.is_empty() { 0 } else { plan.lengths(lengths.len()) };
        let last = kept.checked_sub(1).and_then(|last| lengths.get(last).copied());
        let length = last.unwrap_or(self.durable.length);
        let mut passed = 0;
        for change in changes {
            match change {
                Change::Bytes(extent) => {
                    plan.apply(extent, |offset, bytes| self.durable.write(offset, bytes));
                }
                Change::Length(length) => {
                    passed += 1;
                    if passed <= kept {
                        self.durable.set_length(*length);
                    }
                }
            }
        }
        self.durable.set_length(length);
    }

    fn apply_in_order(&mut self, changes: &[Change], plan: &mut LossPlan) {
        let units = changes.iter().flat_map(|change| {
            let (bytes, length) = match change {
                Change::Bytes(extent) => (Some(extent), None),
                Change::Length(length) => (None, Some((0, Vec::new(), Some(*length)))),
            };
            let sectors = bytes.into_iter().flat_map(|extent| {
                pieces(extent.offset, &extent.bytes, SECTOR).map(|(sector, start, bytes)| {
                    (sector * to_u64(SECTOR) + to_u64(start), bytes.to_vec(), None)
                })
            });
            sectors.chain(length)
        });
        let units: Vec<(u64, Vec<u8>, Option<u64>)> = units.collect();
        let kept = plan.in_order(units.len());
        for (offset, bytes, length) in units.iter().take(kept) {
            match length {
                Some(length) => self.durable.set_length(*length),
                None => self.durable.write(*offset, bytes),
            }
        }
        if let Some((offset, bytes, None)) = units.get(kept) {
            let count = plan.part(bytes.len());
            self.durable.write(*offset, bytes.get(..count).unwrap_or(bytes));
        }
    }
}
