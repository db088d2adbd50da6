//! The outline of a Markdown text, parsed once: its front matter, its sections with the items of their lists, its
//! tables and its code blocks, each with its range. Everything that is read from Markdown is read from it.
//!
//! The ranges refer to [`Outline::text`], the text in common spelling ([`spelling`](super::spelling)). It has the lines
//! of the file, and every line ends as in the file, so a place in a line is found from its end.
//!
//! Invariants: code, quotes, HTML and comments have neither headings nor items. Nesting is bounded;
//! deeper items are text, and boxes among them are counted.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::labels::parse_label;
use super::list_markers::{Checkbox, draws_boxes, parse_checkbox, strip_marker};
use super::spelling::in_common_spelling;
use crate::diagnostic::{Diagnostic, ReadError, ReadResult, Severity};
use crate::syntax::{Node, yaml_tree};

/// How deep items may be nested.
pub(super) const DEPTH_MAX: usize = 32;

/// Lists of tasks in front matter.
const FRONT_LISTS: &[&str] = &["todos:", "tasks:", "steps:", "stories:", "items:"];

/// A Markdown text and its structure.
pub(crate) struct Outline<'a> {
    /// The text of the file, and the offset of each of its lines.
    source: &'a str,
    source_starts: Vec<usize>,
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

/// The fields between two lines `---` at the very beginning.
pub(crate) struct FrontMatter {
    /// All of it, with both marks.
    pub(super) range: Range<usize>,
    /// Its tree, if it is YAML.
    pub(crate) fields: Option<Node>,
    /// Why it is no YAML.
    pub(crate) fault: Option<Diagnostic>,
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    Text,
    /// A line of a block in fences, or a fence.
    Code,
    Comment,
}

/// A line of the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: u64,
    pub(super) text: &'a str,
    pub(super) kind: LineKind,
}

/// A code block in fences.
pub(super) struct CodeBlock {
    /// The lines between the fences, from 1.
    body: Range<u64>,
    /// With its fences.
    range: Range<usize>,
}

/// A table with pipes: rows of cells, each with its line; the first row is the header.
pub(crate) struct Table {
    pub(crate) rows: Vec<(u64, Vec<String>)>,
    /// The index of the section around it.
    pub(super) section: usize,
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
    /// The place of the checkbox, with its brackets.
    pub(super) mark: Option<Range<usize>>,
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
            source_starts: starts_of_lines(source),
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
        outline.tables = outline.find_tables();
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

    /// The tables of the text outside of code.
    fn find_tables(&self) -> Vec<Table> {
        let mut found: Vec<Table> = Vec::new();
        let mut before: Option<Line<'_>> = None;
        let mut is_open = false;
        for line in self.lines_of(self.body()..self.text.len()) {
            if line.kind == LineKind::Code || !line.text.contains('|') {
                (before, is_open) = (None, false);
                continue;
            }
            if is_open {
                if let Some(table) = found.last_mut() {
                    table.rows.push((line.number, cells(line.text)));
                }
            } else if let Some(header) = before.filter(|_| is_rule(line.text)) {
                let rows = vec![(header.number, cells(header.text))];
                found.push(Table { rows, section: self.section_at(header.number) });
                is_open = true;
            }
            before = Some(line);
        }
        found.retain(|table| table.rows.len() > 1);
        found
    }

    /// The tables with a row in a range of lines.
    pub(super) fn tables_in(&self, range: &Range<usize>) -> impl Iterator<Item = &Table> {
        let (first, last) = (self.line(range.start), self.line(range.end.saturating_sub(1)));
        let line = |table: &Table| table.rows.first().map_or(0, |(line, _)| *line);
        self.tables.iter().filter(move |table| (first..=last).contains(&line(table)))
    }

    /// Where the text begins, after the front matter.
    pub(super) fn body(&self) -> usize {
        self.front_matter.as_ref().map_or(0, |front| front.range.end)
    }

    /// The text after the front matter, as the file has it.
    pub(crate) fn body_text(&self) -> &'a str {
        self.source.get(self.body()..).unwrap_or_default()
    }

    /// The fields of the front matter; an error if it is no YAML.
    pub(crate) fn front_fields(&self) -> ReadResult<Option<&Node>> {
        let Some(front) = &self.front_matter else { return Ok(None) };
        match &front.fault {
            Some(fault) => Err(ReadError::Invalid(vec![fault.clone()])),
            None => Ok(front.fields.as_ref()),
        }
    }

    /// A warning if the front matter is no YAML, so that it stays text; an error if its tasks would be lost.
    pub(crate) fn front_fault(&self) -> ReadResult<Option<Diagnostic>> {
        let Some(front) = &self.front_matter else { return Ok(None) };
        let Some(fault) = front.fault.clone() else { return Ok(None) };
        let has_tasks = |line: &str| FRONT_LISTS.iter().any(|name| line.starts_with(name));
        if self.slice(front.range.clone()).lines().any(has_tasks) {
            return Err(ReadError::Invalid(vec![fault]));
        }
        let message =
            format!("the front matter is no valid YAML, so it is kept as text: {}", fault.message);
        Ok(Some(Diagnostic { severity: Severity::Warning, message, ..fault }))
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

    /// A range of one line in the text of the file: its line, and its bytes in the line. The spelling changes the
    /// beginning of a line only.
    pub(super) fn place(&self, range: &Range<usize>) -> Option<(u64, Range<usize>)> {
        let number = self.line(range.start);
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        let end = self.text.get(range.start..)?.find('\n').map_or(self.text.len(), |length| {
            range.start.saturating_add(length)
        });
        let next = self.source_starts.get(index.saturating_add(1));
        let source_end = next.map_or(self.source.len(), |next| next.saturating_sub(1));
        let length = source_end.checked_sub(*self.source_starts.get(index)?)?;
        let start = length.checked_sub(end.checked_sub(range.start)?)?;
        Some((number, start..start.saturating_add(range.len())))
    }

    /// The section with a line.
    fn section_at(&self, line: u64) -> usize {
        self.sections.partition_point(|section| section.line <= line).saturating_sub(1)
    }

    /// The title of the section with a line.
    pub(super) fn section_title(&self, line: u64) -> &str {
        self.sections.get(self.section_at(line)).map_or("", |section| &section.title)
    }

    /// The title of the section around a table.
    pub(crate) fn title_of_table(&self, table: &Table) -> &str {
        self.sections.get(table.section).map_or("", |section| &section.title)
    }

    /// All tables.
    pub(crate) fn tables(&self) -> &[Table] {
        &self.tables
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

impl FrontMatter {
    /// The front matter of a text: its first line is `---`, and its first field is before the next such line.
    fn find(text: &str) -> ReadResult<Option<Self>> {
        let mut lines = text.split_inclusive('\n');
        let Some(first) = lines.next().filter(|line| line.trim_end() == "---") else {
            return Ok(None);
        };
        let mut length = first.len();
        for line in lines {
            let start = length;
            length = length.saturating_add(line.len());
            if line.trim_end() != "---" {
                continue;
            }
            let fields = text.get(..start).unwrap_or_default();
            let is_field = |line: &str| line.split_once(':').is_some_and(|(name, _)| is_name(name));
            let mut inner = fields.lines().skip(1).filter(|line| !is_comment(line));
            if !inner.next().is_none_or(is_field) {
                return Ok(None);
            }
            let (fields, fault) = match yaml_tree(fields) {
                Ok(tree) => (Some(tree), None),
                Err(error) if error.is_name_twice() => return Err(error),
                Err(error) => (None, error.into_diagnostics().into_iter().next()),
            };
            return Ok(Some(Self { range: 0..length, fields, fault }));
        }
        Ok(None)
    }
}

fn is_comment(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}

/// Whether a text before a colon can be the name of a field.
fn is_name(text: &str) -> bool {
    let text = text.trim_matches(['"', '\'', ' ']);
    let is_part = |c: char| c.is_alphanumeric() || "_-. ".contains(c);
    !text.is_empty() && text.chars().all(is_part)
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
        let is_closed = last > first && (fence.starts_with("```") || fence.starts_with("~~~"));
        let end = if is_closed { last } else { last.saturating_add(1) };
        let body = first.saturating_add(1)..end;
        self.outline.code.push(CodeBlock { body, range });
    }

    /// The last line of the paragraph directly above an offset, if it announces what follows.
    fn lead(&self, at: usize) -> &str {
        let between = self.text.get(self.paragraph.end..at).unwrap_or("x");
        let text = self.text.get(self.paragraph.clone()).unwrap_or_default().trim();
        let line = text.rsplit('\n').next().unwrap_or_default().trim();
        let is_lead = line.ends_with(':') || line.starts_with("**") && line.ends_with("**");
        if between.trim().is_empty() && is_lead { line } else { "" }
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
        let (head, checkbox, mark, items) = (String::new(), None, None, Vec::new());
        let is_optional = false;
        let item = Item { range, line, number, checkbox, mark, is_optional, head, body, items, lead };
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
                let line = text.lines().next().unwrap_or_default();
                item.mark = place_of_mark(line, parsed.mark).map(|mark| {
                    start.saturating_add(mark.start)..start.saturating_add(mark.end)
                });
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

/// The place of a mark in a line: the first one that is spelled so.
pub(super) fn place_of_mark(line: &str, mark: &str) -> Option<Range<usize>> {
    let start = line.find(mark)?;
    Some(start..start.saturating_add(mark.len()))
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

/// Whether a line is the rule below the header of a table: `|---|:--:|`.
fn is_rule(line: &str) -> bool {
    line.contains('-') && line.chars().all(|c| "|-: \t".contains(c))
}

/// The cells of a row.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let line = line.strip_suffix('|').unwrap_or(line);
    line.replace("\\|", "\u{1}")
        .split('|')
        .map(|cell| without_marks(cell.trim()).replace('\u{1}', "|"))
        .collect()
}

/// A cell without the marks around all of it: `**Task**`, but not `` `a` and `b` ``.
fn without_marks(cell: &str) -> &str {
    let inner = |mark: &str| {
        let inner = cell.strip_prefix(mark)?.strip_suffix(mark)?;
        (!inner.is_empty() && !inner.contains(mark)).then_some(inner)
    };
    ["**", "*", "`"].into_iter().find_map(inner).unwrap_or(cell)
}
