//! Timelines: the intervals of each row over time.

use plan_ledger::Timestamp;

use super::text::{Paint, Text};

/// Something that took a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineCell {
    /// Its start.
    pub from: Timestamp,
    /// Its end; `None` if it has not ended.
    pub until: Option<Timestamp>,
    /// The character of its time.
    pub inside: char,
    /// The character of its end.
    pub end: char,
    /// The paint of both.
    pub paint: Paint,
    /// Whether its end always shows, whatever comes after it.
    pub shows_end: bool,
}

/// A row of a timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineRow {
    /// A mark of one column.
    pub mark: Text,
    /// Its name.
    pub name: String,
    /// Its intervals, in the order of time.
    pub cells: Vec<TimelineCell>,
    /// The text after it.
    pub sum: String,
}

/// Rows over one interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    /// The start of the interval.
    pub from: Timestamp,
    /// The end of the interval.
    pub until: Timestamp,
    /// The rows.
    pub rows: Vec<TimelineRow>,
    /// The meanings of the characters, in lines.
    pub legend: Vec<String>,
}
