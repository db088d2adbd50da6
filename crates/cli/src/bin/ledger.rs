//! The program `ledger`.

use std::process::ExitCode;

fn main() -> ExitCode {
    plan_ledger_cli::main()
}
