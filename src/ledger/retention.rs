//! Pruning: the oldest segments go, and two snapshots that were folded again vouch for the rest
//! (`format/retention.md`).
//!
//! Invariants:
//! - Nothing is removed before the note that says so is durable, and the anchors that it names
//!   were compared with a fold of the log.
//! - No snapshot is removed while anchors are chosen.
//!
//! Left out on purpose: pruning by itself. Somebody asks for it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, SegmentHeader, SnapshotHeader, SnapshotName};
use crate::log::{
    Anchor, ArchivedIn, Item, KEY_WINDOW, KIND_BATCH_KEY, LogReader, Proof, Removal, Retention,
    RetentionNote,
};
use crate::plan::{RunId, RunStatus, State};

use super::codec;
use super::hash::state_hash;
use super::load::load_whole;
use super::replay::{LedgerView, fold_in, recorded};
use super::{Ledger, snapshots};

/// How far a prune, or an archive, goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Through {
    /// All whole segments up to this record.
    Record(u64),
    /// All segments before the first one that holds a record of a run which has not ended.
    Ended,
    /// The same, and only whole segments up to this record.
    EndedUpTo(u64),
}

impl Through {
    /// The last record that may go.
    fn last(self) -> u64 {
        match self {
            Self::Record(last) | Self::EndedUpTo(last) => last,
            Self::Ended => u64::MAX,
        }
    }

    /// Whether runs that have not ended keep their records.
    fn keeps_open_runs(self) -> bool {
        match self {
            Self::Record(_) => false,
            Self::Ended | Self::EndedUpTo(_) => true,
        }
    }
}

/// What a prune would take, and what the log would stand on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunePlan {
    /// The first record that would go: the first that there is.
    pub first_seq: u64,
    /// The last one.
    pub last_seq: u64,
    /// Ordinal of the segment that holds it.
    pub last_ordinal: u64,
    /// Its chain value.
    pub chain: Chain,
    /// The segments' files, in order.
    pub segments: Vec<PathBuf>,
    /// Their bytes.
    pub bytes: u64,
    /// The snapshots that would be the anchors: each was compared with a fold of the log.
    pub anchors: Vec<Anchor>,
    /// Snapshots of records before the last one: nothing could be folded on from them.
    pub snapshots: Vec<PathBuf>,
    /// Runs that have not ended, and would lose a part of their history.
    pub open_runs: Vec<String>,
}

/// What a prune took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// What was planned, and noted.
    pub plan: PrunePlan,
    /// The record of the note.
    pub note_seq: u64,
    /// What was removed.
    pub removal: Removal,
}

/// The oldest segments of a log, up to one.
#[derive(Debug)]
pub(super) struct Prefix {
    /// The headers, each with its file and length.
    pub(super) segments: Vec<(PathBuf, SegmentHeader, u64)>,
    /// The header behind the last one.
    pub(super) next: SegmentHeader,
    /// The runs with a record in it that have not ended.
    pub(super) open_runs: Vec<String>,
}

impl Ledger {
    /// Prune: note it durably, then remove the oldest segments. `archive` is the archive that took
    /// them, if one did.
    ///
    /// # Errors
    /// `Rejected`, saying what is missing: nothing was changed. `Corrupt` where the log, or a
    /// snapshot that it would stand on, does not hold. After the note is durable, `Io`: asking
    /// again, or opening the ledger again, goes on.
    pub fn prune(&self, through: Through, archive: Option<ArchivedIn>, by: &str) -> Result<Pruned> {
        self.log.expect_own_process()?;
        let keeping = self.ladder().keeping();
        let _kept = keeping.keep();
        let reader = self.log.reader()?;
        if let Some(begun) = reader.retention() {
            // If that one cannot go on, the note of this one takes its place.
            let _ = self.log.remove_pruned(begun);
        }
        let reader = self.log.reader()?;
        let plan = plan(&reader, through)?;
        let folder = reader.dir().join("snap");
        self.environment
            .storage
            .sync_dir(&folder)
            .map_err(|error| Error::io("sync the folder", &folder, error))?;
        let note = RetentionNote {
            first_seq: plan.first_seq,
            last_seq: plan.last_seq,
            last_ordinal: plan.last_ordinal,
            chain: plan.chain.to_string(),
            anchors: plan.anchors.clone(),
            archive,
            by: by.to_owned(),
        };
        debug_assert!(note.is_sound(self.head().seq.saturating_add(1)), "{note:?}");
        bug!(PruneBeforeNote => self.log.remove_pruned(&Retention { seq: 0, note: note.clone() })?);
        let note_seq = self.note(note.record(), None)?.seq;
        let removal = self.log.remove_pruned(&Retention { seq: note_seq, note })?;
        Ok(Pruned { plan, note_seq, removal })
    }
}

impl LedgerView {
    /// What a prune would take now. Nothing is written and no lock is taken.
    ///
    /// # Errors
    /// Why it would be refused, as [`Ledger::prune`] says it.
    pub fn plan_prune(&self, through: Through) -> Result<PrunePlan> {
        plan(self.log(), through)
    }
}

fn plan(reader: &LogReader, through: Through) -> Result<PrunePlan> {
    let prefix = Prefix::of(reader, through)?;
    let last_seq = prefix.next.prev_last_seq;
    expect_no_keys(reader, last_seq)?;
    let anchors = anchors(reader, last_seq)?;
    Ok(PrunePlan {
        first_seq: reader.first_seq(),
        last_seq,
        last_ordinal: prefix.next.ordinal.saturating_sub(1),
        chain: prefix.next.prev_chain,
        bytes: prefix.segments.iter().map(|(_, _, length)| length).sum(),
        segments: prefix.segments.into_iter().map(|(path, _, _)| path).collect(),
        anchors,
        snapshots: reader.stale_snapshots(last_seq)?,
        open_runs: prefix.open_runs,
    })
}

fn refused(reader: &LogReader, message: String) -> Error {
    Error::new(ErrorKind::Rejected, message).at_path(reader.dir())
}

impl Prefix {
    /// The oldest segments, as far as `through` says and as it is possible.
    ///
    /// # Errors
    /// `Rejected` if that is none; `Corrupt` if they do not hold.
    pub(super) fn of(reader: &LogReader, through: Through) -> Result<Self> {
        let mut rest = headers(reader)?.into_iter().peekable();
        let state = snapshots::project::<State>(reader, u64::MAX)?.value;
        let (mut segments, mut next, mut open) = (Vec::new(), None, BTreeSet::new());
        let mut why = "the log has one segment, and the newest one always stays".to_owned();
        while let (Some(segment), Some(behind)) = (rest.next(), rest.peek()) {
            let behind = behind.1.clone();
            let (first, last) = (segment.1.base_seq, behind.prev_last_seq);
            if last > through.last() {
                why = format!(
                    "only whole segments go, and the first one ends with record {last}: expected \
                     that record or a later one, found {}",
                    through.last()
                );
                break;
            }
            let of_segment = open_runs(reader, &state, first, last)?;
            if through.keeps_open_runs()
                && let Some(run) = of_segment.first()
            {
                why = format!(
                    "run `{}` has not ended, and records of it are in the first segment (records \
                     {first} to {last})",
                    name_of(&state, *run)
                );
                break;
            }
            open.extend(of_segment);
            segments.push(segment);
            next = Some(behind);
        }
        if next.as_ref().is_some_and(|next| next.prev_last_seq < reader.first_seq()) {
            // A crash can leave a segment without a record. A note is about records.
            (next, why) = (None, format!("no record is in what comes before it, and {why}"));
        }
        let next = next.ok_or_else(|| refused(reader, format!("nothing can go: {why}")))?;
        let open_runs = open.into_iter().map(|run| name_of(&state, run)).collect();
        Ok(Self { segments, next, open_runs })
    }
}

fn name_of(state: &State, run: RunId) -> String {
    let whole = state.runs.get(&run).map(|run| run.name.clone());
    let summary = || state.summaries.get(&run).map(|run| run.name.clone());
    whole.or_else(summary).unwrap_or_else(|| run.to_string())
}

/// The headers of a log that follow each other, from the first on; all of them must be good.
fn headers(reader: &LogReader) -> Result<Vec<(PathBuf, SegmentHeader, u64)>> {
    let good = |segment: crate::log::SegmentSummary| {
        let header = segment.header.map_err(|fault| {
            let message = format!("{fault}; a damaged log is neither pruned nor archived");
            Error::new(ErrorKind::Corrupt, message).at_path(&segment.path).at_offset(0)
        })?;
        Ok((segment.path, header, segment.length))
    };
    reader.segments().into_iter().map(good).collect()
}

/// The runs with a record among these that have not ended, by number.
fn open_runs(reader: &LogReader, state: &State, first: u64, last: u64) -> Result<Vec<RunId>> {
    let mut open = BTreeSet::new();
    for item in reader.walk(first) {
        let record = match item? {
            Item::Record(record, _) if record.seq > last => break,
            Item::Record(record, Proof::Proven) => record,
            Item::Damage(damage) => return Err(damage.into_error()),
            Item::Record(..) | Item::Derived(_) | Item::OpenEnd { .. } => continue,
        };
        let run = codec::decode(&record)?.as_ref().and_then(crate::plan::Event::run);
        let is_open = |run: &RunId| {
            let status = state.runs.get(run).map(|run| run.status);
            !matches!(status, Some(RunStatus::Ended(_))) && !state.summaries.contains_key(run)
        };
        open.extend(run.filter(is_open));
    }
    Ok(open.into_iter().collect())
}

/// The keys of batches that a writer still compares with must stay.
fn expect_no_keys(reader: &LogReader, last_seq: u64) -> Result<()> {
    let durable = reader.head().map_or(0, |head| head.durable_seq);
    let from = durable.saturating_add(1).saturating_sub(KEY_WINDOW).max(reader.first_seq());
    let key = reader.records_of_kind(KIND_BATCH_KEY, from).next().transpose()?;
    match key.filter(|key| key.seq <= last_seq) {
        None => Ok(()),
        Some(key) => Err(refused(
            reader,
            format!(
                "record {} is the key of a batch, and keys are compared over {KEY_WINDOW} records: \
                 without it a command that is asked for again would be carried out twice; prune \
                 less, or later",
                key.seq
            ),
        )),
    }
}

/// Two snapshots of the state at or behind a record, each of which is what the log folds to.
fn anchors(reader: &LogReader, last_seq: u64) -> Result<Vec<Anchor>> {
    let names = snapshots::names::<State>(reader)?;
    let mut whole = Vec::new();
    for name in names.into_iter().filter(|name| name.seq >= last_seq) {
        let header = reader.snapshot_folder().header(&name).ok().flatten();
        if header.is_none_or(|header| header.base.is_none()) {
            whole.push(name);
        }
    }
    let mut search = Search { reader, names: whole, found: Vec::new(), wrong: Vec::new() };
    if !search.names.is_empty() {
        search.run()?;
    }
    let Search { found, wrong, .. } = search;
    if found.len() == 2 {
        return Ok(found);
    }
    let wrong: String = wrong.iter().map(|error| format!("; {error}")).collect();
    Err(refused(
        reader,
        format!(
            "expected two verified snapshots of the state at record {last_seq} or later, at two \
             different records and based on no other, found {}: make one with `ledger snapshot`, go on, and make another\
             {wrong}",
            found.len()
        ),
    ))
}

/// Anchors, as they are looked for along a fold.
struct Search<'a> {
    reader: &'a LogReader,
    /// Snapshots that may be anchors, oldest first.
    names: Vec<SnapshotName>,
    found: Vec<Anchor>,
    wrong: Vec<Error>,
}

impl Search<'_> {
    fn run(&mut self) -> Result<()> {
        let mut state = self.begin()?;
        self.compare(&state);
        for record in self.reader.records(state.seq.saturating_add(1)) {
            if self.found.len() == 2 || self.names.iter().all(|name| name.seq <= state.seq) {
                return Ok(());
            }
            fold_in(&mut state, recorded(&record?)?);
            self.compare(&state);
        }
        Ok(())
    }

    /// The state that folding begins with: none, or that of an earlier anchor.
    fn begin(&self) -> Result<State> {
        if self.reader.first_seq() == 1 {
            return Ok(State::default());
        }
        let anchors = self.reader.retention().map(|it| it.note.anchors.clone());
        let mut why = None;
        for anchor in anchors.unwrap_or_default() {
            let loaded = self.reader.check_anchor(&anchor).and_then(|()| match anchor.name() {
                Some(name) => load_whole::<State>(self.reader, &name).map(Some),
                None => Ok(None),
            });
            match loaded {
                Ok(Some((state, _))) => return Ok(state),
                Ok(None) => {}
                Err(error) => why = Some(error),
            }
        }
        Err(why.unwrap_or_else(|| self.reader.pruned(1)))
    }

    /// Take a snapshot at the record that folding is at for an anchor, if there is one that is
    /// what was folded.
    fn compare(&mut self, state: &State) {
        for name in self.names.iter().filter(|name| name.seq == state.seq) {
            match self.check(name, state) {
                Ok(header) => {
                    self.found.push(Anchor::of(&header));
                    return;
                }
                Err(error) => self.wrong.push(error),
            }
        }
    }

    fn check(&self, name: &SnapshotName, state: &State) -> Result<SnapshotHeader> {
        let (_, header) = load_whole::<State>(self.reader, name)?;
        if header.state_hash == state_hash(state).0 {
            return Ok(header);
        }
        let message = format!("snapshot {name} is not what the log folds to; it may be deleted");
        Err(Error::new(ErrorKind::Corrupt, message))
    }
}
