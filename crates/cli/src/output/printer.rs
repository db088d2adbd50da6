//! Printer thread: a slow reader of the output must not stall the run.
//!
//! Jobs are printed in order, each once, and all of them before the printer is dropped. Up to
//! [`QUEUE_MAX`] jobs wait for a slow reader; after that the caller waits, too, so that nothing is
//! lost.

use std::path::Path;
use std::sync::mpsc::{SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use plan_ledger::{Error, Result};

/// How many jobs may be queued.
const QUEUE_MAX: usize = 1 << 14;

/// A function that prints something.
type PrintJob = Box<dyn FnOnce() + Send>;

/// A thread that prints.
#[derive(Debug)]
pub(super) struct Printer {
    /// `None` once the printer is being dropped.
    queue: Option<SyncSender<PrintJob>>,
    thread: Option<JoinHandle<()>>,
}

impl Printer {
    /// Starts the thread. An error names `about`, the ledger that is worked on.
    pub(super) fn new(about: &Path) -> Result<Self> {
        Self::with_capacity(QUEUE_MAX, about)
    }

    fn with_capacity(capacity: usize, about: &Path) -> Result<Self> {
        let (queue, jobs) = sync_channel::<PrintJob>(capacity);
        let print_all = move || jobs.into_iter().for_each(|job| job());
        let thread = Builder::new()
            .name("print".to_owned())
            .spawn(print_all)
            .map_err(|error| Error::io("start the printer thread", about, error))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues a job after all others.
    pub(super) fn print(&self, job: impl FnOnce() + Send + 'static) {
        let Some(queue) = &self.queue else { return };
        if let Err(unsent) = queue.send(Box::new(job)) {
            // The thread has ended: print here.
            (unsent.0)();
        }
    }

    /// Waits until everything queued so far is printed.
    pub(super) fn flush(&self) {
        let (sender, printed) = channel();
        self.print(move || _ = sender.send(()));
        let _ = printed.recv();
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        drop(self.queue.take());
        // The thread ends when the queue is empty. Jobs do not panic.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: nothing is lost or reordered, up to the capacity and beyond it.

    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn queued_jobs_are_printed_in_order_after_a_slow_reader() {
        const CAPACITY: usize = 3;
        for jobs in [CAPACITY, CAPACITY + 1, 10 * CAPACITY] {
            let printer = Printer::with_capacity(CAPACITY, Path::new("here")).unwrap();
            let out = Arc::new(Mutex::new(Vec::new()));
            let (unblock, blocked) = channel::<()>();
            printer.print(move || _ = blocked.recv());
            let queue = |number: usize| {
                let out = Arc::clone(&out);
                printer.print(move || out.lock().unwrap().push(number));
            };
            std::thread::scope(|scope| {
                let queueing = scope.spawn(|| (0..jobs).for_each(queue));
                if jobs == CAPACITY {
                    // All of them fit, so the caller does not wait.
                    queueing.join().unwrap();
                }
                assert!(out.lock().unwrap().is_empty());
                unblock.send(()).unwrap();
            });
            printer.flush();
            assert_eq!(*out.lock().unwrap(), (0..jobs).collect::<Vec<_>>());
        }
    }
}
