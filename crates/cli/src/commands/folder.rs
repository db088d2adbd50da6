//! Which ledger a command is about that may be told so by its first word.
//!
//! Invariant: every command that knows no other way takes the same folder if it is told nothing:
//! the one of `LEDGER_DIR`, or else `.ledger`.

use std::path::PathBuf;

use clap::Args;

use super::exit::Failure;

const HELP: &str = "The ledger's folder; where it is only read, also an archive's file \
                    [env: LEDGER_DIR] [default: .ledger]";

/// A ledger, by the first word or by the option that the commands have that act.
#[derive(Debug, Args)]
pub(super) struct Folder {
    #[arg(value_name = "DIR", help = HELP)]
    dir: Option<PathBuf>,
    /// The same, as the commands that act have it
    #[arg(long, value_name = "DIR", global = true)]
    ledger: Option<PathBuf>,
}

impl Folder {
    /// The folder that is meant.
    ///
    /// # Errors
    /// `Usage` if it is named twice.
    pub(super) fn dir(&self) -> Result<PathBuf, Failure> {
        match (&self.dir, &self.ledger) {
            (Some(dir), Some(ledger)) => {
                let (dir, ledger) = (dir.display(), ledger.display());
                let message = format!("which ledger, {dir} or {ledger}? give DIR, or --ledger DIR");
                Err(Failure::Usage(message))
            }
            (Some(dir), None) | (None, Some(dir)) => Ok(dir.clone()),
            (None, None) => {
                let told = std::env::var_os("LEDGER_DIR").unwrap_or_else(|| ".ledger".into());
                if told.is_empty() {
                    let message = "LEDGER_DIR is set, and names no folder";
                    return Err(Failure::Usage(message.to_owned()));
                }
                Ok(told.into())
            }
        }
    }
}
