//! `ledger inspect DIR records`: one line for each record, and damage in its place.
//!
//! Invariant: memory does not grow with the log; only the names of runs are kept.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::format::FrameFault;
use plan_ledger::internals::ledger::{Kind, LedgerTime, RUN_STREAMS, expect_valid};
use plan_ledger::log::{Damage, LogItem, LoggedRecord, RecordStatus};
use plan_ledger::plan::{Micros, parse_number};
use plan_ledger::{Event, LedgerView, Result as LedgerResult, RunId, StepNumber, Timestamp};

use plan_ledger_views::{RecordContent, RecordLine, RecordRow, event_subject};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::{
    DamageLine, DerivedDamageLine, Health, HealthWord, damage_text, derived_text,
};
use crate::commands::inspect::lookup::{no_run, not_found, step_of};
use crate::commands::inspect::output::Output;
use crate::output::render::Paint;
use crate::output::{Code, Failure, escape_control, escape_path, parse_since};
use crate::protocol::{Missing, OpeningJson, counted, opening};
use crate::requests::default_run;

/// The names and counts collected during the scan.
#[derive(Debug, Default)]
struct RecordList {
    runs: BTreeMap<RunId, String>,
    shown: u64,
    damage: u64,
    unacknowledged: u64,
    unreadable: u64,
    last_seq: u64,
    last_durable: u64,
}

pub(crate) fn records(
    args: &RecordsArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let InspectContext { dir, form, environment } = context;
    args.check()?;
    let view = LedgerView::open(dir, environment)?;
    let health = Health::of(view.log(), dir, environment)?;
    let now = LedgerTime::of(view.log(), environment).now;
    let filter = Filter::of(args, &view, &health, now)?;
    let runs = known_runs(&view)?;
    let mut list = RecordList { runs, ..RecordList::default() };
    for item in items(&view, &filter) {
        if list.item(item?, &filter, form, out)? == ScanControl::Stop {
            break;
        }
    }
    if filter.follow && filter.limit > list.shown {
        follow(&view, &mut list, &filter, form, out)?;
    }
    finish(&list, &health, form, out)
}

/// The items that may match, in the requested order.
fn items<'a>(
    view: &'a LedgerView,
    filter: &Filter,
) -> Box<dyn Iterator<Item = LedgerResult<LogItem>> + 'a> {
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

/// How often `--follow` wakes up while no record arrives.
const PAUSE: Duration = Duration::from_secs(1);

/// Prints records as they become durable, up to the limit.
fn follow(
    view: &LedgerView,
    list: &mut RecordList,
    filter: &Filter,
    form: Form,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    out.flush()?;
    let next = filter.from.max(list.last_durable.saturating_add(1));
    let mut follow = view.log().follow(next);
    loop {
        let Some(record) = follow.next(PAUSE)? else {
            // A reader that is gone ends the view.
            out.flush()?;
            continue;
        };
        let control =
            list.item(LogItem::Record(record, RecordStatus::Durable), filter, form, out)?;
        out.flush()?;
        if control == ScanControl::Stop {
            return Ok(());
        }
    }
}

fn is_missing(damage: &Damage) -> bool {
    damage.last_seq >= damage.first_seq
}

fn print_damage(damage: &Damage, form: Form, out: &mut Output<'_>) -> Result<(), Failure> {
    match form {
        Form::Json => out.json(&DamageLine::from(damage)),
        Form::Text => out.painted(Paint::Bad, &format!("damage: {}", damage_text(damage))),
    }
}

fn print_open_end(
    path: &Path,
    offset: u64,
    fault: FrameFault,
    form: Form,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    match form {
        Form::Json => out.json(&OpenEndLine {
            offset,
            path: path.display().to_string(),
            what: fault.describe(),
        }),
        Form::Text => {
            let (path, what) = (escape_path(path), fault.describe());
            let text = format!(
                "open end: {path}: byte {offset}: {what}; a write is in progress or was interrupted"
            );
            out.painted(Paint::Notice, &text)
        }
    }
}

impl RecordList {
    /// Prints an item if it matches, and returns whether to continue.
    fn item(
        &mut self,
        item: LogItem,
        filter: &Filter,
        form: Form,
        out: &mut Output<'_>,
    ) -> Result<ScanControl, Failure> {
        match item {
            LogItem::Record(record, status) => {
                return self.record(&record, status, filter, form, out);
            }
            LogItem::Damage(damage) if damage.first_seq > filter.to => return Ok(filter.beyond()),
            LogItem::Damage(damage) if damage.last_seq < filter.from && is_missing(&damage) => {}
            LogItem::Damage(damage) => {
                self.damage += 1;
                print_damage(&damage, form, out)?;
            }
            LogItem::DerivedDamage(damage) => match form {
                Form::Json => out.json(&DerivedDamageLine::from(&damage))?,
                Form::Text => out.painted(Paint::Notice, &derived_text(&damage))?,
            },
            LogItem::OpenEnd { path, offset, fault } => {
                print_open_end(&path, offset, fault, form, out)?;
            }
        }
        Ok(ScanControl::More)
    }

    fn record(
        &mut self,
        record: &LoggedRecord,
        status: RecordStatus,
        filter: &Filter,
        form: Form,
        out: &mut Output<'_>,
    ) -> Result<ScanControl, Failure> {
        if let Some(control) = filter.place(record) {
            return Ok(control);
        }
        // A follower gets it when it is durable, and only once.
        if filter.follow && status == RecordStatus::Unacknowledged {
            return Ok(ScanControl::More);
        }
        let content = RecordContent::of(record);
        if let RecordContent::Event(Event::RunStarted(started)) = &content {
            self.runs.insert(started.run, started.name.clone());
        }
        self.last_seq = self.last_seq.max(record.seq);
        if status == RecordStatus::Unacknowledged {
            self.unacknowledged += 1;
        } else {
            self.last_durable = self.last_durable.max(record.seq);
        }
        self.unreadable += u64::from(matches!(content, RecordContent::Unreadable(_)));
        if !filter.wants(record, &content) {
            return Ok(ScanControl::More);
        }
        self.shown += 1;
        match form {
            Form::Json => out.json(&RecordLine::of(record, status, &content))?,
            Form::Text => {
                let of = match &content {
                    RecordContent::Event(event) => self.subject_text(event),
                    _ => String::new(),
                };
                out.document(&RecordRow::of(record, status, &content, &of).document())?;
            }
        }
        Ok(if self.shown >= filter.limit { ScanControl::Stop } else { ScanControl::More })
    }

    fn subject_text(&self, event: &Event) -> String {
        let (run, step) = event_subject(event);
        let name = |run: RunId| {
            self.runs.get(&run).map_or_else(|| format!("run {run}"), |name| escape_control(name))
        };
        match (run.map(name), step) {
            (Some(run), Some(step)) => format!("{run} #{step}"),
            (Some(run), None) => run,
            (None, _) => String::new(),
        }
    }
}

/// Bytes after the last record of the active segment.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct OpenEndLine {
    /// The start of these bytes.
    offset: u64,
    /// The file.
    path: String,
    /// The reason why they are not a record.
    what: &'static str,
}

/// The last line: the records that were read.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RecordsLine<'a> {
    /// The health of the records that were read.
    health: RecordsHealthJson<'a>,
    /// The last record that was read.
    last_seq: u64,
    /// The number of lines of type `record`.
    records: u64,
}

/// The health of the records that were read.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct RecordsHealthJson<'a> {
    /// The number of damaged places.
    damage: u64,
    /// Unusual facts that are not damage, for people.
    notes: &'a [String],
    /// The result of opening the ledger for writing now.
    opening: OpeningJson,
    /// Whether everything that was acknowledged can be read.
    status: HealthWord,
    /// The number of intact records after the durable end in HEAD.
    unacknowledged: u64,
    /// The number of records that this program cannot read.
    unreadable: u64,
}

fn finish(
    list: &RecordList,
    health: &Health,
    form: Form,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let is_good = list.damage == 0 && list.unreadable == 0 && health.is_good();
    match form {
        Form::Json => out.json(&RecordsLine {
            health: RecordsHealthJson {
                damage: list.damage,
                notes: &health.notes,
                opening: opening(&health.end),
                status: HealthWord::of(is_good),
                unacknowledged: list.unacknowledged,
                unreadable: list.unreadable,
            },
            last_seq: list.last_seq,
            records: list.shown,
        })?,
        Form::Text => {
            if list.unacknowledged > 0 {
                let records = counted(list.unacknowledged, "record");
                let text = format!("? {records} after the durable end in HEAD");
                out.painted(Paint::Notice, &text)?;
            }
            if list.shown == 0 {
                out.line("no record matches")?;
            }
            health.print(out)?;
        }
    }
    Ok(if is_good { Code::Success } else { Code::Damaged })
}

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger records --from 100 --to 200
  ledger inspect .ledger records --kind dispatched --kind attempt_lost
  ledger inspect .ledger records --run my-plan --step build
  ledger inspect .ledger records --since 2h --reverse --limit 20
  ledger inspect .ledger records --follow          and new ones, until Ctrl-C
  ledger inspect .ledger records --run my-plan --json | jq -c .event

Times are in UTC (2026-11-21T03:38:36Z), or how long ago (90m, 2d).";

/// The records of the log, one line each, and damage in its place
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RecordsArgs {
    /// The first record
    #[arg(long, value_name = "SEQ", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    from: u64,
    /// The last record
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    to: Option<u64>,
    /// Only records from this time on
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only records up to this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only records of this kind, by name or number (#3); may be given again
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Vec<u16>,
    /// Only records of this run, by name or number (#3)
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Only records of this step, by id or number (#37), of --run or else of the default run
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// Newest first
    #[arg(long)]
    reverse: bool,
    /// At most this many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Wait for more records, and print them as they become durable
    #[arg(long, conflicts_with_all = ["reverse", "to", "until"])]
    pub(crate) follow: bool,
}

impl RecordsArgs {
    /// Whether an index, or a bound, says that only few records are read. Steps have their names in the state.
    pub(crate) fn reads_few_records(&self) -> bool {
        let is_by_index = !self.reverse && (self.run.is_some() || self.kind.len() == 1);
        let is_bounded = self.from > 1 || self.to.is_some() || self.limit.is_some();
        self.step.is_none() && (is_by_index || is_bounded)
    }

    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.to {
            Some(to) if to < self.from => Err(Failure::Usage(format!(
                "--to {to} is before --from {}: the range is empty",
                self.from
            ))),
            _ => Ok(()),
        }
    }
}

fn kind(text: &str) -> Result<u16, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    number.or_else(|| Kind::named(text).map(Kind::number)).ok_or_else(|| {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        format!("there is no such kind; expected a number, or one of {}", names.join(", "))
    })
}

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
pub(crate) enum ScanControl {
    More,
    Stop,
}

/// The filter of the arguments, with names resolved.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) from: u64,
    pub(crate) to: u64,
    since: Timestamp,
    until: Timestamp,
    pub(crate) kinds: Vec<u16>,
    pub(crate) run: Option<RunId>,
    step: Option<StepNumber>,
    pub(crate) reverse: bool,
    pub(crate) limit: u64,
    pub(crate) follow: bool,
}

impl Filter {
    pub(crate) fn of(
        args: &RecordsArgs,
        view: &LedgerView,
        health: &Health,
        now: Timestamp,
    ) -> Result<Self, Failure> {
        let (since, until) = (time(args.since.as_ref(), now)?, time(args.until.as_ref(), now)?);
        let run = match (&args.run, &args.step) {
            (Some(text), _) => Some(run_of(view, text, health)?),
            (None, Some(_)) => default_run(&view.fold(u64::MAX)?.state)?,
            (None, None) => None,
        };
        let step = match (&args.step, run) {
            (Some(text), Some(run)) => Some(step_in(view, run, text, health)?),
            _ => None,
        };
        Ok(Self {
            from: args.from,
            to: args.to.unwrap_or(u64::MAX),
            since: since.unwrap_or(0),
            until: until.unwrap_or(Micros::MAX),
            kinds: args.kind.clone(),
            run,
            step,
            reverse: args.reverse,
            limit: args.limit.unwrap_or(u64::MAX),
            follow: args.follow,
        })
    }

    /// Whether to continue after the last matching record.
    pub(crate) fn beyond(&self) -> ScanControl {
        if self.reverse { ScanControl::More } else { ScanControl::Stop }
    }

    /// Whether to continue at a record outside the range; `None` for a record inside.
    pub(crate) fn place(&self, record: &LoggedRecord) -> Option<ScanControl> {
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
    pub(crate) fn wants(&self, record: &LoggedRecord, content: &RecordContent) -> bool {
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
pub(crate) fn known_runs(view: &LedgerView) -> Result<BTreeMap<RunId, String>, Failure> {
    if view.log().first_seq() == 1 {
        return Ok(BTreeMap::new());
    }
    let runs = view.fold(u64::MAX)?.state.runs;
    Ok(runs.overviews().map(|(id, overview)| (id, overview.name.clone())).collect())
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
