//! `ledger inspect DIR why RUN STEP`: why a step is not dispatched, down to the root causes.

use std::collections::BTreeSet;

use clap::Args;

use plan_ledger::plan::{
    BlockReason, Explanation, ExplanationLine, StepEvent, StepRecord, Warning, explain, is_person,
};
use plan_ledger::{Ending, Event, Run, RunStatus, State, StepNumber, StepStatus, Timestamp};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::json::explanation::WhyLine;
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::next_action::{NextAction, Surroundings, items};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::units::moment;
use crate::commands::inspect::text::waits::wait_text;
use crate::options::StepArg;
use crate::output::render::{Paint, Style};
use crate::output::{Code, Failure, escape_control, pending_commands, warning_text};
use crate::protocol::StepName;
use crate::runner::RepeatingAttempt;
use plan_ledger_views::RecordContent;
use plan_ledger_views::{
    NextItem, RunnerPresence, WaitingItem, hosted_steps, next_dispatch, show_step, status_paint,
    waits_of, wrap,
};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger why my-plan deploy        what it waits for, down to the root causes
  ledger inspect .ledger why my-plan '#37' --at 900 what it waited for after record 900
  ledger inspect .ledger why my-plan deploy --json | jq .roots";

/// Why a step is not dispatched: the reasons, down to the root causes, and the commands that help
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    of: StepArg,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn why(
    args: &WhyArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (ledger, id) = LedgerAt::of_run(context, args.at, args.of.run())?;
    let run = ledger.run(id)?;
    let number = ledger.step(run, args.of.step())?;
    let found = explained(&ledger.state, run, number, ledger.now)?;
    match context.form {
        Form::Json => {
            let is_meant = |step: StepNumber| found.steps.contains_key(&step);
            let repeats: Vec<_> = ledger.repeats_of(run, is_meant).collect();
            out.json(&WhyLine::of(run, &found, &ledger.waits, &repeats))?;
        }
        Form::Text => {
            ledger.heading(&format!("why #{number}"), run, out)?;
            print(&ledger, run, &found, out)?;
        }
    }
    ledger.finish(out)
}

fn explained(
    state: &State,
    run: &Run,
    number: StepNumber,
    now: Timestamp,
) -> Result<Explanation, Failure> {
    explain(state, run.id, number, now)
        .map_err(|rejection| Failure::Ledger(plan_ledger::Error::from(rejection)))
}

fn print(
    ledger: &LedgerAt<'_>,
    run: &Run,
    found: &Explanation,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    for line in lines(found) {
        let indent = "  ".repeat(line.depth + 1);
        let paint = line.step.map_or(Paint::None, |(_, status)| status_paint(status));
        for (place, text) in
            wrapped(&escape_control(&line.text), indent.len(), out.style).enumerate()
        {
            let hang = if place == 0 { "" } else { "  " };
            out.line(&format!("{indent}{hang}{}", out.style.paint(paint, &text)))?;
        }
    }
    if let Some(text) = verdict(ledger, run, found) {
        out.line(&format!("  {text}"))?;
    }
    let found_warnings = run.warnings(ledger.state.time, ledger.now);
    let slow = found_warnings
        .iter()
        .find(|warning| matches!(warning, Warning::SlowStep { step, .. } if *step == found.step));
    if let Some(warning) = slow {
        out.painted(Paint::Notice, &format!("  warning: {}", warning_text(run, warning)))?;
    }
    for text in repeated_texts(ledger, run, |step| found.steps.contains_key(&step)) {
        out.painted(Paint::Notice, &format!("  warning: {text}"))?;
    }
    let resume = resume(ledger, run, found);
    if let Some(action) = &resume {
        out.painted(Paint::Bad, &format!("  {}", action.text))?;
    }
    let commands = commands(run, found, resume, ledger.surroundings());
    if !commands.is_empty() {
        out.painted(Paint::Faint, "to continue, type:")?;
    }
    commands.iter().try_for_each(|command| out.line(&format!("  {command}")))
}

/// The lines of the explanation, with readable times.
fn lines(found: &Explanation) -> Vec<ExplanationLine> {
    found.lines(&|at| match at.checked_sub(found.now) {
        None | Some(0) => format!("overdue since {}", moment(at, found.now)),
        Some(_) => format!("until {}", moment(at, found.now)),
    })
}

/// The result for a step that is not blocked, or that is closed.
fn verdict(ledger: &LedgerAt<'_>, run: &Run, found: &Explanation) -> Option<String> {
    let own = found.steps.get(&found.step)?;
    match own.status {
        StepStatus::Accepted => Some("it is accepted".to_owned()),
        StepStatus::Skipped => Some(match skipped_by(ledger, run, found.step) {
            Some((by, reason)) if reason.is_empty() => format!("it was skipped by {by}"),
            Some((_, reason)) if reason.starts_with("its condition") => {
                format!("it was skipped: {reason}")
            }
            Some((by, reason)) => format!("it was skipped by {by}: {reason}"),
            None => "it was skipped".to_owned(),
        }),
        StepStatus::Ready => {
            let is_own = |(_, each): (_, StepNumber)| each == found.step;
            let place = run.ready().position(is_own).map_or(0, |place| place + 1);
            let queue = format!("place {place} of {} in the queue", run.ready_count());
            let held = BTreeSet::new();
            let mut waits = waits_of(&ledger.waits, run);
            let wait = waits.find(|wait| wait.holds(run, found.step));
            Some(match next_dispatch(&ledger.state, run, Some(found.step), found.now, held) {
                Ok(_) if wait.is_some() => {
                    let wait = wait.map(|wait| wait_text(wait, run, ledger.now));
                    format!("{}; {queue}", wait.unwrap_or_default())
                }
                Ok(_) => format!("it can be dispatched: {queue}"),
                Err(_) => queue,
            })
        }
        _ => None,
    }
}

/// The author and the reason of a skip, from its last record; `None` if it cannot be read.
fn skipped_by(ledger: &LedgerAt<'_>, run: &Run, number: StepNumber) -> Option<(String, String)> {
    let records = ledger.view.step_records(run, number).ok()?;
    records.iter().rev().find_map(|record| match RecordContent::of(record) {
        RecordContent::Event(Event::Step(StepRecord {
            event: StepEvent::Skipped(event), ..
        })) => Some((escape_control(&event.by), escape_control(&event.reason))),
        _ => None,
    })
}

/// Starts the runner again, if it is gone and a step of the explanation was in flight.
fn resume(ledger: &LedgerAt<'_>, run: &Run, found: &Explanation) -> Option<NextAction> {
    let at = ledger.surroundings();
    let is_concerned = |(number, _): &(StepNumber, _)| found.steps.contains_key(number);
    let steps = hosted_steps(&ledger.state, run).filter(is_concerned).count();
    let steps = u32::try_from(steps).unwrap_or(u32::MAX);
    let runner = at.known(run);
    let unseen = match runner.presence {
        RunnerPresence::Unseen(process) => Some(process),
        _ => None,
    };
    let is_abandoned = runner.absence().is_some() && steps > 0;
    is_abandoned.then(|| NextAction::of(NextItem::Abandoned { steps, unseen }, run, at))
}

/// The commands that unblock the step, without duplicates.
fn commands(
    run: &Run,
    found: &Explanation,
    resume: Option<NextAction>,
    at: Surroundings<'_>,
) -> Vec<String> {
    let mut commands = resume.map(|action| action.commands).unwrap_or_default();
    let mut seen = BTreeSet::new();
    let entries = found.steps.iter().rev();
    let reasons = entries.flat_map(|(number, entry)| {
        entry.reasons.iter().map(move |reason| (Some(*number), reason))
    });
    // What holds the run names its own commands.
    let is_free = run.pause.is_none()
        && run.replan_hold().is_none_or(|hold| !hold.holds(found.step))
        && run.why_stopping().is_none();
    let ready = run.step(found.step).filter(|it| it.status == StepStatus::Ready && is_free);
    if let Some(owner) = ready.and_then(|step| step.owner()).filter(|owner| is_person(owner)) {
        let (step, owner) = (StepName::of(run, found.step), owner.to_owned());
        let (_, person) = pending_commands(&WaitingItem::Person { step, owner }, &run.name, at.dir);
        commands.extend(person.iter().map(|command| escape_control(command)));
    }
    let waiting = items(run, at.dir);
    for (number, reason) in reasons.chain(found.run_reasons.iter().map(|reason| (None, reason))) {
        for command in reason_commands(run, number, reason, &waiting, at) {
            if seen.insert(command.clone()) {
                commands.push(command);
            }
        }
    }
    commands
}

fn reason_commands(
    run: &Run,
    number: Option<StepNumber>,
    reason: &BlockReason,
    waiting: &[WaitingItem],
    at: Surroundings<'_>,
) -> Vec<String> {
    let of_item = |item: NextItem| NextAction::of(item, run, at).commands;
    let those = |is_meant: &dyn Fn(&WaitingItem) -> bool| -> Vec<String> {
        let items = waiting.iter().filter(|item| is_meant(item)).cloned();
        items.flat_map(|item| of_item(NextItem::Waiting(item))).collect()
    };
    match (reason, number) {
        (BlockReason::Question { question, .. }, _) => {
            those(&|item| matches!(item, WaitingItem::Question { id, .. } if id == question))
        }
        (BlockReason::Reported { .. } | BlockReason::OutcomeUnknown(_), Some(number)) => {
            those(&|item| {
                let is_result = matches!(
                    item,
                    WaitingItem::Decision { .. }
                        | WaitingItem::Verdicts { .. }
                        | WaitingItem::Checks { .. }
                        | WaitingItem::OutcomeUnknown { .. }
                );
                is_result && item.step().is_some_and(|step| step.number == number)
            })
        }
        (BlockReason::Failed(_), Some(number)) => {
            let is_over = matches!(run.status, RunStatus::Ended(it) if it != Ending::Failed);
            of_item(NextItem::Failed { step: StepName::of(run, number), is_over })
        }
        (BlockReason::Replan { .. }, _) => {
            those(&|item| matches!(item, WaitingItem::Replan { .. }))
        }
        (BlockReason::Paused(_), _) => those(&|item| matches!(item, WaitingItem::Paused { .. })),
        (BlockReason::NoActivePlan { .. }, _) => {
            those(&|item| matches!(item, WaitingItem::Review { .. }))
        }
        _ => Vec::new(),
    }
}

/// Repeated output of the workers of some steps.
pub(crate) fn repeated_texts(
    ledger: &LedgerAt<'_>,
    run: &Run,
    is_meant: impl Fn(StepNumber) -> bool,
) -> Vec<String> {
    let text = |attempt: &RepeatingAttempt| {
        let name = StepName::of(run, attempt.step);
        escape_control(&format!("{name} prints {}", attempt.repeat))
    };
    ledger.repeats_of(run, is_meant).map(text).collect()
}

/// The output of `why` without its heading, for the view of a step.
pub(crate) fn reasons_text(ledger: &LedgerAt<'_>, run: &Run, number: StepNumber) -> Vec<String> {
    let Ok(found) = explain(&ledger.state, run.id, number, ledger.now) else { return Vec::new() };
    let own = lines(&found).into_iter().filter(|line| line.depth > 0);
    let mut texts: Vec<String> = own
        .map(|line| format!("{}{}", "  ".repeat(line.depth - 1), escape_control(&line.text)))
        .collect();
    let is_open = run.step(number).is_some_and(|step| step.status.is_open());
    texts.extend(verdict(ledger, run, &found).filter(|_| is_open));
    texts.extend(repeated_texts(ledger, run, |step| step == number));
    let resume = resume(ledger, run, &found);
    texts.extend(resume.iter().map(|action| action.text.clone()));
    let commands = commands(run, &found, resume, ledger.surroundings());
    // The view of the step shows it.
    let own = show_step(&StepName::of(run, number), &run.name, ledger.context.dir).to_string();
    let commands = commands.iter().filter(|command| **command != escape_control(&own));
    texts.extend(commands.map(|command| format!("type: {command}")));
    texts
}

/// Wraps a text after an indent.
fn wrapped(text: &str, indent: usize, style: Style) -> impl Iterator<Item = String> {
    let room = style.columns.map_or(usize::MAX, |columns| columns.saturating_sub(indent + 2));
    wrap(text, room.max(24)).into_iter()
}
