//! `ledger init`: creates an empty ledger.

use std::path::{Path, PathBuf};

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::{Environment, Error, ErrorKind, Ledger, LedgerView};

use crate::options::{AsJson, create_parents, environment};
use crate::output::{Code, Failure, print_message, print_result};
use crate::protocol::OWN_LEDGER;
use crate::server::{expect_not_gone, open_in_turn};

const EXAMPLES: &str = "\
Examples:
  ledger init                                      in .ledger, or in $LEDGER_DIR
  ledger init --ledger work.ledger
  ledger init --shared                             for you and the group of the folder

Missing folders above it are created, and an empty folder becomes a ledger. An existing ledger is not
changed.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InitArgs {
    /// The ledger's folder
    #[arg(long, value_name = "DIR", default_value = OWN_LEDGER, env = "LEDGER_DIR")]
    #[arg(hide_env_values = true)]
    ledger: PathBuf,
    /// Give the group of the folder access, too; otherwise only you have it
    #[arg(long)]
    shared: bool,
    #[command(flatten)]
    json: AsJson,
}

/// A ledger that exists now.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct InitializedLine {
    /// Whether the ledger was created; otherwise it existed.
    created: bool,
    /// Its folder.
    ledger: String,
}

pub(crate) fn init(args: &InitArgs) -> Result<Code, Failure> {
    let dir = &args.ledger;
    let is_new = ensure_ledger(dir, args.shared)?;
    let shown = dir.display().to_string();
    let text = if is_new {
        format!("{shown}: created an empty ledger")
    } else {
        format!("{shown}: already a ledger")
    };
    let line = InitializedLine { created: is_new, ledger: shown };
    print_result(args.json.0, &line, &text)?;
    Ok(Code::Success)
}

/// Creates a ledger if there is none, and waits while another process creates it. Returns whether
/// this call created it.
pub(super) fn ensure_ledger(dir: &Path, for_group: bool) -> Result<bool, Failure> {
    if let Some(text) = expect_not_gone(dir)? {
        print_message(&text);
    }
    create_parents(dir)?;
    Ok(open_in_turn(dir, || create_if_absent(dir, for_group))?)
}

fn create_if_absent(dir: &Path, for_group: bool) -> Result<bool, Error> {
    if exists(dir)? {
        return Ok(false);
    }
    match Ledger::create(dir, &Environment { for_group, ..environment() }) {
        Ok(ledger) => ledger.close().map(|()| true),
        // Another process created it first.
        Err(_) if exists(dir)? => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the ledger exists. Takes no lock.
fn exists(dir: &Path) -> Result<bool, Error> {
    match LedgerView::open(dir, &Environment::system()) {
        Ok(_) => Ok(true),
        // The creation reports a folder that cannot become a ledger.
        Err(error) if error.kind() == ErrorKind::NotALedger => Ok(false),
        Err(error) => Err(error),
    }
}
