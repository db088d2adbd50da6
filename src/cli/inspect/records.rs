//! `ledger inspect DIR records`: the log, one line for each record, damage where it stands.
//!
//! Invariants: memory does not grow with the log; only the names of runs are kept.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cli::exit::{Code, Failure};
use crate::format::SKIPPABLE_KINDS_FROM;
use crate::ledger::{Environment, Kind, LedgerView, decode, time_text};
use crate::log::{
    Damage, GapNote, Item, LoggedRecord, Proof, RecoveryNote, Retention, RetentionNote,
    SnapshotNote,
};
use crate::plan::{Event, Run, RunId};

use super::event_json::{event_json, note_json};
use super::page::{Page, time_json};
use super::phrase::{gap_text, note, phrase, pruned_text, snapshot_text, subject};
use super::reference::{no_run, not_found};
use super::survey::{Health, damage_json, damage_text, derived_json, derived_text};
use super::text::{Paint, counted, plain, plain_path};
use super::{Form, InspectArgs, RecordsArgs};

/// What a record's payload turned out to be.
#[derive(Debug)]
pub(super) enum Content {
    /// Something happened.
    Event(Event),
    /// A fence was made.
    Note(RecoveryNote),
    /// A record that a salvage could not take over.
    Gap(GapNote),
    /// The state was kept.
    Snapshot(SnapshotNote),
    /// Records were pruned.
    Pruned(RetentionNote),
    /// A kind that this program does not know and may pass over.
    Skipped,
    /// It cannot be read, for this reason.
    Unreadable(String),
}

impl Content {
    pub(super) fn of(record: &LoggedRecord) -> Self {
        match decode(record) {
            Ok(Some(event)) => Self::Event(event),
            Ok(None) if record.kind == Kind::RecoveryNote.number() => {
                match RecoveryNote::decode(&record.payload) {
                    Some(note) => Self::Note(note),
                    None => Self::Unreadable("a recovery note that cannot be read".to_owned()),
                }
            }
            Ok(None) if record.kind == Kind::Gap.number() => match GapNote::decode(&record.payload)
            {
                Some(gap) => Self::Gap(gap),
                None => Self::Unreadable("a gap that cannot be read".to_owned()),
            },
            Ok(None) if record.kind == Kind::RetentionNote.number() => {
                let note =
                    Retention::in_record(record).map(|retention| Self::Pruned(retention.note));
                let what = "a retention note that breaks a rule";
                note.unwrap_or_else(|| Self::Unreadable(what.to_owned()))
            }
            Ok(None) => SnapshotNote::in_record(record).map_or(Self::Skipped, Self::Snapshot),
            Err(error) => Self::Unreadable(error.to_string()),
        }
    }

    fn run(&self) -> Option<RunId> {
        match self {
            Self::Event(event) => subject(event).0,
            _ => None,
        }
    }
}

/// What a record means, for who reads an export.
pub(in crate::cli) fn meaning(record: &LoggedRecord) -> Option<Value> {
    let (content, fields) = match Content::of(record) {
        Content::Event(event) => (kind_name(record.kind), event_json(&event)),
        Content::Note(note) => (kind_name(record.kind), note_json(&note)),
        Content::Gap(gap) => (kind_name(record.kind), json!(gap)),
        Content::Snapshot(note) => (kind_name(record.kind), json!(note)),
        Content::Pruned(note) => (kind_name(record.kind), json!(note)),
        Content::Skipped | Content::Unreadable(_) => return None,
    };
    Some(json!({ content: fields }))
}

/// A kind's name, or its number where it has none.
pub(super) fn kind_name(number: u16) -> String {
    Kind::from_number(number)
        .map_or_else(|| format!("{number:#06x}"), |kind| kind.name().to_owned())
}

/// A record's fields.
pub(super) fn record_json(record: &LoggedRecord, proof: Proof, content: &Content) -> Value {
    let (event, unreadable) = match content {
        Content::Event(event) => (event_json(event), None),
        Content::Note(note) => (note_json(note), None),
        Content::Gap(gap) => (json!(gap), None),
        Content::Snapshot(note) => (json!(note), None),
        Content::Pruned(note) => (json!(note), None),
        Content::Skipped => (Value::Null, None),
        Content::Unreadable(why) => (Value::Null, Some(why)),
    };
    json!({
        "seq": record.seq,
        "time": time_json(record.time),
        "kind": kind_name(record.kind),
        "kind_number": record.kind,
        "kind_schema": record.schema,
        "proof": proof_word(proof),
        "batch_left": record.batch_left,
        "chain": record.chain.to_string(),
        "segment": record.segment,
        "offset": record.offset,
        "size": record.size,
        "event": event,
        "unreadable": unreadable,
    })
}

fn proof_word(proof: Proof) -> &'static str {
    match proof {
        Proof::Proven => "proven",
        Proof::BehindDamage => "behind_damage",
        Proof::Unproven => "unproven",
    }
}

/// What was seen so far.
#[derive(Debug, Default)]
struct Seen {
    runs: BTreeMap<RunId, String>,
    shown: u64,
    damage: u64,
    unproven: u64,
    unreadable: u64,
    last_seq: u64,
}

pub(super) fn records(
    args: &InspectArgs,
    what: &RecordsArgs,
    form: Form,
    environment: &Environment,
    page: &mut Page<'_>,
) -> Result<Code, Failure> {
    let to = what.to.unwrap_or(u64::MAX);
    if to < what.from {
        let message = format!("--to {to} is before --from {}: nothing lies between", what.from);
        return Err(Failure::Usage(message));
    }
    let view = LedgerView::open(&args.dir, environment)?;
    let health = Health::of(view.log(), &args.dir, environment)?;
    let run = what.run.as_ref().map(|text| run_of(&view, text, &health)).transpose()?;
    let runs = known_runs(&view)?.into_values().map(|run| (run.id, run.name)).collect();
    let mut seen = Seen { runs, ..Seen::default() };
    for item in view.log().walk(what.from) {
        match item? {
            Item::Record(record, _) if record.seq > to => break,
            Item::Damage(damage) if damage.first_seq > to => break,
            Item::Damage(damage) if damage.last_seq < what.from && is_missing(&damage) => {}
            Item::Damage(damage) => {
                seen.damage += 1;
                print_damage(&damage, form, page)?;
            }
            Item::Derived(damage) => match form {
                Form::Json => page.json("derived_damage", &derived_json(&damage))?,
                Form::Text => page.painted(Paint::Notice, &derived_text(&damage))?,
            },
            Item::OpenEnd { path, offset, fault } => match form {
                Form::Json => page.json(
                    "open_end",
                    &json!({
                        "path": path.display().to_string(), "offset": offset,
                        "what": fault.describe(),
                    }),
                )?,
                Form::Text => {
                    let (path, what) = (plain_path(&path), fault.describe());
                    let text = format!(
                        "open end: {path}: byte {offset}: {what}; a write goes on, or was cut short"
                    );
                    page.painted(Paint::Notice, &text)?;
                }
            },
            Item::Record(record, proof) => seen.record(&record, proof, what, run, form, page)?,
        }
    }
    finish(&seen, &health, form, page)
}

fn is_missing(damage: &Damage) -> bool {
    damage.last_seq >= damage.first_seq
}

fn print_damage(damage: &Damage, form: Form, page: &mut Page<'_>) -> Result<(), Failure> {
    match form {
        Form::Json => page.json("damage", &damage_json(damage)),
        Form::Text => page.painted(Paint::Bad, &format!("damage: {}", damage_text(damage))),
    }
}

impl Seen {
    fn record(
        &mut self,
        record: &LoggedRecord,
        proof: Proof,
        what: &RecordsArgs,
        run: Option<RunId>,
        form: Form,
        page: &mut Page<'_>,
    ) -> Result<(), Failure> {
        let content = Content::of(record);
        if let Content::Event(Event::RunStarted(started)) = &content {
            self.runs.insert(started.run, started.name.clone());
        }
        self.last_seq = record.seq;
        self.unproven += u64::from(proof == Proof::Unproven);
        self.unreadable += u64::from(matches!(content, Content::Unreadable(_)));
        let is_kind = what.kind.is_empty() || what.kind.contains(&record.kind);
        let is_run = run.is_none() || content.run() == run;
        if !(is_kind && is_run) {
            return Ok(());
        }
        self.shown += 1;
        match form {
            Form::Json => page.json("record", &record_json(record, proof, &content)),
            Form::Text => {
                let line = self.line(record, proof, &content, page);
                page.line(&line)
            }
        }
    }

    fn line(
        &self,
        record: &LoggedRecord,
        proof: Proof,
        content: &Content,
        page: &Page<'_>,
    ) -> String {
        let style = page.style;
        let of = match content {
            Content::Event(event) => self.subject_text(event),
            _ => String::new(),
        };
        let (paint, text) = content_text(record, content);
        let mark = match proof {
            Proof::Proven => ' ',
            Proof::BehindDamage => '!',
            Proof::Unproven => '?',
        };
        let start = format!(
            "{:>7}{mark} {}  {:<16}  {of:<OF_WIDTH$}",
            record.seq,
            time_text(record.time),
            kind_name(record.kind)
        );
        let columns = super::text::width(&start) + 2;
        format!("{start}  {}", style.paint(paint, &style.fit(&text, columns))).trim_end().to_owned()
    }

    fn subject_text(&self, event: &Event) -> String {
        let (run, step) = subject(event);
        let name = |run: RunId| {
            self.runs.get(&run).map_or_else(|| format!("run {run}"), |name| plain(name))
        };
        match (run.map(name), step) {
            (Some(run), Some(step)) => format!("{run} #{step}"),
            (Some(run), None) => run,
            (None, _) => String::new(),
        }
    }
}

/// Columns that run and step usually take.
const OF_WIDTH: usize = 12;

/// What a record says, and how it stands out.
pub(super) fn content_text(record: &LoggedRecord, content: &Content) -> (Paint, String) {
    match content {
        Content::Event(event) => (Paint::None, phrase(event)),
        Content::Note(recovery) => (Paint::Notice, note(recovery)),
        Content::Gap(gap) => (Paint::Notice, gap_text(gap)),
        Content::Snapshot(note) => (Paint::Faint, snapshot_text(note)),
        Content::Pruned(note) => (Paint::Notice, pruned_text(note)),
        Content::Skipped => {
            let text = format!(
                "{} bytes of a kind that this program does not know (kinds from \
                 {SKIPPABLE_KINDS_FROM:#06x} may be passed over)",
                record.payload.len()
            );
            (Paint::Faint, text)
        }
        Content::Unreadable(why) => (Paint::Bad, plain(why)),
    }
}

/// The runs whose first record may have been pruned.
fn known_runs(view: &LedgerView) -> Result<BTreeMap<RunId, Run>, Failure> {
    if view.log().first_seq() == 1 {
        return Ok(BTreeMap::new());
    }
    Ok(view.fold(u64::MAX)?.state.runs)
}

/// The number of the run of that name, or else of that number.
fn run_of(view: &LedgerView, text: &str, health: &Health) -> Result<RunId, Failure> {
    let mut names = Vec::new();
    let mut numbered = None;
    for run in known_runs(view)?.into_values() {
        if run.name == text {
            return Ok(run.id);
        }
        if run.id.to_string() == text {
            numbered = Some(run.id);
        }
        names.push(run.name);
    }
    let mut is_good = health.is_good();
    for item in view.log().walk(1) {
        match item? {
            Item::Damage(_) => is_good = false,
            Item::OpenEnd { .. } | Item::Derived(_) => {}
            Item::Record(record, _) if record.kind != Kind::RunStarted.number() => {}
            Item::Record(record, _) => {
                let Content::Event(Event::RunStarted(started)) = Content::of(&record) else {
                    is_good = false;
                    continue;
                };
                if started.name == text {
                    return Ok(started.run);
                }
                if started.run.to_string() == text {
                    numbered = Some(started.run);
                }
                names.push(started.name);
            }
        }
    }
    let code = if is_good { Code::Fine } else { Code::Damaged };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    numbered.ok_or_else(|| not_found(no_run(text, &names), code))
}

fn finish(seen: &Seen, health: &Health, form: Form, page: &mut Page<'_>) -> Result<Code, Failure> {
    let is_good = seen.damage == 0 && seen.unreadable == 0 && health.is_good();
    match form {
        Form::Json => page.json(
            "summary",
            &json!({
                "records": seen.shown,
                "last_seq": seen.last_seq,
                "health": {
                    "status": if is_good { "good" } else { "damaged" },
                    "damage": seen.damage,
                    "unproven": seen.unproven,
                    "unreadable": seen.unreadable,
                    "opening": health.opening_json(),
                    "notes": health.notes,
                },
            }),
        )?,
        Form::Text => {
            if seen.unproven > 0 {
                let records = counted(seen.unproven, "record");
                let text = format!("? {records} beyond what HEAD says is durable");
                page.painted(Paint::Notice, &text)?;
            }
            health.print(page)?;
        }
    }
    Ok(if is_good { Code::Fine } else { Code::Damaged })
}
