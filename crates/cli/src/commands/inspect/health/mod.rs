//! The newest state of a ledger and the health of its log.
//!
//! Invariants: nothing is written, no lock is taken, and damage is reported, not returned as an error.

pub(crate) mod overtaken;
pub(crate) mod read_state;

use std::path::Path;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::format::{HeadState, SegmentHeader};
use plan_ledger::internals::ledger::{Fold, LedgerTime};
use plan_ledger::internals::storage::Access;
use plan_ledger::log::{Damage, DerivedDamage, LogReader, TailVerdict, opening_verdict};
use plan_ledger::{Environment, Error, ErrorKind, LedgerView, Run, State, Timestamp};

use crate::commands::store::source::damage_hint;
use crate::output::{Code, Failure, escape_control, escape_path};
use crate::protocol::{OpeningJson, counted, error_line, lost_records_text};
use crate::runner::{gone_claims, runner_waits};
use crate::server::RunnerStatus;
use plan_ledger_views::{GoneClaim, RunActivity, RunnerWait};

use super::next_action::Surroundings;
use super::output::Output;
use crate::output::render::Paint;
use overtaken::beside_prune;

/// The newest state, and the health of the log.
#[derive(Debug)]
pub(crate) struct LedgerOverview {
    pub(crate) view: LedgerView,
    pub(crate) fold: Fold,
    pub(crate) health: Health,
    pub(crate) now: Timestamp,
    pub(crate) runner: RunnerStatus,
    /// The claims of processes that are gone.
    pub(crate) dead: Vec<GoneClaim>,
    /// The waits of runners.
    waits: Vec<RunnerWait>,
}

/// The newest state, and the reason if it may lack acknowledged records.
pub(crate) fn newest_state(
    dir: &Path,
    environment: &Environment,
) -> Result<(State, Option<String>), Failure> {
    let overview = LedgerOverview::recent(dir, environment)?;
    let unread = overview.first_fault();
    Ok((overview.fold.state, unread))
}

/// The health of the log apart from the damage that a scan reports.
#[derive(Debug)]
pub(crate) struct Health {
    /// The verdict of opening the log for writing, or the error.
    pub(crate) end: Result<TailVerdict, Error>,
    /// Notes that are not damage.
    pub(crate) notes: Vec<String>,
}

impl LedgerOverview {
    /// Reads the newest state. Records before the newest valid snapshot are not read.
    pub(crate) fn recent(dir: &Path, environment: &Environment) -> Result<Self, Failure> {
        beside_prune(|| Self::of_now(dir, environment))
    }

    fn of_now(dir: &Path, environment: &Environment) -> Result<Self, Failure> {
        let view = LedgerView::open(dir, environment)?;
        let (fold, health) = Health::check_while(&view, dir, environment, || view.fold_recent())?;
        let runner = RunnerStatus::of(dir, view.log());
        let fold = fold?;
        let now = LedgerTime::of(view.log(), environment).now.max(fold.state.time);
        let dead = gone_claims(dir, &fold.state);
        let waits = runner_waits(dir, &fold.state, now, || runner.is_absent());
        Ok(Self { view, fold, health, now, runner, dead, waits })
    }

    /// The inputs of the next actions.
    pub(crate) fn surroundings<'a>(&'a self, dir: &'a Path) -> Surroundings<'a> {
        let Self { now, runner, dead, waits, .. } = self;
        Surroundings { dir, now: *now, runner, dead, waits, is_damaged: !self.is_good() }
    }

    /// How a run stands.
    pub(crate) fn activity(&self, run: &Run, dir: &Path) -> RunActivity {
        self.surroundings(dir).activity(&self.fold.state, run)
    }

    /// Whether everything that was acknowledged can be read.
    pub(crate) fn is_good(&self) -> bool {
        self.fold.damage.is_empty() && self.fold.unreadable.is_none() && self.health.is_good()
    }

    pub(crate) fn code(&self) -> Code {
        if self.is_good() { Code::Success } else { Code::Damaged }
    }

    /// The first problem, in one line.
    fn first_fault(&self) -> Option<String> {
        let Fold { damage, unreadable, state, .. } = &self.fold;
        let unreadable = || unreadable.as_deref().map(escape_control);
        let what = damage.first().map(damage_text).or_else(unreadable);
        let what = what.or_else(|| self.health.refusal())?;
        let seq = state.seq;
        Some(format!(
            "not all of the ledger can be read; this is the state after record {seq}: {what}; \
             `ledger inspect` shows what is wrong"
        ))
    }

    /// Prints all problems.
    pub(crate) fn print_damage(&self, out: &mut Output<'_>) -> Result<(), Failure> {
        if let Some(text) = lost_text(&self.fold.state) {
            out.painted(Paint::Notice, &text)?;
        }
        for damage in &self.fold.damage {
            out.painted(Paint::Bad, &format!("damage: {}", damage_text(damage)))?;
        }
        for damage in &self.fold.derived {
            out.painted(Paint::Notice, &derived_text(damage))?;
        }
        if self.fold.after_damage > 0 {
            let records = counted(self.fold.after_damage, "intact record");
            let text = format!(
                "{records} after the damage: `records` shows them, but they are not part of the state"
            );
            out.painted(Paint::Notice, &text)?;
        }
        if let Some(seq) = self.fold.from_snapshot {
            let text =
                format!("after the damage the state continues from a snapshot at record {seq}");
            out.painted(Paint::Notice, &text)?;
        }
        for ignored in &self.fold.ignored_snapshots {
            out.painted(Paint::Notice, &format!("snapshot not used: {}", escape_control(ignored)))?;
        }
        if let Some(unreadable) = &self.fold.unreadable {
            let text = format!("the state ends early: {}", escape_control(unreadable));
            out.painted(Paint::Bad, &text)?;
        }
        self.health.print(out)?;
        if self.is_good() {
            return Ok(());
        }
        out.line(&format!("to continue: {}", damage_hint(Some(self.view.log().dir()))))
    }

    /// Prints a JSON line for each damage.
    pub(crate) fn damage_json(&self, out: &mut Output<'_>) -> Result<(), Failure> {
        lost_lines(&self.fold.state).try_for_each(|line| out.json(&line))?;
        self.fold.derived.iter().try_for_each(|each| out.json(&DerivedDamageLine::from(each)))?;
        self.fold.damage.iter().try_for_each(|each| out.json(&DamageLine::from(each)))
    }

    /// The health as JSON.
    pub(crate) fn health_json(&self) -> LedgerHealthJson<'_> {
        LedgerHealthJson {
            after_damage: self.fold.after_damage,
            damage: self.fold.damage.len(),
            notes: &self.health.notes,
            opening: (&self.health.end).into(),
            read_from: self.fold.read_from(),
            status: HealthWord::of(self.is_good()),
            unacknowledged: self.fold.unacknowledged,
            unreadable: self.fold.unreadable.as_deref(),
        }
    }
}

impl Health {
    pub(crate) fn of(
        log: &LogReader,
        dir: &Path,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let end = match opening_verdict(&*environment.storage, dir) {
            Err(error) if error.kind() == ErrorKind::Io => return Err(error.into()),
            end => end,
        };
        let mut notes = notes(log);
        notes.extend(LedgerTime::of(log, environment).difference());
        Ok(Self { end, notes })
    }

    /// Checks the health on another thread while `work` runs, since both read many bytes.
    pub(crate) fn check_while<T>(
        view: &LedgerView,
        dir: &Path,
        environment: &Environment,
        work: impl FnOnce() -> T,
    ) -> Result<(T, Self), Failure> {
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| Self::of(view.log(), dir, environment));
            let done = work();
            let health = looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((done, health))
        })
    }

    pub(crate) fn is_good(&self) -> bool {
        // An archive is read-only; that is not a fault.
        self.end.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::Rejected)
    }

    /// Writes the last JSON line of a view of the log.
    pub(crate) fn json_line(&self, is_good: bool, out: &mut Output<'_>) -> Result<(), Failure> {
        out.json(&HealthLine {
            notes: &self.notes,
            opening: (&self.end).into(),
            status: HealthWord::of(is_good),
        })
    }

    /// The reason why a writer could not open the log, in one line.
    pub(crate) fn refusal(&self) -> Option<String> {
        let error = self.end.as_ref().err().filter(|_| !self.is_good())?;
        Some(format!("it cannot be opened for writing: {}", escape_control(&error_line(error))))
    }

    pub(crate) fn print(&self, out: &mut Output<'_>) -> Result<(), Failure> {
        if let Some(refusal) = self.refusal() {
            out.painted(Paint::Bad, &refusal)?;
        }
        self.notes.iter().try_for_each(|note| out.painted(Paint::Notice, &format!("note: {note}")))
    }
}

fn notes(log: &LogReader) -> Vec<String> {
    let mut notes: Vec<_> = first_record_note(log).into_iter().collect();
    if log.head().is_some() && !log.head_slots().is_whole() {
        notes.push(
            "one of the two slots of HEAD is not valid: a write of it was interrupted, or it is \
             damaged; the other one counts"
                .to_owned(),
        );
    }
    for name in log.unknown_files() {
        let name = escape_control(name);
        let is_unfinished = name.strip_suffix(".tmp").is_some();
        notes.push(if is_unfinished {
            format!("log/{name}: an unfinished segment; opening the ledger removes it")
        } else {
            format!("log/{name}: this file does not belong here; it is ignored")
        });
    }
    notes
}

/// The reason why the log does not begin at record 1, if it does not.
pub(crate) fn first_record_note(log: &LogReader) -> Option<String> {
    let first = log.first_seq();
    if first == 1 {
        return None;
    }
    let before = first - 1;
    let Some(note) = log.retention().map(|retention| &retention.note) else {
        return Some(format!("records 1 to {before} are in an earlier archive"));
    };
    let by = escape_control(&note.by);
    let kept = match &note.archive {
        Some(archive) => {
            format!("the last of them are in the archive {}", escape_control(&archive.file))
        }
        None => "the last of them were not archived".to_owned(),
    };
    Some(format!("records 1 to {before} were pruned, most recently by {by}; {kept}"))
}

/// The recorded losses of a salvaged ledger, for people; `None` if there are none.
pub(crate) fn lost_text(state: &State) -> Option<String> {
    let ranges: Vec<(u64, u64)> = state.lost.iter().map(|(first, last)| (*first, *last)).collect();
    if ranges.is_empty() {
        return None;
    }
    let text = lost_records_text(&ranges);
    Some(format!(
        "not complete: {text}; a step shows what the remaining records say about it: check those \
         that were at work then"
    ))
}

/// A JSON line for each recorded loss.
pub(crate) fn lost_lines(state: &State) -> impl Iterator<Item = LostLine> {
    state.lost.iter().map(|(first, last)| LostLine { first_seq: *first, last_seq: *last })
}

/// Records that were lost before the ledger was salvaged: it is consistent, but not complete.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct LostLine {
    /// The first lost record.
    first_seq: u64,
    /// The last lost record.
    last_seq: u64,
}

/// A damage in one line: file, bytes, records, problem.
pub(crate) fn damage_text(damage: &Damage) -> String {
    let Damage { path, offset, end, first_seq, last_seq, what } = damage;
    let path = escape_path(path);
    let records = match last_seq.checked_sub(*first_seq) {
        Some(0) => format!("record {first_seq} is missing"),
        Some(_) => format!("records {first_seq} to {last_seq} are missing"),
        None => "no record is known to be missing".to_owned(),
    };
    format!("{path}: bytes {offset} to {end}: {records}: {}", escape_control(what))
}

/// Derived damage, which affects no record, in one line.
pub(crate) fn derived_text(damage: &DerivedDamage) -> String {
    let DerivedDamage { path, offset, end, what } = damage;
    let (path, what) = (escape_path(path), escape_control(what));
    format!(
        "derived damage: {path}: bytes {offset} to {end}: {what}; every record can be read without it"
    )
}

/// Damage: records that cannot be read.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct DamageLine<'a> {
    /// The offset of the next readable record, or of the segment's logical end.
    end: u64,
    /// The first missing record.
    first_seq: u64,
    /// The last missing record, as far as known.
    last_seq: u64,
    /// The number of missing records.
    missing: u64,
    /// The start of the damage.
    offset: u64,
    /// The file.
    path: String,
    /// The problem.
    what: &'a str,
}

impl<'a> From<&'a Damage> for DamageLine<'a> {
    fn from(damage: &'a Damage) -> Self {
        let Damage { path, offset, end, first_seq, last_seq, what } = damage;
        Self {
            end: *end,
            first_seq: *first_seq,
            last_seq: *last_seq,
            missing: (last_seq + 1).saturating_sub(*first_seq),
            offset: *offset,
            path: path.display().to_string(),
            what,
        }
    }
}

/// Damage of bytes that are derived from records. Every record can be read without them.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct DerivedDamageLine<'a> {
    /// The end of the index or footer.
    end: u64,
    /// The start of the index or footer.
    offset: u64,
    /// The file.
    path: String,
    /// The problem.
    what: &'a str,
}

impl<'a> From<&'a DerivedDamage> for DerivedDamageLine<'a> {
    fn from(damage: &'a DerivedDamage) -> Self {
        let DerivedDamage { path, offset, end, what } = damage;
        Self { end: *end, offset: *offset, path: path.display().to_string(), what }
    }
}

/// The health of a ledger.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct LedgerHealthJson<'a> {
    /// The number of intact records after the damage.
    after_damage: u64,
    /// The number of damaged places.
    damage: usize,
    /// Unusual facts that are not damage, for people.
    notes: &'a [String],
    /// The result of opening the ledger for writing now.
    opening: OpeningJson,
    /// The first record that was read.
    read_from: u64,
    /// Whether everything that was acknowledged can be read.
    status: HealthWord,
    /// The number of intact records after the durable end in HEAD.
    unacknowledged: u64,
    /// Why the state ends early; null if it does not.
    unreadable: Option<&'a str>,
}

/// The health of the log.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct HealthLine<'a> {
    /// Unusual facts that are not damage, for people.
    notes: &'a [String],
    /// The result of opening the ledger for writing now.
    opening: OpeningJson,
    /// Whether everything that was acknowledged can be read.
    status: HealthWord,
}

/// Whether everything that was acknowledged can be read.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum HealthWord {
    /// It can.
    Good,
    /// It cannot.
    Damaged,
}

impl HealthWord {
    pub(crate) fn of(is_good: bool) -> Self {
        if is_good { Self::Good } else { Self::Damaged }
    }
}

/// The writer/// The writer's state in HEAD, as a JSON word and as text.
pub(crate) fn head_state(log: &LogReader) -> (&'static str, &'static str) {
    match log.head().map(|head| head.state) {
        Some(HeadState::Open) => ("open", "open in a process, or the process was killed"),
        Some(HeadState::Clean) => ("closed", "closed cleanly"),
        Some(HeadState::Poisoned) => ("poisoned", "a write or sync failed; reopen the ledger"),
        None => ("unknown", "HEAD is missing or damaged"),
    }
}

/// The description of the last writer in the lock file.
pub(crate) fn holder(dir: &Path, environment: &Environment) -> Option<String> {
    let file = environment.storage.open(&dir.join("LOCK"), Access::Read).ok()?;
    let mut bytes = vec![0; HOLDER_LENGTH_MAX];
    let length = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(length);
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

const HOLDER_LENGTH_MAX: usize = 1024;

/// The first segment header that can be read.
pub(crate) fn any_header(log: &LogReader) -> Option<SegmentHeader> {
    log.segments().into_iter().find_map(|segment| segment.header.ok())
}
