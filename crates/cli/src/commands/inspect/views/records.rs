//! `ledger inspect DIR records`: one line for each record, and damage in its place; or one record in full.
//!
//! Invariant: memory does not grow with the log; only the names of runs are kept.

use std::time::Duration;

use clap::{Arg, Args};

use plan_ledger::internals::ledger::{LedgerTime, RUN_STREAMS};
use plan_ledger::log::{LogItem, LoggedRecord, RecordStatus};
use plan_ledger::plan::Micros;
use plan_ledger::{LedgerView, Result as LedgerResult, Timestamp};
use plan_ledger_views::{OpenEndLine, RecordContent, RecordLine, RecordList};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::Health;
use crate::commands::inspect::output::Output;
use crate::commands::inspect::record_filter::{
    Filter, ScanControl, kind, known_runs, subject, time,
};
use crate::options::{RunOption, without_environment};
use crate::output::{Code, Failure};
use crate::protocol::opening;

use super::record::{print_finding, record};

pub(crate) fn records(
    args: &RecordsArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    if let Some(seq) = args.seq {
        return record(seq, args.hex, context, out);
    }
    let InspectContext { dir, form, environment } = context;
    args.check()?;
    let view = LedgerView::open(dir, environment)?;
    let health = Health::of(view.log(), dir, environment)?;
    let now = LedgerTime::of(view.log(), environment).now;
    let filter = args.filter(&view, &health, now)?;
    let mut scan = Scan { list: RecordList::new(known_runs(&view)?), filter, form };
    for item in items(&view, &scan.filter) {
        if scan.item(item?, out)? == ScanControl::Stop {
            break;
        }
    }
    if scan.filter.follow && scan.filter.limit > scan.list.shown {
        scan.follow(&view, out)?;
    }
    let Scan { list, .. } = scan;
    let is_good = list.is_intact() && health.is_good();
    match form {
        Form::Json => out.json(&list.line(opening(&health.end), &health.notes, is_good))?,
        Form::Text => {
            out.document(&list.document())?;
            health.print(out)?;
        }
    }
    Ok(if is_good { Code::Success } else { Code::Damaged })
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

/// The records that are read, and those that are wanted.
struct Scan {
    list: RecordList,
    filter: Filter,
    form: Form,
}

impl Scan {
    /// Prints records as they become durable, up to the limit.
    fn follow(&mut self, view: &LedgerView, out: &mut Output<'_>) -> Result<(), Failure> {
        out.flush()?;
        let next = self.filter.from.max(self.list.last_durable.saturating_add(1));
        let mut follow = view.log().follow(next);
        loop {
            let Some(record) = follow.next(PAUSE)? else {
                // A reader that is gone ends the view.
                out.flush()?;
                continue;
            };
            let control = self.record(&record, RecordStatus::Durable, out)?;
            out.flush()?;
            if control == ScanControl::Stop {
                return Ok(());
            }
        }
    }

    /// Prints an item if it matches, and returns whether to continue.
    fn item(&mut self, item: LogItem, out: &mut Output<'_>) -> Result<ScanControl, Failure> {
        let Self { list, filter, form } = self;
        match item {
            LogItem::Record(record, status) => return self.record(&record, status, out),
            LogItem::Damage(damage) if damage.first_seq > filter.to => return Ok(filter.beyond()),
            // Damage of no known record is always shown.
            LogItem::Damage(damage)
                if damage.last_seq < filter.from && damage.last_seq >= damage.first_seq => {}
            LogItem::Damage(damage) => {
                list.damage += 1;
                print_finding(&damage.into(), *form, out)?;
            }
            LogItem::DerivedDamage(damage) => print_finding(&damage.into(), *form, out)?,
            LogItem::OpenEnd { path, offset, fault } => {
                let line = OpenEndLine::of(&path, offset, fault);
                match form {
                    Form::Json => out.json(&line)?,
                    Form::Text => out.document(&line.document())?,
                }
            }
        }
        Ok(ScanControl::More)
    }

    fn record(
        &mut self,
        record: &LoggedRecord,
        status: RecordStatus,
        out: &mut Output<'_>,
    ) -> Result<ScanControl, Failure> {
        let Self { list, filter, form } = self;
        if let Some(control) = filter.place(record) {
            return Ok(control);
        }
        // A follower gets it when it is durable, and only once.
        if filter.follow && status == RecordStatus::Unacknowledged {
            return Ok(ScanControl::More);
        }
        let content = RecordContent::of(record);
        list.count(record, status, &content);
        if !filter.wants(record, &content) {
            return Ok(ScanControl::More);
        }
        list.shown += 1;
        match form {
            Form::Json => out.json(&RecordLine::of(record, status, &content))?,
            Form::Text => out.document(&list.row(record, status, &content))?,
        }
        Ok(if list.shown >= filter.limit { ScanControl::Stop } else { ScanControl::More })
    }
}

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger records --from 100 --to 200
  ledger inspect .ledger records --kind dispatched --kind attempt_lost
  ledger inspect .ledger records --run my-plan --step build
  ledger inspect .ledger records --since 2h --reverse --limit 20
  ledger inspect .ledger records --follow          and new ones, until Ctrl-C
  ledger inspect .ledger records --run my-plan --json | jq -c .event
  ledger inspect .ledger records 120               the content of record 120
  ledger inspect .ledger records 120 --hex         and its bytes, field by field

Times are in UTC (2026-11-21T03:38:36Z), or how long ago (90m, 2d).";

/// The records of the log, one line each, and damage in its place; or one record in full
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, mut_arg("run", of_records))]
pub(crate) struct RecordsArgs {
    /// Only this record, in full
    #[arg(
        value_name = "SEQ",
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["from", "to", "since", "until", "kind", "run", "step", "reverse", "limit", "follow"],
    )]
    seq: Option<u64>,
    /// Show the bytes of its frame too, each field with its name
    #[arg(long, requires = "seq")]
    hex: bool,
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
    #[command(flatten)]
    run: RunOption,
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

fn of_records(run: Arg) -> Arg {
    without_environment(run).help("Only records of this run, by name or number (#3)")
}

impl RecordsArgs {
    /// Whether an index, or a bound, says that only few records are read. Steps have their names in the state.
    pub(crate) fn reads_few_records(&self) -> bool {
        let is_by_index = !self.reverse && (self.run.name().is_some() || self.kind.len() == 1);
        let is_bounded =
            self.seq.is_some() || self.from > 1 || self.to.is_some() || self.limit.is_some();
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

    /// The records that they select.
    fn filter(
        &self,
        view: &LedgerView,
        health: &Health,
        now: Timestamp,
    ) -> Result<Filter, Failure> {
        let (since, until) = (time(self.since.as_ref(), now)?, time(self.until.as_ref(), now)?);
        let (run, step) = subject(view, (self.run.name(), self.step.as_deref()), health)?;
        Ok(Filter {
            from: self.from,
            to: self.to.unwrap_or(u64::MAX),
            since: since.unwrap_or(0),
            until: until.unwrap_or(Micros::MAX),
            kinds: self.kind.clone(),
            run,
            step,
            reverse: self.reverse,
            limit: self.limit.unwrap_or(u64::MAX),
            follow: self.follow,
        })
    }
}
