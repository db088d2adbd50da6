//! How the text criteria of a run are judged.

use clap::ValueEnum;

/// The judge of text criteria.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextPolicyChoice {
    /// The worker: its success counts as a pass, and is counted as trusted
    Trust,
    /// A person, with `ledger accept` and `ledger reject`, or the command of --judge
    Judge,
}
