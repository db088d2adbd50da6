//! The structure of a Markdown text: sections, and the items of their lists, each with its range.
//!
//! Invariants: code, quotes, HTML and comments have neither headings nor items. Nesting is bounded;
//! deeper items are text, and boxes among them are counted.

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::labels::parse_label;
use super::list_markers::{Checkbox, draws_boxes, parse_checkbox, strip_marker};

/// How deep items may be nested.
pub(super) const DEPTH_MAX: usize = 32;

/// A Markdown text and its structure.
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    /// The offset of each line.
    lines: Vec<usize>,
    /// The first section is the text before any heading.
    pub(super) sections: Vec<Section>,
    /// The front matter at the very beginning.
    pub(super) front_matter: Option<Range<usize>>,
    /// The boxes that are nested too deeply to be items: the line of the first one, and their number.
    pub(super) too_deep: Option<(u64, usize)>,
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
}

impl<'a> Document<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let starts = text.match_indices('\n').map(|(at, _)| at.saturating_add(1));
        let lines = std::iter::once(0).chain(starts).collect();
        let mut builder = DocumentBuilder {
            document: Self {
                text,
                lines,
                sections: Vec::new(),
                front_matter: None,
                too_deep: None,
            },
            open: Vec::new(),
            lists: Vec::new(),
            ignored: 0,
            heading: None,
            draws_boxes: draws_boxes(text),
        };
        builder.begin_section(0, 0..0);
        let options = Options::ENABLE_TASKLISTS | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            builder.event(&event, range);
        }
        builder.end_section(text.len());
        let mut document = builder.document;
        for at in 0..document.sections.len() {
            document.join_labels(at);
            document.join_text(at);
        }
        document
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

    /// The line of an offset, counted from 1.
    pub(super) fn line(&self, at: usize) -> u64 {
        let before = self.lines.partition_point(|start| *start <= at);
        u64::try_from(before).unwrap_or(u64::MAX)
    }

    pub(super) fn slice(&self, range: Range<usize>) -> &'a str {
        self.text.get(range).unwrap_or_default()
    }

    /// The lines of a range, each with its number.
    pub(super) fn lines_of(&self, range: Range<usize>) -> impl Iterator<Item = (u64, &'a str)> {
        (self.line(range.start)..).zip(self.slice(range).lines())
    }

    /// Joins the text after a checkbox to it, although it is not indented, if most checkboxes of the
    /// section have such text.
    fn join_text(&mut self, at: usize) {
        let Some(section) = self.sections.get_mut(at) else { return };
        let end = section.range.end;
        let boxes: Vec<usize> = (0..)
            .zip(&section.items)
            .filter(|(_, item)| item.checkbox.is_some())
            .map(|(index, _)| index)
            .collect();
        let end_of = |position: usize, items: &[Item]| {
            let next = boxes.get(position.saturating_add(1)).and_then(|next| items.get(*next));
            next.map_or(end, |next| next.range.start)
        };
        let has_text = |position: usize, items: &[Item]| {
            let item = boxes.get(position).and_then(|index| items.get(*index));
            let range = item.map(|item| item.range.end..end_of(position, items));
            let text = range.and_then(|range| self.text.get(range)).unwrap_or_default();
            text.lines().any(|line| {
                let line = line.trim();
                !line.is_empty() && !line.starts_with("---") && !line.starts_with(['-', '*', '+'])
            })
        };
        let with_text =
            (0..boxes.len()).filter(|position| has_text(*position, &section.items)).count();
        if boxes.len() < 2 || with_text.saturating_mul(3) < boxes.len().saturating_mul(2) {
            return;
        }
        let mut joined: Vec<Item> = Vec::new();
        let ends: Vec<usize> =
            (0..boxes.len()).map(|position| end_of(position, &section.items)).collect();
        let mut ends = ends.into_iter();
        for mut item in std::mem::take(&mut section.items) {
            if item.checkbox.is_some() {
                let end = ends.next().unwrap_or(item.range.end);
                item.range.end = end;
                item.body.end = end;
                joined.push(item);
            } else if let Some(before) = joined.last_mut().filter(|it| it.checkbox.is_some()) {
                before.items.push(item);
            } else {
                joined.push(item);
            }
        }
        section.items = joined;
    }

    /// The title of the section with a line.
    pub(super) fn section_title(&self, line: u64) -> String {
        let section = self.sections.iter().rfind(|section| section.line <= line);
        section.map(|section| section.title.clone()).unwrap_or_default()
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

struct DocumentBuilder<'a> {
    document: Document<'a>,
    /// The open items, the outermost first.
    open: Vec<OpenItem>,
    /// The next number of each open list.
    lists: Vec<Option<u64>>,
    /// The number of open blocks with ignored content.
    ignored: usize,
    heading: Option<u8>,
    /// Whether ticks are boxes, because the text draws open boxes.
    draws_boxes: bool,
}

struct OpenItem {
    item: Item,
    head_end: Option<usize>,
}

impl DocumentBuilder<'_> {
    fn event(&mut self, event: &Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(Tag::BlockQuote(_)) => {
                self.end_head(range.start);
                self.ignored = self.ignored.saturating_add(1);
            }
            Event::End(TagEnd::BlockQuote(_)) => self.ignored = self.ignored.saturating_sub(1),
            Event::Start(Tag::MetadataBlock(_)) if range.start == 0 => {
                self.document.front_matter = Some(range);
            }
            _ if self.ignored > 0 => {}
            Event::Start(Tag::Heading { level, .. }) if self.open.is_empty() => {
                self.heading = Some(level_of(*level));
                self.begin_section(level_of(*level), range);
            }
            Event::End(TagEnd::Heading(_)) => self.heading = None,
            Event::Start(Tag::List(first)) => {
                self.end_head(range.start);
                self.lists.push(*first);
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
            Event::End(TagEnd::Paragraph) => self.end_head(range.end),
            Event::Start(Tag::CodeBlock(_) | Tag::HtmlBlock | Tag::Heading { .. })
            | Event::Rule => {
                self.end_head(range.start);
            }
            _ => {}
        }
    }

    /// Ends the first paragraph of the open item.
    fn end_head(&mut self, at: usize) {
        if let Some(open) = self.open.last_mut() {
            open.head_end.get_or_insert(at);
        }
    }

    fn begin_section(&mut self, level: u8, heading: Range<usize>) {
        self.end_section(heading.start);
        let document = &mut self.document;
        let line = document.line(heading.start);
        let title = title_of(document.slice(heading.clone()));
        // The parent is the nearest heading before this one with a higher level.
        let mut parent = document.sections.len().checked_sub(1);
        while let Some(at) = parent {
            match document.sections.get(at) {
                Some(section) if section.level < level => break,
                Some(section) => parent = section.parent,
                None => parent = None,
            }
        }
        let parent = parent.filter(|at| *at > 0);
        let (body, range) = (heading.end, heading.start..document.text.len());
        let items = Vec::new();
        document.sections.push(Section { level, title, line, range, body, parent, items });
    }

    fn end_section(&mut self, at: usize) {
        if let Some(section) = self.document.sections.last_mut() {
            section.range.end = at;
        }
    }

    fn begin_item(&mut self, range: Range<usize>) {
        let number = self.lists.last_mut().and_then(|next| {
            let number = (*next)?;
            *next = Some(number.saturating_add(1));
            Some(number)
        });
        let line = self.document.line(range.start);
        let body = range.end..range.end;
        let (head, checkbox, items) = (String::new(), None, Vec::new());
        let item = Item { range, line, number, checkbox, is_optional: false, head, body, items };
        self.open.push(OpenItem { item, head_end: None });
    }

    fn end_item(&mut self) {
        let Some(OpenItem { mut item, head_end }) = self.open.pop() else { return };
        let end = head_end.unwrap_or(item.range.end).clamp(item.range.start, item.range.end);
        let text = self.document.slice(item.range.start..end);
        let (head, body) = head_of(text);
        match parse_checkbox(&head, self.draws_boxes) {
            Some(parsed) => {
                item.checkbox = Some(parsed.checkbox);
                item.is_optional = parsed.is_optional;
                parsed.rest.trim().clone_into(&mut item.head);
            }
            None => item.head = head,
        }
        item.body = item.range.start.saturating_add(body).min(end)..item.range.end;
        if self.open.len() >= DEPTH_MAX {
            if item.checkbox.is_some() {
                let (first, count) = self.document.too_deep.unwrap_or((item.line, 0));
                self.document.too_deep = Some((first.min(item.line), count.saturating_add(1)));
            }
            return;
        }
        match self.open.last_mut() {
            Some(outer) => outer.item.items.push(item),
            None => {
                if let Some(section) = self.document.sections.last_mut() {
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
