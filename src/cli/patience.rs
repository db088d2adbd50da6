//! Claims that are asked for until there is a step, the run has ended, or patience has.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::serve::{Act, Answer, Client};

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

/// Ask for a step until there is one, the run has ended, or patience has.
pub(super) fn claimed(
    client: &mut Client,
    act: &Act,
    wait: Option<Patience>,
    mut goes_on: impl FnMut() -> bool,
) -> Result<Answer, Failure> {
    let (mut pause, pause_max) = LOOK_AGAIN;
    let begun = Instant::now();
    loop {
        let answer = client.ask(act)?;
        let is_over = match wait {
            None => true,
            Some(Patience(None)) => false,
            Some(Patience(Some(wait))) => begun.elapsed() >= wait,
        };
        if is_over || answer.code != Code::Waiting.number() || !goes_on() {
            return Ok(answer);
        }
        let left = match wait {
            Some(Patience(Some(wait))) => wait.saturating_sub(begun.elapsed()),
            _ => pause_max,
        };
        sleep(pause.min(left));
        pause = (pause * 2).min(pause_max);
    }
}
