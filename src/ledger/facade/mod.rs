//! The interface of the library: opening a ledger, its operations, and the tasks of workers.

mod attempts;
mod claim;
mod cost_correction;
mod ledger;
mod options;
mod reads;
mod runs;

pub use claim::{Claim, ClaimedTask};
pub use ledger::Ledger;
pub use options::LedgerOptions;
pub use runs::{OpenQuestion, Reply};
