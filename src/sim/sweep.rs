//! Sweeps: tests that visit every byte, bit or call of their subject.
//!
//! A sweep has three strengths, which the environment variable `PLAN_LEDGER_SWEEPS` selects: without it a
//! sample, so that a contributor waits minutes for all tests; `ci`, what CI runs; and `all`, every single
//! case, which takes hours. The names of these tests begin with `sweep_`.

/// The value for the selected strength: of a sample, in CI, or of all cases.
///
/// # Panics
/// `PLAN_LEDGER_SWEEPS` is neither `ci` nor `all`.
pub fn sweep<T>(sample: T, ci: T, all: T) -> T {
    match std::env::var("PLAN_LEDGER_SWEEPS").as_deref() {
        Err(_) => sample,
        Ok("ci") => ci,
        Ok("all") => all,
        Ok(other) => panic!("PLAN_LEDGER_SWEEPS is `ci` or `all`, not `{other}`"),
    }
}
