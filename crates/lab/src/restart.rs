//! Restarts of a machine after a crash.

use std::fmt;

use plan_ledger::internals::sim::{Loss, Random, SimDisk};

/// How a machine restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The process was killed; the page cache survives.
    Process,
    /// The machine lost power.
    Power(Loss),
}

impl Restart {
    /// The disk after the restart.
    #[must_use]
    pub fn of(self, point: &SimDisk) -> SimDisk {
        let disk = point.fork();
        disk.clear_faults();
        match self {
            Self::Process => disk.kill_process(),
            Self::Power(loss) => disk.lose_power(loss),
        }
        disk
    }
}

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process => f.write_str("process"),
            Self::Power(loss) => write!(f, "power:{loss}"),
        }
    }
}

impl Restart {
    /// Parse the text of a restart.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "process" {
            return Some(Self::Process);
        }
        let loss = match text.strip_prefix("power:")? {
            "all" => Loss::Everything,
            "none" => Loss::Nothing,
            other => match other.strip_prefix("but") {
                Some(mask) => Loss::AllBut(mask.parse().ok()?),
                None => Loss::Some(other.strip_prefix("seed")?.parse().ok()?),
            },
        };
        Some(Self::Power(loss))
    }
}

/// Whether all restarts are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coverage {
    All,
    Sampled,
}

/// The restarts to try: a killed process, and a power loss with every subset of the unsynced
/// changes, for at most `most` changes; otherwise with all of them and none of them. No subset has a torn sector: on a
/// device that tears them, and where not every subset is tried, `samples` random selections follow.
pub(super) fn list_restarts(
    disk: &SimDisk,
    most: usize,
    samples: u64,
    seed: u64,
) -> (Vec<Restart>, Coverage) {
    let count = disk.unsynced();
    if count == 0 {
        return (vec![Restart::Power(Loss::Everything)], Coverage::All);
    }
    let mut restarts = vec![Restart::Process];
    let coverage = if count <= most {
        restarts.extend((0..1_u64 << count).map(|mask| Restart::Power(Loss::AllBut(mask))));
        if !disk.profile().tears_sectors() {
            return (restarts, Coverage::All);
        }
        Coverage::All
    } else {
        restarts.extend([Restart::Power(Loss::Everything), Restart::Power(Loss::Nothing)]);
        Coverage::Sampled
    };
    let mut random = Random(seed);
    // Keep the seeds short, so that a person can type them.
    restarts.extend((0..samples).map(|_| Restart::Power(Loss::Some(random.below(1 << 32)))));
    (restarts, coverage)
}
