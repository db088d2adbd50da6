//! What a ledger adds up to, and how well it is.
//!
//! Invariants: nothing is written and no lock is taken; damage is a finding, never an error.

use std::path::Path;

use serde_json::{Value, json};

use plan_ledger::error::{Error, ErrorKind};
use plan_ledger::format::{HeadState, SegmentHeader};
use plan_ledger::ledger::{Environment, Fold, LedgerView};
use plan_ledger::log::{Damage, DerivedDamage, LogReader, TailVerdict, opening_verdict};
use plan_ledger::plan::{Micros, State};
use plan_ledger::storage::Access;

use crate::output::{Code, Failure, escape_control, escape_path};
use crate::protocol::counted;

use super::output::Output;
use super::style::Paint;

/// A ledger that was looked at from the first record to the last.
#[derive(Debug)]
pub(crate) struct LedgerOverview {
    pub(crate) view: LedgerView,
    pub(crate) fold: Fold,
    pub(crate) health: Health,
    pub(crate) now: Micros,
}

/// The newest state, for whoever shows nothing of how well the ledger is, and why it may not be all
/// that was acknowledged.
pub(crate) fn newest_state(
    dir: &Path,
    environment: &Environment,
) -> Result<(State, Option<String>), Failure> {
    let survey = LedgerOverview::recent(dir, environment)?;
    let unread = survey.first_fault();
    Ok((survey.fold.state, unread))
}

/// How well the log is, beyond the damage that a walk names.
#[derive(Debug)]
pub(crate) struct Health {
    /// With which verdict it would be opened for writing now, or why it would be refused.
    pub(crate) end: Result<TailVerdict, Error>,
    /// Things that a person should know and that are no damage.
    pub(crate) notes: Vec<String>,
}

impl LedgerOverview {
    /// The newest state alone: records before the newest good snapshot are not read.
    pub(crate) fn recent(dir: &Path, environment: &Environment) -> Result<Self, Failure> {
        let view = LedgerView::open(dir, environment)?;
        let (fold, health) = Health::beside(&view, dir, environment, || view.fold_recent())?;
        Ok(Self { fold: fold?, view, health, now: environment.clock.now() })
    }

    /// Whether everything that was acknowledged can be read.
    pub(crate) fn is_good(&self) -> bool {
        self.fold.damage.is_empty() && self.fold.unreadable.is_none() && self.health.is_good()
    }

    pub(crate) fn code(&self) -> Code {
        if self.is_good() { Code::Fine } else { Code::Damaged }
    }

    /// In one line what is wrong, or the first of it.
    fn first_fault(&self) -> Option<String> {
        let Fold { damage, unreadable, state, .. } = &self.fold;
        let unreadable = || unreadable.as_deref().map(escape_control);
        let what = damage.first().map(damage_text).or_else(unreadable);
        let what = what.or_else(|| self.health.refusal())?;
        let seq = state.seq;
        Some(format!(
            "not all of the ledger can be read, and this is its state after record {seq}: {what}; \
             `ledger inspect` shows what is wrong"
        ))
    }

    /// What is wrong, for people; nothing if all is well.
    pub(crate) fn print_damage(&self, out: &mut Output<'_>) -> Result<(), Failure> {
        for damage in &self.fold.damage {
            out.painted(Paint::Bad, &format!("damage: {}", damage_text(damage)))?;
        }
        for damage in &self.fold.derived {
            out.painted(Paint::Notice, &derived_text(damage))?;
        }
        if self.fold.after_damage > 0 {
            let records = counted(self.fold.after_damage, "intact record");
            let text = format!(
                "{records} behind the damage: `records` shows them, no state can be built on them"
            );
            out.painted(Paint::Notice, &text)?;
        }
        if let Some(seq) = self.fold.from_snapshot {
            let text =
                format!("behind the damage the state goes on from a snapshot at record {seq}");
            out.painted(Paint::Notice, &text)?;
        }
        for ignored in &self.fold.ignored_snapshots {
            out.painted(Paint::Notice, &format!("snapshot not used: {}", escape_control(ignored)))?;
        }
        if let Some(unreadable) = &self.fold.unreadable {
            let text = format!("the state ends early: {}", escape_control(unreadable));
            out.painted(Paint::Bad, &text)?;
        }
        self.health.print(out)
    }

    /// What is wrong, as JSON lines and the fields of a summary.
    pub(crate) fn damage_json(&self, out: &mut Output<'_>) -> Result<(), Failure> {
        let derived = |damage| out.json("derived_damage", &derived_json(damage));
        self.fold.derived.iter().try_for_each(derived)?;
        self.fold.damage.iter().try_for_each(|damage| out.json("damage", &damage_json(damage)))
    }

    /// The fields of a summary that tell how well the ledger is.
    pub(crate) fn health_json(&self) -> Value {
        let word = if self.is_good() { "good" } else { "damaged" };
        json!({
            "status": word,
            "damage": self.fold.damage.len(),
            "behind_damage": self.fold.after_damage,
            "unproven": self.fold.unproven,
            "unreadable": self.fold.unreadable,
            "opening": self.health.opening_json(),
            "notes": self.health.notes,
            "read_from": self.fold.read_from(),
        })
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
        Ok(Self { end, notes: notes(log) })
    }

    /// The same, looked at by another thread while this one does something else: both read much.
    pub(crate) fn beside<T>(
        view: &LedgerView,
        dir: &Path,
        environment: &Environment,
        work: impl FnOnce() -> T,
    ) -> Result<(T, Self), Failure> {
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| Self::of(view.log(), dir, environment));
            let done = work();
            // Its panic goes on here.
            let health = looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((done, health))
        })
    }

    pub(crate) fn is_good(&self) -> bool {
        // That an archive is not written to is no fault of it.
        self.end.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::Rejected)
    }

    /// What the end of the log is, in a word.
    pub(crate) fn opening(&self) -> &'static str {
        match &self.end {
            Ok(TailVerdict::Clean) => "clean",
            Ok(TailVerdict::Unproven) => "unproven_tail",
            Ok(_) => "torn",
            Err(_) => "refused",
        }
    }

    pub(crate) fn opening_json(&self) -> Value {
        let refusal = self.end.as_ref().err().map(ToString::to_string);
        json!({ "verdict": self.opening(), "refusal": refusal })
    }

    /// The last line of a command that lists things.
    pub(crate) fn json_line(&self, is_good: bool, out: &mut Output<'_>) -> Result<(), Failure> {
        out.json(
            "health",
            &json!({
                "status": if is_good { "good" } else { "damaged" },
                "opening": self.opening_json(),
                "notes": self.notes,
            }),
        )
    }

    /// Why it would not be opened for writing, in one line.
    pub(crate) fn refusal(&self) -> Option<String> {
        let error = self.end.as_ref().err().filter(|_| !self.is_good())?;
        Some(format!("opening it for writing is refused: {}", escape_control(&error.to_string())))
    }

    pub(crate) fn print(&self, out: &mut Output<'_>) -> Result<(), Failure> {
        if let Some(refusal) = self.refusal() {
            out.painted(Paint::Bad, &refusal)?;
        }
        self.notes.iter().try_for_each(|note| out.painted(Paint::Notice, &format!("note: {note}")))
    }
}

fn notes(log: &LogReader) -> Vec<String> {
    let mut notes: Vec<_> = beginning(log).into_iter().collect();
    if log.head().is_some() && !log.head_view().is_whole() {
        notes.push(
            "one of the two slots of HEAD is not valid: a write of it was cut short, or it is \
             damaged; the other one counts"
                .to_owned(),
        );
    }
    for name in log.unknown_files() {
        let name = escape_control(name);
        let is_unfinished = name.strip_suffix(".tmp").is_some();
        notes.push(if is_unfinished {
            format!("log/{name}: a segment that never got its name; opening the ledger removes it")
        } else {
            format!("log/{name}: this file does not belong there; it is left alone")
        });
    }
    notes
}

/// Why the log does not begin at record 1, if so.
pub(crate) fn beginning(log: &LogReader) -> Option<String> {
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
        None => "the last of them were given up".to_owned(),
    };
    Some(format!("records 1 to {before} were pruned, lastly by {by}; {kept}"))
}

/// A damage in one line: file, bytes, records, what.
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

/// A damage's fields.
pub(crate) fn damage_json(damage: &Damage) -> Value {
    let Damage { path, offset, end, first_seq, last_seq, what } = damage;
    let missing = (last_seq + 1).saturating_sub(*first_seq);
    json!({
        "path": path.display().to_string(),
        "offset": offset,
        "end": end,
        "first_seq": first_seq,
        "last_seq": last_seq,
        "missing": missing,
        "what": what,
    })
}

/// Damage that costs no record in one line.
pub(crate) fn derived_text(damage: &DerivedDamage) -> String {
    let DerivedDamage { path, offset, end, what } = damage;
    let (path, what) = (escape_path(path), escape_control(what));
    format!("derived damage: {path}: bytes {offset} to {end}: {what}; every record is read without")
}

/// Its fields.
pub(crate) fn derived_json(damage: &DerivedDamage) -> Value {
    let DerivedDamage { path, offset, end, what } = damage;
    json!({ "path": path.display().to_string(), "offset": offset, "end": end, "what": what })
}

/// What the last writer said about itself, in a word and for people.
pub(crate) fn head_state(log: &LogReader) -> (&'static str, &'static str) {
    match log.head().map(|head| head.state) {
        Some(HeadState::Open) => ("open", "a process has it open, or was killed"),
        Some(HeadState::Clean) => ("closed", "closed cleanly"),
        Some(HeadState::Poisoned) => ("poisoned", "a write or sync failed; open it again to go on"),
        None => ("unknown", "HEAD is missing or damaged"),
    }
}

/// The text that the last writer left for people who ask who it is.
pub(crate) fn holder(dir: &Path, environment: &Environment) -> Option<String> {
    let file = environment.storage.open(&dir.join("LOCK"), Access::Read).ok()?;
    let mut bytes = vec![0; HOLDER_LENGTH_MAX];
    let length = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(length);
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// How much of the lock file is read.
const HOLDER_LENGTH_MAX: usize = 1024;

/// A segment's header that can be read.
pub(crate) fn any_header(log: &LogReader) -> Option<SegmentHeader> {
    log.segments().into_iter().find_map(|segment| segment.header.ok())
}
