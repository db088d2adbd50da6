//! The log of injected faults, in the order in which they happened.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use super::fault::{FaultEffect, Operation, OsError};
use super::loss::{Loss, Profile};

/// A fault that a simulated disk injected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InjectedFault {
    /// The number of calls up to the fault, the affected call included.
    pub call: u64,
    /// The affected call; `None` for a fault of the machine.
    pub operation: Option<Operation>,
    /// The affected file or folder; empty for a fault of the machine.
    pub path: PathBuf,
    /// The effect of the fault.
    pub kind: InjectedKind,
}

/// The effect of an injected fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InjectedKind {
    /// A call failed.
    Failed {
        /// The returned error.
        error: OsError,
        /// The partial effect of the failed call.
        effect: FaultEffect,
    },
    /// The disk was full.
    Full {
        /// The number of bytes that were written.
        written: usize,
    },
    /// A sector could not be read.
    BadSector {
        /// The first unreadable byte of the requested range.
        offset: u64,
    },
    /// The machine stopped before the call.
    Stopped,
    /// A call was slow.
    Slow(Duration),
    /// The process was killed; the machine continued.
    Killed,
    /// The machine lost power.
    PowerLoss {
        /// The requested loss.
        loss: Loss,
        /// The device.
        profile: Profile,
        /// How many unsynced changes survived complete.
        kept: u32,
        /// How many were lost or torn.
        lost: u32,
    },
    /// A read returned less than it could.
    ShortRead {
        /// The number of bytes that it returned.
        returned: usize,
        /// The number of bytes that it could have returned.
        available: usize,
    },
    /// A write was acknowledged but never became durable.
    LostWrite(Range<u64>),
    /// A write went to another position.
    MisdirectedWrite {
        /// The intended range, in the file of the call.
        range: Range<u64>,
        /// The damaged file.
        path: PathBuf,
        damaged: Range<u64>,
    },
    /// A sync returned `Ok` and did nothing.
    LyingSync,
    /// A durable bit flipped.
    BitRot {
        /// The byte.
        offset: u64,
        /// The bit of the byte; 0 is the lowest.
        bit: u8,
    },
    /// A torn write turned adjacent bytes into garbage.
    CollateralDamage(Range<u64>),
}

impl InjectedFault {
    /// Whether the fault breaks the contract in the module documentation. After such a fault
    /// acknowledged records may be lost; the engine must report the loss or refuse to continue, and
    /// must never invent records.
    #[must_use]
    pub fn is_violation(&self) -> bool {
        match self.kind {
            InjectedKind::ShortRead { .. }
            | InjectedKind::LostWrite(_)
            | InjectedKind::MisdirectedWrite { .. }
            | InjectedKind::LyingSync
            | InjectedKind::BitRot { .. }
            | InjectedKind::CollateralDamage(_) => true,
            InjectedKind::Failed { .. }
            | InjectedKind::Full { .. }
            | InjectedKind::BadSector { .. }
            | InjectedKind::Stopped
            | InjectedKind::Slow(_)
            | InjectedKind::Killed
            | InjectedKind::PowerLoss { .. } => false,
        }
    }
}

impl fmt::Display for InjectedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}: ", self.call)?;
        if let Some(operation) = self.operation {
            write!(f, "{operation} ")?;
        }
        if !self.path.as_os_str().is_empty() {
            write!(f, "{}: ", self.path.display())?;
        }
        write!(f, "{}", self.kind)?;
        if self.is_violation() { f.write_str(" (breaks the contract)") } else { Ok(()) }
    }
}

impl fmt::Display for InjectedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { error, effect } => write!(f, "failed with {error}, {effect}"),
            Self::Full { written } => write!(f, "the disk is full, {written} bytes were written"),
            Self::BadSector { offset } => write!(f, "byte {offset} cannot be read"),
            Self::Stopped => f.write_str("the machine stopped before the call"),
            Self::Slow(delay) => write!(f, "took {} us", delay.as_micros()),
            Self::Killed => f.write_str("the process was killed"),
            Self::PowerLoss { loss, profile, kept, lost } => {
                write!(
                    f,
                    "power loss ({loss}, {}): {kept} kept, {lost} lost or torn",
                    profile.name()
                )
            }
            Self::ShortRead { returned, available } => {
                write!(f, "returned {returned} of {available} bytes, and no error")
            }
            Self::LostWrite(range) => {
                write!(f, "bytes {}..{} were lost", range.start, range.end)
            }
            Self::MisdirectedWrite { range, path, damaged } => write!(
                f,
                "bytes {}..{} went to {}..{} of {}",
                range.start,
                range.end,
                damaged.start,
                damaged.end,
                path.display()
            ),
            Self::LyingSync => f.write_str("returned ok and did nothing"),
            Self::BitRot { offset, bit } => write!(f, "bit {bit} of byte {offset} flipped"),
            Self::CollateralDamage(range) => {
                write!(f, "bytes {}..{} next to a torn write are garbage", range.start, range.end)
            }
        }
    }
}

impl fmt::Display for FaultEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("no effect"),
            Self::Part(seed) => write!(f, "some sectors written (seed {seed})"),
            Self::Prefix(count) => write!(f, "{count} bytes written"),
            Self::Everything => f.write_str("full effect"),
            Self::Revert => f.write_str("the cache was reverted to the durable bytes"),
            Self::CrashIn(calls) => write!(f, "the machine stops {calls} calls later"),
        }
    }
}
