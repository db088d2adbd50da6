//! The contents of a ledger: the log, its health, and the runs with their next actions.

use std::collections::BTreeMap;
use std::path::Path;

use plan_ledger::internals::format::HeadState;
use plan_ledger::internals::ledger::{Fold, FoldOrigin, time_text};
use plan_ledger::log::{LogReader, TailVerdict};
use plan_ledger::plan::{RunSummary, UtcTime};
use plan_ledger::{ContentHash, Error, RunId, RunStatus, Timestamp, state_hash};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::damage::{Finding, findings, no_run_text};
use super::health::{HealthWord, LedgerHealthJson, OpeningJson};
use super::run::RunView;
use super::runs::RunRowLine;
use crate::layout::{Document, Paint, Table};
use crate::shell::quoted_folder;
use crate::words::{cost_text, count, counted, hex, moment, run_status_text, size, variant_words};

/// The ledger as a whole.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LedgerLine<'a> {
    /// The last record that HEAD says was acknowledged.
    acknowledged: Option<u64>,
    /// Whether the ledger is an archive.
    archive: bool,
    /// The total size of the segments.
    bytes: u64,
    /// The folder, as given.
    dir: String,
    /// The first record in the log: 1, unless earlier records were pruned or are in another archive.
    first_seq: u64,
    /// The record of the snapshot at the start of the fold; null without a snapshot.
    folded_from: Option<u64>,
    /// The last intact record.
    head: Option<LastRecordJson>,
    /// The health of the ledger.
    health: LedgerHealthJson<'a>,
    /// The identifier of the ledger.
    ledger: Option<String>,
    /// The number of intact records.
    records: u64,
    /// The number of runs.
    runs: usize,
    /// The number of segment files.
    segments: usize,
    /// The state that is shown.
    state: StateHashJson,
    /// The number of runs that are only kept as totals.
    summaries: usize,
    /// The names in the folder `log` that do not belong there.
    unknown_files: &'a [String],
    /// The last writer.
    writer: WriterJson<'a>,
}

/// The last intact record.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct LastRecordJson {
    /// Its chain value.
    chain: String,
    /// Its sequence number.
    seq: u64,
    /// Its time.
    time: UtcTime,
}

/// A state.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct StateHashJson {
    /// Its hash.
    hash: ContentHash,
    /// Its last record.
    seq: u64,
}

/// The last writer of a ledger.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct WriterJson<'a> {
    /// The text that the last writer stored.
    holder: Option<&'a str>,
    /// `open` (in a process, or the process was killed), `closed`, `poisoned` or `unknown`.
    state: &'static str,
}

/// The contents of a ledger, as they were read.
#[derive(Debug)]
pub struct Contents<'a> {
    /// The folder, as given.
    pub dir: &'a Path,
    /// The log.
    pub log: &'a LogReader,
    /// The state, and the damage.
    pub fold: &'a Fold,
    /// The verdict of opening the log for writing, or the error.
    pub end: &'a Result<TailVerdict, Error>,
    /// The same, with the reason for a refusal in one line.
    pub opening: OpeningJson,
    /// Notes that are not damage.
    pub notes: &'a [String],
    /// Why a writer could not open the log, if that is a fault.
    pub refusal: Option<String>,
    /// Whether everything that was acknowledged can be read.
    pub is_good: bool,
    /// The text that the last writer stored.
    pub holder: Option<&'a str>,
    /// How to continue with a damaged ledger.
    pub damage_hint: String,
    /// The time.
    pub now: Timestamp,
}

/// Number of runs that are shown in full.
const IN_FULL_MAX: usize = 8;

impl<'a> Contents<'a> {
    /// The runs that its document shows in full: the open ones first.
    #[must_use]
    pub fn in_full(&self) -> Vec<RunId> {
        let ids = self.ordered_runs();
        let others = ids.len().saturating_sub(IN_FULL_MAX);
        let mut in_full: Vec<RunId> = ids.iter().skip(others).map(|(id, _)| *id).collect();
        in_full.sort();
        in_full
    }

    /// The runs, and those that are shown last: the open ones.
    fn ordered_runs(&self) -> Vec<(RunId, RunStatus)> {
        let overviews = self.fold.state.runs.overviews();
        let mut ids: Vec<_> = overviews.map(|(id, it)| (it.is_open(), id, it.status)).collect();
        ids.sort_by_key(|(is_open, id, _)| (*is_open, *id));
        ids.into_iter().map(|(_, id, status)| (id, status)).collect()
    }

    /// The lines of the runs that are only kept as totals.
    pub fn ended_runs(&self) -> impl Iterator<Item = RunRowLine> + use<'a> {
        let fold = self.fold;
        fold.state.ended_runs().map(|(run, summary)| RunRowLine::of_summary(run, summary))
    }

    /// The line of the ledger.
    #[must_use]
    pub fn line(&self) -> LedgerLine<'_> {
        let Self { log, fold, .. } = self;
        let segments = log.segments();
        let state = &fold.state;
        LedgerLine {
            acknowledged: log.head().map(|head| head.durable_seq),
            archive: log.manifest().is_some(),
            bytes: segments.iter().map(|segment| segment.length).sum(),
            dir: self.dir.display().to_string(),
            first_seq: log.first_seq(),
            folded_from: match fold.origin {
                FoldOrigin::Anchor(seq) | FoldOrigin::Snapshot(seq) => Some(seq),
                FoldOrigin::Start | FoldOrigin::Missing(_) => None,
            },
            head: fold.last.as_ref().map(|last| LastRecordJson {
                chain: last.chain.to_string(),
                seq: last.seq,
                time: last.time.into(),
            }),
            health: LedgerHealthJson {
                after_damage: fold.after_damage,
                damage: fold.damage.len(),
                notes: self.notes,
                opening: self.opening.clone(),
                read_from: fold.read_from(),
                status: HealthWord::of(self.is_good),
                unacknowledged: fold.unacknowledged,
                unreadable: fold.unreadable.as_deref(),
            },
            ledger: log.uids().map(|(ledger, _)| hex(&ledger)),
            records: fold.records,
            runs: state.runs.len(),
            segments: segments.len(),
            state: StateHashJson { hash: state_hash(state), seq: state.seq },
            summaries: state.ended_runs().len(),
            unknown_files: log.unknown_files(),
            writer: WriterJson { holder: self.holder, state: head_state(log).0 },
        }
    }

    /// Its document. `in_full`: the views of the runs that [`Self::in_full`] names.
    #[must_use]
    pub fn document(&self, in_full: &[RunView<'_>]) -> Document {
        let fold = self.fold;
        let mut document = Document::default();
        document.heading((Paint::Heading, format!("ledger {}", quoted_folder(self.dir))));
        document.table(2, self.log_table());
        self.add_damage(&mut document);
        for run in in_full {
            document.gap();
            document.append(run.document());
        }
        self.add_more(&mut document);
        self.add_ended(&mut document);
        match &fold.origin {
            FoldOrigin::Missing(why) => {
                document.gap();
                document.line(format!("{why}: `records` shows the records"));
            }
            FoldOrigin::Snapshot(seq) => {
                document.gap();
                document.painted(
                    Paint::Faint,
                    format!("read from the snapshot at record {seq} on; `verify` reads everything"),
                );
            }
            _ if fold.state.runs.is_empty() => {
                document.gap();
                document.line(no_run_text(self.is_good));
            }
            _ => {}
        }
        document
    }

    fn log_table(&self) -> Table {
        let (paint, health) = self.health();
        let mut writer = head_state(self.log).1.to_owned();
        if let Some(holder) = self.holder {
            writer = format!("{writer}; last opened by {holder}");
        }
        let mut table = Table::default();
        for (name, paint, text) in [
            ("head", Paint::None, self.head_text()),
            ("log", Paint::None, self.log_text()),
            ("writer", Paint::None, writer),
            ("health", paint, health.to_owned()),
        ] {
            table.row([(Paint::Faint, name.to_owned()), (paint, text)]);
        }
        table
    }

    fn head_text(&self) -> String {
        let last = self.fold.last.as_ref();
        let head = match last {
            Some(last) => {
                let time = moment(last.time, self.now);
                format!("record {}, chain {}, {time}", last.seq, last.chain.short())
            }
            None => "no record".to_owned(),
        };
        match self.log.head() {
            Some(slot) if last.map_or(0, |last| last.seq) < slot.durable_seq => {
                format!("{head}; HEAD: record {} was acknowledged", slot.durable_seq)
            }
            _ => head,
        }
    }

    fn log_text(&self) -> String {
        let segments = self.log.segments();
        let unacknowledged = match self.fold.unacknowledged {
            0 => String::new(),
            some => format!(", {} of them after the durable end in HEAD", count(some)),
        };
        format!(
            "{}, {}, {}{unacknowledged}",
            counted(u64::try_from(segments.len()).unwrap_or(u64::MAX), "segment"),
            size(segments.iter().map(|segment| segment.length).sum()),
            counted(self.fold.records, "record")
        )
    }

    fn health(&self) -> (Paint, &'static str) {
        match (self.is_good, self.end) {
            (false, _) => (Paint::Bad, "damaged"),
            (true, Ok(_)) if self.fold.state.lost_ranges().len() > 0 => {
                (Paint::Notice, "consistent, but not complete")
            }
            (true, Ok(TailVerdict::Clean)) => (Paint::Good, "good"),
            (true, Err(_)) => (Paint::Good, "good; a read-only archive"),
            (true, _) => (Paint::Good, "good; the last write is in progress or was interrupted"),
        }
    }

    fn add_damage(&self, document: &mut Document) {
        for Finding { paint, text, .. } in findings(self.fold, self.refusal.clone(), self.notes) {
            document.painted(paint, text);
        }
        if !self.is_good {
            document.line(format!("to continue: {}", self.damage_hint));
        }
    }

    /// Adds the number of runs that are not shown in full, by status.
    fn add_more(&self, document: &mut Document) {
        let ids = self.ordered_runs();
        let others = ids.len().saturating_sub(IN_FULL_MAX);
        let mut counts = BTreeMap::new();
        for (_, status) in ids.into_iter().take(others) {
            *counts.entry(run_status_text(status).1).or_insert(0_u64) += 1;
        }
        if counts.is_empty() {
            return;
        }
        let counts: Vec<_> =
            counts.iter().map(|(status, many)| format!("{} {status}", count(*many))).collect();
        let (counts, dir) = (counts.join(", "), quoted_folder(self.dir));
        document.gap();
        document.line(format!("more runs: {counts}; `ledger inspect {dir} runs` lists all"));
    }

    /// Adds one line for each run that is only kept as totals.
    fn add_ended(&self, document: &mut Document) {
        let summaries = self.fold.state.ended_runs();
        if summaries.len() == 0 {
            return;
        }
        let runs = counted(u64::try_from(summaries.len()).unwrap_or(u64::MAX), "run");
        document.gap();
        document.line(format!("{runs} that ended earlier, of which only summaries are kept:"));
        for (_, summary) in summaries {
            document.indented(2, ended_text(summary));
        }
    }
}

fn ended_text(summary: &RunSummary) -> String {
    let RunSummary { name, ending, ended, seq, version, steps, accepted, skipped, .. } = summary;
    let attempts = counted(summary.attempts, "attempt");
    format!(
        "{}: {} {}, record {seq}; version {}, {accepted} of {steps} accepted, {skipped} skipped; \
         {attempts}, cost {}",
        name,
        variant_words(ending, ' '),
        time_text(*ended),
        version.0,
        cost_text(summary.spent)
    )
}

/// The writer's state in HEAD, as a JSON word and as text.
fn head_state(log: &LogReader) -> (&'static str, &'static str) {
    match log.head().map(|head| head.state) {
        Some(HeadState::Open) => ("open", "open in a process, or the process was killed"),
        Some(HeadState::Clean) => ("closed", "closed cleanly"),
        Some(HeadState::Poisoned) => ("poisoned", "a write or sync failed; reopen the ledger"),
        None => ("unknown", "HEAD is missing or damaged"),
    }
}
