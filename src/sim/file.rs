//! A file: its bytes and length as they look, and as they are on the medium.
//!
//! Invariants: what tells the two apart is in `changes`, or the page is in `false_pages`; after a
//! power loss they are the same.

use std::collections::BTreeSet;
use std::ops::Range;

use super::image::{Image, PAGE, SECTOR, is_zero, pieces, widen};
use super::loss::{Extent, Fates, Profile};
use super::random::Random;
use crate::format::ContentHasher;

/// What was done since the last sync.
#[derive(Debug, Clone)]
enum Change {
    Bytes(Extent),
    Length(u64),
}

#[derive(Debug, Clone, Default)]
pub(super) struct FileImage {
    /// As it looks: the page cache.
    pub(super) now: Image,
    /// As it is on the medium.
    pub(super) durable: Image,
    /// What may or may not be on the medium, in order.
    changes: Vec<Change>,
    /// Pages that the next sync writes.
    dirty: BTreeSet<u64>,
    /// Pages of which the medium holds something else than the device said.
    false_pages: BTreeSet<u64>,
    /// The shortest that it was made since the last sync.
    cut: Option<u64>,
    /// Whether a sync failed: changes may be left that no sync writes.
    has_failed: bool,
    writes: u64,
    /// Ranges that cannot be read.
    bad: Vec<Range<u64>>,
    /// Whether it may be opened for reading only.
    pub(super) is_read_only: bool,
}

fn page_of(extent: &Extent) -> u64 {
    extent.offset / widen(PAGE)
}

impl FileImage {
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.writes += 1;
        let (write, end) = (self.writes, offset + widen(bytes.len()));
        for (page, start, part) in pieces(offset, bytes, PAGE) {
            if is_zero(part) && self.is_hole(page) {
                continue;
            }
            let at = page * widen(PAGE) + widen(start);
            let extent = Extent { write, start: offset, end, offset: at, bytes: part.into() };
            self.changes.push(Change::Bytes(extent));
            self.dirty.insert(page);
            self.write_now(at, part);
        }
        self.grow(offset, bytes);
    }

    /// Write to the cache alone: the device says that it took it, and did not.
    pub(super) fn write_falsely(&mut self, offset: u64, bytes: &[u8]) {
        self.false_pages.extend(pieces(offset, bytes, PAGE).map(|(page, ..)| page));
        self.write_now(offset, bytes);
        self.grow(offset, bytes);
    }

    /// Write to the medium alone, as far as the file goes: how much that was.
    pub(super) fn land_wrongly(&mut self, offset: u64, bytes: &[u8]) -> usize {
        let rest = self.durable.length.saturating_sub(offset);
        let count = bytes.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        let bytes = bytes.get(..count).unwrap_or(bytes);
        self.false_pages.extend(pieces(offset, bytes, PAGE).map(|(page, ..)| page));
        self.durable.write(offset, bytes);
        count
    }

    /// Turn one bit of the medium: where, unless the file is empty there.
    pub(super) fn rot(&mut self, random: &mut Random) -> Option<(u64, u8)> {
        let pages: Vec<u64> = self.durable.pages_from(0).collect();
        let offset = match pages.get(usize::try_from(random.below(widen(pages.len()))).ok()?) {
            // Holes rot too, but what is in use is more of a test.
            Some(page) if random.coin() => page * widen(PAGE) + random.below(widen(PAGE)),
            _ => random.below(self.durable.length),
        };
        let bit = u8::try_from(random.below(8)).unwrap_or(0);
        let [byte] = <[u8; 1]>::try_from(self.durable.read(offset, 1)).ok()?;
        self.land_wrongly(offset, &[byte ^ (1 << bit)]);
        Some((offset, bit))
    }

    /// Bytes as they look, the length left as it is.
    fn write_now(&mut self, offset: u64, bytes: &[u8]) {
        let length = self.now.length;
        self.now.write(offset, bytes);
        self.now.length = length;
    }

    fn grow(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + widen(bytes.len());
        if !bytes.is_empty() && end > self.now.length {
            self.now.length = end;
            self.changes.push(Change::Length(end));
        }
    }

    /// Whether a page is zero whatever becomes of the changes.
    fn is_hole(&self, page: u64) -> bool {
        let is_dirty = self.has_failed || self.dirty.contains(&page);
        !is_dirty && self.now.page(page).is_none() && self.durable.page(page).is_none()
    }

    /// Make the file longer or shorter.
    pub(super) fn set_length(&mut self, length: u64) {
        if length == self.now.length {
            return;
        }
        if length < self.now.length {
            self.cut = Some(self.cut.map_or(length, |cut| cut.min(length)));
        }
        self.now.set_length(length);
        self.changes.push(Change::Length(length));
    }

    /// A sync that does what it says.
    pub(super) fn sync(&mut self) {
        if self.is_settled() {
            return;
        }
        let written = (!self.false_pages.is_empty()).then(|| self.written());
        if let Some(cut) = self.cut.take().filter(|cut| *cut < self.durable.length) {
            self.durable.set_length(cut);
        }
        let dirty = std::mem::take(&mut self.dirty);
        for page in &dirty {
            let source = written.as_ref().filter(|_| self.false_pages.contains(page));
            let content = source.unwrap_or(&self.now).page(*page).cloned();
            self.durable.put(*page, content);
        }
        self.changes.retain(
            |change| matches!(change, Change::Bytes(extent) if !dirty.contains(&page_of(extent))),
        );
        self.durable.set_length(self.now.length);
    }

    /// What the medium would hold if all dirty bytes were written, and no others.
    fn written(&self) -> Image {
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

    /// A sync that fails: the bytes stay in the cache, and no sync writes them any more.
    pub(super) fn mark_clean(&mut self) {
        self.dirty.clear();
        self.has_failed = true;
    }

    /// A sync that fails: the cache forgets what was to be written, and holds what is on the
    /// medium. The length stays.
    pub(super) fn revert(&mut self) {
        let mut medium = self.durable.clone();
        if let Some(cut) = self.cut {
            medium.set_length(cut.min(medium.length));
        }
        medium.set_length(medium.length.min(self.now.length));
        let dirty = std::mem::take(&mut self.dirty);
        for page in &dirty {
            self.now.put(*page, medium.page(*page).cloned());
        }
        self.changes.retain(
            |change| !matches!(change, Change::Bytes(extent) if dirty.contains(&page_of(extent))),
        );
        self.has_failed = true;
    }

    /// Read back from the medium whatever is not about to be written to it.
    pub(super) fn drop_cache(&mut self) {
        let pending = self.pages_of_changes();
        for page in std::mem::take(&mut self.false_pages) {
            if pending.contains(&page) {
                self.false_pages.insert(page);
            } else {
                self.now.put(page, self.durable.page(page).cloned());
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

    /// Change bytes as they look and as they are on the medium.
    pub(super) fn overwrite(&mut self, offset: u64, bytes: &[u8]) {
        self.now.write(offset, bytes);
        self.durable.write(offset, bytes);
    }

    /// Change the length as it looks and as it is on the medium.
    pub(super) fn force_length(&mut self, length: u64) {
        self.now.set_length(length);
        self.durable.set_length(length);
    }

    /// Let a range, widened to whole sectors, be unreadable.
    pub(super) fn spoil(&mut self, range: &Range<u64>) {
        let sector = widen(SECTOR);
        let end = range.end.div_ceil(sector).saturating_mul(sector);
        self.bad.push(range.start / sector * sector..end);
    }

    /// Where in a range the first sector is that cannot be read.
    pub(super) fn first_bad(&self, offset: u64, count: usize) -> Option<u64> {
        let end = offset.saturating_add(widen(count)).min(self.now.length);
        let overlaps = self.bad.iter().filter(|bad| bad.start < end && offset < bad.end);
        overlaps.map(|bad| bad.start.max(offset)).min()
    }

    fn is_settled(&self) -> bool {
        self.changes.is_empty()
            && self.false_pages.is_empty()
            && self.now.length == self.durable.length
    }

    /// Everything that tells it from another file.
    pub(super) fn digest(&self, hasher: &mut ContentHasher) {
        self.now.digest(hasher);
        hasher.update(&[u8::from(self.is_read_only), u8::from(self.is_safe())]);
        if !self.is_safe() {
            self.durable.digest(hasher);
            hasher.update(&widen(self.changes.len()).to_le_bytes());
            self.dirty.iter().for_each(|page| hasher.update(&page.to_le_bytes()));
        }
        for Range { start, end } in &self.bad {
            hasher.update(&start.to_le_bytes());
            hasher.update(&end.to_le_bytes());
        }
    }

    /// Whether a power loss changes nothing.
    pub(super) fn is_safe(&self) -> bool {
        self.is_settled() && !self.has_failed && self.dirty.is_empty()
    }

    /// How many things can be lost.
    pub(super) fn unsynced(&self, profile: Profile) -> usize {
        let units = |change: &Change| match change {
            Change::Bytes(extent) => extent.units(profile),
            Change::Length(_) => usize::from(profile == Profile::OrderedAppend),
        };
        let has_length = self.changes.iter().any(|change| matches!(change, Change::Length(_)));
        let own = usize::from(has_length && profile != Profile::OrderedAppend);
        self.changes.iter().map(units).sum::<usize>() + own
    }

    /// Lose what the fates do not spare: the ranges that became garbage although nobody wrote
    /// to them.
    pub(super) fn lose(&mut self, fates: &mut Fates) -> Vec<Range<u64>> {
        if self.is_safe() {
            return Vec::new();
        }
        fates.next_file();
        let changes = std::mem::take(&mut self.changes);
        if fates.profile == Profile::OrderedAppend {
            self.land_in_order(&changes, fates);
        } else {
            self.land_in_any_order(&changes, fates);
        }
        let mut harmed = Vec::new();
        for (offset, garbage) in fates.spread(self.durable.length) {
            harmed.push(offset..offset + widen(garbage.len()));
            self.durable.write(offset, &garbage);
        }
        self.dirty.clear();
        self.false_pages.clear();
        (self.cut, self.has_failed) = (None, false);
        self.now = self.durable.clone();
        harmed
    }

    fn land_in_any_order(&mut self, changes: &[Change], fates: &mut Fates) {
        let lengths = changes.iter().filter_map(|change| match change {
            Change::Bytes(_) => None,
            Change::Length(length) => Some(*length),
        });
        let lengths: Vec<u64> = lengths.collect();
        let kept = if lengths.is_empty() { 0 } else { fates.lengths(lengths.len()) };
        let last = kept.checked_sub(1).and_then(|last| lengths.get(last).copied());
        let length = last.unwrap_or(self.durable.length);
        let mut passed = 0;
        for change in changes {
            match change {
                Change::Bytes(extent) => {
                    fates.land(extent, |offset, bytes| self.durable.write(offset, bytes));
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

    fn land_in_order(&mut self, changes: &[Change], fates: &mut Fates) {
        let units = changes.iter().flat_map(|change| {
            let (bytes, length) = match change {
                Change::Bytes(extent) => (Some(extent), None),
                Change::Length(length) => (None, Some((0, Vec::new(), Some(*length)))),
            };
            let sectors = bytes.into_iter().flat_map(|extent| {
                pieces(extent.offset, &extent.bytes, SECTOR).map(|(sector, start, bytes)| {
                    (sector * widen(SECTOR) + widen(start), bytes.to_vec(), None)
                })
            });
            sectors.chain(length)
        });
        let units: Vec<(u64, Vec<u8>, Option<u64>)> = units.collect();
        let kept = fates.in_order(units.len());
        for (offset, bytes, length) in units.iter().take(kept) {
            match length {
                Some(length) => self.durable.set_length(*length),
                None => self.durable.write(*offset, bytes),
            }
        }
        if let Some((offset, bytes, None)) = units.get(kept) {
            let count = fates.part(bytes.len());
            self.durable.write(*offset, bytes.get(..count).unwrap_or(bytes));
        }
    }
}
