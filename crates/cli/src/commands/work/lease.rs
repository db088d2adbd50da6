//! Renews the lease of an attempt while its command runs.
//!
//! Renewals run on a separate thread, so that a lock holder that does not respond delays neither
//! the command's timeout nor a stop request.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

use serde_json::Value;

use plan_ledger::Environment;
use plan_ledger::plan::Token;

use crate::output::{Code, print_message};
use crate::protocol::Answer;
use crate::requests::{RenewRequest, Request};
use crate::server::Client;

/// The pause after a renewal that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The longest time until the end of a lease, so that its end is a valid time.
const LEFT_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// How long at most until a renewal, if the end of the lease was compared with another machine's clock.
const REMOTE_PAUSE_MAX: Duration = Duration::from_secs(20);

/// The clock of a lease's end.
#[derive(Debug, Clone)]
pub(super) enum LedgerTime {
    /// The clock of the ledger in a folder.
    Of(PathBuf),
    /// The clock of this machine, which may differ from the ledger's clock.
    ThisMachine,
}

impl LedgerTime {
    /// How long the lease in a line about an attempt still lasts. Its end is in the ledger's time, which is
    /// not that of this machine's clock; from now on a monotonic clock measures it.
    pub(super) fn left(&self, line: &Value) -> Duration {
        let Some(until) = line.get("lease_until_micros").and_then(Value::as_u64) else {
            return LEFT_MAX;
        };
        let environment = Environment::system();
        match self {
            Self::Of(ledger) => {
                // Without the ledger's time the lease may be over: it is renewed at once.
                let now = environment.time_of(ledger, 0).unwrap_or(until);
                Duration::from_micros(until.saturating_sub(now)).min(LEFT_MAX)
            }
            Self::ThisMachine => {
                let left = until.saturating_sub(environment.clock.now());
                Duration::from_micros(left).clamp(RETRY_PAUSE, LEFT_MAX)
            }
        }
    }

    /// The time to renew a lease of this length.
    fn until_renewal(&self, left: Duration) -> Duration {
        match self {
            Self::Of(_) => left / 2,
            // A lease is seldom shorter than two of these, whatever the other clock says.
            Self::ThisMachine => (left / 2).min(REMOTE_PAUSE_MAX),
        }
    }
}

/// The lease of an attempt.
pub(super) struct Lease {
    /// Its last known end.
    until: Instant,
    status: LeaseStatus,
    time: LedgerTime,
}

enum LeaseStatus {
    /// The next renewal is due at this time.
    RenewAt(Instant),
    /// A renewal is in progress.
    Renewing,
    /// The lease is over: the step may be dispatched to another worker.
    Over,
}

/// A thread that sends renewals and receives their answers. It ends when it is dropped.
pub(super) struct Heartbeat {
    requests: Sender<()>,
    answers: Receiver<Answer>,
}

impl Heartbeat {
    /// Starts the thread for that attempt.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        token: Token,
        client: &'scope mut Client,
    ) -> io::Result<Self> {
        let (requests, requested) = channel();
        let (answered, answers) = channel();
        let renew: Request = RenewRequest { token, lease_seconds: None }.into();
        let beat = move || {
            for () in requested {
                // After the command has ended, nothing reads the response.
                let _ = answered.send(client.call(&renew).unwrap_or_else(Answer::from));
            }
        };
        Builder::new().name("heartbeat".to_owned()).spawn_scoped(scope, beat)?;
        Ok(Self { requests, answers })
    }
}

impl Lease {
    /// The lease in a line about an attempt.
    pub(super) fn of(line: &Value, time: LedgerTime) -> Self {
        let (now, left) = (Instant::now(), time.left(line));
        let status = LeaseStatus::RenewAt(now + time.until_renewal(left));
        Self { until: now + left, status, time }
    }

    /// Its end, in the future or past.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Whether the lock holder answered that it is over.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.status, LeaseStatus::Over)
    }

    /// Requests a renewal if it is due, and handles the response to the last renewal if it has
    /// arrived.
    pub(super) fn renew_if_due(&mut self, heartbeat: &Heartbeat) {
        match self.status {
            LeaseStatus::RenewAt(at) => {
                let is_due = Instant::now() >= at && !plan_ledger::mutant!(LeaseNotRenewed);
                if is_due && heartbeat.requests.send(()).is_ok() {
                    self.status = LeaseStatus::Renewing;
                }
            }
            LeaseStatus::Renewing => {
                if let Ok(answer) = heartbeat.answers.try_recv() {
                    self.take(&answer);
                }
            }
            LeaseStatus::Over => {}
        }
    }

    /// Waits for the response to a renewal in progress.
    pub(super) fn finish(&mut self, heartbeat: &Heartbeat) {
        if matches!(self.status, LeaseStatus::Renewing)
            && let Ok(answer) = heartbeat.answers.recv()
        {
            self.take(&answer);
        }
    }

    fn take(&mut self, answer: &Answer) {
        let code = Code::of(answer.code);
        if code != Code::Success {
            answer.messages.iter().for_each(|line| print_message(line));
        }
        match code {
            Code::Success => {
                let line = answer.lines.first().unwrap_or(&Value::Null);
                *self = Self::of(line, self.time.clone());
            }
            Code::Rejected => {
                (self.until, self.status) = (Instant::now(), LeaseStatus::Over);
            }
            // The error is temporary: try again soon.
            _ => self.status = LeaseStatus::RenewAt(Instant::now() + RETRY_PAUSE),
        }
    }
}
