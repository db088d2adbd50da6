//! The ledger of a worker: a folder, or servers on other machines that hold it; and the form of the output.

use std::path::Path;

use clap::Args;

use crate::options::ledger::LedgerArgs;
use crate::output::{Code, Failure};
use crate::protocol::Answer;
use crate::requests::{BoundTo, Request};
use crate::server::Client;

#[cfg(feature = "store")]
use super::servers::ServerOptions;

/// The ledger of a worker, and the form of the output.
#[derive(Debug, Args)]
pub(crate) struct WorkerLedgerArgs {
    #[command(flatten)]
    folder: LedgerArgs,
    #[cfg(feature = "store")]
    #[command(flatten)]
    servers: ServerOptions,
}

impl WorkerLedgerArgs {
    /// The folder of a ledger on this machine. With servers, it has none.
    pub(crate) fn dir(&self) -> &Path {
        self.folder.dir()
    }

    /// Whether servers on other machines are asked. Then nothing is read from a folder.
    #[cfg(feature = "store")]
    pub(crate) fn is_remote(&self) -> bool {
        self.servers.addresses().is_some()
    }

    /// Whether servers on other machines are asked. Then nothing is read from a folder.
    #[cfg(not(feature = "store"))]
    #[expect(clippy::unused_self, reason = "another build looks at its options")]
    pub(crate) fn is_remote(&self) -> bool {
        false
    }

    /// The servers, as `--server` takes them, for the processes of a worker.
    #[cfg(feature = "store")]
    pub(crate) fn servers(&self) -> Option<String> {
        self.servers.addresses()
    }

    /// The servers, as `--server` takes them, for the processes of a worker.
    #[cfg(not(feature = "store"))]
    #[expect(clippy::unused_self, reason = "another build looks at its options")]
    pub(crate) fn servers(&self) -> Option<String> {
        None
    }

    /// Whether to print JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.folder.json.0
    }

    /// A client for several requests.
    #[cfg(feature = "store")]
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let client = self.folder.client();
        Ok(match self.servers.open()? {
            Some(servers) => client.with_servers(servers),
            None => client,
        })
    }

    /// A client for several requests.
    #[cfg(not(feature = "store"))]
    #[expect(clippy::unnecessary_wraps, reason = "another build may ask servers")]
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Ok(self.folder.client())
    }

    /// Sends a request and prints the response.
    pub(crate) fn execute(&self, request: impl Into<Request>) -> Result<Code, Failure> {
        self.print(&self.client()?.call(&request.into())?)
    }

    /// Sends a request that a worker makes and prints the response, as [`LedgerArgs`] does.
    pub(crate) fn execute_for_worker(&self, request: impl Into<Request>) -> Result<Code, Failure> {
        let answer = self.client()?.call(&request.into())?;
        self.folder.print_for_worker(&answer)
    }

    /// Prints a response.
    pub(crate) fn print(&self, answer: &Answer) -> Result<Code, Failure> {
        self.folder.print(answer)
    }

    /// Rejects the option for a process of this machine if other machines are asked: they cannot see it.
    pub(crate) fn expect_folder_for_pid(&self, bound_to: &BoundTo) -> Result<(), Failure> {
        if matches!(bound_to, BoundTo::Process(_)) && self.is_remote() {
            let message = "--pid names a process of this machine, which the servers of --server cannot see\nhint: leave \
                           it out; the step is free again when its lease expires";
            return Err(Failure::Usage(message.to_owned()));
        }
        Ok(())
    }
}
