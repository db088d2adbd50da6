//! The class of each byte of the log.

use std::path::PathBuf;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Document, Paint, Table};
use crate::words::{count, size};

/// The class of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RegionClass {
    /// The header of the segment.
    Header,
    /// Durable records that continue the chain.
    Records,
    /// Intact records after damage.
    AfterDamage,
    /// Intact records after the durable end in HEAD.
    Unacknowledged,
    /// Acknowledged bytes that cannot be read, or a file that is missing.
    Damaged,
    /// An incomplete write that was not acknowledged.
    Torn,
    /// Bytes after the logical end of a fenced segment.
    Dead,
    /// Preallocated space.
    Free,
    /// The index of a sealed segment.
    Index,
    /// The footer of a sealed segment.
    Footer,
    /// Bytes that were not read, because the bytes before them are damaged.
    Unread,
}

impl RegionClass {
    /// The word of it in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Records => "records",
            Self::AfterDamage => "after_damage",
            Self::Unacknowledged => "unacknowledged",
            Self::Damaged => "damaged",
            Self::Torn => "torn",
            Self::Dead => "dead",
            Self::Free => "free",
            Self::Index => "index",
            Self::Footer => "footer",
            Self::Unread => "unread",
        }
    }
}

/// Contiguous bytes of one class.
#[derive(Debug, Clone)]
pub struct Region {
    /// The file.
    pub path: PathBuf,
    /// The number of the segment, if it can be read.
    pub ordinal: Option<u64>,
    /// The start of the range.
    pub offset: u64,
    /// The end of the range.
    pub end: u64,
    /// The kind of the bytes.
    pub class: RegionClass,
    /// The first and last record in the region, or the missing ones.
    pub records: Option<(u64, u64)>,
    /// More details, for people.
    pub what: String,
}

/// A range of bytes of a segment.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RegionLine<'a> {
    /// The kind of the bytes.
    class: RegionClass,
    /// The end of the range.
    end: u64,
    /// The first record in it, or the first one that is missing because of it.
    first_seq: Option<u64>,
    /// The last of these records.
    last_seq: Option<u64>,
    /// The start of the range.
    offset: u64,
    /// The file.
    path: String,
    /// The number of the segment, if it can be read.
    segment: Option<u64>,
    /// More details, for people.
    what: &'a str,
}

impl<'a> From<&'a Region> for RegionLine<'a> {
    fn from(region: &'a Region) -> Self {
        let Region { path, ordinal, offset, end, class, records, what } = region;
        Self {
            class: *class,
            end: *end,
            first_seq: records.map(|(first, _)| first),
            last_seq: records.map(|(_, last)| last),
            offset: *offset,
            path: path.display().to_string(),
            segment: *ordinal,
            what,
        }
    }
}

/// The paint of a class.
pub(crate) fn paint(class: RegionClass) -> Paint {
    match class {
        RegionClass::Records => Paint::Good,
        RegionClass::Damaged => Paint::Bad,
        RegionClass::Torn
        | RegionClass::Unacknowledged
        | RegionClass::AfterDamage
        | RegionClass::Unread => Paint::Notice,
        RegionClass::Dead | RegionClass::Free => Paint::Faint,
        RegionClass::Header | RegionClass::Index | RegionClass::Footer => Paint::None,
    }
}

/// The records of a region as text.
pub(crate) fn records(region: &Region) -> String {
    match region.records {
        None => String::new(),
        Some((first, last)) if first == last => format!("record {first}"),
        Some((first, last)) => format!("records {first} to {last}"),
    }
}

/// Regions, file by file.
#[must_use]
pub fn regions_document(regions: &[&Region]) -> Document {
    let mut document = Document::default();
    describe(regions, &mut document);
    document
}

fn describe(regions: &[&Region], document: &mut Document) {
    let mut rest = regions;
    while let Some(first) = rest.first() {
        let here = rest.iter().take_while(|region| region.path == first.path).count();
        let (file, others) = rest.split_at(here);
        rest = others;
        document.painted(Paint::Heading, first.path.display().to_string());
        let mut table = Table::with_headings(&["from", "to", "size", "what it is", ""]);
        for region in file {
            let what = [records(region), region.what.clone()];
            let what: Vec<_> = what.into_iter().filter(|text| !text.is_empty()).collect();
            table.row([
                (Paint::None, count(region.offset)),
                (Paint::None, count(region.end)),
                (Paint::None, size(region.end.saturating_sub(region.offset))),
                (paint(region.class), region.class.word().replace('_', " ")),
                (Paint::None, what.join(": ")),
            ]);
        }
        document.table(2, table);
    }
}
