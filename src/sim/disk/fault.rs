//! Fault injection: which calls fail, and how.
//!
//! Invariant: a fault depends only on its rule and on the calls.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A call, by its number, that fails once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The number of the call, as [`SimDisk::calls`](super::SimDisk::calls) counts: the first is 1.
    pub call: u64,
    /// The error that it returns.
    pub kind: io::ErrorKind,
    /// The partial effect of the failed call.
    pub effect: FaultEffect,
}

/// The partial effect of a failing call. A call that only reads never has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultEffect {
    /// Nothing. A sync leaves the new bytes in the cache and marks them clean: later syncs return
    /// `Ok` without writing them.
    Nothing,
    /// A write stores some of its sectors, which the seed selects; for other calls this is
    /// [`FaultEffect::Nothing`].
    Part(u64),
    /// A short write stores that many bytes; for other calls this is [`FaultEffect::Nothing`].
    Prefix(usize),
    Everything,
    /// A sync discards the new bytes: reads return the durable bytes. The length stays. For other
    /// calls this is [`FaultEffect::Nothing`].
    Revert,
    /// A sync leaves the new bytes to the next sync, and the machine stops before the n-th call after
    /// it; 1 is the next call. Other calls only stop the machine.
    CrashIn(u64),
}

/// A rule that makes calls fail or lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRule {
    /// Restricts the rule to one operation.
    pub operation: Option<Operation>,
    /// Restricts the rule to calls on this path, or on the file that has it at the time of the call.
    pub path: Option<PathBuf>,
    /// The first matching call that fails, counted from the creation of the rule: 1 is the next.
    pub nth: u64,
    /// Whether later matching calls also fail.
    pub repeat: Repeat,
    /// The effect on the call.
    pub action: FaultAction,
}

impl FaultRule {
    /// The next call fails once.
    #[must_use]
    pub fn next(action: FaultAction) -> Self {
        Self { operation: None, path: None, nth: 1, repeat: Repeat::Once, action }
    }

    /// Restrict the rule to one operation.
    #[must_use]
    pub fn of(self, operation: Operation) -> Self {
        Self { operation: Some(operation), ..self }
    }

    /// Restrict the rule to one path.
    #[must_use]
    pub fn on(self, path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..self }
    }

    /// Start at the n-th matching call.
    #[must_use]
    pub fn nth(self, nth: u64) -> Self {
        Self { nth, ..self }
    }

    /// Also apply the rule to all later matching calls.
    #[must_use]
    pub fn always(self) -> Self {
        Self { repeat: Repeat::Always, ..self }
    }

    /// Count a matching call. Returns whether it fails. `nth` is 0 once the rule is used up.
    pub(super) fn applies_next(&mut self) -> bool {
        self.nth = self.nth.saturating_sub(1);
        if self.nth > 0 {
            return false;
        }
        if self.repeat == Repeat::Always {
            self.nth = 1;
        }
        true
    }
}

/// How often a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    Once,
    /// At every call from then on.
    Always,
}

/// A method of `Storage` or `StorageFile`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    FilesystemKind,
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
            Self::FilesystemKind => "get the file system kind",
            Self::Length => "get the length",
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::SetLength => "set the length",
            Self::MakeReadOnly => "make read-only",
            Self::Map => "map",
        })
    }
}

/// The effect of a fault on a call. An action that does not apply to the call has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultAction {
    /// It returns an error.
    Error(OsError, FaultEffect),
    /// A read returns at most that many bytes although there are more.
    ShortRead(usize),
    /// A write reaches the cache but never becomes durable.
    LostWrite,
    /// A write reaches the cache at its offset, and durably replaces bytes elsewhere, in its own file
    /// or in another one.
    MisdirectedWrite {
        /// The damaged file; `None` for its own.
        path: Option<PathBuf>,
        /// The damaged offset.
        offset: u64,
    },
    /// A sync of a file or folder returns `Ok` and does nothing.
    LyingSync,
    /// A durable bit of the file flips during the call. The seed selects the bit.
    BitRot(u64),
    /// The call is delayed by this time. No thread sleeps:
    /// [`SimDisk::delay`](super::SimDisk::delay) is the sum.
    Slow(Duration),
}

/// The error of a failing call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OsError {
    /// The device failed: `EIO`.
    Io,
    /// The disk is full: `ENOSPC`.
    NoSpace,
    /// A signal interrupted the call: `EINTR`.
    Interrupted,
    /// The quota is exceeded: `EDQUOT`.
    Quota,
    /// Anything else.
    Other(io::ErrorKind),
}

impl OsError {
    /// The error as the operating system returns it.
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

/// A call that rules can match.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) operation: Operation,
    pub(super) path: &'a Path,
    /// The new path of a rename.
    pub(super) to: Option<&'a Path>,
    /// The open file of the call.
    pub(super) node: Option<usize>,
}

impl<'a> Call<'a> {
    pub(super) fn at(operation: Operation, path: &'a Path) -> Self {
        Self { operation, path, to: None, node: None }
    }
}

/// The error of a call, if an injected fault makes it fail.
pub(super) fn check(action: Option<&FaultAction>) -> io::Result<()> {
    match action {
        Some(FaultAction::Error(error, _)) => Err(error.error()),
        _ => Ok(()),
    }
}

/// Whether a call has its full effect.
pub(super) fn takes_effect(action: Option<&FaultAction>) -> bool {
    !matches!(action, Some(FaultAction::Error(_, effect)) if *effect != FaultEffect::Everything)
}
