//! What the exit code says, and what a command line can die of.

use std::fmt;
use std::io;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::error::{Error, ErrorKind};
use crate::plan::Rejection;

use super::inspect::words;

/// The exit codes, as `ledger --help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    Fine,
    Failed,
    Usage,
    Waiting,
    Damaged,
    Held,
    Refused,
    Machine,
}

impl Code {
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Waiting => 3,
            Self::Damaged => 4,
            Self::Held => 5,
            Self::Refused => 6,
            Self::Machine => 7,
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.number())
    }
}

/// Why a command came to nothing.
#[derive(Debug)]
pub(super) enum Failure {
    /// It was asked for in a way that cannot be meant.
    Usage(String),
    /// The ledger's rules do not let it happen.
    Refused(String),
    /// The ledger, or this machine, said no.
    Ledger(Error),
    /// Standard output cannot be written to.
    Output(io::Error),
}

impl Failure {
    pub(super) fn code(&self) -> Code {
        match self {
            Self::Usage(_) => Code::Usage,
            Self::Refused(_) => Code::Refused,
            Self::Ledger(error) => code_of(error),
            Self::Output(_) => Code::Machine,
        }
    }

    /// A plan file that cannot be read is wrong usage, whatever stands in the way.
    pub(super) fn of_plan_file(error: &Error) -> Self {
        Self::Usage(error.to_string())
    }
}

/// The exit code for a ledger's error.
pub(super) fn code_of(error: &Error) -> Code {
    match error.kind() {
        ErrorKind::NotALedger | ErrorKind::BadPlan | ErrorKind::OutOfRange | ErrorKind::Pruned => {
            Code::Usage
        }
        ErrorKind::Corrupt | ErrorKind::Tampered | ErrorKind::Ambiguous => Code::Damaged,
        ErrorKind::Locked | ErrorKind::Fenced => Code::Held,
        ErrorKind::Rejected
        | ErrorKind::Conflict
        | ErrorKind::TooLarge
        | ErrorKind::Unsupported => Code::Refused,
        ErrorKind::Io | ErrorKind::DiskFull | ErrorKind::OutcomeUnknown | ErrorKind::Poisoned => {
            Code::Machine
        }
    }
}

impl Failure {
    /// For programs: what they may match on, and what people read.
    pub(super) fn json(&self) -> Value {
        let (kind, rejection) = match self {
            Self::Usage(_) => ("usage".to_owned(), None),
            Self::Refused(_) => ("rejected".to_owned(), None),
            Self::Output(_) => ("output".to_owned(), None),
            Self::Ledger(error) => {
                (words(&error.kind(), '_'), error.rejection().map(Rejection::name))
            }
        };
        json!({
            "type": "error", "kind": kind, "rejection": rejection,
            "message": self.to_string(), "exit_code": self.code().number(),
        })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Ledger(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Refused(message) => f.write_str(message),
            Self::Ledger(error) => write!(f, "{error}"),
            Self::Output(error) => write!(f, "cannot write to standard output: {error}"),
        }
    }
}
