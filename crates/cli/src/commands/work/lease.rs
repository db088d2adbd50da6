//! The right to go on with an attempt, kept while its worker is at it.
//!
//! Invariant: nobody waits for an answer while a worker runs. A holder of the ledger that is silent holds
//! up neither the worker's time-out nor a request to stop.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, Scope};
use std::time::Duration;

use serde_json::Value;

use crate::server::{Act, Answer, Client};
use plan_ledger::ledger::{Clock as _, SystemClock};
use plan_ledger::plan::Micros;

use super::super::exit::Code;
use super::super::say;

/// After a sign of life that could not be given.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The right to go on with an attempt.
pub(super) struct Lease {
    /// When it ends, as far as it is known.
    until: Micros,
    next: Next,
}

/// What is to be done about a lease.
enum Next {
    /// It is to be renewed then.
    Renew { at: Micros },
    /// It is being renewed.
    Hear,
    /// Nothing: it is over, and somebody else may be doing the step.
    Nothing,
}

/// Who asks for renewals, and waits for the answers. Gone with the last one that asks it.
pub(super) struct Beats {
    asks: Sender<()>,
    answers: Receiver<Answer>,
}

impl Beats {
    /// Of that attempt.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        token: u64,
        client: &'scope mut Client,
    ) -> io::Result<Self> {
        let (asks, asked) = channel();
        let (answered, answers) = channel();
        let renew = Act::Renew { token, lease_seconds: None };
        let beat = move || {
            for () in asked {
                // Nobody listens any more once the worker has ended.
                let _ = answered.send(client.ask(&renew).unwrap_or_else(Answer::from));
            }
        };
        Builder::new().name("signs of life".to_owned()).spawn_scoped(scope, beat)?;
        Ok(Self { asks, answers })
    }
}

impl Lease {
    /// What a line about an attempt says of it.
    pub(super) fn of(line: &Value) -> Self {
        let until = line.get("lease_until_micros").and_then(Value::as_u64).unwrap_or(u64::MAX);
        let now = SystemClock.now();
        let at = now.saturating_add(until.saturating_sub(now) / 2);
        Self { until, next: Next::Renew { at } }
    }

    /// When it ends, or ended.
    pub(super) fn until(&self) -> Micros {
        self.until
    }

    /// Whether the holder of the ledger said that it is over.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }

    /// Have it renewed if it is time, and hear what came of that.
    pub(super) fn keep(&mut self, beats: &Beats) {
        match self.next {
            Next::Renew { at } => {
                let is_time = SystemClock.now() >= at && !plan_ledger::bug!(LeaseNotKept);
                if is_time && beats.asks.send(()).is_ok() {
                    self.next = Next::Hear;
                }
            }
            Next::Hear => {
                if let Ok(answer) = beats.answers.try_recv() {
                    self.hear(&answer);
                }
            }
            Next::Nothing => {}
        }
    }

    /// Hear what is still to come, now that nothing waits for it.
    pub(super) fn hear_out(&mut self, beats: &Beats) {
        if matches!(self.next, Next::Hear)
            && let Ok(answer) = beats.answers.recv()
        {
            self.hear(&answer);
        }
    }

    fn hear(&mut self, answer: &Answer) {
        let code = Code::of(answer.code);
        if code != Code::Fine {
            answer.said.iter().for_each(|line| say(line));
        }
        match code {
            Code::Fine => *self = answer.lines.first().map_or(Self::of(&Value::Null), Self::of),
            Code::Refused => *self = Self { until: 0, next: Next::Nothing },
            // Whoever holds the ledger may be done in a moment.
            _ => {
                let pause = Micros::try_from(TRY_AGAIN.as_micros()).unwrap_or(Micros::MAX);
                self.next = Next::Renew { at: SystemClock.now().saturating_add(pause) };
            }
        }
    }
}
