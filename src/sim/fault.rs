//! The fault plan: which calls fail, and how.
//!
//! Invariant: what a rule does depends on the calls and on the rule alone.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A call that fails once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Which one, counted as [`SimDisk::calls`](super::SimDisk::calls) does: the first call is 1.
    pub call: u64,
    /// What it says.
    pub kind: io::ErrorKind,
    /// What it does all the same.
    pub effect: Effect,
}

/// What a call that fails does all the same. Calls that only look have no effect in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing. A sync leaves the new bytes in the cache and marks them clean: later syncs return
    /// `Ok` and do not write them.
    Nothing,
    /// A write does some of its sectors, which depends on the number; for other calls this is
    /// [`Effect::Nothing`].
    Part(u64),
    /// A short write: so many bytes are written; for other calls this is [`Effect::Nothing`].
    Prefix(usize),
    /// Everything.
    Everything,
    /// A sync forgets the new bytes: reads give what is on the medium. The length stays. For
    /// other calls this is [`Effect::Nothing`].
    Revert,
    /// A sync leaves the new bytes in the cache and to the next sync, and the machine stops
    /// before the call that comes so many calls later, 1 being the next one. For other calls
    /// only the stop counts.
    CrashIn(u64),
}

/// Calls that fail, or lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Only calls of this kind.
    pub operation: Option<Operation>,
    /// Only calls on this path, or on the file that has it when the call is made.
    pub path: Option<PathBuf>,
    /// The first of these calls that fails, counted from when the rule is made: 1 is the next.
    pub nth: u64,
    /// Whether those behind it fail as well.
    pub times: Times,
    /// What happens.
    pub failure: Failure,
}

impl Rule {
    /// The next call fails, once.
    #[must_use]
    pub fn next(failure: Failure) -> Self {
        Self { operation: None, path: None, nth: 1, times: Times::Once, failure }
    }

    /// Only calls of a kind.
    #[must_use]
    pub fn of(self, operation: Operation) -> Self {
        Self { operation: Some(operation), ..self }
    }

    /// Only calls on a path.
    #[must_use]
    pub fn on(self, path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..self }
    }

    /// The n-th such call instead of the next one.
    #[must_use]
    pub fn nth(self, nth: u64) -> Self {
        Self { nth, ..self }
    }

    /// It, and all such calls behind it.
    #[must_use]
    pub fn for_ever(self) -> Self {
        Self { times: Times::Forever, ..self }
    }

    /// Count a call; whether it is one that fails. A rule that is used up counts to 0.
    pub(super) fn strikes(&mut self) -> bool {
        self.nth = self.nth.saturating_sub(1);
        if self.nth > 0 {
            return false;
        }
        if self.times == Times::Forever {
            self.nth = 1;
        }
        true
    }
}

/// How often a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// Once.
    Once,
    /// From then on always.
    Forever,
}

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "they are named as the methods of the port")]
pub enum Operation {
    CreateDir,
    List,
    Create,
    Open,
    Rename,
    Remove,
    RemoveDir,
    SyncDir,
    Lock,
    LockCheck,
    Medium,
    Length,
    Read,
    Write,
    Sync,
    SetLength,
    MakeReadOnly,
    Map,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CreateDir => "create folder",
            Self::List => "list",
            Self::Create => "create",
            Self::Open => "open",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::RemoveDir => "remove folder",
            Self::SyncDir => "sync folder",
            Self::Lock => "lock",
            Self::LockCheck => "check the lock",
            Self::Medium => "ask for the medium",
            Self::Length => "ask for the length",
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::SetLength => "set the length",
            Self::MakeReadOnly => "make read-only",
            Self::Map => "map",
        })
    }
}

/// What happens to a call. A failure that a call cannot have changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It says that it failed.
    Error(OsError, Effect),
    /// A read gives at most so many bytes although there are more.
    ShortRead(usize),
    /// A write that is seen until the cache is lost, and never gets to the medium.
    LostWrite,
    /// A write that is seen where it belongs until the cache is lost, and on the medium replaces
    /// bytes elsewhere, in its own file or in another one.
    MisdirectedWrite {
        /// The file that it harms; its own if there is none.
        path: Option<PathBuf>,
        /// Where.
        offset: u64,
    },
    /// A sync of a file or folder that says that it worked and did nothing.
    LyingSync,
    /// A bit turns on the medium, in the file of the call, while the call does its work. The
    /// number decides which.
    Rot(u64),
    /// It takes that long. Nobody sleeps: [`SimDisk::delay`](super::SimDisk::delay) adds it up.
    Slow(Duration),
}

/// What a call says when it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OsError {
    /// The device failed: `EIO`.
    Io,
    /// There is no space: `ENOSPC`.
    NoSpace,
    /// A signal came: `EINTR`.
    Interrupted,
    /// The quota is used up: `EDQUOT`.
    Quota,
    /// Anything else.
    Other(io::ErrorKind),
}

impl OsError {
    /// As the operating system gives it.
    #[must_use]
    pub fn error(self) -> io::Error {
        match self {
            Self::Io if cfg!(unix) => io::Error::from_raw_os_error(5),
            Self::Io => io::ErrorKind::Other.into(),
            Self::NoSpace if cfg!(unix) => io::Error::from_raw_os_error(28),
            Self::NoSpace => io::ErrorKind::StorageFull.into(),
            Self::Interrupted if cfg!(unix) => io::Error::from_raw_os_error(4),
            Self::Interrupted => io::ErrorKind::Interrupted.into(),
            Self::Quota if cfg!(target_os = "linux") => io::Error::from_raw_os_error(122),
            Self::Quota => io::ErrorKind::QuotaExceeded.into(),
            Self::Other(kind) => kind.into(),
        }
    }
}

impl fmt::Display for OsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io => f.write_str("EIO"),
            Self::NoSpace => f.write_str("ENOSPC"),
            Self::Interrupted => f.write_str("EINTR"),
            Self::Quota => f.write_str("EDQUOT"),
            Self::Other(kind) => write!(f, "{kind}"),
        }
    }
}

/// A call, as the rules see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) operation: Operation,
    pub(super) path: &'a Path,
    /// The new path, if it gets one.
    pub(super) to: Option<&'a Path>,
    /// The file that it is about, if it is open.
    pub(super) node: Option<usize>,
}

impl<'a> Call<'a> {
    pub(super) fn at(operation: Operation, path: &'a Path) -> Self {
        Self { operation, path, to: None, node: None }
    }
}
