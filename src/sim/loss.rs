//! What a power loss takes: kinds of devices, and the fate of each thing that was not synced.
//!
//! Invariant: the same loss of the same changes gives the same bytes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::image::{SECTOR, pieces, widen};
use super::random::Random;

/// What a device promises about writes that were under way when the power went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Powersafe overwrite: bytes outside of a write's range are never harmed. Inside of it each
    /// sector of 512 bytes is lost, kept, torn at any byte, or garbage.
    Psow512,
    /// The same with sectors of 4096 bytes.
    Psow4096,
    /// A sector of 512 bytes is as before or as after a write, and of several writes to it the
    /// later ones never land without the earlier ones. This is what the log's format relies on.
    #[default]
    AtomicSector,
    /// The changes of a file land in the order in which they were made, length included; of the
    /// first one that is lost a prefix may be there. Files are independent.
    OrderedAppend,
    /// As [`Profile::Psow512`], but a torn write may turn into garbage what stands beside it: the
    /// rest of the sectors that it touched, and a sector on each side. This breaks the contract.
    NonPsow,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::AtomicSector, Self::OrderedAppend, Self::Psow512, Self::Psow4096, Self::NonPsow];

    /// Its name on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Psow512 => "psow512",
            Self::Psow4096 => "psow4096",
            Self::AtomicSector => "atomic-sector",
            Self::OrderedAppend => "ordered-append",
            Self::NonPsow => "non-psow",
        }
    }

    /// The profile of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }

    fn unit(self) -> usize {
        match self {
            Self::Psow4096 => 8 * SECTOR,
            Self::Psow512 | Self::AtomicSector | Self::OrderedAppend | Self::NonPsow => SECTOR,
        }
    }
}

/// What a power loss takes of the things that were not synced, in the order in which
/// [`SimDisk::unsynced`](super::SimDisk::unsynced) counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// All of them.
    Everything,
    /// None of them.
    Nothing,
    /// All except those whose bit is set: for trying all ways when there are few of them. Where
    /// the [`Profile`] keeps an order, what follows a thing that was lost is lost too.
    AllBut(u64),
    /// Of each write none, all, a prefix, some sectors, or any bytes and garbage, as far as the
    /// [`Profile`] allows; of the lengths one that the file had; of the names some: as the seed
    /// says.
    Some(u64),
}

/// A piece of a write, inside of one page.
#[derive(Debug, Clone)]
pub(super) struct Extent {
    /// The number of the write in its file, and its range.
    pub(super) write: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) offset: u64,
    pub(super) bytes: Arc<[u8]>,
}

impl Extent {
    /// How many things a device can lose or keep of it by themselves.
    pub(super) fn units(&self, profile: Profile) -> usize {
        pieces(self.offset, &self.bytes, profile.unit()).count()
    }
}

/// What becomes of a write, or of a unit of it.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Lost,
    Kept,
    /// What is in front of that offset in the file.
    Prefix(u64),
    /// Each unit lost or kept.
    Units,
    /// Each unit any of these.
    Mixed,
    /// Each byte lost or kept.
    Bytes,
    /// Bytes that nobody wrote, among others.
    Garbage,
}

/// Says what survives one power loss.
#[derive(Debug)]
pub(super) struct Fates {
    loss: Loss,
    pub(super) profile: Profile,
    random: Random,
    asked: u32,
    /// How many of them were kept as they were.
    pub(super) kept: u32,
    /// The write that is being judged.
    current: Option<(u64, Fate)>,
    /// Sectors of the file that lost a write.
    stopped: BTreeSet<u64>,
    /// Writes of the file that were torn, by their range.
    torn: Vec<(u64, u64)>,
}

impl Fates {
    pub(super) fn new(loss: Loss, profile: Profile) -> Self {
        let random = Random(if let Loss::Some(seed) = loss { seed } else { 0 });
        let (stopped, torn) = (BTreeSet::new(), Vec::new());
        Self { loss, profile, random, asked: 0, kept: 0, current: None, stopped, torn }
    }

    /// How many things were lost, or not kept as they were.
    pub(super) fn lost(&self) -> u32 {
        self.asked - self.kept
    }

    /// What follows is another file.
    pub(super) fn next_file(&mut self) {
        self.current = None;
        self.stopped.clear();
        self.torn.clear();
    }

    fn bit(&self, number: u32) -> bool {
        match self.loss {
            Loss::Everything | Loss::Some(_) => false,
            Loss::Nothing => true,
            Loss::AllBut(mask) => mask.checked_shr(number).unwrap_or(0) & 1 == 1,
        }
    }

    /// Whether the next thing, which is whole or not there, survives.
    pub(super) fn survives(&mut self) -> bool {
        let survives = match self.loss {
            Loss::Some(_) => self.random.coin(),
            _ => self.bit(self.asked),
        };
        self.asked += 1;
        self.kept += u32::from(survives);
        survives
    }

    /// How many of a file's changes of its length survive: those before them do too.
    pub(super) fn lengths(&mut self, count: usize) -> usize {
        let survives = self.survives();
        match self.loss {
            Loss::Some(_) if self.random.coin() => self.index(count + 1),
            _ if survives => count,
            _ => 0,
        }
    }

    /// How many of a file's changes survive, if they land in order.
    pub(super) fn in_order(&mut self, count: usize) -> usize {
        let asked = self.asked;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let kept = match self.loss {
            Loss::Some(_) => {
                let bound = u64::from(count) + 1;
                u32::try_from(self.random.below(bound)).unwrap_or(count)
            }
            _ => (0..count)
                .take_while(|number| self.bit(asked.saturating_add(*number)))
                .count()
                .try_into()
                .unwrap_or(count),
        };
        self.asked = asked.saturating_add(count);
        self.kept += kept;
        usize::try_from(kept).unwrap_or(usize::MAX)
    }

    /// How much survives of the first change that is lost, less than all of it.
    pub(super) fn part(&mut self, length: usize) -> usize {
        if matches!(self.loss, Loss::Some(_)) { self.index(length) } else { 0 }
    }

    fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.below(widen(bound))).unwrap_or(0)
    }

    /// Let the medium have what survives of an extent: `put` is given offsets and bytes.
    pub(super) fn land(&mut self, extent: &Extent, mut put: impl FnMut(u64, &[u8])) {
        let unit = self.profile.unit();
        for (block, start, bytes) in pieces(extent.offset, &extent.bytes, unit) {
            let offset = block * widen(unit) + widen(start);
            let mut fate = self.fate(extent, offset);
            let atomic = self.profile == Profile::AtomicSector;
            if atomic && self.stopped.contains(&block) {
                fate = Fate::Lost;
            }
            if atomic && !matches!(fate, Fate::Kept) {
                self.stopped.insert(block);
            }
            self.kept += u32::from(matches!(fate, Fate::Kept));
            self.unit(fate, offset, bytes, &mut put);
        }
    }

    /// What becomes of the next unit of an extent.
    fn fate(&mut self, extent: &Extent, offset: u64) -> Fate {
        let number = self.asked;
        self.asked += 1;
        if !matches!(self.loss, Loss::Some(_)) {
            return if self.bit(number) { Fate::Kept } else { Fate::Lost };
        }
        let fate = match self.current {
            Some((same, fate)) if same == extent.write => fate,
            _ => self.draw(extent),
        };
        self.current = Some((extent.write, fate));
        let kept_or_lost = |kept| if kept { Fate::Kept } else { Fate::Lost };
        match fate {
            Fate::Units => kept_or_lost(self.random.coin()),
            Fate::Mixed => match self.random.below(4) {
                0 => Fate::Bytes,
                1 => Fate::Garbage,
                other => kept_or_lost(other == 2),
            },
            Fate::Prefix(end) if self.profile == Profile::AtomicSector => {
                // No sector is torn: the prefix ends where one starts.
                let sector = |offset: u64| offset / widen(SECTOR);
                kept_or_lost(sector(offset) < sector(end))
            }
            whole => whole,
        }
    }

    fn draw(&mut self, extent: &Extent) -> Fate {
        let bound = if self.profile == Profile::AtomicSector { 4 } else { 5 };
        let fate = match self.random.below(bound) {
            0 => Fate::Lost,
            1 => Fate::Kept,
            2 => Fate::Prefix(extent.start + self.random.below(extent.end - extent.start)),
            3 => Fate::Units,
            _ => Fate::Mixed,
        };
        if !matches!(fate, Fate::Lost | Fate::Kept) {
            self.torn.push((extent.start, extent.end));
        }
        fate
    }

    fn unit(&mut self, fate: Fate, offset: u64, bytes: &[u8], put: &mut impl FnMut(u64, &[u8])) {
        match fate {
            Fate::Kept => put(offset, bytes),
            Fate::Lost | Fate::Units | Fate::Mixed => {}
            Fate::Prefix(end) => {
                let count = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
                put(offset, bytes.get(..count).unwrap_or(bytes));
            }
            Fate::Bytes => {
                for (at, byte) in (offset..).zip(bytes) {
                    if self.random.coin() {
                        put(at, &[*byte]);
                    }
                }
            }
            Fate::Garbage => {
                let fill = self.random.below(8);
                for (at, byte) in (offset..).zip(bytes) {
                    match (fill, self.random.below(3)) {
                        (0, _) => put(at, &[0]),
                        (1, _) => put(at, &[0xFF]),
                        (2, _) | (_, 0) => put(at, &[self.random.byte()]),
                        (_, 1) => put(at, &[*byte]),
                        (..) => {}
                    }
                }
            }
        }
    }

    /// Garbage that torn writes of the file spread around them, below a length.
    pub(super) fn spread(&mut self, length: u64) -> Vec<(u64, Vec<u8>)> {
        let mut garbage = Vec::new();
        if self.profile != Profile::NonPsow {
            return garbage;
        }
        let sector = widen(SECTOR);
        for (start, end) in std::mem::take(&mut self.torn) {
            let first = (start / sector).saturating_sub(1) * sector;
            let last = (end.div_ceil(sector) + 1) * sector;
            for (from, to) in [(first, start.min(length)), (end, last.min(length))] {
                if from < to && self.random.coin() {
                    let count = self.random.below(to - from) + 1;
                    let from = if from < start { to - count } else { from };
                    garbage.push((from, (0..count).map(|_| self.random.byte()).collect()));
                }
            }
        }
        garbage
    }
}
