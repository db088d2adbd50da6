//! `ledger inspect DIR records`: the log, one line for each record, damage where it stands.
//!
//! Invariants: memory does not grow with the log; only the names of runs are kept.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::output::{Code, Failure};
use plan_ledger::error::Result as LedgerResult;
use plan_ledger::format::FrameFault;
use plan_ledger::ledger::{LedgerView, RUN_STREAMS, time_text};
use plan_ledger::log::{Damage, Item, LoggedRecord, Proof};
use plan_ledger::plan::{Event, RunId};

use super::content::{Content, content_text, kind_name, record_json};
use super::filter::{Filter, RecordsArgs, Wish, known_runs};
use super::page::Page;
use super::phrase::subject;
use super::survey::{Health, damage_json, damage_text, derived_json, derived_text};
use super::text::{Paint, counted, plain, plain_path};
use super::{Form, Look};

/// What was seen so far.
#[derive(Debug, Default)]
struct Seen {
    runs: BTreeMap<RunId, String>,
    shown: u64,
    damage: u64,
    unproven: u64,
    unreadable: u64,
    last_seq: u64,
    last_durable: u64,
}

pub(super) fn records(
    what: &RecordsArgs,
    look: Look<'_>,
    page: &mut Page<'_>,
) -> Result<Code, Failure> {
    let Look { dir, form, environment } = look;
    what.check()?;
    let view = LedgerView::open(dir, environment)?;
    let health = Health::of(view.log(), dir, environment)?;
    let filter = Filter::of(what, &view, &health, environment.clock.now())?;
    let runs = known_runs(&view)?;
    let mut seen = Seen { runs, ..Seen::default() };
    for item in items(&view, &filter) {
        if seen.item(item?, &filter, form, page)? == Wish::Stop {
            break;
        }
    }
    if filter.follow && filter.limit > seen.shown {
        follow(&view, &mut seen, &filter, form, page)?;
    }
    finish(&seen, &health, form, page)
}

/// The items that may be wanted, in the order that is asked for.
fn items<'a>(
    view: &'a LedgerView,
    filter: &Filter,
) -> Box<dyn Iterator<Item = LedgerResult<Item>> + 'a> {
    let log = view.log();
    match (filter.reverse, filter.run, filter.kinds.as_slice()) {
        (true, ..) => Box::new(log.walk_reverse(filter.to)),
        (false, Some(run), _) => {
            Box::new(log.walk_of_stream(u64::from(run.0), RUN_STREAMS, filter.from))
        }
        (false, None, [kind]) => Box::new(log.walk_of_kind(*kind, filter.from)),
        (false, None, _) => Box::new(log.walk(filter.from)),
    }
}

/// From one look whether somebody still reads to the next.
const PAUSE: Duration = Duration::from_secs(1);

/// Go on with records as they become durable, until there are enough.
fn follow(
    view: &LedgerView,
    seen: &mut Seen,
    filter: &Filter,
    form: Form,
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    page.flush()?;
    let next = filter.from.max(seen.last_durable.saturating_add(1));
    let mut follow = view.log().follow(next);
    loop {
        let Some(record) = follow.next(PAUSE)? else { continue };
        let wish = seen.item(Item::Record(record, Proof::Proven), filter, form, page)?;
        page.flush()?;
        if wish == Wish::Stop {
            return Ok(());
        }
    }
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

fn print_open_end(
    path: &Path,
    offset: u64,
    fault: FrameFault,
    form: Form,
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    match form {
        Form::Json => page.json(
            "open_end",
            &json!({
                "path": path.display().to_string(), "offset": offset, "what": fault.describe(),
            }),
        ),
        Form::Text => {
            let (path, what) = (plain_path(path), fault.describe());
            let text = format!(
                "open end: {path}: byte {offset}: {what}; a write goes on, or was cut short"
            );
            page.painted(Paint::Notice, &text)
        }
    }
}

impl Seen {
    /// Print what is wanted of an item; whether that is enough.
    fn item(
        &mut self,
        item: Item,
        filter: &Filter,
        form: Form,
        page: &mut Page<'_>,
    ) -> Result<Wish, Failure> {
        match item {
            Item::Record(record, proof) => return self.record(&record, proof, filter, form, page),
            Item::Damage(damage) if damage.first_seq > filter.to => return Ok(filter.beyond()),
            Item::Damage(damage) if damage.last_seq < filter.from && is_missing(&damage) => {}
            Item::Damage(damage) => {
                self.damage += 1;
                print_damage(&damage, form, page)?;
            }
            Item::Derived(damage) => match form {
                Form::Json => page.json("derived_damage", &derived_json(&damage))?,
                Form::Text => page.painted(Paint::Notice, &derived_text(&damage))?,
            },
            Item::OpenEnd { path, offset, fault } => {
                print_open_end(&path, offset, fault, form, page)?;
            }
        }
        Ok(Wish::More)
    }

    fn record(
        &mut self,
        record: &LoggedRecord,
        proof: Proof,
        filter: &Filter,
        form: Form,
        page: &mut Page<'_>,
    ) -> Result<Wish, Failure> {
        if let Some(wish) = filter.place(record) {
            return Ok(wish);
        }
        let content = Content::of(record);
        if let Content::Event(Event::RunStarted(started)) = &content {
            self.runs.insert(started.run, started.name.clone());
        }
        self.last_seq = self.last_seq.max(record.seq);
        if proof == Proof::Unproven {
            self.unproven += 1;
        } else {
            self.last_durable = self.last_durable.max(record.seq);
        }
        self.unreadable += u64::from(matches!(content, Content::Unreadable(_)));
        if !filter.wants(record, &content) {
            return Ok(Wish::More);
        }
        self.shown += 1;
        match form {
            Form::Json => page.json("record", &record_json(record, proof, &content))?,
            Form::Text => {
                let line = self.line(record, proof, &content, page);
                page.line(&line)?;
            }
        }
        Ok(if self.shown >= filter.limit { Wish::Stop } else { Wish::More })
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
