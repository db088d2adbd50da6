//! Power loss: the device profiles, and the selection of the unsynced changes that survive.
//!
//! Invariant: the same loss of the same changes gives the same bytes.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::paged_bytes::{SECTOR, pieces};
use super::random::Random;
use crate::format::to_u64;

/// The guarantees of a device about unsynced writes at a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Powersafe overwrite: bytes outside the range of a write are never damaged. Inside it, each
    /// sector of 512 bytes is lost, kept, torn at any byte, or garbage.
    Psow512,
    /// The same with sectors of 4096 bytes.
    Psow4096,
    /// A sector of 512 bytes is either as before or as after a write, and a later write to it never
    /// survives without the earlier ones. The log format relies on this profile.
    #[default]
    AtomicSector,
    /// The changes of a file, its length included, survive in order; a prefix of the first lost change
    /// may survive. Files are independent.
    OrderedAppend,
    /// As [`Profile::Psow512`], but a torn write may turn adjacent bytes into garbage: the rest of the
    /// sectors that it touched, and one sector on each side. This breaks the contract.
    NonPsow,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 5] =
        [Self::AtomicSector, Self::OrderedAppend, Self::Psow512, Self::Psow4096, Self::NonPsow];

    /// The name on the command line.
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

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// Whether a power loss can keep a part of a sector.
    #[must_use]
    pub fn tears_sectors(self) -> bool {
        self != Self::AtomicSector
    }

    fn unit(self) -> usize {
        match self {
            Self::Psow4096 => 8 * SECTOR,
            Self::Psow512 | Self::AtomicSector | Self::OrderedAppend | Self::NonPsow => SECTOR,
        }
    }
}

/// The unsynced changes that a power loss loses. They are numbered as
/// [`SimDisk::unsynced`](super::SimDisk::unsynced) counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// All.
    Everything,
    /// None.
    Nothing,
    /// All changes except those with a set bit, to enumerate the subsets of few changes. If the
    /// [`Profile`] keeps an order, changes after a lost one are lost as well.
    AllBut(u64),
    /// A random selection by the seed: of each write nothing, everything, a prefix, some sectors,
    /// or any bytes and garbage, as far as the [`Profile`] permits; one of the lengths of each
    /// file; some of the entries.
    Some(u64),
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("all"),
            Self::Nothing => f.write_str("none"),
            Self::AllBut(mask) => write!(f, "but{mask}"),
            Self::Some(seed) => write!(f, "seed{seed}"),
        }
    }
}

/// A piece of a write, inside one page.
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
    /// The number of units that a device can lose independently.
    pub(super) fn units(&self, profile: Profile) -> usize {
        pieces(self.offset, &self.bytes, profile.unit()).count()
    }
}

/// The surviving part of a write, or of a unit of it.
#[derive(Debug, Clone, Copy)]
enum Survival {
    Lost,
    Kept,
    /// The bytes before that offset of the file.
    Prefix(u64),
    /// Each unit is lost or kept.
    Units,
    /// Each unit has any of these outcomes.
    Mixed,
    /// Each byte is lost or kept.
    Bytes,
    /// Garbage, mixed with written bytes.
    Garbage,
}

/// Selects the changes that survive one power loss.
#[derive(Debug)]
pub(super) struct LossPlan {
    loss: Loss,
    pub(super) profile: Profile,
    random: Random,
    decided: u32,
    /// The number of changes that survived completely.
    pub(super) kept: u32,
    /// The current write and its outcome.
    current: Option<(u64, Survival)>,
    /// Sectors of the file that lost a write.
    lost_sectors: BTreeSet<u64>,
    /// Ranges of the torn writes of the file.
    torn: Vec<(u64, u64)>,
}

impl LossPlan {
    pub(super) fn new(loss: Loss, profile: Profile) -> Self {
        let random = Random(if let Loss::Some(seed) = loss { seed } else { 0 });
        let (lost_sectors, torn) = (BTreeSet::new(), Vec::new());
        Self { loss, profile, random, decided: 0, kept: 0, current: None, lost_sectors, torn }
    }

    /// How many changes were lost or torn.
    pub(super) fn lost(&self) -> u32 {
        self.decided - self.kept
    }

    /// Start with the next file.
    pub(super) fn next_file(&mut self) {
        self.current = None;
        self.lost_sectors.clear();
        self.torn.clear();
    }

    fn bit(&self, number: u32) -> bool {
        match self.loss {
            Loss::Everything | Loss::Some(_) => false,
            Loss::Nothing => true,
            Loss::AllBut(mask) => mask.checked_shr(number).unwrap_or(0) & 1 == 1,
        }
    }

    /// Whether the next atomic change survives.
    pub(super) fn survives(&mut self) -> bool {
        let survives = match self.loss {
            Loss::Some(_) => self.random.coin(),
            _ => self.bit(self.decided),
        };
        self.decided += 1;
        self.kept += u32::from(survives);
        survives
    }

    /// How many length changes of a file survive, counted from the first.
    pub(super) fn lengths(&mut self, count: usize) -> usize {
        let survives = self.survives();
        match self.loss {
            Loss::Some(_) if self.random.coin() => self.index(count + 1),
            _ if survives => count,
            _ => 0,
        }
    }

    /// How many changes of a file survive, if they survive in order.
    pub(super) fn in_order(&mut self, count: usize) -> usize {
        let decided = self.decided;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let kept = match self.loss {
            Loss::Some(_) => {
                let bound = u64::from(count) + 1;
                u32::try_from(self.random.below(bound)).unwrap_or(count)
            }
            _ => (0..count)
                .take_while(|number| self.bit(decided.saturating_add(*number)))
                .count()
                .try_into()
                .unwrap_or(count),
        };
        self.decided = decided.saturating_add(count);
        self.kept += kept;
        usize::try_from(kept).unwrap_or(usize::MAX)
    }

    /// How many bytes survive of the first lost change: less than all.
    pub(super) fn part(&mut self, length: usize) -> usize {
        if matches!(self.loss, Loss::Some(_)) { self.index(length) } else { 0 }
    }

    fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.below(to_u64(bound))).unwrap_or(0)
    }

    /// Call `put` with the offset and bytes of every part of an extent that survives.
    pub(super) fn apply(&mut self, extent: &Extent, mut put: impl FnMut(u64, &[u8])) {
        let unit = self.profile.unit();
        for (block, start, bytes) in pieces(extent.offset, &extent.bytes, unit) {
            let offset = block * to_u64(unit) + to_u64(start);
            let mut survival = self.survival(extent, offset);
            let atomic = self.profile == Profile::AtomicSector;
            if atomic && self.lost_sectors.contains(&block) {
                survival = Survival::Lost;
            }
            if atomic && !matches!(survival, Survival::Kept) {
                self.lost_sectors.insert(block);
            }
            self.kept += u32::from(matches!(survival, Survival::Kept));
            self.apply_unit(survival, offset, bytes, &mut put);
        }
    }

    /// The surviving part of the next unit of an extent.
    fn survival(&mut self, extent: &Extent, offset: u64) -> Survival {
        let number = self.decided;
        self.decided += 1;
        if !matches!(self.loss, Loss::Some(_)) {
            return if self.bit(number) { Survival::Kept } else { Survival::Lost };
        }
        let survival = match self.current {
            Some((same, survival)) if same == extent.write => survival,
            _ => self.draw(extent),
        };
        self.current = Some((extent.write, survival));
        let kept_or_lost = |kept| if kept { Survival::Kept } else { Survival::Lost };
        match survival {
            Survival::Units => kept_or_lost(self.random.coin()),
            Survival::Mixed => match self.random.below(4) {
                0 => Survival::Bytes,
                1 => Survival::Garbage,
                other => kept_or_lost(other == 2),
            },
            Survival::Prefix(end) if self.profile == Profile::AtomicSector => {
                // Sectors are not torn: the prefix ends at the start of a sector.
                let sector = |offset: u64| offset / to_u64(SECTOR);
                kept_or_lost(sector(offset) < sector(end))
            }
            whole => whole,
        }
    }

    fn draw(&mut self, extent: &Extent) -> Survival {
        let bound = if self.profile == Profile::AtomicSector { 4 } else { 5 };
        let survival = match self.random.below(bound) {
            0 => Survival::Lost,
            1 => Survival::Kept,
            2 => Survival::Prefix(extent.start + self.random.below(extent.end - extent.start)),
            3 => Survival::Units,
            _ => Survival::Mixed,
        };
        if !matches!(survival, Survival::Lost | Survival::Kept) {
            self.torn.push((extent.start, extent.end));
        }
        survival
    }

    fn apply_unit(
        &mut self,
        survival: Survival,
        offset: u64,
        bytes: &[u8],
        put: &mut impl FnMut(u64, &[u8]),
    ) {
        match survival {
            Survival::Kept => put(offset, bytes),
            Survival::Lost | Survival::Units | Survival::Mixed => {}
            Survival::Prefix(end) => {
                let count = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
                put(offset, bytes.get(..count).unwrap_or(bytes));
            }
            Survival::Bytes => {
                for (at, byte) in (offset..).zip(bytes) {
                    if self.random.coin() {
                        put(at, &[*byte]);
                    }
                }
            }
            Survival::Garbage => {
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

    /// Garbage that the torn writes of the file leave next to them, below a length.
    pub(super) fn collateral_damage(&mut self, length: u64) -> Vec<(u64, Vec<u8>)> {
        let mut garbage = Vec::new();
        if self.profile != Profile::NonPsow {
            return garbage;
        }
        let sector = to_u64(SECTOR);
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
