//! A step's story for people.

use crate::output::Failure;
use plan_ledger::ledger::{LedgerView, time_text};
use plan_ledger::log::Proof;
use plan_ledger::plan::{Criterion, Outcome, Output, Receipt, Run, Step, StepEvent, StepStatus};

use super::content::content_text;
use super::control_phrase::cost_text;
use super::domain::reasons_text;
use super::page::Page;
use super::phrase::{basis, blob_text, outcome};
use super::reference::{step_name, text_of};
use super::step::{Moment, Story};
use super::text::{Paint, Table, plain, span, words};

/// How much of an output, or a log, is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    Short,
    Whole,
}

/// Characters of an output, or a log, that are shown.
const SHOWN: usize = 2_000;

pub(super) fn print(story: &Story<'_>, length: Length, page: &mut Page<'_>) -> Result<(), Failure> {
    let Story { scene, run, number, .. } = story;
    let status = run.step(*number).map_or(StepStatus::Removed, |step| step.status);
    let name = format!("step {}", step_name(run, *number));
    let heading = page.style.paint(Paint::Heading, &name);
    let word = page.style.paint(status_paint(status), &status.to_string());
    page.line(&format!("{heading} of run {}: {word}", plain(&run.name)))?;
    scene.print_past(page)?;
    for reason in reasons_text(&scene.state, run, *number, scene.look.dir, scene.now) {
        page.line(&format!("  {reason}"))?;
    }
    if let Some(accepted) = run.step(*number).and_then(|step| step.accepted()) {
        page.line(&format!("  {}", basis(accepted)))?;
    }
    page.line("")?;
    print_plan(story, page)?;
    print_history(story, length, page)?;
    Ok(())
}

fn status_paint(status: StepStatus) -> Paint {
    match status {
        StepStatus::Accepted => Paint::Good,
        StepStatus::Failed => Paint::Bad,
        StepStatus::OutcomeUnknown | StepStatus::Reported => Paint::Notice,
        _ => Paint::None,
    }
}

fn print_plan(story: &Story<'_>, page: &mut Page<'_>) -> Result<(), Failure> {
    let Some((version, step)) = text_of(story.run, story.number) else {
        return page.painted(Paint::Bad, "its plan cannot be read");
    };
    page.painted(Paint::Faint, &format!("in version {version} of the plan"))?;
    let mut table = Table::default();
    for (name, text) in plan_fields(story.run, &step.whole()) {
        for (place, line) in text.lines().enumerate() {
            let name = if place == 0 { name } else { "" };
            table.row([(Paint::Faint, name.to_owned()), (Paint::None, plain(line))]);
        }
    }
    // Nothing of a plan is cut: it is what one has come to read.
    let lines = table.lines(super::text::Style::PLAIN, 2);
    lines.iter().try_for_each(|line| page.line(line))
}

fn plan_fields(run: &Run, step: &Step) -> Vec<(&'static str, String)> {
    let defaults = run.plan().map(|plan| step.with_defaults(&plan.header().defaults));
    let full = defaults.as_ref().unwrap_or(step);
    let list = |items: &[String]| items.join(", ");
    let optional = |text: &Option<String>| text.clone().unwrap_or_default();
    let seconds = |number: Option<u32>| number.map_or(String::new(), |n| format!("{n} seconds"));
    let criterion = |(place, criterion): (usize, &Criterion)| {
        let kind = match criterion {
            Criterion::Text(_) => "text",
            Criterion::Command(_) => "command",
            Criterion::Cel(_) => "cel",
        };
        format!("[{place}] {kind}: {}", criterion.body())
    };
    let criteria: Vec<_> = step.acceptance.iter().enumerate().map(criterion).collect();
    let idempotent = full.idempotent.map_or(String::new(), |how| words(&how, ' '));
    let priority = if step.priority == 0 { String::new() } else { step.priority.to_string() };
    let retry = full
        .retry
        .as_ref()
        .map_or(String::new(), |retry| format!("at most {} attempts", retry.max_attempts));
    let fields = vec![
        ("title", step.title.clone()),
        ("goal", step.goal.clone()),
        ("phase", optional(&step.phase)),
        ("owner", optional(&full.owner)),
        ("command", optional(&full.command)),
        ("after", list(&step.after)),
        ("inputs", list(&step.inputs)),
        ("outputs", list(&step.outputs)),
        ("tools", list(&step.tools)),
        ("tags", list(&step.tags)),
        ("changes", list(&step.changes)),
        ("side effects", list(&step.side_effects)),
        ("idempotent", idempotent),
        ("retry", retry),
        ("priority", priority),
        ("timeout", seconds(full.timeout_seconds)),
        ("lease", seconds(full.lease_seconds)),
        ("acceptance", criteria.join("\n")),
    ];
    fields.into_iter().filter(|(_, text)| !text.is_empty()).collect()
}

fn print_history(story: &Story<'_>, length: Length, page: &mut Page<'_>) -> Result<(), Failure> {
    page.line("")?;
    if story.history.is_empty() {
        let first = story.scene.view.log().first_seq();
        return page.line(&match first {
            1 => "nothing has happened to it yet".to_owned(),
            _ => {
                format!("nothing has happened to it since record {first}; those before were pruned")
            }
        });
    }
    for moment in &story.history {
        if let Some(StepEvent::Dispatched(dealt)) = moment.event() {
            let text = format!("attempt {} (token @{})", dealt.attempt, moment.record.seq);
            page.painted(Paint::Heading, &text)?;
        }
        print_moment(&story.scene.view, moment, length, page)?;
    }
    Ok(())
}

fn print_moment(
    view: &LedgerView,
    moment: &Moment,
    length: Length,
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    let record = &moment.record;
    let receipt = match moment.event() {
        Some(StepEvent::ReceiptRecorded(event)) => Some((&event.receipt, String::new())),
        Some(StepEvent::ReceiptRefused(event)) => {
            Some((&event.receipt, format!(" refused ({})", plain(&event.reason))))
        }
        _ => None,
    };
    let text = match &receipt {
        Some((receipt, how)) => {
            let token = match moment.event() {
                Some(StepEvent::ReceiptRefused(event)) => event.token.0,
                Some(StepEvent::ReceiptRecorded(event)) => event.token.0,
                _ => record.seq,
            };
            format!("@{token} receipt{how}: {}", outcome(&receipt.outcome))
        }
        None => content_text(record, &moment.content).1,
    };
    let mark = match moment.proof {
        Proof::Proven => ' ',
        Proof::BehindDamage => '!',
        Proof::Unproven => '?',
    };
    page.line(&format!("  {:>7}{mark} {}  {text}", record.seq, time_text(record.time)))?;
    match moment.event() {
        Some(StepEvent::Dispatched(dealt)) => detail("key", &plain(&dealt.idempotency_key), page),
        _ => receipt.map_or(Ok(()), |(receipt, _)| print_receipt(view, receipt, length, page)),
    }
}

fn print_receipt(
    view: &LedgerView,
    receipt: &Receipt,
    length: Length,
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    if let Outcome::Failed { payload, .. } = &receipt.outcome
        && payload.as_str() != "null"
    {
        block("payload", &pretty(payload), length, page)?;
    }
    print_output(view, &receipt.output, length, page)?;
    for (name, value) in &receipt.variables {
        detail("variable", &format!("{} = {}", plain(name), plain(value.as_str())), page)?;
    }
    for artifact in &receipt.artifacts {
        detail("artifact", &format!("{} {}", plain(&artifact.path), plain(&artifact.hash)), page)?;
    }
    for effect in &receipt.side_effects {
        detail("side effect", &plain(effect), page)?;
    }
    if receipt.cost != plan_ledger::plan::Cost::default() {
        detail("cost", &cost_text(receipt.cost), page)?;
    }
    if receipt.duration > 0 {
        detail("duration", &span(receipt.duration), page)?;
    }
    if !receipt.log_tail.is_empty() {
        block("log tail", &receipt.log_tail, length, page)?;
    }
    Ok(())
}

/// An output. One that is a blob is read only if all of it is asked for.
fn print_output(
    view: &LedgerView,
    output: &Output,
    length: Length,
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    let blob = match output {
        Output::Inline(_) if output.is_null() => return Ok(()),
        Output::Inline(value) => return block("output", &pretty(value), length, page),
        Output::Blob(blob) => blob,
    };
    let state = view.blob_state(output).map_or_else(String::new, |state| format!(", {state}"));
    detail("output", &format!("{}{}", blob_text(blob), plain(&state)), page)?;
    if length == Length::Whole {
        match view.output(output) {
            Ok(value) => block("output", &pretty(&value), length, page)?,
            Err(error) => {
                page.painted(Paint::Bad, &format!("{INDENT}{}", plain(&error.to_string())))?;
            }
        }
    }
    Ok(())
}

/// JSON over several lines; a string as its own text.
fn pretty(value: &plan_ledger::plan::Json) -> String {
    match value.value() {
        serde_json::Value::String(text) => text,
        value => serde_json::to_string_pretty(&value).unwrap_or_else(|_| value.to_string()),
    }
}

/// Columns before details.
const INDENT: &str = "            ";

fn detail(name: &str, text: &str, page: &mut Page<'_>) -> Result<(), Failure> {
    let name = page.style.paint(Paint::Faint, name);
    page.line(&format!("{INDENT}{name}: {text}"))
}

/// Text of several lines, each made harmless, shortened unless all of it is asked for.
fn block(name: &str, text: &str, length: Length, page: &mut Page<'_>) -> Result<(), Failure> {
    let shown: String = match length {
        Length::Whole => text.to_owned(),
        Length::Short => text.chars().take(SHOWN).collect(),
    };
    let rest = text.chars().count().saturating_sub(shown.chars().count());
    let lines: Vec<_> = shown.lines().map(plain).collect();
    match lines.as_slice() {
        [one] if rest == 0 => detail(name, one, page)?,
        many => {
            page.line(&format!("{INDENT}{}:", page.style.paint(Paint::Faint, name)))?;
            many.iter().try_for_each(|line| page.line(&format!("{INDENT}  {line}")))?;
        }
    }
    if rest > 0 {
        let text = format!("{INDENT}  ... {rest} more characters; --full shows all of it");
        page.painted(Paint::Faint, &text)?;
    }
    Ok(())
}
