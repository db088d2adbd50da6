//! A step as its plan defines it: one row for each field.

use plan_ledger::plan::{CompactStep, Criterion, Fallback, Gate, OnTimeout, RetryPolicy};
use plan_ledger::{Run, Step};

use crate::layout::{Document, Paint, Table};
use crate::words::{cost_text, counted, variant_words};

/// The definition of a step in a version of the plan.
#[must_use]
pub fn step_definition(run: &Run, step: CompactStep<'_>) -> Document {
    let mut document = Document::default();
    // The text of a plan is never cut.
    let mut table = Table::wrapped();
    for (name, text) in plan_fields(run, &step.decode()) {
        for (place, line) in text.lines().enumerate() {
            let name = if place == 0 { name } else { "" };
            table.row([(Paint::Faint, name), (Paint::None, line)]);
        }
    }
    document.table(2, table);
    document
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
        format!("{}. {kind}: {}", place + 1, criterion.body())
    };
    let criteria: Vec<_> = step.acceptance.iter().enumerate().map(criterion).collect();
    let idempotent = full.idempotent.map_or(String::new(), |how| variant_words(&how, ' '));
    let priority = if step.priority == 0 { String::new() } else { step.priority.to_string() };
    let hints = step.failure_hints.iter();
    let hints = hints.map(|(word, class)| format!("`{word}` is {}", variant_words(class, ' ')));
    let hints: Vec<_> = hints.collect();
    let on_false = if step.preconditions.is_empty() {
        String::new()
    } else {
        variant_words(&step.on_false, ' ')
    };
    let extra = serde_json::to_string(&step.extra).unwrap_or_default();
    let fields = vec![
        ("title", step.title.clone()),
        ("goal", step.goal.clone()),
        ("phase", optional(&step.phase)),
        ("owner", optional(&full.owner)),
        ("command", optional(&full.command)),
        ("after", list(&step.after)),
        ("inputs", list(&step.inputs)),
        ("outputs", list(&step.outputs)),
        ("optional outputs", list(&step.optional_outputs)),
        ("condition", optional(&step.condition)),
        ("preconditions", step.preconditions.join("\n")),
        ("while one is false", on_false),
        ("tools", list(&step.tools)),
        ("tags", list(&step.tags)),
        ("changes", list(&step.changes)),
        ("side effects", list(&step.side_effects)),
        ("idempotent", idempotent),
        ("probe", optional(&step.probe)),
        ("retry", full.retry.as_deref().map_or_else(String::new, retry_text)),
        ("failure class", optional(&step.failure_class)),
        ("failure hints", hints.join("\n")),
        ("fallback", step.fallback.as_deref().map_or_else(String::new, fallback_text)),
        ("gate", step.gate.as_deref().map_or_else(String::new, gate_text)),
        ("priority", priority),
        ("cost estimate", step.cost_estimate.map_or_else(String::new, cost_text)),
        ("cost limit", step.cost_limit.map_or_else(String::new, cost_text)),
        ("timeout", seconds(full.timeout_seconds)),
        ("estimate", seconds(full.estimate_seconds)),
        ("repeat limit", full.repeat_limit.map_or_else(String::new, |limit| limit.to_string())),
        ("lease", seconds(full.lease_seconds)),
        ("acceptance", criteria.join("\n")),
        ("extra", if step.extra.is_empty() { String::new() } else { extra }),
    ];
    fields.into_iter().filter(|(_, text)| !text.is_empty()).collect()
}

fn retry_text(retry: &RetryPolicy) -> String {
    let RetryPolicy { max_attempts, backoff_seconds, .. } = retry;
    let mut parts = vec![format!("at most {}", counted(u64::from(*max_attempts), "attempt"))];
    if *backoff_seconds > 0 {
        parts.push(format!("{backoff_seconds} s before the second"));
    }
    parts.extend(retry.backoff_percent.map(|it| format!("each further delay {it} % of the last")));
    parts.extend(retry.backoff_max_seconds.map(|it| format!("a delay of at most {it} s")));
    parts.extend(retry.jitter_percent.map(|it| format!("shortened by up to {it} %")));
    let classes = retry.per_class.iter();
    parts.extend(classes.map(|(class, most)| {
        format!("{}: at most {}", class.replace('_', " "), counted(u64::from(*most), "attempt"))
    }));
    parts.join("; ")
}

fn fallback_text(fallback: &Fallback) -> String {
    let age = |most: &Option<u64>| {
        most.map_or_else(String::new, |most| format!(", at most {most} s old"))
    };
    match fallback {
        Fallback::Step(id) => format!("step {id}"),
        Fallback::Owner(owner) => format!("owner {owner}"),
        Fallback::Value { value, max_age_seconds } => {
            format!("value {value}{}", age(max_age_seconds))
        }
        Fallback::Variable { name, max_age_seconds } => {
            format!("variable {name}{}", age(max_age_seconds))
        }
    }
}

fn gate_text(gate: &Gate) -> String {
    let Gate { question, options, to, deadline_seconds, on_timeout } = gate;
    let mut text = question.clone();
    if !options.is_empty() {
        text = format!("{text} [{}]", options.join(", "));
    }
    if let Some(to) = to {
        text = format!("{text} (for {to})");
    }
    if let Some(seconds) = deadline_seconds {
        text = format!("{text}, within {seconds} s");
    }
    match on_timeout {
        None => text,
        Some(OnTimeout::EscalateTo(other)) => format!("{text}, then ask {other}"),
        Some(OnTimeout::Answer(answer)) => format!("{text}, then {answer}"),
        Some(OnTimeout::Abort) => format!("{text}, then abort"),
    }
}
