//! A command that is a request: its options are the members of the request, and those of the ledger.

use clap::Args;

use crate::output::{Code, Failure};
use crate::requests::Request;

use super::folder::FolderArgs;
use super::ledger::LedgerArgs;
use super::worker::WorkerLedgerArgs;

// Without a doc comment, the command has that of the request.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs<R: Args, L: Args = LedgerArgs> {
    #[command(flatten)]
    pub(crate) ledger: L,
    #[command(flatten)]
    pub(crate) request: R,
}

/// The same for a worker, whose ledger may be on another machine.
pub(crate) type WorkerRequestArgs<R> = RequestArgs<R, WorkerLedgerArgs>;

/// The same with the ledger as an argument.
pub(crate) type FolderRequestArgs<R> = RequestArgs<R, FolderArgs>;

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

impl<R: Args + Clone + Into<Request>> WorkerRequestArgs<R> {
    /// Makes the request and prints the response.
    pub(crate) fn execute_as_worker(&self) -> Result<Code, Failure> {
        self.ledger.execute_for_worker(self.request.clone())
    }
}

impl<R: Args + Clone + Into<Request>> FolderRequestArgs<R> {
    /// Makes the request and prints the response.
    pub(crate) fn execute_in_folder(&self) -> Result<Code, Failure> {
        self.ledger.execute(self.request.clone())
    }
}
