//! What was done to the disk's user, in the order in which it happened.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use super::fault::{Effect, Operation, OsError};
use super::loss::{Loss, Profile};

/// One thing that was done to the user of a simulated disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injected {
    /// How many calls had been made, the one that it hit included.
    pub call: u64,
    /// The call that it hit, if any.
    pub operation: Option<Operation>,
    /// The file or folder; empty if it is about the machine.
    pub path: PathBuf,
    /// What it was.
    pub what: What,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A call failed.
    Failed {
        /// What it said.
        error: OsError,
        /// What it did all the same.
        effect: Effect,
    },
    /// A file needed more space than the disk has left.
    Full {
        /// How many bytes were written all the same.
        written: usize,
    },
    /// A sector could not be read.
    BadSector {
        /// The first byte that was wanted and cannot be read.
        offset: u64,
    },
    /// The machine stopped before the call.
    Stopped,
    /// A call was slow.
    Slow(Duration),
    /// A process ended, and the machine went on.
    Killed,
    /// The power went.
    PowerLoss {
        /// What it was to take.
        loss: Loss,
        /// From which kind of device.
        profile: Profile,
        /// How many things that were not synced survived whole.
        kept: u32,
        /// How many did not.
        lost: u32,
    },
    /// A read gave less than there was.
    ShortRead {
        /// How much it gave.
        given: usize,
        /// How much there was.
        there: usize,
    },
    /// A write was acknowledged and never got to the medium.
    LostWrite(Range<u64>),
    /// A write got to another place of the medium.
    MisdirectedWrite {
        /// Where it belonged, in the file of the call.
        range: Range<u64>,
        /// The file that it harmed.
        path: PathBuf,
        /// Which bytes of it.
        harmed: Range<u64>,
    },
    /// A sync said that it worked, and did nothing.
    LyingSync,
    /// A bit turned on the medium.
    Rot {
        /// In which byte.
        offset: u64,
        /// Which one of it, 0 being the lowest.
        bit: u8,
    },
    /// A torn write turned bytes beside it into garbage.
    Spread(Range<u64>),
}

impl Injected {
    /// Whether the device broke the contract that the module's description states: then what was
    /// acknowledged may be gone, and an engine must say so, or refuse, and must never invent.
    #[must_use]
    pub fn is_violation(&self) -> bool {
        match self.what {
            What::ShortRead { .. }
            | What::LostWrite(_)
            | What::MisdirectedWrite { .. }
            | What::LyingSync
            | What::Rot { .. }
            | What::Spread(_) => true,
            What::Failed { .. }
            | What::Full { .. }
            | What::BadSector { .. }
            | What::Stopped
            | What::Slow(_)
            | What::Killed
            | What::PowerLoss { .. } => false,
        }
    }
}

impl fmt::Display for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}: ", self.call)?;
        if let Some(operation) = self.operation {
            write!(f, "{operation} ")?;
        }
        if !self.path.as_os_str().is_empty() {
            write!(f, "{}: ", self.path.display())?;
        }
        write!(f, "{}", self.what)?;
        if self.is_violation() { f.write_str(" (breaks the contract)") } else { Ok(()) }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { error, effect } => write!(f, "failed with {error}, {effect}"),
            Self::Full { written } => write!(f, "the disk is full, {written} bytes were written"),
            Self::BadSector { offset } => write!(f, "byte {offset} cannot be read"),
            Self::Stopped => f.write_str("the machine stopped before it"),
            Self::Slow(delay) => write!(f, "took {} us", delay.as_micros()),
            Self::Killed => f.write_str("the process was killed"),
            Self::PowerLoss { loss, profile, kept, lost } => {
                write!(
                    f,
                    "the power went ({loss:?}, {profile:?}): {kept} kept, {lost} lost or torn"
                )
            }
            Self::ShortRead { given, there } => {
                write!(f, "gave {given} bytes of {there}, and no error")
            }
            Self::LostWrite(range) => {
                write!(f, "bytes {}..{} never get to the medium", range.start, range.end)
            }
            Self::MisdirectedWrite { range, path, harmed } => write!(
                f,
                "bytes {}..{} went to {}..{} of {}",
                range.start,
                range.end,
                harmed.start,
                harmed.end,
                path.display()
            ),
            Self::LyingSync => f.write_str("returned ok and did nothing"),
            Self::Rot { offset, bit } => write!(f, "bit {bit} of byte {offset} turned"),
            Self::Spread(range) => {
                write!(f, "bytes {}..{} beside a torn write are garbage", range.start, range.end)
            }
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing was done"),
            Self::Part(seed) => write!(f, "some of it was done (seed {seed})"),
            Self::Prefix(count) => write!(f, "{count} bytes of it were done"),
            Self::Everything => f.write_str("everything was done"),
            Self::Revert => f.write_str("the cache went back to what is on the medium"),
            Self::CrashIn(calls) => write!(f, "and the machine stops {calls} calls later"),
        }
    }
}
