//! Folds the log once, and keeps what a page shows about one run.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use plan_ledger::internals::ledger::{Fold, expect_valid};
use plan_ledger::internals::log::RecordStatus;
use plan_ledger::internals::plan::StepEvent;
use plan_ledger::{
    AttemptToken, Environment, Error, ErrorKind, Event, LedgerView, Run, RunId, StepNumber,
    Timestamp,
};

use crate::commands::inspect::health::{Health, damage_text};
use crate::commands::inspect::record_content::RecordContent;
use crate::commands::inspect::text::event::{event_subject, event_text};
use crate::output::{Code, Failure, LongTask, ProgressUnit};
use crate::requests::run_or_only;

use super::points::{Point, Points, shortened};

/// The most points of a page: a slider has no finer steps, and a browser keeps them all.
const POINTS_MAX: u64 = 2_000;

/// The most lines of the history of a step, and of the list of decisions.
const LINES_MAX: usize = 200;

/// What a page shows.
pub(super) struct Collected {
    /// The run at the last record.
    pub(super) run: Run,
    pub(super) seq: u64,
    pub(super) time: Timestamp,
    pub(super) chain: String,
    pub(super) points: Vec<Point>,
    /// The records of each step.
    pub(super) histories: BTreeMap<StepNumber, Vec<Line>>,
    /// The records of the run that are not about a step: plans, people, budgets.
    pub(super) decisions: Vec<Line>,
    pub(super) attempts: Vec<AttemptBar>,
    /// What is wrong with the log.
    pub(super) damage: Vec<String>,
    pub(super) code: Code,
}

/// A record in words.
pub(super) struct Line {
    pub(super) seq: u64,
    pub(super) time: Timestamp,
    pub(super) text: String,
}

/// An attempt on the line of time.
pub(super) struct AttemptBar {
    pub(super) step: StepNumber,
    pub(super) attempt: u32,
    pub(super) worker: String,
    pub(super) since: Timestamp,
    /// None while it is in flight.
    pub(super) until: Option<Timestamp>,
    pub(super) is_lost: bool,
}

/// Collects what a page about a run shows, up to a record.
pub(super) fn collect(
    view: &LedgerView,
    dir: &Path,
    environment: &Environment,
    named: Option<&str>,
    at: Option<u64>,
) -> Result<Collected, Failure> {
    let health = Health::of(view.log(), dir, environment)?;
    let id = run_id(view, named, at)?;
    let last = view.log().head().map_or(0, |head| head.durable_seq);
    let stride = last.div_ceil(POINTS_MAX).max(1);
    let watch = LongTask::start(ProgressUnit::Records, dir)?;
    let mut parts = Parts::of(id);
    let mut is_stopped = false;
    let fold = view.fold_with(at.unwrap_or(u64::MAX), &mut |fold, status| {
        watch.show("reading", fold.records, last);
        parts.record(fold, status, stride);
        is_stopped = watch.is_stopped();
        if is_stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    watch.finish();
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
    parts.points.add(seq, time, &run);
    Ok(Collected {
        run,
        seq,
        time,
        chain: fold.last.as_ref().map_or_else(String::new, |last| last.chain.to_string()),
        points: parts.points.points,
        histories: parts.histories,
        decisions: parts.decisions,
        attempts: parts.attempts.into_values().collect(),
        damage: fold.damage.iter().map(damage_text).chain(fold.unreadable).collect(),
        code: if is_good { Code::Success } else { Code::Damaged },
    })
}

/// The run that is meant.
fn run_id(view: &LedgerView, named: Option<&str>, at: Option<u64>) -> Result<RunId, Failure> {
    let state = match at {
        Some(seq) => view.state_at(seq)?,
        None => view.fold_recent()?.state,
    };
    Ok(run_or_only(&state, named)?.id)
}

/// What is collected while the log is folded.
struct Parts {
    run: RunId,
    points: Points,
    seen: u64,
    histories: BTreeMap<StepNumber, Vec<Line>>,
    decisions: Vec<Line>,
    attempts: BTreeMap<AttemptToken, AttemptBar>,
}

impl Parts {
    fn of(run: RunId) -> Self {
        Self {
            run,
            points: Points::default(),
            seen: 0,
            histories: BTreeMap::new(),
            decisions: Vec::new(),
            attempts: BTreeMap::new(),
        }
    }

    fn record(&mut self, fold: &Fold, status: RecordStatus, stride: u64) {
        let Some(record) = fold.last.as_ref().filter(|_| status != RecordStatus::Unacknowledged)
        else {
            return;
        };
        let RecordContent::Event(event) = RecordContent::of(record) else { return };
        let (run, step) = event_subject(&event);
        if run != Some(self.run) {
            return;
        }
        if let Some(run) = fold.state.runs.get(&self.run) {
            if self.seen.is_multiple_of(stride) {
                self.points.add(record.seq, record.time, run);
            }
            self.seen += 1;
        }
        let line =
            Line { seq: record.seq, time: record.time, text: shortened(&event_text(&event)) };
        let lines = match step {
            Some(step) => self.histories.entry(step).or_default(),
            None => &mut self.decisions,
        };
        if lines.len() < LINES_MAX {
            lines.push(line);
        }
        self.attempt(record.seq, record.time, step, &event);
    }

    fn attempt(&mut self, seq: u64, time: Timestamp, step: Option<StepNumber>, event: &Event) {
        let (Event::Step(record), Some(step)) = (event, step) else { return };
        let (token, is_lost) = match &record.event {
            StepEvent::Dispatched(dispatch) => {
                let bar = AttemptBar {
                    step,
                    attempt: dispatch.attempt,
                    worker: dispatch.worker.clone(),
                    since: time,
                    until: None,
                    is_lost: false,
                };
                self.attempts.insert(AttemptToken(seq), bar);
                return;
            }
            StepEvent::ReceiptRecorded(event) => (event.token, false),
            StepEvent::AttemptLost(event) => (event.token, true),
            _ => return,
        };
        if let Some(bar) = self.attempts.get_mut(&token) {
            (bar.until, bar.is_lost) = (Some(time), is_lost);
        }
    }
}
