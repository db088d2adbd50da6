//! The change of a file by a setup.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// The change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(super) enum SetupAction {
    /// It was created.
    Created,
    /// It was changed.
    Changed,
    /// It needed no change.
    Unchanged,
    /// It lacks settings, and was not changed.
    Incomplete,
    /// It was deleted, since it had no other content.
    Deleted,
}

impl SetupAction {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Incomplete => "incomplete",
            Self::Deleted => "deleted",
        }
    }

    /// The action on a file, from its text before and after.
    pub(super) fn of(before: Option<&str>, after: Option<&str>, is_check: bool) -> Self {
        match (before, after) {
            (before, after) if before == after => Self::Unchanged,
            _ if is_check => Self::Incomplete,
            (None, _) => Self::Created,
            (Some(_), Some(_)) => Self::Changed,
            (Some(_), None) => Self::Deleted,
        }
    }
}
