//! Writes the page: its frame, and the sections before and after the steps.
//!
//! `data-k` names the cell that an element shows; an element with `data-f` and `data-t` is there from one
//! record until before another.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use plan_ledger::internals::ledger::time_text;
use plan_ledger::{Run, Timestamp};
use plan_ledger_views::{
    barrier_text, escape_control, escape_markup, origin_text, question_subject_text, seconds,
    step_name,
};

use crate::output::phrase;

use super::collect::{AskedQuestion, Collected, Decision};
use super::forms::{Audience, answer_forms, author_form, run_forms, runs_list};
use super::pictures::{graphs, timeline};
use super::plans::versions;
use super::points::{missing_text, run_cells, script_data, share, shortened, unchecked_text};
use super::steps::{records, steps};

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");
#[cfg(feature = "http")]
const LIVE_SCRIPT: &str = include_str!("live.js");

/// The page of a run. A client that has the page of an earlier record names it as `known`: steps that have
/// not changed since then, and points up to it, are left out.
pub(super) fn page(of: &Collected, audience: Audience, known: u64) -> String {
    let run = &of.run;
    let title = run.active_version().map_or("", |version| version.plan.header().title.as_str());
    let title = if title.is_empty() { run.name.as_str() } else { title };
    let points = script_data(of.points.iter().filter(|point| point.seq > known));
    let body = html! {
        (header(of, title, audience))
        main id="main" data-run=(run.name) data-seq=(of.seq) data-known=(known) {
            (damage(of))
            (questions(of, audience))
            (steps(of, audience, known))
            (timeline(of))
            (graphs(of))
            (barriers(run))
            (budget(of))
            (variables(run))
            (versions(of, audience))
            (decisions(&of.parts.decisions, run))
            section id="records" { h2 { "Records of the run" } (records(Some(&of.parts.records))) }
            (log(of))
            (runs_list(of, audience))
        }
    };
    let points = html! { script type="application/json" id="points" { (PreEscaped(points)) } };
    let body = escape_markup(&body.into_string()) + &points.into_string();
    document(title, &body, SCRIPT)
}

/// The page that a server gives to a browser without a token: it asks for one, and then shows the page of a run.
#[cfg(feature = "http")]
pub(crate) fn live_page() -> String {
    let body = html! {
        div id="live" role="status" aria-live="polite" { "Not connected" }
        div id="problem" role="alert" hidden {}
        main id="login" {
            form autocomplete="off" {
                h1 { "plan-ledger" }
                p {
                    "Type in a token. " code { "http.json" } " in the ledger's folder has one for each role: with that of an \
                     operator you can answer, pause, retry and skip."
                }
                label for="token" { "Token" }
                input id="token" type="password" autocomplete="off" spellcheck="false" required;
                button type="submit" { "Show" }
                p.hint { "The token stays in this tab until it is closed." }
            }
        }
        div id="page" {}
    };
    document("plan-ledger", &body.into_string(), &live_script())
}

#[cfg(feature = "http")]
fn live_script() -> String {
    format!("{SCRIPT}\n{LIVE_SCRIPT}")
}

/// The policy of a page with that script: it loads nothing, and runs no other script.
fn policy(script: &str) -> String {
    let script = STANDARD.encode(Sha256::digest(script.as_bytes()));
    let style = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    format!(
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'sha256-{style}'; script-src \
         'sha256-{script}'"
    )
}

/// The policy of the live page, for its header: it reaches its own server.
#[cfg(feature = "http")]
pub(crate) fn live_policy() -> String {
    format!("{}; connect-src 'self'; frame-ancestors 'none'", policy(&live_script()))
}

fn document(title: &str, body: &str, script: &str) -> String {
    let is_live = script != SCRIPT;
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                @if !is_live { meta http-equiv="Content-Security-Policy" content=(policy(script)); }
                meta name="generator" content="plan-ledger";
                meta name="referrer" content="no-referrer";
                link rel="icon" href="data:,";
                title { (escape_control(title)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (PreEscaped(body))
                script { (PreEscaped(script)) }
            }
        }
    };
    markup.into_string()
}

fn header(of: &Collected, title: &str, audience: Audience) -> Markup {
    let run = &of.run;
    let cell = |key: &str| cell(run, of.time, key);
    let last = of.points.len().saturating_sub(1);
    let unchecked = unchecked_text(run);
    html! {
        header {
            div.head {
                h1 { (title) }
                p.run {
                    "run " b { (run.name) } " \u{b7} "
                    span.status data-k="run" { (cell("run")) }
                    " \u{b7} version " span data-k="version" { (run.active) }
                    " \u{b7} cost " span data-k="spent" { (cell("spent")) }
                }
                div.progress {
                    progress.bar-of-run data-k="share" max="100" value=(share(run)) aria-label="Share of the steps that are done" {}
                    " " span data-k="progress" { (cell("progress")) }
                }
                (author_form(audience))
                (run_forms(run, audience))
            }
            @if let Some(stands) = &of.stands {
                p.stands data-text=(stands) {
                    (stands) @if let Some(start) = &stands.start { ": " code { (start) } " " (start.effect) }
                }
            }
            p.pause data-k="pause" data-row hidden[cell("pause").is_empty()] { (cell("pause")) }
            p.pause data-k="unchecked" data-row hidden[unchecked.is_empty()] { (unchecked) }
            div.slider {
                label for="at" { "Record " output id="seq" { (of.seq) } " \u{b7} " time id="time" { (time_text(of.time)) } }
                span id="controls" hidden {
                    button type="button" id="back" title="One record back" { "\u{25c2}" span.words { " back" } }
                    button type="button" id="forward" title="One record forward" { span.words { "forward " } "\u{25b8}" }
                    button type="button" id="newest" hidden { "newest record" }
                    label for="goto" { "go to" }
                    input id="goto" type="number" min="1" max=(of.seq) aria-label="The record to go to";
                }
                input id="at" type="range" min="0" max=(last) value=(last) step="1" hidden
                    aria-label="The record that the page shows" aria-valuetext=(format!("record {}", of.seq));
            }
            (sections(of, audience))
        }
    }
}

/// Links to the sections, which are before and after a long list of steps.
fn sections(of: &Collected, audience: Audience) -> Markup {
    let run = &of.run;
    let all = [
        ("steps", "Steps", true),
        ("timeline", "Line of time", !of.parts.timelines.is_empty()),
        ("graph", "Graph", !of.parts.activated.is_empty()),
        ("barriers", "Barriers", run.named_barriers().len() > 0),
        ("budget", "Budget", true),
        ("variables", "Variables", run.named_variables().len() > 0),
        ("versions", "Versions", run.numbered_versions().next().is_some()),
        ("decisions", "Decisions", true),
        ("records", "Records", true),
        ("log", "Log", true),
        ("runs", "Runs", audience != Audience::File && of.runs.len() > 1),
    ];
    html! {
        nav.sections aria-label="Sections of the page" {
            @for (id, word, is_there) in all {
                @if is_there { a href=(format!("#{id}")) { (word) } " " }
            }
        }
    }
}

fn damage(of: &Collected) -> Markup {
    let damage = of.health.texts(true);
    html! {
        @if !damage.is_empty() {
            section.alarm id="damage" {
                h2 { "\u{26a0} The log is damaged" }
                p { "The page shows what can be read. " code { "ledger verify" } " checks every byte, " code { "ledger recover" } " salvages what is left." }
                ul { @for line in damage { li { (with_code(line)) } } }
            }
        }
    }
}

/// A text with commands between backticks.
fn with_code(text: &str) -> Markup {
    html! {
        @for (place, part) in text.split('`').enumerate() {
            @if place % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn questions(of: &Collected, audience: Audience) -> Markup {
    let is_any_open = of.parts.questions.iter().any(|question| question.closed.is_none());
    html! {
        @if !of.parts.questions.is_empty() {
            section.questions id="questions" data-any hidden[!is_any_open] {
                h2 { "Waits for a person" }
                ul { @for question in &of.parts.questions { (question_item(of, question, audience)) } }
            }
        }
    }
}

fn question_item(of: &Collected, question: &AskedQuestion, audience: Audience) -> Markup {
    let (id, asked) = (question.id.0, &question.asked);
    let subject = question_subject_text(&asked.subject);
    html! {
        li id=(format!("question-{id}")) data-f=(id) data-t=[question.closed] hidden[question.closed.is_some()] {
            p {
                b { "Question " (id) }
                @if let Some(step) = question.step {
                    " \u{b7} " a href=(format!("#step-{step}")) { (step_name(&of.run, step)) }
                }
                @if let Some(to) = &asked.to { " \u{b7} for " (to) }
                @if let Some(deadline) = asked.deadline { " \u{b7} until " (seconds(deadline)) }
            }
            p.asked { @if asked.text.is_empty() { (subject) } @else { (asked.text) } }
            p.hint { (subject) " \u{b7} options: " (asked.options.join(", ")) " \u{b7} shown " code { (asked.shown.short()) } }
            @if question.closed.is_none() { (answer_forms(question, audience)) }
        }
    }
}

fn barriers(run: &Run) -> Markup {
    html! {
        @if run.named_barriers().len() > 0 {
            section id="barriers" {
                h2 { "Barriers" }
                div.scroll tabindex="0" { table {
                    thead { tr { th scope="col" { "barrier" } th scope="col" { "status" } th scope="col" { "missing" } th scope="col" { "if it breaks" } } }
                    tbody { @for (id, barrier) in run.named_barriers() {
                        tr data-row {
                            th scope="row" { (id) }
                            td data-k=(format!("b:{id}")) { (barrier_text(barrier)) }
                            td data-k=(format!("m:{id}")) { (missing_text(run, barrier)) }
                            td {
                                (phrase(&barrier.on_break))
                                @if let Some(deadline) = barrier.deadline { ", at " (seconds(deadline)) }
                            }
                        }
                    } }
                } }
            }
        }
    }
}

fn budget(of: &Collected) -> Markup {
    html! {
        section id="budget" {
            h2 { "Budget" }
            pre data-k="budget" tabindex="0" { (cell(&of.run, of.time, "budget")) }
        }
    }
}

/// A cell of the run.
fn cell(run: &Run, time: Timestamp, key: &str) -> String {
    let cells = run_cells(run, time).into_iter();
    cells.filter(|(it, _)| *it == key).map(|(_, text)| text).collect()
}

fn variables(run: &Run) -> Markup {
    html! {
        @if run.named_variables().len() > 0 {
            section id="variables" {
                h2 { "Variables" }
                div.scroll tabindex="0" { table {
                    @for (name, variable) in run.named_variables() {
                        tr data-row {
                            th scope="row" { (name) }
                            td.value data-k=(format!("v:{name}")) { (shortened(variable.value.as_str())) }
                            td data-k=(format!("o:{name}")) { (origin_text(run, &variable.origin)) }
                        }
                    }
                } }
            }
        }
    }
}

fn decisions(of: &[Decision], run: &Run) -> Markup {
    html! {
        section id="decisions" {
            h2 { "Decisions of people" }
            @if of.is_empty() { p.hint { "None." } } @else {
                div.scroll tabindex="0" { table.records {
                    thead { tr { th scope="col" { "record" } th scope="col" { "time" } th scope="col" { "by" } th scope="col" { "step" } th scope="col" { "decision" } } }
                    tbody { @for decision in of {
                        tr data-f=(decision.seq) {
                            td.seq { (decision.seq) }
                            td.time { (seconds(decision.time)) }
                            td { (decision.by) }
                            td { @if let Some(step) = decision.step { a href=(format!("#step-{step}")) { (step_name(run, step)) } } }
                            td { (decision.text) }
                        }
                    } }
                } }
            }
        }
    }
}

fn log(of: &Collected) -> Markup {
    html! {
        section id="log" {
            h2 { "The log" }
            p {
                "State after record " (of.seq) ", " (time_text(of.time)) ", from " (of.health.files) ". "
                @if of.health.texts(true).is_empty() { "\u{2713} No damage was found." } @else { b { "\u{26a0} The log is damaged." } }
            }
            ul { @for note in of.health.texts(false) { li { (with_code(note)) } } }
            p.hash { "root " (of.seq) ":" (of.chain) }
            p.hint { code { "ledger verify --expect-head" } " compares a ledger with this root." }
        }
    }
}
