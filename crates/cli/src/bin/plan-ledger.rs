//! The program `ledger` under its second name, `plan-ledger`.

use std::process::ExitCode;

fn main() -> ExitCode {
    plan_ledger_cli::main()
}
