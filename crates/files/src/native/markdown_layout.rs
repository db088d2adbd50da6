//! The layout of a native plan in Markdown, shared by the reader and the writer.

/// The first line.
pub(crate) const HEADER: &str = "<!-- ledger plan 1 -->";

/// How the value of a step field is written on one line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ValueKind {
    /// One name in backquotes.
    Name,
    /// Names in backquotes.
    Names,
    /// A whole number.
    Number,
}

/// The step fields that are written on one line each: name, label and kind, in the order of
/// output.
pub(crate) const STEP_FIELDS: &[(&str, &str, ValueKind)] = &[
    ("after", "After", ValueKind::Names),
    ("phase", "Phase", ValueKind::Name),
    ("owner", "Owner", ValueKind::Name),
    ("command", "Command", ValueKind::Name),
    ("inputs", "Inputs", ValueKind::Names),
    ("outputs", "Outputs", ValueKind::Names),
    ("optional_outputs", "Optional outputs", ValueKind::Names),
    ("condition", "Condition", ValueKind::Name),
    ("preconditions", "Preconditions", ValueKind::Names),
    ("tools", "Tools", ValueKind::Names),
    ("tags", "Tags", ValueKind::Names),
    ("changes", "Changes", ValueKind::Names),
    ("side_effects", "Side effects", ValueKind::Names),
    ("idempotent", "Idempotent", ValueKind::Name),
    ("priority", "Priority", ValueKind::Number),
    ("timeout_seconds", "Timeout seconds", ValueKind::Number),
    ("estimate_seconds", "Estimate seconds", ValueKind::Number),
    ("repeat_limit", "Repeat limit", ValueKind::Number),
];

/// The plan fields that are texts: name and section title.
pub(crate) const TEXT_SECTIONS: &[(&str, &str)] =
    &[("outcome", "Outcome"), ("goal", "Goal"), ("context", "Context")];

/// The plan fields that are lists of lines: name and section title.
pub(crate) const LIST_SECTIONS: &[(&str, &str)] =
    &[("test_criteria", "Test criteria"), ("risks", "Risks"), ("open_questions", "Open questions")];
