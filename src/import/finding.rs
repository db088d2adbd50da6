//! What is said about a plan file: where, what, and what to do.

use std::fmt;

use crate::error::Error;
use crate::plan::{Problem, Rejection};

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file cannot be run as it is.
    Problem,
    /// It can be run, but hardly was meant so.
    Warning,
    /// How the file was read where it left a choice.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Problem => "problem",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// One thing that is said about a plan file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How much it weighs.
    pub severity: Severity,
    /// The line of the file, counted from 1, where one is known.
    pub line: Option<u64>,
    /// Where in the plan, or in the file's own terms; empty where the line says all.
    pub place: String,
    /// What is wrong, what was expected and found, and what to do.
    pub message: String,
}

impl Finding {
    /// A finding with no place but a line.
    pub(super) fn at(severity: Severity, line: Option<u64>, message: impl Into<String>) -> Self {
        Self { severity, line, place: String::new(), message: message.into() }
    }

    /// What keeps a text from being read, at that line.
    pub(super) fn of_error(line: Option<u64>, error: &Error) -> Self {
        let prefix = line.map_or_else(String::new, |line| format!("line {line}, "));
        let message = error.message();
        let message = message.strip_prefix(&prefix).unwrap_or(message);
        Self::at(Severity::Problem, line, message)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.message)
    }
}

/// Why a text is no plan.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It cannot be read at all, or only up to some place.
    Unreadable {
        /// The line, where one is known.
        line: Option<u64>,
        /// Where in that line, counted from 1, where that is known.
        column: Option<u64>,
        /// What is said of it, with its place.
        error: Error,
    },
    /// It can be read, and all of this is wrong with it.
    Problems(Vec<Finding>),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Unreadable { line: None, column: None, error }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unreadable { error, .. } => error,
            Refusal::Problems(found) => {
                let problem = |finding: Finding| {
                    let place = match (finding.line, finding.place.as_str()) {
                        (None, place) => place.to_owned(),
                        (Some(line), "") => format!("line {line}"),
                        (Some(line), place) => format!("line {line}: {place}"),
                    };
                    Problem { place, message: finding.message }
                };
                Rejection::InvalidPlan(found.into_iter().map(problem).collect()).into()
            }
        }
    }
}
