//! `ledger init` and `ledger serve`: a ledger that is there, and one that is held for others.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use crate::runner::StopRequest;
use crate::server::{open_in_turn, while_serving};
use plan_ledger::error::{Error, ErrorKind};
use plan_ledger::ledger::{Environment, Ledger, LedgerView};

use super::acting::{Where, environment};
use super::exit::{Code, Failure};
use super::signals::Signals;
use super::{open, outcome, say};

const INIT_EXAMPLES: &str = "\
Examples:
  ledger init                                      in .ledger, or in $LEDGER_DIR
  ledger init --ledger work.ledger

A ledger that is there already is left as it is.";

/// `ledger init`.
#[derive(Debug, Args)]
#[command(after_help = INIT_EXAMPLES)]
pub(super) struct InitArgs {
    #[command(flatten)]
    place: Where,
}

/// `ledger init`.
pub(super) fn init(args: &InitArgs) -> Result<Code, Failure> {
    let dir = &args.place.ledger;
    // Whoever makes it just now is waited for.
    let is_new = open_in_turn(dir, || is_made(dir))?;
    let shown = dir.display().to_string();
    let line = json!({ "type": "initialized", "ledger": shown, "created": is_new });
    let text = if is_new { format!("{shown}: made") } else { format!("{shown}: is there already") };
    outcome(args.place.json, &line, &text)?;
    Ok(Code::Fine)
}

/// Make a ledger where there is none; whether it was made here.
fn is_made(dir: &Path) -> Result<bool, Error> {
    if is_there(dir)? {
        return Ok(false);
    }
    match Ledger::create(dir, &environment()) {
        Ok(ledger) => ledger.close().map(|()| true),
        // Somebody else was faster: whatever stood in the way, what was asked for is there.
        Err(_) if is_there(dir)? => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether there is a ledger. Whoever holds it need not be disturbed.
fn is_there(dir: &Path) -> Result<bool, Error> {
    // Asked for first: it may get its name while it is looked at.
    let is_free = !dir.exists();
    match LedgerView::open(dir, &Environment::system()) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotALedger && is_free => Ok(false),
        Err(error) => Err(error),
    }
}

const SERVE_EXAMPLES: &str = "\
Examples:
  ledger serve &                                   hold the ledger, so that claims are fast
  ledger claim --worker me                         is handed over to it

What falls due is turned into records. It ends with Ctrl-C or SIGTERM, and after a failed write;
then each command opens the ledger for itself.";

/// `ledger serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub(super) struct ServeArgs {
    /// The ledger's folder
    #[arg(long, value_name = "DIR", default_value = ".ledger", env = "LEDGER_DIR")]
    #[arg(hide_env_values = true)]
    ledger: PathBuf,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// How often it looks for what is due, and for a signal.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// `ledger serve`.
pub(super) fn serve(args: &ServeArgs) -> Result<Code, Failure> {
    let signals = Signals::heeded(&args.ledger)?;
    let ledger = open(&args.ledger, &environment())?;
    let begun = ledger.head().seq;
    let served = while_serving(&ledger, &args.ledger, say, || {
        let line = json!({ "type": "serving", "seq": begun });
        outcome(args.json, &line, &format!("serving {}", args.ledger.display()))?;
        while signals.request() == StopRequest::None {
            ledger.tick()?;
            // Whoever holds one that cannot be written to keeps everybody from opening it again.
            ledger.flush()?;
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(Code::Fine)
    });
    match ledger.close() {
        Err(error) if served.is_ok() => Err(error.into()),
        _ => served,
    }
}
