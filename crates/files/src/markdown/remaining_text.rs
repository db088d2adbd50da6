//! The context of a plan: the Markdown text without its tasks and known sections.
//!
//! Invariant: no line outside of the taken ranges is lost, except headings without any text below
//! them. The work is linear in the length of the text.

use std::collections::BTreeMap;
use std::ops::Range;

use super::list_markers::{strip_checkbox, strip_marker};
use super::outline::Outline;

/// A text that loses the ranges that are taken from it.
pub(super) struct RemainingText<'a> {
    outline: &'a Outline<'a>,
    /// The ends of the taken ranges by their starts. They do not overlap.
    taken: BTreeMap<usize, usize>,
}

impl<'a> RemainingText<'a> {
    pub(super) fn new(outline: &'a Outline<'a>) -> Self {
        Self { outline, taken: BTreeMap::new() }
    }

    pub(super) fn take(&mut self, range: Range<usize>) {
        let Range { mut start, mut end } = range;
        while let Some((from, to)) = self.overlap(start..end) {
            self.taken.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        if start < end {
            self.taken.insert(start, end);
        }
    }

    /// The last taken range that overlaps with a range.
    fn overlap(&self, range: Range<usize>) -> Option<(usize, usize)> {
        let before = self.taken.range(..range.end).next_back();
        before.filter(|(_, end)| **end > range.start).map(|(start, end)| (*start, *end))
    }

    /// Whether any part of a range was taken.
    pub(super) fn overlaps_taken(&self, range: Range<usize>) -> bool {
        self.overlap(range).is_some()
    }

    /// The items of a section that has no other text.
    pub(super) fn only_items(&self, at: usize, range: Range<usize>) -> Option<Vec<String>> {
        let section = self.outline.sections.get(at)?;
        let mut from = section.body;
        let mut items = Vec::new();
        for item in &section.items {
            let between = self.outline.slice(from..item.range.start);
            if !between.trim().is_empty() {
                return None;
            }
            from = item.range.end;
            let text = self.outline.slice(item.range.clone());
            let text = strip_checkbox(strip_marker(text)).1.trim();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            items.push(lines.join("\n"));
        }
        items.retain(|item| !item.is_empty());
        self.outline.slice(from..range.end).trim().is_empty().then_some(items)
    }

    /// The text that was not taken.
    pub(super) fn into_text(self) -> String {
        let all: Vec<Range<usize>> = self.taken.iter().map(|(start, end)| *start..*end).collect();
        let sections = &self.outline.sections;
        let mut texts: Vec<String> = Vec::new();
        let mut next = 0_usize;
        for section in sections {
            let mut text = String::new();
            let mut from = section.body;
            while let Some(taken) = all.get(next).filter(|taken| taken.start < section.range.end) {
                text.push_str(self.outline.slice(from.min(taken.start)..taken.start));
                from = from.max(taken.end);
                // A range that reaches into the next section is handled there again.
                if taken.end > section.range.end {
                    break;
                }
                next = next.saturating_add(1);
            }
            text.push_str(self.outline.slice(from.min(section.range.end)..section.range.end));
            texts.push(without_extra_lines(&text));
        }
        self.with_headings(&texts)
    }

    /// Joins the sections that have text, each with its heading.
    fn with_headings(&self, texts: &[String]) -> String {
        let sections = &self.outline.sections;
        let mut is_kept = vec![false; sections.len()];
        for (at, text) in texts.iter().enumerate().rev() {
            if !text.is_empty() || is_kept.get(at).copied().unwrap_or_default() {
                // A heading stays if any section below it has text.
                let mut ancestor = Some(at);
                while let Some(flag) = ancestor.and_then(|at| is_kept.get_mut(at)) {
                    *flag = true;
                    ancestor = ancestor.and_then(|at| sections.get(at)?.parent);
                    if ancestor.and_then(|at| is_kept.get(at)).copied().unwrap_or_default() {
                        break;
                    }
                }
            }
        }
        let mut parts = Vec::new();
        for ((section, text), is_kept) in sections.iter().zip(texts).zip(is_kept) {
            let is_taken = self.is_taken(section.range.start);
            if is_kept && section.level > 0 && !is_taken {
                parts.push(self.outline.slice(section.range.start..section.body).trim());
            }
            if !text.is_empty() {
                parts.push(text);
            }
        }
        parts.join("\n\n")
    }

    fn is_taken(&self, at: usize) -> bool {
        self.overlaps_taken(at..at.saturating_add(1))
    }
}

/// Removes repeated blank lines, blank lines at the start and end, and rules at the end.
fn without_extra_lines(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim_end) {
        if !(line.is_empty() && lines.last().is_none_or(|last| last.is_empty())) {
            lines.push(line);
        }
    }
    while lines.last().is_some_and(|line| line.is_empty() || *line == "---") {
        lines.pop();
    }
    lines.join("\n")
}
