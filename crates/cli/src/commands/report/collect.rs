//! Folds the log once, and collects the facts that a page shows about one run.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::ops::ControlFlow;
use std::path::Path;

use plan_ledger::internals::ledger::{Fold, LedgerTime, StepTimeline, expect_valid};
use plan_ledger::log::{LoggedRecord, RecordStatus};
use plan_ledger::plan::{QuestionBody, RunOverview, StepEvent};
use plan_ledger::{
    Environment, Error, ErrorKind, Event, LedgerView, QuestionId, Run, RunId, State, StepNumber,
    Timestamp,
};
use plan_ledger_views::{
    Finding, HistoryEntry, KnownRun, RecordContent, RunActivity, decided_by, event_subject,
    event_text, findings, note_text, seconds, step_record_document,
};

use crate::commands::inspect::health::Health;
use crate::output::{Code, Failure, reader};
use crate::protocol::{OWN_LEDGER, size};
use crate::requests::run_or_only;
use crate::server::Surroundings;

use super::points::{Point, Points, shortened, text_of};

/// The most records of a step, and of the run. Older ones are left out.
const RECORDS_MAX: usize = 1_000;

/// From so many bytes of records of steps on, a record has its line alone.
const DETAILS_MAX: usize = 24 * 1024 * 1024;

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
    pub(super) parts: Parts,
    pub(super) health: LogHealth,
    /// How the run stands now; none on a page of an earlier record.
    pub(super) stands: Option<RunActivity>,
    /// Every run of the ledger, the newest first.
    pub(super) runs: Vec<RunOverview>,
    pub(super) code: Code,
}

impl Collected {
    /// The versions that were active, in order, each with the records between which it was.
    pub(super) fn active_spans(&self) -> impl Iterator<Item = (Span, u32)> {
        let all = &self.parts.activated;
        let next = all.iter().skip(1).map(|(seq, _)| Some(*seq)).chain([None]);
        all.iter().zip(next).map(|((from, version), until)| (Span { from: *from, until }, *version))
    }
}

/// The state of the log.
pub(super) struct LogHealth {
    /// What was found while it was read.
    pub(super) findings: Vec<Finding>,
    pub(super) files: String,
}

impl LogHealth {
    /// The texts of the findings that are damage, or of the others.
    pub(super) fn texts(&self, is_damage: bool) -> Vec<&str> {
        let found = self.findings.iter().filter(|finding| finding.is_damage == is_damage);
        found.map(|finding| finding.text.as_str()).collect()
    }
}

/// A decision of a person, or a note.
pub(super) struct Decision {
    pub(super) seq: u64,
    pub(super) time: Timestamp,
    pub(super) by: String,
    pub(super) step: Option<StepNumber>,
    pub(super) text: String,
}

/// A question to a person.
pub(super) struct AskedQuestion {
    pub(super) id: QuestionId,
    pub(super) step: Option<StepNumber>,
    pub(super) asked: QuestionBody,
    /// The record that closed it.
    pub(super) closed: Option<u64>,
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

/// The last records of a step or of the run: their numbers and their texts.
#[derive(Default)]
pub(super) struct Records {
    pub(super) texts: VecDeque<(u64, String)>,
    pub(super) left_out: u64,
}

impl Records {
    fn push(&mut self, seq: u64, text: String) {
        if self.texts.len() >= RECORDS_MAX {
            self.texts.pop_front();
            self.left_out += 1;
        }
        self.texts.push_back((seq, text));
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
    let mut parts = Parts { run: Some(id), ..Parts::default() };
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
    let (points, changed) = mem::take(&mut parts.points).into_parts();
    Ok(Collected {
        seq,
        time,
        chain: fold.last.as_ref().map_or_else(String::new, |last| last.chain.to_string()),
        points,
        changed,
        parts,
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
    let segments = view.log().segments();
    let bytes = segments.iter().map(|segment| segment.length).sum();
    let files = match segments.len() {
        1 => format!("1 segment, {}", size(bytes)),
        count => format!("{count} segments, {}", size(bytes)),
    };
    LogHealth { findings: findings(fold, health.refusal(), &health.notes), files }
}

/// The facts that are collected while the log is folded.
#[derive(Default)]
pub(super) struct Parts {
    run: Option<RunId>,
    points: Points,
    /// The records of each step.
    pub(super) histories: BTreeMap<StepNumber, Records>,
    /// The records of the run that are not about a step.
    pub(super) records: Records,
    pub(super) decisions: Vec<Decision>,
    /// The attempts and waits of each step.
    pub(super) timelines: BTreeMap<StepNumber, StepTimeline>,
    pub(super) questions: Vec<AskedQuestion>,
    /// The places of the open questions.
    open: Vec<usize>,
    /// The record that proposed each version, and the records that activated versions, in order.
    pub(super) proposed: BTreeMap<u32, u64>,
    pub(super) activated: Vec<(u64, u32)>,
    /// The bytes of the records of steps.
    details: usize,
}

impl Parts {
    fn record(&mut self, fold: &Fold, status: RecordStatus) {
        let Some(record) = fold.last.as_ref().filter(|_| status != RecordStatus::Unacknowledged)
        else {
            return;
        };
        let (seq, time) = (record.seq, record.time);
        let content = RecordContent::of(record);
        let run = self.run.and_then(|run| fold.state.runs.get(&run));
        let (by, step, text) = match &content {
            RecordContent::Event(event) => {
                let (of, step) = event_subject(event);
                let Some(run) = run.filter(|run| of == Some(run.id)) else { return };
                self.points.add(seq, time, run, event);
                self.event(seq, time, event);
                self.close(seq, run);
                (decided_by(event), step, event_text(event))
            }
            RecordContent::Note(note) if note.run == self.run => {
                self.points.note(seq, time, note.step);
                (Some(note.by.as_str()), note.step, note_text(note))
            }
            _ => return,
        };
        let line = format!("{seq:>9}  {}  {}", seconds(time), shortened(&text));
        if let Some(by) = by.map(str::to_owned) {
            self.decisions.push(Decision { seq, time, by, step, text });
        }
        let Some(number) = step else { return self.records.push(seq, line) };
        let record = LoggedRecord { payload: Vec::new(), ..*record };
        let is_event = matches!(content, RecordContent::Event(_));
        let entry = HistoryEntry { record, status, content };
        let text = match run.filter(|_| is_event && self.details < DETAILS_MAX) {
            Some(run) => text_of(&step_record_document(run, &entry, None, None, false)),
            None => line,
        };
        self.details += text.len();
        self.histories.entry(number).or_default().push(seq, text);
    }

    fn event(&mut self, seq: u64, time: Timestamp, event: &Event) {
        match event {
            Event::PlanProposed(event) => drop(self.proposed.insert(event.version, seq)),
            Event::PlanActivated(event) => self.activated.push((seq, event.version)),
            Event::QuestionAsked(event) => self.asked(seq, None, &event.asked),
            Event::Step(record) => {
                self.timelines.entry(record.step).or_default().add(seq, time, &record.event);
                if let StepEvent::StepAsked(asked) = &record.event {
                    self.asked(seq, Some(record.step), asked);
                }
            }
            _ => {}
        }
    }

    fn asked(&mut self, seq: u64, step: Option<StepNumber>, asked: &QuestionBody) {
        self.open.push(self.questions.len());
        let (id, asked) = (QuestionId(seq), asked.clone());
        self.questions.push(AskedQuestion { id, step, asked, closed: None });
    }

    /// Closes the questions that the state no longer has: they were answered, or lost their subject.
    fn close(&mut self, seq: u64, run: &Run) {
        for place in mem::take(&mut self.open) {
            let Some(question) = self.questions.get_mut(place) else { continue };
            if run.question(question.id).is_some() {
                self.open.push(place);
            } else {
                question.closed = Some(seq);
            }
        }
    }
}
