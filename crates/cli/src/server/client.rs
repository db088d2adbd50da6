//! Handing an act over: to whoever serves the ledger, or else to a ledger that is opened for it.
//!
//! Invariants:
//! - What was sent and not answered is asked again only under its key.
//! - Whoever waits for the ledger waits in a queue, so that none waits for ever while others come
//!   and go; and none longer than [`PATIENCE`]. Who asks again has kept their place.

use std::fs::{File, TryLockError};
use std::io::{self, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use serde_json::json;

use plan_ledger::error::{Error, ErrorKind};
use plan_ledger::ledger::{Environment, Housekeeping, Ledger};
use plan_ledger::log::BatchKey;
use plan_ledger::plan::State;

use super::failure::{plan_too_long, too_long};
use super::reception::BUSY;
use super::socket::{Knock, encode, knock, receive};
use super::{Act, Answer, Code, Failure};

/// How long somebody waits for a ledger that another process holds and does not serve.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How long an act may take at the process that serves. Only a holder that was stopped, or a fork
/// of a very long history, takes longer.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Whoever had to fold more records than that to open the ledger leaves a snapshot behind, so that
/// the next one need not.
const FOLDED_MAX: u64 = 4096;

/// Between two looks at a ledger that is held.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Carry an act out on the ledger in that folder, wherever it is held.
///
/// # Errors
/// As [`Act::carry_out`]; `Locked` after [`PATIENCE`], naming the holder.
pub fn hand_over(dir: &Path, act: &Act, environment: &Environment) -> Result<Answer, Failure> {
    Client::new(dir, environment).ask(act)
}

/// Open a ledger for longer, waiting for those who only have it for a moment.
///
/// # Errors
/// What `open` says; `Locked` at once if the holder serves others, and so stays, or else after
/// [`PATIENCE`].
pub fn open_in_turn<T>(dir: &Path, open: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    let give_up = Instant::now() + PATIENCE;
    let mut place = Place::None;
    loop {
        match open() {
            Err(error)
                if error.kind() == ErrorKind::Locked
                    && Instant::now() < give_up
                    && matches!(knock(dir), Knock::Nobody) =>
            {
                place.wait(dir, give_up);
                sleep(LOOK_AGAIN);
            }
            opened => return opened,
        }
    }
}

/// Somebody who asks, perhaps often.
#[derive(Debug)]
pub struct Client {
    dir: PathBuf,
    environment: Environment,
    connection: Option<BufReader<UnixStream>>,
}

/// An act that is done once, however often it is asked for.
#[derive(Debug)]
pub struct Request<'a> {
    act: &'a Act,
    key: String,
    message: Vec<u8>,
    /// Somebody may have heard of it.
    is_heard: bool,
    place: Place,
}

/// What came of sending a request.
enum Sent {
    Answered(Answer),
    /// Nobody serves the ledger.
    Nobody,
    /// Somebody does, and has no time.
    Busy,
    /// The answer never came: the act may have been carried out.
    Lost,
    /// The holder is there and says nothing.
    Silent,
}

impl Client {
    /// Nobody is asked yet.
    #[must_use]
    pub fn new(dir: &Path, environment: &Environment) -> Self {
        Self { dir: dir.to_owned(), environment: environment.clone(), connection: None }
    }

    /// Carry an act out.
    ///
    /// # Errors
    /// As [`hand_over`].
    pub fn ask(&mut self, act: &Act) -> Result<Answer, Failure> {
        self.repeat(&mut self.request(act)?)
    }

    /// What to ask for an act with, more than once if need be.
    ///
    /// # Errors
    /// `TooLarge`, wherever the ledger is held.
    pub fn request<'a>(&self, act: &'a Act) -> Result<Request<'a>, Failure> {
        let key = hex(self.environment.ids.next_id());
        let message = message(act, &key)?;
        Ok(Request { act, key, message, is_heard: false, place: Place::None })
    }

    /// Carry an act out, unless it was when it was asked for before: then this is the answer of that
    /// time.
    ///
    /// # Errors
    /// As [`hand_over`].
    pub fn repeat(&mut self, request: &mut Request<'_>) -> Result<Answer, Failure> {
        let outcome = self.put(request);
        let is_held = |failure: &Failure| failure.code() == Code::Held;
        if !outcome.as_ref().is_err_and(is_held) {
            // Others may have the ledger meanwhile.
            request.place = Place::None;
        }
        outcome
    }

    fn put(&mut self, request: &mut Request<'_>) -> Result<Answer, Failure> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            match self.send(&request.message) {
                Sent::Answered(answer) => {
                    request.is_heard = true;
                    return Ok(answer);
                }
                Sent::Lost => request.is_heard = true,
                Sent::Silent => {
                    request.is_heard = true;
                    return Err(silent(&self.dir).into());
                }
                Sent::Nobody | Sent::Busy => {}
            }
            request.place.wait(&self.dir, give_up);
            // An act that nobody has heard of needs no key.
            let is_heard = request.is_heard && !plan_ledger::bug!(LostActDoneAgain);
            let key = is_heard.then(|| BatchKey::new(request.key.as_bytes())).transpose()?;
            match self.act_alone(request.act, key.as_ref()) {
                Err(Failure::Ledger(error))
                    if error.kind() == ErrorKind::Locked && Instant::now() < give_up =>
                {
                    sleep(LOOK_AGAIN);
                }
                outcome => return outcome,
            }
        }
    }

    /// Ask whoever serves, over the connection that there is, or else a new one.
    fn send(&mut self, message: &[u8]) -> Sent {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => match self.connect() {
                Ok(connection) => connection,
                Err(sent) => return sent,
            },
        };
        if connection.get_mut().write_all(message).is_err() {
            // A part of it may have been read, and the end of it perhaps.
            return Sent::Lost;
        }
        match receive(&mut connection) {
            Ok(Some(answer)) => match serde_json::from_slice::<Answer>(&answer) {
                Ok(answer) if is_busy(&answer) => Sent::Busy,
                Ok(answer) => {
                    self.connection = Some(connection);
                    Sent::Answered(answer)
                }
                Err(_) => Sent::Lost,
            },
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                Sent::Silent
            }
            Ok(None) | Err(_) => Sent::Lost,
        }
    }

    fn connect(&self) -> Result<BufReader<UnixStream>, Sent> {
        match knock(&self.dir) {
            Knock::Open(stream) => {
                let timed = stream
                    .set_read_timeout(Some(ANSWER_MAX))
                    .and_then(|()| stream.set_write_timeout(Some(ANSWER_MAX)));
                timed.map_err(|_| Sent::Nobody)?;
                Ok(BufReader::new(stream))
            }
            Knock::Busy => Err(Sent::Busy),
            Knock::Nobody => Err(Sent::Nobody),
        }
    }

    /// Open the ledger, act, and close it.
    fn act_alone(&self, act: &Act, key: Option<&BatchKey>) -> Result<Answer, Failure> {
        // Nothing is made ahead by who is gone in a moment.
        let housekeeping = Housekeeping::Inline;
        let environment = Environment { housekeeping, ..self.environment.clone() };
        let (ledger, report) = Ledger::open(&self.dir, &environment)?;
        let outcome = act.carry_out(&ledger, key);
        if report.last_seq.saturating_sub(report.from_snapshot.unwrap_or(0)) > FOLDED_MAX {
            // Without it the next one only takes longer.
            let _ = ledger.snapshot::<State>();
        }
        let closed = ledger.close();
        let mut answer = outcome?;
        closed?;
        answer.said.splice(0..0, report.notes);
        Ok(answer)
    }
}

/// The message that asks for an act under that key.
fn message(act: &Act, key: &str) -> Result<Vec<u8>, Failure> {
    let unwritable = |error| Failure::Usage(format!("the act cannot be written as JSON: {error}"));
    let mut message = serde_json::to_value(act).map_err(unwritable)?;
    if let Some(members) = message.as_object_mut() {
        members.insert("once".to_owned(), json!(key));
    }
    encode(&message).map_err(|_| match act {
        Act::Propose { .. } => plan_too_long(),
        _ => too_long("the request"),
    })
}

fn is_busy(answer: &Answer) -> bool {
    answer.lines.iter().any(|line| line.get("kind").is_some_and(|kind| kind == BUSY))
}

fn silent(dir: &Path) -> Error {
    let message = format!(
        "the process that holds the ledger has not answered for {} s, and may yet carry the act \
         out; look with `ledger inspect` before asking again",
        ANSWER_MAX.as_secs()
    );
    Error::new(ErrorKind::Locked, message).at_path(dir)
}

/// A place among those who wait for the ledger. They lock its folder, which nobody else does: the
/// kernel lets them in one after the other, in the order in which they came.
#[derive(Debug)]
enum Place {
    /// It was not asked for, or the file system knows no locks; then there is no order.
    None,
    /// There are others before.
    Waiting(Receiver<File>),
    /// It is the first one, for as long as the folder is locked.
    First { _folder: File },
}

impl Place {
    /// Wait until it is the first one, and no longer than that.
    fn wait(&mut self, dir: &Path, give_up: Instant) {
        if let Self::None = self {
            *self = Self::take(dir).unwrap_or(Self::None);
        }
        if let Self::Waiting(turn) = self {
            match turn.recv_timeout(give_up.saturating_duration_since(Instant::now())) {
                Ok(folder) => *self = Self::First { _folder: folder },
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
        let (sender, turn) = channel();
        // It may outlive the wait; then it lets go of its turn as soon as it gets it.
        let wait = move || {
            if folder.lock().is_ok() {
                let _ = sender.send(folder);
            }
        };
        Builder::new().name("wait".to_owned()).spawn(wait).ok()?;
        Some(Self::Waiting(turn))
    }
}

fn hex(bytes: [u8; 16]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Approval, MESSAGE_LENGTH_MAX, OnFailureWord, Policy, TextWord};
    use plan_ledger::plan::Plan;

    /// Story: a plan of 18 MB, which `ledger run` takes, was refused with the advice to put large results
    /// into artifacts. Goal: whoever proposes one is told of the limit of a proposal, and what takes it.
    #[test]
    fn a_plan_that_is_too_long_to_be_handed_over_is_told_as_one() {
        let title = "x".repeat(usize::try_from(MESSAGE_LENGTH_MAX).unwrap());
        let plan = Box::new(Plan { title, ..Plan::default() });
        let (text, on_failure) = (TextWord::Judge, OnFailureWord::Continue);
        let policy = Policy { approval: Approval::Automatic, text, on_failure };
        let (run, reason) = ("big".to_owned(), String::new());
        let failure = message(&Act::Propose { run, plan, reason, policy }, "key").unwrap_err();
        let message = failure.to_string();
        assert!(message.contains("the plan: ") && message.contains("`ledger run`"), "{message}");
        assert!(!message.contains("artifacts"), "{message}");
    }
}
