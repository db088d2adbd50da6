//! A case of the laboratory as a line of text, so that it can be replayed.

use std::fmt;

use plan_ledger::internals::sim::Profile;

use super::model::Violation;
use super::op::{Op, workload_name};
use super::restart::Restart;

/// A workload and its crashes: the first at a crash point of the last operation, the next at a crash
/// point of the recovery from it, and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub device: Profile,
    /// The operations; none for the creation of the ledger.
    pub ops: Vec<Op>,
    /// The crashes: the number of the crash point, and how the machine restarted.
    pub crashes: Vec<(usize, Restart)>,
}

impl Case {
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let (device, line) = match line.trim().split_once(':') {
            // The colon of a restart comes after a comma.
            Some((name, line)) if !name.contains(',') => (Profile::named(name)?, line),
            _ => (Profile::default(), line.trim()),
        };
        let mut parts = line.split('/');
        let ops = match parts.next()? {
            "create" => Vec::new(),
            words => words.split('+').map(Op::named).collect::<Option<_>>()?,
        };
        let crash = |part: &str| {
            let (point, restart) = part.split_once(',')?;
            Some((point.parse().ok()?, Restart::parse(restart)?))
        };
        Some(Self { device, ops, crashes: parts.map(crash).collect::<Option<_>>()? })
    }

    /// This case with one more crash.
    pub(super) fn with_crash(&self, point: usize, restart: Restart) -> Self {
        let mut case = self.clone();
        case.crashes.push((point, restart));
        case
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.device != Profile::default() {
            write!(f, "{}:", self.device.name())?;
        }
        f.write_str(&workload_name(&self.ops))?;
        self.crashes.iter().try_for_each(|(point, restart)| write!(f, "/{point},{restart}"))
    }
}

/// A case that violates a guarantee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailingCase {
    /// The case, with as few operations as possible.
    pub case: String,
    /// The arguments of `ledger` that reproduce it.
    pub replay: String,
    /// The violated guarantee.
    pub violation: Violation,
    /// The injected faults and restarts, in order.
    pub history: Vec<String>,
}

impl fmt::Display for FailingCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.violation)?;
        writeln!(f, "  case: {}", self.case)?;
        self.history.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        write!(f, "  replay: ledger {}", self.replay)
    }
}
