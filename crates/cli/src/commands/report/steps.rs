//! Writes the steps: each with its definition in each version of the plan, why it has its status, its
//! attempts, and its records.

use std::collections::BTreeMap;
use std::fmt;

use maud::{Markup, PreEscaped, html};

use plan_ledger::plan::{CompactStep, explain};
use plan_ledger::{StepNumber, StepStatus};
use plan_ledger_views::{explanation_document, html as html_of, step_definition};

use super::collect::{Collected, Records, Span};
use super::forms::{Audience, step_forms};
use super::points::{shortened, text_of};
use super::why::why;

/// Maximum number of steps with an explanation down to the root causes.
const EXPLAINED_MAX: usize = 200;

/// The most steps that a browser builds at once. It takes more of them as texts, and builds those while it has
/// time.
const EAGER_MAX: usize = 500;

/// The steps of such a text.
const CHUNK: usize = 250;

/// The section of the steps. Those that have not changed since record `known` are left out.
pub(super) fn steps(of: &Collected, audience: Audience, known: u64) -> Markup {
    let run = &of.run;
    let definitions = Definitions::of(of);
    let mut left = EXPLAINED_MAX;
    let is_wanted =
        |number: &StepNumber| of.changed.get(number).is_none_or(|changed| *changed > known);
    let written: Vec<_> = run
        .numbered_steps()
        .map(|(number, _)| number)
        .filter(is_wanted)
        .map(|number| {
            let step = Step { of, number, definitions: &definitions, audience };
            WrittenStep { first: step.first(), markup: step.markup(&mut left) }
        })
        .collect();
    html! {
        section id="steps" {
            h2 { "Steps" }
            p.filter hidden id="filter" {
                input type="search" id="search" placeholder="Find a step ( / )" aria-label="Find a step" autocomplete="off";
                label { input type="checkbox" id="open" autocomplete="off"; " only those that are not done" }
                span id="found" role="status" {}
            }
            div.steps { (list(&written)) }
        }
    }
}

struct WrittenStep {
    /// The first record with the step.
    first: Option<u64>,
    markup: Markup,
}

/// The steps. Many of them are plain text, which a browser without scripts displays as it is.
fn list(steps: &[WrittenStep]) -> Markup {
    // A chunk exists from the first record with one of its steps.
    let first = |chunk: &[WrittenStep]| chunk.iter().map(|step| step.first).min().flatten();
    html! {
        @if steps.len() <= EAGER_MAX {
            @for step in steps { (step.markup) }
        } @else {
            @for chunk in steps.chunks(CHUNK) {
                div.chunk data-f=[first(chunk)] data-steps=(chunk.len()) {
                    noscript { @for step in chunk { (step.markup) } }
                }
            }
        }
    }
}

/// The place of each step in each version that was active, and the range of records.
struct Definitions(BTreeMap<StepNumber, Vec<(Span, u32, usize)>>);

impl Definitions {
    fn of(of: &Collected) -> Self {
        let mut all: BTreeMap<StepNumber, Vec<_>> = BTreeMap::new();
        for (span, version) in of.active_spans() {
            let Some(known) = of.run.version(version) else { continue };
            for (step, number) in known.numbers.iter().enumerate() {
                all.entry(*number).or_default().push((span, version, step));
            }
        }
        Self(all)
    }

    /// The content of each version about a step; equal versions are merged.
    fn each(
        &self,
        of: &Collected,
        number: StepNumber,
        write: impl Fn(CompactStep<'_>, Option<&str>) -> String,
    ) -> Vec<(Span, String)> {
        let mut all: Vec<(Span, String)> = Vec::new();
        for (span, version, place) in self.0.get(&number).into_iter().flatten() {
            let Some(version) = of.run.version(*version) else { continue };
            let Some(step) = version.plan.step(*place) else { continue };
            let text = write(step, version.plan.owner_of(step));
            match all.last_mut() {
                Some((last, same)) if *same == text && last.until == Some(span.from) => {
                    last.until = span.until;
                }
                _ => all.push((*span, text)),
            }
        }
        // A removed step keeps the content of its last version.
        if let Some((last, _)) = all.last_mut() {
            last.until = None;
        }
        all
    }
}

/// A step to write.
struct Step<'a> {
    of: &'a Collected,
    number: StepNumber,
    definitions: &'a Definitions,
    audience: Audience,
}

impl Step<'_> {
    /// The first record with the step.
    fn first(&self) -> Option<u64> {
        self.definitions.0.get(&self.number)?.first().map(|(span, _, _)| span.from)
    }

    fn markup(&self, left: &mut usize) -> Markup {
        let Self { of, number, definitions, .. } = *self;
        let run = &of.run;
        let Some(state) = run.step(number) else { return html! {} };
        let titles = definitions
            .each(of, number, |step, owner| title(state.id(), step, owner).into_string());
        let first = self.first();
        let why = why(run, number);
        html! {
            details.step id=(format!("step-{number}")) data-f=[first] {
                summary {
                    (mark(state.status, &format!("s{number}")))
                    span.number { "#" (number) }
                    span.id { (state.id()) }
                    @for (span, text) in &titles {
                        span.titles data-f=(span.from) data-t=[span.until] hidden[span.is_over()] { (maud::PreEscaped(text)) }
                    }
                    span.attempts { "attempts " span data-k=(format!("a{number}")) { (state.attempts) } }
                    span.why data-k=(format!("w{number}")) data-row hidden[why.is_empty()] { (shortened(&why)) }
                }
                div.body {
                    (self.body(left))
                }
            }
        }
    }

    fn body(&self, left: &mut usize) -> Markup {
        let Self { of, number, definitions, audience } = *self;
        let definitions =
            definitions.each(of, number, |step, _| html_of(&step_definition(&of.run, step)));
        html! {
            (step_forms(&of.run, number, audience))
            @if let Some(text) = self.explanation(left) {
                div data-f=(of.seq) {
                    h3 { "Why it is not dispatched" }
                    pre.reasons { (text) }
                }
            }
            @for (span, text) in definitions {
                div data-f=(span.from) data-t=[span.until] hidden[span.is_over()] { (PreEscaped(text)) }
            }
            h3 { "Records" }
            (records(of.parts.histories.get(&number)))
        }
    }

    /// Why an open step is not dispatched, down to the root causes, at the last record.
    fn explanation(&self, left: &mut usize) -> Option<String> {
        let Self { of, number, .. } = *self;
        let is_open = of.run.step(number)?.status.is_open();
        if !is_open || *left == 0 {
            return None;
        }
        let found = explain(&of.state, of.run.id, number, of.time).ok()?;
        let text = text_of(&explanation_document(&found));
        *left -= usize::from(!text.is_empty());
        Some(text).filter(|text| !text.is_empty())
    }
}

fn title(id: &str, step: CompactStep<'_>, owner: Option<&str>) -> Markup {
    let title = if step.title().is_empty() { step.goal() } else { step.title() };
    let title = title.lines().next().unwrap_or_default();
    html! {
        @if !title.is_empty() && title != id { span.title { (shortened(title)) } }
        @if let Some(owner) = owner { span.owner { (owner) } }
    }
}

/// Records, each in an element, so that a page of an earlier record leaves it out.
pub(super) fn records(of: Option<&Records>) -> Markup {
    html! {
        @if let Some(Records { texts, left_out }) = of {
            @if *left_out > 0 {
                p.hint { (left_out) " earlier records are left out; " code { "ledger inspect step" } " shows them." }
            }
            @for (seq, text) in texts { pre.record data-f=(seq) { (text) } }
        } @else { p.hint { "No record." } }
    }
}

/// The sign and the word of a status.
fn mark(status: StepStatus, key: &dyn fmt::Display) -> Markup {
    html! { span.mark data-s=(status) data-k=(key) { (status) } }
}
