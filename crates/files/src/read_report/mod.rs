//! The report about reading a file of another tool: the parts that are not steps, and the ids and dependencies that
//! differ from the file.
//!
//! Every reader fills this report, so that nothing is lost or changed silently. `ledger run` prints
//! it before it dispatches a step.

mod reading;

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

pub use reading::{FileReading, Reading};

/// The tag of a step that the file marks as optional.
pub const OPTIONAL_TAG: &str = "optional";

/// A part that a reader left out or changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadReport {
    /// Parts of the file that are neither a step nor a part of one, in the order of the file.
    pub unread: Vec<UnreadPart>,
    /// Ids and dependencies that differ from the file.
    pub corrections: Vec<Correction>,
    /// Fields that are kept as data of the tool, and how many tasks, or the file itself, have each.
    pub kept: BTreeMap<String, usize>,
}

/// Parts of the file that are not steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadPart {
    pub kind: PartKind,
    /// Their number.
    pub count: usize,
    /// The title of the section or list around them; empty without a title.
    pub section: String,
    /// The line of the first one.
    pub line: Option<u64>,
}

/// The kind of a part that is not a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    Checkbox,
    /// An item of a list.
    Item,
    /// A row of a table.
    Row,
    /// A section that only has text.
    Section,
    /// An unfilled part of a template.
    Placeholder,
    /// An object in a list of tasks.
    Record,
}

impl PartKind {
    fn word(self) -> (&'static str, &'static str) {
        match self {
            Self::Checkbox => ("checkbox", "checkboxes"),
            Self::Item => ("item", "items"),
            Self::Row => ("table row", "table rows"),
            Self::Section => ("section", "sections"),
            Self::Placeholder => ("unfilled placeholder", "unfilled placeholders"),
            Self::Record => ("record", "records"),
        }
    }

    /// The word of the JSON form.
    #[must_use]
    pub fn json_word(self) -> &'static str {
        match self {
            Self::Checkbox => "checkbox",
            Self::Item => "item",
            Self::Row => "row",
            Self::Section => "section",
            Self::Placeholder => "placeholder",
            Self::Record => "record",
        }
    }
}

impl UnreadPart {
    /// The parts, and the section around them.
    #[must_use]
    pub fn without_line(&self) -> String {
        let (one, many) = self.kind.word();
        if self.kind == PartKind::Section {
            return format!("section \"{}\"", self.section);
        }
        let mut text = format!("{} {}", self.count, if self.count == 1 { one } else { many });
        if !self.section.is_empty() {
            let _ = write!(text, " under \"{}\"", self.section);
        }
        text
    }
}

impl fmt::Display for UnreadPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.without_line())?;
        self.line.map_or(Ok(()), |line| write!(f, ", line {line}"))
    }
}

/// An id or a dependency that differs from the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correction {
    /// The change, and its reason.
    pub kind: CorrectionKind,
    /// The id of the step.
    pub step: String,
    /// The name in the file: the repeated id, or the dependency.
    pub name: String,
    /// The line of the step.
    pub line: Option<u64>,
}

/// The change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CorrectionKind {
    /// The id is used twice in the file; this step has a new one.
    RepeatedId,
    /// The same record appears twice; one was read.
    RepeatedRecord,
    /// The dependency names no step of the file; it was dropped.
    MissingDependency,
    /// The dependency names a deleted record, or one that is not work; it was dropped.
    IdleDependency,
    /// The step depends on itself or on a step that contains it; the dependency was dropped.
    OwnDependency,
    /// The dependency closes a cycle through finished work; it was dropped.
    FinishedDependency,
    /// The dependency cannot be read; it was dropped.
    UnreadableDependency,
    /// The command line asks to drop the dependency.
    RequestedDrop,
    /// The step is open, but the task around it is done; it is done with it.
    ClosedPart,
}

impl CorrectionKind {
    /// The word of the JSON form.
    #[must_use]
    pub fn json_word(self) -> &'static str {
        match self {
            Self::RepeatedId => "repeated_id",
            Self::RepeatedRecord => "repeated_record",
            Self::MissingDependency => "missing_dependency",
            Self::IdleDependency => "idle_dependency",
            Self::OwnDependency => "own_dependency",
            Self::FinishedDependency => "finished_dependency",
            Self::UnreadableDependency => "unreadable_dependency",
            Self::RequestedDrop => "requested_drop",
            Self::ClosedPart => "closed_part",
        }
    }

    /// The event that affected one item or several.
    fn summary(self, count: usize) -> String {
        let s = if count == 1 { "" } else { "s" };
        let ies = if count == 1 { "y" } else { "ies" };
        let (was, names) = if count == 1 { ("was", "names") } else { ("were", "name") };
        match self {
            Self::RepeatedId => format!("{count} repeated id{s} {was} made unique"),
            Self::RepeatedRecord => {
                format!("{count} record{s} {was} in the file twice; the newest counts")
            }
            Self::MissingDependency => {
                format!("{count} dependenc{ies} {names} no task of the file and {was} dropped")
            }
            Self::IdleDependency => {
                format!("{count} dependenc{ies} on deleted or other entries {was} dropped")
            }
            Self::OwnDependency => format!(
                "{count} dependenc{ies} of a task on itself or on the task around it {was} dropped"
            ),
            Self::FinishedDependency => {
                format!("{count} dependenc{ies} in a cycle through finished tasks {was} dropped")
            }
            Self::UnreadableDependency => {
                format!("{count} dependenc{ies} cannot be read and {was} dropped")
            }
            Self::RequestedDrop => format!("{count} dependenc{ies} {was} dropped as requested"),
            Self::ClosedPart => {
                let (is, tasks) = if count == 1 { ("is", "a task") } else { ("are", "tasks") };
                format!("{count} open part{s} of {tasks} marked as done {is} done, too")
            }
        }
    }
}

impl fmt::Display for Correction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (step, name) = (self.step.escape_debug(), self.name.escape_debug());
        match self.kind {
            CorrectionKind::RepeatedId => write!(f, "`{name}` is `{step}`")?,
            CorrectionKind::RepeatedRecord => write!(f, "`{step}`")?,
            CorrectionKind::ClosedPart => write!(f, "`{step}` of `{name}`")?,
            _ => write!(f, "`{step}` on `{name}`")?,
        }
        self.line.map_or(Ok(()), |line| write!(f, " (line {line})"))
    }
}

/// How many parts of a kind a report names.
const SHOWN_MAX: usize = 5;

impl ReadReport {
    /// Whether everything was read as it is in the file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.unread.is_empty() && self.corrections.is_empty() && self.kept.is_empty()
    }

    /// The corrections as sentences, one for each kind.
    #[must_use]
    pub fn correction_lines(&self) -> Vec<(Option<u64>, String)> {
        let mut by_kind: BTreeMap<CorrectionKind, Vec<&Correction>> = BTreeMap::new();
        for correction in &self.corrections {
            by_kind.entry(correction.kind).or_default().push(correction);
        }
        let line = |(kind, all): (CorrectionKind, Vec<&Correction>)| {
            let first = all.iter().filter_map(|each| each.line).min();
            (first, format!("{}: {}", kind.summary(all.len()), listed(&all)))
        };
        by_kind.into_iter().map(line).collect()
    }

    /// The unread parts as one text; empty if all parts were read.
    #[must_use]
    pub fn unread_text(&self) -> String {
        listed(&self.unread)
    }

    /// The fields that are kept as data, each with its count; empty if there are none.
    #[must_use]
    pub fn kept_text(&self) -> String {
        let fields = self.kept.iter();
        let fields = fields.map(|(name, count)| format!("`{}` ({count})", name.escape_debug()));
        fields.collect::<Vec<_>>().join(", ")
    }
}

/// The first items, and the number of the rest.
fn listed<T: fmt::Display>(items: &[T]) -> String {
    let shown: Vec<String> = items.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
    let mut text = shown.join("; ");
    if let Some(rest) = items.len().checked_sub(SHOWN_MAX).filter(|rest| *rest > 0) {
        let _ = write!(text, "; and {rest} more");
    }
    text
}
