//! Hearing the clients: one thread lets them in, and begins what they ask for.
//!
//! Invariants: it waits for nothing but all of them, the door and the bell at once; and once the
//! service ends it stays until everybody who was heard has read the answer, or took too long.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::Scope;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, getrlimit};
use serde_json::{Value, json};

use plan_ledger::ledger::PendingCommits;
use plan_ledger::log::BatchKey;

use super::bell::Phase;
use super::carry_out::{Hand, QUICK_LENGTH_MAX};
use super::connection::{Connection, Next, Watch, piece};
use super::failure::{expect_short_numbers, too_long};
use super::server::{Begun, Desk, caught};
use super::socket::encode;
use super::{Act, Answer, CONNECTIONS_MAX, Code, Failure};

/// How long the door stays shut after somebody could not be let in.
const DOOR_SHUT: Duration = Duration::from_millis(100);

/// The thread that hears the clients.
pub(super) struct Reception<'scope, 'env, 'l> {
    desk: &'scope Desk<'l>,
    scope: &'scope Scope<'scope, 'env>,
    /// Where to put what was begun.
    settling: Sender<Vec<Begun>>,
    clients: BTreeMap<u64, Connection>,
    clients_max: usize,
    last: u64,
    phase: Phase,
    /// Until when the door is shut.
    shut: Option<Instant>,
    piece: Vec<u8>,
}

/// What can be watched.
#[derive(Debug, Clone, Copy)]
enum Whom {
    Bell,
    Door,
    Client(u64, Watch),
}

impl<'scope, 'env, 'l> Reception<'scope, 'env, 'l> {
    pub(super) fn new(
        desk: &'scope Desk<'l>,
        scope: &'scope Scope<'scope, 'env>,
        settling: Sender<Vec<Begun>>,
    ) -> Self {
        let (clients, clients_max) = (BTreeMap::new(), clients_max());
        let (last, phase, shut, piece) = (0, Phase::Open, None, piece());
        Self { desk, scope, settling, clients, clients_max, last, phase, shut, piece }
    }

    /// Serve until the service ends.
    pub(super) fn run(mut self) {
        loop {
            for whom in self.wait() {
                match whom {
                    Whom::Bell => self.phase = self.desk.bell.quieten(),
                    Whom::Door => self.let_in(),
                    Whom::Client(number, watch) => self.attend(number, watch),
                }
            }
            let now = Instant::now();
            if self.phase == Phase::Closing {
                self.clients.values_mut().for_each(|client| client.part(now));
            } else {
                self.begin();
            }
            self.shut = self.shut.filter(|end| *end > now);
            self.clients.retain(|_, client| !client.is_over(now));
            if self.phase == Phase::Closing && self.clients.is_empty() {
                return;
            }
        }
    }

    /// Wait until something can be done.
    fn wait(&self) -> Vec<Whom> {
        let mut watched = vec![(Whom::Bell, PollFd::new(self.desk.bell.sound(), PollFlags::IN))];
        if self.phase == Phase::Open && self.shut.is_none() {
            watched.push((Whom::Door, PollFd::new(&self.desk.listening.listener, PollFlags::IN)));
        }
        let mut until = self.shut;
        for (number, client) in &self.clients {
            let watch = client.watch();
            let flags = match watch {
                Watch::Heard => Some(PollFlags::IN),
                Watch::Room => Some(PollFlags::OUT),
                Watch::Nothing => None,
            };
            let whom = Whom::Client(*number, watch);
            watched.extend(flags.map(|flags| (whom, PollFd::new(client.stream(), flags))));
            until = until.into_iter().chain(client.give_up()).min();
        }
        let (whom, mut ready): (Vec<_>, Vec<_>) = watched.into_iter().unzip();
        // A moment more, so that it is over when it is looked at.
        let patience = until.map(|until| {
            until.saturating_duration_since(Instant::now()) + Duration::from_millis(1)
        });
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        if poll(&mut ready, patience.as_ref()).is_err() {
            return Vec::new();
        }
        let is_ready =
            |(whom, ready): (Whom, PollFd<'_>)| (!ready.revents().is_empty()).then_some(whom);
        whom.into_iter().zip(ready).filter_map(is_ready).collect()
    }

    fn attend(&mut self, number: u64, watch: Watch) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        match watch {
            Watch::Heard => client.hear(&mut self.piece),
            Watch::Room => client.tell_on(),
            Watch::Nothing => {}
        }
    }

    fn let_in(&mut self) {
        let Ok((stream, _)) = self.desk.listening.listener.accept() else {
            // It went away again, or there is no room for one more open file: the next one may
            // have more luck, a moment later. Those who are in need not wait for it.
            self.shut = Some(Instant::now() + DOOR_SHUT);
            return;
        };
        if self.clients.len() >= self.clients_max {
            turn_away(&stream, self.clients_max);
        } else if let Ok(client) = Connection::new(stream) {
            self.last += 1;
            self.clients.insert(self.last, client);
        }
    }

    /// Begin what everybody has asked for.
    fn begin(&mut self) {
        let (desk, scope) = (self.desk, self.scope);
        let carry_out = |mouth, asked: Box<dyn FnOnce() -> Result<Asked, Failure> + Send>| {
            desk.take_time(scope, mouth, || {
                let (act, key) = asked()?;
                act.carry_out(desk.ledger, key.as_ref())
            });
        };
        let mut together = Vec::new();
        // Answers are given where the bell is rung, so that whoever has asked ahead is looked at
        // again; but for the last one of a client.
        for client in self.clients.values_mut() {
            match client.next() {
                Next::Later => {}
                Next::TooLong => client.mouth.tell(&too_long("the request").into()),
                Next::Message(message) => {
                    let mouth = Arc::clone(&client.mouth);
                    if message.len() > QUICK_LENGTH_MAX {
                        carry_out(mouth, Box::new(move || understood(&message)));
                        continue;
                    }
                    match caught(|| understood(&message)) {
                        Err(failure) => {
                            let (later, outcome) = (PendingCommits::default(), Err(failure));
                            together.push(Begun { mouth, later, outcome });
                        }
                        Ok((act, key)) if act.is_quick() => {
                            let (key, later) = (key.as_ref(), PendingCommits::default());
                            let hand = Hand { ledger: desk.ledger, key, later: &later };
                            let outcome = caught(|| act.begin(hand));
                            together.push(Begun { mouth, later, outcome });
                        }
                        Ok(asked) => carry_out(mouth, Box::new(move || Ok(asked))),
                    }
                }
            }
        }
        if !together.is_empty() {
            // Who answers ends after this thread.
            let _ = self.settling.send(together);
        }
    }
}

/// What somebody asks for, and its key.
type Asked = (Act, Option<BatchKey>);

/// The act that a message asks for, and its key.
fn understood(message: &[u8]) -> Result<Asked, Failure> {
    let not_understood =
        |error: serde_json::Error| Failure::Usage(format!("the request is no act: {error}"));
    let mut value: Value = serde_json::from_slice(message).map_err(not_understood)?;
    // What was read as JSON is UTF-8.
    expect_short_numbers(str::from_utf8(message).unwrap_or_default())?;
    let key = match value.as_object_mut().and_then(|members| members.remove("once")) {
        None | Some(Value::Null) => None,
        Some(Value::String(key)) => Some(BatchKey::new(key.as_bytes())?),
        Some(_) => return Err(Failure::Usage("`once` of a request is a string".to_owned())),
    };
    let act = serde_json::from_value(value).map_err(not_understood)?;
    Ok((act, key))
}

/// How many clients may be in. The ledger needs open files of its own: one that it cannot open is
/// a write that failed.
fn clients_max() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / 4).unwrap_or(CONNECTIONS_MAX).clamp(1, CONNECTIONS_MAX)
}

/// The kind of the error that asks a client to come again.
pub(super) const BUSY: &str = "busy";

fn busy(clients: usize) -> Answer {
    let code = Code::Held.number();
    let message = format!("{clients} processes are being served: ask again");
    let line = json!({
        "type": "error", "kind": BUSY, "rejection": null, "message": message, "exit_code": code,
    });
    Answer { code, lines: vec![line], text: String::new(), said: vec![message] }
}

/// Tell somebody that there is no room. Whoever cannot be told so finds out.
fn turn_away(stream: &UnixStream, clients: usize) {
    use io::Write as _;
    let _ = stream.set_nonblocking(true);
    let _ = encode(&busy(clients)).and_then(|bytes| (&*stream).write_all(&bytes));
}
