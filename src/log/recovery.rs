//! The recovery table: which verdict each combination of evidence selects.
//!
//! The table is data. Every combination of bits matches at least one row (the last row matches
//! all), and the first match counts, so the decision is total and unique by construction; the
//! test at the foot enumerates all combinations and checks the properties that make it safe.
//! `format/recovery.md` is the normative text.

use std::fmt;

/// What was observed about a log's end, X being the first place without a valid frame and n the
/// sequence number expected there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bit {
    /// V: a header is of an unknown major version or needs unknown features.
    Version,
    /// H: neither slot of HEAD is valid.
    HeadMissing,
    /// B: a header, a link between headers or the newest file's length is wrong.
    LinkBad,
    /// M: HEAD names a segment that is newer than the newest.
    SegmentMissing,
    /// D: HEAD's segment uid or chain is not that of the log.
    HeadDisagrees,
    /// C: the frame at X is intact but its chain, seq or fields are wrong.
    IntactButWrong,
    /// S: a successor says that the segment reaches beyond X.
    Successor,
    /// W: HEAD, or what was born with the header, covers n.
    Witness,
    /// L: a valid later frame proves that n had been synced before it was written.
    Later,
    /// R: everything from X on is zero.
    RestZero,
    /// K: the last batch is complete.
    BatchComplete,
    /// Q: HEAD stands exactly at X and is not poisoned, or X is where the born content ends.
    HeadAtEnd,
    /// X: HEAD is synced with every commit and both slots are valid.
    EveryCommit,
    /// Z: the frame at X bears the mark of a sector that was never written.
    ZeroMark,
    /// E: the storage could not be read at X.
    ReadError,
}

const BITS: [(Bit, char); 15] = [
    (Bit::Version, 'V'),
    (Bit::HeadMissing, 'H'),
    (Bit::LinkBad, 'B'),
    (Bit::SegmentMissing, 'M'),
    (Bit::HeadDisagrees, 'D'),
    (Bit::IntactButWrong, 'C'),
    (Bit::Successor, 'S'),
    (Bit::Witness, 'W'),
    (Bit::Later, 'L'),
    (Bit::RestZero, 'R'),
    (Bit::BatchComplete, 'K'),
    (Bit::HeadAtEnd, 'Q'),
    (Bit::EveryCommit, 'X'),
    (Bit::ZeroMark, 'Z'),
    (Bit::ReadError, 'E'),
];

impl Bit {
    /// Every bit, in the order of their letters.
    pub fn all() -> impl Iterator<Item = Self> {
        BITS.iter().map(|(bit, _)| *bit)
    }

    /// Its letter in `format/recovery.md`.
    #[must_use]
    pub fn letter(self) -> char {
        BITS.iter().find(|(bit, _)| *bit == self).map_or('?', |(_, letter)| *letter)
    }

    /// What was observed, for people.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Version => "a header needs a newer program",
            Self::HeadMissing => "neither slot of HEAD is valid",
            Self::LinkBad => "a header, a link between headers or the file's length is wrong",
            Self::SegmentMissing => "there was a newer segment than the newest one",
            Self::HeadDisagrees => "HEAD does not agree with the log",
            Self::IntactButWrong => "the frame there is intact, but breaks a rule",
            Self::Successor => "a successor says that the segment reaches further",
            Self::Witness => "the watermark covers the record that is due there",
            Self::Later => "a later frame proves that what is due there had been synced",
            Self::RestZero => "everything from there on is zero",
            Self::BatchComplete => "the last batch is complete",
            Self::HeadAtEnd => "HEAD stands exactly there",
            Self::EveryCommit => "HEAD is synced with every commit, and both slots are valid",
            Self::ZeroMark => "the frame there bears the mark of a sector that was never written",
            Self::ReadError => "the bytes there cannot be read",
        }
    }

    const fn mask(self) -> u16 {
        match self {
            Self::Version => 1 << 0,
            Self::HeadMissing => 1 << 1,
            Self::LinkBad => 1 << 2,
            Self::SegmentMissing => 1 << 3,
            Self::HeadDisagrees => 1 << 4,
            Self::IntactButWrong => 1 << 5,
            Self::Successor => 1 << 6,
            Self::Witness => 1 << 7,
            Self::Later => 1 << 8,
            Self::RestZero => 1 << 9,
            Self::BatchComplete => 1 << 10,
            Self::HeadAtEnd => 1 << 11,
            Self::EveryCommit => 1 << 12,
            Self::ZeroMark => 1 << 13,
            Self::ReadError => 1 << 14,
        }
    }
}

/// A set of observations.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Evidence(u16);

impl Evidence {
    /// These observations and one more.
    #[must_use]
    pub const fn with(self, bit: Bit) -> Self {
        Self(self.0 | bit.mask())
    }

    /// These observations but that one.
    #[must_use]
    pub const fn without(self, bit: Bit) -> Self {
        Self(self.0 & !bit.mask())
    }

    /// Those of the observations that were made.
    pub fn of(observations: impl IntoIterator<Item = (Bit, bool)>) -> Self {
        let made = observations.into_iter().filter(|(_, was_made)| *was_made);
        made.fold(Self::default(), |evidence, (bit, _)| evidence.with(bit))
    }

    /// Whether an observation was made.
    #[must_use]
    pub const fn has(self, bit: Bit) -> bool {
        self.0 & bit.mask() != 0
    }

    /// The letters of the observations that were made.
    #[must_use]
    pub fn letters(self) -> String {
        BITS.iter().filter(|(bit, _)| self.has(*bit)).map(|(_, letter)| letter).collect()
    }
}

impl Row {
    /// The observations that it needs.
    #[must_use]
    pub const fn needs(&self) -> Evidence {
        self.needs
    }

    /// The observations that it excludes.
    #[must_use]
    pub const fn excludes(&self) -> Evidence {
        self.excludes
    }
}

impl Verdict {
    /// In a word, for programs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Unproven => "unproven_tail",
            Self::Torn => "torn",
            Self::Corrupt => "corrupt",
            Self::AckedTailMissing => "acked_tail_missing",
            Self::Tampered => "tampered",
            Self::Ambiguous => "ambiguous",
            Self::Version => "version",
        }
    }

    /// What it means and what opening the log for writing does, for people.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Clean => "the log ends where its writer stopped: it goes on in place",
            Self::Unproven => {
                "whole records that are not proved to be durable: they are written again behind a \
                 fence, and nothing is discarded"
            }
            Self::Torn => "an unfinished write that nobody was told about: it is fenced off",
            Self::Corrupt => "acknowledged bytes are damaged: opening refuses, readers go on",
            Self::AckedTailMissing => {
                "acknowledged records are gone: opening refuses, readers go on"
            }
            Self::Tampered => {
                "intact bytes are not the ones that were written: opening refuses, readers go on"
            }
            Self::Ambiguous => {
                "it cannot be told what was acknowledged: opening refuses, unless a person decides"
            }
            Self::Version => "a newer program wrote it: opening refuses",
        }
    }
}

impl fmt::Debug for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Evidence({})", self.letters())
    }
}

/// What an end of a log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is where the last writer stopped: go on in place.
    Clean,
    /// Whole records, not proved to be durable: re-write them behind a fence, discard nothing.
    Unproven,
    /// An unfinished write that nobody was told about: fence it off.
    Torn,
    /// Acknowledged bytes are damaged: refuse.
    Corrupt,
    /// Acknowledged bytes are gone: refuse.
    AckedTailMissing,
    /// Intact bytes that are not the ones that were written: refuse.
    Tampered,
    /// It cannot be told: refuse.
    Ambiguous,
    /// A newer program wrote it: refuse.
    Version,
}

/// One row of the table: the evidence that it needs, the evidence that it excludes, the verdict.
#[derive(Debug)]
pub struct Row {
    /// Its name in `format/recovery.md`.
    pub label: &'static str,
    needs: Evidence,
    excludes: Evidence,
    /// What it says.
    pub verdict: Verdict,
}

const NONE: Evidence = Evidence(0);

const fn row(label: &'static str, needs: Evidence, excludes: Evidence, verdict: Verdict) -> Row {
    Row { label, needs, excludes, verdict }
}

/// The table. The first row that matches counts.
pub const TABLE: [Row; 16] = [
    row("0", NONE.with(Bit::Version), NONE, Verdict::Version),
    row("1", NONE.with(Bit::HeadMissing), NONE, Verdict::Ambiguous),
    row("2", NONE.with(Bit::LinkBad), NONE, Verdict::Corrupt),
    row("2a", NONE.with(Bit::SegmentMissing), NONE, Verdict::AckedTailMissing),
    row("2b", NONE.with(Bit::HeadDisagrees), NONE, Verdict::Tampered),
    row("3", NONE.with(Bit::IntactButWrong), NONE, Verdict::Tampered),
    row("4", NONE.with(Bit::Successor), NONE, Verdict::Corrupt),
    row("5a", NONE.with(Bit::Witness).with(Bit::RestZero), NONE, Verdict::AckedTailMissing),
    row("5b", NONE.with(Bit::Witness), NONE, Verdict::Corrupt),
    row("6", NONE.with(Bit::Later), NONE, Verdict::Corrupt),
    row(
        "7",
        NONE.with(Bit::RestZero).with(Bit::BatchComplete).with(Bit::HeadAtEnd),
        NONE,
        Verdict::Clean,
    ),
    row("8", NONE.with(Bit::RestZero).with(Bit::BatchComplete), NONE, Verdict::Unproven),
    row("9", NONE.with(Bit::RestZero), NONE, Verdict::Torn),
    row("10", NONE.with(Bit::EveryCommit), NONE, Verdict::Torn),
    row("11", NONE.with(Bit::ZeroMark), NONE.with(Bit::ReadError), Verdict::Torn),
    row("12", NONE, NONE, Verdict::Ambiguous),
];

/// The row that the evidence selects.
#[must_use]
pub fn classify(evidence: Evidence) -> &'static Row {
    let matches =
        |row: &&Row| evidence.0 & row.needs.0 == row.needs.0 && evidence.0 & row.excludes.0 == 0;
    let [.., last] = &TABLE;
    TABLE.iter().find(matches).unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the table is total, and no combination of evidence gives up acknowledged bytes.
    /// Method: enumerate all 2^15 combinations.
    #[test]
    fn every_combination_of_evidence_has_one_safe_verdict() {
        let mut reached = std::collections::BTreeSet::new();
        for bits in 0..1_u16 << BITS.len() {
            let evidence = Evidence(bits);
            let row = classify(evidence);
            reached.insert(row.label);
            let goes_on = matches!(row.verdict, Verdict::Clean | Verdict::Unproven | Verdict::Torn);
            let proves_ack =
                [Bit::Successor, Bit::Witness, Bit::Later].into_iter().any(|bit| evidence.has(bit));
            assert!(!(goes_on && proves_ack), "{evidence:?} goes on over acknowledged bytes");
            let refuses_always = [
                Bit::Version,
                Bit::HeadMissing,
                Bit::LinkBad,
                Bit::SegmentMissing,
                Bit::HeadDisagrees,
                Bit::IntactButWrong,
            ];
            let must_refuse = refuses_always.into_iter().any(|bit| evidence.has(bit));
            assert!(!(goes_on && must_refuse), "{evidence:?} goes on");
            if row.verdict == Verdict::Clean {
                let whole = [Bit::RestZero, Bit::BatchComplete, Bit::HeadAtEnd];
                assert!(whole.into_iter().all(|bit| evidence.has(bit)), "{evidence:?}");
            }
        }
        assert_eq!(reached.len(), TABLE.len(), "a row that nothing reaches: {reached:?}");
    }

    /// Goal: a plain crash in the middle of a write is never refused.
    #[test]
    fn what_a_crash_leaves_is_never_refused() {
        let rest = NONE.with(Bit::RestZero);
        assert_eq!(classify(rest.with(Bit::BatchComplete)).verdict, Verdict::Unproven);
        assert_eq!(classify(rest).verdict, Verdict::Torn);
        assert_eq!(classify(NONE.with(Bit::ZeroMark)).verdict, Verdict::Torn);
    }
}
