//! Writes the page.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use plan_ledger::internals::ledger::time_text;
use plan_ledger::internals::plan::{Dependency, plan_tree};
use plan_ledger::{Criterion, Run, StepNumber, Timestamp};

use crate::commands::inspect::lookup::barrier_word;
use crate::commands::inspect::text::event::{basis_text, question_text, verdict_text};
use crate::commands::inspect::text::run::run_status_text;
use crate::commands::inspect::text::units::span;
use crate::commands::inspect::views::variables::origin_text;
use crate::output::cost_text;

use super::collect::{AttemptBar, Collected, Line};
use super::layout::{Place, layout};
use super::points::{plain_progress, script_data, share, shortened};

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// The most nodes that are drawn: a larger graph says nothing on a page.
const NODES_MAX: usize = 400;

/// The most rows of the line of time.
const ROWS_MAX: usize = 300;

/// The size of a node and of its place, in units of the drawing.
const NODE: (usize, usize) = (150, 26);
const CELL: (usize, usize) = (190, 36);

/// The width of the line of time, and the height of a row.
const TIME_WIDTH: u64 = 1_000;
const TIME_ROW: usize = 16;

/// The page of a run.
pub(super) fn page(of: &Collected) -> String {
    let run = &of.run;
    let title = run.active_version().map_or("", |version| version.plan.header().title.as_str());
    let title = if title.is_empty() { run.name.as_str() } else { title };
    let script = STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'; img-src data:"
    );
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="generator" content="plan-ledger";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (header(of, title))
                main {
                    (damage(of))
                    (questions(run))
                    (steps(of))
                    (timeline(of))
                    (graph(run))
                    (values(run))
                    (versions(run))
                    (history("decisions", "The run", &of.decisions))
                    (log(of))
                }
                script type="application/json" id="points" { (PreEscaped(script_data(&of.points))) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    markup.into_string()
}

fn header(of: &Collected, title: &str) -> Markup {
    let run = &of.run;
    let last = of.points.len().saturating_sub(1);
    html! {
        header {
            div.head {
                h1 { (title) }
                p.run {
                    "run " b { (run.name) } " \u{b7} "
                    span.status data-k="run" { (status_word(run)) }
                    " \u{b7} version " span data-k="version" { (run.active) }
                    " \u{b7} cost " span data-k="spent" { (cost_text(run.spent())) }
                }
                p.progress data-k="progress" { (plain_progress(run)) }
                progress.bar-of-run data-k="share" max="100" value=(share(run)) aria-label="Share of the steps that are done" {}
            }
            div.slider {
                label for="at" { "Record " output id="seq" { (of.seq) } " \u{b7} " time id="time" { (time_text(of.time)) } }
                input id="at" type="range" min="0" max=(last) value=(last) step="1" hidden
                    aria-label="The record that the page shows";
                p.hint id="hint" hidden { "Arrow keys move by one record that is shown, Home and End to the ends." }
            }
        }
    }
}

fn status_word(run: &Run) -> String {
    if run.pause.is_some() { "paused".to_owned() } else { run_status_text(run.status).1 }
}

fn damage(of: &Collected) -> Markup {
    html! {
        @if !of.damage.is_empty() {
            section.alarm {
                h2 { "The log is damaged" }
                p { "The page shows what can be read. " code { "ledger recover" } " salvages it." }
                ul { @for line in &of.damage { li { (line) } } }
            }
        }
    }
}

fn questions(run: &Run) -> Markup {
    html! {
        @if !run.questions.is_empty() {
            section.questions {
                h2 { "Waits for a person" }
                ul {
                    @for (id, question) in &run.questions {
                        li {
                            b { "question " (id.0) }
                            @if let Some(step) = question.step { " \u{b7} step " (name(run, step)) }
                            ": " (question_text(&question.asked))
                        }
                    }
                }
            }
        }
    }
}

/// The number and the id of a step.
fn name(run: &Run, number: StepNumber) -> String {
    run.step(number).map_or_else(|| format!("#{number}"), |step| format!("#{number} {}", step.id()))
}

fn steps(of: &Collected) -> Markup {
    let run = &of.run;
    let numbers =
        (1..=run.steps.len()).filter_map(|number| Some(StepNumber(u32::try_from(number).ok()?)));
    html! {
        section {
            h2 { "Steps" }
            p.filter hidden id="filter" {
                input type="search" id="search" placeholder="Find a step" aria-label="Find a step";
                label { input type="checkbox" id="open"; " only those that are not done" }
            }
            div.steps role="list" {
                @for number in numbers { (step(of, number)) }
            }
        }
    }
}

fn step(of: &Collected, number: StepNumber) -> Markup {
    let run = &of.run;
    let Some(state) = run.step(number) else { return html! {} };
    let plan = run.plan_step(number);
    let title =
        plan.map_or("", |step| if step.title().is_empty() { step.goal() } else { step.title() });
    let (key, attempts) = (format!("s{number}"), format!("a{number}"));
    let history = of.histories.get(&number).map_or(&[][..], Vec::as_slice);
    let unmet = run.unmet_dependencies(number);
    html! {
        details.step role="listitem" id=(format!("step-{number}")) {
            summary {
                span.mark data-s=(state.status) data-k=(key) title=(state.status) { (state.status) }
                span.number { "#" (number) }
                span.id { (state.id()) }
                @if !title.is_empty() && title != state.id() { span.title { (title) } }
                span.attempts { "attempts " span data-k=(attempts) { (state.attempts) } }
                @if let Some(owner) = state.owner() { span.owner { (owner) } }
            }
            @if let Some(plan) = plan {
                @if !plan.goal().is_empty() { p { (plan.goal()) } }
                @let criteria = plan.acceptance();
                @if !criteria.is_empty() {
                    h3 { "Criteria" }
                    ol { @for criterion in &criteria { li { (criterion_text(criterion)) } } }
                }
            }
            @if let Some(basis) = state.accepted() { p.basis { "accepted: " (basis_text(basis)) } }
            @if let Some((_, message)) = state.last_failure() {
                p.failure { "last failure: " (shortened(message)) }
            }
            @for verdict in state.failed_criteria() { p.failure { (verdict_text(verdict)) } }
            @if !unmet.is_empty() && !state.status.is_closed() {
                p.why { "waits for " @for (index, dependency) in unmet.iter().enumerate() {
                    @if index > 0 { ", " } (dependency_text(run, dependency))
                } }
            }
            (lines(history))
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

fn dependency_text(run: &Run, dependency: &Dependency) -> String {
    match dependency {
        Dependency::Step(number) => name(run, *number),
        Dependency::Barrier(id) => format!("barrier {id}"),
        Dependency::Unknown(id) => id.clone(),
    }
}

fn lines(lines: &[Line]) -> Markup {
    html! {
        @if !lines.is_empty() {
            table.records {
                @for line in lines {
                    tr data-seq=(line.seq) {
                        td.seq { (line.seq) }
                        td.time { (time_text(line.time)) }
                        td { (line.text) }
                    }
                }
            }
        }
    }
}

fn history(id: &str, title: &str, of: &[Line]) -> Markup {
    html! {
        section id=(id) { h2 { (title) } (lines(of)) }
    }
}

/// The attempts as bars over time. Steps without an attempt have no row.
fn timeline(of: &Collected) -> Markup {
    let mut rows: BTreeMap<StepNumber, Vec<&AttemptBar>> = BTreeMap::new();
    for bar in &of.attempts {
        rows.entry(bar.step).or_default().push(bar);
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(step, bars)| (bars.first().map(|bar| bar.since), *step));
    let left_out = rows.len().saturating_sub(ROWS_MAX);
    let rows: Vec<_> = rows.into_iter().skip(left_out).collect();
    let first = rows.first().and_then(|(_, bars)| bars.first()).map_or(of.time, |bar| bar.since);
    let whole = of.time.saturating_sub(first).max(1);
    let x = |time: Timestamp| time.saturating_sub(first).saturating_mul(TIME_WIDTH) / whole;
    let height = rows.len() * TIME_ROW + TIME_ROW;
    html! {
        @if !rows.is_empty() {
            section {
                h2 { "Attempts over time" }
                p.hint {
                    "From " (time_text(first)) ", " (span(whole)) " in all."
                    @if left_out > 0 { " The first " (left_out) " steps are left out." }
                }
                div.scroll {
                    svg.timeline viewBox=(format!("0 0 {} {height}", TIME_WIDTH + 200)) role="img"
                        aria-label="Attempts over time" data-first=(first) data-whole=(whole) {
                        @for (row, (step, bars)) in rows.iter().enumerate() {
                            @let y = row * TIME_ROW;
                            text x="0" y=(y + 12) class="label" { (shortened(&name(&of.run, *step))) }
                            @for bar in bars {
                                @let from = x(bar.since);
                                @let to = x(bar.until.unwrap_or(of.time)).max(from + 2);
                                rect class=(bar_class(bar)) x=(from + 200) y=(y + 2) width=(to - from) height="12" rx="2" {
                                    title { "attempt " (bar.attempt) " by " (bar.worker) ", " (time_text(bar.since)) }
                                }
                            }
                        }
                        line id="now" x1=(TIME_WIDTH + 200) x2=(TIME_WIDTH + 200) y1="0" y2=(height) {}
                    }
                }
            }
        }
    }
}

fn bar_class(bar: &AttemptBar) -> &'static str {
    match (bar.until, bar.is_lost) {
        (None, _) => "bar open",
        (Some(_), true) => "bar lost",
        (Some(_), false) => "bar",
    }
}

fn graph(run: &Run) -> Markup {
    let Some(version) = run.active_version() else { return html! {} };
    let plan = version.plan.decode();
    let mut nodes = plan_tree(&plan);
    if nodes.len() > NODES_MAX {
        return html! {
            section {
                h2 { "Dependencies" }
                p.hint { "The plan has " (nodes.len()) " steps and barriers: too many to draw." }
            }
        };
    }
    nodes.sort_by_key(|node| node.node);
    let by_id: BTreeMap<&str, usize> =
        nodes.iter().enumerate().map(|(index, node)| (node.id, index)).collect();
    let waits: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| {
            let before = node.under.into_iter().chain(node.also.iter().copied());
            before.filter_map(|id| by_id.get(id).copied()).collect()
        })
        .collect();
    let places = layout(&waits);
    let layers = places.iter().map(|place| place.layer + 1).max().unwrap_or(1);
    let rows = places.iter().map(|place| place.row + 1).max().unwrap_or(1);
    let (width, height) = (layers * CELL.0, rows * CELL.1);
    html! {
        section {
            h2 { "Dependencies" }
            div.scroll {
                svg.graph width=(width) height=(height) viewBox=(format!("0 0 {width} {height}")) role="img"
                    aria-label="Dependencies of the steps" {
                    @for (node, before) in waits.iter().enumerate() {
                        @for other in before {
                            @if let (Some(from), Some(to)) = (places.get(*other), places.get(node)) {
                                path d=(edge(*from, *to)) {}
                            }
                        }
                    }
                    @for (node, place) in nodes.iter().zip(&places) {
                        @let number = version.numbers.get(node.node);
                        @let status = number.and_then(|number| run.step(*number)).map(|step| step.status.to_string());
                        @let key = match number { Some(number) => format!("s{number}"), None => format!("b:{}", node.id) };
                        g class=(if number.is_some() { "node" } else { "node barrier" }) transform=(format!("translate({} {})", place.layer * CELL.0, place.row * CELL.1)) {
                            title { (node.id) }
                            rect data-s=[status] data-k=(key) width=(NODE.0) height=(NODE.1) rx="4" {}
                            text x="8" y="17" { (label(node.id)) }
                        }
                    }
                }
            }
        }
    }
}

/// A line from the right side of a node to the left side of another.
fn edge(from: Place, to: Place) -> String {
    let (x1, y1) = (from.layer * CELL.0 + NODE.0, from.row * CELL.1 + NODE.1 / 2);
    let (x2, y2) = (to.layer * CELL.0, to.row * CELL.1 + NODE.1 / 2);
    let bend = CELL.0.saturating_sub(NODE.0);
    format!("M{x1} {y1} C{} {y1} {} {y2} {x2} {y2}", x1 + bend, x2.saturating_sub(bend))
}

/// An id that fits into a node.
fn label(id: &str) -> String {
    if id.chars().count() <= 20 {
        return id.to_owned();
    }
    let kept: String = id.chars().take(19).collect();
    format!("{kept}\u{2026}")
}

fn values(run: &Run) -> Markup {
    html! {
        @if !run.barriers.is_empty() {
            section {
                h2 { "Barriers" }
                table {
                    @for (id, barrier) in &run.barriers {
                        tr {
                            th scope="row" { (id) }
                            td data-k=(format!("b:{id}")) {
                                (barrier_word(barrier.status)) ", " (barrier.arrived.len()) " of " (barrier.needed)
                            }
                            td {
                                @let missing = barrier.members.difference(&barrier.arrived);
                                @for (index, step) in missing.enumerate() {
                                    @if index == 0 { "missing at the end: " } @else { ", " }
                                    (name(run, *step))
                                }
                            }
                        }
                    }
                }
            }
        }
        @if !run.variables.is_empty() {
            section {
                h2 { "Variables" }
                table {
                    @for (name, variable) in &run.variables {
                        tr {
                            th scope="row" { (name) }
                            td.value data-k=(format!("v:{name}")) { (shortened(&variable.value.to_string())) }
                            td { (origin_text(run, &variable.origin)) }
                        }
                    }
                }
            }
        }
    }
}

fn versions(run: &Run) -> Markup {
    html! {
        section {
            h2 { "Versions of the plan" }
            table {
                @for (index, version) in run.versions.iter().enumerate() {
                    @let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
                    tr {
                        th scope="row" { "version " (number) @if number == run.active { " (active)" } }
                        td { (version.step_count) " steps" }
                        td { (version.reason) @if !version.note.is_empty() { " \u{b7} note: " (version.note) } }
                        td.hash { (version.hash.to_string().chars().take(12).collect::<String>()) }
                    }
                }
            }
        }
    }
}

fn log(of: &Collected) -> Markup {
    html! {
        section {
            h2 { "The log" }
            p {
                "State after record " (of.seq) ", " (time_text(of.time)) ". "
                @if of.damage.is_empty() { "No damage was found." } @else { "The log is damaged." }
            }
            p.hash { "root " (of.seq) ":" (of.chain) }
            p.hint { code { "ledger verify --expect-head" } " compares a ledger with this root." }
        }
    }
}
