//! What happened: the records of a run or a step, read from the log, and what they add up to.
//!
//! `lineage` and `run_history` collect a run's records; `timeline`, `cost`, `attempts` and `metrics`
//! summarize them; `trace`, `changes` and `compare` show what differs. All functions read through a
//! `LogReader` and change nothing.

pub(crate) mod attempts;
pub(crate) mod changes;
pub(crate) mod compare;
pub(crate) mod cost;
pub(crate) mod lineage;
pub(crate) mod metrics;
pub(crate) mod run;
pub(crate) mod run_diff;
pub(crate) mod run_history;
pub(crate) mod step_events;
pub(crate) mod timeline;
pub(crate) mod trace;
