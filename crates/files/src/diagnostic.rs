//! Diagnostics of a plan file: the place, the fault, and the fix.
//!
//! A file that cannot be parsed has one syntax error with a line and a column. A file that can be
//! parsed is checked completely, and reports every problem at once.

use std::fmt;

use plan_ledger::plan::{Problem, Rejection};
use plan_ledger::{Error, ErrorKind};

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The plan is invalid.
    Problem,
    /// The plan is valid but probably a mistake.
    Warning,
    /// An explanation of how the file was read where it is ambiguous.
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

/// One problem, warning or note about a plan file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    /// The line of the file, counted from 1, if known.
    pub line: Option<u64>,
    /// The column in the line, counted from 1, if known.
    pub column: Option<u64>,
    /// The path of the field in the plan or in the file; empty if the line is enough.
    pub place: String,
    /// The problem, the expected and found values, and the remedy.
    pub message: String,
}

impl Diagnostic {
    /// A diagnostic with a line and no path.
    pub(super) fn at_line(
        severity: Severity,
        line: Option<u64>,
        message: impl Into<String>,
    ) -> Self {
        Self { severity, line, column: None, place: String::new(), message: message.into() }
    }

    /// A diagnostic with a path. The line is looked up later.
    pub(super) fn at_path(severity: Severity, place: String, message: impl Into<String>) -> Self {
        Self { severity, line: None, column: None, place, message: message.into() }
    }

    /// The diagnostic of a syntax error. The message does not repeat the line.
    pub(super) fn from_error(line: Option<u64>, error: &Error) -> Self {
        let message = error.message();
        let prefix = line.map_or_else(String::new, |line| format!("line {line}, column "));
        let rest = message.strip_prefix(&prefix).filter(|_| line.is_some());
        let found = rest.and_then(|rest| rest.split_once(": "));
        let column = found.and_then(|(column, _)| column.parse().ok());
        let message = found.filter(|_| column.is_some()).map_or(message, |(_, message)| message);
        Self { column, ..Self::at_line(Severity::Problem, line, message) }
    }

    /// The diagnostic with the column of the first character of its line.
    pub(super) fn with_column(mut self, lines: &[&str]) -> Self {
        let index = self.line.and_then(|line| usize::try_from(line.checked_sub(1)?).ok());
        if let (None, Some(text)) = (self.column, index.and_then(|index| lines.get(index))) {
            let blank = text.chars().take_while(|c| c.is_whitespace()).count();
            self.column = u64::try_from(blank.saturating_add(1)).ok();
        }
        self
    }
}

impl fmt::Display for Diagnostic {
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

/// The result of reading a plan file, or a part of it.
pub(super) type ReadResult<T> = Result<T, ReadError>;

/// Why a file has no valid plan.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The file could not be parsed from some place on.
    Syntax {
        /// The line, if known.
        line: Option<u64>,
        /// The path of the value; empty if the line is enough.
        path: String,
        /// The message, which includes line and column.
        error: Error,
    },
    /// The file could be parsed, and these are all of its problems.
    Invalid(Vec<Diagnostic>),
}

impl ReadError {
    /// A syntax error at a line and a column, both counted from 1.
    pub(super) fn at(line: u64, column: u64, message: &str) -> Self {
        let error = plan_error(format!("line {line}, column {column}: {message}"));
        Self::Syntax { line: Some(line), path: String::new(), error }
    }

    /// The error of the value at a path.
    pub(super) fn of_value(self, at: String) -> Self {
        match self {
            Self::Syntax { line, error, .. } => Self::Syntax { line, path: at, error },
            Self::Invalid(_) => self,
        }
    }

    /// All problems, each with its place.
    pub(super) fn into_diagnostics(self) -> Vec<Diagnostic> {
        match self {
            Self::Syntax { line, path, error } => {
                vec![Diagnostic { place: path, ..Diagnostic::from_error(line, &error) }]
            }
            Self::Invalid(found) => found,
        }
    }

    /// Whether an object has a name twice.
    pub(super) fn is_name_twice(&self) -> bool {
        matches!(self, Self::Syntax { error, .. } if error.message().contains(": duplicate "))
    }
}

/// What was read, if the text is of the syntax at all. A name that is given twice stays an error: text with one is of
/// the syntax, and to read it as something else would lose its fields.
pub(super) fn of_syntax<T>(read: ReadResult<T>) -> ReadResult<Option<T>> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_name_twice() => Err(error),
        Err(_) => Ok(None),
    }
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        Self::Syntax { line: None, path: String::new(), error }
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Syntax { error, .. } => error,
            ReadError::Invalid(mut diagnostics) => {
                diagnostics.retain(|each| each.severity == Severity::Problem);
                let problem = |diagnostic: Diagnostic| {
                    let place = match (diagnostic.line, diagnostic.place.as_str()) {
                        (None, place) => place.to_owned(),
                        (Some(line), "") => format!("line {line}"),
                        (Some(line), place) => format!("line {line}: {place}"),
                    };
                    Problem { place, message: diagnostic.message }
                };
                Rejection::InvalidPlan(diagnostics.into_iter().map(problem).collect()).into()
            }
        }
    }
}

/// An error about the content of a plan file. Control characters that it quotes are escaped, so
/// that the file cannot send escape sequences to a terminal.
pub(super) fn plan_error(message: impl AsRef<str>) -> Error {
    let mut text = String::new();
    for char in message.as_ref().chars() {
        if char.is_control() {
            text.extend(char.escape_debug());
        } else {
            text.push(char);
        }
    }
    Error::new(ErrorKind::BadPlan, text)
}
