//! A run with all of its records and, for a fork, the records of its ancestors.
//!
//! Invariant: of a sealed segment, only the records that its footer lists for the run are read.

use crate::error::{Error, ErrorKind, Result};
use crate::ledger::codec::streams::RUN_STREAMS;
use crate::ledger::projection::{RecordedEvent, decode_record};
use crate::ledger::snapshot::store;
use crate::log::LogReader;
use crate::plan::{Event, Run, RunId, State};

use super::run::run_of;

/// A run and its records.
#[derive(Debug, Clone)]
pub(crate) struct Lineage {
    pub(crate) run: Run,
    /// Its records, in order; for a fork, those of its ancestors first.
    pub(crate) records: Vec<RecordedEvent>,
}

impl Lineage {
    /// The full run and all of its records.
    ///
    /// # Errors
    /// `Rejected` if there is no such run; `Pruned` if its first records were pruned;
    /// `Corrupt` and `Io`.
    pub(crate) fn of(reader: &LogReader, id: RunId) -> Result<Self> {
        let run = run_of(reader, id)?;
        let mut records = records(reader, id, u64::MAX)?;
        let (mut child, mut forked) = (id, run.fork.clone());
        // A parent has a lower number than its fork, so the loop ends.
        while let Some(fork) = forked.filter(|fork| fork.parent < child) {
            let mut ancestor = self::records(reader, fork.parent, fork.at_seq)?;
            child = fork.parent;
            forked = ancestor.iter().find_map(|record| match &record.event {
                Some(Event::RunForked(fork)) => Some(fork.clone()),
                _ => None,
            });
            ancestor.append(&mut records);
            records = ancestor;
        }
        Ok(Self { run, records })
    }
}

/// The first record of a fold that covers the whole run, and the state before it.
///
/// # Errors
/// `Pruned` if some of the run's records were pruned.
pub(crate) fn complete_from(reader: &LogReader, id: RunId) -> Result<(u64, State)> {
    let (first, before) = foldable_from(reader)?;
    if before.runs.contains_key(&id) || before.summaries.contains_key(&id) {
        return Err(pruned_run(reader, id, first));
    }
    Ok((first, before))
}

/// The error for a run that began before record `first`, the first one that can be used.
pub(crate) fn pruned_run(reader: &LogReader, id: RunId, first: u64) -> Error {
    let message = format!(
        "run {id} began before record {first}, and its earlier records were pruned; look for them in \
         an archive"
    );
    Error::new(ErrorKind::Pruned, message).at_path(reader.dir()).at_seq(first)
}

/// The first record of a fold of the log, and the state before it.
pub(crate) fn foldable_from(reader: &LogReader) -> Result<(u64, State)> {
    let first = reader.first_seq();
    if first <= 1 {
        return Ok((1, State::default()));
    }
    // The oldest state is the one of the older anchor.
    let anchors = reader.retention().map(|retention| &retention.note.anchors);
    let anchor = anchors.and_then(|anchors| anchors.first()).map(|anchor| anchor.seq);
    let last = anchor.unwrap_or_else(|| first.saturating_sub(1));
    let before = store::project_at::<State>(reader, last)?.value;
    Ok((last.saturating_add(1), before))
}

/// The records of a run, up to record `last`.
fn records(reader: &LogReader, id: RunId, last: u64) -> Result<Vec<RecordedEvent>> {
    let mut found = Vec::new();
    let (first, _) = complete_from(reader, id)?;
    for record in reader.records_of_stream(u64::from(id.0), RUN_STREAMS, first) {
        let record = record?;
        if record.seq > last {
            break;
        }
        found.push(decode_record(&record)?);
    }
    Ok(found)
}
