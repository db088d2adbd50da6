//! The server's side of one client connection: non-blocking reads, messages, responses.
//!
//! Invariants:
//! - At most one response is pending per client. A pipelined request waits until the client has
//!   read the previous response, so responses are complete and in order.
//! - No call blocks: bytes that cannot be read or written now wait for the next poll.
//! - Memory per client is bounded: one message, one read chunk and one response. The server bounds what
//!   all incomplete messages have together.
//! - A message and the reading of its response have a time limit, which a single byte does not
//!   extend.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::protocol::{Answer, MESSAGE_LENGTH_MAX, Peer, encode};
use crate::requests::shortened;

/// How long a client may be idle, how long it may take to send a message, and to read a response.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// The grace period at shutdown for clients that have not read their response.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// The maximum number of bytes that are read from a client at once.
const CHUNK_LENGTH: usize = 64 << 10;

/// The writing half of a connection, shared with the threads that respond.
#[derive(Debug)]
pub(super) struct ResponseWriter {
    stream: UnixStream,
    outgoing: Mutex<Outgoing>,
}

#[derive(Debug)]
struct Outgoing {
    pending: PendingResponse,
    /// The time of the last response, of the last bytes of it that the client read, or of the first
    /// bytes of the next message.
    since: Instant,
}

/// The state of a client's response.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PendingResponse {
    None,
    /// A request is being executed.
    Awaited,
    /// The encoded response, and the number of its bytes that were written.
    Writing(Vec<u8>, usize),
    /// The connection was closed without a response; the client repeats its request.
    Closed,
}

/// The readiness that the event loop polls a client for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interest {
    Read,
    Write,
    None,
}

impl ResponseWriter {
    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        // Every change is one assignment, so a panic cannot leave it inconsistent.
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Responds to the pending request. This writes the bytes that the socket accepts now.
    pub(super) fn respond(&self, answer: &Answer) {
        let bytes = encode(answer).or_else(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => {
                plan_ledger::mutant!(LongAnswerWithoutToken => {
                    return encode(&Answer::from(crate::protocol::too_long("the answer")));
                });
                encode(&shortened(answer))
            }
            _ => Err(error),
        });
        // The client cannot send its next request in between, since it has not read this response.
        let mut outgoing = self.outgoing();
        outgoing.pending =
            bytes.map_or(PendingResponse::None, |bytes| PendingResponse::Writing(bytes, 0));
        outgoing.since = Instant::now();
        self.flush(&mut outgoing);
    }

    /// Closes the connection without a response.
    pub(super) fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        self.outgoing().pending = PendingResponse::Closed;
    }

    fn flush(&self, outgoing: &mut Outgoing) {
        let Outgoing { pending: PendingResponse::Writing(bytes, written), since } = outgoing else {
            return;
        };
        while let Some(rest) = bytes.get(*written..).filter(|rest| !rest.is_empty()) {
            match (&self.stream).write(rest) {
                Ok(count @ 1..) => *written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The client has disconnected and needs no response.
                Ok(0) | Err(_) => break,
            }
            *since = Instant::now();
        }
        outgoing.pending = PendingResponse::None;
    }
}

/// A client connection with its read buffer.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) writer: Arc<ResponseWriter>,
    /// The process at the other end, as it was when the connection was accepted.
    process: Arc<Peer>,
    buffer: Vec<u8>,
    /// The length of the buffer's prefix that is known to contain no line end.
    searched: usize,
    reading: ReadState,
    /// The deadline of the connection, after the shutdown of the server began.
    shutdown_deadline: Option<Instant>,
}

/// Whether more requests may arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadState {
    Open,
    /// The client closed its half, or sent something that cannot be parsed.
    Closed,
}

/// The next message of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextMessage {
    /// It is incomplete, or the previous response is still pending.
    NotReady,
    Ready(Vec<u8>),
    /// It exceeds the limit, and its end is unknown. Nothing more is read.
    TooLong,
}

impl Connection {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let outgoing = Outgoing { pending: PendingResponse::None, since: Instant::now() };
        let writer = Arc::new(ResponseWriter { stream, outgoing: Mutex::new(outgoing) });
        let reading = ReadState::Open;
        // Now: a number of a process is used again after its end, and a claim that it sent is executed later.
        let process = Arc::new(Peer::at_socket(peer_of(&writer.stream)));
        let (buffer, searched, shutdown_deadline) = (Vec::new(), 0, None);
        Ok(Self { writer, process, buffer, searched, reading, shutdown_deadline })
    }

    /// The process at the other end.
    pub(super) fn process(&self) -> Arc<Peer> {
        Arc::clone(&self.process)
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.writer.stream
    }

    pub(super) fn interest(&self) -> Interest {
        let is_writing = matches!(self.writer.outgoing().pending, PendingResponse::Writing(..));
        // Do not read ahead while the buffer has a complete request.
        match self.reading {
            _ if is_writing => Interest::Write,
            ReadState::Open if !self.is_complete() && !self.is_too_long() => Interest::Read,
            _ => Interest::None,
        }
    }

    /// When the connection times out; `None` while the client waits for a response.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let outgoing = self.writer.outgoing();
        let idle = outgoing.since + IDLE_MAX;
        let is_waiting = outgoing.pending == PendingResponse::Awaited;
        (!is_waiting).then(|| self.shutdown_deadline.into_iter().fold(idle, Instant::min))
    }

    /// Whether the connection can be dropped.
    pub(super) fn is_finished(&self, now: Instant) -> bool {
        let is_late = self.deadline().is_some_and(|end| end <= now);
        is_late
            || match self.writer.outgoing().pending {
                PendingResponse::None => self.reading == ReadState::Closed && !self.is_complete(),
                PendingResponse::Awaited | PendingResponse::Writing(..) => false,
                PendingResponse::Closed => true,
            }
    }

    fn stop_reading(&mut self) {
        self.reading = ReadState::Closed;
        self.buffer = Vec::new();
        self.searched = 0;
    }

    /// Prepares for the shutdown: reads nothing more, and leaves a grace period for a pending
    /// response.
    pub(super) fn shut_down(&mut self, now: Instant) {
        if self.shutdown_deadline.is_none() {
            self.stop_reading();
            self.shutdown_deadline = Some(now + SHUTDOWN_GRACE);
        }
    }

    /// Continues to write the response when the socket is writable.
    pub(super) fn on_writable(&self) {
        self.writer.flush(&mut self.writer.outgoing());
    }

    /// Reads once when the socket is readable.
    pub(super) fn on_readable(&mut self, chunk: &mut [u8]) {
        match (&self.writer.stream).read(chunk) {
            Ok(count @ 1..) => {
                // More bytes of a message do not extend its time: otherwise a client that sends a
                // byte now and then would keep its connection forever.
                if self.buffer.is_empty() || plan_ledger::mutant!(OldConnectionsKept) {
                    self.writer.outgoing().since = Instant::now();
                }
                self.buffer.extend_from_slice(chunk.get(..count).unwrap_or_default());
                self.search();
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                ) => {}
            // A message without its line end was cut short and must not be acted upon.
            Ok(0) | Err(_) => self.reading = ReadState::Closed,
        }
    }

    /// The number of bytes that wait for the end of their message.
    pub(super) fn buffered(&self) -> u64 {
        u64::try_from(self.buffer.len()).unwrap_or(u64::MAX)
    }

    /// Since when the client has neither sent a whole message nor waited for a response; `None` if it
    /// has.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let outgoing = self.writer.outgoing();
        let is_idle = outgoing.pending == PendingResponse::None && !self.is_complete();
        is_idle.then_some(outgoing.since)
    }

    /// The process at the other end; `None` where the system does not tell.
    pub(super) fn peer(&self) -> Option<i32> {
        platform::peer(&self.writer.stream)
    }

    /// Ends the connection: its client tries again, under the same key.
    pub(super) fn shed(&mut self) {
        self.stop_reading();
        self.writer.close();
    }

    fn search(&mut self) {
        let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
        let found = unsearched.iter().position(|byte| *byte == b'\n');
        self.searched += found.unwrap_or(unsearched.len());
    }

    fn is_complete(&self) -> bool {
        self.searched < self.buffer.len()
    }

    fn is_too_long(&self) -> bool {
        u64::try_from(self.searched).unwrap_or(u64::MAX) >= MESSAGE_LENGTH_MAX
    }

    /// Takes the next message, unless a response is pending. The connection then waits for the
    /// response to this message.
    pub(super) fn next_message(&mut self) -> NextMessage {
        let mut outgoing = self.writer.outgoing();
        if outgoing.pending != PendingResponse::None {
            return NextMessage::NotReady;
        }
        if !self.is_complete() && !self.is_too_long() {
            return NextMessage::NotReady;
        }
        outgoing.pending = PendingResponse::Awaited;
        drop(outgoing);
        if self.is_too_long() {
            self.stop_reading();
            return NextMessage::TooLong;
        }
        let after = self.buffer.split_off(self.searched + 1);
        let message = std::mem::replace(&mut self.buffer, after);
        self.searched = 0;
        self.search();
        NextMessage::Ready(message)
    }
}

fn peer_of(stream: &UnixStream) -> Option<u32> {
    platform::peer(stream).and_then(|peer| u32::try_from(peer).ok())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod platform {
    use std::os::unix::net::UnixStream;

    pub(super) fn peer(stream: &UnixStream) -> Option<i32> {
        rustix::net::sockopt::socket_peercred(stream).ok().map(|peer| peer.pid.as_raw_pid())
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod platform {
    use std::os::unix::net::UnixStream;

    pub(super) fn peer(_: &UnixStream) -> Option<i32> {
        None
    }
}

/// A buffer for [`Connection::on_readable`].
pub(super) fn chunk() -> Vec<u8> {
    vec![0; CHUNK_LENGTH]
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use super::*;
    use crate::protocol::too_long;

    fn pair() -> (UnixStream, Connection) {
        let (client, ours) = UnixStream::pair().unwrap();
        (client, Connection::new(ours).unwrap())
    }

    fn answer(text: &str) -> Answer {
        Answer { messages: vec![text.to_owned()], ..Answer::default() }
    }

    fn message(text: &str) -> NextMessage {
        NextMessage::Ready(text.as_bytes().to_vec())
    }

    fn read(client: &UnixStream) -> String {
        let mut line = String::new();
        BufReader::with_capacity(1, client).read_line(&mut line).unwrap();
        serde_json::from_str::<Answer>(&line).unwrap().messages.remove(0)
    }

    #[test]
    fn messages_arrive_in_chunks_of_any_length() {
        let text = b"one\ntwo\n";
        for length in 1..=text.len() {
            let (mut client, mut connection) = pair();
            let mut received = Vec::new();
            for sent in text.chunks(length) {
                client.write_all(sent).unwrap();
                connection.on_readable(&mut chunk());
                while let NextMessage::Ready(message) = connection.next_message() {
                    assert_eq!(
                        connection.next_message(),
                        NextMessage::NotReady,
                        "an answer is pending"
                    );
                    connection.writer.respond(&answer(""));
                    received.extend(message);
                }
            }
            assert_eq!(received, text, "in pieces of {length}");
        }
    }

    #[test]
    fn pipelined_requests_are_answered_in_order_after_half_close() {
        let (mut client, mut connection) = pair();
        client.write_all(b"one\ntwo\nthr").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        connection.on_readable(&mut chunk());
        assert_eq!(connection.interest(), Interest::None, "a complete request is buffered");
        assert_eq!(connection.next_message(), message("one\n"));
        assert_eq!(connection.next_message(), NextMessage::NotReady);
        assert_eq!(connection.deadline(), None, "the client waits for the server");
        connection.writer.respond(&answer("1"));
        assert_eq!(connection.next_message(), message("two\n"));
        assert_eq!(connection.interest(), Interest::Read);
        connection.on_readable(&mut chunk());
        assert!(!connection.is_finished(Instant::now()), "an answer is pending");
        connection.writer.respond(&answer("2"));
        assert_eq!([read(&client), read(&client)], ["1", "2"]);
        assert_eq!(
            connection.next_message(),
            NextMessage::NotReady,
            "an incomplete message is ignored"
        );
        assert!(connection.is_finished(Instant::now()));
    }

    #[test]
    fn answer_larger_than_the_socket_buffer_is_written_in_parts() {
        let (mut client, mut connection) = pair();
        client.write_all(b"one\ntwo\n").unwrap();
        connection.on_readable(&mut chunk());
        assert_eq!(connection.next_message(), message("one\n"));
        let long = "x".repeat(4 << 20);
        connection.writer.respond(&answer(&long));
        assert_eq!(connection.interest(), Interest::Write);
        assert_eq!(
            connection.next_message(),
            NextMessage::NotReady,
            "the answer before is still being written"
        );
        assert!(connection.deadline().is_some());
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| read(&client));
            while connection.interest() == Interest::Write {
                connection.on_writable();
                std::thread::yield_now();
            }
            assert_eq!(reading.join().unwrap(), long);
        });
        assert_eq!(connection.next_message(), message("two\n"));
    }

    /// Regression: one client that did not read a long answer delayed the end of `ledger serve` by a
    /// minute.
    #[test]
    fn slow_reader_does_not_delay_the_shutdown() {
        let (mut client, mut connection) = pair();
        client.write_all(b"one\ntwo\n").unwrap();
        connection.on_readable(&mut chunk());
        assert_eq!(connection.next_message(), message("one\n"));
        let end = Instant::now();
        connection.shut_down(end);
        let late = end + SHUTDOWN_GRACE;
        connection.shut_down(late);
        assert!(!connection.is_finished(late), "an answer is pending");
        connection.writer.respond(&answer(&"x".repeat(4 << 20)));
        assert_eq!((connection.interest(), connection.deadline()), (Interest::Write, Some(late)));
        assert!(!connection.is_finished(end));
        assert!(connection.is_finished(late), "the grace period starts once");
    }

    #[test]
    fn idle_and_closed_connections_are_finished() {
        let (client, connection) = pair();
        assert!(!connection.is_finished(Instant::now()));
        assert!(connection.is_finished(Instant::now() + IDLE_MAX));
        drop(client);
        let (mut client, mut connection) = pair();
        client.write_all(b"one\n").unwrap();
        connection.on_readable(&mut chunk());
        assert_eq!(connection.next_message(), message("one\n"));
        drop(client);
        connection.writer.respond(&answer("1"));
        connection.on_readable(&mut chunk());
        assert!(connection.is_finished(Instant::now()));
        let (mut client, mut connection) = pair();
        client.write_all(b"one\ntwo\n").unwrap();
        connection.on_readable(&mut chunk());
        assert_eq!(connection.next_message(), message("one\n"));
        connection.writer.close();
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        assert_eq!(
            connection.next_message(),
            NextMessage::NotReady,
            "a pipelined request is dropped, too"
        );
        assert!(connection.is_finished(Instant::now()));
    }

    #[test]
    fn message_without_line_end_is_buffered_up_to_the_limit() {
        let (mut client, mut connection) = pair();
        client.set_nonblocking(true).unwrap();
        let part = vec![b'x'; CHUNK_LENGTH];
        while connection.interest() == Interest::Read {
            let _ = client.write(&part);
            connection.on_readable(&mut chunk());
        }
        let limit = usize::try_from(MESSAGE_LENGTH_MAX).unwrap();
        assert!((limit..limit + CHUNK_LENGTH).contains(&connection.buffer.len()));
        assert_eq!(connection.next_message(), NextMessage::TooLong);
        connection.writer.respond(&too_long("the request").into());
        assert!(connection.is_finished(Instant::now()) && connection.buffer.is_empty());
    }
}
