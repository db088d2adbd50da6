//! The `ledger` binary: everything is in the library's `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    plan_ledger::cli::main()
}
