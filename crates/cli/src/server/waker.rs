//! Wakes the event loop from other threads.
//!
//! A wake-up is one byte in a socket pair, so the event loop polls it together with its clients. A
//! wake-up is never lost, and `wake` never blocks.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The two ends of the wake-up channel, and the phase of the server.
#[derive(Debug)]
pub(super) struct Waker {
    sender: UnixStream,
    receiver: UnixStream,
    phase: Mutex<ServerPhase>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerPhase {
    Open,
    /// Received requests still get their responses; no further ones are read.
    Closing,
}

impl Waker {
    pub(super) fn new() -> io::Result<Self> {
        let (sender, receiver) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        Ok(Self { sender, receiver, phase: Mutex::new(ServerPhase::Open) })
    }

    pub(super) fn wake(&self) {
        // A full buffer means that a wake-up is already pending.
        let _ = (&self.sender).write(&[0]);
    }

    /// Starts the shutdown of the server.
    pub(super) fn close(&self) {
        *self.phase() = ServerPhase::Closing;
        self.wake();
    }

    fn phase(&self) -> MutexGuard<'_, ServerPhase> {
        // The phase is one word, so a panic cannot leave it inconsistent.
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Readable while a wake-up is pending.
    pub(super) fn readiness(&self) -> &UnixStream {
        &self.receiver
    }

    /// Consumes all pending wake-ups.
    pub(super) fn drain(&self) -> ServerPhase {
        let mut bytes = [0; 64];
        while matches!((&self.receiver).read(&mut bytes), Ok(count) if count == bytes.len()) {}
        *self.phase()
    }
}
