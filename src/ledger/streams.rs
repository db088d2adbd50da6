//! Which stream of the log a record belongs to: that of the run that it is about.
//!
//! Invariant: the rule never changes its meaning; another one gets another number. It stands in
//! the footer of every sealed segment. Left out on purpose: a stream for what is about no run.

use crate::log::{LoggedRecord, StreamOf};

use super::codec;

/// Rule 1: the stream's number is the run's.
pub const RUNS: StreamOf = StreamOf { rule: 1, of: run_of };

fn run_of(record: &LoggedRecord) -> Option<u64> {
    // What cannot be understood belongs to no run; whoever folds it says why.
    let event = codec::decode(record).ok()??;
    event.run().map(|run| u64::from(run.0))
}
