//! `ledger inspect DIR`: the ledger at a glance.

use std::borrow::Cow;
use std::path::Path;

use serde_json::json;

use crate::output::{Code, Failure};
use plan_ledger::ledger::{Environment, FoldOrigin, expect_sound, state_hash};
use plan_ledger::log::TailVerdict;
use plan_ledger::plan::{
    BarrierState, BarrierStatus, Run, RunId, RunOverview, StepNumber, StepState, StepStatus,
};

use super::Form;
use super::actions::{Action, actions};
use super::control_phrase::{paused_text, run_status, spent};
use super::other_runs;
use super::page::{Page, time_json};
use super::reference::{barrier_word, step_name};
use super::run_json::run_json;
use super::survey::{Survey, any_header, head_state, holder};
use super::text::{Paint, Table, count, counted, hex, moment, plain, plain_path, size, words};

pub(super) fn summary(
    dir: &Path,
    form: Form,
    environment: &Environment,
    page: &mut Page<'_>,
) -> Result<Code, Failure> {
    let survey = Survey::recent(dir, environment)?;
    let holder = holder(dir, environment);
    match form {
        Form::Json => print_json(&survey, dir, holder.as_deref(), page)?,
        Form::Text => print(&survey, dir, holder.as_deref(), page)?,
    }
    expect_sound(&survey.fold.state)?;
    Ok(survey.code())
}

fn print_json(
    survey: &Survey,
    dir: &Path,
    holder: Option<&str>,
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    survey.damage_json(page)?;
    for run in survey.fold.state.runs.values() {
        page.json("run", &run_json(survey, run, dir))?;
    }
    other_runs::print_json(&survey.fold.state, page)?;
    let log = survey.view.log();
    let segments = log.segments();
    let bytes: u64 = segments.iter().map(|segment| segment.length).sum();
    let last = survey.fold.last.as_ref();
    let state = &survey.fold.state;
    page.json(
        "ledger",
        &json!({
            "dir": dir.display().to_string(),
            "ledger": any_header(log).map(|header| hex(&header.ledger)),
            "runs": state.runs.len(),
            "summaries": state.summaries.len(),
            "segments": segments.len(),
            "bytes": bytes,
            "records": survey.fold.records,
            "first_seq": log.first_seq(),
            "folded_from": match survey.fold.origin {
                FoldOrigin::Anchor(seq) | FoldOrigin::Snapshot(seq) => Some(seq),
                FoldOrigin::Start | FoldOrigin::Missing(_) => None,
            },
            "archive": log.manifest().is_some(),
            "head": last.map(|last| json!({
                "seq": last.seq, "chain": last.chain.to_string(), "time": time_json(last.time),
            })),
            "acknowledged": log.head().map(|head| head.durable_seq),
        "writer": { "state": head_state(log).0, "holder": holder },
            "state": { "seq": state.seq, "hash": state_hash(state) },
            "strangers": log.unknown_files(),
            "health": survey.health_json(),
        }),
    )
}

fn print(
    survey: &Survey,
    dir: &Path,
    holder: Option<&str>,
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    print_log(survey, dir, holder, page)?;
    survey.print_damage(page)?;
    print_runs(survey, dir, page)?;
    other_runs::print(&survey.fold.state, page)?;
    match &survey.fold.origin {
        FoldOrigin::Missing(why) => {
            page.line("")?;
            page.line(&format!("{}: `records` shows what there is", plain(why)))?;
        }
        FoldOrigin::Snapshot(seq) => {
            page.line("")?;
            let text = format!(
                "read from record {seq} on, where a snapshot is; `verify` reads everything"
            );
            page.painted(Paint::Faint, &text)?;
        }
        _ if survey.fold.state.runs.is_empty() => {
            page.line("")?;
            page.line("no run has been started")?;
        }
        _ => {}
    }
    Ok(())
}

/// So many runs are shown in full.
const IN_FULL: usize = 8;

/// The newest runs that go on, in full, then those that have ended; and how many others there are.
fn print_runs(survey: &Survey, dir: &Path, page: &mut Page<'_>) -> Result<(), Failure> {
    let runs = &survey.fold.state.runs;
    let mut ids: Vec<(RunId, Cow<'_, RunOverview>)> = runs.overviews().collect();
    ids.sort_by_key(|(id, overview)| (overview.is_open(), *id));
    let others = ids.len().saturating_sub(IN_FULL);
    let mut in_full: Vec<RunId> = ids.iter().skip(others).map(|(id, _)| *id).collect();
    in_full.sort();
    for run in in_full.iter().filter_map(|id| runs.get(id)) {
        page.line("")?;
        print_run(survey, run, dir, page)?;
    }
    other_runs::print_others(
        ids.iter().take(others).map(|(_, overview)| overview.status),
        dir,
        page,
    )
}

fn print_log(
    survey: &Survey,
    dir: &Path,
    holder: Option<&str>,
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    let log = survey.view.log();
    let segments = log.segments();
    let bytes = segments.iter().map(|segment| segment.length).sum();
    let fold = &survey.fold;
    page.painted(Paint::Heading, &format!("ledger {}", plain_path(dir)))?;
    let head = match &fold.last {
        Some(last) => {
            let time = moment(last.time, survey.now);
            format!("record {}, chain {}, {time}", last.seq, last.chain.short())
        }
        None => "no record".to_owned(),
    };
    let unproven = match fold.unproven {
        0 => String::new(),
        some => format!(", {} of them beyond what HEAD says is durable", count(some)),
    };
    let head = match log.head() {
        Some(said) if fold.last.as_ref().map_or(0, |last| last.seq) < said.durable_seq => {
            format!("{head}; HEAD says that record {} was acknowledged", said.durable_seq)
        }
        _ => head,
    };
    let log_text = format!(
        "{}, {}, {}{unproven}",
        counted(u64::try_from(segments.len()).unwrap_or(u64::MAX), "segment"),
        size(bytes),
        counted(fold.records, "record")
    );
    let mut writer = head_state(log).1.to_owned();
    if let Some(holder) = holder {
        writer = format!("{writer}; last opened by {}", plain(holder));
    }
    let (paint, health) = match (survey.is_good(), &survey.health.end) {
        (false, _) => (Paint::Bad, "damaged".to_owned()),
        (true, Ok(TailVerdict::Clean)) => (Paint::Good, "good".to_owned()),
        (true, Err(_)) => (Paint::Good, "good; an archive, which is only read".to_owned()),
        (true, _) => {
            let text = "good; at its end is a write that goes on, or that was cut short";
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
    page.table(&table, 2)
}

fn print_run(survey: &Survey, run: &Run, dir: &Path, page: &mut Page<'_>) -> Result<(), Failure> {
    let (paint, status) = run_status(run.status);
    let heading = page.style.paint(Paint::Heading, &format!("run {}", plain(&run.name)));
    let status = page.style.paint(paint, &status);
    let paused = match &run.pause {
        Some(cause) => page.style.paint(Paint::Notice, &format!(", {}", paused_text(cause))),
        None => String::new(),
    };
    page.line(&format!("{heading} ({}): {status}{paused}", run.id))?;
    if let Some(forked) = &run.forked {
        page.line(&format!("  {}", super::control_phrase::forked(forked)))?;
    }
    if let Some(version) = run.active_version() {
        let title = plain(&version.plan.header().title);
        let title = if title.is_empty() { title } else { format!(": {title}") };
        let hash = version.hash.short();
        let text = format!("version {} of the plan ({hash}){title}", run.active);
        let text = page.style.fit(&text, 2);
        page.line(&format!("  {text}"))?;
    }
    page.line(&format!("  {}", progress(run)))?;
    page.line(&format!("  {}", spent(run)))?;
    print_in_flight(survey, run, page)?;
    print_steps(
        run,
        "wait for verdicts",
        StepStatus::Reported,
        run.reported.iter().copied(),
        page,
    )?;
    print_steps(
        run,
        "in doubt",
        StepStatus::OutcomeUnknown,
        run.outcome_unknown.iter().copied(),
        page,
    )?;
    print_failed(run, page)?;
    print_barriers(run, page)?;
    page.painted(Paint::Faint, "  next")?;
    for action in actions(&survey.fold.state, run, dir, survey.now) {
        print_action(&action, page)?;
    }
    Ok(())
}

/// Cells of the progress bar.
const BAR: u64 = 30;

/// How far a run is: `[####------] 37/145 accepted, 2 failed`.
pub(super) fn progress(run: &Run) -> String {
    let total: u64 = run.active_version().map_or(0, |version| version.step_count.into());
    let number = |status| u64::from(run.count(status));
    let accepted = number(StepStatus::Accepted);
    let closed = accepted + number(StepStatus::Skipped);
    let filled = (closed * BAR).checked_div(total).unwrap_or(0).min(BAR);
    let cells = |number: u64, cell: &str| cell.repeat(usize::try_from(number).unwrap_or(0));
    let bar = format!("[{}{}]", cells(filled, "#"), cells(BAR - filled, "-"));
    let others = [
        (StepStatus::Failed, "failed"),
        (StepStatus::Skipped, "skipped"),
        (StepStatus::Dispatched, "in flight"),
        (StepStatus::Reported, "waiting for verdicts"),
        (StepStatus::OutcomeUnknown, "in doubt"),
        (StepStatus::Gated, "waiting for an answer"),
        (StepStatus::Delayed, "delayed"),
        (StepStatus::Cancelled, "cancelled"),
        (StepStatus::Ready, "ready"),
        (StepStatus::Waiting, "waiting"),
    ];
    let others = others.into_iter().filter(|(status, _)| number(*status) > 0);
    let others = others.map(|(status, word)| format!("{} {word}", count(number(status))));
    let first = format!("{}/{} accepted", count(accepted), count(total));
    let parts: Vec<_> = std::iter::once(first).chain(others).collect();
    format!("{bar} {}", parts.join(", "))
}

fn print_in_flight(survey: &Survey, run: &Run, page: &mut Page<'_>) -> Result<(), Failure> {
    let mut table = Table::with_headings(&["in flight", "attempt", "worker", "since", "lease"]);
    let mut rows = 0;
    for (number, step) in in_flight(survey, run) {
        let Some(attempt) = step.attempt() else { continue };
        let (paint, lease) = if attempt.lease_until <= survey.now {
            (Paint::Bad, format!("ran out {}", moment(attempt.lease_until, survey.now)))
        } else {
            (Paint::None, format!("until {}", moment(attempt.lease_until, survey.now)))
        };
        rows += 1;
        table.row([
            (Paint::None, step_name(run, number)),
            (Paint::None, step.attempts.to_string()),
            (Paint::None, plain(&attempt.worker)),
            (Paint::None, moment(attempt.dispatched, survey.now)),
            (paint, lease),
        ]);
    }
    if rows > 0 { page.table(&table, 2) } else { Ok(()) }
}

/// The steps of a run that workers have, in the order of dealing.
pub(super) fn in_flight<'a>(
    survey: &'a Survey,
    run: &'a Run,
) -> impl Iterator<Item = (StepNumber, &'a StepState)> {
    let dealt = survey.fold.state.in_flight.values().filter(|(of, _)| *of == run.id);
    dealt.filter_map(|(_, number)| Some((*number, run.step(*number)?)))
}

/// How many names are listed.
const NAMES: usize = 8;

fn print_steps(
    run: &Run,
    what: &str,
    status: StepStatus,
    steps: impl Iterator<Item = StepNumber>,
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    let total = run.count(status);
    if total == 0 {
        return Ok(());
    }
    let names = some(steps.map(|number| step_name(run, number)), total);
    let (what, names) =
        (page.style.paint(Paint::Notice, what), page.style.fit(&names, what.len() + 4));
    page.line(&format!("  {what}  {names}"))
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

fn print_failed(run: &Run, page: &mut Page<'_>) -> Result<(), Failure> {
    let mut table = Table::with_headings(&["failed", "attempts", "class", "why"]);
    let failed: Vec<_> =
        numbered(run).filter(|(_, step)| step.status == StepStatus::Failed).collect();
    for (number, step) in failed.iter().take(NAMES) {
        let (class, message) = match step.last_failure() {
            Some((class, message)) => (words(class, ' '), plain(message)),
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
    page.table(&table, 2)?;
    let rest = failed.len().saturating_sub(NAMES);
    if rest > 0 { page.line(&format!("  and {rest} more")) } else { Ok(()) }
}

fn numbered(run: &Run) -> impl Iterator<Item = (StepNumber, &StepState)> {
    (1..).map(StepNumber).zip(&run.steps)
}

fn print_barriers(run: &Run, page: &mut Page<'_>) -> Result<(), Failure> {
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
        let missing: Vec<_> = missing(barrier).collect();
        let total = u32::try_from(missing.len()).unwrap_or(u32::MAX);
        let names = missing.iter().map(|number| {
            let failed = if barrier.failed.contains(number) { " (failed)" } else { "" };
            format!("{}{failed}", step_name(run, *number))
        });
        table.row([
            (Paint::None, plain(id)),
            (paint, barrier_word(barrier.status).to_owned()),
            (Paint::None, format!("{}/{}", barrier.arrived.len(), barrier.needed)),
            (Paint::None, some(names, total)),
        ]);
    }
    page.table(&table, 2)
}

/// Members that have not arrived.
pub(super) fn missing(barrier: &BarrierState) -> impl Iterator<Item = StepNumber> {
    barrier.members.difference(&barrier.arrived).copied()
}

fn print_action(action: &Action, page: &mut Page<'_>) -> Result<(), Failure> {
    page.line(&format!("    {}", action.text))?;
    action.commands.iter().try_for_each(|command| page.line(&format!("      {command}")))
}
