//! The recovery table: which verdict each combination of evidence selects.
//!
//! The table is data. The first matching row is used, and the last row matches every combination,
//! so each combination selects exactly one row. A test enumerates all combinations and checks the
//! properties that make it safe. `format/recovery.md` is the normative text.

use std::fmt;

/// An observation about the end of a log. The *scan end* is the first offset without a valid frame,
/// `n` the sequence number expected there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvidenceBit {
    /// V: a header is of an unknown major version or needs unknown features.
    Version,
    /// H: neither slot of HEAD is valid.
    HeadInvalid,
    /// B: a header, a link between headers or the newest file's length is wrong.
    StructureInvalid,
    /// M: HEAD names a newer segment than the newest one.
    SegmentMissing,
    /// D: HEAD's segment uid or chain value differs from the log's.
    HeadDisagrees,
    /// C: the frame at the scan end is intact, but its chain, seq or fields are wrong.
    IntactButWrong,
    /// S: a successor states that the segment reaches beyond the scan end.
    SuccessorReachesFurther,
    /// W: the durable end according to HEAD or the segment's header is at `n` or later.
    CoveredByWatermark,
    /// L: a valid later frame proves that `n` was synced before that frame was written.
    LaterFrameProvesSync,
    /// R: all bytes from the scan end on are zero.
    ZerosToEnd,
    /// K: the last batch is complete.
    BatchComplete,
    /// Q: HEAD names exactly the scan end and is not poisoned, or the segment was created with its
    /// content up to there.
    HeadAtEnd,
    /// X: HEAD is synced with every commit, and both slots are valid.
    EveryCommit,
    /// Z: the frame at the scan end contains a sector that was never written.
    UnwrittenSector,
    /// E: the storage cannot be read at the scan end.
    ReadError,
    /// I: one slot of HEAD is invalid, and the other one is not CLEAN at the scan end.
    SlotInvalid,
}

const BITS: [(EvidenceBit, char); 16] = [
    (EvidenceBit::Version, 'V'),
    (EvidenceBit::HeadInvalid, 'H'),
    (EvidenceBit::StructureInvalid, 'B'),
    (EvidenceBit::SegmentMissing, 'M'),
    (EvidenceBit::HeadDisagrees, 'D'),
    (EvidenceBit::IntactButWrong, 'C'),
    (EvidenceBit::SuccessorReachesFurther, 'S'),
    (EvidenceBit::CoveredByWatermark, 'W'),
    (EvidenceBit::LaterFrameProvesSync, 'L'),
    (EvidenceBit::ZerosToEnd, 'R'),
    (EvidenceBit::BatchComplete, 'K'),
    (EvidenceBit::HeadAtEnd, 'Q'),
    (EvidenceBit::EveryCommit, 'X'),
    (EvidenceBit::UnwrittenSector, 'Z'),
    (EvidenceBit::ReadError, 'E'),
    (EvidenceBit::SlotInvalid, 'I'),
];

impl EvidenceBit {
    /// All bits, in the order of their letters.
    pub fn all() -> impl Iterator<Item = Self> {
        BITS.iter().map(|(bit, _)| *bit)
    }

    /// Its letter in `format/recovery.md`.
    #[must_use]
    pub fn letter(self) -> char {
        BITS.iter().find(|(bit, _)| *bit == self).map_or('?', |(_, letter)| *letter)
    }

    /// The observation, for people.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Version => "a header requires a newer program",
            Self::HeadInvalid => "neither slot of HEAD is valid",
            Self::StructureInvalid => {
                "a header, a link between headers or the file's length is wrong"
            }
            Self::SegmentMissing => "HEAD names a segment that is newer than any present one",
            Self::HeadDisagrees => "HEAD contradicts the log",
            Self::IntactButWrong => "the frame there is intact, but breaks a rule",
            Self::SuccessorReachesFurther => "a successor states that the segment reaches further",
            Self::CoveredByWatermark => {
                "HEAD or the header covers the record that is expected there"
            }
            Self::LaterFrameProvesSync => {
                "a later frame proves that the record expected there had been synced"
            }
            Self::ZerosToEnd => "everything from there on is zero",
            Self::BatchComplete => "the last batch is complete",
            Self::HeadAtEnd => "HEAD is exactly there",
            Self::EveryCommit => "HEAD is synced with every commit, and both slots are valid",
            Self::UnwrittenSector => "the frame there contains a sector that was never written",
            Self::ReadError => "the bytes there cannot be read",
            Self::SlotInvalid => {
                "one slot of HEAD is damaged, and the other does not prove that the log ends there"
            }
        }
    }

    const fn mask(self) -> u16 {
        match self {
            Self::Version => 1 << 0,
            Self::HeadInvalid => 1 << 1,
            Self::StructureInvalid => 1 << 2,
            Self::SegmentMissing => 1 << 3,
            Self::HeadDisagrees => 1 << 4,
            Self::IntactButWrong => 1 << 5,
            Self::SuccessorReachesFurther => 1 << 6,
            Self::CoveredByWatermark => 1 << 7,
            Self::LaterFrameProvesSync => 1 << 8,
            Self::ZerosToEnd => 1 << 9,
            Self::BatchComplete => 1 << 10,
            Self::HeadAtEnd => 1 << 11,
            Self::EveryCommit => 1 << 12,
            Self::UnwrittenSector => 1 << 13,
            Self::ReadError => 1 << 14,
            Self::SlotInvalid => 1 << 15,
        }
    }
}

/// A set of observations.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Evidence(u16);

impl Evidence {
    /// This evidence and one more observation.
    #[must_use]
    pub const fn with(self, bit: EvidenceBit) -> Self {
        Self(self.0 | bit.mask())
    }

    /// This evidence without an observation.
    #[must_use]
    pub const fn without(self, bit: EvidenceBit) -> Self {
        Self(self.0 & !bit.mask())
    }

    /// The observations that are paired with `true`.
    pub fn of(observations: impl IntoIterator<Item = (EvidenceBit, bool)>) -> Self {
        let made = observations.into_iter().filter(|(_, was_made)| *was_made);
        made.fold(Self::default(), |evidence, (bit, _)| evidence.with(bit))
    }

    /// Whether an observation was made.
    #[must_use]
    pub const fn has(self, bit: EvidenceBit) -> bool {
        self.0 & bit.mask() != 0
    }

    /// The letters of the observations that were made.
    #[must_use]
    pub fn letters(self) -> String {
        BITS.iter().filter(|(bit, _)| self.has(*bit)).map(|(_, letter)| letter).collect()
    }
}

impl RecoveryRow {
    /// The observations that the row requires.
    #[must_use]
    pub const fn requires(&self) -> Evidence {
        self.requires
    }

    /// The observations that it excludes.
    #[must_use]
    pub const fn excludes(&self) -> Evidence {
        self.excludes
    }
}

impl TailVerdict {
    /// A stable name, for programs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Unacknowledged => "unacknowledged_tail",
            Self::Torn => "torn",
            Self::Corrupt => "corrupt",
            Self::AcknowledgedTailMissing => "acknowledged_tail_missing",
            Self::Tampered => "tampered",
            Self::Ambiguous => "ambiguous",
            Self::Version => "version",
        }
    }

    /// Describes the verdict and the effect of opening, for people.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Clean => "the log ends where its writer stopped; writing continues in place",
            Self::Unacknowledged => {
                "complete records without proof of durability; a fence rewrites them, nothing is \
                 discarded"
            }
            Self::Torn => "an incomplete, unacknowledged write; a fence discards it",
            Self::Corrupt => "acknowledged bytes are damaged; opening is refused, readers continue",
            Self::AcknowledgedTailMissing => {
                "acknowledged records are missing; opening is refused, readers continue"
            }
            Self::Tampered => {
                "intact bytes differ from those that were written; opening is refused, readers \
                 continue"
            }
            Self::Ambiguous => {
                "it is unknown what was acknowledged; opening is refused unless a person decides"
            }
            Self::Version => "a newer program wrote it; opening is refused",
        }
    }
}

impl fmt::Debug for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Evidence({})", self.letters())
    }
}

/// The classification of the end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TailVerdict {
    /// It is where the last writer stopped: continue in place.
    Clean,
    /// Complete records without proof of durability: rewrite them after a fence, discard nothing.
    Unacknowledged,
    /// An incomplete, unacknowledged write: discard it with a fence.
    Torn,
    /// Acknowledged bytes are damaged: refuse.
    Corrupt,
    /// Acknowledged records are missing: refuse.
    AcknowledgedTailMissing,
    /// Intact bytes differ from those that were written: refuse.
    Tampered,
    /// The evidence does not decide: refuse.
    Ambiguous,
    /// A newer program wrote it: refuse.
    Version,
}

/// A row of the table: the evidence that it requires, the evidence that it excludes, and its
/// verdict.
#[derive(Debug)]
pub struct RecoveryRow {
    /// Its name in `format/recovery.md`.
    pub label: &'static str,
    requires: Evidence,
    excludes: Evidence,
    /// The verdict.
    pub verdict: TailVerdict,
}

const NONE: Evidence = Evidence(0);

const fn row(
    label: &'static str,
    requires: Evidence,
    excludes: Evidence,
    verdict: TailVerdict,
) -> RecoveryRow {
    RecoveryRow { label, requires, excludes, verdict }
}

/// The recovery table. The first matching row is used.
pub const RECOVERY_TABLE: [RecoveryRow; 17] = [
    row("0", NONE.with(EvidenceBit::Version), NONE, TailVerdict::Version),
    row("1", NONE.with(EvidenceBit::HeadInvalid), NONE, TailVerdict::Ambiguous),
    row("2", NONE.with(EvidenceBit::StructureInvalid), NONE, TailVerdict::Corrupt),
    row("2a", NONE.with(EvidenceBit::SegmentMissing), NONE, TailVerdict::AcknowledgedTailMissing),
    row("2b", NONE.with(EvidenceBit::HeadDisagrees), NONE, TailVerdict::Tampered),
    row("3", NONE.with(EvidenceBit::IntactButWrong), NONE, TailVerdict::Tampered),
    row("4", NONE.with(EvidenceBit::SuccessorReachesFurther), NONE, TailVerdict::Corrupt),
    row(
        "5a",
        NONE.with(EvidenceBit::CoveredByWatermark).with(EvidenceBit::ZerosToEnd),
        NONE,
        TailVerdict::AcknowledgedTailMissing,
    ),
    row("5b", NONE.with(EvidenceBit::CoveredByWatermark), NONE, TailVerdict::Corrupt),
    row("6", NONE.with(EvidenceBit::LaterFrameProvesSync), NONE, TailVerdict::Corrupt),
    row("6a", NONE.with(EvidenceBit::SlotInvalid), NONE, TailVerdict::Ambiguous),
    row(
        "7",
        NONE.with(EvidenceBit::ZerosToEnd)
            .with(EvidenceBit::BatchComplete)
            .with(EvidenceBit::HeadAtEnd),
        NONE,
        TailVerdict::Clean,
    ),
    row(
        "8",
        NONE.with(EvidenceBit::ZerosToEnd).with(EvidenceBit::BatchComplete),
        NONE,
        TailVerdict::Unacknowledged,
    ),
    row("9", NONE.with(EvidenceBit::ZerosToEnd), NONE, TailVerdict::Torn),
    row("10", NONE.with(EvidenceBit::EveryCommit), NONE, TailVerdict::Torn),
    row(
        "11",
        NONE.with(EvidenceBit::UnwrittenSector),
        NONE.with(EvidenceBit::ReadError),
        TailVerdict::Torn,
    ),
    row("12", NONE, NONE, TailVerdict::Ambiguous),
];

impl Evidence {
    /// The first row that matches the evidence.
    #[must_use]
    pub fn row(self) -> &'static RecoveryRow {
        let matches = |row: &&RecoveryRow| {
            self.0 & row.requires.0 == row.requires.0 && self.0 & row.excludes.0 == 0
        };
        let [.., last] = &RECOVERY_TABLE;
        RECOVERY_TABLE.iter().find(matches).unwrap_or(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table is total, and no combination of evidence discards acknowledged bytes. All 2^16
    /// combinations are enumerated.
    #[test]
    fn every_combination_of_evidence_has_one_safe_verdict() {
        let mut reached = std::collections::BTreeSet::new();
        for bits in 0..=u16::MAX {
            let evidence = Evidence(bits);
            let row = evidence.row();
            reached.insert(row.label);
            let continues = matches!(
                row.verdict,
                TailVerdict::Clean | TailVerdict::Unacknowledged | TailVerdict::Torn
            );
            let proves_acknowledged = [
                EvidenceBit::SuccessorReachesFurther,
                EvidenceBit::CoveredByWatermark,
                EvidenceBit::LaterFrameProvesSync,
            ]
            .into_iter()
            .any(|bit| evidence.has(bit));
            assert!(
                !(continues && proves_acknowledged),
                "{evidence:?} continues over acknowledged bytes"
            );
            let refuses_always = [
                EvidenceBit::Version,
                EvidenceBit::HeadInvalid,
                EvidenceBit::StructureInvalid,
                EvidenceBit::SegmentMissing,
                EvidenceBit::HeadDisagrees,
                EvidenceBit::IntactButWrong,
                EvidenceBit::SlotInvalid,
            ];
            let must_refuse = refuses_always.into_iter().any(|bit| evidence.has(bit));
            assert!(!(continues && must_refuse), "{evidence:?} continues");
            if row.verdict == TailVerdict::Clean {
                let whole =
                    [EvidenceBit::ZerosToEnd, EvidenceBit::BatchComplete, EvidenceBit::HeadAtEnd];
                assert!(whole.into_iter().all(|bit| evidence.has(bit)), "{evidence:?}");
            }
        }
        assert_eq!(reached.len(), RECOVERY_TABLE.len(), "a row is unreachable: {reached:?}");
    }

    /// An ordinary crash during a write is never refused.
    #[test]
    fn crash_remains_are_never_refused() {
        let rest = NONE.with(EvidenceBit::ZerosToEnd);
        assert_eq!(
            rest.with(EvidenceBit::BatchComplete).row().verdict,
            TailVerdict::Unacknowledged
        );
        assert_eq!(rest.row().verdict, TailVerdict::Torn);
        assert_eq!(NONE.with(EvidenceBit::UnwrittenSector).row().verdict, TailVerdict::Torn);
    }
}
