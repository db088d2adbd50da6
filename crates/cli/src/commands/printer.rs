//! A thread that prints: who works does not wait for who reads.
//!
//! Invariants:
//! - What is to be printed is printed in order, each piece once, and all of it before the printer goes.
//! - While its reader is slow, up to [`PIECES_MAX`] pieces wait; who brings one more waits with it, so
//!   that nothing is lost.

use std::path::Path;
use std::sync::mpsc::{SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use plan_ledger::error::{Error, Result};

/// How many pieces wait to be printed.
const PIECES_MAX: usize = 1 << 14;

/// Something to print.
type Piece = Box<dyn FnOnce() + Send>;

/// A thread that prints.
#[derive(Debug)]
pub(super) struct Printer {
    /// There until the printer goes.
    pieces: Option<SyncSender<Piece>>,
    thread: Option<JoinHandle<()>>,
}

impl Printer {
    /// Nothing is printed yet; `about` is named where there is no room for a thread.
    pub(super) fn new(about: &Path) -> Result<Self> {
        Self::with_room(PIECES_MAX, about)
    }

    fn with_room(room: usize, about: &Path) -> Result<Self> {
        let (pieces, queue) = sync_channel::<Piece>(room);
        let print = move || queue.into_iter().for_each(|piece| piece());
        let thread = Builder::new()
            .name("print".to_owned())
            .spawn(print)
            .map_err(|error| Error::io("start a thread that prints", about, error))?;
        Ok(Self { pieces: Some(pieces), thread: Some(thread) })
    }

    /// Print this behind all else.
    pub(super) fn print(&self, piece: impl FnOnce() + Send + 'static) {
        let Some(pieces) = &self.pieces else { return };
        if let Err(unsent) = pieces.send(Box::new(piece)) {
            // There is no thread any more: then it is printed here.
            (unsent.0)();
        }
    }

    /// Wait until all is printed.
    pub(super) fn flush(&self) {
        let (sender, printed) = channel();
        self.print(move || _ = sender.send(()));
        let _ = printed.recv();
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        drop(self.pieces.take());
        // It ends when all is printed; what prints does not panic.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: nothing is lost, and nothing comes out of order, up to the limit and beyond it.

    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn what_is_brought_while_nobody_reads_is_printed_in_order() {
        const ROOM: usize = 3;
        for brought in [ROOM, ROOM + 1, 10 * ROOM] {
            let printer = Printer::with_room(ROOM, Path::new("here")).unwrap();
            let out = Arc::new(Mutex::new(Vec::new()));
            let (reads, reader) = channel::<()>();
            printer.print(move || _ = reader.recv());
            let bring = |number: usize| {
                let out = Arc::clone(&out);
                printer.print(move || out.lock().unwrap().push(number));
            };
            std::thread::scope(|scope| {
                let bringing = scope.spawn(|| (0..brought).for_each(bring));
                if brought == ROOM {
                    // There is room for so many.
                    bringing.join().unwrap();
                }
                assert!(out.lock().unwrap().is_empty());
                reads.send(()).unwrap();
            });
            printer.flush();
            assert_eq!(*out.lock().unwrap(), (0..brought).collect::<Vec<_>>());
        }
    }
}
