//! Repeats requests that the ledger cannot execute now, because it is locked or the disk is full.
//!
//! A worker's result is not discarded because of a temporary error. Its report is repeated until
//! the lease is over, and then once more, since a late receipt is recorded as rejected. Each
//! repetition is the same request and is executed at most once.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use plan_ledger::ErrorKind;

use crate::options::WaitLoop;
use crate::output::{Code, Failure, print_message};
use crate::protocol::Answer;
use crate::requests::{Request, VerdictRequest};
use crate::runner::StopRequest;
use crate::server::Client;

use super::answers::error_of;
use super::worker::{Worker, stop_at};

/// The minimum time between two requests.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a verdict is repeated. If it is lost, its command runs again.
const VERDICT_LIMIT: Duration = Duration::from_secs(10 * 60);

/// The reason why a request got no response.
struct Obstacle {
    kind: String,
    message: String,
}

impl Worker<'_> {
    /// Sends a request, and repeats it until that time.
    pub(super) fn request_until(
        &mut self,
        until: Instant,
        request: &Request,
        notice: &str,
    ) -> Result<Answer, Failure> {
        let signals = &self.signals;
        retry(&mut self.client, request, notice, |_, sent_at| {
            sent_at < until && signals.request() != StopRequest::Kill
        })
    }

    /// Sends the verdict of a command.
    pub(super) fn send_verdict(&mut self, verdict: VerdictRequest) -> Result<Answer, Failure> {
        let until = Instant::now() + VERDICT_LIMIT;
        self.request_until(until, &verdict.into(), "a verdict is not recorded yet")
    }

    /// Sends a claim, and repeats it while the worker may wait.
    pub(super) fn send_claim(
        &mut self,
        request: &Request,
        wait: &WaitLoop,
    ) -> Result<Answer, Failure> {
        let signals = &self.signals;
        // The first signal ends the wait for a step; a report outlasts it.
        self.client.stop_when(stop_at(signals, StopRequest::Drain));
        let claimed =
            retry(&mut self.client, request, "no step could be claimed yet", |obstacle, _| {
                obstacle.is_temporary() && !wait.is_over() && signals.request() == StopRequest::None
            });
        self.client.stop_when(stop_at(signals, StopRequest::Kill));
        claimed
    }
}

/// Sends a request until it has an answer, or until `may_retry` refuses to repeat a request that was
/// sent at that time. The first obstacle is reported after `notice`.
fn retry(
    client: &mut Client,
    request: &Request,
    notice: &str,
    mut may_retry: impl FnMut(&Obstacle, Instant) -> bool,
) -> Result<Answer, Failure> {
    let mut is_reported = false;
    let mut sent_at = Instant::now();
    client.call_until(request, |outcome| {
        let Some(obstacle) = obstacle(outcome).filter(|it| may_retry(it, sent_at)) else {
            return true;
        };
        if !std::mem::replace(&mut is_reported, true) {
            print_message(&format!("{notice}: {}; retrying", obstacle.message));
        }
        sleep(PAUSE.saturating_sub(sent_at.elapsed()));
        sent_at = Instant::now();
        false
    })
}

/// The obstacle to a request, unless the ledger's rules rejected it.
fn obstacle(outcome: &Result<Answer, Failure>) -> Option<Obstacle> {
    let (code, line) = error_of(outcome)?;
    if !matches!(code, Code::Locked | Code::Io) {
        return None;
    }
    let text = |member: &str| line.get(member).and_then(Value::as_str).map(str::to_owned);
    Some(Obstacle { kind: text("kind")?, message: text("message")? })
}

impl Obstacle {
    /// Whether the obstacle is temporary.
    fn is_temporary(&self) -> bool {
        [ErrorKind::Locked, ErrorKind::DiskFull].iter().any(|kind| kind.name() == self.kind)
    }
}
