//! The data that the event loop and the commit thread share.

use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope};

use plan_ledger::{Error, ErrorKind, Ledger, Submitted};

use crate::protocol::{AckedBy, Answer, Code, Failure, Peer};
use crate::requests::{GoneLooks, Origin, PendingAnswer};

use super::connection::ResponseWriter;
use super::socket::ListeningSocket;
use super::waker::Waker;

/// The limit of connected clients, if the process may open four times as many files. Further
/// clients get the response to try again.
pub const CONNECTIONS_MAX: usize = 2_048;

pub(super) struct ServerShared<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) dir: &'a Path,
    pub(super) socket: ListeningSocket,
    pub(super) waker: Waker,
    /// The schedule of looks for attempts of dead processes.
    pub(super) looks: GoneLooks,
}

/// A request that was executed and may not be durable yet.
pub(super) struct SubmittedRequest<'l> {
    pub(super) writer: Arc<ResponseWriter>,
    pub(super) answer: Submitted<'l, PendingAnswer, Failure>,
}

impl ServerShared<'_> {
    /// A request of a process at the socket.
    pub(super) fn origin<'o>(&'o self, peer: &'o Peer) -> Origin<'o> {
        Origin { peer, looks: Some((self.dir, &self.looks)) }
    }

    /// An answer that states whether the store has all records so far, if the log is in a store.
    pub(super) fn acked(&self, answer: Answer) -> Answer {
        let by = |kept_seq| {
            if kept_seq >= self.ledger.head().seq { AckedBy::Store } else { AckedBy::Local }
        };
        Answer { acked_by: self.ledger.kept_seq().map(by), ..answer }
    }

    /// Computes and sends a response on a new thread.
    ///
    /// # Errors
    /// No thread can be started. Nothing was computed or sent.
    pub(super) fn answer_in_thread<'scope, C>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        writer: Arc<ResponseWriter>,
        compute: C,
    ) -> Result<(), Unstarted<C>>
    where
        C: FnOnce() -> Result<Answer, Failure> + Send + 'scope,
    {
        // A thread that cannot be started drops its task.
        let task = Arc::new(Mutex::new(Some((writer, compute))));
        let of_thread = Arc::clone(&task);
        let take =
            |task: &Mutex<Option<_>>| task.lock().unwrap_or_else(PoisonError::into_inner).take();
        let answer = move || {
            if let Some((writer, compute)) = take(&of_thread) {
                self.answer(&writer, compute);
            }
        };
        let Err(error) = Builder::new().name("request".to_owned()).spawn_scoped(scope, answer)
        else {
            return Ok(());
        };
        match take(&task) {
            Some((writer, compute)) => Err(Unstarted { writer, compute, error }),
            None => Ok(()),
        }
    }

    /// Computes and sends a response.
    pub(super) fn answer(
        &self,
        writer: &ResponseWriter,
        compute: impl FnOnce() -> Result<Answer, Failure>,
    ) {
        writer.respond(&self.acked(catch_panic(compute).unwrap_or_else(Answer::from)));
        self.waker.wake();
    }
}

/// A response for which no thread could be started.
pub(super) struct Unstarted<C> {
    pub(super) writer: Arc<ResponseWriter>,
    pub(super) compute: C,
    error: io::Error,
}

impl<C> Unstarted<C> {
    /// The answer to the client of a request that was not executed.
    pub(super) fn failure(&self) -> Failure {
        let message = format!(
            "the server cannot start a thread for this request, which was not executed: {}",
            self.error
        );
        let hint = "end other processes of its user, or raise the limits of processes and memory (ulimit -u), \
                    and repeat the request";
        Error::new(ErrorKind::Io, message).with_hint(hint).into()
    }
}

/// Runs a thread without which the server answers nothing. If it panics, `end` gets its name and the reason.
pub(super) fn watched(name: &str, end: impl FnOnce(&str), body: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let reason = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        end(&format!(
            "the {name} thread of the server ended in an unexpected way: {reason}\nhint: nothing that was \
             acknowledged is lost; start the command again, and report this as a bug"
        ));
    }
}

/// Ends this process: without one of its threads the server would take requests and never answer. The
/// ledger is left as by a crash.
pub(super) fn end_process(message: &str) {
    // If standard error is closed, the message has no reader.
    let _ = writeln!(io::stderr().lock(), "error: {message}");
    std::process::exit(i32::from(Code::Io.number()));
}

/// Turns a panic into an error response, so that other requests are not affected.
pub(super) fn catch_panic<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let message = "the request panicked; its outcome is unknown";
    let unknown = |_| Err(Error::new(ErrorKind::OutcomeUnknown, message).into());
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(unknown)
}

#[cfg(test)]
mod tests {
    //! Goal: a thread that ends early is not overlooked.

    use super::*;

    #[test]
    fn panic_of_a_watched_thread_ends_the_server() {
        let ended = Mutex::new(Vec::new());
        let end = |message: &str| ended.lock().unwrap().push(message.to_owned());
        watched("commit", end, || {});
        assert!(ended.lock().unwrap().is_empty());
        watched("commit", end, || panic!("seven of {}", 8));
        watched("event loop", end, || panic!("a wrong turn"));
        let ended = ended.into_inner().unwrap();
        assert_eq!(ended.len(), 2, "{ended:?}");
        assert!(ended[0].starts_with("the commit thread of the server ended"), "{ended:?}");
        assert!(ended[0].contains("seven of 8") && ended[1].contains("a wrong turn"), "{ended:?}");
    }
}
