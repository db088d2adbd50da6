//! `ledger inspect` and `ledger status`: print the contents of a ledger, as text or as JSON Lines.
//!
//! Each subcommand is a view in `views`. Views of the log read its files directly. Views of runs
//! start from a [`ledger_at::LedgerAt`]: the state after one record, the newest by default. The views
//! themselves are values of `plan_ledger_views`.
//!
//! Invariants:
//! - Inspecting takes no lock and writes nothing. It works on a ledger that another process has
//!   open, and on one that is damaged or truncated.
//! - Damage does not stop a view: it prints everything that can be read, reports the rest, and
//!   ends with the exit code for damage.
//! - Text from plans, workers and files is escaped before it is printed.
//! - `format/inspect-json.md` describes the JSON lines; each line carries the schema's version.

mod answers;
mod byte_map;
mod command;
mod context;
#[cfg(test)]
mod event_tests;
pub(crate) mod health;
pub(crate) mod ledger_at;
pub(crate) mod lookup;
pub(crate) mod output;
mod record_filter;
pub(crate) mod views;

pub(crate) use command::{InspectArgs, budget, inspect, logs, next, questions, status};
pub(crate) use command::{arguments, inspect_words};
pub(super) use health::newest_state;
pub(super) use health::read_state::read_state;
pub(crate) use views::budget::BudgetViewArgs;
pub(crate) use views::logs::LogsArgs;
pub(crate) use views::next::{NextArgs, QuestionsArgs};
#[cfg(feature = "mcp")]
pub(crate) use views::next::{OpenDecision, open_decisions};
#[cfg(feature = "store")]
pub(crate) use views::record::record_json;
pub(crate) use views::view::StatusArgs;
