//! The command line of `ledger store`.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::options::parse_seconds;
use crate::output::{Code, Failure};

use super::open::OpenStore;
use super::url::StoreUrl;
use super::{probe, status};

const EXAMPLES: &str = "\
Examples:
  ledger store probe s3://my-ledgers/night         is this store fit to hold a ledger?
  ledger store status s3://my-ledgers/night        which ledger, how many records, who wrote last

Credentials and endpoints come from the environment, as for other tools: AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL; AZURE_STORAGE_ACCOUNT_NAME and
AZURE_STORAGE_ACCOUNT_KEY; GOOGLE_APPLICATION_CREDENTIALS. They are neither stored nor printed.

This part of the program is not complete: no command writes a ledger to a store yet.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    task: StoreTask,
}

#[derive(Debug, Subcommand)]
enum StoreTask {
    /// Check that a store keeps its promises: one creator for each name, and reads that see it
    Probe(probe::ProbeArgs),
    /// Show the ledger in a store: its slots, its last writer, its end and its size
    Status(status::StoreStatusArgs),
}

/// Where a store is, and how to speak to it.
#[derive(Debug, Args)]
pub(super) struct StoreOption {
    /// The store: s3://BUCKET/PREFIX, az://CONTAINER/PREFIX, gs://BUCKET/PREFIX or file:///FOLDER
    #[arg(value_name = "URL")]
    url: String,
    /// How long to wait for one answer of the store
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_seconds)]
    timeout: u64,
    /// Send requests without encryption also to other machines
    #[arg(long)]
    allow_http: bool,
}

impl StoreOption {
    /// Its address. An error does not repeat an address that may have a secret in it.
    pub(super) fn url(&self) -> Result<StoreUrl, Failure> {
        self.url.parse().map_err(|why| {
            let place = if self.url.contains('@') { "this" } else { self.url.as_str() };
            Failure::Usage(format!("{place} is not the address of a store\nhint: {why}"))
        })
    }

    /// The store, after it has answered once.
    pub(super) fn open(&self) -> Result<OpenStore, Failure> {
        let store =
            super::open::open(&self.url()?, Duration::from_secs(self.timeout), self.allow_http)?;
        store.check()?;
        Ok(store)
    }
}

pub(crate) fn store(args: &StoreArgs) -> Result<Code, Failure> {
    match &args.task {
        StoreTask::Probe(args) => probe::probe(args),
        StoreTask::Status(args) => status::status(args),
    }
}
