//! The `ledger` binary.
fn main() -> std::process::ExitCode {
    plan_ledger::cli::main()
}
