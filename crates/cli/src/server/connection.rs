//! One client's connection, as the process that serves sees it.
//!
//! Invariants:
//! - A client is owed one answer at most: what it asks ahead waits until it has read that one, so
//!   that answers come whole and in the order of what was asked.
//! - Nothing here waits for a client: what cannot be read or written now is for later.
//! - What is held of one client is bounded: one message, one piece more, and one answer.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::failure::too_long;
use super::socket::encode;
use super::{Answer, MESSAGE_LENGTH_MAX};

/// How long a client may be silent, and how long it may take to read an answer.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// How long those who do not read their answers keep a service from its end.
const PARTING_MAX: Duration = Duration::from_secs(5);

/// So much is read of a client at a time, in bytes.
const PIECE_LENGTH: usize = 64 << 10;

/// The end of a connection at which answers are given, by whoever has one.
#[derive(Debug)]
pub(super) struct Mouth {
    stream: UnixStream,
    said: Mutex<Said>,
}

#[derive(Debug)]
struct Said {
    owed: Owed,
    /// When the client was last heard, or told something, or read something.
    since: Instant,
}

/// What a client waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Owed {
    Nothing,
    /// The answer to what it asked.
    Answer,
    /// What it has not read of the answer, from there on.
    Rest(Vec<u8>, usize),
    /// It was hung up on, and asks again elsewhere what it has asked ahead.
    Gone,
}

/// What a client is to be watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watch {
    /// It may say something, or be gone.
    Heard,
    /// It may have room for the rest of its answer.
    Room,
    /// Nothing that it does matters now.
    Nothing,
}

impl Mouth {
    fn said(&self) -> MutexGuard<'_, Said> {
        // It is changed in single steps: a panic leaves it whole.
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Give the answer that is owed, as much of it as there is room for now.
    pub(super) fn tell(&self, answer: &Answer) {
        let bytes = encode(answer).or_else(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => encode(&Answer::from(too_long("the answer"))),
            _ => Err(error),
        });
        // It cannot ask again in between: it has not read the end of this one.
        let mut said = self.said();
        said.owed = bytes.map_or(Owed::Nothing, |bytes| Owed::Rest(bytes, 0));
        said.since = Instant::now();
        self.go_on(&mut said);
    }

    /// End the connection without an answer.
    pub(super) fn hang_up(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        self.said().owed = Owed::Gone;
    }

    fn go_on(&self, said: &mut Said) {
        let Said { owed: Owed::Rest(bytes, told), since } = said else { return };
        while let Some(rest) = bytes.get(*told..).filter(|rest| !rest.is_empty()) {
            match (&self.stream).write(rest) {
                Ok(count @ 1..) => *told += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // It is gone, and needs no answer.
                Ok(0) | Err(_) => break,
            }
            *since = Instant::now();
        }
        said.owed = Owed::Nothing;
    }
}

/// A client, and what was heard of it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) mouth: Arc<Mouth>,
    heard: Vec<u8>,
    /// How much of it was searched for the end of a message, in vain.
    searched: usize,
    ears: Ears,
    /// Until when it may read, if the service ends.
    parting: Option<Instant>,
}

/// Whether more may come from a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ears {
    Open,
    /// It has said all, or cannot be understood any more.
    Shut,
}

/// What there is of the next message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Not all of it yet, or the answer before it is still owed.
    Later,
    Message(Vec<u8>),
    /// It is too long to be one, and where it ends is not known. Nothing more is listened to.
    TooLong,
}

impl Connection {
    /// # Errors
    /// What the system says.
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let said = Mutex::new(Said { owed: Owed::Nothing, since: Instant::now() });
        let mouth = Arc::new(Mouth { stream, said });
        Ok(Self { mouth, heard: Vec::new(), searched: 0, ears: Ears::Open, parting: None })
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.mouth.stream
    }

    /// What to watch it for.
    pub(super) fn watch(&self) -> Watch {
        let rests = matches!(self.mouth.said().owed, Owed::Rest(..));
        // Whoever has asked the next thing already is heard when it is its turn.
        match self.ears {
            _ if rests => Watch::Room,
            Ears::Open if !self.is_whole() && !self.is_too_long() => Watch::Heard,
            _ => Watch::Nothing,
        }
    }

    /// Since when it keeps others waiting, and so until when it may; `None` while it waits itself.
    pub(super) fn give_up(&self) -> Option<Instant> {
        let said = self.mouth.said();
        let is_waited_for = said.owed != Owed::Answer;
        is_waited_for.then(|| self.parting.into_iter().fold(said.since + SILENCE_MAX, Instant::min))
    }

    /// Whether there is nothing left to do for it.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let is_late = self.give_up().is_some_and(|end| end <= now);
        is_late
            || match self.mouth.said().owed {
                Owed::Nothing => self.ears == Ears::Shut && !self.is_whole(),
                Owed::Answer | Owed::Rest(..) => false,
                Owed::Gone => true,
            }
    }

    /// Listen no more.
    fn shut(&mut self) {
        self.ears = Ears::Shut;
        self.heard = Vec::new();
        self.searched = 0;
    }

    /// The service ends: listen no more. Whoever is to be told something may take a little time.
    pub(super) fn part(&mut self, now: Instant) {
        if self.parting.is_none() {
            self.shut();
            self.parting = Some(now + PARTING_MAX);
        }
    }

    /// It may have room for more of its answer.
    pub(super) fn tell_on(&self) {
        self.mouth.go_on(&mut self.mouth.said());
    }

    /// It said something, or is gone.
    pub(super) fn hear(&mut self, piece: &mut [u8]) {
        match (&self.mouth.stream).read(piece) {
            Ok(count @ 1..) => {
                self.heard.extend_from_slice(piece.get(..count).unwrap_or_default());
                self.mouth.said().since = Instant::now();
                self.search();
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                ) => {}
            // A message without its end was cut short: nobody may act on it.
            Ok(0) | Err(_) => self.ears = Ears::Shut,
        }
    }

    fn search(&mut self) {
        let unsearched = self.heard.get(self.searched..).unwrap_or_default();
        let found = unsearched.iter().position(|byte| *byte == b'\n');
        self.searched += found.unwrap_or(unsearched.len());
    }

    fn is_whole(&self) -> bool {
        self.searched < self.heard.len()
    }

    fn is_too_long(&self) -> bool {
        u64::try_from(self.searched).unwrap_or(u64::MAX) >= MESSAGE_LENGTH_MAX
    }

    /// The next message, if the client is owed nothing; then it is owed an answer.
    pub(super) fn next(&mut self) -> Next {
        let mut said = self.mouth.said();
        if said.owed != Owed::Nothing {
            return Next::Later;
        }
        if !self.is_whole() && !self.is_too_long() {
            return Next::Later;
        }
        said.owed = Owed::Answer;
        drop(said);
        if self.is_too_long() {
            self.shut();
            return Next::TooLong;
        }
        let after = self.heard.split_off(self.searched + 1);
        let message = std::mem::replace(&mut self.heard, after);
        self.searched = 0;
        self.search();
        Next::Message(message)
    }
}

/// A buffer to hear with.
pub(super) fn piece() -> Vec<u8> {
    vec![0; PIECE_LENGTH]
}

#[cfg(test)]
mod tests {
    //! Goal: messages come out whole and in turn, however they are cut, and answers go in whole and
    //! in turn, however slowly they are read.

    use std::io::{BufRead as _, BufReader};

    use super::*;

    fn pair() -> (UnixStream, Connection) {
        let (client, ours) = UnixStream::pair().unwrap();
        (client, Connection::new(ours).unwrap())
    }

    fn answer(text: &str) -> Answer {
        Answer { text: text.to_owned(), ..Answer::default() }
    }

    fn message(text: &str) -> Next {
        Next::Message(text.as_bytes().to_vec())
    }

    fn read(client: &UnixStream) -> String {
        let mut line = String::new();
        BufReader::with_capacity(1, client).read_line(&mut line).unwrap();
        serde_json::from_str::<Answer>(&line).unwrap().text
    }

    #[test]
    fn a_message_may_come_in_any_pieces() {
        let text = b"one\ntwo\n";
        for length in 1..=text.len() {
            let (mut client, mut connection) = pair();
            let mut heard = Vec::new();
            for sent in text.chunks(length) {
                client.write_all(sent).unwrap();
                connection.hear(&mut piece());
                while let Next::Message(message) = connection.next() {
                    assert_eq!(connection.next(), Next::Later, "it is owed an answer");
                    connection.mouth.tell(&answer(""));
                    heard.extend(message);
                }
            }
            assert_eq!(heard, text, "in pieces of {length}");
        }
    }

    #[test]
    fn who_asks_ahead_is_heard_in_turn_and_who_has_said_all_is_answered() {
        let (mut client, mut connection) = pair();
        client.write_all(b"one\ntwo\nthr").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        connection.hear(&mut piece());
        assert_eq!(connection.watch(), Watch::Nothing, "it has enough to do");
        assert_eq!(connection.next(), message("one\n"));
        assert_eq!(connection.next(), Next::Later);
        assert_eq!(connection.give_up(), None, "it is others that keep it waiting");
        connection.mouth.tell(&answer("1"));
        assert_eq!(connection.next(), message("two\n"));
        assert_eq!(connection.watch(), Watch::Heard);
        connection.hear(&mut piece());
        assert!(!connection.is_over(Instant::now()), "it waits for an answer");
        connection.mouth.tell(&answer("2"));
        assert_eq!([read(&client), read(&client)], ["1", "2"]);
        assert_eq!(connection.next(), Next::Later, "half a message is none");
        assert!(connection.is_over(Instant::now()));
    }

    #[test]
    fn an_answer_that_there_is_no_room_for_is_gone_on_with() {
        let (mut client, mut connection) = pair();
        client.write_all(b"one\ntwo\n").unwrap();
        connection.hear(&mut piece());
        assert_eq!(connection.next(), message("one\n"));
        let long = "x".repeat(4 << 20);
        connection.mouth.tell(&answer(&long));
        assert_eq!(connection.watch(), Watch::Room);
        assert_eq!(connection.next(), Next::Later, "answers do not mix");
        assert!(connection.give_up().is_some());
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| read(&client));
            while connection.watch() == Watch::Room {
                connection.tell_on();
                std::thread::yield_now();
            }
            assert_eq!(reading.join().unwrap(), long);
        });
        assert_eq!(connection.next(), message("two\n"));
    }

    /// Story: `ledger serve` did not end for a minute, and was deaf to Ctrl-C meanwhile, because
    /// of one client that was stopped before it had read a long answer.
    #[test]
    fn who_does_not_read_is_not_waited_for_when_the_service_ends() {
        let (mut client, mut connection) = pair();
        client.write_all(b"one\ntwo\n").unwrap();
        connection.hear(&mut piece());
        assert_eq!(connection.next(), message("one\n"));
        let end = Instant::now();
        connection.part(end);
        let late = end + PARTING_MAX;
        connection.part(late);
        assert!(!connection.is_over(late), "its answer is on the way");
        connection.mouth.tell(&answer(&"x".repeat(4 << 20)));
        assert_eq!((connection.watch(), connection.give_up()), (Watch::Room, Some(late)));
        assert!(!connection.is_over(end));
        assert!(connection.is_over(late), "the time does not begin again");
    }

    #[test]
    fn who_is_silent_or_gone_is_not_waited_for() {
        let (client, connection) = pair();
        assert!(!connection.is_over(Instant::now()));
        assert!(connection.is_over(Instant::now() + SILENCE_MAX));
        drop(client);
        let (mut client, mut connection) = pair();
        client.write_all(b"one\n").unwrap();
        connection.hear(&mut piece());
        assert_eq!(connection.next(), message("one\n"));
        drop(client);
        connection.mouth.tell(&answer("1"));
        connection.hear(&mut piece());
        assert!(connection.is_over(Instant::now()));
        let (mut client, mut connection) = pair();
        client.write_all(b"one\ntwo\n").unwrap();
        connection.hear(&mut piece());
        assert_eq!(connection.next(), message("one\n"));
        connection.mouth.hang_up();
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        assert_eq!(connection.next(), Next::Later, "what was asked ahead is not done either");
        assert!(connection.is_over(Instant::now()));
    }

    #[test]
    fn a_message_without_an_end_is_held_up_to_the_limit() {
        let (mut client, mut connection) = pair();
        client.set_nonblocking(true).unwrap();
        let piece_of_it = vec![b'x'; PIECE_LENGTH];
        while connection.watch() == Watch::Heard {
            let _ = client.write(&piece_of_it);
            connection.hear(&mut piece());
        }
        let limit = usize::try_from(MESSAGE_LENGTH_MAX).unwrap();
        assert!((limit..limit + PIECE_LENGTH).contains(&connection.heard.len()));
        assert_eq!(connection.next(), Next::TooLong);
        connection.mouth.tell(&too_long("the request").into());
        assert!(connection.is_over(Instant::now()) && connection.heard.is_empty());
    }
}
