//! The views of `ledger inspect`, one file for each.
//!
//! Views of runs print what the library's pure functions return for one state (`explain`, the
//! views, the history): they decide nothing themselves, and they print the record of that state.
//! They read a snapshot, the links between a step's records and the postings of a run, never the
//! whole log, so they do not prove that every byte is intact; `ledger verify` does.

pub(crate) mod barriers;
pub(crate) mod budget;
pub(crate) mod compare;
pub(crate) mod cost;
pub(crate) mod diff;
pub(crate) mod execution_state;
pub(crate) mod explain;
pub(crate) mod graph;
pub(crate) mod head;
pub(crate) mod history;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod next;
pub(crate) mod plan;
pub(crate) mod progress;
pub(crate) mod queue;
pub(crate) mod record;
pub(crate) mod records;
pub(crate) mod regions;
pub(crate) mod run_state;
pub(crate) mod runs;
pub(crate) mod segments;
pub(crate) mod since;
pub(crate) mod snapshots;
pub(crate) mod status;
pub(crate) mod step;
pub(crate) mod summary;
pub(crate) mod timeline;
pub(crate) mod variables;
pub(crate) mod view;
pub(crate) mod why;
