//! Selects the parts of a Markdown text that are tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::labels::{
    Label, LabelledText, is_acceptance_title, is_criteria_title, is_label_title, read_labels,
};
use super::list_markers::{Checkbox, strip_checkbox, strip_marker};
use super::outline::{Item, Outline, Section};
use super::task_ids::{IdStyle, StepTitle, leading_name, says_done, split_head};

/// The tasks of a text.
pub(super) struct TaskSelection {
    pub(super) tasks: Vec<Task>,
    pub(super) id_style: IdStyle,
    /// Checkboxes that are not tasks, by section: the line of the first one, and their number.
    pub(super) other_checkboxes: BTreeMap<usize, (u64, usize)>,
    /// The titles of phases that are items of a list.
    pub(super) item_phases: Vec<String>,
}

/// A task of the text.
pub(super) struct Task {
    /// The written id; tasks without one get it later.
    pub(super) id: Option<String>,
    /// The id in the text, once `id` is final.
    pub(super) written: Option<String>,
    pub(super) line: u64,
    pub(super) checkbox: Option<Checkbox>,
    pub(super) is_optional: bool,
    /// The text without id and tags.
    pub(super) text: String,
    pub(super) tags: Vec<String>,
    /// The index of the section around it.
    pub(super) section: usize,
    pub(super) range: Range<usize>,
    pub(super) labelled: LabelledText,
    /// The checkboxes inside that are not tasks.
    pub(super) criteria: Vec<(Checkbox, String)>,
    pub(super) subtasks: Vec<Task>,
    /// The index of its phase, if the phases are items of a list.
    pub(super) item_phase: Option<usize>,
}

impl Task {
    /// Whether the task is ticked, or has parts or criteria that all are.
    pub(super) fn is_done(&self) -> bool {
        if self.checkbox == Some(Checkbox::Done) {
            return true;
        }
        if matches!(self.checkbox, Some(Checkbox::Other(_))) {
            return false;
        }
        let labelled = self.labelled.values(Label::Acceptance).iter().map(|it| it.checkbox);
        let criteria = self.criteria.iter().map(|(checkbox, _)| Some(*checkbox));
        let boxes: Vec<Checkbox> = criteria.chain(labelled).flatten().collect();
        let is_any = !boxes.is_empty() || !self.subtasks.is_empty();
        is_any
            && boxes.iter().all(|checkbox| *checkbox == Checkbox::Done)
            && self.subtasks.iter().all(Self::is_done)
    }
}

/// Titles of sections without tasks.
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

/// Titles of sections with tasks, if no other title is clearer.
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
    "implementation tasks",
    "implementation order",
    "implementation units",
    "units of work",
    "work breakdown",
    "task breakdown",
    "task list",
    "execution order",
    "execution plan",
    "execution steps",
    "plan of action",
    "action items",
    "work items",
    "milestones",
    "roadmap",
];

/// Titles of sections that only show what other sections have, or what marks mean.
const OVERVIEW_TITLES: &[&str] = &[
    "epic list",
    "list of epics",
    "epics overview",
    "overview of epics",
    "story list",
    "phase overview",
    "table of contents",
    "contents",
    "requirements inventory",
    "legend",
    "key",
    "status legend",
    "status key",
    "notation",
];

/// Sections of a plan that do not contain tasks, whatever their items look like.
const FIELD_TITLES: &[&str] = &[
    "summary",
    "overview",
    "files to modify",
    "files to change",
    "files to create",
    "new files to create",
    "new files",
    "dependency changes",
    "dependencies",
    "risks and assumptions",
    "risks / open questions",
];

/// The title of a section for comparison: lower case, without number and punctuation.
pub(super) fn normalized_title(title: &str) -> String {
    let title = title.trim_matches(|c: char| c == '*' || c == '_' || c == ':' || c == ' ');
    let title = title.trim_start_matches(|c: char| c.is_ascii_digit() || ".) ".contains(c));
    title.to_lowercase()
}

/// Whether a number is inside another one: `1.1` in `1`.
fn is_part(around: Option<&str>, id: Option<&str>) -> bool {
    let (Some(around), Some(id)) = (around, id) else { return false };
    let is_number = !around.is_empty() && around.chars().all(|c| c.is_ascii_digit() || c == '.');
    let rest = id.strip_prefix(around).and_then(|rest| rest.strip_prefix('.'));
    is_number && rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The lines of the boxes of an item and of those inside.
fn box_lines(item: &Item) -> Vec<u64> {
    let own = item.checkbox.map(|_| item.line);
    own.into_iter().chain(item.items.iter().flat_map(box_lines)).collect()
}

/// Whether a box of a section begins with an id.
fn has_ids(section: &Section) -> bool {
    section.items.iter().any(|item| split_head(&item.head, IdStyle::Any).id.is_some())
}

/// The words of a title for comparison, with its number.
fn normalized_words(title: &str) -> String {
    let words = title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Whether a title announces tasks, as `Steps` does.
pub(super) fn is_tasks_title(title: &str) -> bool {
    TASK_TITLES.contains(&normalized_title(title).as_str())
}

/// Selects the tasks of a text, if there are any. `is_prose_allowed`: numbered items anywhere are
/// tasks.
pub(super) fn select_tasks(
    outline: &Outline<'_>,
    is_prose_allowed: bool,
) -> Option<TaskSelection> {
    let selector = TaskSelector::new(outline);
    let (boxed, sure) = (selector.boxed_headings(), selector.headings(Certainty::Sure));
    let count = |selection: &Option<TaskSelection>| {
        selection.as_ref().map_or(0, |selection| selection.tasks.len())
    };
    // Headings with boxes are the tasks, with what is below them, unless other headings outside of them surely are steps.
    let ranges = || boxed.iter().flat_map(|boxed| &boxed.tasks).map(|task| &task.range);
    let is_boxed = |task: &Task| ranges().any(|range| range.contains(&task.range.start));
    let is_outside = sure.iter().flat_map(|sure| &sure.tasks).any(|task| !is_boxed(task));
    if count(&boxed) >= 2 && (!is_outside || count(&boxed) >= count(&sure)) {
        return boxed;
    }
    let (checkboxes, phases) = (selector.checkboxes(), selector.phase_items());
    if phases.is_some() && count(&phases) >= count(&checkboxes) {
        return phases;
    }
    checkboxes
        .or(phases)
        .or(sure)
        .or_else(|| selector.titled_numbers())
        .or_else(|| selector.headings(Certainty::Unsure))
        .or_else(|| selector.items(is_prose_allowed))
        .or(boxed)
}

/// Whether headings surely are steps, or only may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Certainty {
    Sure,
    Unsure,
}

struct TaskSelector<'a> {
    outline: &'a Outline<'a>,
    id_style: IdStyle,
    /// The labelled fields of each section.
    labelled: Vec<LabelledText>,
}

impl<'a> TaskSelector<'a> {
    fn new(outline: &'a Outline<'a>) -> Self {
        let labels_of =
            |section: &Section| read_labels(outline.lines_of(section.body..section.range.end));
        let labelled = outline.sections.iter().map(labels_of).collect();
        let mut selector = Self { outline, id_style: IdStyle::None, labelled };
        selector.id_style = match selector.checkbox_id_style() {
            IdStyle::SpecKit => IdStyle::SpecKit,
            _ if selector.has_names() => IdStyle::Named,
            style => style,
        };
        selector
    }

    /// Whether every checkbox that is not inside another one begins with a unique name.
    fn has_names(&self) -> bool {
        let mut names = BTreeSet::new();
        let mut rest: Vec<&Item> =
            self.outline.sections.iter().flat_map(|section| &section.items).collect();
        while let Some(item) = rest.pop() {
            if item.checkbox.is_none() {
                rest.extend(&item.items);
                continue;
            }
            match leading_name(&item.head) {
                Some((name, _)) if names.insert(name) => {}
                _ => return false,
            }
        }
        !names.is_empty()
    }

    /// The style of the ids after checkboxes.
    fn checkbox_id_style(&self) -> IdStyle {
        let (mut all, mut with_id) = (0_usize, 0_usize);
        let mut rest: Vec<(usize, &Item)> = Vec::new();
        for (index, section) in self.outline.sections.iter().enumerate() {
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

    /// Whether a section, or one around it, has criteria instead of tasks. Tests and validation are
    /// criteria inside of a step; elsewhere they are work.
    fn is_checklist(&self, section: usize) -> bool {
        let is_checklist = |title: &str| is_criteria_title(title) || title.contains("checklist");
        self.titles(section).any(|title| is_checklist(&title))
            || (self.titles(section).any(|title| is_acceptance_title(&title))
                && self.is_in_step(section))
    }

    /// Whether a section is below the heading of a step.
    fn is_in_step(&self, section: usize) -> bool {
        let above = self.outline.ancestors(section);
        let titles = above.iter().filter_map(|at| self.outline.sections.get(*at));
        titles
            .into_iter()
            .any(|section| StepTitle::parse(&section.title).is_some_and(|step| step.is_step))
    }

    /// The titles of a section and of those around it.
    fn titles(&self, section: usize) -> impl Iterator<Item = String> {
        let sections = self.outline.ancestors(section).into_iter();
        sections.filter_map(|at| Some(normalized_title(&self.outline.sections.get(at)?.title)))
    }

    /// Selects checkboxes.
    fn checkboxes(&self) -> Option<TaskSelection> {
        let mut selection = self.empty_selection();
        let overviews = self.overviews();
        for (index, section) in self.outline.sections.iter().enumerate() {
            let is_legend = overviews.contains(&index) && !has_ids(section);
            let is_criterion = |item: &Item| {
                let is_labelled = self
                    .labelled
                    .get(index)
                    .is_some_and(|labelled| labelled.label_at(item.line).is_some());
                is_legend
                    || self.id_style == IdStyle::None && (is_labelled || self.is_checklist(index))
            };
            let (criteria, items): (Vec<&Item>, Vec<&Item>) =
                section.items.iter().partition(|item| is_criterion(item));
            let mut other_lines: Vec<u64> =
                criteria.iter().flat_map(|item| box_lines(item)).collect();
            for item in items {
                self.collect(item, index, &mut selection.tasks, &mut other_lines);
            }
            if let Some(first) = other_lines.iter().min() {
                selection.other_checkboxes.insert(index, (*first, other_lines.len()));
            }
        }
        selection.tasks = self.nested_by_number(selection.tasks);
        (!selection.tasks.is_empty()).then_some(selection)
    }

    /// Puts tasks into those whose numbers say so, although they are not indented: `1.1` into `1.`
    fn nested_by_number(&self, tasks: Vec<Task>) -> Vec<Task> {
        fn put(tasks: &mut Vec<Task>, task: Task) {
            if let Some(last) = tasks.last_mut()
                && last.section == task.section
                && is_part(last.id.as_deref(), task.id.as_deref())
            {
                last.range.end = last.range.end.max(task.range.end);
                put(&mut last.subtasks, task);
            } else {
                tasks.push(task);
            }
        }
        if self.id_style != IdStyle::Any {
            return tasks;
        }
        let mut nested = Vec::new();
        for task in tasks {
            put(&mut nested, task);
        }
        nested
    }

    fn empty_selection(&self) -> TaskSelection {
        TaskSelection {
            tasks: Vec::new(),
            id_style: self.id_style,
            other_checkboxes: BTreeMap::new(),
            item_phases: Vec::new(),
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
        // Among numbered tasks, a box without a number is still a task; in spec-kit it is not.
        let is_task = has_id || (self.id_style == IdStyle::Any && !self.is_checklist(section));
        if item.checkbox.is_some() && is_task {
            tasks.push(self.task(item, section));
        } else {
            other_lines.extend(item.checkbox.map(|_| item.line));
            for item in &item.items {
                self.collect(item, section, tasks, other_lines);
            }
        }
    }

    /// Makes a task of an item, with its subtasks.
    fn task(&self, item: &Item, section: usize) -> Task {
        let outline = self.outline;
        let lines = || outline.lines_of(item.body.clone());
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
            let last = outline.line(inner.range.end.saturating_sub(1));
            taken.extend(inner.line..=last);
            if has_id && item.checkbox.is_some() {
                subtasks.push(self.task(inner, section));
            } else {
                let text = outline.slice(inner.range.clone());
                let text = strip_checkbox(strip_marker(text)).1;
                let checkbox = inner.checkbox.unwrap_or(Checkbox::Open);
                criteria.push((checkbox, text.trim().to_owned()));
            }
        }
        let head = split_head(&item.head, self.id_style);
        let tags = head.tags.iter().map(|tag| (*tag).to_owned()).collect();
        Task {
            id: head.id,
            written: None,
            line: item.line,
            checkbox: item.checkbox,
            is_optional: item.is_optional,
            text: head.text,
            tags,
            section,
            range: item.range.clone(),
            labelled: if taken.is_empty() {
                whole
            } else {
                read_labels(lines().filter(|line| !taken.contains(&line.number)))
            },
            criteria,
            subtasks,
            item_phase: None,
        }
    }

    /// Makes a task of an item without a checkbox.
    fn numbered_task(&self, item: &Item, section: usize) -> Task {
        let task = self.task(item, section);
        Task { id: item.number.map(|number| number.to_string()), ..task }
    }

    /// Selects headings with checkboxes. Checkboxes and headings below one are its subtasks.
    fn boxed_headings(&self) -> Option<TaskSelection> {
        let mut selection = self.empty_selection();
        let sections = &self.outline.sections;
        let checkbox = |at: usize| {
            let section = sections.get(at).filter(|section| section.level > 0);
            section.and_then(|section| strip_checkbox(&section.title).0)
        };
        for at in (0..sections.len()).filter(|at| checkbox(*at).is_some()) {
            let above = self.outline.ancestors(at);
            let mut outer = above.iter().take(above.len().saturating_sub(1));
            if !outer.any(|above| checkbox(*above).is_some()) {
                selection.tasks.extend(self.boxed_task(at));
            }
        }
        (!selection.tasks.is_empty()).then_some(selection)
    }

    fn boxed_task(&self, at: usize) -> Option<Task> {
        let mut task = self.section_task(at)?;
        let sections = &self.outline.sections;
        let mut taken: Vec<Range<usize>> = Vec::new();
        let mut inner = at;
        let mut other_lines = Vec::new();
        while let Some(section) = sections.get(inner).filter(|it| it.range.start < task.range.end) {
            let is_boxed = inner > at && strip_checkbox(&section.title).0.is_some();
            if is_boxed {
                let subtask = self.boxed_task(inner)?;
                let end = subtask.range.end;
                taken.push(subtask.range.clone());
                task.subtasks.push(subtask);
                while sections.get(inner).is_some_and(|section| section.range.start < end) {
                    inner = inner.saturating_add(1);
                }
                continue;
            }
            for item in section.items.iter().filter(|_| !self.is_checklist(inner)) {
                let before = task.subtasks.len();
                self.collect(item, inner, &mut task.subtasks, &mut other_lines);
                if task.subtasks.len() > before {
                    taken.push(item.range.clone());
                }
            }
            inner = inner.saturating_add(1);
        }
        let lines = self.outline.lines_of(sections.get(at)?.body..task.range.end);
        let first = |range: &Range<usize>| self.outline.line(range.start);
        let last = |range: &Range<usize>| self.outline.line(range.end.saturating_sub(1));
        let spans: Vec<(u64, u64)> = taken.iter().map(|it| (first(it), last(it))).collect();
        let is_free =
            |line: u64| !spans.iter().any(|(first, last)| (*first..=*last).contains(&line));
        task.labelled = read_labels(lines.filter(|line| is_free(line.number)));
        Some(task)
    }

    /// Selects the actions of phases that are numbered items: `1. **Phase 1: name**`, each with a
    /// list of actions.
    fn phase_items(&self) -> Option<TaskSelection> {
        let mut selection = self.empty_selection();
        for (at, section) in self.outline.sections.iter().enumerate() {
            let is_phase = |item: &Item| {
                item.number.is_some()
                    && StepTitle::parse(phase_title(&item.head).0)
                        .is_some_and(|title| title.is_phase)
            };
            if !section.items.iter().any(|item| is_phase(item) && !item.items.is_empty()) {
                continue;
            }
            for item in section.items.iter().filter(|item| is_phase(item)) {
                let phase = selection.item_phases.len();
                let (title, _) = phase_title(&item.head);
                let name = StepTitle::parse(title).map_or_else(|| title.to_owned(), |it| it.text);
                let rest = item.head.replacen(title, &name, 1).replace("**", "");
                selection.item_phases.push(rest.trim().to_owned());
                let actions: Vec<&Item> = item.items.iter().collect();
                let mut tasks: Vec<Task> =
                    actions.iter().map(|action| self.task(action, at)).collect();
                if tasks.is_empty() {
                    tasks.push(Task { id: None, ..self.task(item, at) });
                }
                if let Some(first) = tasks.first_mut() {
                    // The text of the phase is taken with its first action.
                    first.range = item.range.clone();
                }
                selection
                    .tasks
                    .extend(tasks.into_iter().map(|task| Task { item_phase: Some(phase), ..task }));
            }
        }
        (!selection.tasks.is_empty()).then_some(selection)
    }

    /// Selects headings: `Step 1: text`, or all headings below `Steps`.
    fn headings(&self, certainty: Certainty) -> Option<TaskSelection> {
        let sections = &self.outline.sections;
        let is_below_tasks = |section: &Section| {
            let parent = section.parent.and_then(|at| sections.get(at));
            parent.is_some_and(|parent| is_tasks_title(&parent.title))
        };
        let overviews = self.overviews();
        let is_field = |at: usize, section: &Section| {
            let title = normalized_title(&section.title);
            FIELD_TITLES.contains(&title.as_str())
                || NON_TASK_TITLES.contains(&title.as_str())
                || is_criteria_title(&title)
                || is_label_title(&section.title)
                || overviews.contains(&at)
        };
        let mut levels: BTreeMap<u8, (bool, usize)> = BTreeMap::new();
        for (at, section) in sections.iter().enumerate().filter(|(_, section)| section.level > 0) {
            let step = StepTitle::parse(&section.title).filter(|_| !is_field(at, section));
            if step.is_some() || is_below_tasks(section) && !overviews.contains(&at) {
                let level = levels.entry(section.level).or_default();
                level.0 |= step.is_some_and(|step| step.is_step) || is_below_tasks(section);
                level.1 = level.1.saturating_add(1);
            }
        }
        let (level, (is_sure, count)) = levels.into_iter().max_by_key(|(_, count)| *count)?;
        if (certainty == Certainty::Sure) != is_sure || !is_sure && count < 2 {
            return None;
        }
        let is_step = |at: usize, section: &Section| {
            section.level == level
                && !is_field(at, section)
                && (StepTitle::parse(&section.title).is_some() || is_below_tasks(section))
        };
        let numbered = (0..).zip(sections);
        let steps: Vec<usize> =
            numbered.filter(|(at, each)| is_step(*at, each)).map(|(at, _)| at).collect();
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
        Some(TaskSelection { tasks, id_style: IdStyle::Any, ..self.empty_selection() })
    }

    /// The sections that only show what others have: those of an overview or a legend, and a heading that another one
    /// repeats, which has parts.
    fn overviews(&self) -> BTreeSet<usize> {
        let sections = &self.outline.sections;
        let title = |at: usize| sections.get(at).map(|it| normalized_words(&it.title));
        let level = |at: usize| sections.get(at).map_or(0, |section| section.level);
        let has_parts = |at: usize| level(at.saturating_add(1)) > level(at);
        let with_parts: BTreeSet<String> =
            (1..sections.len()).filter(|at| has_parts(*at)).filter_map(title).collect();
        let is_shown = |at: usize| {
            let is_repeated = StepTitle::parse(&sections.get(at)?.title).is_some()
                && !has_parts(at)
                && with_parts.contains(&title(at)?);
            let is_overview =
                self.titles(at).any(|title| OVERVIEW_TITLES.contains(&title.as_str()));
            (is_repeated || is_overview).then_some(at)
        };
        (1..sections.len()).filter_map(is_shown).collect()
    }

    fn has_labels(&self, section: usize) -> bool {
        let labels = [Label::Tools, Label::Changes, Label::Acceptance, Label::After];
        let labelled = self.labelled.get(section);
        labelled
            .is_some_and(|labelled| labels.iter().any(|label| !labelled.values(*label).is_empty()))
    }

    /// Makes a task of a section with its subsections.
    fn section_task(&self, at: usize) -> Option<Task> {
        let section = self.outline.sections.get(at)?;
        let end = self.outline.subtree_end(at);
        let (checkbox, title) = strip_checkbox(&section.title);
        let step = StepTitle::parse(title);
        let text =
            step.as_ref().map_or_else(|| without_word(title).to_owned(), |it| it.text.clone());
        Some(Task {
            id: step.as_ref().map(|step| step.number.to_owned()),
            written: None,
            line: section.line,
            checkbox: checkbox.or_else(|| says_done(title).then_some(Checkbox::Done)),
            is_optional: false,
            text: if text.is_empty() { title.to_owned() } else { text },
            tags: Vec::new(),
            section: section.parent.unwrap_or(0),
            range: section.range.start..end,
            labelled: read_labels(self.outline.lines_of(section.body..end)),
            criteria: Vec::new(),
            subtasks: Vec::new(),
            item_phase: None,
        })
    }

    /// The sections that may have tasks.
    fn task_sections(&self) -> impl Iterator<Item = (usize, &'a Section)> {
        let overviews = self.overviews();
        (0..).zip(&self.outline.sections).filter(move |(at, _)| {
            !overviews.contains(at)
                && !self.is_checklist(*at)
                && !self.titles(*at).any(|title| {
                    NON_TASK_TITLES.contains(&title.as_str())
                        || FIELD_TITLES.contains(&title.as_str())
                })
        })
    }

    fn is_titled(&self, at: usize) -> bool {
        self.titles(at).any(|title| {
            TASK_TITLES.contains(&title.as_str())
                || title.strip_prefix("plan").is_some_and(|rest| rest.starts_with([':', ' ']))
        })
    }

    fn select(&self, is_wanted: impl Fn(usize, &Item) -> bool) -> Option<TaskSelection> {
        let mut selection = self.empty_selection();
        for (at, section) in self.task_sections() {
            let items = section.items.iter().filter(|item| is_wanted(at, item));
            selection.tasks.extend(items.map(|item| self.numbered_task(item, at)));
        }
        (!selection.tasks.is_empty()).then(|| with_ids(selection))
    }

    /// Selects numbered items below a heading such as `Tasks`.
    fn titled_numbers(&self) -> Option<TaskSelection> {
        self.select(|at, item| self.is_titled(at) && item.number.is_some())
    }

    /// Selects numbered items that have labels, or numbered items anywhere if the caller says so,
    /// or else all items below a heading such as `Tasks`.
    fn items(&self, is_prose_allowed: bool) -> Option<TaskSelection> {
        let is_labelled = |item: &Item| {
            let labelled = read_labels(self.outline.lines_of(item.body.clone()));
            let labels =
                [Label::Tools, Label::Changes, Label::Acceptance, Label::Success, Label::Owner];
            labels.iter().any(|label| !labelled.values(*label).is_empty())
        };
        let all = || self.task_sections().flat_map(|(_, section)| &section.items);
        let is_plan = is_prose_allowed
            || self.is_only_lists()
            || all().any(|item| item.number.is_some() && is_labelled(item));
        self.select(|_, item| is_plan && item.number.is_some())
            .or_else(|| self.select(|at, _| self.is_titled(at)))
    }
}

impl TaskSelector<'_> {
    /// Whether the text has nothing but headings and lists.
    fn is_only_lists(&self) -> bool {
        let mut sections = self.outline.sections.iter();
        sections.all(|section| {
            let mut from = section.body;
            let mut is_blank = true;
            for item in &section.items {
                is_blank &= self.outline.slice(from..item.range.start).trim().is_empty();
                from = item.range.end;
            }
            is_blank && self.outline.slice(from..section.range.end).trim().is_empty()
        })
    }
}

/// The title of a step without the word before a colon: `Step: text`.
fn without_word(title: &str) -> &str {
    let words = ["Step:", "Task:", "Story:"];
    words.iter().find_map(|word| title.strip_prefix(word)).map_or(title, str::trim_start)
}

/// The bold words at the start of an item, or else the whole text, and the words after them.
fn phase_title(head: &str) -> (&str, &str) {
    match head.strip_prefix("**").and_then(|rest| rest.split_once("**")) {
        Some((title, rest)) => (title.trim_end_matches(':'), rest),
        None => (head, ""),
    }
}

/// Sets the ids of items without checkboxes: those in the text if all items have one, or else the
/// numbers of the items.
fn with_ids(mut selection: TaskSelection) -> TaskSelection {
    let written: Option<Vec<(String, String)>> = selection
        .tasks
        .iter()
        .map(|task| {
            let head = split_head(&task.text, IdStyle::Any);
            Some((head.id?, head.text))
        })
        .collect();
    if let Some(written) = written {
        for (task, (id, text)) in selection.tasks.iter_mut().zip(written) {
            (task.id, task.text) = (Some(id), text);
        }
    }
    selection.id_style = IdStyle::Any;
    selection
}
