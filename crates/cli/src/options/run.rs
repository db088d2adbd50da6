//! The run that a command is about, as an option.

use clap::Args;

/// A run by its name.
#[derive(Debug, Args)]
pub(crate) struct RunOption {
    /// The run's name; optional if only one run is active
    #[arg(long, value_name = "RUN", env = "LEDGER_RUN", hide_env_values = true)]
    pub(crate) run: Option<String>,
}
