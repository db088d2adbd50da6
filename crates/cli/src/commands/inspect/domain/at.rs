//! `ledger inspect DIR at SEQ`: everything that the ledger knew after one record; people are shown
//! a few runs in full, and of the others a line each, unless they ask for all.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::{Value, json};

use crate::output::{Code, Failure};
use plan_ledger::ledger::state_hash;
use plan_ledger::plan::{Run, RunId, State, StepNumber, StepState};

use super::super::Form;
use super::super::content::{Content, content_text, kind_name};
use super::super::control_phrase::run_status;
use super::super::control_phrase::spent;
use super::super::event_json::scope_json;
use super::super::page::{Page, time_json};
use super::super::reference::{barrier_word, step_name};
use super::super::run_json::status_word;
use super::super::step_text::Length;
use super::super::summary::progress;
use super::super::text::{Paint, Table, counted, moment, plain, words};
use super::Look;
use super::budget::{Part, elapsed};
use super::scene::{At, Scene};
use super::state_lines::{
    StepLine, barrier_json, barrier_paint, question_json, status_paint, variable_json,
};
use super::variables::origin_text;
use super::view_json::account_json;

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger at 1200                   everything after record 1200
  ledger inspect .ledger at 1200 my-plan           of one run
  ledger inspect .ledger at 1200 --json | jq 'select(.type == \"step_state\") | .status'";

/// Everything that was known after one record: runs, steps, variables, barriers, questions, books
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::commands::inspect) struct AtArgs {
    /// The record
    #[arg(value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    seq: u64,
    /// Only this run, by name or number (#3)
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Print all runs in full, however many (JSON always has all)
    #[arg(long)]
    full: bool,
}

pub(super) fn at(args: &AtArgs, look: Look<'_>, page: &mut Page<'_>) -> Result<Code, Failure> {
    let at = At { at: Some(args.seq) };
    let (scene, runs) = if let Some(name) = &args.run {
        let (scene, id) = Scene::of_run(look, at, Some(name))?;
        (scene, vec![id])
    } else {
        let scene = Scene::of(look, at)?;
        let runs = match look.form {
            Form::Json => scene.state.runs.keys().copied().collect(),
            Form::Text => {
                let length = if args.full { Length::Whole } else { Length::Short };
                shown(&scene.state, length)
            }
        };
        (scene, runs)
    };
    match look.form {
        Form::Json => print_json(&scene, &runs, page)?,
        Form::Text => {
            print(&scene, &runs, page)?;
            if args.run.is_none() {
                print_others(&scene.state, &runs, page)?;
            }
        }
    }
    scene.end(page)
}

/// So many runs are shown to people in full, unless they ask for more.
const SHOWN: usize = 8;

/// The runs that are shown in full: those that go on, the newest first, then those that ended last.
fn shown(state: &State, length: Length) -> Vec<RunId> {
    let count = match length {
        Length::Short => SHOWN,
        Length::Whole => usize::MAX,
    };
    let open = state.runs.open().rev();
    let ended = state.ended.iter().rev().map(|(_, id)| *id);
    let shown: BTreeSet<RunId> = open.chain(ended).take(count).collect();
    shown.into_iter().collect()
}

/// The others, a line each.
fn print_others(state: &State, shown: &[RunId], page: &mut Page<'_>) -> Result<(), Failure> {
    let others: Vec<_> = state.runs.overviews().filter(|(id, _)| !shown.contains(id)).collect();
    if others.is_empty() {
        return Ok(());
    }
    page.line("")?;
    let mut table = Table::with_headings(&["other runs", "status", "steps"]);
    for (id, overview) in others {
        let (paint, status) = run_status(overview.status);
        table.row([
            (Paint::None, format!("{} ({id})", plain(&overview.name))),
            (paint, status),
            (Paint::None, format!("{}/{} accepted", overview.accepted, overview.steps)),
        ]);
    }
    page.table(&table, 0)?;
    page.painted(Paint::Faint, "name one to see it in full, or say --full")
}

fn print_json(scene: &Scene<'_>, runs: &[RunId], page: &mut Page<'_>) -> Result<(), Failure> {
    let state = &scene.state;
    let cap = |(scope, limit): (&_, &u32)| json!({ "scope": scope_json(scope), "limit": limit });
    page.json(
        "state",
        &json!({
            "seq": state.seq,
            "time": time_json(state.time),
            "hash": state_hash(state),
            "runs": state.runs.len(),
            "summaries": state.summaries.len(),
            "in_flight": state.in_flight.len(),
            "caps": state.caps.iter().map(cap).collect::<Vec<_>>(),
            "account": account_json(&state.account),
            "next_due": state.next_due().map(time_json),
        }),
    )?;
    for id in runs {
        let run = scene.run(*id)?;
        page.json("run_state", &run_state_json(run))?;
        for (number, step) in numbered(run) {
            page.json("step_state", &StepLine::of(*id, number, step))?;
        }
        for (name, variable) in &run.variables {
            page.json("variable", &variable_json(*id, name, variable))?;
        }
        for (name, barrier) in &run.barriers {
            page.json("barrier", &barrier_json(run, name, barrier))?;
        }
        for (question, asked) in &run.questions {
            page.json("question", &question_json(*id, *question, asked))?;
        }
        for part in Part::all(&run.account, run.limits(), Some(elapsed(run, scene.now))) {
            page.json("budget", &part.json(Some(*id)))?;
        }
    }
    Ok(())
}

fn run_state_json(run: &Run) -> Value {
    let queue: Vec<StepNumber> = run.ready().map(|(_, number)| number).collect();
    json!({
        "run": run.id,
        "name": run.name,
        "status": status_word(run.status),
        "started": time_json(run.started),
        "version": run.active,
        "versions": run.versions.len(),
        "hash": run.active_version().map(|version| version.hash),
        "paused": run.pause.is_some(),
        "stopping": run.why_stopping(),
        "queue": queue,
        "in_flight": run.in_flight,
        "replans": run.replans,
    })
}

fn numbered(run: &Run) -> impl Iterator<Item = (StepNumber, &StepState)> {
    (1..).map(StepNumber).zip(&run.steps)
}

fn print(scene: &Scene<'_>, runs: &[RunId], page: &mut Page<'_>) -> Result<(), Failure> {
    let state = &scene.state;
    let now = scene.look.environment.clock.now();
    let text = format!("record {}, {}", state.seq, moment(state.time, now));
    page.painted(Paint::Heading, &text)?;
    if let Ok(Some(record)) = scene.view.log().record(state.seq) {
        let content = Content::of(&record);
        let (paint, text) = content_text(&record, &content);
        let text = format!("  {}: {text}", kind_name(record.kind));
        page.painted(paint, &page.style.fit(&text, 0))?;
    }
    page.line(&format!("  state {}", state_hash(state)))?;
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let (whole, gone) = (counted(count(state.runs.len()), "run"), state.summaries.len());
    let flights = counted(count(state.in_flight.len()), "attempt");
    page.line(&format!("  {whole}, {gone} more of which only sums are left, {flights} in flight"))?;
    for (scope, limit) in &state.caps {
        page.line(&format!("  cap of {limit} for {}", plain(&scope.to_string())))?;
    }
    for id in runs {
        page.line("")?;
        print_run(scene, scene.run(*id)?, page)?;
    }
    Ok(())
}

fn print_run(scene: &Scene<'_>, run: &Run, page: &mut Page<'_>) -> Result<(), Failure> {
    let (paint, status) = run_status(run.status);
    let status = page.style.paint(paint, &status);
    let name = page.style.paint(Paint::Heading, &format!("run {}", plain(&run.name)));
    page.line(&format!("{name} ({}): {status}", run.id))?;
    page.line(&format!("  {}", page.style.fit(&progress(run), 2)))?;
    page.line(&format!("  {}", page.style.fit(&spent(run), 2)))?;
    let mut table = Table::with_headings(&["step", "status", "attempts", "worker", "last failure"]);
    for (number, step) in numbered(run) {
        let worker = step.attempt().map_or("-", |attempt| attempt.worker.as_str());
        let failure = step
            .last_failure()
            .map(|(class, message)| format!("{}: {}", words(class, ' '), plain(message)));
        table.row([
            (Paint::None, step_name(run, number)),
            (status_paint(step.status), step.status.to_string()),
            (Paint::None, step.attempts.to_string()),
            (Paint::None, plain(worker)),
            (Paint::None, failure.unwrap_or_else(|| "-".to_owned())),
        ]);
    }
    page.table(&table, 2)?;
    print_rest(scene, run, page)
}

fn print_rest(scene: &Scene<'_>, run: &Run, page: &mut Page<'_>) -> Result<(), Failure> {
    if !run.variables.is_empty() {
        let mut table = Table::with_headings(&["variable", "set by", "value"]);
        for (name, variable) in &run.variables {
            table.row([
                (Paint::None, plain(name)),
                (Paint::None, origin_text(run, &variable.origin)),
                (Paint::None, plain(variable.value.as_str())),
            ]);
        }
        page.table(&table, 2)?;
    }
    if !run.barriers.is_empty() {
        let mut table = Table::with_headings(&["barrier", "status", "arrived"]);
        for (id, barrier) in &run.barriers {
            table.row([
                (Paint::None, plain(id)),
                (barrier_paint(barrier.status), barrier_word(barrier.status).to_owned()),
                (Paint::None, format!("{}/{}", barrier.arrived.len(), barrier.needed)),
            ]);
        }
        page.table(&table, 2)?;
    }
    for (id, question) in &run.questions {
        let due = question.asked.deadline.map(|at| format!(", until {}", moment(at, scene.now)));
        let (text, due) = (plain(&question.asked.text), due.unwrap_or_default());
        page.painted(Paint::Notice, &format!("  question {}{due}: {text}", id.0))?;
    }
    Ok(())
}
