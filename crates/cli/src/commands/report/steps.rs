//! Writes the steps: each with its definition in each version of the plan, why it has its status, its
//! attempts, and its records.

use std::collections::BTreeMap;
use std::fmt;

use maud::{Markup, Render, html};

use plan_ledger::plan::{CompactStep, explain};
use plan_ledger::{Criterion, StepNumber, StepStatus};

use plan_ledger_views::{explanation_lines, seconds, span};

use super::collect::{Collected, Line, Lines, Span};
use super::facts::{AttemptFacts, Fact, Mark};
use super::forms::{Audience, step_forms};
use super::points::shortened;
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
    let mut attempts: BTreeMap<StepNumber, Vec<&AttemptFacts>> = BTreeMap::new();
    for attempt in &of.attempts {
        attempts.entry(attempt.step).or_default().push(attempt);
    }
    let mut left = EXPLAINED_MAX;
    let numbers = (1..=run.steps.len()).filter_map(|number| u32::try_from(number).ok());
    let is_wanted =
        |number: &StepNumber| of.changed.get(number).is_none_or(|changed| *changed > known);
    let written: Vec<_> = numbers
        .map(StepNumber)
        .filter(is_wanted)
        .map(|number| {
            let attempts = attempts.get(&number).map_or(&[][..], Vec::as_slice);
            let step = Step { of, number, definitions: &definitions, audience };
            WrittenStep { first: step.first(), markup: step.markup(attempts, &mut left) }
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
struct Definitions(BTreeMap<StepNumber, Vec<(Span, usize, usize)>>);

impl Definitions {
    fn of(of: &Collected) -> Self {
        let mut all: BTreeMap<StepNumber, Vec<_>> = BTreeMap::new();
        for (index, (seq, version)) in of.activated.iter().enumerate() {
            let until = of.activated.get(index + 1).map(|(next, _)| *next);
            let Some(place) = usize::try_from(*version).ok().and_then(|it| it.checked_sub(1))
            else {
                continue;
            };
            let Some(known) = of.run.versions.get(place) else { continue };
            for (step, number) in known.numbers.iter().enumerate() {
                all.entry(*number).or_default().push((Span { from: *seq, until }, place, step));
            }
        }
        Self(all)
    }

    /// The content of each version about a step; equal versions are merged.
    fn each(
        &self,
        of: &Collected,
        number: StepNumber,
        write: impl Fn(CompactStep<'_>, Option<&str>) -> Markup,
    ) -> Vec<(Span, String)> {
        let mut all: Vec<(Span, String)> = Vec::new();
        for (span, version, place) in self.0.get(&number).into_iter().flatten() {
            let Some(version) = of.run.versions.get(*version) else { continue };
            let Some(step) = version.plan.step(*place) else { continue };
            let text = write(step, version.plan.owner_of(step)).into_string();
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

    fn markup(&self, attempts: &[&AttemptFacts], left: &mut usize) -> Markup {
        let Self { of, number, definitions, .. } = *self;
        let run = &of.run;
        let Some(state) = run.step(number) else { return html! {} };
        let titles = definitions.each(of, number, |step, owner| title(state.id(), step, owner));
        let texts = definitions.each(of, number, definition);
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
                    (self.body(attempts, &texts, left))
                }
            }
        }
    }

    fn body(
        &self,
        attempts: &[&AttemptFacts],
        texts: &[(Span, String)],
        left: &mut usize,
    ) -> Markup {
        let Self { of, number, audience, .. } = *self;
        let history = of.histories.get(&number);
        html! {
            (step_forms(&of.run, number, audience))
            @if let Some(text) = self.explanation(left) { (text) }
            @for (span, text) in texts {
                div data-f=(span.from) data-t=[span.until] hidden[span.is_over()] { (maud::PreEscaped(text)) }
            }
            @if !attempts.is_empty() {
                h3 { "Attempts" }
                ol.tries { @for attempt in attempts { (attempt_item(attempt)) } }
            }
            h3 { "Records" }
            (lines(history.unwrap_or(&Lines::default())))
        }
    }

    /// Why an open step is not dispatched, down to the root causes, at the last record.
    fn explanation(&self, left: &mut usize) -> Option<Markup> {
        let Self { of, number, .. } = *self;
        let status = of.run.step(number)?.status;
        if !status.is_open() || *left == 0 {
            return None;
        }
        let found = explain(&of.state, of.run.id, number, of.time).ok()?;
        let lines = explanation_lines(&found).into_iter();
        let lines: Vec<_> = lines.filter(|line| line.depth > 0).collect();
        if lines.is_empty() {
            return None;
        }
        *left -= 1;
        let text: Vec<_> = lines
            .iter()
            .map(|line| format!("{}{}", "  ".repeat(line.depth - 1), line.text))
            .collect();
        Some(html! {
            div data-f=(of.seq) {
                h3 { "Why it is not dispatched" }
                pre.reasons { (text.join("\n")) }
            }
        })
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

fn definition(step: CompactStep<'_>, _: Option<&str>) -> Markup {
    let criteria = step.acceptance();
    let texts = |texts: Vec<&str>| texts.join(", ");
    let after = texts(step.after().collect());
    let (inputs, outputs) = (texts(step.inputs().collect()), texts(step.outputs().collect()));
    html! {
        @if !step.goal().is_empty() { p.goal { (step.goal()) } }
        @if !(after.is_empty() && inputs.is_empty() && outputs.is_empty()) {
            dl {
                @for (word, text) in [("after", &after), ("inputs", &inputs), ("outputs", &outputs)] {
                    @if !text.is_empty() { div { dt { (word) } dd { (text) } } }
                }
            }
        }
        @if !criteria.is_empty() {
            h3 { "Criteria" }
            ol { @for criterion in &criteria { li { (criterion_text(criterion)) } } }
        }
    }
}

fn criterion_text(criterion: &Criterion) -> String {
    let what = match criterion {
        Criterion::Text(_) => "",
        Criterion::Command(_) => "command: ",
        Criterion::Cel(_) => "expression: ",
    };
    format!("{what}{}", criterion.body())
}

fn attempt_item(of: &AttemptFacts) -> Markup {
    html! {
        li value=(of.attempt) data-f=(of.seq) {
            p {
                b { (of.worker) } " since " (seconds(of.since))
                @match of.end {
                    None => { " \u{b7} " span.busy { "in flight" } }
                    Some((seq, time)) => {
                        span data-f=(of.seq) data-t=(seq) hidden { " \u{b7} " span.busy { "in flight" } }
                        span data-f=(seq) { " \u{b7} for " (span(time.saturating_sub(of.since))) }
                    }
                }
            }
            @for fact in &of.facts { (fact_item(fact)) }
        }
    }
}

fn fact_item(fact: &Fact) -> Markup {
    let class = match fact.mark {
        Mark::Good => "fact good",
        Mark::Bad => "fact bad",
        Mark::Plain => "fact",
    };
    html! {
        div class=(class) data-f=(fact.seq) {
            p { (fact.text) span.seq { " record " (fact.seq) } }
            @for (name, text) in &fact.bodies {
                p.of { (name) }
                pre tabindex="0" { (text) }
            }
        }
    }
}

/// The lines of a history as text: one line each, so that a page can have many.
pub(super) fn lines(of: &Lines) -> Markup {
    struct Text<'a>(&'a Lines);
    impl Render for Text<'_> {
        fn render_to(&self, buffer: &mut String) {
            for Line { seq, time, text } in &self.0.lines {
                let line = format!("{seq:>6}  {}  {}\n", seconds(*time), shortened(text));
                line.as_str().render_to(buffer);
            }
        }
    }
    html! {
        @if of.left_out > 0 {
            p.hint { (of.left_out) " earlier records are left out; " code { "ledger inspect history" } " shows them." }
        }
        @if of.lines.is_empty() { p.hint { "No record." } } @else { pre.lines tabindex="0" { (Text(of)) } }
    }
}

/// The sign and the word of a status.
fn mark(status: StepStatus, key: &dyn fmt::Display) -> Markup {
    html! { span.mark data-s=(status) data-k=(key) { (status) } }
}
