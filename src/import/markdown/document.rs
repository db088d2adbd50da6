//! The structure of a Markdown text: sections by their headings, and the items of their lists,
//! each with its place in the text.
//!
//! Invariant: what stands in code, quotes, HTML or comments is text, and neither a heading nor an
//! item. Nesting is bounded: what lies deeper is text.

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::labels;

/// How deep items are looked for.
const DEPTH_MAX: usize = 32;

/// A Markdown text and its parts.
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
    /// The first one is what stands before any heading.
    pub(super) sections: Vec<Section>,
    /// The block of fields at the very beginning.
    pub(super) front: Option<Range<usize>>,
}

/// A heading, and what stands between it and the next one.
pub(super) struct Section {
    /// 1 to 6; 0 before any heading.
    pub(super) level: u8,
    pub(super) title: String,
    pub(super) line: u64,
    /// From the heading to the next one.
    pub(super) range: Range<usize>,
    /// Where the heading ends.
    pub(super) body: usize,
    /// The section that this one is in.
    pub(super) parent: Option<usize>,
    /// The items of its lists.
    pub(super) items: Vec<Item>,
}

/// The box before an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    Open,
    Done,
    /// `[-]` or `[~]`, which means that it is dropped, or begun: tools differ.
    Other,
}

/// An item of a list.
pub(super) struct Item {
    pub(super) range: Range<usize>,
    pub(super) line: u64,
    /// Its number, in a numbered list.
    pub(super) number: Option<u64>,
    pub(super) check: Option<Check>,
    /// Its first paragraph as one line, without marker and box.
    pub(super) head: String,
    /// What follows that.
    pub(super) body: Range<usize>,
    pub(super) items: Vec<Item>,
}

impl<'a> Document<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let starts = text.match_indices('\n').map(|(at, _)| at.saturating_add(1));
        let lines = std::iter::once(0).chain(starts).collect();
        let mut build = Build {
            document: Self { text, lines, sections: Vec::new(), front: None },
            open: Vec::new(),
            lists: Vec::new(),
            ignored: 0,
            heading: None,
        };
        build.section(0, 0..0);
        let options = Options::ENABLE_TASKLISTS | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            build.event(&event, range);
        }
        build.end(text.len());
        build.document
    }

    /// The line of a byte, counted from 1.
    pub(super) fn line(&self, at: usize) -> u64 {
        let before = self.lines.partition_point(|start| *start <= at);
        u64::try_from(before).unwrap_or(u64::MAX)
    }

    /// A part of the text.
    pub(super) fn slice(&self, range: Range<usize>) -> &'a str {
        self.text.get(range).unwrap_or_default()
    }

    /// The lines of a part of the text, each with its number.
    pub(super) fn lines_of(&self, range: Range<usize>) -> impl Iterator<Item = (u64, &'a str)> {
        (self.line(range.start)..).zip(self.slice(range).lines())
    }

    /// The sections that hold one, itself included, the outermost first.
    pub(super) fn chain(&self, section: usize) -> Vec<usize> {
        let mut chain = vec![section];
        let mut at = section;
        while let Some(parent) = self.sections.get(at).and_then(|section| section.parent) {
            chain.push(parent);
            at = parent;
        }
        chain.reverse();
        chain
    }

    /// Where a section ends, with all sections in it.
    pub(super) fn whole_end(&self, section: usize) -> usize {
        let level = self.sections.get(section).map_or(0, |section| section.level);
        let next = self.sections.iter().skip(section.saturating_add(1));
        let next = next.into_iter().find(|next| next.level <= level);
        next.map_or(self.text.len(), |next| next.range.start)
    }
}

struct Build<'a> {
    document: Document<'a>,
    /// Items that have not ended, the outermost first.
    open: Vec<Open>,
    /// The next numbers of the lists that have not ended.
    lists: Vec<Option<u64>>,
    /// How many blocks are open in which nothing is looked for.
    ignored: usize,
    heading: Option<u8>,
}

struct Open {
    item: Item,
    head_end: Option<usize>,
}

impl Build<'_> {
    fn event(&mut self, event: &Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(Tag::BlockQuote(_)) => {
                self.block(range.start);
                self.ignored = self.ignored.saturating_add(1);
            }
            Event::End(TagEnd::BlockQuote(_)) => self.ignored = self.ignored.saturating_sub(1),
            Event::Start(Tag::MetadataBlock(_)) if range.start == 0 => {
                self.document.front = Some(range);
            }
            _ if self.ignored > 0 => {}
            Event::Start(Tag::Heading { level, .. }) if self.open.is_empty() => {
                self.heading = Some(level_of(*level));
                self.section(level_of(*level), range);
            }
            Event::End(TagEnd::Heading(_)) => self.heading = None,
            Event::Start(Tag::List(first)) => {
                self.block(range.start);
                self.lists.push(*first);
            }
            Event::End(TagEnd::List(_)) => drop(self.lists.pop()),
            Event::Start(Tag::Item) => self.item(range),
            Event::End(TagEnd::Item) => self.end_item(),
            Event::TaskListMarker(is_done) => {
                if let Some(open) = self.open.last_mut() {
                    let check = if *is_done { Check::Done } else { Check::Open };
                    open.item.check.get_or_insert(check);
                }
            }
            Event::End(TagEnd::Paragraph) => self.block(range.end),
            Event::Start(Tag::CodeBlock(_) | Tag::HtmlBlock | Tag::Heading { .. })
            | Event::Rule => {
                self.block(range.start);
            }
            _ => {}
        }
    }

    /// Something begins that is no longer the first paragraph of the open item.
    fn block(&mut self, at: usize) {
        if let Some(open) = self.open.last_mut() {
            open.head_end.get_or_insert(at);
        }
    }

    fn section(&mut self, level: u8, heading: Range<usize>) {
        self.end(heading.start);
        let document = &mut self.document;
        let line = document.line(heading.start);
        let title = title_of(document.slice(heading.clone()));
        // The nearest heading before it that is higher.
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

    fn end(&mut self, at: usize) {
        if let Some(section) = self.document.sections.last_mut() {
            section.range.end = at;
        }
    }

    fn item(&mut self, range: Range<usize>) {
        let number = self.lists.last_mut().and_then(|next| {
            let number = (*next)?;
            *next = Some(number.saturating_add(1));
            Some(number)
        });
        let line = self.document.line(range.start);
        let body = range.end..range.end;
        let (head, check, items) = (String::new(), None, Vec::new());
        let item = Item { range, line, number, check, head, body, items };
        self.open.push(Open { item, head_end: None });
    }

    fn end_item(&mut self) {
        let Some(Open { mut item, head_end }) = self.open.pop() else { return };
        let end = head_end.unwrap_or(item.range.end).clamp(item.range.start, item.range.end);
        let (head, check, body) = head_of(self.document.slice(item.range.start..end));
        item.check = item.check.or(check);
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

/// The text of a heading in either of its forms.
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

/// The first paragraph of an item as one line, its box, and how many bytes both took. A line that
/// begins with a label is not part of it any more.
fn head_of(text: &str) -> (String, Option<Check>, usize) {
    let mut head = String::new();
    let mut check = None;
    let mut taken = 0_usize;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let content = line.trim();
        if index == 0 {
            let (found, rest) = unboxed(unmarked(content));
            check = found;
            head.push_str(rest.trim());
        } else if content.is_empty() || labels::label(content).is_some() {
            break;
        } else {
            head.push(' ');
            head.push_str(content);
        }
        taken = taken.saturating_add(line.len());
    }
    (head.trim().to_owned(), check, taken)
}

/// A line without the bullet or number before it.
pub(super) fn unmarked(line: &str) -> &str {
    let line = line.trim_start();
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = if digits.len() < line.len() {
        digits.strip_prefix(['.', ')'])
    } else {
        line.strip_prefix(['-', '*', '+'])
    };
    match rest {
        Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => rest.trim_start(),
        _ => line,
    }
}

/// A text without the box before it.
pub(super) fn unboxed(text: &str) -> (Option<Check>, &str) {
    let mark = |text: &str| {
        Some(match text {
            "[ ]" => Check::Open,
            "[x]" | "[X]" => Check::Done,
            "[-]" | "[~]" => Check::Other,
            _ => return None,
        })
    };
    let (found, rest) = (text.get(..3).and_then(mark), text.get(3..).unwrap_or_default());
    match found {
        Some(check) if rest.is_empty() || rest.starts_with(char::is_whitespace) => {
            (Some(check), rest.trim_start())
        }
        _ => (None, text),
    }
}
