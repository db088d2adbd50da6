//! The client: sends a request to the server of a ledger or, if there is none, opens the ledger and
//! executes the request.
//!
//! Invariants:
//! - A request without a response is repeated only under its idempotency key.
//! - A client never writes to a folder that is bound to a store: it waits for the server, as for a lock, or refuses if it
//!   was built without stores.
//! - Clients wait for a locked ledger in a queue, so that no client starves, and for at most
//!   [`LOCK_WAIT`], unless a client has another limit. A client that tries again keeps its place in the queue.
//! - Every wait of a client that handles signals itself ends when it is asked to stop (`stop`).

use std::fs::{File, TryLockError};
use std::io::{self, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use serde_json::Value;

use plan_ledger::log::{StoreBinding, bound_store};
use plan_ledger::{BackgroundWork, BatchKey, Environment, Error, ErrorKind, Ledger, State};

#[cfg(not(feature = "store"))]
use crate::protocol::failure::left_out::LeftOut;
use crate::protocol::{
    Answer, Code, Failure, Peer, encode, hex, ledger_option, option, plan_too_long, receive,
    too_long,
};
use crate::requests::{GoneLooks, Origin, Repetition, Request};
use crate::runner::keep_left;

use super::attempt_process::{Executor, made_by};
#[cfg(feature = "store")]
use super::over_http::Servers;
use super::socket::{ConnectOutcome, connect};
use super::state_folder::known_root::{check_root, keep_root};
use super::stop::{CallWait, LOOK_INTERVAL, StopCheck, WaitingStream};
#[cfg(feature = "store")]
use super::store_health::StandbyHere;

/// How long a client waits for a ledger that is locked by a process without a server.
pub const LOCK_WAIT: Duration = Duration::from_secs(5);

/// How long a client waits for a response. Only a stopped server, or a fork of a very long history,
/// takes longer.
const ANSWER_WAIT: Duration = Duration::from_secs(60);

/// If a client folded more records than this to open the ledger, it writes a snapshot for the next
/// client.
const FOLDED_MAX: u64 = 4096;

/// The pause between two attempts to open a locked ledger.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// Opens a ledger for a longer time, after the short commands that wait in the queue before it.
///
/// # Errors
/// Those of `open`; `Locked` at once if the lock holder runs a server, else after [`LOCK_WAIT`].
pub fn open_in_turn<T>(dir: &Path, open: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    let deadline = Instant::now() + LOCK_WAIT;
    let mut ticket = QueueTicket::None;
    loop {
        match open() {
            Err(error)
                if error.kind() == ErrorKind::Locked
                    && Instant::now() < deadline
                    && matches!(connect(dir), ConnectOutcome::NoServer) =>
            {
                ticket.wait(dir, deadline, &mut CallWait::new(&StopCheck::default()));
                sleep(RETRY_INTERVAL);
            }
            opened => return opened,
        }
    }
}

/// A client, which keeps its connection for the next request.
#[derive(Debug)]
pub struct Client {
    dir: PathBuf,
    environment: Environment,
    connection: Option<BufReader<UnixStream>>,
    lock_wait: Duration,
    answer_wait: Duration,
    /// Whether to end each wait.
    stop: StopCheck,
    /// Servers on other machines, which are asked instead.
    #[cfg(feature = "store")]
    servers: Option<Servers>,
}

/// The result of sending a request.
enum Sent {
    Answered(Answer),
    NoServer,
    /// The server has no room for this client.
    Busy,
    /// The connection ended before the response: the request may have been executed.
    Lost,
    /// The server did not respond in time.
    TimedOut,
}

impl Client {
    /// Creates a client without connecting it.
    #[must_use]
    pub fn new(dir: &Path, environment: &Environment) -> Self {
        let (dir, environment) = (dir.to_owned(), environment.clone());
        let (lock_wait, answer_wait) = (LOCK_WAIT, ANSWER_WAIT);
        Self {
            dir,
            environment,
            connection: None,
            lock_wait,
            answer_wait,
            stop: StopCheck::default(),
            #[cfg(feature = "store")]
            servers: None,
        }
    }

    /// The same client, which asks these servers on other machines instead of the folder.
    #[cfg(feature = "store")]
    #[must_use]
    pub(crate) fn with_servers(self, servers: Servers) -> Self {
        Self { servers: Some(servers), ..self }
    }

    /// Ends the waits of this client from now on when the process is asked to stop. Without this, signals end the process.
    pub(crate) fn stop_when(&mut self, stop: StopCheck) {
        self.stop = stop;
    }

    /// The same client with a limit on the wait for a locked ledger and for a response.
    #[must_use]
    pub(crate) fn with_wait_limit(self, limit: Duration) -> Self {
        Self { lock_wait: limit, answer_wait: limit, ..self }
    }

    /// Executes a request on the ledger, through its server if there is one.
    ///
    /// # Errors
    /// As [`Request::execute`]; `Locked` with the lock holder after [`LOCK_WAIT`]; `TooLarge` beyond
    /// the limit of a message.
    pub fn call(&mut self, request: &Request) -> Result<Answer, Failure> {
        let key = self.new_key();
        self.call_with_key(request, (&key, false), &mut |_| true)
    }

    fn new_key(&self) -> String {
        hex(&self.environment.ids.next_id())
    }

    /// Executes a request, and repeats it until an outcome is final. If it was already executed, a
    /// repetition returns the first answer.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn call_until(
        &mut self,
        request: &Request,
        mut is_final: impl FnMut(&Result<Answer, Failure>) -> bool,
    ) -> Result<Answer, Failure> {
        let key = self.new_key();
        self.call_with_key(request, (&key, false), &mut is_final)
    }

    /// Executes a request under the caller's key: if any process already executed it under that
    /// key, the first answer is returned.
    ///
    /// # Errors
    /// As [`Client::call`]; `KeyReused` for another request under the same key.
    #[cfg(any(feature = "mcp", feature = "http"))]
    pub(crate) fn call_under(&mut self, request: &Request, key: &str) -> Result<Answer, Failure> {
        self.call_with_key(request, (key, true), &mut |_| true)
    }

    fn call_with_key(
        &mut self,
        request: &Request,
        (key, mut was_sent): (&str, bool),
        is_final: &mut dyn FnMut(&Result<Answer, Failure>) -> bool,
    ) -> Result<Answer, Failure> {
        #[cfg(feature = "store")]
        let executor = match self.servers {
            Some(_) => Executor::Elsewhere,
            None => Executor::ThisMachine,
        };
        #[cfg(not(feature = "store"))]
        let executor = Executor::ThisMachine;
        let made = made_by(request, std::process::id(), &self.dir, executor)?;
        let request = made.as_ref().unwrap_or(request);
        // `was_sent`: a server may have received the request, now or in an earlier call.
        let message = encode_request(request, key)?;
        #[cfg(feature = "store")]
        if let Some(servers) = &mut self.servers {
            request.prepare()?;
            loop {
                let outcome = servers.call(&message, &self.stop);
                if is_final(&outcome) {
                    return outcome;
                }
            }
        }
        let mut ticket = QueueTicket::None;
        let mut deadline = Instant::now() + self.lock_wait;
        loop {
            let mut wait = CallWait::new(&self.stop);
            let sent = self.send(&message, &mut wait);
            was_sent |= matches!(sent, Sent::Answered(_) | Sent::Lost | Sent::TimedOut);
            let outcome = match sent {
                Sent::Answered(answer) => Ok(answer),
                Sent::TimedOut => Err(timed_out(&self.dir, self.answer_wait, &mut wait).into()),
                Sent::Lost | Sent::NoServer | Sent::Busy => {
                    // Before the lock is taken: it may take long.
                    request.prepare()?;
                    ticket.wait(&self.dir, deadline, &mut wait);
                    // A request that no server received needs no key.
                    let is_keyed = was_sent
                        && request.rules().repetition == Repetition::Keyed
                        && !plan_ledger::mutant!(RequestRetriedWithoutKey);
                    let key = is_keyed.then(|| BatchKey::new(key.as_bytes())).transpose()?;
                    match self.execute_alone(request, key.as_ref()) {
                        Err(Failure::Ledger(error))
                            if error.kind() == ErrorKind::Locked
                                && Instant::now() < deadline
                                && !wait.is_stopped() =>
                        {
                            sleep(RETRY_INTERVAL);
                            continue;
                        }
                        outcome => outcome,
                    }
                }
            };
            if !outcome.as_ref().is_err_and(|failure| failure.code() == Code::Locked) {
                // Leave the queue, so that other clients can open the ledger.
                ticket = QueueTicket::None;
            }
            if is_final(&outcome) {
                return outcome;
            }
            deadline = Instant::now() + self.lock_wait;
        }
    }

    /// Sends a message over the open connection, or a new one.
    fn send(&mut self, message: &[u8], wait: &mut CallWait) -> Sent {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => match self.connect() {
                Ok(connection) => connection,
                Err(sent) => return sent,
            },
        };
        let until = Instant::now() + self.answer_wait;
        let mut waiting = WaitingStream { stream: &mut connection, wait, until };
        if waiting.write_all(message).is_err() {
            // The server may have received all of it.
            return Sent::Lost;
        }
        match receive(&mut waiting) {
            Ok(Some(answer)) => match serde_json::from_slice::<Answer>(&answer) {
                Ok(answer) if answer.is_busy() => Sent::Busy,
                Ok(answer) => {
                    self.connection = Some(connection);
                    Sent::Answered(answer)
                }
                Err(_) => Sent::Lost,
            },
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                Sent::TimedOut
            }
            Ok(None) | Err(_) => Sent::Lost,
        }
    }

    fn connect(&self) -> Result<BufReader<UnixStream>, Sent> {
        match connect(&self.dir) {
            ConnectOutcome::Connected(stream) => {
                let is_stoppable = self.stop.is_given();
                let wait = if is_stoppable { LOOK_INTERVAL } else { self.answer_wait };
                let timed = stream
                    .set_read_timeout(Some(wait))
                    .and_then(|()| stream.set_write_timeout(Some(wait)));
                timed.map_err(|_| Sent::NoServer)?;
                Ok(BufReader::new(stream))
            }
            ConnectOutcome::Busy => Err(Sent::Busy),
            ConnectOutcome::NoServer => Err(Sent::NoServer),
        }
    }

    /// Opens the ledger, executes the request, and closes the ledger.
    fn execute_alone(&self, request: &Request, key: Option<&BatchKey>) -> Result<Answer, Failure> {
        expect_served(&self.dir, &self.environment)?;
        // A short-lived process needs no background work.
        let background_work = BackgroundWork::Inline;
        let environment = Environment { background_work, ..self.environment.clone() };
        let (ledger, report) = Ledger::open_with(&self.dir, &environment)?;
        check_root(&self.dir, &ledger, &environment)?;
        // A request may record expired leases, so the results of a dead runner's workers come
        // first.
        let kept = keep_left(&ledger, &self.dir, None);
        let (peer, looks) = (Peer::own(), GoneLooks::default());
        let origin = Origin { peer: &peer, looks: Some((&self.dir, &looks)) };
        let outcome = request.execute_from(&ledger, key, origin);
        keep_root(&self.dir, &ledger);
        if report.last_seq.saturating_sub(report.from_snapshot.unwrap_or(0)) > FOLDED_MAX {
            // Without a snapshot, the next client only takes longer.
            let _ = ledger.snapshot::<State>();
        }
        let closed = ledger.close();
        let mut answer = outcome?;
        answer.messages.splice(0..0, report.notes);
        answer.messages.extend(kept.err().map(|error| format!("results of workers: {error}")));
        // Every acknowledged record is durable, whether or not the ledger could be closed.
        if let Err(error) = closed {
            plan_ledger::mutant!(CloseFailureAnswered => return Err(error.into()));
            answer.messages.push(format!("the ledger could not be closed cleanly: {error}"));
        }
        Ok(answer)
    }
}

/// The log of a folder that is bound to a store is written by its server alone. While that does not run, clients wait
/// for it as for another lock holder; a client without stores does not, since it cannot start it.
fn expect_served(dir: &Path, environment: &Environment) -> Result<(), Error> {
    let Some(binding) = bound_store(&*environment.storage, dir)? else { return Ok(()) };
    expect_stores(&binding, dir)?;
    #[cfg(feature = "store")]
    if let Some(standby) = StandbyHere::in_folder(dir) {
        let (message, hint) = standby.refusal(&binding.url);
        return Err(Error::new(ErrorKind::Locked, message).with_hint(hint).at_path(dir));
    }
    let message =
        format!("the server of this ledger, which is bound to {}, does not run", binding.url);
    let hint = format!(
        "start it: `ledger serve {} {}`; to leave the store, end its servers on all machines and remove STORE.json in the folder",
        option("--store", &binding.url),
        ledger_option(dir)
    );
    Err(Error::new(ErrorKind::Locked, message).with_hint(hint).at_path(dir))
}

/// Fails at once if the next request of a client would fail since the folder is bound to a store and its server does not
/// run.
///
/// # Errors
/// `Locked`; `Rejected` in a program without stores.
pub(crate) fn expect_writer(dir: &Path, environment: &Environment) -> Result<(), Error> {
    match connect(dir) {
        ConnectOutcome::NoServer => expect_served(dir, environment),
        ConnectOutcome::Connected(_) | ConnectOutcome::Busy => Ok(()),
    }
}

/// Only the process that holds the ledger in its store writes to the log of a bound folder: records
/// of another process would be only in the folder.
///
/// # Errors
/// `Rejected` if the folder is bound.
pub(crate) fn expect_unbound(
    dir: &Path,
    environment: &Environment,
    command: &str,
) -> Result<(), Error> {
    let Some(binding) = bound_store(&*environment.storage, dir)? else { return Ok(()) };
    expect_stores(&binding, dir)?;
    let message = format!("the log of this ledger is in {}", binding.url);
    let hint = format!(
        "add --store: `{command} {}`; to leave the store, end its servers on all machines and remove STORE.json in the folder",
        option("--store", &binding.url)
    );
    Err(Error::new(ErrorKind::Rejected, message).with_hint(hint).at_path(dir))
}

/// A program without stores cannot write to a folder that is bound to one.
#[cfg(not(feature = "store"))]
fn expect_stores(binding: &StoreBinding, dir: &Path) -> Result<(), Error> {
    let url = &binding.url;
    let message =
        format!("the log of this ledger is in {url}, and this program was built without stores");
    let hint = format!(
        "{}; reading works without; to leave the store, end its servers on all machines and remove STORE.json in the folder",
        LeftOut::STORES.hint()
    );
    Err(Error::new(ErrorKind::Rejected, message).with_hint(hint).at_path(dir))
}

/// A program without stores cannot write to a folder that is bound to one.
#[cfg(feature = "store")]
#[expect(clippy::unnecessary_wraps, reason = "another build refuses")]
fn expect_stores(_: &StoreBinding, _: &Path) -> Result<(), Error> {
    Ok(())
}

/// The encoded request, with its key if it needs one.
fn encode_request(request: &Request, key: &str) -> Result<Vec<u8>, Failure> {
    let unwritable =
        |error| Failure::Usage(format!("the request cannot be written as JSON: {error}"));
    let mut message = serde_json::to_value(request).map_err(unwritable)?;
    if let (Value::Object(members), Repetition::Keyed) = (&mut message, request.rules().repetition)
    {
        members.insert("once".to_owned(), key.into());
    }
    encode(&message).map_err(|_| match request {
        Request::Propose(_) => plan_too_long(),
        _ => too_long("the request"),
    })
}

fn timed_out(dir: &Path, limit: Duration, wait: &mut CallWait) -> Error {
    let when = if wait.is_over() {
        "before this process was asked to stop".to_owned()
    } else {
        format!("within {} s", limit.as_secs())
    };
    let message = format!(
        "the server did not answer {when} and may still execute the request; check with `ledger inspect` before \
         repeating it"
    );
    Error::new(ErrorKind::Locked, message).at_path(dir)
}

/// A ticket in the queue of clients that wait for the ledger. Each of them locks the ledger's folder;
/// the kernel grants that lock in the order of arrival.
#[derive(Debug)]
enum QueueTicket {
    /// Not requested yet, or the file system has no locks and clients wait in no order.
    None,
    /// Other clients come first.
    Waiting(Receiver<File>),
    /// First in the queue, while the folder is locked.
    First { _folder: File },
}

impl QueueTicket {
    /// Waits until this client is the first, until the deadline, or until the process is asked to stop.
    fn wait(&mut self, dir: &Path, deadline: Instant, wait: &mut CallWait) {
        if let Self::None = self {
            *self = Self::take(dir).unwrap_or(Self::None);
        }
        while let Self::Waiting(granted) = self {
            let left = deadline.saturating_duration_since(Instant::now());
            match granted.recv_timeout(wait.slice(left)) {
                Ok(folder) => *self = Self::First { _folder: folder },
                Err(RecvTimeoutError::Timeout) if left.is_zero() || wait.is_stopped() => return,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => *self = Self::None,
            }
        }
    }

    fn take(dir: &Path) -> Option<Self> {
        let folder = File::open(dir).ok()?;
        match folder.try_lock() {
            Ok(()) => return Some(Self::First { _folder: folder }),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(_)) => return None,
        }
        let (sender, granted) = channel();
        // The thread may outlive the wait. It then releases the lock immediately.
        let wait = move || {
            if folder.lock().is_ok() {
                let _ = sender.send(folder);
            }
        };
        Builder::new().name("wait".to_owned()).spawn(wait).ok()?;
        Some(Self::Waiting(granted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::MESSAGE_LENGTH_MAX;
    use crate::requests::ProposeRequest;
    use plan_ledger::Plan;

    /// Regression: a plan of 18 MB was rejected with the advice to put large results into artifacts.
    #[test]
    fn oversized_plan_error_names_ledger_run() {
        let title = "x".repeat(usize::try_from(MESSAGE_LENGTH_MAX).unwrap());
        let plan = Plan { title, ..Plan::default() };
        let request = ProposeRequest::of("big".to_owned(), plan).into();
        let message = encode_request(&request, "key").unwrap_err().to_string();
        assert!(message.contains("the plan: ") && message.contains("`ledger run`"), "{message}");
        assert!(!message.contains("artifacts"), "{message}");
    }
}
