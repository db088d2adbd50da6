//! The one error of the library: what kind it is, where it happened, and what to do.
//!
//! Messages have the shape *where: what: expected, found; what to do*, in lower case and without
//! a full stop, so that they can be joined.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::plan::Rejection;

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Anything that can go wrong with a ledger.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    location: Location,
    rejection: Option<Rejection>,
    source: Option<std::io::Error>,
}

/// What kind of thing went wrong, and so who must act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused: the operator looks at the disk or the permissions.
    Io,
    /// No room on the disk. Nothing of the request was written; make room and ask again.
    DiskFull,
    /// There is no ledger here.
    NotALedger,
    /// Another process (or another handle of this one) writes to the ledger.
    Locked,
    /// Bytes that were acknowledged are damaged: nothing may be written; readers go on.
    Corrupt,
    /// Bytes are intact but are not the ones that were written: somebody edited the ledger.
    Tampered,
    /// It cannot be told whether acknowledged bytes are damaged: nothing may be written.
    Ambiguous,
    /// A newer version of the program wrote it.
    Unsupported,
    /// A write or sync failed: whether the record is durable is unknown until it is reopened.
    OutcomeUnknown,
    /// An earlier write or sync failed: this handle refuses. Open the ledger again.
    Poisoned,
    /// This handle may no longer write: the lock is lost, another writer took over, or the process
    /// is a fork. Nothing more is written; open the ledger again.
    Fenced,
    /// The record, or the request, is over a limit.
    TooLarge,
    /// A projection says that it cannot be written: the message says why. Nothing else is affected.
    Unencodable,
    /// The batch would not get the sequence number that its author expected. Nothing was written;
    /// look at what was recorded in the meantime, and decide again.
    Conflict,
    /// The ledger's rules refuse the command; see [`Error::rejection`].
    Rejected,
    /// There is no such record.
    OutOfRange,
    /// The record is not in the log any more: it was pruned. An archive may have it.
    Pruned,
    /// A plan file cannot be read or is not valid.
    BadPlan,
}

impl ErrorKind {
    /// Its name for programs, which never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::DiskFull => "disk_full",
            Self::NotALedger => "not_a_ledger",
            Self::Locked => "locked",
            Self::Corrupt => "corrupt",
            Self::Tampered => "tampered",
            Self::Ambiguous => "ambiguous",
            Self::Unsupported => "unsupported",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Poisoned => "poisoned",
            Self::Fenced => "fenced",
            Self::TooLarge => "too_large",
            Self::Unencodable => "unencodable",
            Self::Conflict => "conflict",
            Self::Rejected => "rejected",
            Self::OutOfRange => "out_of_range",
            Self::Pruned => "pruned",
            Self::BadPlan => "bad_plan",
        }
    }
}

/// Where something went wrong, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Location {
    /// The file.
    pub path: Option<PathBuf>,
    /// The byte in it.
    pub offset: Option<u64>,
    /// The record.
    pub seq: Option<u64>,
}

impl Error {
    /// An error of that kind. The message says what, expected and found, and what to do.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            location: Location::default(),
            rejection: None,
            source: None,
        }))
    }

    /// What the operating system said about a file, while doing `what`.
    #[must_use]
    pub fn io(what: &str, path: &Path, source: std::io::Error) -> Self {
        let kind = match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                ErrorKind::DiskFull
            }
            _ => ErrorKind::Io,
        };
        let mut error = Self::new(kind, format!("cannot {what}")).at_path(path);
        error.0.source = Some(source);
        error
    }

    /// The same error, in this file.
    #[must_use]
    pub fn at_path(mut self, path: &Path) -> Self {
        self.0.location.path = Some(path.to_owned());
        self
    }

    /// The same error, at this byte of its file.
    #[must_use]
    pub fn at_offset(mut self, offset: u64) -> Self {
        self.0.location.offset = Some(offset);
        self
    }

    /// The same error, about this record.
    #[must_use]
    pub fn at_seq(mut self, seq: u64) -> Self {
        self.0.location.seq = Some(seq);
        self
    }

    /// The same error, as another kind.
    #[must_use]
    pub fn as_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// What kind it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What happened, without the place, and without what the operating system said.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Where it happened.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.0.location
    }

    /// Why the ledger's rules refused, if they did.
    #[must_use]
    pub fn rejection(&self) -> Option<&Rejection> {
        self.0.rejection.as_ref()
    }

    /// Whether acknowledged bytes are, or may be, damaged: the exit code 4 of the binary.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Corrupt | ErrorKind::Tampered | ErrorKind::Ambiguous)
    }
}

impl From<Rejection> for Error {
    fn from(rejection: Rejection) -> Self {
        let kind = match rejection {
            Rejection::InvalidPlan(_) => ErrorKind::BadPlan,
            _ => ErrorKind::Rejected,
        };
        let mut error = Self::new(kind, rejection.to_string());
        error.0.rejection = Some(rejection);
        error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Location { path, offset, seq } = &self.0.location;
        if let Some(path) = path {
            write!(f, "{}: ", path.display())?;
        }
        if let Some(offset) = offset {
            write!(f, "offset {offset}: ")?;
        }
        if let Some(seq) = seq {
            write!(f, "record {seq}: ")?;
        }
        f.write_str(&self.0.message)?;
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| {
            let source: &(dyn std::error::Error + 'static) = source;
            source
        })
    }
}
