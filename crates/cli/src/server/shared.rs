//! The data that the event loop and the commit thread share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::{Builder, Scope};

use plan_ledger::{Error, ErrorKind, Ledger, Submitted};

use crate::protocol::{AckedBy, Answer, Failure};
use crate::requests::PendingAnswer;

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
}

/// A request that was executed and may not be durable yet.
pub(super) struct SubmittedRequest<'l> {
    pub(super) writer: Arc<ResponseWriter>,
    pub(super) answer: Submitted<'l, PendingAnswer, Failure>,
}

impl ServerShared<'_> {
    /// An answer that says where everything is that is recorded by now, if the log is in a store.
    pub(super) fn acked(&self, answer: Answer) -> Answer {
        let by = |kept_seq| {
            if kept_seq >= self.ledger.head().seq { AckedBy::Store } else { AckedBy::Local }
        };
        Answer { acked_by: self.ledger.kept_seq().map(by), ..answer }
    }

    /// Computes and sends a response on a new thread.
    pub(super) fn answer_in_thread<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        writer: Arc<ResponseWriter>,
        compute: impl FnOnce() -> Result<Answer, Failure> + Send + 'scope,
    ) {
        let unanswered = Arc::clone(&writer);
        let answer = move || {
            writer.respond(&self.acked(catch_panic(compute).unwrap_or_else(Answer::from)));
            self.waker.wake();
        };
        if Builder::new().name("request".to_owned()).spawn_scoped(scope, answer).is_err() {
            // The client repeats its request under the same key and gets the same response.
            unanswered.close();
        }
    }
}

/// Turns a panic into an error response, so that other requests are not affected.
pub(super) fn catch_panic<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let message = "the request panicked; its outcome is unknown";
    let unknown = |_| Err(Error::new(ErrorKind::OutcomeUnknown, message).into());
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(unknown)
}
