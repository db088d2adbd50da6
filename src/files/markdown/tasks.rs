//! Selects the parts of a Markdown text that are tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::document::{Document, Item, Section};
use super::labels::{Label, LabelledText, is_acceptance_title, read_labels};
use super::list_markers::{Checkbox, strip_checkbox, strip_marker};
use super::task_ids::{IdStyle, split_head};

/// The tasks of a text.
pub(super) struct TaskSelection {
    pub(super) tasks: Vec<Task>,
    pub(super) id_style: IdStyle,
    /// Checkboxes that are not tasks, by section: the line of the first one, and their number.
    pub(super) other_checkboxes: BTreeMap<usize, (u64, u64)>,
}

/// A task of the text.
pub(super) struct Task {
    /// The written id; tasks without one get it later.
    pub(super) id: Option<String>,
    pub(super) line: u64,
    pub(super) checkbox: Option<Checkbox>,
    /// The text without id and tags.
    pub(super) text: String,
    pub(super) tags: Vec<String>,
    /// The index of the section around it.
    pub(super) section: usize,
    pub(super) range: Range<usize>,
    pub(super) labelled: LabelledText,
    /// The checkboxes inside that are not tasks.
    pub(super) criteria: Vec<String>,
    pub(super) subtasks: Vec<Task>,
}

/// Titles of sections whose items are never tasks.
const NON_TASK_TITLES: &[&str] = &[
    "risks",
    "risks and mitigations",
    "open questions",
    "questions",
    "next action",
    "next actions",
    "next step",
    "next steps",
    "non-goals",
    "out of scope",
    "references",
    "notes",
    "assumptions",
    "goals",
    "context",
    "background",
];

/// Titles of sections whose items are tasks if the text has no clearer ones.
const TASK_TITLES: &[&str] = &[
    "steps",
    "tasks",
    "phases",
    "plan",
    "todo",
    "to do",
    "to-do",
    "implementation",
    "implementation plan",
    "implementation steps",
    "action items",
    "work items",
    "milestones",
];

/// The title of a section for comparison: lower case, without number and punctuation.
pub(super) fn normalized_title(title: &str) -> String {
    let title = title.trim_matches(|c: char| c == '*' || c == '_' || c == ':' || c == ' ');
    let title = title.trim_start_matches(|c: char| c.is_ascii_digit() || ".) ".contains(c));
    title.to_lowercase()
}

/// Whether a title announces tasks, as `Steps` does.
pub(super) fn is_tasks_title(title: &str) -> bool {
    TASK_TITLES.contains(&normalized_title(title).as_str())
}

/// Selects the tasks of a text, if there are any.
pub(super) fn select_tasks(document: &Document<'_>) -> Option<TaskSelection> {
    let selector = TaskSelector::new(document);
    selector.checkboxes().or_else(|| selector.headings()).or_else(|| selector.items())
}

struct TaskSelector<'a> {
    document: &'a Document<'a>,
    id_style: IdStyle,
    /// The labelled fields of each section.
    labelled: Vec<LabelledText>,
}

impl<'a> TaskSelector<'a> {
    fn new(document: &'a Document<'a>) -> Self {
        let labels_of =
            |section: &Section| read_labels(document.lines_of(section.body..section.range.end));
        let labelled = document.sections.iter().map(labels_of).collect();
        let mut selector = Self { document, id_style: IdStyle::None, labelled };
        selector.id_style = selector.checkbox_id_style();
        selector
    }

    /// The style of the ids after checkboxes.
    fn checkbox_id_style(&self) -> IdStyle {
        let (mut all, mut with_id) = (0_usize, 0_usize);
        let mut rest: Vec<(usize, &Item)> = Vec::new();
        for (index, section) in self.document.sections.iter().enumerate() {
            rest.extend(section.items.iter().map(|item| (index, item)));
        }
        while let Some((section, item)) = rest.pop() {
            rest.extend(item.items.iter().map(|item| (section, item)));
            if item.checkbox.is_none() {
                continue;
            }
            if split_head(&item.head, IdStyle::SpecKit).id.is_some() {
                return IdStyle::SpecKit;
            }
            let has_id = split_head(&item.head, IdStyle::Any).id.is_some();
            if has_id || !self.is_checklist(section) {
                all = all.saturating_add(1);
                with_id = with_id.saturating_add(usize::from(has_id));
            }
        }
        let is_usual = with_id >= 2 && with_id.saturating_mul(3) >= all;
        if with_id > 0 && (is_usual || with_id == all) { IdStyle::Any } else { IdStyle::None }
    }

    /// Whether a section, or one around it, has criteria instead of tasks.
    fn is_checklist(&self, section: usize) -> bool {
        self.titles(section).any(|title| is_acceptance_title(&title) || title.contains("checklist"))
    }

    /// The titles of a section and of those around it.
    fn titles(&self, section: usize) -> impl Iterator<Item = String> {
        let sections = self.document.ancestors(section).into_iter();
        sections.filter_map(|at| Some(normalized_title(&self.document.sections.get(at)?.title)))
    }

    /// Selects checkboxes.
    fn checkboxes(&self) -> Option<TaskSelection> {
        let mut selection = self.empty_selection();
        for (index, section) in self.document.sections.iter().enumerate() {
            let is_criterion = |item: &Item| {
                let is_labelled = self
                    .labelled
                    .get(index)
                    .is_some_and(|labelled| labelled.label_at(item.line).is_some());
                self.id_style == IdStyle::None && (is_labelled || self.is_checklist(index))
            };
            let (criteria, items): (Vec<&Item>, Vec<&Item>) =
                section.items.iter().partition(|item| is_criterion(item));
            let criteria = criteria.iter().filter(|item| item.checkbox.is_some());
            let mut other_lines: Vec<u64> = criteria.map(|item| item.line).collect();
            for item in items {
                self.collect(item, index, &mut selection.tasks, &mut other_lines);
            }
            if let Some(first) = other_lines.iter().min() {
                let count = u64::try_from(other_lines.len()).unwrap_or(u64::MAX);
                selection.other_checkboxes.insert(index, (*first, count));
            }
        }
        (!selection.tasks.is_empty()).then_some(selection)
    }

    fn empty_selection(&self) -> TaskSelection {
        TaskSelection {
            tasks: Vec::new(),
            id_style: self.id_style,
            other_checkboxes: BTreeMap::new(),
        }
    }

    /// Collects the checkboxes of an item: the item itself, or those inside.
    fn collect(
        &self,
        item: &Item,
        section: usize,
        tasks: &mut Vec<Task>,
        other_lines: &mut Vec<u64>,
    ) {
        let has_id =
            self.id_style == IdStyle::None || split_head(&item.head, self.id_style).id.is_some();
        if item.checkbox.is_some() && has_id {
            tasks.push(self.task(item, section));
        } else if item.checkbox.is_some() {
            other_lines.push(item.line);
        } else {
            for item in &item.items {
                self.collect(item, section, tasks, other_lines);
            }
        }
    }

    /// Makes a task of an item, with its subtasks.
    fn task(&self, item: &Item, section: usize) -> Task {
        let document = self.document;
        let lines = || document.lines_of(item.body.clone());
        let whole = read_labels(lines());
        let mut taken = BTreeSet::new();
        let (mut subtasks, mut criteria) = (Vec::new(), Vec::new());
        let mut rest: Vec<&Item> = item.items.iter().rev().collect();
        while let Some(inner) = rest.pop() {
            if whole.label_at(inner.line).is_some() {
                continue;
            }
            let has_id = self.id_style == IdStyle::None
                || split_head(&inner.head, self.id_style).id.is_some();
            if inner.checkbox.is_none() {
                rest.extend(inner.items.iter().rev());
                continue;
            }
            let last = document.line(inner.range.end.saturating_sub(1));
            taken.extend(inner.line..=last);
            if has_id && item.checkbox.is_some() {
                subtasks.push(self.task(inner, section));
            } else {
                let text = document.slice(inner.range.clone());
                let text = strip_checkbox(strip_marker(text)).1;
                criteria.push(text.trim().to_owned());
            }
        }
        let head = split_head(&item.head, self.id_style);
        Task {
            id: head.id,
            line: item.line,
            checkbox: item.checkbox,
            text: head.text.to_owned(),
            tags: head.tags.iter().map(|tag| (*tag).to_owned()).collect(),
            section,
            range: item.range.clone(),
            labelled: if taken.is_empty() {
                whole
            } else {
                read_labels(lines().filter(|(line, _)| !taken.contains(line)))
            },
            criteria,
            subtasks,
        }
    }

    /// Makes a task of an item without a checkbox.
    fn numbered_task(&self, item: &Item, section: usize) -> Task {
        let task = self.task(item, section);
        Task { id: item.number.map(|number| number.to_string()), ..task }
    }

    /// Selects headings: `Step 1: text`, or all headings below `Steps`.
    fn headings(&self) -> Option<TaskSelection> {
        let sections = &self.document.sections;
        let is_below_tasks = |section: &Section| {
            let parent = section.parent.and_then(|at| sections.get(at));
            parent.is_some_and(|parent| is_tasks_title(&parent.title))
        };
        let mut levels: BTreeMap<u8, (bool, usize)> = BTreeMap::new();
        for section in sections.iter().filter(|section| section.level > 0) {
            let step = StepTitle::parse(&section.title);
            if step.is_some() || is_below_tasks(section) {
                let level = levels.entry(section.level).or_default();
                level.0 |= step.is_some_and(|step| step.is_step) || is_below_tasks(section);
                level.1 = level.1.saturating_add(1);
            }
        }
        let (level, (is_sure, count)) = levels.into_iter().max_by_key(|(_, count)| *count)?;
        if !is_sure && count < 2 {
            return None;
        }
        let is_step = |section: &Section| {
            section.level == level
                && (StepTitle::parse(&section.title).is_some() || is_below_tasks(section))
        };
        let steps: Vec<usize> =
            (0..).zip(sections).filter(|(_, each)| is_step(each)).map(|(at, _)| at).collect();
        // Of phases or numbered chapters with lists, the items are the tasks.
        let has_items = |at: &usize| sections.get(*at).is_some_and(|each| !each.items.is_empty());
        if !is_sure && steps.iter().any(has_items) && !steps.iter().any(|at| self.has_labels(*at)) {
            let mut selection = self.empty_selection();
            for at in steps {
                let items = sections.get(at).map(|each| each.items.as_slice()).unwrap_or_default();
                selection.tasks.extend(items.iter().map(|item| self.numbered_task(item, at)));
            }
            return Some(with_ids(selection));
        }
        let tasks = steps.into_iter().filter_map(|at| self.section_task(at)).collect();
        Some(TaskSelection { tasks, id_style: IdStyle::Any, other_checkboxes: BTreeMap::new() })
    }

    fn has_labels(&self, section: usize) -> bool {
        let labels = [Label::Tools, Label::Changes, Label::Acceptance, Label::After];
        let labelled = self.labelled.get(section);
        labelled
            .is_some_and(|labelled| labels.iter().any(|label| !labelled.values(*label).is_empty()))
    }

    /// Makes a task of a section with its subsections.
    fn section_task(&self, at: usize) -> Option<Task> {
        let section = self.document.sections.get(at)?;
        let end = self.document.subtree_end(at);
        let (checkbox, title) = strip_checkbox(&section.title);
        let step = StepTitle::parse(title);
        let text = step.as_ref().map_or(title, |step| step.text);
        Some(Task {
            id: step.as_ref().map(|step| step.number.to_owned()),
            line: section.line,
            checkbox,
            text: if text.is_empty() { title.to_owned() } else { text.to_owned() },
            tags: Vec::new(),
            section: section.parent.unwrap_or(0),
            range: section.range.start..end,
            labelled: read_labels(self.document.lines_of(section.body..end)),
            criteria: Vec::new(),
            subtasks: Vec::new(),
        })
    }

    /// Selects numbered items, or else all items below a heading such as `Tasks`.
    fn items(&self) -> Option<TaskSelection> {
        let sections = (0..).zip(&self.document.sections);
        let sections: Vec<(usize, &Section)> = sections
            .filter(|(at, _)| {
                !self.is_checklist(*at)
                    && !self.titles(*at).any(|title| NON_TASK_TITLES.contains(&title.as_str()))
            })
            .collect();
        let is_titled =
            |at: usize| self.titles(at).any(|title| TASK_TITLES.contains(&title.as_str()));
        let is_numbered = |item: &&Item| item.number.is_some();
        let select = |is_wanted: &dyn Fn(usize, &Item) -> bool| {
            let mut selection = self.empty_selection();
            for (at, section) in &sections {
                let items = section.items.iter().filter(|item| is_wanted(*at, item));
                selection.tasks.extend(items.map(|item| self.numbered_task(item, *at)));
            }
            (!selection.tasks.is_empty()).then(|| with_ids(selection))
        };
        select(&|at, item| is_titled(at) && is_numbered(&item))
            .or_else(|| select(&|_, item| is_numbered(&item)))
            .or_else(|| select(&|at, _| is_titled(at)))
    }
}

/// Sets the ids of items without checkboxes: those in the text if all items have one, or else the
/// numbers of the items if they are unique.
fn with_ids(mut selection: TaskSelection) -> TaskSelection {
    let written: Option<Vec<(String, String)>> = selection
        .tasks
        .iter()
        .map(|task| {
            let head = split_head(&task.text, IdStyle::Any);
            Some((head.id?, head.text.to_owned()))
        })
        .collect();
    if let Some(written) = written {
        for (task, (id, text)) in selection.tasks.iter_mut().zip(written) {
            (task.id, task.text) = (Some(id), text);
        }
    }
    let ids: BTreeSet<&String> =
        selection.tasks.iter().filter_map(|task| task.id.as_ref()).collect();
    if ids.len() < selection.tasks.len() {
        selection.tasks.iter_mut().for_each(|task| task.id = None);
    }
    selection.id_style = IdStyle::Any;
    selection
}

/// The title of a step, such as `Step 1: text` or `1. text`.
struct StepTitle<'a> {
    number: &'a str,
    text: &'a str,
    /// Whether the title has the word step or task, and not, for example, phase.
    is_step: bool,
}

impl<'a> StepTitle<'a> {
    fn parse(title: &'a str) -> Option<Self> {
        let title = strip_checkbox(title).1.trim_matches('*');
        let word = title.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        let rest = title.get(word.len()..)?.trim_start();
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'));
        let (number, after) = rest.split_at(end.unwrap_or(rest.len()));
        let id = number.trim_matches('.');
        let is_marked = id.len() < number.len()
            || after.trim_start().starts_with([':', ')', '-', '\u{2013}', '\u{2014}'])
            || (after.is_empty() && !word.is_empty());
        if id.is_empty() || !is_marked {
            return None;
        }
        let text = after.trim_start_matches([':', ')', '-', '\u{2013}', '\u{2014}', ' ']);
        let is_step = ["step", "task"].contains(&word.to_lowercase().as_str());
        Some(Self { number: id, text: text.trim(), is_step })
    }
}
