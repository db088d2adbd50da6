//! How a machine stops and comes up again: every way, where there are few.

use std::fmt;

use crate::sim::{Loss, Random, SimDisk};

/// How a machine comes up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The process ended; what it wrote is still in the cache.
    Process,
    /// The power went.
    Power(Loss),
}

impl Restart {
    /// The disk as it is then.
    #[must_use]
    pub fn of(self, picture: &SimDisk) -> SimDisk {
        let disk = picture.fork();
        disk.calm();
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
            Self::Power(Loss::Everything) => f.write_str("power:all"),
            Self::Power(Loss::Nothing) => f.write_str("power:none"),
            Self::Power(Loss::AllBut(mask)) => write!(f, "power:but{mask}"),
            Self::Power(Loss::Some(seed)) => write!(f, "power:seed{seed}"),
        }
    }
}

impl Restart {
    /// What [`Restart`]'s text means.
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

/// Whether the ways that were taken are all that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coverage {
    All,
    Sampled,
}

/// The ways in which a machine may come up again: the process alone, and the power with every
/// subset of what is not synced if that are at most `most` things, else with all, nothing and
/// `samples` parts of it, which the seed decides.
pub(super) fn restarts(
    disk: &SimDisk,
    most: usize,
    samples: u64,
    seed: u64,
) -> (Vec<Restart>, Coverage) {
    let count = disk.unsynced();
    if count == 0 {
        return (vec![Restart::Power(Loss::Everything)], Coverage::All);
    }
    let mut ways = vec![Restart::Process];
    if count <= most {
        ways.extend((0..1_u64 << count).map(|mask| Restart::Power(Loss::AllBut(mask))));
        return (ways, Coverage::All);
    }
    ways.extend([Restart::Power(Loss::Everything), Restart::Power(Loss::Nothing)]);
    let mut random = Random(seed);
    // Short enough to be typed.
    ways.extend((0..samples).map(|_| Restart::Power(Loss::Some(random.below(1 << 32)))));
    (ways, Coverage::Sampled)
}
