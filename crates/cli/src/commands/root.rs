//! `ledger root`: the last durable record and its chain value, to compare with later.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::Environment;

use crate::options::{LedgerFolder, environment_for};
use crate::output::{Code, Failure, print_line, print_raw};

const EXAMPLES: &str = "\
Examples:
  ledger root .ledger                              SEQ:CHAIN
  ledger root .ledger | ssh elsewhere 'cat >> roots'

Later, `ledger verify --expect-head SEQ:CHAIN` checks that the history up to that record is the
same.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RootArgs {
    #[command(flatten)]
    folder: LedgerFolder,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// The last durable record and its chain value.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RootLine {
    /// The chain value of the record; all zeros in an empty ledger.
    chain: String,
    /// The record; 0 in an empty ledger.
    seq: u64,
}

pub(crate) fn root(args: &RootArgs) -> Result<Code, Failure> {
    let dir = args.folder.dir()?;
    let environment = environment_for(&dir, &Environment::system())?;
    let root = plan_ledger::internals::ledger::root(&dir, &environment)?;
    if args.json {
        print_line(&RootLine { chain: root.chain.to_string(), seq: root.seq })?;
    } else {
        print_raw(&format!("{}:{}\n", root.seq, root.chain))?;
    }
    Ok(Code::Success)
}
