//! One case of the laboratory as a line of text, so that it can be tried again.

use std::fmt;

use crate::sim::Profile;

use super::model::Violation;
use super::op::{Op, words};
use super::restart::Restart;

/// What was done, and where the machine stopped: the n-th picture of the last operation, then of
/// the recovery from that, and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// On what kind of device.
    pub device: Profile,
    /// The operations; none for the making of the ledger.
    pub ops: Vec<Op>,
    /// The stops.
    pub stops: Vec<(usize, Restart)>,
}

impl Case {
    /// What a line means.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let (device, line) = match line.trim().split_once(':') {
            // The colon of a restart stands behind a comma.
            Some((name, line)) if !name.contains(',') => (Profile::named(name)?, line),
            _ => (Profile::default(), line.trim()),
        };
        let mut parts = line.split('/');
        let ops = match parts.next()? {
            "create" => Vec::new(),
            words => words.split('+').map(Op::named).collect::<Option<_>>()?,
        };
        let stop = |part: &str| {
            let (picture, restart) = part.split_once(',')?;
            Some((picture.parse().ok()?, Restart::parse(restart)?))
        };
        Some(Self { device, ops, stops: parts.map(stop).collect::<Option<_>>()? })
    }

    /// The same, and stopped once more.
    pub(super) fn and(&self, picture: usize, restart: Restart) -> Self {
        let mut case = self.clone();
        case.stops.push((picture, restart));
        case
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.device != Profile::default() {
            write!(f, "{}:", self.device.name())?;
        }
        f.write_str(&words(&self.ops))?;
        self.stops.iter().try_for_each(|(picture, restart)| write!(f, "/{picture},{restart}"))
    }
}

/// A case in which a promise was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The case, as few operations as were found to be enough.
    pub case: String,
    /// The arguments of `ledger` that come upon it again.
    pub again: String,
    /// The promise.
    pub violation: Violation,
    /// What was done to the machine, in order.
    pub story: Vec<String>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.violation)?;
        writeln!(f, "  case: {}", self.case)?;
        self.story.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        write!(f, "  again: ledger {}", self.again)
    }
}
