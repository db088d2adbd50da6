//! Claims that are asked for until there is a step, the run has ended, or patience has.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::server::{Act, Answer, Client};

use super::exit::{Code, Failure};

/// How long somebody waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Patience(Option<Duration>);

pub(super) fn patience(text: &str) -> Result<Patience, String> {
    if text == "forever" {
        return Ok(Patience(None));
    }
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    let wait = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    Ok(Patience(Some(wait)))
}

/// Between two looks at a run in which nothing is ready: at first, and at most.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// Somebody who waits, and looks again and again.
#[derive(Debug)]
pub(super) struct Waiting {
    patience: Option<Patience>,
    begun: Instant,
    pause: Duration,
}

impl Waiting {
    /// Without any patience, nothing is waited for.
    pub(super) fn begin(patience: Option<Patience>) -> Self {
        Self { patience, begun: Instant::now(), pause: LOOK_AGAIN.0 }
    }

    /// How much patience is left; `None` for as much as it takes.
    fn left(&self) -> Option<Duration> {
        match self.patience {
            None => Some(Duration::ZERO),
            Some(Patience(wait)) => wait.map(|wait| wait.saturating_sub(self.begun.elapsed())),
        }
    }

    /// Whether no patience is left.
    pub(super) fn is_over(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    /// Between two looks.
    pub(super) fn pause(&mut self) {
        sleep(self.left().map_or(self.pause, |left| self.pause.min(left)));
        self.pause = (self.pause * 2).min(LOOK_AGAIN.1);
    }
}

/// Ask for a step until there is one, the run has ended, or patience has.
pub(super) fn claimed(
    client: &mut Client,
    act: &Act,
    patience: Option<Patience>,
) -> Result<Answer, Failure> {
    let mut waiting = Waiting::begin(patience);
    loop {
        let answer = client.ask(act)?;
        if answer.code != Code::Waiting.number() || waiting.is_over() {
            return Ok(answer);
        }
        waiting.pause();
    }
}
