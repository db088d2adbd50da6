//! Waits that end when the process is asked to stop.
//!
//! Invariants:
//! - A wait for a server that does not answer, for a lock, or before the next attempt ends at once.
//! - A request that was sent still gets its answer if that comes within [`GRACE`]: the server may have executed it.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
#[cfg(any(feature = "store", test))]
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a request that was sent may take after the process was asked to stop.
const GRACE: Duration = Duration::from_secs(1);

/// How often a wait looks whether the process is asked to stop.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Says whether the process is asked to stop. Without a function it never is: then signals end it.
#[derive(Clone, Default)]
pub(crate) struct StopCheck(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl fmt::Debug for StopCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StopCheck").field(&self.is_stopped()).finish()
    }
}

impl StopCheck {
    pub(crate) fn new(check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(check)))
    }

    fn is_stopped(&self) -> bool {
        self.0.as_ref().is_some_and(|check| check())
    }

    /// Whether there is a check.
    pub(super) fn is_given(&self) -> bool {
        self.0.is_some()
    }
}

/// The waits of one request.
#[derive(Debug)]
pub(super) struct CallWait {
    check: StopCheck,
    stopped: Option<Instant>,
}

impl CallWait {
    pub(super) fn new(check: &StopCheck) -> Self {
        Self { check: check.clone(), stopped: None }
    }

    /// Whether the process is asked to stop: then nothing is tried again.
    pub(super) fn is_stopped(&mut self) -> bool {
        if self.stopped.is_none() && self.check.is_stopped() {
            self.stopped = Some(Instant::now());
        }
        self.stopped.is_some()
    }

    /// Whether it is too late for an answer.
    pub(super) fn is_over(&mut self) -> bool {
        self.is_stopped() && self.stopped.is_some_and(|stopped| stopped.elapsed() >= GRACE)
    }

    /// How long to wait before the next look, of the time that is left.
    pub(super) fn slice(&self, left: Duration) -> Duration {
        if self.check.is_given() { left.min(LOOK_INTERVAL) } else { left }
    }

    /// Sleeps before the next attempt, at most until the process is asked to stop.
    #[cfg(any(feature = "store", test))]
    pub(super) fn pause(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        while !self.is_stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            sleep(self.slice(left));
        }
    }
}

/// A connection of which each read and write times out after [`LOOK_INTERVAL`], so that the wait can end; without a
/// check they time out as late as the request does.
pub(super) struct WaitingStream<'a> {
    pub(super) stream: &'a mut BufReader<UnixStream>,
    pub(super) wait: &'a mut CallWait,
    pub(super) until: Instant,
}

impl WaitingStream<'_> {
    /// Whether to try again after this error.
    fn continues_after(&mut self, error: &io::Error) -> bool {
        matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
            && self.wait.check.is_given()
            && Instant::now() < self.until
            && !self.wait.is_over()
    }
}

impl Read for WaitingStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Err(error) if self.continues_after(&error) => {}
                read => return read,
            }
        }
    }
}

impl BufRead for WaitingStream<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while let Err(error) = self.stream.fill_buf() {
            if !self.continues_after(&error) {
                return Err(error);
            }
        }
        // The bytes that were read are in the buffer.
        self.stream.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.stream.consume(amount);
    }
}

impl Write for WaitingStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.stream.get_mut().write(bytes) {
                Err(error) if self.continues_after(&error) => {}
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.get_mut().flush()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a wait ends when the process is asked to stop, and an answer that comes in parts is not lost.

    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::spawn;

    use super::*;
    use crate::protocol::receive;

    fn stream(stop: &Arc<AtomicBool>) -> (UnixStream, BufReader<UnixStream>, CallWait) {
        let (server, client) = UnixStream::pair().unwrap();
        client.set_read_timeout(Some(LOOK_INTERVAL)).unwrap();
        client.set_write_timeout(Some(LOOK_INTERVAL)).unwrap();
        let flag = Arc::clone(stop);
        let check = StopCheck::new(move || flag.load(Ordering::Relaxed));
        (server, BufReader::new(client), CallWait::new(&check))
    }

    #[test]
    fn slow_answer_in_parts_is_read_whole() {
        let stop = Arc::default();
        let (mut server, mut stream, mut wait) = stream(&stop);
        let answer = spawn(move || {
            for part in ["one", " two", " three\n"] {
                sleep(LOOK_INTERVAL * 3);
                server.write_all(part.as_bytes()).unwrap();
            }
        });
        let until = Instant::now() + Duration::from_secs(60);
        let mut waiting = WaitingStream { stream: &mut stream, wait: &mut wait, until };
        assert_eq!(receive(&mut waiting).unwrap().unwrap(), b"one two three\n");
        answer.join().unwrap();
    }

    #[test]
    fn answer_is_not_awaited_after_the_grace() {
        let stop = Arc::new(AtomicBool::new(true));
        let (_server, mut stream, mut wait) = stream(&stop);
        let until = Instant::now() + Duration::from_secs(3600);
        let mut waiting = WaitingStream { stream: &mut stream, wait: &mut wait, until };
        assert!(receive(&mut waiting).is_err());
        // More than the socket holds, and nothing reads it.
        let mut waiting = WaitingStream { stream: &mut stream, wait: &mut wait, until };
        assert!(waiting.write_all(&vec![b'x'; 16 << 20]).is_err());
        assert!(wait.is_over());
    }

    #[test]
    fn pause_ends_when_the_process_is_asked_to_stop() {
        let stop = Arc::new(AtomicBool::new(true));
        let flag = Arc::clone(&stop);
        let check = StopCheck::new(move || flag.load(Ordering::Relaxed));
        // It would outlast every test.
        CallWait::new(&check).pause(Duration::from_secs(36_000));
        stop.store(false, Ordering::Relaxed);
        let later = spawn(move || {
            sleep(LOOK_INTERVAL * 3);
            stop.store(true, Ordering::Relaxed);
        });
        CallWait::new(&check).pause(Duration::from_secs(36_000));
        later.join().unwrap();
    }
}
