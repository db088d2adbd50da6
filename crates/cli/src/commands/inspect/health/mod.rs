//! The newest state of a ledger and the health of its log.
//!
//! Invariants: nothing is written, no lock is taken, and damage is reported, not returned as an error.

pub(crate) mod overtaken;
pub(crate) mod read_state;

use std::path::Path;

use plan_ledger::internals::ledger::{Fold, LedgerTime};
use plan_ledger::internals::storage::Access;
use plan_ledger::log::{LogReader, TailVerdict, opening_verdict};
use plan_ledger::{Environment, Error, ErrorKind, LedgerView, Run, State, Timestamp};

use crate::commands::store::source::damage_hint;
use crate::output::{Code, Failure, reader};
use crate::protocol::{error_line_of_view, in_ledger, opening};
use crate::server::Surroundings;
use plan_ledger_views::{
    Contents, FindingLine, HealthLine, KnownRun, damage_text, health_document, lost_lines,
};
pub(crate) use plan_ledger_views::{HealthWord, lost_text, readable_text};

use super::output::Output;
use overtaken::beside_prune;

/// The newest state, and the health of the log.
#[derive(Debug)]
pub(crate) struct LedgerOverview {
    pub(crate) view: LedgerView,
    pub(crate) fold: Fold,
    pub(crate) health: Health,
    pub(crate) now: Timestamp,
    around: Surroundings,
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
        let fold = fold?;
        let now = LedgerTime::of(view.log(), environment).now.max(fold.state.time);
        let around = Surroundings::now(dir, view.log(), &fold.state, now);
        Ok(Self { view, fold, health, now, around })
    }

    /// A run, and all that its views know of it.
    pub(crate) fn known<'a>(&'a self, run: &'a Run) -> KnownRun<'a> {
        let of = (&self.fold.state, run);
        self.around.known(of, self.now, !self.is_good(), reader())
    }

    /// Whether everything that was acknowledged can be read, and nothing of the log is damaged.
    pub(crate) fn is_good(&self) -> bool {
        self.fold.damage.is_empty() && self.fold.unreadable.is_none() && self.health.is_good()
    }

    pub(crate) fn code(&self) -> Code {
        if self.is_good() { Code::Success } else { Code::Damaged }
    }

    /// The first problem, in one line.
    fn first_fault(&self) -> Option<String> {
        let Fold { damage, unreadable, state, .. } = &self.fold;
        let unreadable = || unreadable.clone();
        let what = damage.first().map(damage_text).or_else(unreadable);
        let what = what.or_else(|| self.health.refusal())?;
        let state = readable_text(state.seq, damage, self.fold.unreadable.is_none());
        Some(format!("{state}: {what}; `ledger inspect` shows what is wrong"))
    }

    /// What it contains, for its view.
    pub(crate) fn contents<'a>(&'a self, dir: &'a Path, holder: Option<&'a str>) -> Contents<'a> {
        let Self { view, fold, health, now, .. } = self;
        Contents {
            dir,
            log: view.log(),
            fold,
            end: &health.end,
            opening: opening(&health.end),
            notes: &health.notes,
            refusal: health.refusal(),
            is_good: self.is_good(),
            holder,
            damage_hint: in_ledger(&damage_hint(Some(dir)), dir),
            now: *now,
        }
    }

    /// Prints a JSON line for each damage.
    pub(crate) fn damage_json(&self, dir: &Path, out: &mut Output<'_>) -> Result<(), Failure> {
        let derived = self.fold.derived.iter().map(FindingLine::from);
        let damage = self.fold.damage.iter().map(FindingLine::from);
        let mut lines = lost_lines(&self.fold.state, dir).chain(derived).chain(damage);
        lines.try_for_each(|line| out.json(&line))
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
            opening: opening(&self.end),
            status: HealthWord::of(is_good),
        })
    }

    /// The reason why a writer could not open the log, in one line.
    pub(crate) fn refusal(&self) -> Option<String> {
        let error = self.end.as_ref().err().filter(|_| !self.is_good())?;
        Some(format!("it cannot be opened for writing: {}", error_line_of_view(error)))
    }

    pub(crate) fn print(&self, out: &mut Output<'_>) -> Result<(), Failure> {
        out.document(&health_document(self.refusal(), &self.notes))
    }
}

fn notes(log: &LogReader) -> Vec<String> {
    let mut notes: Vec<_> = first_record_note(log).into_iter().collect();
    if log.head().is_some() && !log.head_slots().are_whole() {
        let slots = log.head_slots();
        let what = if slots.are_valid() && slots.are_damaged() {
            "a copy in a slot of HEAD is damaged; the newest valid one counts"
        } else if slots.are_valid() {
            "a write of HEAD was interrupted; the newest copy counts"
        } else {
            "one of the two slots of HEAD is not valid: a write of it was interrupted, or it is \
             damaged; the other one counts"
        };
        notes.push(what.to_owned());
    }
    for name in log.unknown_files() {
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
    let by = &note.by;
    let kept = match &note.archive {
        Some(archive) => format!("the last of them are in the archive {}", archive.file),
        None => "the last of them were not archived".to_owned(),
    };
    Some(format!("records 1 to {before} were pruned, most recently by {by}; {kept}"))
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
