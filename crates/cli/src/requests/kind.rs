//! The interface of a request, and of its answer.

use serde::Serialize;
use serde::de::DeserializeOwned;

use plan_ledger::Ledger;

use crate::protocol::Failure;

use super::context::RequestContext;
use super::pending_answer::PendingAnswer;
use super::rules::Rules;

/// A type of request. Its fields are the members of the request.
pub(crate) trait RequestKind: Serialize + DeserializeOwned {
    /// The roles that may make the request, and how it may be repeated.
    const RULES: Rules;

    /// The line of its answer; or the whole answer, if it has several lines.
    type Answer: RequestAnswer;

    /// The types of the lines of its answer.
    const LINES: &'static [&'static str] = <Self::Answer as RequestAnswer>::TYPES;

    /// Checks everything that needs no ledger. It is called before the ledger is opened or asked, so
    /// that no other request waits for it.
    fn prepare(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Whether its execution takes long on this ledger, although a request of its kind is quick.
    fn takes_long(&self, _: &Ledger) -> Result<bool, Failure> {
        Ok(false)
    }

    /// Executes it without waiting for the disk. No outcome, not even a rejection, may be revealed
    /// before the commits of the context are durable.
    fn run(&self, context: RequestContext<'_, '_>) -> Result<Self::Answer, Failure>;
}

/// The answer to a request: one line or several.
pub(crate) trait RequestAnswer {
    /// The types of the lines.
    const TYPES: &'static [&'static str];

    /// The lines, as far as they are known before the commit is durable.
    fn pending(self) -> PendingAnswer;
}

/// An answer of several lines: its request names their types.
impl RequestAnswer for PendingAnswer {
    const TYPES: &'static [&'static str] = &[];

    fn pending(self) -> PendingAnswer {
        self
    }
}
