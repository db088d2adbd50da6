//! Folds the log once, and collects the facts that a page shows about one run.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::path::Path;

use plan_ledger::internals::ledger::{Fold, LedgerTime, expect_valid};
use plan_ledger::log::RecordStatus;
use plan_ledger::plan::RunOverview;
use plan_ledger::{
    Environment, Error, ErrorKind, Event, LedgerView, Run, RunId, State, StepNumber, Timestamp,
};
use plan_ledger_views::{Finding, KnownRun, RunActivity, findings};

use crate::commands::inspect::health::Health;
use crate::output::{Code, Failure, escape_control, reader};
use crate::protocol::{OWN_LEDGER, size};
use crate::requests::run_or_only;
use crate::server::Surroundings;
use plan_ledger_views::RecordContent;
use plan_ledger_views::{event_subject, event_text, note_text};

use super::decisions::{Decision, decision};
use super::facts::{AttemptFacts, Facts, QuestionFacts};
use super::points::{Point, Points};

/// The most lines of the history of a step, and of the run. Older lines are left out.
const LINES_MAX: usize = 1_000;

/// The facts that a page shows.
pub(super) struct Collected {
    /// The state at the last record.
    pub(super) state: State,
    pub(super) run: Run,
    pub(super) seq: u64,
    pub(super) time: Timestamp,
    pub(super) chain: String,
    pub(super) points: Vec<Point>,
    /// For each step, the last record that changed its part of the page.
    pub(super) changed: BTreeMap<StepNumber, u64>,
    /// The records of each step.
    pub(super) histories: BTreeMap<StepNumber, Lines>,
    /// The records of the run that are not about a step.
    pub(super) records: Lines,
    pub(super) decisions: Vec<Decision>,
    /// In the order of dispatch.
    pub(super) attempts: Vec<AttemptFacts>,
    pub(super) questions: Vec<QuestionFacts>,
    /// The record that proposed each version, and the records that activated versions, in order.
    pub(super) proposed: BTreeMap<u32, u64>,
    pub(super) activated: Vec<(u64, u32)>,
    pub(super) health: LogHealth,
    /// How the run stands now; none on a page of an earlier record.
    pub(super) stands: Option<RunActivity>,
    /// Every run of the ledger, the newest first.
    pub(super) runs: Vec<RunOverview>,
    pub(super) code: Code,
}

/// The state of the log.
pub(super) struct LogHealth {
    /// The unreadable parts.
    pub(super) damage: Vec<String>,
    /// Findings that are not damage, but worth knowing.
    pub(super) notes: Vec<String>,
    pub(super) files: String,
}

/// The range of records that contain an item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) until: Option<u64>,
}

impl Span {
    /// Whether it no longer exists at the last record.
    pub(super) fn is_over(self) -> bool {
        self.until.is_some()
    }
}

/// A record in words.
pub(super) struct Line {
    pub(super) seq: u64,
    pub(super) time: Timestamp,
    pub(super) text: String,
}

/// The last lines of a history.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) lines: VecDeque<Line>,
    pub(super) left_out: u64,
}

impl Lines {
    fn push(&mut self, line: Line) {
        if self.lines.len() >= LINES_MAX {
            self.lines.pop_front();
            self.left_out += 1;
        }
        self.lines.push_back(line);
    }
}

/// Collects the facts of a page about a run, up to a record. `watch` gets the number of records that were read, and the
/// total; it may stop the reading.
pub(super) fn collect(
    view: &LedgerView,
    dir: &Path,
    environment: &Environment,
    named: Option<&str>,
    at: Option<u64>,
    watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Collected, Failure> {
    let health = Health::of(view.log(), dir, environment)?;
    let id = run_id(view, named, at)?;
    let last = view.log().head().map_or(0, |head| head.durable_seq);
    let mut parts = Parts::of(id);
    let mut is_stopped = false;
    let fold = view.fold_with(at.unwrap_or(u64::MAX), &mut |fold, status| {
        parts.record(fold, status);
        let next = watch(fold.records, last);
        is_stopped = next.is_break();
        next
    })?;
    if is_stopped {
        return Err(Failure::Usage("stopped: nothing was written".to_owned()));
    }
    expect_valid(&fold.state)?;
    let is_good = fold.damage.is_empty() && fold.unreadable.is_none() && health.is_good();
    let run = fold.state.runs.get(&id).cloned().ok_or_else(|| {
        let message = "the run ended long ago, and only its summary is kept: use --at with a record \
                       before its end";
        Failure::Ledger(Error::new(ErrorKind::OutOfRange, message.to_owned()))
    })?;
    let (seq, time) = (fold.state.seq, fold.state.time);
    parts.points.end(seq, time, &run);
    let mut runs: Vec<_> =
        fold.state.runs.overviews().map(|(_, overview)| overview.into_owned()).collect();
    runs.reverse();
    let Facts { attempts, questions, .. } = parts.facts;
    let (points, changed) = parts.points.into_parts();
    Ok(Collected {
        seq,
        time,
        chain: fold.last.as_ref().map_or_else(String::new, |last| last.chain.to_string()),
        points,
        changed,
        histories: parts.histories,
        records: parts.records,
        decisions: parts.decisions,
        attempts,
        questions,
        proposed: parts.proposed,
        activated: parts.activated,
        health: log_health(view, &fold, &health),
        stands: at
            .is_none()
            .then(|| stands_now(view, dir, environment, (&fold.state, &run), is_good)),
        runs,
        code: if is_good { Code::Success } else { Code::Damaged },
        run,
        state: fold.state,
    })
}

/// How a run stands now.
fn stands_now(
    view: &LedgerView,
    dir: &Path,
    environment: &Environment,
    (state, run): (&State, &Run),
    is_good: bool,
) -> RunActivity {
    let now = LedgerTime::of(view.log(), environment).now.max(state.time);
    let around = Surroundings::now(dir, view.log(), state, now);
    let known = around.known((state, run), now, !is_good, reader());
    // The reader of a page is in another folder than its writer.
    KnownRun { ledger: Path::new(OWN_LEDGER), ..known }.activity()
}

/// The run that is meant.
fn run_id(view: &LedgerView, named: Option<&str>, at: Option<u64>) -> Result<RunId, Failure> {
    let state = match at {
        Some(seq) => view.state_at(seq)?,
        None => view.fold_recent()?.state,
    };
    Ok(run_or_only(&state, named)?.id)
}

fn log_health(view: &LedgerView, fold: &Fold, health: &Health) -> LogHealth {
    let found = findings(fold, health.refusal(), &health.notes).into_iter();
    let (damage, notes): (Vec<_>, Vec<_>) = found.partition(|finding| finding.is_damage);
    let texts =
        |found: Vec<Finding>| found.iter().map(|finding| escape_control(&finding.text)).collect();
    let segments = view.log().segments();
    let bytes = segments.iter().map(|segment| segment.length).sum();
    let files = match segments.len() {
        1 => format!("1 segment, {}", size(bytes)),
        count => format!("{count} segments, {}", size(bytes)),
    };
    LogHealth { damage: texts(damage), notes: texts(notes), files }
}

/// The facts that are collected while the log is folded.
struct Parts {
    run: RunId,
    points: Points,
    histories: BTreeMap<StepNumber, Lines>,
    records: Lines,
    decisions: Vec<Decision>,
    facts: Facts,
    proposed: BTreeMap<u32, u64>,
    activated: Vec<(u64, u32)>,
}

impl Parts {
    fn of(run: RunId) -> Self {
        Self {
            run,
            points: Points::default(),
            histories: BTreeMap::new(),
            records: Lines::default(),
            decisions: Vec::new(),
            facts: Facts::default(),
            proposed: BTreeMap::new(),
            activated: Vec::new(),
        }
    }

    fn record(&mut self, fold: &Fold, status: RecordStatus) {
        let Some(record) = fold.last.as_ref().filter(|_| status != RecordStatus::Unacknowledged)
        else {
            return;
        };
        let (seq, time) = (record.seq, record.time);
        let event = match RecordContent::of(record) {
            RecordContent::Event(event) => event,
            RecordContent::Note(note) if note.run == Some(self.run) => {
                self.points.note(seq, time, note.step);
                self.decisions.push(Decision {
                    seq,
                    time,
                    by: note.by.clone(),
                    step: note.step,
                    text: escape_control(&note_text(&note)),
                });
                let line = Line { seq, time, text: escape_control(&note_text(&note)) };
                self.line(note.step, line);
                return;
            }
            _ => return,
        };
        let (run, step) = event_subject(&event);
        if run != Some(self.run) {
            return;
        }
        if let Some(run) = fold.state.runs.get(&self.run) {
            self.points.add(seq, time, run, &event);
        }
        match &event {
            Event::PlanProposed(event) => drop(self.proposed.insert(event.version, seq)),
            Event::PlanActivated(event) => self.activated.push((seq, event.version)),
            _ => {}
        }
        self.decisions.extend(decision(seq, time, &event));
        self.facts.event(seq, time, &event);
        if let Some(run) = fold.state.runs.get(&self.run) {
            self.facts.close(seq, run);
        }
        self.line(step, Line { seq, time, text: escape_control(&event_text(&event)) });
    }

    fn line(&mut self, step: Option<StepNumber>, line: Line) {
        match step {
            Some(step) => self.histories.entry(step).or_default().push(line),
            None => self.records.push(line),
        }
    }
}
