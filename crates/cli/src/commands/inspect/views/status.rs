//! The status of a run for its user: progress, current activities, required actions, and the
//! commands that continue the run.
//!
//! Invariant: what the run does and what waits is computed once, by the package of views; this module prints it.

use std::collections::BTreeMap;

use plan_ledger::plan::{Criterion, Micros};
use plan_ledger::{Idempotence, Run, RunStatus, StepNumber, StepStatus};

use crate::commands::inspect::context::Form;
use crate::commands::inspect::json::views::UserViewLine;
use crate::commands::inspect::ledger_at::LedgerAt;
use crate::commands::inspect::lookup::{step_name, steps_in_status};
use crate::commands::inspect::next_action::{NextAction, actions, limited};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::units::{span, words};
use crate::commands::inspect::text::waits::{inside_wait_of, inside_wait_text, wait_text};
use crate::output::render::Paint;
use crate::output::{Failure, cost_text, escape_control, is_for_agent, warning_text};
use crate::protocol::hand_off::files::stale_steps;
use crate::protocol::trusted_text;
use crate::runner::{CheckAtWork, is_at_work_alone, worker_at_work};
use plan_ledger_views::stale_text;
use plan_ledger_views::{
    Activity, NextGroup, RunActivity, RunProgress, gone_steps, hosted_steps, rejected_text,
    steps_in_flight, title_line, waits_of,
};

use super::why::repeated_texts;

/// Prints the status of a run.
pub(crate) fn show_user(
    ledger: &LedgerAt<'_>,
    run: &Run,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let stands = ledger.activity(run);
    let progress = RunProgress::of(run, &stands, ledger.now);
    let actions = actions(&ledger.state, run, ledger.surroundings());
    let actions = limited(&actions, run, ledger.context.dir);
    if ledger.context.form == Form::Json {
        let warnings = run.warnings(ledger.state.time, ledger.now);
        let line = UserViewLine::of((ledger, run), (&stands, &progress), actions, warnings);
        let line = line.with_stale_files(stale_files(ledger, run));
        return out.json(&line.with_answers(ledger.answers_of_others(run.id)));
    }
    ledger.heading_of("status", run, &stands, out)?;
    print_progress(run, &progress, out)?;
    print_now(ledger, run, &stands, out)?;
    print_failed(run, out)?;
    // Otherwise an action names it.
    if let Some(text) =
        rejected_text(run).filter(|_| run.request.is_none() && run.status == RunStatus::Running)
    {
        out.painted(Paint::Notice, &format!("  {}", escape_control(&text)))?;
    }
    if let Some(text) = trusted_text(run) {
        out.painted(Paint::Notice, &format!("  {}", escape_control(&text)))?;
    }
    for answer in ledger.answers_of_others(run.id).iter().rev().take(LISTED_MAX) {
        out.painted(Paint::Notice, &format!("  {}", answer.text(run)))?;
    }
    print_warnings(ledger, run, out)?;
    print_stale(ledger, run, out)?;
    if let (Some(left), None) = (progress.expected, &stands.absence) {
        out.line(&format!("  about {} more", whole_seconds(left)))?;
    }
    let (needs, next): (Vec<_>, Vec<_>) = actions.iter().partition(|action| needs_person(action));
    let heading = if is_for_agent() { "waits for a person" } else { "needs you" };
    print_actions(heading, &needs, out)?;
    print_actions("next", &next, out)
}

/// Prints the warnings for a person.
pub(crate) fn print_warnings(
    ledger: &LedgerAt<'_>,
    run: &Run,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let found = run.warnings(ledger.state.time, ledger.now);
    let found = found.iter().map(|warning| warning_text(run, warning));
    let mut all = found.chain(repeated_texts(ledger, run, |_| true));
    all.try_for_each(|text| out.painted(Paint::Notice, &format!("  warning: {text}")))
}

/// Prints the steps with files that changed since the plan was made.
fn print_stale(ledger: &LedgerAt<'_>, run: &Run, out: &mut Output<'_>) -> Result<(), Failure> {
    let stale = stale_files(ledger, run).unwrap_or_default();
    let mut lines = stale_lines(run, &stale).into_iter();
    lines.try_for_each(|line| out.painted(Paint::Notice, &format!("  {line}")))
}

/// A line for each of the first steps with files that changed since the plan was made.
pub(crate) fn stale_lines(run: &Run, stale: &[(StepNumber, Vec<String>)]) -> Vec<String> {
    let line = |(number, files): &(StepNumber, Vec<String>)| {
        let text = escape_control(&stale_text(files));
        format!("warning: {}: {text}", step_name(run, *number))
    };
    let mut lines: Vec<String> = stale.iter().take(LISTED_MAX).map(line).collect();
    let rest = stale.len().saturating_sub(LISTED_MAX);
    lines.extend((rest > 0).then(|| format!("warning: the same for {rest} more steps")));
    lines
}

/// The files of steps that did not begin which changed since the plan was made, if that is known.
pub(crate) fn stale_files(
    ledger: &LedgerAt<'_>,
    run: &Run,
) -> Option<Vec<(StepNumber, Vec<String>)>> {
    let is_open = run.status == RunStatus::Running;
    if is_open && !ledger.is_past() { stale_steps(run, None) } else { None }
}

fn print_progress(run: &Run, progress: &RunProgress, out: &mut Output<'_>) -> Result<(), Failure> {
    let RunProgress { title, done, steps, continues, .. } = progress;
    let more = if *continues { " so far" } else { "" };
    let spent = run.spent();
    let spent = if spent == plan_ledger::Cost::default() {
        String::new()
    } else {
        format!(", cost {}", cost_text(spent))
    };
    out.line(&format!("  {}: {done} of {steps} steps{more}{spent}", escape_control(title)))
}

fn print_now(
    ledger: &LedgerAt<'_>,
    run: &Run,
    stands: &RunActivity,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let is_absent = ledger.runner.is_absent();
    let gone: BTreeMap<StepNumber, u32> = gone_steps(&ledger.state, run, &ledger.dead)
        .into_iter()
        .map(|(number, dead)| (number, dead.process))
        .collect();
    let hosted: Vec<StepNumber> =
        hosted_steps(&ledger.state, run).map(|(number, _)| number).collect();
    let absence = ledger.runner.absence();
    // The heading has the first one, and what waits for people has a list of its own.
    let is_shown = |activity: &&Activity| !matches!(activity, Activity::WaitingForPeople { .. });
    for activity in stands.others.iter().filter(is_shown) {
        out.line(&format!("  {}", escape_control(&activity.to_string())))?;
    }
    if let Some(reason) = run.why_stopping().filter(|_| run.status == RunStatus::Running) {
        out.line(&format!("  stopping: {}", escape_control(&reason)))?;
    }
    for wait in waits_of(&ledger.waits, run) {
        out.painted(Paint::Notice, &format!("  {}", wait_text(wait, run, ledger.now)))?;
    }
    for (step, _) in steps_in_flight(&ledger.state, run).take(LISTED_MAX) {
        let end = match gone.get(&step) {
            Some(process) => WorkerEnd::Gone(*process),
            None if absence.is_none() || !hosted.contains(&step) => WorkerEnd::None,
            None if is_absent => left_at_work(ledger, run, step),
            None => WorkerEnd::Unseen,
        };
        print_working(ledger, run, (step, &title_line(run, step)), end, out)?;
    }
    print_checks(ledger, run, out)
}

/// Prints the checks that run now.
fn print_checks(ledger: &LedgerAt<'_>, run: &Run, out: &mut Output<'_>) -> Result<(), Failure> {
    ledger.checks_at_work(run).iter().try_for_each(|check| {
        let CheckAtWork { step, criterion, process, since } = *check;
        let place = u64::from(criterion) + 1;
        let what = step.map_or_else(|| "the plan".to_owned(), |step| step_name(run, step));
        let body = criterion_of(run, step, criterion).unwrap_or_default();
        let body = escape_control(body.lines().next().unwrap_or_default());
        let time = whole_seconds(ledger.now.saturating_sub(since));
        let text =
            format!("checking {what}, criterion {place}: {body}, process {process}, for {time}");
        out.line(&format!("  {text}"))
    })
}

/// The text of a criterion of a step or of the plan.
fn criterion_of(run: &Run, step: Option<StepNumber>, criterion: u32) -> Option<String> {
    let place = usize::try_from(criterion).ok()?;
    let body = |criteria: &[Criterion]| Some(criteria.get(place)?.body().to_owned());
    match step {
        Some(number) => body(&run.plan_step(number)?.acceptance()),
        None => body(&run.plan()?.header().test_criteria),
    }
}

/// The state of a step's worker after its runner ended.
fn left_at_work(ledger: &LedgerAt<'_>, run: &Run, number: StepNumber) -> WorkerEnd {
    let dir = ledger.surroundings().dir;
    let Some(attempt) = run.step(number).and_then(|step| step.attempt()) else {
        return WorkerEnd::WithRunner;
    };
    match worker_at_work(dir, run.id, attempt.token) {
        Some(process) => WorkerEnd::LeftAtWork(process),
        None if is_at_work_alone(dir, run.id, attempt.token) => WorkerEnd::LeftAlone,
        None => WorkerEnd::WithRunner,
    }
}

/// How the worker of a step in flight is known to have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkerEnd {
    /// It is at work, as far as is known.
    None,
    /// Its runner is gone.
    WithRunner,
    /// Its runner is gone, and this process of the worker is still at work.
    LeftAtWork(u32),
    /// Its runner and its supervisor are gone, and the worker is still at work.
    LeftAlone,
    /// Its runner may be gone, which cannot be seen from here.
    Unseen,
    /// The process that claimed the step is gone.
    Gone(u32),
}

fn print_working(
    ledger: &LedgerAt<'_>,
    run: &Run,
    (number, title): (StepNumber, &str),
    end: WorkerEnd,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let attempt = run.step(number).and_then(|step| Some((step.attempts, step.attempt()?)));
    let Some((attempts, attempt)) = attempt else { return Ok(()) };
    let what = match end {
        WorkerEnd::None => "working on",
        WorkerEnd::WithRunner => "in flight when it stopped",
        WorkerEnd::LeftAtWork(_) => "still at work",
        WorkerEnd::LeftAlone => "still at work, without its supervisor",
        WorkerEnd::Unseen => "in flight",
        WorkerEnd::Gone(_) => "its worker is gone",
    };
    let again = if attempts > 1 { format!(", attempt {attempts}") } else { String::new() };
    let owner = attempt.second_owner.as_ref();
    let owner = owner.map(|owner| format!(" of {owner}, the second owner")).unwrap_or_default();
    let worker = escape_control(&format!("{}{owner}", attempt.worker));
    let time = whole_seconds(ledger.now.saturating_sub(attempt.dispatched));
    let time = match end {
        WorkerEnd::None => format!("for {time}"),
        WorkerEnd::WithRunner | WorkerEnd::Unseen => format!("begun {time} ago"),
        WorkerEnd::LeftAtWork(process) => {
            let limit = run.plan().zip(run.plan_step(number)).and_then(|(plan, step)| {
                step.timeout_seconds().or(plan.header().defaults.timeout_seconds)
            });
            let limit = match limit {
                Some(seconds) => format!("limit {}", span(Micros::from(seconds) * 1_000_000)),
                None => "no time limit".to_owned(),
            };
            format!("begun {time} ago, process {process}, {limit}")
        }
        WorkerEnd::LeftAlone => {
            let found = run.plan().zip(run.plan_step(number));
            let is_once =
                found.is_some_and(|(plan, step)| plan.idempotence_of(step) == Idempotence::No);
            let next = if is_once { "waits for its end" } else { "kills it" };
            format!("begun {time} ago, no time limit; the next runner {next}")
        }
        WorkerEnd::Gone(process) => format!("begun {time} ago, process {process}"),
    };
    let title = match run.step(number) {
        Some(step) if step.id() == title => String::new(),
        _ => format!(" ({})", escape_control(title)),
    };
    let name = step_name(run, number);
    let paint = if matches!(end, WorkerEnd::Gone(_)) { Paint::Bad } else { Paint::None };
    out.painted(paint, &format!("  {what}: {name}{title}{again}, by {worker}, {time}"))?;
    let dir = ledger.present_dir().filter(|_| !matches!(end, WorkerEnd::Gone(_)));
    match dir.and_then(|dir| inside_wait_of(dir, &ledger.waits, run, number)) {
        Some(wait) => {
            let text = inside_wait_text(&wait, ledger.now);
            out.painted(Paint::Notice, &format!("    {text}"))
        }
        None => Ok(()),
    }
}

/// The largest number of failed steps that are listed.
const LISTED_MAX: usize = 5;

fn print_failed(run: &Run, out: &mut Output<'_>) -> Result<(), Failure> {
    let failed: Vec<StepNumber> = steps_in_status(run, StepStatus::Failed).collect();
    for number in failed.iter().take(LISTED_MAX) {
        let failure = run.step(*number).and_then(|step| step.last_failure());
        let why = failure.map_or_else(String::new, |(class, message)| {
            let message = message.lines().next().unwrap_or_default();
            format!(": {}: {}", words(class, ' '), escape_control(message))
        });
        out.painted(Paint::Bad, &format!("  failed: {}{why}", step_name(run, *number)))?;
    }
    match failed.len().saturating_sub(LISTED_MAX) {
        0 => Ok(()),
        rest => out.painted(Paint::Bad, &format!("  failed: {rest} more")),
    }
}

fn needs_person(action: &NextAction) -> bool {
    action.item.group() == NextGroup::Person
}

fn print_actions(
    heading: &str,
    actions: &[&NextAction],
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    // Without a command, the lines above say it; but an agent is told what waits for a person, without the
    // command, and a person how much more there is.
    let is_shown = |action: &&&NextAction| {
        !action.commands.is_empty() || (is_for_agent() || action.is_rest) && needs_person(action)
    };
    let actions: Vec<_> = actions.iter().filter(is_shown).collect();
    if actions.is_empty() {
        return Ok(());
    }
    out.painted(Paint::Notice, &format!("  {heading}"))?;
    actions.iter().try_for_each(|action| action.print("    ", out))
}

fn whole_seconds(micros: Micros) -> String {
    span(micros / 1_000_000 * 1_000_000)
}
