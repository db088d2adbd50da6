//! Whether the owner of a ledger seems to be gone, judged by watching it.
//!
//! Invariants:
//! - No time of another machine is compared: a sign of life is only equal to the one before, or not.
//! - Time counts against the owner only while the store answers.
//! - The port of the owner counts only if it accepted a connection from here before.

use std::fmt;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use plan_ledger::internals::store::{Objects, Unclear};

use super::signs::{OWNER_NAME, Owner, OwnerState, sign_name};

/// After the port of the owner has refused connections for this long, the owner counts as gone.
const REFUSED_FOR: Duration = Duration::from_secs(1);

/// How long a connection to the owner may take.
const CONNECT_WAIT: Duration = Duration::from_millis(200);

/// The state of the owner according to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) owner: Option<Owner>,
    /// The bytes of its sign of life.
    sign: Option<Vec<u8>>,
}

/// Why the owner seems to be gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Gone {
    /// It ended in order.
    Free,
    /// Its sign of life did not change for this long.
    NoSign(Duration),
    /// Its port refuses connections.
    PortRefuses(String),
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("the owner ended"),
            Self::NoSign(lease) => {
                write!(f, "the owner showed no sign of life for {} s", lease.as_secs())
            }
            Self::PortRefuses(address) => {
                write!(f, "the owner's port {address} refuses connections")
            }
        }
    }
}

/// The answer of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    Accepts,
    Refuses,
    Unknown,
}

/// Watches an owner.
#[derive(Debug)]
pub(super) struct Watch {
    lease: Duration,
    seen: Option<Seen>,
    /// The time since which the observation has not changed.
    since: Instant,
    /// The address that accepted a connection, and since when it refuses them.
    port: Option<(String, Option<Instant>)>,
}

impl Seen {
    /// Check the owner's hint.
    pub(super) fn owner(objects: &dyn Objects) -> Result<Self, Unclear> {
        let owner = objects.get(OWNER_NAME, None)?.and_then(|found| Owner::parse(&found.bytes));
        Ok(Self { owner, sign: None })
    }

    /// Also check the owner's sign of life.
    pub(super) fn with_sign(self, objects: &dyn Objects) -> Result<Self, Unclear> {
        let sign = match &self.owner {
            Some(owner) => objects.get(&sign_name(&owner.node), None)?.map(|found| found.bytes),
            None => None,
        };
        Ok(Self { sign, ..self })
    }

    /// Whether the owner ended in order.
    pub(super) fn is_free(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.state == OwnerState::Free)
    }

    /// Check the owner's port.
    pub(super) fn port(&self) -> Port {
        match self.address() {
            Some(address) => port_at(address),
            None => Port::Unknown,
        }
    }

    fn address(&self) -> Option<&str> {
        let http = self.owner.as_ref()?.http.as_deref()?;
        http.strip_prefix("http://").or_else(|| http.strip_prefix("https://"))
    }
}

/// Whether a process listens at an address.
fn port_at(address: &str) -> Port {
    let Ok(address) = address.parse::<SocketAddr>() else { return Port::Unknown };
    match TcpStream::connect_timeout(&address, CONNECT_WAIT) {
        Ok(_) => Port::Accepts,
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Port::Refuses,
        Err(_) => Port::Unknown,
    }
}

impl Watch {
    pub(super) fn new(lease: Duration, now: Instant) -> Self {
        Self { lease, seen: None, since: now, port: None }
    }

    /// Whether the port of the owner refuses connections, so that it ends or is dead.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.port, Some((_, Some(_))))
    }

    /// The last observation, if the owner's hint has not changed.
    pub(super) fn known(&self, seen: &Seen) -> Option<Seen> {
        self.seen.clone().filter(|known| known.owner == seen.owner)
    }

    /// Evaluate an observation at a time. Returns why the owner seems to be gone, if it does.
    pub(super) fn take_in(&mut self, now: Instant, seen: Seen, port: Port) -> Option<Gone> {
        if seen.is_free() {
            return Some(Gone::Free);
        }
        self.judge_port(now, &seen, port);
        if self.seen.as_ref() != Some(&seen) {
            (self.seen, self.since) = (Some(seen), now);
        }
        if let Some((address, Some(since))) = &self.port
            && now.duration_since(*since) >= REFUSED_FOR
        {
            return Some(Gone::PortRefuses(address.clone()));
        }
        (now.duration_since(self.since) >= self.lease).then_some(Gone::NoSign(self.lease))
    }

    fn judge_port(&mut self, now: Instant, seen: &Seen, port: Port) {
        let address = seen.address().unwrap_or_default();
        let known = self.port.take().filter(|(known, _)| known == address);
        self.port = match (port, known) {
            (Port::Accepts, _) => Some((address.to_owned(), None)),
            (Port::Refuses, Some((known, since))) => Some((known, since.or(Some(now)))),
            (Port::Unknown, Some((known, _))) => Some((known, None)),
            (Port::Refuses | Port::Unknown, None) => None,
        };
    }

    /// The store gave no clear answer: the owner may be alive.
    pub(super) fn start_again(&mut self, now: Instant) {
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(6);

    fn seen(count: u8, state: OwnerState) -> Seen {
        let owner = Owner {
            ack: "store".to_owned(),
            clients: None,
            epoch: 1,
            folder: "/l".to_owned(),
            http: Some("http://127.0.0.1:1".to_owned()),
            machine: None,
            node: "01".to_owned(),
            process: "process 1".to_owned(),
            state,
        };
        Seen { owner: Some(owner), sign: Some(vec![count]) }
    }

    fn watch() -> (Watch, impl Fn(u64) -> Instant) {
        let start = Instant::now();
        (Watch::new(LEASE, start), move |millis| start + Duration::from_millis(millis))
    }

    /// Goal: an owner is gone when its sign did not change for the lease, by the clock of the watcher.
    #[test]
    fn unchanged_sign_is_gone_after_the_lease() {
        let (mut watch, at) = watch();
        let open = |count| seen(count, OwnerState::Open);
        assert_eq!(watch.take_in(at(1_000), open(1), Port::Unknown), None);
        assert_eq!(watch.take_in(at(6_900), open(1), Port::Unknown), None);
        assert_eq!(watch.take_in(at(6_950), open(2), Port::Unknown), None);
        assert_eq!(watch.take_in(at(12_900), open(2), Port::Unknown), None);
        // The store did not answer in the meantime.
        watch.start_again(at(12_940));
        assert_eq!(watch.take_in(at(18_900), open(2), Port::Unknown), None);
        let gone = watch.take_in(at(18_940), open(2), Port::Unknown);
        assert_eq!(gone, Some(Gone::NoSign(LEASE)));
    }

    /// Goal: a port that refuses counts after a second, and only if it accepted before.
    #[test]
    fn port_counts_only_if_it_accepted_before() {
        let (mut watch, at) = watch();
        let open = |count| seen(count, OwnerState::Open);
        for (millis, count) in [(0, 1), (2_000, 2), (4_000, 3)] {
            assert_eq!(watch.take_in(at(millis), open(count), Port::Refuses), None);
        }
        assert_eq!(watch.take_in(at(4_100), open(3), Port::Accepts), None);
        assert_eq!(watch.take_in(at(4_200), open(3), Port::Refuses), None);
        assert_eq!(watch.take_in(at(5_100), open(3), Port::Unknown), None);
        assert_eq!(watch.take_in(at(5_200), open(3), Port::Refuses), None);
        assert_eq!(watch.take_in(at(6_100), open(4), Port::Refuses), None);
        let gone = watch.take_in(at(6_200), open(4), Port::Refuses);
        assert_eq!(gone, Some(Gone::PortRefuses("127.0.0.1:1".to_owned())));
    }

    /// Goal: an owner that ended in order is gone at once. Without any hint, the lease decides.
    #[test]
    fn free_owner_is_gone_at_once() {
        let (mut watch, at) = watch();
        assert_eq!(watch.take_in(at(0), seen(1, OwnerState::Open), Port::Accepts), None);
        let gone = watch.take_in(at(1), seen(1, OwnerState::Free), Port::Accepts);
        assert_eq!(gone, Some(Gone::Free));
        let nothing = Seen { owner: None, sign: None };
        assert_eq!(watch.take_in(at(10), nothing.clone(), Port::Unknown), None);
        let gone = watch.take_in(at(6_010), nothing, Port::Unknown);
        assert_eq!(gone, Some(Gone::NoSign(LEASE)));
    }
}
