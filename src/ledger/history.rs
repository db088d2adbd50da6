//! A run with all of its records: what comparing, tracing and counting begin with.
//!
//! Invariant: what is read of a sealed segment is what its footer says is about the run.

use crate::error::{Error, ErrorKind, Result};
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
    /// `Rejected` if there is no such run; `Pruned` if it began before what is left of the log;
    /// `Corrupt` and `Io`.
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

/// The record from which on the log has all that happened to a run, and the state before it.
///
/// # Errors
/// `Pruned` if a part of the run is not in the log any more: half of a history is none.
pub(super) fn beginning(reader: &LogReader, id: RunId) -> Result<(u64, State)> {
    let (first, before) = ground(reader)?;
    if before.runs.contains_key(&id) || before.summaries.contains_key(&id) {
        let message = format!(
            "run {id} began before record {first}, and not all that was before that is there: it \
             was pruned, and an archive may have it"
        );
        return Err(Error::new(ErrorKind::Pruned, message).at_path(reader.dir()).at_seq(first));
    }
    Ok((first, before))
}

/// The record from which on the log can be folded, and the state before it.
pub(super) fn ground(reader: &LogReader) -> Result<(u64, State)> {
    let first = reader.first_seq();
    if first <= 1 {
        return Ok((1, State::default()));
    }
    // There is no state before the older anchor.
    let anchors = reader.retention().map(|retention| &retention.note.anchors);
    let anchor = anchors.and_then(|anchors| anchors.first()).map(|anchor| anchor.seq);
    let last = anchor.unwrap_or_else(|| first.saturating_sub(1));
    let before = snapshots::project_at::<State>(reader, last)?.value;
    Ok((last.saturating_add(1), before))
}

/// The records about a run, up to that one.
fn records(reader: &LogReader, id: RunId, last: u64) -> Result<Vec<Recorded>> {
    let mut found = Vec::new();
    let (first, _) = beginning(reader, id)?;
    for record in reader.records_of_stream(u64::from(id.0), RUNS, first) {
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
