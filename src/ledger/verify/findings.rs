//! Findings about single records, and about the clock.

use std::path::{Path, PathBuf};

use crate::log::{FindingClass, LogReader, LoggedRecord, VerifyFinding};

/// A finding about an intact record.
pub(crate) fn at_record<P>(
    reader: &LogReader,
    record: &LoggedRecord<P>,
    what: String,
) -> VerifyFinding {
    VerifyFinding {
        class: FindingClass::Damage,
        path: segment_of(reader, record),
        offset: record.offset,
        end: record.offset.saturating_add(record.size),
        missing: None,
        what,
    }
}

fn segment_of<P>(reader: &LogReader, record: &LoggedRecord<P>) -> PathBuf {
    let segments = reader.segments().into_iter();
    let is_own = |ordinal: u64| ordinal == record.segment;
    let mut own =
        segments.filter(|each| each.header.as_ref().is_ok_and(|header| is_own(header.ordinal)));
    own.next().map(|segment| segment.path).unwrap_or_default()
}

/// The finding that the wall clock and the ledger's time differ.
pub(crate) fn about_clock(dir: &Path, what: String) -> VerifyFinding {
    VerifyFinding {
        class: FindingClass::Warning,
        path: dir.join("HEAD"),
        offset: 0,
        end: 0,
        missing: None,
        what,
    }
}
