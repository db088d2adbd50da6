//! `ledger inspect DIR`: the log, its health, and the runs with their next actions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::{FoldOrigin, expect_valid, time_text};
use plan_ledger::log::TailVerdict;
use plan_ledger::plan::{BarrierStatus, RunOverview, RunSummary};
use plan_ledger::{
    ContentHash, Cost, Ending, Run, RunId, RunStatus, State, StepNumber, StepStatus, state_hash,
};
use plan_ledger_views::steps_in_flight;

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::health::{
    LedgerHealthJson, LedgerOverview, any_header, head_state, holder,
};
use crate::commands::inspect::json::run::RunLine;
use crate::commands::inspect::lookup::{barrier_word, missing_members, numbered_steps, step_name};
use crate::commands::inspect::next_action::{actions, limited};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::run::{
    activity_text, progress_text, run_status_text, spent_text,
};
use crate::commands::inspect::text::units::{moment, words};
use crate::json::TimeJson;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure, cost_text, escape_control, quoted_folder};
use crate::protocol::hex;
use crate::protocol::{count, counted, size, trusted_text};
use plan_ledger_views::fork_text;

use super::view::report_rollback;

pub(crate) fn summary(context: InspectContext<'_>, out: &mut Output<'_>) -> Result<Code, Failure> {
    let InspectContext { dir, form, environment } = context;
    let overview = LedgerOverview::recent(dir, environment)?;
    let holder = holder(dir, environment);
    report_rollback(context, out)?;
    match form {
        Form::Json => print_json(&overview, dir, holder.as_deref(), out)?,
        Form::Text => print(&overview, dir, holder.as_deref(), out)?,
    }
    expect_valid(&overview.fold.state)?;
    Ok(overview.code())
}

fn print_json(
    overview: &LedgerOverview,
    dir: &Path,
    holder: Option<&str>,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    overview.damage_json(out)?;
    for run in overview.fold.state.runs.values() {
        out.json(&RunLine::of(overview, run, dir))?;
    }
    print_ended_json(&overview.fold.state, out)?;
    let log = overview.view.log();
    let segments = log.segments();
    let bytes: u64 = segments.iter().map(|segment| segment.length).sum();
    let last = overview.fold.last.as_ref();
    let state = &overview.fold.state;
    out.json(&LedgerLine {
        acknowledged: log.head().map(|head| head.durable_seq),
        archive: log.manifest().is_some(),
        bytes,
        dir: dir.display().to_string(),
        first_seq: log.first_seq(),
        folded_from: match overview.fold.origin {
            FoldOrigin::Anchor(seq) | FoldOrigin::Snapshot(seq) => Some(seq),
            FoldOrigin::Start | FoldOrigin::Missing(_) => None,
        },
        head: last.map(|last| LastRecordJson {
            chain: last.chain.to_string(),
            seq: last.seq,
            time: last.time.into(),
        }),
        health: overview.health_json(),
        ledger: any_header(log).map(|header| hex(&header.ledger)),
        records: overview.fold.records,
        runs: state.runs.len(),
        segments: segments.len(),
        state: StateHashJson { hash: state_hash(state), seq: state.seq },
        summaries: state.summaries.len(),
        unknown_files: log.unknown_files(),
        writer: WriterJson { holder, state: head_state(log).0 },
    })
}

/// The ledger as a whole.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct LedgerLine<'a> {
    /// The last record that HEAD says was acknowledged.
    acknowledged: Option<u64>,
    /// Whether the ledger is an archive.
    archive: bool,
    /// The total size of the segments.
    bytes: u64,
    /// The folder, as given.
    dir: String,
    /// The first record in the log: 1, unless earlier records were pruned or are in another archive.
    first_seq: u64,
    /// The record of the snapshot at the start of the fold; null without a snapshot.
    folded_from: Option<u64>,
    /// The last intact record.
    head: Option<LastRecordJson>,
    /// The health of the ledger.
    health: LedgerHealthJson<'a>,
    /// The identifier of the ledger.
    ledger: Option<String>,
    /// The number of intact records.
    records: u64,
    /// The number of runs.
    runs: usize,
    /// The number of segment files.
    segments: usize,
    /// The state that is shown.
    state: StateHashJson,
    /// The number of runs that are only kept as totals.
    summaries: usize,
    /// The names in the folder `log` that do not belong there.
    unknown_files: &'a [String],
    /// The last writer.
    writer: WriterJson<'a>,
}

/// The last intact record.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct LastRecordJson {
    /// Its chain value.
    chain: String,
    /// Its sequence number.
    seq: u64,
    /// Its time.
    time: TimeJson,
}

/// A state.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct StateHashJson {
    /// Its hash.
    hash: ContentHash,
    /// Its last record.
    seq: u64,
}

/// The last writer of a ledger.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct WriterJson<'a> {
    /// The text that the last writer stored.
    holder: Option<&'a str>,
    /// `open` (in a process, or the process was killed), `closed`, `poisoned` or `unknown`.
    state: &'static str,
}

fn print(
    overview: &LedgerOverview,
    dir: &Path,
    holder: Option<&str>,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    print_log(overview, dir, holder, out)?;
    overview.print_damage(out)?;
    print_runs(overview, dir, out)?;
    print_ended(&overview.fold.state, out)?;
    match &overview.fold.origin {
        FoldOrigin::Missing(why) => {
            out.line("")?;
            out.line(&format!("{}: `records` shows the records", escape_control(why)))?;
        }
        FoldOrigin::Snapshot(seq) => {
            out.line("")?;
            let text =
                format!("read from the snapshot at record {seq} on; `verify` reads everything");
            out.painted(Paint::Faint, &text)?;
        }
        _ if overview.fold.state.runs.is_empty() => {
            out.line("")?;
            out.line("no run has been started")?;
        }
        _ => {}
    }
    Ok(())
}

/// Number of runs that are shown in full.
const IN_FULL: usize = 8;

/// Prints open runs in full, then ended ones, and the number of other runs.
fn print_runs(overview: &LedgerOverview, dir: &Path, out: &mut Output<'_>) -> Result<(), Failure> {
    let runs = &overview.fold.state.runs;
    let mut ids: Vec<(RunId, Cow<'_, RunOverview>)> = runs.overviews().collect();
    ids.sort_by_key(|(id, overview)| (overview.is_open(), *id));
    let others = ids.len().saturating_sub(IN_FULL);
    let mut in_full: Vec<RunId> = ids.iter().skip(others).map(|(id, _)| *id).collect();
    in_full.sort();
    for run in in_full.iter().filter_map(|id| runs.get(id)) {
        out.line("")?;
        print_run(overview, run, dir, out)?;
    }
    print_remaining(ids.iter().take(others).map(|(_, overview)| overview.status), dir, out)
}

fn print_log(
    overview: &LedgerOverview,
    dir: &Path,
    holder: Option<&str>,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let log = overview.view.log();
    let segments = log.segments();
    let bytes = segments.iter().map(|segment| segment.length).sum();
    let fold = &overview.fold;
    out.painted(Paint::Heading, &escape_control(&format!("ledger {}", quoted_folder(dir))))?;
    let head = match &fold.last {
        Some(last) => {
            let time = moment(last.time, overview.now);
            format!("record {}, chain {}, {time}", last.seq, last.chain.short())
        }
        None => "no record".to_owned(),
    };
    let unacknowledged = match fold.unacknowledged {
        0 => String::new(),
        some => format!(", {} of them after the durable end in HEAD", count(some)),
    };
    let head = match log.head() {
        Some(head_slot)
            if fold.last.as_ref().map_or(0, |last| last.seq) < head_slot.durable_seq =>
        {
            format!("{head}; HEAD: record {} was acknowledged", head_slot.durable_seq)
        }
        _ => head,
    };
    let log_text = format!(
        "{}, {}, {}{unacknowledged}",
        counted(u64::try_from(segments.len()).unwrap_or(u64::MAX), "segment"),
        size(bytes),
        counted(fold.records, "record")
    );
    let mut writer = head_state(log).1.to_owned();
    if let Some(holder) = holder {
        writer = format!("{writer}; last opened by {}", escape_control(holder));
    }
    let (paint, health) = match (overview.is_good(), &overview.health.end) {
        (false, _) => (Paint::Bad, "damaged".to_owned()),
        (true, Ok(_)) if !fold.state.lost.is_empty() => {
            (Paint::Notice, "consistent, but not complete".to_owned())
        }
        (true, Ok(TailVerdict::Clean)) => (Paint::Good, "good".to_owned()),
        (true, Err(_)) => (Paint::Good, "good; a read-only archive".to_owned()),
        (true, _) => {
            let text = "good; the last write is in progress or was interrupted";
            (Paint::Good, text.to_owned())
        }
    };
    let mut table = Table::default();
    let mut add = |name: &str, paint, text| {
        table.row([(Paint::Faint, name.to_owned()), (paint, text)]);
    };
    add("head", Paint::None, head);
    add("log", Paint::None, log_text);
    add("writer", Paint::None, writer);
    add("health", paint, health);
    out.table(&table, 2)
}

fn print_run(
    overview: &LedgerOverview,
    run: &Run,
    dir: &Path,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let heading = out.style.paint(Paint::Heading, &format!("run {}", escape_control(&run.name)));
    let status = activity_text(&overview.activity(run, dir), out.style);
    out.line(&format!("{heading} ({}): {status}", run.id))?;
    if let Some(forked) = &run.fork {
        out.line(&format!("  {}", fork_text(forked)))?;
    }
    if let Some(version) = run.active_version() {
        let title = escape_control(&version.plan.header().title);
        let title = if title.is_empty() { title } else { format!(": {title}") };
        let hash = version.hash.short();
        let text = format!("version {} of the plan ({hash}){title}", run.active);
        let text = out.style.fit(&text, 2);
        out.line(&format!("  {text}"))?;
    }
    out.line(&format!("  {}", progress_text(run)))?;
    out.line(&format!("  {}", spent_text(run)))?;
    print_in_flight(overview, run, out)?;
    print_steps(run, "wait for verdicts", StepStatus::Reported, run.reported.iter().copied(), out)?;
    print_steps(
        run,
        "outcome unknown",
        StepStatus::OutcomeUnknown,
        run.outcome_unknown.iter().copied(),
        out,
    )?;
    print_failed(run, out)?;
    print_barriers(run, out)?;
    if let Some(text) = trusted_text(run) {
        out.painted(Paint::Notice, &format!("  {}", escape_control(&text)))?;
    }
    out.painted(Paint::Faint, "  next")?;
    let next = actions(&overview.fold.state, run, overview.surroundings(dir));
    for action in limited(&next, run, dir) {
        action.print("    ", out)?;
    }
    Ok(())
}

fn print_in_flight(
    overview: &LedgerOverview,
    run: &Run,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let mut table = Table::with_headings(&["in flight", "attempt", "worker", "since", "lease"]);
    let mut rows = 0;
    for (number, step) in steps_in_flight(&overview.fold.state, run) {
        let Some(attempt) = step.attempt() else { continue };
        let dead = overview.dead.iter().find(|dead| dead.token == attempt.token);
        let (paint, lease) = if let Some(dead) = dead {
            (Paint::Bad, format!("process {} is gone", dead.process))
        } else if attempt.lease_until <= overview.now {
            (Paint::Bad, format!("expired {}", moment(attempt.lease_until, overview.now)))
        } else {
            (Paint::None, format!("until {}", moment(attempt.lease_until, overview.now)))
        };
        rows += 1;
        table.row([
            (Paint::None, step_name(run, number)),
            (Paint::None, step.attempts.to_string()),
            (Paint::None, escape_control(&attempt.worker)),
            (Paint::None, moment(attempt.dispatched, overview.now)),
            (paint, lease),
        ]);
    }
    if rows > 0 { out.table(&table, 2) } else { Ok(()) }
}

/// How many names are listed.
const NAMES: usize = 8;

fn print_steps(
    run: &Run,
    what: &str,
    status: StepStatus,
    steps: impl Iterator<Item = StepNumber>,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let total = run.count(status);
    if total == 0 {
        return Ok(());
    }
    let names = some(steps.map(|number| step_name(run, number)), total);
    let (what, names) =
        (out.style.paint(Paint::Notice, what), out.style.fit(&names, what.len() + 4));
    out.line(&format!("  {what}  {names}"))
}

/// The first few of many names.
fn some(names: impl Iterator<Item = String>, total: u32) -> String {
    let shown: Vec<_> = names.take(NAMES).collect();
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    match total.saturating_sub(shown.len()) {
        0 => shown.join(", "),
        rest => format!("{} and {rest} more", shown.join(", ")),
    }
}

fn print_failed(run: &Run, out: &mut Output<'_>) -> Result<(), Failure> {
    let mut table = Table::with_headings(&["failed", "attempts", "class", "why"]);
    let failed: Vec<_> =
        numbered_steps(run).filter(|(_, step)| step.status == StepStatus::Failed).collect();
    for (number, step) in failed.iter().take(NAMES) {
        let (class, message) = match step.last_failure() {
            Some((class, message)) => (words(class, ' '), escape_control(message)),
            None => (String::new(), String::new()),
        };
        table.row([
            (Paint::Bad, step_name(run, *number)),
            (Paint::None, step.attempts.to_string()),
            (Paint::None, class),
            (Paint::None, message),
        ]);
    }
    if failed.is_empty() {
        return Ok(());
    }
    out.table(&table, 2)?;
    let rest = failed.len().saturating_sub(NAMES);
    if rest > 0 { out.line(&format!("  and {rest} more")) } else { Ok(()) }
}

fn print_barriers(run: &Run, out: &mut Output<'_>) -> Result<(), Failure> {
    if run.barriers.is_empty() {
        return Ok(());
    }
    let mut table = Table::with_headings(&["barrier", "status", "arrived", "missing"]);
    for (id, barrier) in &run.barriers {
        let paint = match barrier.status {
            BarrierStatus::Closed => Paint::None,
            BarrierStatus::Released => Paint::Good,
            BarrierStatus::Broken => Paint::Bad,
        };
        let missing: Vec<_> = missing_members(barrier).collect();
        let total = u32::try_from(missing.len()).unwrap_or(u32::MAX);
        let names = missing.iter().map(|number| {
            let failed = if barrier.failed.contains(number) { " (failed)" } else { "" };
            format!("{}{failed}", step_name(run, *number))
        });
        table.row([
            (Paint::None, escape_control(id)),
            (paint, barrier_word(barrier.status).to_owned()),
            (Paint::None, format!("{}/{}", barrier.arrived.len(), barrier.needed)),
            (Paint::None, some(names, total)),
        ]);
    }
    out.table(&table, 2)
}

/// Prints one line for each run that is only kept as a summary.
fn print_ended(state: &State, out: &mut Output<'_>) -> Result<(), Failure> {
    if state.summaries.is_empty() {
        return Ok(());
    }
    let count = u64::try_from(state.summaries.len()).unwrap_or(u64::MAX);
    out.line("")?;
    out.line(&format!(
        "{} that ended earlier, of which only summaries are kept:",
        counted(count, "run")
    ))?;
    state.summaries.values().try_for_each(|summary| out.line(&ended_text(summary)))
}

/// Prints the number of runs that were not shown, by status.
fn print_remaining(
    others: impl Iterator<Item = RunStatus>,
    dir: &Path,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let mut counts = BTreeMap::new();
    for status in others {
        *counts.entry(run_status_text(status).1).or_insert(0_u64) += 1;
    }
    if counts.is_empty() {
        return Ok(());
    }
    let counts: Vec<_> =
        counts.iter().map(|(status, many)| format!("{} {status}", count(*many))).collect();
    let (counts, dir) = (counts.join(", "), escape_control(&quoted_folder(dir)));
    out.line("")?;
    out.line(&format!("more runs: {counts}; `ledger inspect {dir} runs` lists all"))
}

fn ended_text(summary: &RunSummary) -> String {
    let RunSummary { name, ending, ended, seq, version, steps, accepted, skipped, .. } = summary;
    let attempts = counted(summary.attempts, "attempt");
    format!(
        "  {}: {} {}, record {seq}; version {}, {accepted} of {steps} accepted, {skipped} skipped; \
         {attempts}, cost {}",
        escape_control(name),
        words(ending, ' '),
        time_text(*ended),
        version.0,
        cost_text(summary.spent)
    )
}

/// Prints the runs that are only kept as a summary, as JSON.
fn print_ended_json(state: &State, out: &mut Output<'_>) -> Result<(), Failure> {
    state.summaries.iter().try_for_each(|(run, summary)| out.json(&EndedRunLine::of(*run, summary)))
}

/// A run that ended so long ago that only totals are kept.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct EndedRunLine<'a> {
    /// The number of accepted steps.
    accepted: u32,
    /// The number of dispatched attempts.
    attempts: u64,
    /// The end time.
    ended: TimeJson,
    /// How it ended.
    ending: Ending,
    /// The hash of the active version.
    hash: ContentHash,
    /// Its name.
    name: &'a str,
    /// Its number.
    run: RunId,
    /// The record that ended it.
    seq: u64,
    /// The number of skipped steps.
    skipped: u32,
    /// The spending.
    spent: Cost,
    /// The start time.
    started: TimeJson,
    /// The number of steps.
    steps: u32,
    /// The active version of the plan.
    version: u32,
}

impl<'a> EndedRunLine<'a> {
    fn of(run: RunId, summary: &'a RunSummary) -> Self {
        Self {
            accepted: summary.accepted,
            attempts: summary.attempts,
            ended: summary.ended.into(),
            ending: summary.ending,
            hash: summary.version.1,
            name: &summary.name,
            run,
            seq: summary.seq,
            skipped: summary.skipped,
            spent: summary.spent,
            started: summary.started.into(),
            steps: summary.steps,
            version: summary.version.0,
        }
    }
}
