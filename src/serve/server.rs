//! Serving a ledger that is held: one thread lets clients in, one for each of them answers.
//!
//! Invariants:
//! - The socket is gone before the ledger can be closed, and nobody is cut off within an act: who
//!   has asked is answered.
//! - However many clients there are, and whatever they send or fail to send, what is held for them
//!   is bounded, and the work that goes on beside them is not disturbed.

use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Value, json};

use crate::error::{Error, ErrorKind};
use crate::ledger::Ledger;
use crate::log::BatchKey;

use super::line::{Line, unknown};
use super::socket::{Listening, receive, send};
use super::{Act, Answer, Code, Failure};

/// How many clients are served at once. One more is told to come again.
pub const CONNECTIONS_MAX: usize = 256;

/// How long a client may be silent, and how long it may take to read an answer.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Serve a ledger to other processes for as long as `work` takes. Where no socket can be made,
/// `complain` is told, and the work is done all the same.
pub fn while_serving<T>(
    ledger: &Ledger,
    dir: &Path,
    complain: impl FnOnce(&str),
    work: impl FnOnce() -> T,
) -> T {
    let began = Listening::begin(dir).and_then(|listening| Ok((listening, UnixStream::pair()?)));
    let (listening, (stop, stopped)) = match began {
        Ok(began) => began,
        Err(error) => {
            complain(&format!("other processes cannot use the ledger meanwhile: {error}"));
            return work();
        }
    };
    let desk = Desk { ledger, listening, line: Line::default(), clients: Mutex::default() };
    std::thread::scope(|scope| {
        // Dropped before the threads are waited for, also when the work panics.
        let _closing = Closing { desk: &desk, _stop: stop };
        let accept = || desk.accept(scope, &stopped);
        if let Err(error) = Builder::new().name("serve".to_owned()).spawn_scoped(scope, accept) {
            complain(&format!("other processes cannot use the ledger meanwhile: {error}"));
        }
        work()
    })
}

/// What the threads share.
struct Desk<'a> {
    ledger: &'a Ledger,
    listening: Listening,
    line: Line,
    clients: Mutex<Clients>,
}

/// Who is served, so that they can be told that it is over.
#[derive(Default)]
struct Clients {
    last: u64,
    streams: BTreeMap<u64, UnixStream>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    Closing,
}

/// Ends the service.
struct Closing<'d, 'a> {
    desk: &'d Desk<'a>,
    /// Its end wakes the thread that lets clients in.
    _stop: UnixStream,
}

impl Drop for Closing<'_, '_> {
    fn drop(&mut self) {
        self.desk.listening.unname();
        let mut clients = self.desk.clients();
        clients.phase = Phase::Closing;
        for stream in clients.streams.values() {
            // Whoever is being answered is answered; nobody is listened to any more.
            let _ = stream.shutdown(Shutdown::Read);
        }
    }
}

impl Desk<'_> {
    fn clients(&self) -> MutexGuard<'_, Clients> {
        // A list of streams: a panic leaves it usable.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Let clients in until the other end of `stopped` is gone.
    fn accept<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, stopped: &UnixStream) {
        loop {
            let mut ready = [
                PollFd::new(&self.listening.listener, PollFlags::IN),
                PollFd::new(stopped, PollFlags::IN),
            ];
            if poll(&mut ready, None).is_err() {
                continue;
            }
            if ready.last().is_some_and(|stop| !stop.revents().is_empty()) {
                return;
            }
            // A client that went away again, or no room for one more open file: the next one may
            // have more luck, a moment later.
            match self.listening.listener.accept() {
                Ok((stream, _)) => self.let_in(scope, stream),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn let_in<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, mut stream: UnixStream) {
        let Some(number) = self.register(&stream) else {
            // If it cannot be told so, it finds out.
            let _ = stream.set_write_timeout(Some(Duration::from_millis(10)));
            let _ = send(&mut stream, &busy());
            return;
        };
        let serve = move || {
            // Whatever ends a connection is over with it.
            let _ = self.serve(&mut stream);
            self.clients().streams.remove(&number);
        };
        let name = format!("client {number}");
        if Builder::new().name(name).spawn_scoped(scope, serve).is_err() {
            self.clients().streams.remove(&number);
        }
    }

    fn register(&self, stream: &UnixStream) -> Option<u64> {
        let mut clients = self.clients();
        if clients.streams.len() >= CONNECTIONS_MAX || clients.phase == Phase::Closing {
            return None;
        }
        let copy = stream.try_clone().ok()?;
        clients.last += 1;
        let number = clients.last;
        clients.streams.insert(number, copy);
        Some(number)
    }

    fn serve(&self, stream: &mut UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        let mut reader = BufReader::new(stream.try_clone()?);
        loop {
            let answer = match receive(&mut reader) {
                Ok(None) => return Ok(()),
                Ok(Some(message)) => self.answer(&message),
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    let failure = too_long("the request");
                    // Where it ends is not known: nothing more can be understood.
                    return send(stream, &Answer::from(failure));
                }
                Err(error) => return Err(error),
            };
            match send(stream, &answer) {
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    send(stream, &Answer::from(too_long("the answer")))?;
                }
                sent => sent?,
            }
        }
    }

    fn answer(&self, message: &[u8]) -> Answer {
        let carried_out = catch_unwind(AssertUnwindSafe(|| {
            let (act, key) = understood(message)?;
            if act.is_quick() {
                return Ok(self.line.carry_out(self.ledger, act, key));
            }
            act.carry_out(self.ledger, key.as_ref())
        }));
        let outcome = carried_out.unwrap_or_else(|_| Err(unknown()));
        outcome.unwrap_or_else(Answer::from)
    }
}

fn too_long(what: &str) -> Failure {
    let limit = super::MESSAGE_LENGTH_MAX;
    let message = format!("{what} is longer than {limit} bytes; put large results into files");
    Error::new(ErrorKind::TooLarge, message).into()
}

/// The act that a message asks for, and its key.
fn understood(message: &[u8]) -> Result<(Act, Option<BatchKey>), Failure> {
    let not_understood =
        |error: serde_json::Error| Failure::Usage(format!("the request is no act: {error}"));
    let mut value: Value = serde_json::from_slice(message).map_err(not_understood)?;
    let key = match value.as_object_mut().and_then(|members| members.remove("once")) {
        None | Some(Value::Null) => None,
        Some(Value::String(key)) => Some(BatchKey::new(key.as_bytes())?),
        Some(_) => return Err(Failure::Usage("`once` of a request is a string".to_owned())),
    };
    let act = serde_json::from_value(value).map_err(not_understood)?;
    Ok((act, key))
}

/// The kind of the error that asks a client to come again.
pub(super) const BUSY: &str = "busy";

fn busy() -> Answer {
    let code = Code::Held.number();
    let message = format!("{CONNECTIONS_MAX} processes are being served: ask again");
    let line = json!({
        "type": "error", "kind": BUSY, "rejection": null, "message": message, "exit_code": code,
    });
    Answer { code, lines: vec![line], text: String::new(), said: vec![message] }
}
