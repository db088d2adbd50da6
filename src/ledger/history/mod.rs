//! The history of runs and steps: their records, read from the log, and summaries of them.
//!
//! All functions read through a `LogReader` and change nothing. The modules:
//! - `run_history`: the records of one run, with its progress over time.
//! - `lineage`: the same for a fork, including the records of its ancestors.
//! - `trace`: the records of a run, each with the fields that it changed.
//! - `changes`: the fields that differ between two records of the log.
//! - `compare`: the differences between two runs.
//! - `run_diff`: the differences between two states of a run, for `trace` and `changes`.
//! - `finished`: the finished work before a step, for the task of its worker; `finished_cache`
//!   remembers the results of the last steps.
//! - `timeline`, `cost`, `attempts`, `metrics`: summaries of a run's records.

pub(crate) mod attempts;
pub(crate) mod changes;
pub(crate) mod compare;
pub(crate) mod cost;
pub(crate) mod finished;
pub(crate) mod finished_cache;
pub(crate) mod lineage;
pub(crate) mod metrics;
pub(crate) mod run;
pub(crate) mod run_diff;
pub(crate) mod run_history;
pub(crate) mod step_events;
pub(crate) mod timeline;
pub(crate) mod trace;
