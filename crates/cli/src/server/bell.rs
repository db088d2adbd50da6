//! The bell by which the thread that hears the clients is woken.
//!
//! Invariant: whoever rings is heard once at least, and waits for nothing.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The bell.
#[derive(Debug)]
pub(super) struct Bell {
    button: UnixStream,
    sound: UnixStream,
    phase: Mutex<Phase>,
}

/// How it stands with the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// Who was heard is answered, and nobody else.
    Closing,
}

impl Bell {
    pub(super) fn hang() -> io::Result<Self> {
        let (button, sound) = UnixStream::pair()?;
        button.set_nonblocking(true)?;
        sound.set_nonblocking(true)?;
        Ok(Self { button, sound, phase: Mutex::new(Phase::Open) })
    }

    /// There is something new.
    pub(super) fn ring(&self) {
        // Where there is no room it rings already.
        let _ = (&self.button).write(&[0]);
    }

    /// The service ends.
    pub(super) fn close(&self) {
        *self.phase() = Phase::Closing;
        self.ring();
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        // A word: a panic leaves it whole.
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What can be read while it rings.
    pub(super) fn sound(&self) -> &UnixStream {
        &self.sound
    }

    /// Let it ring no more; whoever rings from now on is heard the next time.
    pub(super) fn quieten(&self) -> Phase {
        let mut rung = [0; 64];
        while matches!((&self.sound).read(&mut rung), Ok(count) if count == rung.len()) {}
        *self.phase()
    }
}
