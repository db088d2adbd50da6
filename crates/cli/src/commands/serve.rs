//! `ledger serve`: takes the writer lock and executes the requests of other processes.

use std::time::Duration;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::options::{LedgerOption, environment, open_ledger};
use crate::output::{Code, Failure, print_message, print_result};
use crate::runner::StopRequest;
use crate::server::{check_root, expect_outside, keep_root, while_serving};
use crate::signals::StopSignals;

const EXAMPLES: &str = "\
Examples:
  ledger serve &                                   keep the ledger open, so that claims are fast
  ledger claim --worker me                         is carried out by the server

The server records expired leases, delays and deadlines. It ends on Ctrl-C or SIGTERM, and after a
failed write; then each command opens the ledger itself.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    place: LedgerOption,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// The server is ready.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ServingLine {
    /// The last record of the ledger.
    seq: u64,
}

/// How often the server checks for due timers and for signals.
const TICK_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) fn serve(args: &ServeArgs) -> Result<Code, Failure> {
    let signals = StopSignals::register(&args.place.dir)?;
    expect_outside(std::process::id(), &args.place.dir)?;
    let ledger = open_ledger(&args.place.dir, &environment())?;
    check_root(&args.place.dir, &ledger)?;
    let seq = ledger.head().seq;
    let served = while_serving(&ledger, &args.place.dir, print_message, || {
        let line = ServingLine { seq };
        print_result(args.json, &line, &format!("serving {}", args.place.dir.display()))?;
        while signals.request() == StopRequest::None {
            ledger.tick()?;
            // After a failed write, stop and release the lock, so that another process can open the
            // ledger.
            ledger.flush()?;
            std::thread::sleep(TICK_INTERVAL);
        }
        Ok(Code::Success)
    });
    keep_root(&args.place.dir, &ledger);
    match ledger.close() {
        Err(error) if served.is_ok() => Err(error.into()),
        _ => served,
    }
}
