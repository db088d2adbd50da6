//! A finding of a verification: the fault, its place, and the lost records.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;

use crate::error::Error;
use crate::log::reader::LogReader;
use crate::log::record::{Damage, DerivedDamage, LoggedRecord};

/// The class of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingClass {
    /// Acknowledged bytes cannot be read, or differ from those that were written.
    Damage,
    /// Bytes derived from acknowledged ones (an index, a footer, a snapshot) are damaged. Nothing
    /// is lost, and everything works without them.
    DerivedDamage,
    /// Intact, but written by a newer program, so it cannot be read.
    NewerFormat,
    /// Records that were lost before the ledger was salvaged: it is consistent, but not complete.
    RecordedLoss,
    /// It is unusual; no acknowledged record depends on it.
    Warning,
}

/// A fault that a verification found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyFinding {
    /// Its class.
    pub class: FindingClass,
    /// The file, or the folder without a required file.
    pub path: PathBuf,
    /// The first affected byte.
    pub offset: u64,
    /// The end of the affected bytes.
    pub end: u64,
    /// The records that cannot be read because of it.
    pub missing: Option<RangeInclusive<u64>>,
    /// Description of the fault.
    pub what: String,
}

impl VerifyFinding {
    /// A finding in a range of bytes that no record is missing because of.
    #[must_use]
    pub fn new(class: FindingClass, path: PathBuf, bytes: Range<u64>, what: &str) -> Self {
        let (offset, end, what) = (bytes.start, bytes.end, what.to_owned());
        Self { class, path, offset, end, missing: None, what }
    }

    /// Damage in an intact record.
    #[must_use]
    pub fn at_record<P>(reader: &LogReader, record: &LoggedRecord<P>, what: &str) -> Self {
        let bytes = record.offset..record.offset.saturating_add(record.size);
        Self::new(FindingClass::Damage, reader.segment_path(record.segment), bytes, what)
    }

    /// The finding for an error that names a place.
    #[must_use]
    pub fn of_error(class: FindingClass, error: &Error) -> Self {
        let location = error.location();
        let offset = location.offset.unwrap_or(0);
        let path = location.path.clone().unwrap_or_default();
        Self::new(class, path, offset..offset, &error.to_string())
    }
}

impl From<Damage> for VerifyFinding {
    fn from(damage: Damage) -> Self {
        let none = if damage.is_of_header_only() { "no record is missing: " } else { "" };
        let Damage { path, offset, end, first_seq, last_seq, what } = damage;
        let what = format!("{none}{what}");
        let missing = (first_seq <= last_seq).then_some(first_seq..=last_seq);
        Self { class: FindingClass::Damage, path, offset, end, missing, what }
    }
}

impl From<DerivedDamage> for VerifyFinding {
    fn from(damage: DerivedDamage) -> Self {
        let DerivedDamage { path, offset, end, what } = damage;
        Self::new(FindingClass::DerivedDamage, path, offset..end, &what)
    }
}

impl fmt::Display for VerifyFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        if self.offset < self.end {
            write!(f, "bytes {} to {}: ", self.offset, self.end)?;
        }
        match &self.missing {
            Some(range) if range.start() == range.end() => {
                write!(f, "record {} is missing: ", range.start())?;
            }
            Some(range) => write!(f, "records {} to {} are missing: ", range.start(), range.end())?,
            None => {}
        }
        f.write_str(&self.what)
    }
}
