//! Assigns each record to the stream of its event's run. Notes and events without a run belong to
//! no stream.
//!
//! Invariant: the rule never changes, since its number is in the footer of every sealed segment. A
//! different rule needs a new number.

use crate::log::{LoggedRecord, StreamRule};

use super::event::decode;

/// Stream rule 1: the stream's number is the run's.
pub const RUN_STREAMS: StreamRule = StreamRule { id: 1, stream_of: run_of };

fn run_of(record: &LoggedRecord<&[u8]>) -> Option<u64> {
    // A record that cannot be decoded belongs to no run; a fold reports why.
    let event = decode(record).ok()??;
    event.run().map(|run| u64::from(run.0))
}
