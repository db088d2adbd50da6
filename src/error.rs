//! The error type of the library: its kind, its location, and the advice.
//!
//! A message has the form *what happened: expected, found*, in lower case and without a full stop,
//! so that messages can be joined. The location is printed before it, the hint (the next action)
//! after it: joined with a semicolon, or with `{:#}` on a line of its own.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

#[cfg(feature = "ledger")]
use crate::plan::Rejection;

/// The result type of the library.
pub type Result<T> = std::result::Result<T, Error>;

/// Any failure of an operation on a ledger.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<Cow<'static, str>>,
    advice: Option<Advice>,
    location: Location,
    #[cfg(feature = "ledger")]
    rejection: Option<Rejection>,
    source: Option<std::io::Error>,
}

/// The kind of a failure. It tells who can fix the failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system reported an error: check the disk and the permissions.
    Io,
    /// The disk is full. Nothing of the request was written; free some space and repeat it.
    DiskFull,
    /// The folder has no ledger.
    NotALedger,
    /// Another process, or another handle of this process, has the writer lock.
    Locked,
    /// Acknowledged bytes are damaged. Nothing may be written; reads continue.
    Corrupt,
    /// Bytes have valid checksums but are not the ones that were written: the ledger was edited.
    Tampered,
    /// Acknowledged bytes may or may not be damaged. Nothing may be written.
    Ambiguous,
    /// A newer version of the program wrote this.
    Unsupported,
    /// A write or sync failed. Whether the record is durable is unknown until the ledger is opened
    /// again.
    OutcomeUnknown,
    /// An earlier write or sync failed, so this handle accepts no more writes. Open the ledger again.
    Poisoned,
    /// This handle lost the right to write: the lock is lost, another writer took over, or the process
    /// was forked. Nothing more is written; open the ledger again.
    Fenced,
    /// The record or request exceeds a limit.
    TooLarge,
    /// A record or a projection cannot be encoded; the message has the reason. Nothing else is affected.
    Unencodable,
    /// The batch would not get the expected sequence number. Nothing was written; read the new records
    /// and decide again.
    Conflict,
    /// The idempotency key was used for another request. Nothing was done; use a new key.
    KeyReused,
    /// The rules of the plan reject the command; `Error::rejection` has the reason.
    Rejected,
    /// The folder has records that the store of the ledger does not have, and cannot take over. Nothing was
    /// changed.
    Diverged,
    /// The record does not exist.
    OutOfRange,
    /// The record was pruned. An archive may have it.
    Pruned,
    /// A plan file cannot be read or is not valid.
    BadPlan,
}

impl ErrorKind {
    /// Its stable name, for programs.
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
            Self::KeyReused => "key_reused",
            Self::Rejected => "rejected",
            Self::Diverged => "diverged",
            Self::OutOfRange => "out_of_range",
            Self::Pruned => "pruned",
            Self::BadPlan => "bad_plan",
        }
    }
}

/// Advice about a failure that each interface words differently: a user of the library calls a
/// method where a person types a command.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Create a ledger, or name another folder.
    CreateLedger,
    /// Nothing was changed; read the intact records.
    ReadIntact,
    /// Read the archive, which is never written.
    ReadArchive,
    WaitForLockHolder,
    /// Write from the machine that has the disk, or allow unsafe locks.
    WriteFromOneMachine,
    /// Work as the owner of the folder, or share the ledger with a group.
    WorkAsItsOwner,
    /// Make two snapshots.
    MakeSnapshots,
    /// Use a newer version of the program, or read.
    UseNewerVersion,
}

impl Advice {
    /// The words for callers of the library.
    fn text(self) -> &'static str {
        match self {
            Self::CreateLedger => "name the folder of a ledger, or create one",
            Self::ReadIntact => "nothing was changed; intact records can be read",
            Self::ReadArchive => "it can be read and verified",
            Self::WaitForLockHolder => {
                "wait until it closes the ledger; reading needs no lock; another plan can run in \
                 another ledger"
            }
            Self::WriteFromOneMachine => {
                "write on the machine that has the disk, or allow unsafe locks if there is no other \
                 writer"
            }
            Self::WorkAsItsOwner => {
                "work as that user, or use a ledger that was created for a group; reading needs only \
                 the permission to read"
            }
            Self::MakeSnapshots => "make a snapshot, continue, and try again",
            Self::UseNewerVersion => "use a newer version of this library; records can be read",
        }
    }
}

/// The known place of a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Location {
    /// The file.
    pub path: Option<PathBuf>,
    /// The byte offset in the file.
    pub offset: Option<u64>,
    /// The record.
    pub seq: Option<u64>,
}

/// Predicates, which group the kinds by what the caller can do.
impl Error {
    /// Whether the rules of the plan reject the command; `Error::rejection` has the reason. Nothing
    /// was written.
    #[must_use]
    pub fn is_rejected(&self) -> bool {
        self.0.kind == ErrorKind::Rejected
    }

    /// Whether another process, or another handle of this process, has the ledger open for writing.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.0.kind == ErrorKind::Locked
    }

    /// Whether nothing was written and the same call may succeed later: the ledger is locked, the disk
    /// is full, or the state changed in the meantime.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Locked | ErrorKind::DiskFull | ErrorKind::Conflict)
    }

    /// Whether this handle accepts no more commands, so that the ledger must be opened again. A
    /// command may or may not be durable if its own write failed; repeat it under a
    /// [`BatchKey`](crate::log::BatchKey).
    #[must_use]
    pub fn must_reopen(&self) -> bool {
        matches!(self.0.kind, ErrorKind::OutcomeUnknown | ErrorKind::Poisoned | ErrorKind::Fenced)
    }

    /// Whether acknowledged bytes are or may be damaged. The program then exits with code 4.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Corrupt | ErrorKind::Tampered | ErrorKind::Ambiguous)
    }
}

/// Parts.
impl Error {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message, without the location, the error of the operating system and the hint.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The action that the user can take.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Its location.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.0.location
    }

    /// The reason of a rejected command.
    #[cfg(feature = "ledger")]
    #[must_use]
    pub fn rejection(&self) -> Option<&Rejection> {
        self.0.rejection.as_ref()
    }
}

/// Constructors, for the packages of this project.
#[doc(hidden)]
impl Error {
    /// An error. The message states what happened, and the expected and found values.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            hint: None,
            advice: None,
            location: Location::default(),
            #[cfg(feature = "ledger")]
            rejection: None,
            source: None,
        }))
    }

    /// An error of the operating system about a file, during the action `what`.
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

    /// The same error, with an action that the user can take.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(Cow::Owned(hint.into()));
        self.0.advice = None;
        self
    }

    /// The same error, with the library's wording of the advice.
    #[must_use]
    pub fn with_advice(mut self, advice: Advice) -> Self {
        self.0.hint = Some(Cow::Borrowed(advice.text()));
        self.0.advice = Some(advice);
        self
    }

    /// The location, the message and the error of the operating system, without the hint.
    #[must_use]
    pub fn without_hint(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_without_hint(&mut text);
        text
    }

    fn write_without_hint(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        let Location { path, offset, seq } = &self.0.location;
        match path {
            Some(path) if self.0.kind == ErrorKind::NotALedger => {
                write!(f, "no ledger at {}: ", path.display())?;
            }
            Some(path) => write!(f, "{}: ", path.display())?,
            None => {}
        }
        if let Some(offset) = offset {
            write!(f, "offset {offset}: ")?;
        }
        if let Some(seq) = seq {
            write!(f, "record {seq}: ")?;
        }
        f.write_str(&self.0.message)?;
        match &self.0.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }

    /// The advice, if every interface words it differently.
    #[must_use]
    pub fn advice(&self) -> Option<Advice> {
        self.0.advice
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
}

#[cfg(feature = "ledger")]
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
        self.write_without_hint(f)?;
        match &self.0.hint {
            Some(hint) if f.alternate() => write!(f, "\nhint: {hint}"),
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
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
