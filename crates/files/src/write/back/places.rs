//! Finds the marks of each step in the texts that were read.
//!
//! Invariant: the places do not depend on the statuses, so that they are the same after a status was written.

use std::collections::BTreeMap;
use std::ops::Range;

use super::mark::{Mark, MarkKind, Usage};
use super::scalar::{Found, cell, scalar, source_of};
use super::text::SourceText;
use crate::draft::{Source, StepSource, TaskStatus};
use crate::markdown;
use crate::plan_file::PlanFormat;
use crate::read::{RowPlace, as_markdown, keyword_place, mark_length};
use crate::records::status_nodes;
use crate::syntax::Node;

/// Where the steps of a plan were read from.
pub(super) struct ReadPlan<'a> {
    pub(super) format: PlanFormat,
    pub(super) source: &'a Source,
    pub(super) files: &'a [SourceText],
    /// The file of each row, for the files of a folder.
    pub(super) rows: &'a [(usize, Option<StepSource>)],
}

/// The marks of a plan's steps.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Those of each step, in the order of the plan.
    pub(super) of_steps: Vec<Vec<Mark>>,
    pub(super) usage: Usage,
}

/// The lines of a step in a file.
#[derive(Debug, Clone)]
struct Lines {
    step: usize,
    first: u64,
    last: u64,
    status: Option<u64>,
}

impl ReadPlan<'_> {
    /// Finds the marks.
    pub(super) fn marks(&self) -> Marks {
        let steps = self.source.steps().unwrap_or_default();
        let mut marks = Marks::default();
        marks.of_steps.resize(steps.len(), Vec::new());
        let mut by_file: BTreeMap<usize, Vec<Lines>> = BTreeMap::new();
        let records = self.source.records();
        for (step, source) in steps.iter().enumerate() {
            let row = self.row_of(source);
            let (file, lines) = row.map_or((0, None), |(file, lines)| (*file, lines.as_ref()));
            match lines.unwrap_or(source) {
                StepSource::Lines { first, last, status } => {
                    let (first, last, status) = (*first, *last, *status);
                    by_file.entry(file).or_default().push(Lines { step, first, last, status });
                }
                StepSource::Path { record, .. } => {
                    let Some(Some(node)) = records.get(step) else { continue };
                    self.add_record(&mut marks, step, file, node);
                    if is_row(record) && self.has_body(file) {
                        // Below the fields of a task are its parts.
                        let (first, last, status) = (0, u64::MAX, None);
                        by_file.entry(file).or_default().push(Lines { step, first, last, status });
                    }
                }
            }
        }
        for (file, lines) in by_file {
            self.add_lines(&mut marks, file, lines);
        }
        marks
    }

    /// The row of a record in a folder.
    fn row_of(&self, source: &StepSource) -> Option<&(usize, Option<StepSource>)> {
        let StepSource::Path { record, .. } = source else { return None };
        let index = record.strip_prefix('[')?.split(']').next()?.parse::<usize>().ok()?;
        self.rows.get(index)
    }

    /// Whether a file is one task with a text below its fields.
    fn has_body(&self, file: usize) -> bool {
        self.files.get(file).is_some_and(|file| file.text.starts_with("---\n"))
    }

    /// Adds the marks of a record.
    fn add_record(&self, marks: &mut Marks, step: usize, file: usize, node: &Node) {
        let Some(source) = self.files.get(file) else { return };
        let usage = &mut marks.usage;
        let mut found: Vec<Mark> = Vec::new();
        let mut add = |inner: Range<usize>, span: Range<usize>, kind: MarkKind| {
            found.push(Mark { file, inner, span, kind, is_part: false });
        };
        if self.format == PlanFormat::TodoTxt {
            let Some(line) = source.line(node.place.line) else { return };
            let length = mark_length(source.slice(line.clone()));
            let mark = line.start..line.start.saturating_add(length);
            usage.has_days |= length > 2;
            add(mark.clone(), mark, MarkKind::Start);
        }
        for (node, is_flag) in status_nodes(node) {
            let Some(at) = source.offset(node.place) else { continue };
            let place = match self.source.cells {
                Some(cells) => cell(&source.text, at, node, cells),
                None => scalar(&source.text, at, node),
            };
            let Some(Found { inner, span, kind }) = place else { continue };
            let word = source_of(node).unwrap_or_default();
            if is_flag {
                let status = MarkKind::Flag.status(word);
                usage.flags.add(word, status);
                let is_cell = kind == MarkKind::Cell;
                add(inner, span, if is_cell { MarkKind::FlagCell } else { MarkKind::Flag });
            } else {
                usage.words.add(word, TaskStatus::parse(word));
                add(inner, span, kind);
            }
        }
        if let Some(marks) = marks.of_steps.get_mut(step) {
            marks.append(&mut found);
        }
    }

    /// Adds the marks in the lines of steps. A line belongs to the innermost step around it.
    fn add_lines(&self, marks: &mut Marks, file: usize, mut steps: Vec<Lines>) {
        let Some(source) = self.files.get(file) else { return };
        steps.sort_by_key(|lines| (lines.first, std::cmp::Reverse(lines.last)));
        let is_org = self.format == PlanFormat::Org;
        let spelled = if is_org { as_markdown(&source.text) } else { None };
        let text = spelled.as_deref().unwrap_or(&source.text);
        let mut places: BTreeMap<u64, Range<usize>> =
            markdown::box_places(text).into_iter().collect();
        // A status in words is in the lines of its step.
        for line in steps.iter().filter_map(|lines| lines.status) {
            places.entry(line).or_insert(0..0);
        }
        let mut rest = steps.iter().peekable();
        let mut open: Vec<&Lines> = Vec::new();
        for (line, place) in places {
            while let Some(next) = rest.next_if(|next| next.first <= line) {
                open.push(next);
            }
            while open.last().is_some_and(|lines| lines.last < line) {
                open.pop();
            }
            let Some(lines) = open.last() else { continue };
            let Some(range) = source.line(line) else { continue };
            let content = source.slice(range.clone());
            let keyword = Some(content).filter(|_| is_org).and_then(keyword_place);
            let (place, kind) = match (&keyword, lines.status == Some(line)) {
                // A heading of org-mode without a keyword has no box in the file.
                (None, _) if is_org && content.starts_with('*') => continue,
                (Some(keyword), _) => (keyword.place.clone(), MarkKind::Word),
                (None, true) => match markdown::status_place(content) {
                    Some(place) => (place, MarkKind::Word),
                    None => continue,
                },
                (None, false) => {
                    let is_box = content.get(..place.start).is_some_and(|it| it.ends_with('['));
                    (place, if is_box { MarkKind::Box } else { MarkKind::Symbol })
                }
            };
            let inner = content.get(place.clone()).unwrap_or_default();
            let status = keyword.map_or_else(|| kind.status(inner), |keyword| keyword.status);
            let usage = &mut marks.usage;
            match kind {
                MarkKind::Box => usage.ticks.add(inner, status),
                MarkKind::Symbol => usage.symbols.add(inner, status),
                _ => usage.words.add(inner, status),
            }
            let start = |at: usize| range.start.saturating_add(at);
            let span = start(place.start)..start(place.end);
            let is_part = line != lines.first && lines.status != Some(line);
            let mark = Mark { file, inner: span.clone(), span, kind, is_part };
            if let Some(marks) = marks.of_steps.get_mut(lines.step) {
                marks.push(mark);
            }
        }
    }
}

/// Whether the path of a record is that of a row.
fn is_row(record: &str) -> bool {
    record
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .is_some_and(|index| index.chars().all(|c| c.is_ascii_digit()))
}

/// The indexes of rows in a list of files, and the files.
pub(super) fn files_of_rows(
    rows: Vec<RowPlace>,
) -> (Vec<std::path::PathBuf>, Vec<(usize, Option<StepSource>)>) {
    let mut files: Vec<std::path::PathBuf> = Vec::new();
    let mut places = Vec::new();
    for RowPlace { file, lines } in rows {
        if files.last() != Some(&file) {
            files.push(file);
        }
        places.push((files.len().saturating_sub(1), lines));
    }
    (files, places)
}
