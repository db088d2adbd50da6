//! The command line of `ledger store`.

use clap::{Args, Subcommand};

use crate::output::{Code, Failure};

use super::copy::{RecordJson, RejoinArgs, rejoin};
use super::retention::{GcArgs, PruneArgs, gc, prune};
use super::{probe, status};

const EXAMPLES: &str = "\
Examples:
  ledger store probe s3://my-ledgers/night         is this store fit to hold a ledger?
  ledger store status s3://my-ledgers/night        which ledger, how many records, who wrote last
  ledger store gc s3://my-ledgers/night            which objects are not needed any longer
  ledger store rejoin s3://my-ledgers/night        what only this folder has, and not the store

Every command that reads a ledger takes its address in a store. With --cache DIR, or LEDGER_STORE_CACHE, it keeps what
it read in a folder of this machine, at most 1 GiB, and reads it there the next time.

Credentials and endpoints come from the environment, as for other tools: AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL; AZURE_STORAGE_ACCOUNT_NAME and
AZURE_STORAGE_ACCOUNT_KEY; GOOGLE_APPLICATION_CREDENTIALS. They are neither stored nor printed.

`ledger serve --store URL` keeps the log of a ledger in a store, `ledger replicate URL` copies that of
`ledger run` there, and `ledger restore URL DIR` makes a folder of one.";

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
    /// Delete slots with records in segment objects, and objects that longer ones replaced
    Gc(GcArgs),
    /// Delete the segments that the ledger pruned
    Prune(PruneArgs),
    /// Set a folder aside that diverged from its store, and restore the store in its place
    Rejoin(RejoinArgs),
}

/// `record_json` makes the JSON of a record.
pub(crate) fn store(args: &StoreArgs, record_json: RecordJson) -> Result<Code, Failure> {
    match &args.task {
        StoreTask::Probe(args) => probe::probe(args),
        StoreTask::Status(args) => status::status(args),
        StoreTask::Gc(args) => gc(args),
        StoreTask::Prune(args) => prune(args),
        StoreTask::Rejoin(args) => rejoin(args, record_json),
    }
}
