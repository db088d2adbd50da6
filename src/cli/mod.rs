//! Stand-in for the binary's command line.
mod answer;
mod exit;
mod inspect;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;

#[derive(Debug, Parser)]
#[command(name = "ledger")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, clap::Subcommand)]
enum Task {
    /// Look at a ledger
    Inspect(inspect::InspectArgs),
}

/// Run the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let Task::Inspect(args) = Cli::parse().task;
    let environment = crate::Environment::system();
    match inspect::inspect(&args, &environment, &mut std::io::stdout().lock()) {
        Ok(code) => code.into(),
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "ledger: {failure}");
            failure.code().into()
        }
    }
}
