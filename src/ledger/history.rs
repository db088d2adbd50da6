//! A run with all of its records: what comparing, tracing and counting begin with.
//!
//! Left out on purpose: an index. Whoever asks for a whole history reads the whole log.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::format::content_hash;
use crate::log::LogReader;
use crate::plan::{ContentHash, Event, Output, Rejection, Run, RunId, State};

use super::replay::{Recorded, recorded};
use super::snapshots;

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
        let run = whole(reader, id)?;
        let mut by_run = records(reader)?;
        // Of each run of the line of forks, the records up to where the next one leaves it.
        let mut line = vec![by_run.remove(&id).unwrap_or_default()];
        let mut forked = run.forked.clone();
        while let Some(fork) = forked {
            let mut parent = by_run.remove(&fork.parent).unwrap_or_default();
            parent.retain(|record| record.seq <= fork.at_seq);
            forked = parent.iter().find_map(|record| match &record.event {
                Some(Event::RunForked(fork)) => Some(fork.clone()),
                _ => None,
            });
            line.push(parent);
        }
        Ok(Self { run, records: line.into_iter().rev().flatten().collect() })
    }
}

/// A run as it is; one that has left the state, as it was before the record that ended it.
pub(super) fn whole(reader: &LogReader, id: RunId) -> Result<Run> {
    let mut state = snapshots::project::<State>(reader, u64::MAX)?.value;
    if let Some(summary) = state.summaries.get(&id) {
        let before = summary.seq.saturating_sub(1);
        state = snapshots::project_at::<State>(reader, before)?.value;
    }
    state.runs.remove(&id).ok_or_else(|| Rejection::NoSuchRun.into())
}

fn records(reader: &LogReader) -> Result<BTreeMap<RunId, Vec<Recorded>>> {
    let mut by_run: BTreeMap<RunId, Vec<Recorded>> = BTreeMap::new();
    for record in reader.records(1) {
        let record = recorded(&record?)?;
        if let Some(run) = record.event.as_ref().and_then(Event::run) {
            by_run.entry(run).or_default().push(record);
        }
    }
    Ok(by_run)
}

/// What two equal outputs have in common.
pub(super) fn output_hash(output: &Output) -> ContentHash {
    match output {
        Output::Inline(value) => ContentHash(content_hash(value.as_str().as_bytes())),
        Output::Blob(blob) => blob.hash,
    }
}
