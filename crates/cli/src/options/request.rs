//! A command that is a request: its options are the members of the request, and those of the ledger.

use clap::Args;

use crate::output::{Code, Failure};
use crate::requests::Request;

use super::ledger::LedgerArgs;
use super::worker::WorkerLedgerArgs;

// Without a doc comment, the command has that of the request.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs<R: Args> {
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    pub(crate) request: R,
}

impl<R: Args + Clone + Into<Request>> RequestArgs<R> {
    /// Makes the request and prints the response.
    pub(crate) fn execute(&self) -> Result<Code, Failure> {
        let request = self.request.clone().into();
        if request.rules().from_attempt {
            self.ledger.execute_for_worker(request)
        } else {
            self.ledger.execute(request)
        }
    }
}

// As `RequestArgs`, for a worker, whose ledger may be on another machine.
#[derive(Debug, Args)]
pub(crate) struct WorkerRequestArgs<R: Args> {
    #[command(flatten)]
    ledger: WorkerLedgerArgs,
    #[command(flatten)]
    request: R,
}

impl<R: Args + Clone + Into<Request>> WorkerRequestArgs<R> {
    /// Makes the request and prints the response.
    pub(crate) fn execute(&self) -> Result<Code, Failure> {
        self.ledger.execute_for_worker(self.request.clone())
    }
}
