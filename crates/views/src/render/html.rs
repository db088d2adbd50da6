//! HTML of a document: elements without scripts and styles of their own.
//!
//! The classes are those of the page's style sheet: `good`, `notice`, `bad`, `faint` and `name`.

use maud::{Markup, PreEscaped, html};

use super::escape::{escape_control, escape_lines};
use super::style::{Style, class};
use super::svg::svg_of;
use super::text::text_lines;
use crate::layout::{Block, Document, Paint, Span, Table, Text};

/// The start of a page that shows documents. It loads nothing, and no script runs in it.
#[must_use]
pub fn html_start(title: &str) -> String {
    let page = html! {
        (PreEscaped("<!doctype html>"))
        meta charset="utf-8";
        meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
        meta name="viewport" content="width=device-width";
        title { (title) }
        style { (PreEscaped(STYLE)) }
    };
    page.into_string()
}

const STYLE: &str = "body{font:14px/1.4 system-ui,sans-serif;margin:1em}p{margin:.1em 0;white-space:pre-wrap}\
table{border-collapse:collapse;margin:.5em 0}td,th{text-align:left;padding:.1em .8em .1em 0;vertical-align:top}\
th,.faint{color:#666}.name{font-weight:600}.good{color:#2e7d32}.notice{color:#8a6100}.bad{color:#c62828;font-weight:600}\
pre{margin:.5em 0;overflow-x:auto}.node{color:inherit;text-decoration:none;font-weight:600}.sign,.hint,.label{color:#666;fill:#666}\
.timeline{width:100%;min-width:760px}.bar{fill:#888}.bar.good{fill:#2e7d32}.bar.bad{fill:#c62828}.wait{opacity:.4}";

/// The elements of a document.
#[must_use]
pub fn html(document: &Document) -> String {
    let parts = document.blocks().iter().map(|block| part(block).into_string());
    parts.collect::<Vec<_>>().concat()
}

fn part(block: &Block) -> Markup {
    match block {
        Block::Heading(heading) => html! { h3 { (text(heading)) } },
        Block::Line { text: line, .. } => html! { p { (text(line)) } },
        Block::Cut { start, text: line, end, .. } => {
            html! { p { (text(start)) (text(line)) (text(end)) } }
        }
        Block::Gap => PreEscaped(String::new()),
        Block::Table { table, .. } => table_of(table),
        Block::Command { line, .. } => {
            html! { pre.command { code { (escape_control(line)) } } }
        }
        Block::Verbatim(lines) => html! { pre { (escape_lines(lines)) } },
        Block::Timeline(timeline) => svg_of(timeline),
        Block::Tree(tree) => {
            let rows = tree.rows.iter().zip(tree.leads());
            html! { pre.tree { @for (row, lead) in rows { (lead) (text(&row.label)) (text(&row.rest)) "\n" } } }
        }
        // It is drawn with characters.
        Block::Chart { .. } => {
            html! { pre { (text_lines(&Document::of(block.clone()), Style::PLAIN).join("\n")) } }
        }
    }
}

fn table_of(table: &Table) -> Markup {
    html! {
        table {
            @if !table.headings().is_empty() {
                thead { tr { @for heading in table.headings() { th { (escape_control(heading)) } } } }
            }
            tbody {
                @for row in table.rows() {
                    tr { @for cell in row { td { (text(cell)) } } }
                }
            }
        }
    }
}

fn text(text: &Text) -> Markup {
    html! {
        @for span in text.spans() {
            @match span {
                Span::Text(Paint::None, text) => { (escape_control(text)) }
                Span::Text(paint, text) => { span class=(class(*paint)) { (escape_control(text)) } }
                Span::Step(number, status, id) => {
                    a.node href=(format!("#step-{number}")) { "#" (number) " " (escape_control(id)) }
                    " " span.sign data-k=(format!("s{number}")) data-s=(status) { (status) }
                }
                Span::Bar(_, bar) => {
                    meter min="0" max=(bar.of) value=(bar.used) title=(format!("{} of {}", bar.used, bar.of)) {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: no text ends an element or drives a browser.

    use super::*;

    #[test]
    fn text_is_escaped_in_every_block() {
        let hostile = "</p><script>alert(1)</script>&\u{202e}";
        let mut document = Document::default();
        document.heading(hostile);
        document.line(Text::painted(Paint::Bad, hostile));
        document.command(2, hostile);
        document.push(Block::Verbatim(hostile.to_owned()));
        let mut table = Table::with_headings(&[hostile]);
        table.row([hostile]);
        document.table(0, table);
        let html = html(&document);
        assert!(!html.contains("<script"), "{html}");
        assert!(!html.contains('\u{202e}'), "{html}");
        assert_eq!(html.matches("&lt;script").count(), 6, "{html}");
    }
}
