//! The names of objects below the prefix of a ledger, and of the ledger.
//!
//! Invariant: only the exact spelling of [`ObjectName`]'s `Display` is a name, so that one object never
//! has two names. Sequence numbers have 20 digits, so names sort like the numbers.

use std::fmt;
use std::path::Path;

use crate::format::{Hex, Uid};

/// The folder of slots.
pub(super) const TAIL: &str = "tail/";
/// The folder of segments and first parts of segments.
pub(super) const SEGMENTS: &str = "seg/";
/// The folder of blobs, each named by the hash of its content.
pub(super) const BLOBS: &str = "blob/";
/// The folder of start snapshots of a log without its first segments.
pub(super) const SNAPSHOTS: &str = "snap/";
/// The folder of objects that a test of the store creates.
pub(super) const PROBE: &str = "probe/";

/// A ledger, and the genesis of its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerIdentity {
    pub ledger: Uid,
    /// The uid that gives the key of the chain.
    pub genesis: Uid,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectName {
    /// The ledger of the prefix.
    Ledger,
    /// The slot with this first sequence number.
    Slot(u64),
    /// A segment, or the first part of one.
    Segment(SegmentObject),
    /// The footers and indexes of some consecutive sealed segments.
    Index(IndexRange),
}

/// The segments of an index object, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexRange {
    /// Sequence number of the first record of the first segment.
    pub base_seq: u64,
    /// Sequence number of the last record of the last segment.
    pub last_seq: u64,
    /// Position of the last segment in the ledger.
    pub ordinal: u64,
}

/// The records of a segment object, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentObject {
    /// Sequence number of the segment's first record.
    pub base_seq: u64,
    /// Sequence number of the last record in the object.
    pub last_seq: u64,
    /// Position of the segment in the ledger.
    pub ordinal: u64,
    /// Whether the object is the whole segment.
    pub form: SegmentForm,
}

/// Whether a segment object is a whole segment. A sealed segment sorts after its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SegmentForm {
    /// Header and frames, up to a record.
    Part,
    /// The sealed segment, byte for byte.
    Sealed,
}

/// A uid, if the text is its lower-case hexadecimal form.
pub(super) fn parse_uid(text: &str) -> Option<Uid> {
    let mut uid = Uid::default();
    for (byte, digits) in uid.iter_mut().zip((0..text.len()).step_by(2)) {
        *byte = u8::from_str_radix(text.get(digits..digits + 2)?, 16).ok()?;
    }
    (Hex(&uid).to_string() == text).then_some(uid)
}

/// A text before the names of all slots from this one on, and after those of the others.
pub(super) fn slots_from(first_seq: u64) -> String {
    format!("{TAIL}{first_seq:020}")
}

/// A text before the names of all objects of segments that begin with this record or a later one, and after
/// those of the others.
pub(super) fn segments_from(base_seq: u64) -> String {
    format!("{SEGMENTS}{base_seq:020}")
}

impl ObjectName {
    /// Parse a name below the prefix.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let name = if text == "LEDGER.json" {
            Self::Ledger
        } else if let Some(slot) = text.strip_prefix(TAIL) {
            Self::Slot(slot.strip_suffix(".slot")?.parse().ok()?)
        } else {
            let text = text.strip_prefix(SEGMENTS)?;
            match text.strip_suffix(".index") {
                Some(range) => Self::Index(IndexRange::parse_unchecked(range)?),
                None => Self::Segment(SegmentObject::parse_unchecked(text)?),
            }
        };
        (name.to_string() == text).then_some(name)
    }
}

impl ObjectName {
    /// Whether a path is that of an object below the prefix of a ledger, and not that of a file of a folder.
    #[must_use]
    pub fn is_below_prefix(path: &Path) -> bool {
        let Some(text) = path.to_str() else { return false };
        let is_file = |folder: &str| {
            text.strip_prefix(folder).is_some_and(|file| !file.is_empty() && !file.contains('/'))
        };
        Self::parse(text).is_some()
            || [TAIL, SEGMENTS, BLOBS, SNAPSHOTS, PROBE].into_iter().any(is_file)
    }
}

impl SegmentObject {
    fn parse_unchecked(text: &str) -> Option<Self> {
        let (text, form) = match (text.strip_suffix(".seg"), text.strip_suffix(".part")) {
            (Some(text), _) => (text, SegmentForm::Sealed),
            (None, Some(text)) => (text, SegmentForm::Part),
            (None, None) => return None,
        };
        let IndexRange { base_seq, last_seq, ordinal } = IndexRange::parse_unchecked(text)?;
        Some(Self { base_seq, last_seq, ordinal, form })
    }
}

impl IndexRange {
    fn parse_unchecked(text: &str) -> Option<Self> {
        let mut numbers = text.split('-');
        let (base, last, ordinal) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let ordinal = u64::from_str_radix(ordinal, 16).ok()?;
        Some(Self { base_seq: base.parse().ok()?, last_seq: last.parse().ok()?, ordinal })
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger => f.write_str("LEDGER.json"),
            Self::Slot(first_seq) => write!(f, "{TAIL}{first_seq:020}.slot"),
            Self::Segment(SegmentObject { base_seq, last_seq, ordinal, form }) => {
                let suffix = match form {
                    SegmentForm::Sealed => "seg",
                    SegmentForm::Part => "part",
                };
                write!(f, "{SEGMENTS}{base_seq:020}-{last_seq:020}-{ordinal:08x}.{suffix}")
            }
            Self::Index(IndexRange { base_seq, last_seq, ordinal }) => {
                write!(f, "{SEGMENTS}{base_seq:020}-{last_seq:020}-{ordinal:08x}.index")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a name is parsed from exactly the text that it is written as.
    #[test]
    fn only_the_exact_spelling_is_a_name() {
        let object = |form| SegmentObject { base_seq: 1, last_seq: 412, ordinal: 0xAB, form };
        let range = IndexRange { base_seq: 1, last_seq: 412, ordinal: 0xAB };
        let names = [
            (
                ObjectName::Index(range),
                "seg/00000000000000000001-00000000000000000412-000000ab.index",
            ),
            (ObjectName::Ledger, "LEDGER.json"),
            (ObjectName::Slot(412), "tail/00000000000000000412.slot"),
            (ObjectName::Slot(u64::MAX), "tail/18446744073709551615.slot"),
            (
                ObjectName::Segment(object(SegmentForm::Sealed)),
                "seg/00000000000000000001-00000000000000000412-000000ab.seg",
            ),
            (
                ObjectName::Segment(object(SegmentForm::Part)),
                "seg/00000000000000000001-00000000000000000412-000000ab.part",
            ),
        ];
        for (name, text) in names {
            assert_eq!(name.to_string(), text);
            assert_eq!(ObjectName::parse(text), Some(name));
        }
        let others = [
            "",
            "ledger.json",
            "tail/412.slot",
            "tail/+0000000000000000412.slot",
            "tail/000000000000000000412.slot",
            "tail/99999999999999999999.slot",
            "tail/00000000000000000412.slot.tmp",
            "seg/00000000000000000001-00000000000000000412-000000AB.seg",
            "seg/00000000000000000001-00000000000000000412-000000ab-1.seg",
            "seg/00000000000000000001-00000000000000000412.seg",
            "seg/00000000000000000001-00000000000000000412.index",
            "probe/1",
        ];
        for text in others {
            assert_eq!(ObjectName::parse(text), None, "{text}");
        }
    }

    /// Goal: a listing that begins in the middle has exactly the objects of the records from there on.
    #[test]
    fn listing_begins_at_a_record() {
        for (one, other) in [(1, 1), (1, 2), (9, 10), (99, 100), (u64::MAX - 1, u64::MAX)] {
            let slot = |seq| ObjectName::Slot(seq).to_string();
            let segment = |base_seq| {
                let form = SegmentForm::Part;
                let object = SegmentObject { base_seq, last_seq: u64::MAX, ordinal: 7, form };
                ObjectName::Segment(object).to_string()
            };
            assert!(slots_from(other) < slot(other) && segments_from(other) < segment(other));
            let is_before = one < other;
            assert_eq!(slot(one) < slots_from(other), is_before, "{one} {other}");
            assert_eq!(segment(one) < segments_from(other), is_before, "{one} {other}");
        }
    }
}
