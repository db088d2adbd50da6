//! A run with all of its records: what comparing, tracing and counting begin with.
//!
//! Invariant: what is read of a sealed segment is what its footer says is about the run.

use crate::error::Result;
use crate::format::content_hash;
use crate::log::LogReader;
use crate::plan::{ContentHash, Event, Output, Run, RunId, State};

use super::replay::{Recorded, recorded};
use super::runs::whole;
use super::snapshots;
use super::streams::RUNS;

/// A run and its records.
#[derive(Debug, Clone)]
pub(super) struct History {
    pub(super) run: Run,
    /// Records about it, in order; of a fork, first those of the run that it was.
    pub(super) records: Vec<Recorded>,
}

impl History {
    /// The run, as it is or was before it ended long ago, and all of its records.
    ///
    /// # Errors
    /// `Rejected` if there is no such run; `Corrupt` and `Io`.
    pub(super) fn of(reader: &LogReader, id: RunId) -> Result<Self> {
        let run = run_of(reader, id)?;
        let mut records = records(reader, id, u64::MAX)?;
        let (mut child, mut forked) = (id, run.forked.clone());
        // A fork is younger than the run that it was, so that the line has an end.
        while let Some(fork) = forked.filter(|fork| fork.parent < child) {
            let mut line = self::records(reader, fork.parent, fork.at_seq)?;
            child = fork.parent;
            forked = line.iter().find_map(|record| match &record.event {
                Some(Event::RunForked(fork)) => Some(fork.clone()),
                _ => None,
            });
            line.append(&mut records);
            records = line;
        }
        Ok(Self { run, records })
    }
}

/// A run, whole, after the last durable record.
pub(super) fn run_of(reader: &LogReader, id: RunId) -> Result<Run> {
    let state = snapshots::project::<State>(reader, u64::MAX)?.value;
    whole(&state, id, |seq| Ok(snapshots::project_at::<State>(reader, seq)?.value))
}

/// The records about a run, up to that one.
fn records(reader: &LogReader, id: RunId, last: u64) -> Result<Vec<Recorded>> {
    let mut found = Vec::new();
    for record in reader.records_of_stream(u64::from(id.0), RUNS, 1) {
        let record = record?;
        if record.seq > last {
            break;
        }
        found.push(recorded(&record)?);
    }
    Ok(found)
}

/// What two equal outputs have in common.
pub(super) fn output_hash(output: &Output) -> ContentHash {
    match output {
        Output::Inline(value) => ContentHash(content_hash(value.as_str().as_bytes())),
        Output::Blob(blob) => blob.hash,
    }
}
