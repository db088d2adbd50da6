//! `--wait`: repeats a claim until a step is ready, the run ends, or the time limit is reached.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::output::{Code, Failure, print_note};
use crate::protocol::Answer;
use crate::requests::Request;
use crate::server::Client;

use super::dead_claims::release_dead_claims;
use super::worker::WorkerLedgerArgs;
use crate::protocol::parse_timespan;

/// The time limit of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitLimit {
    Forever,
    AtMost(Duration),
}

/// Parses a duration, or `forever`.
pub(crate) fn parse_wait_limit(text: &str) -> Result<WaitLimit, String> {
    match text {
        "forever" => Ok(WaitLimit::Forever),
        _ => parse_timespan(text).map(WaitLimit::AtMost),
    }
}

/// The pause between two attempts, which doubles from the first to the last.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The pauses and the time limit of a polling loop.
#[derive(Debug)]
pub(crate) struct WaitLoop {
    limit: Option<WaitLimit>,
    started: Instant,
    pause: Duration,
}

impl WaitLoop {
    /// Starts the clock. Without a limit, the loop does not wait at all.
    pub(crate) fn start(limit: Option<WaitLimit>) -> Self {
        Self { limit, started: Instant::now(), pause: PAUSE_MIN }
    }

    /// The remaining time.
    fn left(&self) -> Duration {
        match self.limit {
            None => Duration::ZERO,
            Some(WaitLimit::Forever) => Duration::MAX,
            Some(WaitLimit::AtMost(wait)) => wait.saturating_sub(self.started.elapsed()),
        }
    }

    /// Whether the time limit is reached.
    pub(crate) fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// Sleeps before the next attempt.
    pub(crate) fn pause(&mut self) {
        sleep(self.pause.min(self.left()));
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

/// Claims a step, and repeats the claim until a step is ready, the run ends, or the time limit is
/// reached. Claims of dead processes are released meanwhile.
pub(crate) fn claim_with_wait(
    ledger: &WorkerLedgerArgs,
    client: &mut Client,
    request: &Request,
    limit: Option<WaitLimit>,
) -> Result<Answer, Failure> {
    let mut wait = WaitLoop::start(limit);
    let mut notice = WaitNotice::default();
    loop {
        let outcome = client.call(request);
        let code = match &outcome {
            Ok(answer) => Code::of(answer.code),
            Err(failure) => failure.code(),
        };
        // The claims of other machines are released there.
        if matches!(code, Code::Waiting | Code::Rejected)
            && !ledger.is_remote()
            && release_dead_claims(ledger.dir(), client)
        {
            continue;
        }
        let answer = outcome?;
        if code != Code::Waiting || wait.is_over() {
            return Ok(answer);
        }
        notice.report(&answer);
        wait.pause();
    }
}

/// Messages to a person while a claim waits: each message once.
#[derive(Debug, Default)]
pub(crate) struct WaitNotice {
    told: Vec<String>,
}

impl WaitNotice {
    /// Report the addressees of a wait, unless the last report was the same.
    pub(crate) fn report(&mut self, answer: &Answer) {
        // A renewed lease is not news.
        let news =
            |message: &String| message.split(" until ").next().unwrap_or_default().to_owned();
        let news: Vec<String> = answer.messages.iter().map(news).collect();
        if std::mem::replace(&mut self.told, news.clone()) == news {
            return;
        }
        answer.messages.iter().for_each(|message| print_note(&format!("waiting: {message}")));
        if answer.messages.len() > 1 {
            print_note(
                "to take over a step whose worker is gone: `ledger release --step STEP`, in your own shell",
            );
        }
    }
}
