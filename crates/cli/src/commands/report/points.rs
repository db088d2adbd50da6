//! The cells of a page, and their values at each record.
//!
//! A cell has a key and a value: `s12` is the status of step 12, `a12` its attempts, `w12` why it has this
//! status. A point is a record of the run with the cells that it changed.
//!
//! Invariant: the cells at a record are those of a page of that record. A record changes the cells of its own step, of
//! the steps that depend on it, and of the run; a few kinds of records may change all cells.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use plan_ledger::plan::{BarrierState, CompactPlan, Criterion, StepEvent};
use plan_ledger::{Event, Run, RunStatus, StepNumber, StepStatus, Timestamp};
use plan_ledger_views::{
    Budget, Document, Style, barrier_text, cost_text, escape_control, is_unapproved, origin_text,
    paused_text, progress_text, quoted, recorded_status, step_name, text_lines,
};

use super::why::{NAMES_MAX, why};

/// The longest value of a cell, in characters.
const VALUE_LENGTH_MAX: usize = 400;

/// A record, and the cells that it changed.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) seq: u64,
    /// The time in microseconds.
    time: Timestamp,
    cells: BTreeMap<String, String>,
}

/// The cells of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StepCells {
    status: StepStatus,
    attempts: u32,
    why: String,
}

/// Collects points.
#[derive(Debug, Default)]
pub(super) struct Points {
    points: Vec<Point>,
    /// The cells of each step at the last point; none before the first.
    steps: Vec<Option<StepCells>>,
    /// The other cells at the last point.
    cells: BTreeMap<String, String>,
    barriers: BTreeMap<StepNumber, Vec<String>>,
    /// The text of [`unchecked_text`] at the last point.
    unchecked: String,
    changed: BTreeMap<StepNumber, u64>,
}

impl Points {
    /// Adds the point of a record.
    pub(super) fn add(&mut self, seq: u64, time: Timestamp, run: &Run, event: &Event) {
        let mut cells = BTreeMap::new();
        let step = match event {
            Event::Step(record) => Some(record.step),
            _ => None,
        };
        if let Event::VariableSet(event) = event {
            self.variable(run, &event.name, &mut cells);
        }
        if changes_all(event) {
            self.all(seq, run, &mut cells);
        } else {
            let mut dirty: BTreeSet<_> = step.into_iter().collect();
            if changes_others(event) {
                dirty.extend(self.with_other_status(run));
            }
            if let Event::BarrierChanged(event) = event {
                self.barrier(run, &event.barrier, &mut cells);
                let member = run.barrier(&event.barrier).and_then(|it| it.members.first());
                dirty.extend(member.into_iter().flat_map(|member| dependents(run, *member)));
            }
            self.follow(seq, run, dirty, &mut cells);
        }
        match step {
            Some(step) => _ = self.changed.insert(step, seq),
            None => self.unchecked = unchecked_text(run),
        }
        self.of_run(run, time, &mut cells);
        self.points.push(Point { seq, time, cells });
    }

    /// Adds the point of a note, which changes no cell.
    pub(super) fn note(&mut self, seq: u64, time: Timestamp, step: Option<StepNumber>) {
        self.points.push(Point { seq, time, cells: BTreeMap::new() });
        self.changed.extend(step.map(|step| (step, seq)));
    }

    /// Adds the last point, where all cells are computed again.
    pub(super) fn end(&mut self, seq: u64, time: Timestamp, run: &Run) {
        let mut cells = BTreeMap::new();
        self.all(seq, run, &mut cells);
        self.unchecked = unchecked_text(run);
        self.of_run(run, time, &mut cells);
        match self.points.last_mut().filter(|last| last.seq == seq) {
            Some(last) => last.cells.extend(cells),
            // A record of another run changed nothing.
            None if cells.is_empty() => {}
            None => self.points.push(Point { seq, time, cells }),
        }
    }

    /// The points, and for each step the last record that changed its cells.
    pub(super) fn into_parts(self) -> (Vec<Point>, BTreeMap<StepNumber, u64>) {
        (self.points, self.changed)
    }

    fn with_other_status(&self, run: &Run) -> Vec<StepNumber> {
        let known = self.steps.iter().map(|step| step.as_ref().map(|step| step.status));
        let known = known.chain(std::iter::repeat(None));
        let steps = run.numbered_steps().zip(known);
        let other = steps.filter(|((_, step), known)| *known != Some(step.status));
        other.map(|((number, _), _)| number).collect()
    }

    /// The cells of the changed steps, and of other steps that changed their status with them.
    fn follow(
        &mut self,
        seq: u64,
        run: &Run,
        dirty: BTreeSet<StepNumber>,
        cells: &mut BTreeMap<String, String>,
    ) {
        let mut seen = dirty.clone();
        let mut open: Vec<_> = dirty.into_iter().collect();
        while let Some(number) = open.pop() {
            let before = self.steps.get(number.index()).cloned().flatten();
            if !self.step(seq, run, number, cells) {
                continue;
            }
            for id in self.barriers.get(&number).cloned().unwrap_or_default() {
                self.barrier(run, &id, cells);
            }
            let before = before.map(|before| before.status);
            let after = run.step(number).map(|step| step.status);
            if !is_seen_by_others(before) && !is_seen_by_others(after) {
                continue;
            }
            let next = dependents(run, number).into_iter();
            open.extend(next.filter(|next| seen.insert(*next)));
        }
    }

    fn all(&mut self, seq: u64, run: &Run, cells: &mut BTreeMap<String, String>) {
        for (number, _) in run.numbered_steps() {
            self.step(seq, run, number, cells);
        }
        self.barriers.clear();
        for (id, barrier) in run.named_barriers() {
            for member in &barrier.members {
                self.barriers.entry(*member).or_default().push(id.to_owned());
            }
            self.barrier(run, id, cells);
        }
        for (name, _) in run.named_variables() {
            self.variable(run, name, cells);
        }
    }

    /// The cells of a step. The result states whether its status changed.
    fn step(
        &mut self,
        seq: u64,
        run: &Run,
        number: StepNumber,
        cells: &mut BTreeMap<String, String>,
    ) -> bool {
        let Some(state) = run.step(number) else { return false };
        let now = StepCells {
            status: state.status,
            attempts: state.attempts,
            why: shortened(&why(run, number)),
        };
        let index = number.index();
        if self.steps.len() <= index {
            self.steps.resize(index + 1, None);
        }
        let Some(before) = self.steps.get_mut(index) else { return false };
        if before.as_ref() == Some(&now) {
            return false;
        }
        let is_other = before.as_ref().is_none_or(|before| before.status != now.status);
        if is_other {
            cells.insert(format!("s{number}"), now.status.to_string());
        }
        if before.as_ref().is_none_or(|before| before.attempts != now.attempts) {
            cells.insert(format!("a{number}"), now.attempts.to_string());
        }
        if before.as_ref().is_none_or(|before| before.why != now.why) {
            cells.insert(format!("w{number}"), now.why.clone());
        }
        *before = Some(now);
        self.changed.insert(number, seq);
        is_other
    }

    fn set(&mut self, key: String, value: String, cells: &mut BTreeMap<String, String>) {
        if self.cells.get(&key) != Some(&value) {
            cells.insert(key.clone(), value.clone());
            self.cells.insert(key, value);
        }
    }

    fn variable(&mut self, run: &Run, name: &str, cells: &mut BTreeMap<String, String>) {
        let Some(variable) = run.variable(name) else { return };
        self.set(format!("v:{name}"), shortened(variable.value.as_str()), cells);
        self.set(format!("o:{name}"), shortened(&origin_text(run, &variable.origin)), cells);
    }

    fn barrier(&mut self, run: &Run, id: &str, cells: &mut BTreeMap<String, String>) {
        let Some(barrier) = run.barrier(id) else { return };
        self.set(format!("b:{id}"), barrier_text(barrier), cells);
        self.set(format!("m:{id}"), missing_text(run, barrier), cells);
    }

    /// The cells of the run itself.
    fn of_run(&mut self, run: &Run, time: Timestamp, cells: &mut BTreeMap<String, String>) {
        for (key, value) in run_cells(run, time) {
            self.set(key.to_owned(), value, cells);
        }
        self.set("unchecked".to_owned(), self.unchecked.clone(), cells);
    }
}

/// The steps that depend on a step, directly or through a barrier.
fn dependents(run: &Run, number: StepNumber) -> Vec<StepNumber> {
    let numbers = run.active_version().map_or(&[][..], |version| &version.numbers);
    let places = run.neighbours(number).dependents.into_iter();
    places.filter_map(|place| numbers.get(place).copied()).collect()
}

/// Whether the steps that depend on a step with that status change their cells because of it.
fn is_seen_by_others(status: Option<StepStatus>) -> bool {
    let is_ended = |status: StepStatus| {
        use StepStatus::{Cancelled, Failed, Removed};
        status.is_closed() || matches!(status, Failed | Removed | Cancelled)
    };
    status.is_some_and(is_ended)
}

/// Whether a record may change the cells of every step.
fn changes_all(event: &Event) -> bool {
    matches!(
        event,
        Event::PlanActivated(_)
            | Event::RunEnded(_)
            | Event::RunReopened(_)
            | Event::RunForked(_)
            | Event::StepsInherited(_)
    )
}

/// Whether a record may change the status of steps other than its own and those that depend on it.
fn changes_others(event: &Event) -> bool {
    match event {
        Event::Step(record) => !matches!(
            record.event,
            StepEvent::Dispatched(_)
                | StepEvent::LeaseRenewed(_)
                | StepEvent::ReceiptRecorded(_)
                | StepEvent::VerdictRecorded(_)
                | StepEvent::Accepted(_)
                | StepEvent::EffectIntended(_)
                | StepEvent::EffectCommitted(_)
        ),
        Event::HelperEnded(_) | Event::PlanVerdict(_) => false,
        _ => true,
    }
}

/// The cells of a run that are about the whole of it.
pub(super) fn run_cells(run: &Run, time: Timestamp) -> [(&'static str, String); 7] {
    [
        ("run", recorded_status(run).to_owned()),
        ("pause", pause_text(run)),
        ("progress", plain_progress(run)),
        ("share", share(run).to_string()),
        ("spent", cost_text(run.spent())),
        ("version", run.active.to_string()),
        ("budget", text_of(&Budget::of_run(run, time).document())),
    ]
}

/// Why no judge checks the criteria that are commands, and the remedy; empty if a person approved them, or there are
/// none. Only a record about the whole run changes it.
pub(super) fn unchecked_text(run: &Run) -> String {
    let is_command = |criterion: &Criterion| matches!(criterion, Criterion::Command(_));
    let has_commands = |plan: &CompactPlan| {
        plan.header().test_criteria.iter().any(is_command)
            || plan.steps().any(|step| step.acceptance().iter().any(is_command))
    };
    if run.status != RunStatus::Running
        || !run.plan().is_some_and(has_commands)
        || !is_unapproved(run)
    {
        return String::new();
    }
    let name = quoted(&run.name);
    format!(
        "nothing is checked before a person approves the commands of the plan: `ledger plan review {name}` lists them"
    )
}

/// The reason why the whole run does not continue; empty if it does.
fn pause_text(run: &Run) -> String {
    let stopping = run.why_stopping().map(|why| format!("the run ends: {why}"));
    let paused = run.pause.as_ref().map(paused_text);
    let request = run.plan_request().map(|it| format!("a new plan is requested: {}", it.reason));
    let proposal =
        run.newest_proposal().map(|(version, _)| format!("version {version} waits for review"));
    let all: Vec<_> = [stopping, paused, request, proposal].into_iter().flatten().collect();
    shortened(&all.join("; "))
}

/// The first members of a barrier that have not arrived.
pub(super) fn missing_text(run: &Run, barrier: &BarrierState) -> String {
    let count = barrier.members.len().saturating_sub(barrier.arrived.len());
    if count == 0 || barrier.members.len() > MEMBERS_MAX {
        return if count == 0 { String::new() } else { format!("{count} steps") };
    }
    let failed = |step: StepNumber| if barrier.failed.contains(&step) { " (failed)" } else { "" };
    let missing = barrier.missing().take(NAMES_MAX);
    let mut names: Vec<_> =
        missing.map(|step| format!("{}{}", step_name(run, step), failed(step))).collect();
    if count > NAMES_MAX {
        names.push(format!("{} more", count - NAMES_MAX));
    }
    shortened(&names.join(", "))
}

/// Up to this many members, a barrier names the missing ones: finding them takes time at every record.
const MEMBERS_MAX: usize = 1_000;

/// The share of the steps that are done, in percent.
pub(super) fn share(run: &Run) -> u64 {
    let total: u64 = run.active_version().map_or(0, |version| version.step_count.into());
    let done =
        u64::from(run.count(StepStatus::Accepted)) + u64::from(run.count(StepStatus::Skipped));
    (done * 100).checked_div(total).unwrap_or_default()
}

/// The progress without its bar.
pub(super) fn plain_progress(run: &Run) -> String {
    let text = progress_text(run);
    text.split_once("] ").map_or(text.clone(), |(_, rest)| rest.to_owned())
}

/// A text that fits into a cell. The script shows it, so it is escaped here.
pub(super) fn shortened(text: &str) -> String {
    let mut kept: String = text.chars().take(VALUE_LENGTH_MAX).collect();
    if kept.len() < text.len() {
        kept.push('\u{2026}');
    }
    escape_control(&kept)
}

/// A document as text.
pub(super) fn text_of(document: &Document) -> String {
    text_lines(document, Style::PLAIN).join("\n")
}

/// The data of the script: a row for each point, with the differences of record and time from the row before. It is the
/// content of an element of the page, so it must not contain the end tag of that element.
pub(super) fn script_data<'a>(points: impl Iterator<Item = &'a Point>) -> String {
    let (mut before, mut values) = ((0, 0), BTreeMap::new());
    let mut row = |point: &'a Point| {
        let cells = point.cells.iter().map(|(key, value)| {
            let last = values.insert(kind_of(key), value.as_str()).unwrap_or_default();
            (key.clone(), difference(last, value))
        });
        let cells = Value::Object(cells.collect());
        let (seq, time) = (point.seq - before.0, point.time.saturating_sub(before.1));
        before = (point.seq, point.time.max(before.1));
        Value::Array(vec![seq.into(), time.into(), cells]).to_string()
    };
    let rows: Vec<_> = points.map(&mut row).collect();
    format!("[{}]", rows.join(",\n")).replace('<', "\\u003c")
}

/// The cells that have similar values: those of all steps, and each other one by itself.
fn kind_of(key: &str) -> &str {
    match key.split_at_checked(1) {
        Some((kind @ ("s" | "a" | "w"), number))
            if number.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            kind
        }
        _ => key,
    }
}

/// The least number of code units that a shared start and end are worth.
const SHARED_MIN: usize = 12;

/// A value as its difference from the last value of its kind: how many UTF-16 code units are shared at the start and at
/// the end, and what is between them; or the value, if little is shared.
fn difference(last: &str, value: &str) -> Value {
    let [old, new]: [Vec<u16>; 2] = [last, value].map(|text| text.encode_utf16().collect());
    let start = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let most = old.len().min(new.len()) - start;
    let ends = old.iter().rev().zip(new.iter().rev()).take(most);
    let end = ends.take_while(|(one, other)| one == other).count();
    let middle = new.get(start..new.len() - end).and_then(|units| String::from_utf16(units).ok());
    match middle.filter(|_| start + end >= SHARED_MIN) {
        Some(middle) => serde_json::json!([start, end, middle]),
        None => value.into(),
    }
}
