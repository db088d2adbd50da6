//! Writes the statuses of a run back into the file that its plan was read from.
//!
//! The file is read as always, and the reader's places of the steps lead to their marks: boxes, words, truth values,
//! keywords. A status is written over the mark in the words of the file; everything else stays byte for byte. Then
//! the text is read again: it must be the same plan, and each step must have its status.
//!
//! Invariants:
//! - Only marks change. A step without a mark, or whose form has none for a status, is named and left alone.
//! - A step whose status is already that of the file is not touched.
//! - The content of a file without its marks does not depend on the statuses.

mod mark;
mod native;
mod places;
mod scalar;
mod text;
mod words;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use self::mark::Wanted;
use self::native::{MarksPlace, marks_place};
use self::places::{Marks, ReadPlan, files_of_rows};
use self::text::SourceText;
use crate::diagnostic::{ReadResult, plan_error};
use crate::draft::{StepSource, TaskStatus, ValidPlan};
use crate::native::Marks as NativeMarks;
use crate::plan_file::PlanFile;
use crate::read::{ReadOptions, Texts, file_name, normalized, validated, validated_rows};
use crate::syntax::{normalized_text, read_text};
use plan_ledger::{Error, Result};

/// A plan file or a folder, with the places of its marks.
#[derive(Debug)]
pub struct MarkedFile {
    path: PathBuf,
    options: ReadOptions,
    plan_file: PlanFile,
    files: Vec<SourceText>,
    marks: Marks,
    /// The field with all marks, in a native plan as YAML or JSON.
    field: Option<MarksPlace>,
}

/// Statuses to write.
#[derive(Debug, Clone, Copy)]
pub struct Statuses<'a> {
    /// One for each step of the plan, in order; `None` leaves a step as it is.
    pub of_steps: &'a [Option<TaskStatus>],
    /// The day, as `2026-11-30`, for forms that write when a task was done.
    pub today: Option<&'a str>,
    /// Where the statuses are from, for native plans.
    pub source: &'a str,
}

/// The texts of files with other marks.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Marking {
    /// The files that change.
    pub files: Vec<MarkedText>,
    /// The indexes of the steps whose marks change, in the order of the plan.
    pub marked: Vec<usize>,
    /// The indexes of the steps that have no mark, or no mark for their status.
    pub unmarked: Vec<usize>,
}

/// A file with other marks.
#[derive(Debug, PartialEq, Eq)]
pub struct MarkedText {
    pub path: PathBuf,
    /// Its text as it was read.
    pub before: String,
    /// Its text with the marks.
    pub after: String,
}

impl ReadOptions {
    /// Reads a plan file or a folder, with the places of its marks.
    pub fn read_marked(&self, path: &Path) -> Result<MarkedFile> {
        let at_path = |error| Error::from(error).at_path(path);
        if path.is_dir() {
            let (read, rows) = validated_rows(path, self, &Texts::new())?;
            let (paths, rows) = files_of_rows(rows);
            let file = |path: PathBuf| {
                let raw = read_text(&path, "task file")?;
                Ok(SourceText::new(path, raw))
            };
            let files = paths.into_iter().map(file).collect::<Result<Vec<_>>>()?;
            return Ok(MarkedFile::new(path, self, read.map_err(at_path)?, files, &rows));
        }
        let source = SourceText::new(path.to_owned(), read_text(path, "plan file")?);
        let read = validated(&file_name(path), &source.text, self).map_err(at_path)?;
        Ok(MarkedFile::new(path, self, read, vec![source], &[]))
    }
}

impl MarkedFile {
    fn new(
        path: &Path,
        options: &ReadOptions,
        read: ValidPlan,
        files: Vec<SourceText>,
        rows: &[(usize, Option<StepSource>)],
    ) -> Self {
        let ValidPlan { plan_file, source } = read;
        let read = ReadPlan { format: plan_file.format, source: &source, files: &files, rows };
        let marks = read.marks();
        let field = match (files.as_slice(), source.tree(), source.steps()) {
            ([file], Some(tree), None) => marks_place(file, tree, plan_file.format),
            _ => None,
        };
        let (path, options) = (path.to_owned(), options.clone());
        Self { path, options, plan_file: normalized(plan_file), files, marks, field }
    }

    /// The plan, with the marks of the file.
    #[must_use]
    pub fn plan_file(&self) -> &PlanFile {
        &self.plan_file
    }

    /// The plan, with the marks of the file.
    #[must_use]
    pub fn into_plan_file(self) -> PlanFile {
        self.plan_file
    }

    /// The bytes of the file. Of a folder, for each file with tasks: its name, a zero byte, its length as u64 in little
    /// endian, and its bytes.
    #[must_use]
    pub fn content(&self) -> Vec<u8> {
        self.content_of(|source| source.raw.clone())
    }

    /// The content with one zero byte for each mark, so that it is the same whatever the statuses are.
    #[must_use]
    pub fn unmarked_content(&self) -> Vec<u8> {
        let mut marks: BTreeMap<usize, Vec<Range<usize>>> = BTreeMap::new();
        for mark in self.marks.of_steps.iter().flatten() {
            marks.entry(mark.file).or_default().push(mark.span.clone());
        }
        let mut edits: Vec<Vec<(Range<usize>, String)>> = Vec::new();
        for index in 0..self.files.len() {
            let mut spans = marks.remove(&index).unwrap_or_default();
            spans.extend(self.field.as_ref().map(|field| field.span.clone()));
            spans.sort_by_key(|span| (span.start, span.end));
            spans.dedup();
            edits.push(spans.into_iter().map(|span| (span, "\0".to_owned())).collect());
        }
        let mut edits = edits.into_iter();
        self.content_of(|source| source.with(&edits.next().unwrap_or_default()))
    }

    fn content_of(&self, mut text: impl FnMut(&SourceText) -> String) -> Vec<u8> {
        let mut content = Vec::new();
        for source in &self.files {
            let text = text(source);
            if source.path != self.path {
                let name = source.path.strip_prefix(&self.path).unwrap_or(&source.path);
                content.extend_from_slice(name.to_string_lossy().as_bytes());
                content.push(0);
                let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
                content.extend_from_slice(&length.to_le_bytes());
            }
            content.extend_from_slice(text.as_bytes());
        }
        content
    }

    /// The status of a step in the file, by its index in the plan.
    #[must_use]
    pub fn status(&self, step: usize) -> TaskStatus {
        status_of(&self.plan_file, step)
    }

    /// The text of the files with these statuses.
    ///
    /// # Errors
    /// If the file with the marks would not read as the same plan.
    pub fn with_statuses(&self, statuses: Statuses<'_>) -> Result<Marking> {
        let wanted = statuses.of_steps;
        let is_changed = |(step, status): (usize, &Option<TaskStatus>)| {
            status.filter(|status| *status != self.status(step)).map(|status| (step, status))
        };
        let mut changed: BTreeMap<usize, TaskStatus> =
            wanted.iter().enumerate().filter_map(is_changed).collect();
        let mut marking = Marking::default();
        loop {
            let (files, unmarked) = self.edited(&changed, statuses);
            marking.unmarked.extend(&unmarked);
            changed.retain(|step, _| !unmarked.contains(step));
            let wrong = self.other_statuses(&files, wanted)?;
            let (withdrawn, other): (Vec<usize>, Vec<usize>) =
                wrong.into_iter().partition(|step| changed.contains_key(step));
            if withdrawn.is_empty() {
                marking.unmarked.extend(other);
                marking.unmarked.sort_unstable();
                marking.unmarked.dedup();
                marking.marked = changed.into_keys().collect();
                marking.files = files;
                return Ok(marking);
            }
            // A mark without the effect is not written.
            changed.retain(|step, _| !withdrawn.contains(step));
        }
    }

    /// The files with other marks, and the steps that have none.
    fn edited(
        &self,
        changed: &BTreeMap<usize, TaskStatus>,
        statuses: Statuses<'_>,
    ) -> (Vec<MarkedText>, Vec<usize>) {
        let mut edits: BTreeMap<usize, Vec<(Range<usize>, String)>> = BTreeMap::new();
        let mut unmarked = Vec::new();
        if let Some(field) = self.field.as_ref().filter(|_| !changed.is_empty()) {
            let marks = self.native_marks(changed, statuses.source);
            edits.entry(0).or_default().push((field.span.clone(), field.text(&marks)));
        }
        for (step, status) in changed.iter().filter(|_| self.field.is_none()) {
            let (format, today) = (self.plan_file.format, statuses.today);
            let wanted = Wanted { status: *status, format, today };
            match self.edits_of(*step, wanted) {
                Some(all) => {
                    for (file, range, text) in all {
                        edits.entry(file).or_default().push((range, text));
                    }
                }
                None => unmarked.push(*step),
            }
        }
        let text = |(file, mut edits): (usize, Vec<(Range<usize>, String)>)| {
            let source = self.files.get(file)?;
            edits.sort_by_key(|(range, _)| (range.start, range.end));
            edits.dedup();
            let (before, after) = (source.raw.clone(), source.with(&edits));
            (before != after).then(|| MarkedText { path: source.path.clone(), before, after })
        };
        (edits.into_iter().filter_map(text).collect(), unmarked)
    }

    /// The marks of a native plan with other statuses.
    fn native_marks(&self, changed: &BTreeMap<usize, TaskStatus>, source: &str) -> NativeMarks {
        let mut marks = NativeMarks::of(&self.plan_file);
        for (step, status) in changed {
            let Some(step) = self.plan_file.plan.steps.get(*step) else { continue };
            for list in [&mut marks.done, &mut marks.skipped, &mut marks.statuses] {
                list.remove(&step.id);
            }
            let list = match status {
                TaskStatus::Done => &mut marks.done,
                TaskStatus::Dropped => &mut marks.skipped,
                TaskStatus::Open => continue,
            };
            list.insert(step.id.clone(), source.to_owned());
        }
        marks
    }

    /// The edits of a step; `None` if it has no mark for a status.
    fn edits_of(
        &self,
        step: usize,
        wanted: Wanted<'_>,
    ) -> Option<Vec<(usize, Range<usize>, String)>> {
        let marks = self.marks.of_steps.get(step).filter(|marks| !marks.is_empty())?;
        let mut edits = Vec::new();
        for mark in marks {
            let source = self.files.get(mark.file)?;
            if mark.is_part {
                let is_done =
                    mark.kind.status(source.slice(mark.inner.clone())) == TaskStatus::Done;
                if wanted.status == TaskStatus::Dropped
                    || is_done == (wanted.status == TaskStatus::Done)
                {
                    continue;
                }
            }
            let text = mark.text(&source.text, &self.marks.usage, wanted);
            match text {
                Some(text) => edits.push((mark.file, mark.span.clone(), text)),
                None if mark.is_part => {}
                None => return None,
            }
        }
        (!edits.is_empty()).then_some(edits)
    }

    /// The steps that have other statuses in these texts than they should.
    fn other_statuses(
        &self,
        files: &[MarkedText],
        wanted: &[Option<TaskStatus>],
    ) -> Result<Vec<usize>> {
        if files.is_empty() {
            return Ok(self.steps_with_other_statuses(&self.plan_file, wanted));
        }
        let read =
            self.read_again(files)?.map_err(|error| Error::from(error).at_path(&self.path))?;
        let again = normalized(read.plan_file);
        if again.plan != self.plan_file.plan {
            let message =
                "the plan would read differently with the marks; the file is left as it is";
            return Err(plan_error(message).at_path(&self.path));
        }
        Ok(self.steps_with_other_statuses(&again, wanted))
    }

    fn steps_with_other_statuses(
        &self,
        read: &PlanFile,
        wanted: &[Option<TaskStatus>],
    ) -> Vec<usize> {
        let is_other = |(step, status): (usize, &Option<TaskStatus>)| {
            let status = status.unwrap_or_else(|| self.status(step));
            (status_of(read, step) != status).then_some(step)
        };
        wanted.iter().enumerate().filter_map(is_other).collect()
    }

    fn read_again(&self, files: &[MarkedText]) -> Result<ReadResult<ValidPlan>> {
        if self.path.is_dir() {
            let text = |it: &MarkedText| (it.path.clone(), normalized_text(&it.after).into_owned());
            let mut texts: Texts = files.iter().map(text).collect();
            for source in &self.files {
                texts.entry(source.path.clone()).or_insert_with(|| source.text.clone());
            }
            return Ok(validated_rows(&self.path, &self.options, &texts)?.0);
        }
        let text = files.first().map_or_else(
            || self.files.first().map(|source| source.text.clone()).unwrap_or_default(),
            |file| normalized_text(&file.after).into_owned(),
        );
        Ok(validated(&file_name(&self.path), &text, &self.options))
    }
}

/// The status of a step in a plan file.
fn status_of(plan_file: &PlanFile, step: usize) -> TaskStatus {
    let Some(step) = plan_file.plan.steps.get(step) else { return TaskStatus::Open };
    if plan_file.done.contains_key(&step.id) {
        TaskStatus::Done
    } else if plan_file.skipped.contains_key(&step.id) {
        TaskStatus::Dropped
    } else {
        TaskStatus::Open
    }
}
