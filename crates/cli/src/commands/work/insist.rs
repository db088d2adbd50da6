//! What is asked for until it is answered: a step, and what became of one.
//!
//! Invariants:
//! - What a worker did is not thrown away because nobody can take it right now: a ledger that is held may
//!   be free in a moment, and a full disk may get room. It is said until its lease is over, and then once
//!   more: what comes too late is kept as refused.
//! - It is the same request each time, and is carried out once.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::runner::StopRequest;
use crate::server::{Act, Answer, Client};
use plan_ledger::error::ErrorKind;
use plan_ledger::ledger::{Clock as _, SystemClock};
use plan_ledger::plan::Micros;

use super::super::exit::{Code, Failure};
use super::super::patience::Waiting;
use super::super::say;
use super::Worker;

/// Between two requests at least.
const PAUSE: Duration = Duration::from_secs(1);

/// For how long a verdict is said that nobody takes. The command that judges is run again if it is lost.
const VERDICT_KEPT: Micros = 10 * 60 * 1_000_000;

/// Why there was no answer, where there may be one in a moment.
struct Trouble {
    kind: String,
    message: String,
}

/// What a person is told while there is no answer, once.
struct Notice<'a> {
    what: &'a str,
    was_given: bool,
}

impl Worker<'_> {
    /// Say what came of something that was done, until it is over at that time.
    pub(super) fn say_until(
        &mut self,
        until: Micros,
        act: &Act,
        what: &str,
    ) -> Result<Answer, Failure> {
        let signals = &self.signals;
        insist(&mut self.client, act, what, |_, asked_at| {
            asked_at < until && signals.request() != StopRequest::Kill
        })
    }

    /// Say what a command that judges found.
    pub(super) fn say_verdict(&mut self, act: &Act) -> Result<Answer, Failure> {
        let until = SystemClock.now().saturating_add(VERDICT_KEPT);
        self.say_until(until, act, "a verdict is not recorded yet")
    }

    /// Ask for a step, for as long as somebody waits for one.
    pub(super) fn ask_for_step(&mut self, act: &Act, waiting: &Waiting) -> Result<Answer, Failure> {
        let signals = &self.signals;
        insist(&mut self.client, act, "no step could be claimed yet", |trouble, _| {
            trouble.passes() && !waiting.is_over() && signals.request() == StopRequest::None
        })
    }
}

/// Ask for it until there is an answer, or it does not go on after a request that was begun then.
fn insist(
    client: &mut Client,
    act: &Act,
    what: &str,
    mut goes_on: impl FnMut(&Trouble, Micros) -> bool,
) -> Result<Answer, Failure> {
    let mut request = client.request(act)?;
    let mut notice = Notice { what, was_given: false };
    loop {
        let (asked_at, asked) = (SystemClock.now(), Instant::now());
        let outcome = client.repeat(&mut request);
        let Some(trouble) = trouble(&outcome).filter(|it| goes_on(it, asked_at)) else {
            return outcome;
        };
        notice.give(&trouble);
        sleep(PAUSE.saturating_sub(asked.elapsed()));
    }
}

/// What stands in the way of an answer, if that is none of the ledger's rules.
fn trouble(outcome: &Result<Answer, Failure>) -> Option<Trouble> {
    let (code, line) = error_of(outcome)?;
    let text = |member: &str| line.get(member).and_then(Value::as_str).map(str::to_owned);
    is_trouble(code).then(|| Some(Trouble { kind: text("kind")?, message: text("message")? }))?
}

/// What failed, as programs are told, whoever carried it out.
pub(super) fn error_of(outcome: &Result<Answer, Failure>) -> Option<(Code, Value)> {
    match outcome {
        Ok(answer) => {
            let is_error = |line: &&Value| line.get("type").is_some_and(|it| it == "error");
            Some((Code::of(answer.code), answer.lines.first().filter(is_error)?.clone()))
        }
        Err(failure) => Some((failure.code(), failure.json())),
    }
}

/// Whether it is not the ledger's rules that say no.
fn is_trouble(code: Code) -> bool {
    matches!(code, Code::Held | Code::Machine)
}

impl Trouble {
    /// Whether it is one that comes and goes.
    fn passes(&self) -> bool {
        [ErrorKind::Locked, ErrorKind::DiskFull].iter().any(|kind| kind.name() == self.kind)
    }
}

impl Notice<'_> {
    fn give(&mut self, trouble: &Trouble) {
        if !std::mem::replace(&mut self.was_given, true) {
            say(&format!("{}: {}; trying again", self.what, trouble.message));
        }
    }
}
