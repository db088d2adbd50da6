//! `ledger inspect DIR approvals`: what waits for somebody, and what people have said so far.

use clap::Args;
use serde_json::json;

use crate::output::pending_commands;
use crate::output::{Code, Failure};
use crate::runner::{Pending, pending};
use plan_ledger::ledger::time_text;
use plan_ledger::plan::{Event, Micros, PauseCause, Run, RunId, RunStatus, StepEvent, StepNumber};

use super::super::Form;
use super::super::event_json::event_json;
use super::super::page::{Page, time_json};
use super::super::phrase::{phrase, subject};
use super::super::text::{Paint, Table, plain};
use super::Look;
use super::scene::{At, Scene};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger approvals                 who must say something, and who said what
  ledger inspect .ledger approvals my-plan --at 900
  ledger inspect .ledger approvals --json | jq 'select(.type == \"waiting\") | .commands[0]'";

/// What waits for somebody, with what to type; and what people said, decided and changed so far
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::commands::inspect) struct ApprovalsArgs {
    /// The run, by name or number (#3); may be left out where there is only one
    #[arg(value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    at: At,
}

/// Something that somebody said.
struct Said<'a> {
    seq: u64,
    time: Micros,
    step: Option<StepNumber>,
    by: &'a str,
    event: &'a Event,
}

pub(super) fn approvals(
    args: &ApprovalsArgs,
    look: Look<'_>,
    page: &mut Page<'_>,
) -> Result<Code, Failure> {
    let (mut scene, id) = Scene::of_run(look, args.at, args.run.as_deref())?;
    let chronicle = scene.chronicle(id)?;
    let said = chronicle.records.iter().filter_map(|record| {
        let event = record.event.as_ref()?;
        let by = who(event)?;
        Some(Said { seq: record.seq, time: record.time, step: subject(event).1, by, event })
    });
    let said: Vec<Said<'_>> = said.collect();
    let run = scene.run(id)?;
    let open = open(run);
    match look.form {
        Form::Json => print_json(&scene, id, run, &open, &said, page)?,
        Form::Text => {
            scene.heading("approvals", run, page)?;
            print_open(&scene, run, &open, page)?;
            page.line("")?;
            scene.since(page)?;
            print_said(&said, page)?;
        }
    }
    scene.end(page)
}

/// What waits for a person; what only waits for a worker, a cap or a time does not.
fn open(run: &Run) -> Vec<Pending> {
    if matches!(run.status, RunStatus::Ended(_)) {
        return Vec::new();
    }
    let mut open = pending(run);
    open.retain(|item| word(item).is_some());
    open
}

/// What is wanted, in a word.
fn word(item: &Pending) -> Option<&'static str> {
    Some(match item {
        Pending::Verdicts { .. } => "verdicts",
        Pending::PlanVerdicts { criteria } if criteria.is_empty() => return None,
        Pending::PlanVerdicts { .. } => "plan_verdicts",
        Pending::Question { .. } => "question",
        Pending::Review { .. } => "review",
        Pending::Paused { .. } => "resume",
        Pending::Replan { .. } => "replan",
        Pending::Decision { .. } => "decision",
        Pending::Doubt { .. } => "doubt",
        Pending::Held { .. } | Pending::Caps { .. } | Pending::Blocked { .. } => return None,
    })
}

/// Who said it; `None` for what nobody says, and for what a policy says by itself.
fn who(event: &Event) -> Option<&str> {
    let by = match event {
        Event::PlanReviewed(event) => &event.by,
        Event::PlanVerdict(event) => &event.verdict.by,
        Event::CapChanged(event) => &event.by,
        Event::RunReopened(event) => &event.by,
        Event::RunResumed(event) => &event.by,
        Event::BudgetChanged(event) => &event.by,
        Event::QuestionAnswered(event) => &event.answered.by,
        Event::ReplanWithdrawn(event) => &event.by,
        Event::RunPaused(event) => match &event.cause {
            PauseCause::Person(by) => by,
            _ => return None,
        },
        Event::Step(record) => match &record.event {
            StepEvent::Answered(event) => &event.by,
            StepEvent::VerdictRecorded(event) => &event.verdict.by,
            StepEvent::DoubtResolved(event) => &event.by,
            StepEvent::Skipped(event) => &event.by,
            StepEvent::Reopened(event) => &event.by,
            StepEvent::CostCorrected(event) => &event.by,
            _ => return None,
        },
        _ => return None,
    };
    let is_somebody = !(by.is_empty() || by.starts_with("policy:") || by.starts_with("runner:"));
    is_somebody.then_some(by.as_str())
}

fn print_json(
    scene: &Scene<'_>,
    id: RunId,
    run: &Run,
    open: &[Pending],
    said: &[Said<'_>],
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    for item in open {
        let (text, commands) = pending_commands(item, &run.name, scene.look.dir);
        page.json(
            "waiting",
            &json!({ "run": id, "for": word(item), "text": text, "commands": commands }),
        )?;
    }
    for Said { seq, time, step, by, event } in said {
        page.json(
            "said",
            &json!({
                "run": id, "seq": seq, "time": time_json(*time), "step": step, "by": by,
                "event": event_json(event),
            }),
        )?;
    }
    Ok(())
}

fn print_open(
    scene: &Scene<'_>,
    run: &Run,
    open: &[Pending],
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    if open.is_empty() {
        return page.line("nothing waits for anybody");
    }
    for item in open {
        let (text, commands) = pending_commands(item, &run.name, scene.look.dir);
        page.painted(Paint::Notice, &format!("  {}", plain(&text)))?;
        commands.iter().try_for_each(|command| page.line(&format!("    {}", plain(command))))?;
    }
    Ok(())
}

fn print_said(said: &[Said<'_>], page: &mut Page<'_>) -> Result<(), Failure> {
    if said.is_empty() {
        return page.line("nobody has said anything");
    }
    let mut table = Table::with_headings(&["record", "when", "who", "step", "said"]);
    for Said { seq, time, step, by, event } in said {
        let step = step.map_or_else(|| "-".to_owned(), |step| format!("#{step}"));
        table.row([
            (Paint::None, seq.to_string()),
            (Paint::None, time_text(*time)),
            (Paint::Heading, plain(by)),
            (Paint::None, step),
            (Paint::None, phrase(event)),
        ]);
    }
    page.table(&table, 2)
}
