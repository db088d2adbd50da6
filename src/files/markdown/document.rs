//! The structure of a Markdown text: sections, and the items of their lists, each with its range.
//!
//! Invariants: code, quotes, HTML and comments have neither headings nor items. Nesting is bounded;
//! deeper items are text.

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::labels::parse_label;
use super::list_markers::{Checkbox, strip_checkbox, strip_marker};

/// How deep items may be nested.
const DEPTH_MAX: usize = 32;

/// A Markdown text and its structure.
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    /// The offset of each line.
    lines: Vec<usize>,
    /// The first section is the text before any heading.
    pub(super) sections: Vec<Section>,
    /// The front matter at the very beginning.
    pub(super) front_matter: Option<Range<usize>>,
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
            document: Self { text, lines, sections: Vec::new(), front_matter: None },
            open: Vec::new(),
            lists: Vec::new(),
            ignored: 0,
            heading: None,
        };
        builder.begin_section(0, 0..0);
        let options = Options::ENABLE_TASKLISTS | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            builder.event(&event, range);
        }
        builder.end_section(text.len());
        builder.document
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
    /// The number of open blocks whose content is ignored.
    ignored: usize,
    heading: Option<u8>,
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
        let item = Item { range, line, number, checkbox, head, body, items };
        self.open.push(OpenItem { item, head_end: None });
    }

    fn end_item(&mut self) {
        let Some(OpenItem { mut item, head_end }) = self.open.pop() else { return };
        let end = head_end.unwrap_or(item.range.end).clamp(item.range.start, item.range.end);
        let (head, checkbox, body) = head_of(self.document.slice(item.range.start..end));
        item.checkbox = item.checkbox.or(checkbox);
        item.head = head;
        item.body = item.range.start.saturating_add(body).min(end)..item.range.end;
        if self.open.len() >= DEPTH_MAX {
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

/// The first paragraph of an item as one line, its checkbox, and the length of both in bytes. The
/// paragraph ends before a line that begins with a label.
fn head_of(text: &str) -> (String, Option<Checkbox>, usize) {
    let mut head = String::new();
    let mut checkbox = None;
    let mut length = 0_usize;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let content = line.trim();
        if index == 0 {
            let (found, rest) = strip_checkbox(strip_marker(content));
            checkbox = found;
            head.push_str(rest.trim());
        } else if content.is_empty() || parse_label(content).is_some() {
            break;
        } else {
            head.push(' ');
            head.push_str(content);
        }
        length = length.saturating_add(line.len());
    }
    (head.trim().to_owned(), checkbox, length)
}
