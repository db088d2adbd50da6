//! Which records a view of the log shows: the names and times of its arguments, resolved.

use std::collections::BTreeMap;

use plan_ledger::internals::ledger::{Kind, RUN_STREAMS, expect_valid};
use plan_ledger::log::{LogItem, LoggedRecord};
use plan_ledger::plan::parse_number;
use plan_ledger::{Event, LedgerView, RunId, StepNumber, Timestamp};
use plan_ledger_views::{RecordContent, event_subject};

use crate::output::{Code, Failure, parse_since};
use crate::protocol::Missing;
use crate::requests::default_run;

use super::health::Health;
use super::lookup::{no_run, not_found, step_of};

/// The number of a kind of record, which a text names.
pub(super) fn kind(text: &str) -> Result<u16, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    number.or_else(|| Kind::named(text).map(Kind::number)).ok_or_else(|| {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        format!("there is no such kind; expected a number, or one of {}", names.join(", "))
    })
}

/// The time that a text names.
pub(super) fn time(text: Option<&String>, now: Timestamp) -> Result<Option<Timestamp>, Failure> {
    let read = |text: &String| {
        parse_since(text, now).ok_or_else(|| {
            Failure::Usage(format!(
                "expected a time (22:00, 2026-11-21T03:38:36Z, or how long ago: 90m, 2d), found {text}"
            ))
        })
    };
    text.map(read).transpose()
}

/// Whether a scan continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanControl {
    More,
    Stop,
}

/// The records that are wanted.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    pub(super) kinds: Vec<u16>,
    pub(super) run: Option<RunId>,
    pub(super) step: Option<StepNumber>,
    pub(super) reverse: bool,
    pub(super) limit: u64,
    pub(super) follow: bool,
}

impl Filter {
    /// Whether to continue after the last matching record.
    pub(super) fn beyond(&self) -> ScanControl {
        if self.reverse { ScanControl::More } else { ScanControl::Stop }
    }

    /// Whether to continue at a record outside the range; `None` for a record inside.
    pub(super) fn place(&self, record: &LoggedRecord) -> Option<ScanControl> {
        // Sequence numbers and times never decrease.
        if record.seq > self.to || record.time > self.until {
            return Some(self.beyond());
        }
        if record.seq < self.from || record.time < self.since {
            return Some(if self.reverse { ScanControl::Stop } else { ScanControl::More });
        }
        None
    }

    /// Whether a record in the range matches.
    pub(super) fn wants(&self, record: &LoggedRecord, content: &RecordContent) -> bool {
        let step = match content {
            RecordContent::Event(event) => event_subject(event).1,
            _ => None,
        };
        (self.kinds.is_empty() || self.kinds.contains(&record.kind))
            && (self.run.is_none() || content.run() == self.run)
            && (self.step.is_none() || step == self.step)
    }
}

/// The names of the runs that may have lost their first record in a prune.
pub(super) fn known_runs(view: &LedgerView) -> Result<BTreeMap<RunId, String>, Failure> {
    if view.log().first_seq() == 1 {
        return Ok(BTreeMap::new());
    }
    let runs = view.fold(u64::MAX)?.state.runs;
    Ok(runs.overviews().map(|(id, overview)| (id, overview.name.clone())).collect())
}

/// The run and the step of those names; a step without a run is one of the default run.
pub(super) fn subject(
    view: &LedgerView,
    (run, step): (Option<&str>, Option<&str>),
    health: &Health,
) -> Result<(Option<RunId>, Option<StepNumber>), Failure> {
    let run = match (run, step) {
        (Some(text), _) => Some(run_of(view, text, health)?),
        (None, Some(_)) => default_run(&view.fold(u64::MAX)?.state)?,
        (None, None) => None,
    };
    let step = match (step, run) {
        (Some(text), Some(run)) => Some(step_in(view, run, text, health)?),
        _ => None,
    };
    Ok((run, step))
}

/// The number of the run of that name, or of that number (`#3`).
fn run_of(view: &LedgerView, text: &str, health: &Health) -> Result<RunId, Failure> {
    let mut names = Vec::new();
    let number = parse_number(text).map(RunId);
    // No name looks like a number. The other runs need not be read.
    if let Some(run) = number.filter(|run| is_started(view, *run)) {
        return Ok(run);
    }
    let mut numbered = None;
    for (id, name) in known_runs(view)? {
        if name == text {
            return Ok(id);
        }
        if number == Some(id) {
            numbered = number;
        }
        names.push(name);
    }
    let mut is_good = health.is_good();
    for item in view.log().walk_of_kind(Kind::RunStarted.number(), 1) {
        match item? {
            LogItem::Damage(_) => is_good = false,
            LogItem::OpenEnd { .. } | LogItem::DerivedDamage(_) => {}
            LogItem::Record(record, _) if record.kind != Kind::RunStarted.number() => {}
            LogItem::Record(record, _) => {
                let RecordContent::Event(Event::RunStarted(started)) = RecordContent::of(&record)
                else {
                    is_good = false;
                    continue;
                };
                if started.name == text {
                    return Ok(started.run);
                }
                if number == Some(started.run) {
                    numbered = number;
                }
                names.push(started.name);
            }
        }
    }
    let code = if is_good { Code::Success } else { Code::Damaged };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    numbered.ok_or_else(|| not_found(Missing::Run, no_run(text, &names), code))
}

/// Whether the first record of a run is there and starts it.
fn is_started(view: &LedgerView, run: RunId) -> bool {
    let mut records = view.log().walk_of_stream(u64::from(run.0), RUN_STREAMS, 1);
    let first = records.next();
    matches!(first, Some(Ok(LogItem::Record(record, _))) if record.kind == Kind::RunStarted.number())
}

/// The number of a run's step.
fn step_in(
    view: &LedgerView,
    run: RunId,
    text: &str,
    health: &Health,
) -> Result<StepNumber, Failure> {
    // A number needs no plan, and a run that ended long ago has none in the state.
    if let Some(number) = text.strip_prefix('#').and_then(|number| number.parse().ok()) {
        return Ok(StepNumber(number));
    }
    let code = if health.is_good() { Code::Success } else { Code::Damaged };
    let state = view.fold_recent()?.state;
    let run = state.runs.get(&run);
    expect_valid(&state)?;
    let Some(run) = run else {
        let what = "the run ended long ago, and only its summary is kept: name the step by its \
                    number (#37)";
        return Err(not_found(Missing::Step, what.to_owned(), code));
    };
    step_of(run, text, code)
}
