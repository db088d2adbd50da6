//! The outline of a Markdown text, parsed once: its front matter, its sections with the items of their lists, its
//! tables and its code blocks, each with its range. Everything that is read from Markdown is read from it.
//!
//! The ranges refer to [`Outline::text`], the text in common spelling ([`spelling`](super::spelling)). It has the lines
//! of the file, and every line ends as in the file, so a place in a line is found from its end.
//!
//! Invariants: code, quotes, HTML and comments have neither headings nor items. Nesting is bounded;
//! deeper items are text, and boxes among them are counted.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::front_matter::FrontMatter;
use super::labels::parse_label;
use super::list_markers::{
    Checkbox, Line, LineKind, draws_boxes, mark_place, parse_checkbox, strip_checkbox, strip_marker,
};
use super::spelling::in_common_spelling;
use super::tables::{Table, find_tables};
use crate::diagnostic::{Diagnostic, ReadResult};
use crate::syntax::Node;

/// How deep items may be nested.
pub(super) const DEPTH_MAX: usize = 32;

/// The longest line that announces a list.
const LEAD_BYTES_MAX: usize = 200;

/// Fields of a plan that Markdown does not set at the start of a line, outside of code.
const PLAN_FIELDS: &[&str] = &[
    "steps", "title", "goal", "outcome", "context", "phases", "barriers", "defaults", "caps",
    "budget",
];

/// A Markdown text and its structure.
pub(crate) struct Outline<'a> {
    /// The text of the file.
    source: &'a str,
    /// The text in common spelling.
    pub(super) text: Cow<'a, str>,
    /// The offset of each line.
    starts: Vec<usize>,
    kinds: Vec<LineKind>,
    /// The first section is the text before any heading.
    pub(super) sections: Vec<Section>,
    pub(super) front_matter: Option<FrontMatter>,
    pub(super) code: Vec<CodeBlock>,
    pub(super) tables: Vec<Table>,
    /// The boxes that are nested too deeply to be items: the line of the first one, and their number.
    pub(super) too_deep: Option<(u64, usize)>,
    /// Whether the tasks are lines `step 1: text`.
    pub(super) has_step_lines: bool,
}

/// A code block between two fences.
pub(super) struct CodeBlock {
    /// The lines between the fences, from 1.
    body: Range<u64>,
    /// With its fences.
    range: Range<usize>,
}

/// A heading and the text up to the next one.
pub(super) struct Section {
    /// The level of the heading, 1 to 6; 0 before any heading.
    pub(super) level: u8,
    pub(super) title: String,
    pub(super) line: u64,
    /// From the heading to the next one.
    pub(super) range: Range<usize>,
    /// The end of the heading.
    pub(super) body: usize,
    /// The section around this one.
    pub(super) parent: Option<usize>,
    /// The items of its lists.
    pub(super) items: Vec<Item>,
}

/// An item of a list.
pub(super) struct Item {
    pub(super) range: Range<usize>,
    pub(super) line: u64,
    /// The number, in a numbered list.
    pub(super) number: Option<u64>,
    pub(super) checkbox: Option<Checkbox>,
    /// Whether a star after the checkbox marks it as optional.
    pub(super) is_optional: bool,
    /// The first paragraph as one line, without marker and checkbox.
    pub(super) head: String,
    /// The text after the first paragraph.
    pub(super) body: Range<usize>,
    pub(super) items: Vec<Item>,
    /// The line directly above its list that announces it, such as `**Steps:**`; empty if there is none, and for an
    /// item inside another one.
    pub(super) lead: String,
}

impl<'a> Outline<'a> {
    /// The fields of the front matter; an error if it is no YAML.
    pub(crate) fn front_fields(&self) -> ReadResult<Option<&Node>> {
        self.front_matter.as_ref().map_or(Ok(None), FrontMatter::fields)
    }

    /// A warning if the front matter is no YAML, so that it stays text; an error if its tasks would be lost.
    pub(crate) fn front_fault(&self) -> ReadResult<Option<Diagnostic>> {
        self.front_matter.as_ref().map_or(Ok(None), FrontMatter::warning)
    }

    /// Parses a text. A name that the front matter has twice is an error.
    pub(crate) fn parse(source: &'a str) -> ReadResult<Self> {
        let front_matter = FrontMatter::find(source)?;
        let front = front_matter.as_ref().map_or(0, |front| front.range.end);
        let (head, body) = source.split_at(front);
        let spelled = in_common_spelling(body, || code_lines(body));
        let text = match spelled.text {
            Cow::Borrowed(_) => Cow::Borrowed(source),
            Cow::Owned(body) => Cow::Owned(format!("{head}{body}")),
        };
        let starts = starts_of_lines(&text);
        let outline = Self {
            source,
            kinds: vec![LineKind::Text; starts.len()],
            starts,
            sections: Vec::new(),
            front_matter,
            code: Vec::new(),
            tables: Vec::new(),
            too_deep: None,
            has_step_lines: spelled.has_step_lines,
            text,
        };
        Ok(outline.with_blocks(front))
    }

    /// Finds the blocks after the front matter.
    fn with_blocks(mut self, front: usize) -> Self {
        let text = std::mem::take(&mut self.text);
        let body = text.get(front..).unwrap_or_default();
        let mut builder = OutlineBuilder {
            text: &text,
            outline: self,
            open: Vec::new(),
            lists: Vec::new(),
            ignored: 0,
            paragraph: 0..0,
            draws_boxes: draws_boxes(body),
        };
        builder.begin_section(0, front..front);
        let options = Options::ENABLE_TASKLISTS;
        for (event, range) in Parser::new_ext(body, options).into_offset_iter() {
            let place = |at: usize| at.saturating_add(front);
            builder.event(&event, place(range.start)..place(range.end));
        }
        builder.end_section(text.len());
        let mut outline = builder.outline;
        outline.text = text;
        for at in 0..outline.sections.len() {
            outline.join_labels(at);
            outline.join_text(at);
        }
        // The places of cells are those in the file.
        let lines = outline.lines_of(outline.body()..outline.text.len());
        let lines =
            lines.zip(outline.body_text().lines()).map(|(line, text)| Line { text, ..line });
        outline.tables = find_tables(lines);
        outline
    }

    /// Joins items that are labels, such as `- tools: rg`, to the item directly before them, even if
    /// they are not indented.
    fn join_labels(&mut self, at: usize) {
        let Some(section) = self.sections.get_mut(at) else { return };
        let mut joined: Vec<Item> = Vec::new();
        for item in std::mem::take(&mut section.items) {
            let is_label = item.number.is_none()
                && item.checkbox.is_none()
                && parse_label(&item.head).is_some();
            let between = |before: &Item| {
                self.text.get(before.range.end..item.range.start).unwrap_or("x").trim().is_empty()
            };
            match joined.last_mut() {
                Some(before)
                    if is_label
                        && (before.number.is_some() || before.checkbox.is_some())
                        && between(before) =>
                {
                    before.range.end = item.range.end;
                    before.body.end = item.range.end;
                    before.items.push(item);
                }
                _ => joined.push(item),
            }
        }
        section.items = joined;
    }

    /// Joins the text between two checkboxes to the first one, although it is not indented, and the text after the
    /// last one, if the box before has such text. A line that announces a list stays with the list.
    fn join_text(&mut self, at: usize) {
        let Some(section) = self.sections.get_mut(at) else { return };
        let end = section.range.end;
        let items = std::mem::take(&mut section.items);
        let starts: Vec<usize> =
            items.iter().filter(|it| it.checkbox.is_some()).map(|it| it.range.start).collect();
        let mut joined: Vec<Item> = Vec::new();
        let mut had_text = false;
        let mut nexts = starts.into_iter().skip(1);
        for mut item in items {
            if item.checkbox.is_none() {
                match joined.last_mut().filter(|before| {
                    before.checkbox.is_some() && item.range.start < before.range.end
                }) {
                    Some(before) => before.items.push(item),
                    None => joined.push(item),
                }
                continue;
            }
            let next = nexts.next();
            let until = next.unwrap_or(end);
            let text = self.text.get(item.range.end..until).unwrap_or_default();
            let is_text = |line: &str| {
                let line = line.trim();
                !line.is_empty() && !line.starts_with("---") && !line.starts_with(['-', '*', '+'])
            };
            let is_lead = |line: &str| {
                let line = line.trim();
                line.ends_with(':') || line.starts_with("**") && line.ends_with("**")
            };
            let last = text.lines().rfind(|line| !line.trim().is_empty());
            let has_text = text.lines().any(is_text)
                && !(next.is_some() && last.is_some_and(is_lead))
                && (next.is_some() || had_text);
            if has_text {
                item.range.end = until;
                item.body.end = until;
            }
            had_text = has_text;
            joined.push(item);
        }
        section.items = joined;
    }

    /// Where the text begins, after the front matter.
    pub(super) fn body(&self) -> usize {
        self.front_matter.as_ref().map_or(0, |front| front.range.end)
    }

    /// The text after the front matter, as the file has it.
    pub(crate) fn body_text(&self) -> &'a str {
        self.source.get(self.body()..).unwrap_or_default()
    }

    /// The line of an offset, counted from 1.
    pub(super) fn line(&self, at: usize) -> u64 {
        let before = self.starts.partition_point(|start| *start <= at);
        u64::try_from(before).unwrap_or(u64::MAX)
    }

    /// The offset of a line.
    fn start(&self, line: u64) -> usize {
        let index = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
        self.starts.get(index).copied().unwrap_or(self.text.len())
    }

    pub(super) fn slice(&self, range: Range<usize>) -> &str {
        self.text.get(range).unwrap_or_default()
    }

    /// The lines of a range.
    pub(super) fn lines_of(&self, range: Range<usize>) -> impl Iterator<Item = Line<'_>> {
        let first = self.line(range.start);
        let index = usize::try_from(first.saturating_sub(1)).unwrap_or(usize::MAX);
        let kinds = self.kinds.iter().skip(index).copied().chain(std::iter::repeat(LineKind::Text));
        let lines = (first..).zip(self.slice(range).lines()).zip(kinds);
        lines.map(|((number, text), kind)| Line { number, text, kind })
    }

    /// The code blocks that are of one kind: the text between their fences, after as many line breaks as there are
    /// lines before it, and the texts before and after the block.
    pub(crate) fn code_blocks(
        &self,
        is_wanted: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = (String, &str, &str)> {
        self.code.iter().filter_map(move |block| {
            let body = self.slice(self.start(block.body.start)..self.start(block.body.end));
            let lines = usize::try_from(block.body.start.saturating_sub(1)).unwrap_or(0);
            let before = self.text.get(..block.range.start).unwrap_or_default();
            let after = self.text.get(block.range.end..).unwrap_or_default();
            is_wanted(body).then(|| (format!("{}{body}", "\n".repeat(lines)), before, after))
        })
    }

    /// The text in which lines of code are empty.
    pub(crate) fn without_code(&self) -> String {
        let lines = self.lines_of(0..self.text.len());
        let lines = lines.map(|line| if line.kind == LineKind::Code { "" } else { line.text });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The text of the file.
    pub(crate) fn source(&self) -> &'a str {
        self.source
    }

    /// The title of the section with a line.
    pub(crate) fn section_title(&self, line: u64) -> &str {
        let next = self.sections.partition_point(|section| section.line <= line);
        let section = next.checked_sub(1).and_then(|at| self.sections.get(at));
        section.map_or("", |section| &section.title)
    }

    /// All tables.
    pub(crate) fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Whether a text other than JSON is Markdown: it has a heading, an item with a box or a number, and no line that
    /// sets a field of a plan in YAML.
    pub(crate) fn is_markdown(&self) -> bool {
        let lines = || {
            let lines = self.lines_of(self.body()..self.text.len());
            lines.filter(|line| line.kind != LineKind::Code).map(|line| line.text)
        };
        self.has_step_lines || !lines().any(sets_field) && lines().any(is_markdown_line)
    }

    /// Whether the text has a checkbox outside of code.
    pub(crate) fn has_checkboxes(&self) -> bool {
        fn any(items: &[Item]) -> bool {
            items.iter().any(|item| item.checkbox.is_some() || any(&item.items))
        }
        self.sections.iter().any(|section| any(&section.items))
    }

    /// The title of the first heading.
    pub(crate) fn first_title(&self) -> &str {
        self.sections.get(1).map_or("", |section| &section.title)
    }

    /// The text of each section by its title.
    pub(crate) fn section_texts(&self) -> Vec<(String, String)> {
        let texts = self.sections.iter().map(|section| {
            let title = section.title.trim_end_matches(':').to_owned();
            (title, self.slice(section.body..section.range.end).trim().to_owned())
        });
        texts.filter(|(_, text)| !text.is_empty()).collect()
    }

    /// A section and the sections around it, the outermost first.
    pub(super) fn ancestors(&self, section: usize) -> Vec<usize> {
        let mut chain = vec![section];
        let mut at = section;
        while let Some(parent) = self.sections.get(at).and_then(|section| section.parent) {
            chain.push(parent);
            at = parent;
        }
        chain.reverse();
        chain
    }

    /// The end of a section with its subsections.
    pub(super) fn subtree_end(&self, section: usize) -> usize {
        let level = self.sections.get(section).map_or(0, |section| section.level);
        let next = self.sections.iter().skip(section.saturating_add(1));
        let next = next.into_iter().find(|next| next.level <= level);
        next.map_or(self.text.len(), |next| next.range.start)
    }
}

/// The boxes of a text: the line of each, and the place of its mark in the line.
pub(crate) fn box_places(text: &str) -> Vec<(u64, Range<usize>)> {
    let Ok(outline) = Outline::parse(text) else { return Vec::new() };
    let (mut boxes, mut rest) = (BTreeMap::new(), Vec::new());
    for section in &outline.sections {
        if section.level > 0 && strip_checkbox(&section.title).0.is_some() {
            boxes.insert(section.line, false);
        }
        rest.extend(&section.items);
    }
    let body = outline.body()..outline.text.len();
    let draws_boxes = draws_boxes(outline.slice(body.clone()));
    while let Some(item) = rest.pop() {
        if item.checkbox.is_some() {
            boxes.insert(item.line, draws_boxes);
        }
        rest.extend(&item.items);
    }
    let lines = outline.lines_of(body).zip(outline.body_text().lines());
    let place = |(line, written): (Line<'_>, &str)| {
        let place = mark_place(line.text, *boxes.get(&line.number)?)?;
        // Only the start of a line has another spelling.
        let from_end = line.text.trim_end().len().checked_sub(place.start)?;
        let start = written.trim_end().len().checked_sub(from_end)?;
        Some((line.number, start..start.checked_add(place.len())?))
    };
    lines.filter_map(place).collect()
}

/// The offsets of the lines of a text.
fn starts_of_lines(text: &str) -> Vec<usize> {
    let line_breaks = text.match_indices('\n').map(|(at, _)| at.saturating_add(1));
    std::iter::once(0).chain(line_breaks).collect()
}

/// Which lines of a text are code in fences.
fn code_lines(text: &str) -> Vec<bool> {
    let mut lines: Vec<bool> = Vec::new();
    let (mut line, mut at) = (0_usize, 0_usize);
    for (event, range) in Parser::new(text).into_offset_iter() {
        if let Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) = event {
            let before = text.get(at..range.start).unwrap_or_default();
            line = line.saturating_add(before.matches('\n').count());
            at = range.start;
            let block = text.get(range).unwrap_or_default();
            lines.resize(line, false);
            lines.resize(line.saturating_add(block.lines().count()), true);
        }
    }
    lines
}

struct OutlineBuilder<'t, 'a> {
    text: &'t str,
    outline: Outline<'a>,
    /// The open items, the outermost first.
    open: Vec<OpenItem>,
    /// The open lists, the outermost first.
    lists: Vec<OpenList>,
    /// The number of open blocks with ignored content.
    ignored: usize,
    /// The last paragraph outside of lists.
    paragraph: Range<usize>,
    /// Whether ticks are boxes, because the text draws open boxes.
    draws_boxes: bool,
}

struct OpenItem {
    item: Item,
    head_end: Option<usize>,
}

struct OpenList {
    /// The number of the next item, in a numbered list.
    next: Option<u64>,
    lead: String,
}

impl OutlineBuilder<'_, '_> {
    fn event(&mut self, event: &Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(Tag::BlockQuote(_)) => {
                self.end_head(range.start);
                self.ignored = self.ignored.saturating_add(1);
            }
            Event::End(TagEnd::BlockQuote(_)) => self.ignored = self.ignored.saturating_sub(1),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => {
                self.end_head(range.start);
                self.add_code(range);
            }
            _ if self.ignored > 0 => {}
            Event::Start(Tag::Heading { level, .. }) if self.open.is_empty() => {
                self.begin_section(level_of(*level), range);
            }
            Event::Start(Tag::List(next)) => {
                self.end_head(range.start);
                let lead = if self.open.is_empty() { self.lead(range.start) } else { "" };
                self.lists.push(OpenList { next: *next, lead: lead.to_owned() });
            }
            Event::End(TagEnd::List(_)) => drop(self.lists.pop()),
            Event::Start(Tag::Item) => self.begin_item(range),
            Event::End(TagEnd::Item) => self.end_item(),
            Event::TaskListMarker(is_done) => {
                if let Some(open) = self.open.last_mut() {
                    let checkbox = if *is_done { Checkbox::Done } else { Checkbox::Open };
                    open.item.checkbox.get_or_insert(checkbox);
                }
            }
            Event::Start(Tag::Paragraph) if self.open.is_empty() => self.paragraph = range,
            Event::End(TagEnd::Paragraph) => self.end_head(range.end),
            Event::Start(Tag::HtmlBlock) => {
                self.end_head(range.start);
                let text = self.text.get(range.clone()).unwrap_or_default();
                if text.trim_start().starts_with("<!--") {
                    self.set_kind(range, LineKind::Comment);
                }
            }
            Event::Start(Tag::CodeBlock(_) | Tag::Heading { .. }) | Event::Rule => {
                self.end_head(range.start);
            }
            _ => {}
        }
    }

    fn set_kind(&mut self, range: Range<usize>, kind: LineKind) {
        let first = self.outline.line(range.start).saturating_sub(1);
        let end = self.outline.line(range.end.saturating_sub(1).max(range.start));
        let lines = usize::try_from(first).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
        self.outline.kinds.get_mut(lines).unwrap_or_default().fill(kind);
    }

    fn add_code(&mut self, range: Range<usize>) {
        self.set_kind(range.clone(), LineKind::Code);
        if self.ignored > 0 {
            return;
        }
        let first = self.outline.line(range.start);
        let last = self.outline.line(range.end.saturating_sub(1).max(range.start));
        let text = self.text.get(range.clone()).unwrap_or_default().trim_end();
        let fence = text.rsplit('\n').next().unwrap_or_default().trim();
        // A block without an end is no part of its own: what follows may be other text.
        if last > first && (fence.starts_with("```") || fence.starts_with("~~~")) {
            let body = first.saturating_add(1)..last;
            self.outline.code.push(CodeBlock { body, range });
        }
    }

    /// The last line of the paragraph directly above an offset, if it announces what follows.
    fn lead(&self, at: usize) -> &str {
        let between = self.text.get(self.paragraph.end..at).unwrap_or("x");
        let text = self.text.get(self.paragraph.clone()).unwrap_or_default().trim();
        let line = text.rsplit('\n').next().unwrap_or_default().trim();
        let is_lead = line.ends_with(':') || line.starts_with("**") && line.ends_with("**");
        let is_short = line.len() <= LEAD_BYTES_MAX;
        if between.trim().is_empty() && is_lead && is_short { line } else { "" }
    }

    /// Ends the first paragraph of the open item.
    fn end_head(&mut self, at: usize) {
        if let Some(open) = self.open.last_mut() {
            open.head_end.get_or_insert(at);
        }
    }

    fn begin_section(&mut self, level: u8, heading: Range<usize>) {
        self.end_section(heading.start);
        self.paragraph = 0..0;
        let outline = &mut self.outline;
        let line = outline.line(heading.start);
        let title = title_of(self.text.get(heading.clone()).unwrap_or_default());
        // The parent is the nearest heading before this one with a higher level.
        let mut parent = outline.sections.len().checked_sub(1);
        while let Some(at) = parent {
            match outline.sections.get(at) {
                Some(section) if section.level < level => break,
                Some(section) => parent = section.parent,
                None => parent = None,
            }
        }
        let parent = parent.filter(|at| *at > 0);
        let (body, range) = (heading.end, heading.start..self.text.len());
        let items = Vec::new();
        outline.sections.push(Section { level, title, line, range, body, parent, items });
    }

    fn end_section(&mut self, at: usize) {
        if let Some(section) = self.outline.sections.last_mut() {
            section.range.end = at;
        }
    }

    fn begin_item(&mut self, range: Range<usize>) {
        let list = self.lists.last_mut();
        let lead = list.as_ref().map(|list| list.lead.clone()).unwrap_or_default();
        let number = list.and_then(|list| {
            let number = list.next?;
            list.next = Some(number.saturating_add(1));
            Some(number)
        });
        let line = self.outline.line(range.start);
        let body = range.end..range.end;
        let (head, checkbox, items) = (String::new(), None, Vec::new());
        let is_optional = false;
        let item = Item { range, line, number, checkbox, is_optional, head, body, items, lead };
        self.open.push(OpenItem { item, head_end: None });
    }

    fn end_item(&mut self) {
        let Some(OpenItem { mut item, head_end }) = self.open.pop() else { return };
        let start = item.range.start;
        let end = head_end.unwrap_or(item.range.end).clamp(start, item.range.end);
        let text = self.text.get(start..end).unwrap_or_default();
        let (head, body) = head_of(text);
        match parse_checkbox(&head, self.draws_boxes) {
            Some(parsed) => {
                item.checkbox = Some(parsed.checkbox);
                item.is_optional = parsed.is_optional;
                parsed.rest.trim().clone_into(&mut item.head);
            }
            None => item.head = head,
        }
        item.body = start.saturating_add(body).min(end)..item.range.end;
        if self.open.len() >= DEPTH_MAX {
            if item.checkbox.is_some() {
                let (first, count) = self.outline.too_deep.unwrap_or((item.line, 0));
                self.outline.too_deep = Some((first.min(item.line), count.saturating_add(1)));
            }
            return;
        }
        match self.open.last_mut() {
            Some(outer) => outer.item.items.push(item),
            None => {
                if let Some(section) = self.outline.sections.last_mut() {
                    section.items.push(item);
                }
            }
        }
    }
}

fn level_of(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

/// The text of a heading in either syntax.
fn title_of(heading: &str) -> String {
    let lines: Vec<&str> = heading.lines().map(str::trim).collect();
    let is_rule = |line: &str| line.chars().all(|c| c == '=') || line.chars().all(|c| c == '-');
    let lines = match lines.split_last() {
        Some((last, lines)) if !lines.is_empty() && is_rule(last) => lines,
        _ => &lines,
    };
    let title = lines.join(" ");
    title.trim_start_matches('#').trim().trim_end_matches('#').trim_end().to_owned()
}

/// The first paragraph of an item as one line, and its length in bytes. The paragraph ends before a
/// line that begins with a label.
fn head_of(text: &str) -> (String, usize) {
    let mut head = String::new();
    let mut length = 0_usize;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let content = line.trim();
        if index == 0 {
            head.push_str(strip_marker(content).trim());
        } else if content.is_empty() || parse_label(content).is_some() {
            break;
        } else {
            head.push(' ');
            head.push_str(content);
        }
        length = length.saturating_add(line.len());
    }
    (head.trim().to_owned(), length)
}

/// Whether a line sets a field of a plan in YAML. The name may be quoted, with space before the
/// colon.
fn sets_field(line: &str) -> bool {
    let name = line.split_once(':').map_or("", |(name, _)| name.trim_end());
    let quoted = |quote: char| name.strip_prefix(quote)?.strip_suffix(quote);
    PLAN_FIELDS.contains(&quoted('"').or_else(|| quoted('\'')).unwrap_or(name))
}

/// Whether a line is a heading, or an item with a checkbox or a number.
fn is_markdown_line(line: &str) -> bool {
    let heading = line.trim_start_matches('#');
    let level = line.len().saturating_sub(heading.len());
    let item = strip_marker(line);
    let is_item = item.len() < line.trim_start().len();
    (1..=6).contains(&level) && heading.starts_with([' ', '\t'])
        || strip_checkbox(item).0.is_some()
        || (is_item && line.trim_start().starts_with(|c: char| c.is_ascii_digit()))
}
