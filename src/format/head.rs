//! HEAD: two slots that record how far the log is durable.
//!
//! A slot repeats its record in each of its sectors, and the newest valid copy counts. So a write that a power loss
//! cuts or tears leaves a copy of the old record or of the new one, unless each sector is torn inside. A writer
//! overwrites the older slot, so that the other one stays even then. Recovery uses HEAD as evidence about acknowledged
//! records, and never trusts it alone.
//!
//! Invariants: at rest all copies of a slot are equal and the bytes between them are zero; a copy is valid or not
//! whatever the bytes around it are.

use super::bytes::{Uid, all_zero, array, put, u32_at, u64_at};
use super::hash::{Chain, crc32};

/// Size of one slot.
pub const HEAD_SLOT_SIZE: usize = 4096;
/// Size of the file: two slots.
pub const HEAD_SIZE: usize = 2 * HEAD_SLOT_SIZE;
/// The distance of the copies of a slot's record: the smallest sector of a device.
pub const HEAD_COPY_SIZE: usize = 512;
/// The bytes of a copy before the reserved ones.
pub const HEAD_FIELDS_SIZE: usize = at::RESERVED;

const MAGIC: [u8; 8] = *b"PLHEAD\r\n";

mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const LEDGER: usize = 8;
    pub(super) const GENERATION: usize = 24;
    pub(super) const WRITER_EPOCH: usize = 32;
    pub(super) const MODE: usize = 40;
    pub(super) const DURABLE_SEQ: usize = 48;
    pub(super) const ORDINAL: usize = 56;
    pub(super) const SEGMENT: usize = 64;
    pub(super) const DATA_END: usize = 80;
    pub(super) const CHAIN: usize = 88;
    pub(super) const STATE: usize = 120;
    pub(super) const BOOT: usize = 128;
    pub(super) const BOOT_MICROS: usize = 144;
    pub(super) const BOOT_TIME: usize = 152;
    pub(super) const CRC: usize = 160;
    pub(super) const RESERVED: usize = 164;
}

/// When HEAD itself is synced. The numbers are on disk; they differ in many bits, so that flipped
/// bits never turn one into another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "ledger", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum HeadSync {
    /// At open, rotation and close, and at the first commit a second after the last sync of HEAD.
    #[default]
    Interval,
    /// After every commit: twice the syncs, and no commit is uncertain after a power loss.
    EveryCommit,
}

impl HeadSync {
    fn number(self) -> u64 {
        match self {
            Self::Interval => 0x9E37_79B9_7F4A_7C15,
            Self::EveryCommit => 0x3C6E_F372_FE94_F82B,
        }
    }
}

/// The state of the last writer. The numbers are on disk; they differ in many bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadState {
    /// A writer has the ledger open, or crashed.
    Open,
    /// The last writer closed the ledger.
    Clean,
    /// A write or sync failed.
    Poisoned,
}

impl HeadState {
    fn number(self) -> u64 {
        match self {
            Self::Open => 0xD6E8_FEB8_6659_FD93,
            Self::Clean => 0x2917_0147_99A6_026C,
            Self::Poisoned => 0xA5A3_564E_27F8_862B,
        }
    }
}

/// A reading of a boot clock: it advances while a machine is up, and it cannot be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootTime {
    /// The boot; not zero. Readings of different boots cannot be compared.
    pub boot: Uid,
    /// Microseconds since that boot.
    pub micros: u64,
}

/// The ledger's time at a reading of a boot clock. From there it advances with that clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockAnchor {
    /// The reading.
    pub at: BootTime,
    /// The ledger's time, in microseconds since the Unix epoch.
    pub time: u64,
}

impl ClockAnchor {
    /// The ledger's time at a reading; `None` if it is of another boot.
    #[must_use]
    pub fn time_at(&self, now: BootTime) -> Option<u64> {
        let is_same_boot = now.boot == self.at.boot || mutant!(BootIdIgnored);
        let elapsed = now.micros.saturating_sub(self.at.micros);
        is_same_boot.then(|| self.time.saturating_add(elapsed))
    }
}

/// The content of one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The ledger.
    pub ledger: Uid,
    /// Increases with every write; the valid slot with the higher generation is used.
    pub generation: u64,
    /// The number of times the ledger was opened for writing.
    pub writer_epoch: u64,
    /// When HEAD is synced.
    pub mode: HeadSync,
    /// The last synced record.
    pub durable_seq: u64,
    /// Ordinal of the newest segment.
    pub ordinal: u64,
    /// Uid of that segment.
    pub segment: Uid,
    /// Offset past the last synced frame in that segment.
    pub data_end: u64,
    /// Chain value of record `durable_seq`.
    pub chain: Chain,
    /// State of the writer.
    pub state: HeadState,
    /// The ledger's time when it was opened; `None` if its writer had no boot clock.
    pub clock: Option<ClockAnchor>,
}

impl Head {
    /// Encode a slot: equal copies.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.encode_copy().repeat(HEAD_SLOT_SIZE / HEAD_COPY_SIZE)
    }

    fn encode_copy(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_COPY_SIZE];
        let out = bytes.as_mut_slice();
        put(out, at::MAGIC, &MAGIC);
        put(out, at::LEDGER, &self.ledger);
        put(out, at::GENERATION, &self.generation.to_le_bytes());
        put(out, at::WRITER_EPOCH, &self.writer_epoch.to_le_bytes());
        put(out, at::MODE, &self.mode.number().to_le_bytes());
        put(out, at::DURABLE_SEQ, &self.durable_seq.to_le_bytes());
        put(out, at::ORDINAL, &self.ordinal.to_le_bytes());
        put(out, at::SEGMENT, &self.segment);
        put(out, at::DATA_END, &self.data_end.to_le_bytes());
        put(out, at::CHAIN, &self.chain.0);
        put(out, at::STATE, &self.state.number().to_le_bytes());
        if let Some(ClockAnchor { at: BootTime { boot, micros }, time }) = &self.clock {
            put(out, at::BOOT, boot);
            put(out, at::BOOT_MICROS, &micros.to_le_bytes());
            put(out, at::BOOT_TIME, &time.to_le_bytes());
        }
        let crc = crc32(0, &[bytes.get(..at::CRC).unwrap_or_default()]);
        put(&mut bytes, at::CRC, &crc.to_le_bytes());
        bytes
    }

    /// Decode a slot: the newest of its valid copies; `None` if there is none, or if bytes are missing.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let copies = bytes.get(..HEAD_SLOT_SIZE)?.chunks(HEAD_COPY_SIZE);
        let copies = copies.take(if mutant!(HeadFirstCopyOnly) { 1 } else { usize::MAX });
        copies.filter_map(Self::decode_copy).max_by_key(|head| head.generation)
    }

    /// Decode a copy; `None` unless every byte of its fields is valid.
    fn decode_copy(bytes: &[u8]) -> Option<Self> {
        let is_intact = array(bytes, at::MAGIC) == Some(MAGIC)
            && crc32(0, &[bytes.get(..at::CRC)?]) == u32_at(bytes, at::CRC);
        if !is_intact {
            return None;
        }
        let (mode, state) = (u64_at(bytes, at::MODE), u64_at(bytes, at::STATE));
        Some(Self {
            ledger: array(bytes, at::LEDGER)?,
            generation: u64_at(bytes, at::GENERATION),
            writer_epoch: u64_at(bytes, at::WRITER_EPOCH),
            mode: [HeadSync::Interval, HeadSync::EveryCommit]
                .into_iter()
                .find(|each| each.number() == mode)?,
            durable_seq: u64_at(bytes, at::DURABLE_SEQ),
            ordinal: u64_at(bytes, at::ORDINAL),
            segment: array(bytes, at::SEGMENT)?,
            data_end: u64_at(bytes, at::DATA_END),
            chain: Chain(array(bytes, at::CHAIN)?),
            state: [HeadState::Open, HeadState::Clean, HeadState::Poisoned]
                .into_iter()
                .find(|each| each.number() == state)?,
            clock: decode_clock(bytes)?,
        })
    }
}

/// The clock of a slot. The inner `None` is a slot without one: all of its bytes are zero.
#[expect(clippy::option_option, reason = "invalid, absent and present are three cases")]
fn decode_clock(bytes: &[u8]) -> Option<Option<ClockAnchor>> {
    let boot: Uid = array(bytes, at::BOOT)?;
    let (micros, time) = (u64_at(bytes, at::BOOT_MICROS), u64_at(bytes, at::BOOT_TIME));
    if boot == Uid::default() {
        return (micros == 0 && time == 0).then_some(None);
    }
    Some(Some(ClockAnchor { at: BootTime { boot, micros }, time }))
}

/// The copies of a slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HeadCopies {
    /// All are valid and equal, as a writer at rest leaves them.
    Equal,
    /// All are valid, and of several writes: one of them was interrupted.
    Mixed,
    /// One is not valid, or the bytes between them are not zero. A device whose sectors are atomic never leaves this.
    #[default]
    Damaged,
}

impl HeadCopies {
    fn of(slot: &[u8]) -> Self {
        let mut copies = slot.chunks(HEAD_COPY_SIZE);
        let is_whole = |copy: &[u8]| {
            Head::decode_copy(copy).is_some() && copy.get(HEAD_FIELDS_SIZE..).is_some_and(all_zero)
        };
        if slot.len() != HEAD_SLOT_SIZE || !slot.chunks(HEAD_COPY_SIZE).all(is_whole) {
            return Self::Damaged;
        }
        let first = copies.next();
        if copies.all(|copy| Some(copy) == first) { Self::Equal } else { Self::Mixed }
    }
}

/// Both slots of a HEAD file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeadSlots {
    /// The newest valid copy of each slot.
    pub slots: [Option<Head>; 2],
    /// The copies of each slot.
    pub copies: [HeadCopies; 2],
}

impl HeadSlots {
    /// Decode both slots of a HEAD file. Missing bytes make a slot invalid.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        let slots = [0, 1].map(|index| {
            let rest = bytes.get(index * HEAD_SLOT_SIZE..).unwrap_or_default();
            rest.get(..HEAD_SLOT_SIZE).unwrap_or(rest)
        });
        Self { slots: slots.map(Head::decode), copies: slots.map(HeadCopies::of) }
    }

    /// The valid slot with the higher generation, and its index.
    #[must_use]
    pub fn newest(&self) -> Option<(usize, &Head)> {
        let valid = self.slots.iter().enumerate();
        valid
            .filter_map(|(index, slot)| slot.as_ref().map(|head| (index, head)))
            .max_by_key(|(_, head)| head.generation)
    }

    /// Whether both slots are valid.
    #[must_use]
    pub fn are_valid(&self) -> bool {
        self.slots.iter().all(Option::is_some)
    }

    /// Whether a copy is damaged, or a slot.
    #[must_use]
    pub fn are_damaged(&self) -> bool {
        self.copies.contains(&HeadCopies::Damaged)
    }

    /// Whether every byte of both slots is as a writer at rest leaves it.
    #[must_use]
    pub fn are_whole(&self) -> bool {
        self.copies == [HeadCopies::Equal; 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::bytes::in_miri;

    fn head() -> Head {
        Head {
            ledger: [1; 16],
            generation: 2,
            writer_epoch: 3,
            mode: HeadSync::Interval,
            durable_seq: 4,
            ordinal: 5,
            segment: [6; 16],
            data_end: 7,
            chain: Chain([8; 32]),
            state: HeadState::Open,
            clock: Some(ClockAnchor { at: BootTime { boot: [9; 16], micros: 10 }, time: 11 }),
        }
    }

    /// Goal: a slot without a clock round-trips, and a reading without its boot is invalid.
    #[test]
    fn clock_without_a_boot_is_invalid() {
        let without = Head { clock: None, ..head() };
        assert_eq!(Head::decode(&without.encode()), Some(without));
        let clock = ClockAnchor { at: BootTime { boot: [0; 16], micros: 1 }, time: 0 };
        assert_eq!(Head::decode(&Head { clock: Some(clock), ..head() }.encode()), None);
    }

    /// Goal: the ledger's time advances with the boot clock, never goes back, and says nothing after
    /// another boot.
    #[test]
    fn anchor_advances_with_the_boot_clock() {
        let anchor = head().clock.unwrap();
        let at = |boot, micros| anchor.time_at(BootTime { boot: [boot; 16], micros });
        assert_eq!((at(9, 10), at(9, 15), at(9, 3)), (Some(11), Some(16), Some(11)));
        assert_eq!((at(8, 15), at(9, u64::MAX)), (None, Some(u64::MAX)));
    }

    /// Goal: a slot round-trips, and a flipped bit changes nothing but is detected; in the fields of every copy it makes the
    /// slot invalid.
    #[test]
    fn every_flipped_bit_of_a_slot_is_detected() {
        let bytes = head().encode();
        assert_eq!(Head::decode(&bytes), Some(head()));
        assert!(HeadSlots::decode(&bytes.repeat(2)).are_whole());
        for bit in (0..bytes.len() * 8).step_by(in_miri(1009)) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::decode(&damaged), Some(head()), "bit {bit}");
            let slots = HeadSlots::decode(&[damaged, bytes.clone()].concat());
            assert_eq!(slots.copies, [HeadCopies::Damaged, HeadCopies::Equal], "bit {bit}");
        }
        for bit in (0..HEAD_FIELDS_SIZE * 8).step_by(in_miri(101)) {
            let mut damaged = bytes.clone();
            for copy in damaged.chunks_mut(HEAD_COPY_SIZE) {
                copy[bit / 8] ^= 1 << (bit % 8);
            }
            assert_eq!(Head::decode(&damaged), None, "bit {bit}");
        }
    }

    /// Goal: of a write that ends anywhere, or of which any sectors arrive, a whole record is left, and the newer one if a
    /// whole copy of it is.
    #[test]
    fn cut_and_lost_writes_leave_a_record() {
        let old = head().encode();
        let newer = Head { generation: 4, durable_seq: 9, ..head() };
        let new = newer.encode();
        for end in (0..=new.len()).step_by(in_miri(509)) {
            let torn = [&new[..end], &old[end..]].concat();
            let is_new = end >= HEAD_FIELDS_SIZE;
            // The last bytes of the fields may be equal.
            let found = Head::decode(&torn).unwrap();
            assert!(found == newer || (!is_new && found == head()), "cut at {end}");
        }
        for kept in 0..1_u32 << (HEAD_SLOT_SIZE / HEAD_COPY_SIZE) {
            let sectors = (0..).zip(new.chunks(HEAD_COPY_SIZE).zip(old.chunks(HEAD_COPY_SIZE)));
            let sectors =
                sectors.map(|(at, (new, old))| if kept >> at & 1 == 1 { new } else { old });
            let torn = sectors.collect::<Vec<_>>().concat();
            let expected = if kept == 0 { head() } else { newer.clone() };
            assert_eq!(Head::decode(&torn), Some(expected), "sectors {kept:b}");
            let is_equal = kept == 0 || kept == u32::from(u8::MAX);
            let copies = if is_equal { HeadCopies::Equal } else { HeadCopies::Mixed };
            assert_eq!(HeadCopies::of(&torn), copies, "sectors {kept:b}");
        }
    }

    /// Goal: the valid slot with the higher generation is used, in either position.
    #[test]
    fn the_newer_valid_slot_counts() {
        let older = head().encode();
        let newer = Head { generation: 3, durable_seq: 9, ..head() }.encode();
        let slots = HeadSlots::decode(&[newer.clone(), older.clone()].concat());
        assert_eq!(slots.newest().map(|(index, head)| (index, head.durable_seq)), Some((0, 9)));
        let slots = HeadSlots::decode(&[vec![0xFF; HEAD_SLOT_SIZE], older].concat());
        assert_eq!(slots.newest().map(|(index, head)| (index, head.durable_seq)), Some((1, 4)));
        assert!(!slots.are_valid() && !slots.are_whole());
        assert_eq!(HeadSlots::decode(&newer[..100]).newest(), None);
    }
}
