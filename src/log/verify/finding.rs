//! What a verification finds: where it is, which records it costs, what is wrong.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::error::Error;
use crate::log::walk::{Damage, DerivedDamage};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Acknowledged bytes cannot be read, or are not the ones that were written.
    Damage,
    /// Bytes that are derived from acknowledged ones (an index, a footer, a snapshot) are damaged:
    /// nothing is lost, and everything goes on without them.
    Derived,
    /// Intact, and a newer program wrote it: this one cannot read it.
    Newer,
    /// Something that a person should know, and that no acknowledged record depends on.
    Warning,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub class: Class,
    /// The file, or the folder where a file is missing.
    pub path: PathBuf,
    /// The first byte that it concerns.
    pub offset: u64,
    /// Behind the last one.
    pub end: u64,
    /// The records that cannot be read because of it.
    pub missing: Option<RangeInclusive<u64>>,
    /// What is wrong.
    pub what: String,
}

impl Finding {
    /// A finding about an error that names a place.
    #[must_use]
    pub fn of_error(class: Class, error: &Error) -> Self {
        let location = error.location();
        let offset = location.offset.unwrap_or(0);
        Self {
            class,
            path: location.path.clone().unwrap_or_default(),
            offset,
            end: offset,
            missing: None,
            what: error.to_string(),
        }
    }
}

impl From<Damage> for Finding {
    fn from(damage: Damage) -> Self {
        let Damage { path, offset, end, first_seq, last_seq, what } = damage;
        let missing = (first_seq <= last_seq).then_some(first_seq..=last_seq);
        Self { class: Class::Damage, path, offset, end, missing, what }
    }
}

impl From<DerivedDamage> for Finding {
    fn from(damage: DerivedDamage) -> Self {
        let DerivedDamage { path, offset, end, what } = damage;
        Self { class: Class::Derived, path, offset, end, missing: None, what }
    }
}

impl fmt::Display for Finding {
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
