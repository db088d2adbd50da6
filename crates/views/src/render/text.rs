//! Text of a document: lines for a terminal or a file.

use plan_ledger::Timestamp;

use super::escape::{escape_control, escape_lines};
use super::style::Style;
use super::width::{cut, width};
use crate::layout::{
    Bar, Block, Document, Paint, Series, Span, Table, Text, Timeline, TimelineCell, Tree, scaled,
};
use crate::words::{seconds, span, status_mark, status_paint};

/// The lines of a document.
#[must_use]
pub fn text_lines(document: &Document, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for block in document.blocks() {
        match block {
            Block::Heading(text) => lines.push(painted(text, style)),
            Block::Line { indent, text } => {
                lines.push(format!("{:indent$}{}", "", painted(text, style)));
            }
            Block::Cut { indent, start, text, end } => {
                let used = indent + width(&unpainted(start)) + width(&unpainted(end));
                let (start, end) = (painted(start, style), painted(end, style));
                let line = format!("{:indent$}{start}{}{end}", "", fitted(text, used, style));
                lines.push(line.trim_end().to_owned());
            }
            Block::Gap => lines.push(String::new()),
            Block::Table { indent, table } => lines.extend(table_lines(table, style, *indent)),
            Block::Command { indent, line } => {
                lines.push(format!("{:indent$}{}", "", escape_control(line)));
            }
            Block::Chart { series, labels } => lines.extend(chart_lines(series, labels, style)),
            Block::Timeline(timeline) => lines.extend(timeline_lines(timeline, style)),
            Block::Tree(tree) => lines.extend(tree_lines(tree, style)),
            Block::Verbatim(text) => lines.extend(escape_lines(text).lines().map(str::to_owned)),
        }
    }
    lines.iter().map(|line| style.wrap(line)).collect()
}

/// A text, escaped and painted.
fn painted(text: &Text, style: Style) -> String {
    text.spans().iter().map(|each| style.paint(paint_of(each), &plain(each))).collect()
}

/// A text without paint.
fn unpainted(text: &Text) -> String {
    text.spans().iter().map(plain).collect()
}

fn plain(span: &Span) -> String {
    match span {
        Span::Text(_, text) => escape_control(text),
        Span::Bar(_, bar) => bar_text(*bar),
        Span::Step(number, status, id) => {
            format!("[{}] #{number} {}", status_mark(*status), escape_control(id))
        }
    }
}

fn paint_of(span: &Span) -> Paint {
    match span {
        Span::Text(paint, _) | Span::Bar(paint, _) => *paint,
        Span::Step(_, status, _) => status_paint(*status),
    }
}

/// A text, cut to the columns that remain after `used`.
fn fitted(text: &Text, used: usize, style: Style) -> String {
    match text.spans() {
        [one] => style.paint(paint_of(one), &style.fit(&plain(one), used)),
        _ => {
            let whole = unpainted(text);
            let cut = style.fit(&whole, used);
            if cut == whole { painted(text, style) } else { cut }
        }
    }
}

/// A bar in ASCII: `[####++----]` for used, reserved and left.
fn bar_text(bar: Bar) -> String {
    let (used, reserved, left) = bar.split();
    format!("[{}{}{}]", run('#', used), run('+', reserved), run('-', left))
}

/// Repeats a character.
fn run(cell: char, cells: u64) -> String {
    std::iter::repeat_n(cell, usize::try_from(cells).unwrap_or(0)).collect()
}

/// The lines of a table. The last column is cut at the width of the terminal, and every other one at half of it.
fn table_lines(table: &Table, style: Style, indent: usize) -> Vec<String> {
    let style = if table.is_wrapped() { Style { columns: None, ..style } } else { style };
    let limit = style.columns.map_or(usize::MAX, |columns| (columns / 2).max(CELL_MIN));
    let rows: Vec<Vec<Text>> = table.all_rows().collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        for (place, text) in row.iter().enumerate() {
            let is_last = place + 1 == row.len();
            let text = unpainted(text);
            let wide = if is_last { width(&text) } else { width(&cut(&text, limit)) };
            match widths.get_mut(place) {
                Some(widest) => *widest = (*widest).max(wide),
                None => widths.push(wide),
            }
        }
    }
    rows.iter().map(|row| row_line(row, &widths, limit, style, indent)).collect()
}

fn row_line(row: &[Text], widths: &[usize], limit: usize, style: Style, indent: usize) -> String {
    let mut out = " ".repeat(indent);
    let mut column = indent;
    for (place, (text, widest)) in row.iter().zip(widths).enumerate() {
        if place + 1 == row.len() {
            out.push_str(&fitted(text, column, style));
        } else {
            let whole = unpainted(text);
            let short = cut(&whole, limit);
            out.push_str(&if short == whole {
                painted(text, style)
            } else {
                style.paint(text.spans().first().map_or(Paint::None, paint_of), &short)
            });
            out.push_str(&" ".repeat(widest.saturating_sub(width(&short)) + GAP));
            column += widest + GAP;
        }
    }
    out.trim_end().to_owned()
}

/// A cell is not cut below this width.
const CELL_MIN: usize = 24;

/// Spaces between columns.
const GAP: usize = 2;

/// Width of a chart if the output is not a terminal.
const COLUMNS: usize = 100;

/// Minimum width of a chart.
const COLUMNS_MIN: usize = 40;

/// The width available for a chart.
fn columns(style: Style) -> usize {
    style.columns.unwrap_or(COLUMNS).max(COLUMNS_MIN)
}

/// Rows of a chart.
const ROWS: u64 = 8;

/// Columns before a chart.
const CHART_INDENT: usize = 2;

/// The lines of a chart, with a time axis below.
fn chart_lines(series: &Series, labels: &(String, String), style: Style) -> Vec<String> {
    let (top, bottom) = (escape_control(&labels.0), escape_control(&labels.1));
    let margin = width(&top).max(width(&bottom));
    let room = columns(style).saturating_sub(CHART_INDENT + margin + 3).max(10);
    let samples = series.samples(u64::try_from(room).unwrap_or(10));
    let mut lines = Vec::new();
    for row in (0..ROWS).rev() {
        let label = if row + 1 == ROWS { top.as_str() } else { "" };
        let cells = samples.iter().map(|value| {
            let height = scaled(*value, series.top, ROWS);
            if height > row || (*value > 0 && row == 0) { '#' } else { ' ' }
        });
        let cells: String = cells.collect();
        lines.push(format!("{label:>margin$} |{}", cells.trim_end()));
    }
    lines.push(format!("{bottom:>margin$} +{}", "-".repeat(room)));
    let (from, until) = (seconds(series.from), seconds(series.until));
    let gap = room.saturating_sub(from.len() + until.len()).max(2);
    lines.push(format!("{:>margin$}  {from}{}{until}", "", " ".repeat(gap)));
    lines.iter().map(|line| format!("{:CHART_INDENT$}{}", "", line.trim_end())).collect()
}

/// The time interval and the width of a timeline.
struct Scale {
    from: Timestamp,
    until: Timestamp,
    columns: u64,
}

impl Scale {
    fn column(&self, time: Timestamp) -> u64 {
        let span = self.until.saturating_sub(self.from);
        scaled(time.saturating_sub(self.from), span, self.columns).min(self.columns - 1)
    }

    /// The characters of a row. Later cells cover earlier ones, but never an end that always shows.
    fn row(&self, cells: &[TimelineCell]) -> Vec<Option<(char, Paint)>> {
        let mut row = vec![None; usize::try_from(self.columns).unwrap_or(0)];
        let mut ends = Vec::new();
        for TimelineCell { from, until, inside, end, paint, shows_end } in cells {
            let (first, last) = (self.column(*from), self.column(until.unwrap_or(self.until)));
            for column in first..=last {
                if let Some(cell) = usize::try_from(column).ok().and_then(|at| row.get_mut(at)) {
                    *cell = Some((*inside, *paint));
                }
            }
            if *shows_end {
                ends.push((last, *end, *paint));
            } else if until.is_none() {
                ends.push((last, '>', *paint));
            }
        }
        for (column, end, paint) in ends {
            if let Some(cell) = usize::try_from(column).ok().and_then(|at| row.get_mut(at)) {
                *cell = Some((end, paint));
            }
        }
        row
    }
}

/// The characters of a row as a text; those of the same paint are one part.
fn row_text(row: &[Option<(char, Paint)>]) -> Text {
    let mut out = Text::default();
    let mut run = String::new();
    let mut current = Paint::None;
    for cell in row {
        let (cell, paint) = cell.unwrap_or((' ', Paint::None));
        if paint != current {
            out = out.and(current, std::mem::take(&mut run));
        }
        current = paint;
        run.push(cell);
    }
    out.and(current, run)
}

/// Columns after a row of a timeline.
const SUMS: usize = 16;

fn timeline_lines(timeline: &Timeline, style: Style) -> Vec<String> {
    let Timeline { from, until, rows, legend } = timeline;
    let all = columns(style);
    let names = rows.iter().map(|row| width(&escape_control(&row.name))).max().unwrap_or(0);
    let names = names.min(all / 4);
    // A row has a mark, a name, its cells and a sum.
    let room = all.saturating_sub(names + 8 + SUMS).max(16);
    let scale = Scale { from: *from, until: *until, columns: u64::try_from(room).unwrap_or(16) };
    let (left, right) = (seconds(*from), seconds(*until));
    let took = span(until.saturating_sub(*from) / 1_000 * 1_000);
    let gap = room.saturating_sub(left.len() + right.len());
    let middle =
        if took.len() + 2 < gap { format!("{took:^gap$}") } else { " ".repeat(gap.max(1)) };
    let axis = format!("{:names$}      {left}{middle}{right}", "");
    let mut lines = vec![style.paint(Paint::Faint, &axis)];
    for row in rows {
        let name = cut(&escape_control(&row.name), names);
        let pad = " ".repeat(names.saturating_sub(width(&name)));
        let (mark, sum) = (painted(&row.mark, style), escape_control(&row.sum));
        let cells = painted(&row_text(&scale.row(&row.cells)), style);
        lines.push(format!("[{mark}] {name}{pad} |{cells}| {sum}").trim_end().to_owned());
    }
    lines.extend(legend.iter().map(|line| style.paint(Paint::Faint, &style.fit(line, 0))));
    lines
}

fn tree_lines(tree: &Tree, style: Style) -> Vec<String> {
    let rows = tree.rows.iter().zip(tree.leads());
    let line = |(row, lead): (&crate::layout::TreeRow, String)| {
        let used = width(&lead) + width(&unpainted(&row.label)) + 1;
        let rest = if row.rest.is_empty() { String::new() } else { fitted(&row.rest, used, style) };
        format!("{lead}{}{rest}", painted(&row.label, style)).trim_end().to_owned()
    };
    rows.map(line).collect()
}

#[cfg(test)]
mod tests {
    //! Goal: columns stay aligned, charts match their numbers, and no scale hides an attempt or its end.

    use super::*;

    #[test]
    fn bar_cells_are_proportional() {
        let bar = |used, reserved, of, cells| bar_text(Bar { used, reserved, of, cells });
        assert_eq!(bar(0, 0, 10, 10), "[----------]");
        assert_eq!(bar(1, 0, 1000, 10), "[#---------]");
        assert_eq!(bar(5, 2, 10, 10), "[#####++---]");
        assert_eq!(bar(10, 0, 10, 10), "[##########]");
        assert_eq!(bar(25, 9, 10, 10), "[##########]");
        assert_eq!(bar(0, 0, 0, 4), "[----]");
        assert_eq!(bar(u64::MAX, u64::MAX, u64::MAX, 4), "[####]");
    }

    #[test]
    fn chart_holds_a_value_until_the_next_point() {
        let points = vec![(0, 8), (50, 4), (100, 0)];
        let series = Series { points, from: 0, until: 100, top: 8 };
        assert_eq!(series.samples(10), [8, 8, 8, 8, 4, 4, 4, 4, 4, 0]);
        let lines = chart_lines(&series, &("8".into(), "0".into()), Style::PLAIN);
        assert!(lines[0].starts_with("  8 |####"), "{lines:?}");
        assert!(lines[4].len() > lines[0].len(), "{lines:?}");
        assert!(lines[8].starts_with("  0 +----"), "{lines:?}");
        assert!(series.samples(0).is_empty());
    }

    #[test]
    fn tables_are_aligned_and_cut() {
        let mut table = Table::default();
        let long = "x".repeat(60);
        table.row([(Paint::None, "a"), (Paint::Bad, "b")]);
        table.row([(Paint::Good, "two words"), (Paint::None, long.as_str())]);
        assert_eq!(table_lines(&table, Style::PLAIN, 2)[0], "  a          b");
        let narrow = Style { is_colored: false, columns: Some(40) };
        let lines = table_lines(&table, narrow, 2);
        assert_eq!(width(&lines[1]), 40);
        assert!(lines[1].ends_with("..."));
        let colored = Style { is_colored: true, columns: Some(40) };
        let widths =
            table_lines(&table, colored, 2).iter().map(|line| width(line)).collect::<Vec<_>>();
        assert_eq!(widths, lines.iter().map(|line| width(line)).collect::<Vec<_>>());
    }

    fn cell(from: Timestamp, until: Option<Timestamp>, end: char) -> TimelineCell {
        let inside = if end == '?' || end == ':' { end } else { '=' };
        let shows_end = inside == '=';
        TimelineCell { from, until, inside, end, paint: Paint::None, shows_end }
    }

    fn drawn(cells: &[TimelineCell], columns: u64) -> String {
        let scale = Scale { from: 0, until: 1_000, columns };
        unpainted(&row_text(&scale.row(cells)))
    }

    #[test]
    fn attempts_and_waits_stand_where_they_were() {
        let cells = [cell(0, Some(200), 'x'), cell(200, Some(500), ':'), cell(500, Some(800), '+')];
        assert_eq!(drawn(&cells, 10), "==x::===+ ");
        assert_eq!(drawn(&[cell(900, None, '>')], 10), "         >");
    }

    #[test]
    fn the_shortest_attempt_shows_beside_the_longest_wait() {
        let cells = [cell(0, Some(1), '!'), cell(1, Some(998), '?'), cell(998, Some(999), 'x')];
        assert_eq!(drawn(&cells, 10), "!????????x");
        assert_eq!(drawn(&[cell(0, Some(0), '+')], 1), "+");
    }

    #[test]
    fn no_text_drives_a_terminal() {
        let hostile = "\u{1b}[2J\n\u{202e}";
        let mut document = Document::default();
        document.heading(hostile);
        document.line(hostile);
        document.cut(2, hostile);
        document.command(2, hostile);
        document.push(Block::Verbatim(hostile.to_owned()));
        let mut table = Table::with_headings(&["a"]);
        table.row([hostile]);
        document.table(0, table);
        for line in text_lines(&document, Style::PLAIN) {
            assert!(line.chars().all(super::super::is_printable), "{line:?}");
        }
    }
}
