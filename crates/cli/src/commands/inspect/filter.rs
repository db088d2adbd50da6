//! Which records `ledger inspect DIR records` shows.

use std::collections::BTreeMap;

use clap::Args;

use crate::output::{Code, Failure};
use plan_ledger::ledger::{Kind, LedgerView, expect_sound, parse_time};
use plan_ledger::log::{Item, LoggedRecord};
use plan_ledger::plan::{Event, Micros, RunId, StepNumber, parse_number};

use super::content::Content;
use super::phrase::subject;
use super::reference::{no_run, not_found, step_of};
use super::survey::Health;

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger records --from 100 --to 200
  ledger inspect .ledger records --kind dispatched --kind attempt_lost
  ledger inspect .ledger records --run my-plan --step build
  ledger inspect .ledger records --since 2h --reverse --limit 20
  ledger inspect .ledger records --follow          and what comes, until Ctrl-C
  ledger inspect .ledger records --run my-plan --json | jq -c .event

Times are in UTC (2026-11-21T03:38:36Z), or how long ago (90m, 2d).";

/// What happened: one line for each record, and damage where it stands
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RecordsArgs {
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
    /// Only records of this step of the run, by id or number (#37)
    #[arg(long, value_name = "STEP", requires = "run")]
    step: Option<String>,
    /// Newest first
    #[arg(long)]
    reverse: bool,
    /// So many records at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Wait for more records, and print them as they become durable
    #[arg(long, conflicts_with_all = ["reverse", "to", "until"])]
    follow: bool,
}

impl RecordsArgs {
    /// Whether it can be meant.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self.to {
            Some(to) if to < self.from => Err(Failure::Usage(format!(
                "--to {to} is before --from {}: nothing lies between",
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

fn time(text: Option<&String>, now: Micros) -> Result<Option<Micros>, Failure> {
    let read = |text: &String| {
        parse_time(text, now).ok_or_else(|| {
            Failure::Usage(format!(
                "expected a time (2026-11-21T03:38:36Z, or how long ago: 90m, 2d), found {text}"
            ))
        })
    };
    text.map(read).transpose()
}

/// Whether more is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    More,
    Stop,
}

/// What is wanted, with names looked up.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) from: u64,
    pub(super) to: u64,
    since: Micros,
    until: Micros,
    pub(super) kinds: Vec<u16>,
    pub(super) run: Option<RunId>,
    step: Option<StepNumber>,
    pub(super) reverse: bool,
    pub(super) limit: u64,
    pub(super) follow: bool,
}

impl Filter {
    pub(super) fn of(
        what: &RecordsArgs,
        view: &LedgerView,
        health: &Health,
        now: Micros,
    ) -> Result<Self, Failure> {
        let (since, until) = (time(what.since.as_ref(), now)?, time(what.until.as_ref(), now)?);
        let run = what.run.as_ref().map(|text| run_of(view, text, health)).transpose()?;
        let step = match (&what.step, run) {
            (Some(text), Some(run)) => Some(step_in(view, run, text, health)?),
            _ => None,
        };
        Ok(Self {
            from: what.from,
            to: what.to.unwrap_or(u64::MAX),
            since: since.unwrap_or(0),
            until: until.unwrap_or(Micros::MAX),
            kinds: what.kind.clone(),
            run,
            step,
            reverse: what.reverse,
            limit: what.limit.unwrap_or(u64::MAX),
            follow: what.follow,
        })
    }

    /// What is wished for beyond the last record that is wanted.
    pub(super) fn beyond(&self) -> Wish {
        if self.reverse { Wish::More } else { Wish::Stop }
    }

    /// What follows for a record that lies outside of what is wanted; `None` for one within.
    pub(super) fn place(&self, record: &LoggedRecord) -> Option<Wish> {
        // Neither numbers nor times ever go back.
        if record.seq > self.to || record.time > self.until {
            return Some(self.beyond());
        }
        if record.seq < self.from || record.time < self.since {
            return Some(if self.reverse { Wish::Stop } else { Wish::More });
        }
        None
    }

    /// Whether a record within is wanted.
    pub(super) fn wants(&self, record: &LoggedRecord, content: &Content) -> bool {
        let step = match content {
            Content::Event(event) => subject(event).1,
            _ => None,
        };
        (self.kinds.is_empty() || self.kinds.contains(&record.kind))
            && (self.run.is_none() || content.run() == self.run)
            && (self.step.is_none() || step == self.step)
    }
}

/// The names of the runs whose first record may have been pruned.
pub(super) fn known_runs(view: &LedgerView) -> Result<BTreeMap<RunId, String>, Failure> {
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
                if number == Some(started.run) {
                    numbered = number;
                }
                names.push(started.name);
            }
        }
    }
    let code = if is_good { Code::Fine } else { Code::Damaged };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    numbered.ok_or_else(|| not_found(no_run(text, &names), code))
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
    let code = if health.is_good() { Code::Fine } else { Code::Damaged };
    let state = view.fold_recent()?.state;
    let run = state.runs.get(&run);
    expect_sound(&state)?;
    let Some(run) = run else {
        let what = "the run ended long ago, and only its sums are kept: name the step by its \
                    number (#37)";
        return Err(not_found(what.to_owned(), code));
    };
    step_of(run, text, code)
}
