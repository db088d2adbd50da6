//! The operator's view of a run, for people.

use crate::output::Failure;
use plan_ledger::plan::{
    Account, AttemptSummary, BarrierSummary, Micros, OperatorView, Run, RunCounters,
};

use super::super::control_phrase::{cost_text, paused_text, spent, subject_text};
use super::super::page::Page;
use super::super::reference::{barrier_word, step_name};
use super::super::summary::progress;
use super::super::text::{Paint, Table, moment, plain, span, words};
use super::state_lines::barrier_paint;

pub(super) fn print(
    run: &Run,
    view: &OperatorView,
    now: Micros,
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    page.line(&format!("  {}", page.style.fit(&progress(run), 2)))?;
    print_numbers(run, view, page)?;
    print_stuck(view, now, page)?;
    print_flights("in flight", &view.in_flight, now, page)?;
    print_flights("in doubt", &view.outcome_unknown, now, page)?;
    print_questions(run, view, now, page)?;
    print_barriers(&view.barriers, page)?;
    if !view.next.is_empty() {
        let names: Vec<_> = view.next.iter().map(|number| step_name(run, *number)).collect();
        let text = format!("  next  {}", names.join(", "));
        page.line(&page.style.fit(&text, 0))?;
    }
    if let Some(due) = view.due {
        page.line(&format!("  next timer  {}", moment(due, now)))?;
    }
    Ok(())
}

fn print_numbers(run: &Run, view: &OperatorView, page: &mut Page<'_>) -> Result<(), Failure> {
    let RunCounters { failures, retries, exhausted, invalidated, preserved } = view.counters;
    let Account { attempts, .. } = view.account;
    let elapsed = span(view.elapsed / 1_000_000 * 1_000_000);
    let mut table = Table::default();
    let mut add = |name: &str, text: String| {
        table.row([(Paint::Faint, name.to_owned()), (Paint::None, text)]);
    };
    add("elapsed", elapsed);
    add("plan", format!("version {} of {}", view.active, view.versions.len()));
    add(
        "attempts",
        format!("{attempts}; {failures} failed, {retries} tried again, {exhausted} used up"),
    );
    add("spent", spent(run));
    if invalidated + preserved > 0 {
        add("replans", format!("took the work of {invalidated} steps, kept that of {preserved}"));
    }
    page.table(&table, 2)
}

fn print_stuck(view: &OperatorView, now: Micros, page: &mut Page<'_>) -> Result<(), Failure> {
    if let Some(cause) = &view.pause {
        page.painted(Paint::Notice, &format!("  {}", paused_text(cause)))?;
    }
    if let Some(reason) = &view.stopping {
        page.painted(Paint::Notice, &format!("  nothing more is dealt: {}", plain(reason)))?;
    }
    if let Some(request) = &view.request {
        let (seq, since) = (request.seq, moment(request.time, now));
        let text = format!("  another plan is asked for by record {seq}, {since}: ");
        page.painted(Paint::Notice, &format!("{text}{}", plain(&request.reason)))?;
    }
    if let Some((step, class, message)) = &view.last_failure {
        let text = format!("  last failure  #{step} {}: {}", words(class, ' '), plain(message));
        page.painted(Paint::Bad, &page.style.fit(&text, 0))?;
    }
    Ok(())
}

fn print_flights(
    what: &str,
    flights: &[AttemptSummary],
    now: Micros,
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    if flights.is_empty() {
        return Ok(());
    }
    let headings = [what, "attempt", "token", "worker", "set aside", "since", "lease"];
    let mut table = Table::with_headings(&headings);
    for flight in flights {
        let AttemptSummary { step, id, token, attempt, worker, dispatched, lease_until, reserved } =
            flight;
        let (paint, lease) = if *lease_until <= now {
            (Paint::Bad, format!("ran out {}", moment(*lease_until, now)))
        } else {
            (Paint::None, format!("until {}", moment(*lease_until, now)))
        };
        let aside = if *reserved == plan_ledger::plan::Cost::default() {
            "-".to_owned()
        } else {
            cost_text(*reserved)
        };
        table.row([
            (Paint::None, format!("#{step} {}", plain(id))),
            (Paint::None, attempt.to_string()),
            (Paint::None, format!("@{token}")),
            (Paint::None, plain(worker)),
            (Paint::None, aside),
            (Paint::None, moment(*dispatched, now)),
            (paint, lease),
        ]);
    }
    page.table(&table, 2)
}

fn print_questions(
    run: &Run,
    view: &OperatorView,
    now: Micros,
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    if view.questions.is_empty() {
        return Ok(());
    }
    let mut table = Table::with_headings(&["question", "about", "of whom", "due", "asked"]);
    for (id, question) in &view.questions {
        let about = match question.step {
            Some(step) => step_name(run, step),
            None => subject_text(&question.asked.subject),
        };
        let due = question.asked.deadline.map(|at| moment(at, now));
        table.row([
            (Paint::Notice, id.0.to_string()),
            (Paint::None, about),
            (Paint::None, plain(question.asked.to.as_deref().unwrap_or("anybody"))),
            (Paint::None, due.unwrap_or_else(|| "-".to_owned())),
            (Paint::None, plain(&question.asked.text)),
        ]);
    }
    page.table(&table, 2)
}

fn print_barriers(barriers: &[BarrierSummary], page: &mut Page<'_>) -> Result<(), Failure> {
    if barriers.is_empty() {
        return Ok(());
    }
    let mut table = Table::with_headings(&["barrier", "status", "arrived", "failed"]);
    for BarrierSummary { id, status, arrived, needed, failed } in barriers {
        table.row([
            (Paint::None, plain(id)),
            (barrier_paint(*status), barrier_word(*status).to_owned()),
            (Paint::None, format!("{arrived}/{needed}")),
            (Paint::None, failed.to_string()),
        ]);
    }
    page.table(&table, 2)
}
