//! Selects the parts of a Markdown text that are tasks.
//!
//! Each part is judged by its own marks, its title and the titles around it, never by how many others there are. The
//! kinds of marks have an order, and the first kind that the text has counts: boxes (with the headings of steps beside
//! them), headings of steps, numbered items below a title such as `Steps`, numbered headings, other items.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::task::{Marks, Task, TaskSelection};
use crate::markdown::labels::{
    Label, LabelledText, is_acceptance_title, is_label_title, parse_label, read_labels,
};
use crate::markdown::list_markers::{Checkbox, strip_checkbox, strip_marker};
use crate::markdown::outline::{Item, Outline, Section};
use crate::markdown::task_ids::{
    BoxIds, IdStyle, StepTitle, has_status, is_part, normalized_words, part_of, phase_title,
    split_head, without_done, without_word,
};
use crate::markdown::titles::{Role, normalized_title, role_of, role_of_lead};
use crate::read_report::Reading;

/// The lines of the boxes of an item and of those inside.
pub(super) fn box_lines(item: &Item) -> Vec<u64> {
    let own = item.checkbox.map(|_| item.line);
    own.into_iter().chain(item.items.iter().flat_map(box_lines)).collect()
}

/// Whether a title announces tasks, as `Steps` does.
pub(in crate::markdown) fn is_tasks_title(title: &str) -> bool {
    role_of(title) == Some(Role::Work)
}

/// How sure it is that headings are tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Certainty {
    /// They say so, or are directly below a heading that announces tasks.
    Step,
    /// They are phases: `Phase 1: Draw`.
    Phase,
    /// They have numbers.
    Number,
}

pub(super) struct TaskSelector<'a> {
    pub(super) outline: &'a Outline<'a>,
    pub(super) ids: BoxIds,
    /// The labelled fields of each section.
    labelled: Vec<LabelledText>,
    /// The meaning of each title.
    roles: Vec<Option<Role>>,
    /// The sections directly below each one.
    children: Vec<Vec<usize>>,
    /// The first heading, if no other one is on its level: it is the title of the text.
    title: Option<usize>,
    /// The headings without parts that another one with parts repeats.
    repeated: BTreeSet<usize>,
    /// The headings of which those directly below are tasks.
    announcing: BTreeSet<usize>,
    /// The parents and levels of headings with numbers that are chapters.
    chapters: BTreeSet<(Option<usize>, u8)>,
    checklists_are_work: bool,
    /// The headings that are steps with the boxes below them as criteria; none in the default reading.
    pub(super) steps_with_boxes: BTreeSet<usize>,
}

impl<'a> TaskSelector<'a> {
    pub(super) fn new(outline: &'a Outline<'a>) -> Self {
        let sections = &outline.sections;
        let labels_of =
            |section: &Section| read_labels(outline.lines_of(section.body..section.range.end));
        let top = sections.iter().map(|section| section.level).filter(|level| *level > 0).min();
        let mut tops = (0..).zip(sections).filter(|(_, section)| Some(section.level) == top);
        let title = match (tops.next(), tops.next()) {
            (Some((1, _)), None) => Some(1),
            _ => None,
        };
        let mut children = vec![Vec::new(); sections.len()];
        for (at, section) in sections.iter().enumerate() {
            if let Some(children) = section.parent.and_then(|parent| children.get_mut(parent)) {
                children.push(at);
            }
        }
        let mut selector = Self {
            outline,
            ids: BoxIds::default(),
            labelled: sections.iter().map(labels_of).collect(),
            roles: sections.iter().map(|section| role_of(&section.title)).collect(),
            children,
            title,
            repeated: BTreeSet::new(),
            announcing: BTreeSet::new(),
            chapters: BTreeSet::new(),
            checklists_are_work: false,
            steps_with_boxes: BTreeSet::new(),
        };
        selector.repeated = selector.repeated_headings();
        selector.announcing = selector.announcing();
        selector.chapters = selector.chapters();
        let mut boxes = Vec::new();
        for (at, section) in sections.iter().enumerate() {
            let is_counted = !selector.is_checklist(at);
            let mut rest: Vec<(bool, &Item)> = section.items.iter().map(|it| (true, it)).collect();
            while let Some((is_outer, item)) = rest.pop() {
                let is_box = item.checkbox.is_some();
                rest.extend(item.items.iter().map(|item| (is_outer && !is_box, item)));
                if is_box {
                    boxes.push((item.head.as_str(), is_outer && is_counted));
                }
            }
        }
        selector.ids = BoxIds::of(&boxes);
        selector
    }

    /// Selects the tasks of a text in its default reading. `is_prose_allowed`: numbered items anywhere are tasks.
    pub(super) fn selected(&mut self, is_prose_allowed: bool) -> Option<TaskSelection> {
        let found = self.marked().or_else(|| self.unmarked());
        found.or_else(|| self.items(is_prose_allowed)).or_else(|| {
            self.checklists_are_work = true;
            self.marked()
        })
    }

    /// Selects tasks without boxes: headings, and items that a title announces.
    pub(super) fn unmarked(&self) -> Option<TaskSelection> {
        self.headings(Certainty::Step, false)
            .or_else(|| self.titled_numbers().filter(|found| !self.are_in_phases(found)))
            .or_else(|| self.headings(Certainty::Phase, false))
            .or_else(|| self.headings(Certainty::Number, false))
    }

    pub(super) fn section(&self, at: usize) -> Option<&'a Section> {
        self.outline.sections.get(at)
    }

    fn children(&self, at: usize) -> &[usize] {
        self.children.get(at).map(Vec::as_slice).unwrap_or_default()
    }

    /// The meaning of the title of a section. The title of the text says nothing about its parts but that they are
    /// work.
    pub(super) fn own_role(&self, at: usize) -> Option<Role> {
        let role = self.roles.get(at).copied().flatten()?;
        (self.title != Some(at) || role == Role::Work).then_some(role)
    }

    /// The meaning of the nearest title of a section and of those around it that has one.
    pub(super) fn role(&self, at: usize) -> Option<Role> {
        self.outline.ancestors(at).into_iter().rev().find_map(|at| self.own_role(at))
    }

    /// Whether a section, or one around it, has criteria instead of tasks. Tests and validation are
    /// criteria inside of a step; elsewhere they are work.
    pub(super) fn is_checklist(&self, at: usize) -> bool {
        let around = self.outline.ancestors(at);
        let is_work = |section: &Section| section.title.to_lowercase().contains("checklist");
        let is_criteria = |at: &usize| {
            let is_work = self.checklists_are_work && self.section(*at).is_some_and(is_work);
            self.own_role(*at) == Some(Role::Criteria) && !is_work
        };
        let is_acceptance = |at: &usize| {
            self.section(*at).is_some_and(|it| is_acceptance_title(&normalized_title(&it.title)))
        };
        around.iter().any(is_criteria)
            || around.iter().any(is_acceptance) && around.iter().any(|at| self.is_step(*at))
    }

    /// Whether a heading is that of a step: `Step 1: Draw`.
    pub(super) fn is_step(&self, at: usize) -> bool {
        let is_step = |section: &Section| {
            section.level > 0 && StepTitle::parse(&section.title).is_some_and(|title| title.is_step)
        };
        self.title != Some(at) && self.section(at).is_some_and(is_step)
    }

    /// The checkbox of a heading.
    fn heading_box(&self, at: usize) -> Option<Checkbox> {
        let section = self.section(at).filter(|section| section.level > 0)?;
        strip_checkbox(&section.title).0
    }

    /// Whether a section only shows what others have.
    pub(super) fn is_overview(&self, at: usize) -> bool {
        self.repeated.contains(&at) || self.role(at) == Some(Role::Overview)
    }

    /// The headings that another one with parts repeats.
    fn repeated_headings(&self) -> BTreeSet<usize> {
        let words = |at: &usize| self.section(*at).map(|it| normalized_words(&it.title));
        let (with_parts, others): (Vec<usize>, Vec<usize>) =
            (1..self.outline.sections.len()).partition(|at| !self.children(*at).is_empty());
        let with_parts: BTreeSet<String> = with_parts.iter().filter_map(words).collect();
        let is_repeated = |at: &usize| {
            let is_step = self.section(*at).is_some_and(|it| StepTitle::parse(&it.title).is_some());
            is_step && words(at).is_some_and(|words| with_parts.contains(&words))
        };
        others.into_iter().filter(is_repeated).collect()
    }

    fn empty_selection(&self) -> TaskSelection {
        TaskSelection {
            tasks: Vec::new(),
            id_style: self.ids.style,
            other_checkboxes: BTreeMap::new(),
            item_phases: Vec::new(),
            marks: Marks::Boxes,
            reading: Reading::Boxes,
        }
    }

    /// Selects boxes: of headings, of items, and the actions of phases that are items. The heading of a step without a
    /// box beside headings that have some is a task, too.
    pub(super) fn marked(&self) -> Option<TaskSelection> {
        let mut selection = self.empty_selection();
        selection.tasks = self.marked_in(&self.tops(), &mut selection);
        selection.tasks = self.nested_by_number(selection.tasks);
        (!selection.tasks.is_empty()).then_some(selection)
    }

    fn marked_in(&self, group: &[usize], selection: &mut TaskSelection) -> Vec<Task> {
        let found = group.iter().map(|at| (*at, self.marked_section(*at, selection)));
        let found: Vec<(usize, Vec<Task>)> = found.collect();
        let has_tasks = |(at, tasks): &(usize, Vec<Task>)| {
            !tasks.is_empty() && (self.is_step(*at) || self.heading_box(*at).is_some())
        };
        let is_group = self.ids.style != IdStyle::SpecKit && found.iter().any(has_tasks);
        let tasks = found.into_iter().flat_map(|(at, tasks)| {
            let is_step = is_group
                && tasks.is_empty()
                && self.is_step(at)
                && !self.is_overview(at)
                && !self.is_checklist(at);
            if is_step { self.section_task(at).into_iter().collect() } else { tasks }
        });
        tasks.collect()
    }

    fn marked_section(&self, at: usize, selection: &mut TaskSelection) -> Vec<Task> {
        let mut other_lines = Vec::new();
        let tasks = if self.heading_box(at).is_some() {
            self.boxed_task(at, &mut other_lines).into_iter().collect()
        } else if self.steps_with_boxes.contains(&at) {
            self.step_with_boxes(at).into_iter().collect()
        } else {
            let mut tasks = self.marked_items(at, selection, &mut other_lines);
            tasks.extend(self.marked_in(self.children(at), selection));
            tasks
        };
        if let Some(first) = other_lines.iter().min() {
            selection.other_checkboxes.insert(at, (*first, other_lines.len()));
        }
        tasks
    }

    /// The boxes of the lists of a section, and the actions of phases.
    fn marked_items(
        &self,
        at: usize,
        selection: &mut TaskSelection,
        other_lines: &mut Vec<u64>,
    ) -> Vec<Task> {
        let items = self.section(at).map(|section| section.items.as_slice()).unwrap_or_default();
        let role = self.role(at);
        let is_hidden = role == Some(Role::Open)
            || self.is_overview(at) && !items.iter().any(|item| self.ids.has_id(&item.head));
        let has_actions = |item: &&Item| is_phase_item(item) && !item.items.is_empty();
        let phases = items.iter().find(has_actions).filter(|_| role != Some(Role::Text));
        let is_phase = |item: &Item| {
            item.number.is_some() && phases.is_some_and(|phase| phase.lead == item.lead)
        };
        let mut tasks = Vec::new();
        for item in items {
            if is_hidden || self.is_criterion(item, at) {
                other_lines.extend(box_lines(item));
            } else if is_phase(item) {
                tasks.extend(self.phase_actions(item, at, &mut selection.item_phases));
            } else {
                self.collect(item, at, &mut tasks, other_lines);
            }
        }
        tasks
    }

    /// Whether an item of a section is a criterion, with all that is inside.
    fn is_criterion(&self, item: &Item, at: usize) -> bool {
        let label = self.labelled.get(at).and_then(|labelled| labelled.label_at(item.line));
        let lead = role_of_lead(&item.lead);
        let is_other = matches!(lead, Some(Role::Criteria | Role::Open | Role::Overview));
        !self.ids.has_id(&item.head) && (label.is_some() || is_other || self.is_checklist(at))
    }

    /// Collects the checkboxes of an item: the item itself, or those inside.
    fn collect(
        &self,
        item: &Item,
        section: usize,
        tasks: &mut Vec<Task>,
        other_lines: &mut Vec<u64>,
    ) {
        // Among numbered tasks, a box without a number is still a task; in spec-kit it is not.
        let is_task = self.ids.has_id(&item.head)
            || self.ids.style != IdStyle::SpecKit && !self.is_checklist(section);
        if item.checkbox.is_some() && is_task {
            tasks.push(self.task(item, section));
        } else {
            other_lines.extend(item.checkbox.map(|_| item.line));
            for item in &item.items {
                self.collect(item, section, tasks, other_lines);
            }
        }
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
        if self.ids.style != IdStyle::Any {
            return tasks;
        }
        let mut nested = Vec::new();
        for task in tasks {
            put(&mut nested, task);
        }
        nested
    }

    /// Whether a box without an id inside of a box is a part of it, and not a criterion: ids with parts (`1.1`, `US-1`)
    /// name the smallest tasks.
    fn has_parts(&self, item: &Item) -> bool {
        fn any(items: &[Item], is_wanted: &impl Fn(&Item) -> bool) -> bool {
            items.iter().any(|item| is_wanted(item) || any(&item.items, is_wanted))
        }
        let is_plain = |id: &str| id.chars().all(|c| c.is_ascii_digit());
        let id = self.ids.head(&item.head).id;
        !matches!(self.ids.style, IdStyle::SpecKit | IdStyle::Named)
            && id.is_none_or(|id| is_plain(&id))
            && !any(&item.items, &|item: &Item| {
                item.checkbox.is_some() && self.ids.has_id(&item.head)
            })
    }

    /// Makes a task of an item, with its subtasks.
    fn task(&self, item: &Item, section: usize) -> Task {
        let outline = self.outline;
        let lines = || outline.lines_of(item.body.clone());
        let whole = read_labels(lines());
        let has_parts = self.has_parts(item);
        let mut taken = BTreeSet::new();
        let (mut subtasks, mut criteria) = (Vec::new(), Vec::new());
        let mut rest: Vec<&Item> = item.items.iter().rev().collect();
        while let Some(inner) = rest.pop() {
            if whole.label_at(inner.line).is_some() {
                continue;
            }
            if inner.checkbox.is_none() {
                rest.extend(inner.items.iter().rev());
                continue;
            }
            let last = outline.line(inner.range.end.saturating_sub(1));
            taken.extend(inner.line..=last);
            if item.checkbox.is_some() && (has_parts || self.ids.has_id(&inner.head)) {
                subtasks.push(self.task(inner, section));
            } else {
                let text = outline.slice(inner.range.clone());
                let text = strip_checkbox(strip_marker(text)).1;
                let checkbox = inner.checkbox.unwrap_or(Checkbox::Open);
                criteria.push((checkbox, text.trim().to_owned()));
            }
        }
        let head = self.ids.head(&item.head);
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
        let mut task = self.task(item, section);
        task.id = item.number.map(|number| number.to_string());
        if let Some(rest) = without_done(&task.text) {
            task.checkbox.get_or_insert(Checkbox::Done);
            task.text = rest;
        }
        task
    }

    /// Makes a task of a heading with a checkbox. Checkboxes and headings below it are its subtasks.
    fn boxed_task(&self, at: usize, other_lines: &mut Vec<u64>) -> Option<Task> {
        let mut task = self.section_task(at)?;
        let sections = &self.outline.sections;
        let mut taken: Vec<Range<usize>> = Vec::new();
        let mut inner = at;
        while let Some(section) = sections.get(inner).filter(|it| it.range.start < task.range.end) {
            let is_boxed = inner > at && self.heading_box(inner).is_some();
            if is_boxed {
                let subtask = self.boxed_task(inner, other_lines)?;
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
                self.collect(item, inner, &mut task.subtasks, other_lines);
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

    /// Makes a task of a heading, with the boxes below it as criteria, but for those that a label names.
    fn step_with_boxes(&self, at: usize) -> Option<Task> {
        let mut task = self.section_task(at)?;
        let outline = self.outline;
        let lines = || outline.lines_of(self.section(at).map_or(0, |it| it.body)..task.range.end);
        let whole = read_labels(lines());
        let mut taken = BTreeSet::new();
        let inside = outline.sections.iter().skip(at);
        let inside = inside.take_while(|section| section.range.start < task.range.end);
        let mut rest: Vec<&Item> = inside.flat_map(|section| &section.items).collect();
        rest.reverse();
        while let Some(item) = rest.pop() {
            if whole.label_at(item.line).is_some() {
                continue;
            }
            let Some(checkbox) = item.checkbox else {
                rest.extend(item.items.iter().rev());
                continue;
            };
            let last = outline.line(item.range.end.saturating_sub(1));
            taken.extend(item.line..=last);
            let (text, boxes) = self.without_boxes(item);
            task.criteria.push((checkbox, text));
            rest.extend(boxes.into_iter().rev());
        }
        task.labelled = read_labels(lines().filter(|line| !taken.contains(&line.number)));
        Some(task)
    }

    /// The text of a box without the boxes inside, and these.
    fn without_boxes(&self, item: &'a Item) -> (String, Vec<&'a Item>) {
        let mut boxes = Vec::new();
        let mut rest: Vec<&Item> = item.items.iter().rev().collect();
        while let Some(inner) = rest.pop() {
            if inner.checkbox.is_some() {
                boxes.push(inner);
            } else {
                rest.extend(inner.items.iter().rev());
            }
        }
        let (mut text, mut from) = (String::new(), item.range.start);
        for inner in &boxes {
            text.push_str(self.outline.slice(from..inner.range.start).trim_end_matches(' '));
            from = inner.range.end.max(from);
        }
        text.push_str(self.outline.slice(from..item.range.end));
        (strip_checkbox(strip_marker(&text)).1.trim().to_owned(), boxes)
    }

    /// The actions of a phase that is a numbered item: `1. **Phase 1: name**`, with a list of actions.
    fn phase_actions(&self, item: &Item, at: usize, phases: &mut Vec<String>) -> Vec<Task> {
        let phase = phases.len();
        let (title, _) = phase_title(&item.head);
        let name = StepTitle::parse(title).map_or_else(|| title.to_owned(), |it| it.text);
        let rest = item.head.replacen(title, &name, 1).replace("**", "");
        phases.push(rest.trim().to_owned());
        let mut tasks: Vec<Task> = item.items.iter().map(|action| self.task(action, at)).collect();
        if tasks.is_empty() {
            tasks.push(Task { id: None, ..self.task(item, at) });
        }
        if let Some(first) = tasks.first_mut() {
            // The text of the phase is taken with its first action.
            first.range = item.range.clone();
        }
        for task in &mut tasks {
            task.item_phase = Some(phase);
        }
        tasks
    }

    /// The sections that are not inside another one.
    fn tops(&self) -> Vec<usize> {
        let tops = (0..).zip(&self.outline.sections).filter(|(_, it)| it.parent.is_none());
        tops.map(|(at, _)| at).collect()
    }

    /// Selects headings: `Step 1: text`, all headings below `Steps`, or else those of phases and with numbers.
    /// `is_whole`: their lists are text.
    pub(super) fn headings(&self, certainty: Certainty, is_whole: bool) -> Option<TaskSelection> {
        // Where a phase has labels, the phases are the tasks.
        let labels = [Label::Tools, Label::Changes, Label::Acceptance, Label::After];
        let has_labels =
            |at: usize| self.is_candidate(at, certainty) && self.has_label(at, &labels);
        let has_whole = is_whole || (0..self.outline.sections.len()).any(has_labels);
        let tasks = self.headings_in(&self.tops(), certainty, has_whole);
        let is_listed = tasks.iter().any(|task| self.is_item(task));
        if tasks.is_empty() {
            return None;
        }
        let is_sure = certainty == Certainty::Step;
        let marks = if is_sure { Marks::Steps } else { Marks::Sections };
        let reading = if is_listed && !is_whole { Reading::Items } else { Reading::Headings };
        let selection = TaskSelection { tasks, marks, reading, ..self.empty_selection() };
        if is_listed {
            return Some(with_ids(selection));
        }
        Some(TaskSelection { id_style: IdStyle::Any, ..selection })
    }

    /// Whether a task is an item, and not a heading.
    fn is_item(&self, task: &Task) -> bool {
        let section = self.section(task.section);
        section.is_some_and(|section| section.range.contains(&task.range.start))
    }

    /// The tasks of sections beside each other: what is inside of a heading, or else the heading itself.
    fn headings_in(&self, group: &[usize], certainty: Certainty, is_whole: bool) -> Vec<Task> {
        let mut tasks = Vec::new();
        for at in group {
            let inner = self.headings_in(self.children(*at), certainty, is_whole);
            if !inner.is_empty() {
                tasks.extend(inner);
            } else if self.is_candidate(*at, certainty) {
                let listed = self.listed_work(*at, certainty, is_whole);
                if listed.is_empty() {
                    tasks.extend(self.section_task(*at));
                } else {
                    tasks.extend(listed);
                }
            }
        }
        tasks
    }

    /// Whether a heading is one of a task.
    fn is_candidate(&self, at: usize, certainty: Certainty) -> bool {
        let Some(section) = self.section(at).filter(|it| it.level > 0) else { return false };
        let is_other = !matches!(self.role(at), None | Some(Role::Work))
            || self.own_role(at) == Some(Role::Work);
        let is_title = self.title == Some(at);
        if is_other || is_title || self.is_overview(at) || is_label_title(&section.title) {
            return false;
        }
        let is_below_work = section.parent.is_some_and(|parent| self.announcing.contains(&parent));
        let title = StepTitle::parse(&section.title);
        let is_chapter = self.chapters.contains(&(section.parent, section.level));
        match certainty {
            Certainty::Step => self.is_step(at) || is_below_work,
            Certainty::Phase => {
                title.is_some_and(|title| title.is_phase) || self.part_of_phase(at).is_some()
            }
            Certainty::Number => title.is_some() && !is_chapter,
        }
    }

    /// The number and the text of a heading directly below that of a phase whose number it continues.
    fn part_of_phase(&self, at: usize) -> Option<(&'a str, &'a str)> {
        let section = self.section(at)?;
        let phase = StepTitle::parse(&self.section(section.parent?)?.title)?;
        part_of(phase.number, &section.title).filter(|_| phase.is_phase)
    }

    /// Whether all tasks of a selection are below headings of phases.
    fn are_in_phases(&self, selection: &TaskSelection) -> bool {
        let is_phase = |at: &usize| self.is_candidate(*at, Certainty::Phase);
        let is_inside = |task: &Task| self.outline.ancestors(task.section).iter().any(is_phase);
        selection.tasks.iter().all(is_inside)
    }

    /// The headings that announce tasks and have none themselves: those directly below are the tasks. Of the title of the
    /// text this holds if no heading below says what it is.
    fn announcing(&self) -> BTreeSet<usize> {
        let has_own = |at: usize| {
            let mut items = self.section(at).into_iter().flat_map(|section| &section.items);
            items.any(|item| item.number.is_some())
        };
        let has_roles = |at: usize| self.children(at).iter().any(|at| self.own_role(*at).is_some());
        let is_announcing = |at: &usize| {
            self.own_role(*at) == Some(Role::Work)
                && !has_own(*at)
                && (self.title != Some(*at) || !has_roles(*at))
        };
        (1..self.outline.sections.len()).filter(is_announcing).collect()
    }

    /// The headings with numbers of which one, on the same level below the same heading, is for an overview, a design or
    /// the like: they are chapters, and no steps.
    fn chapters(&self) -> BTreeSet<(Option<usize>, u8)> {
        let sections = self.outline.sections.iter().enumerate();
        let numbered = sections.filter(|(_, it)| StepTitle::parse(&it.title).is_some());
        let is_chapter = |at: usize| matches!(self.own_role(at), Some(Role::Text | Role::Open));
        let chapters = numbered.filter(|(at, _)| is_chapter(*at));
        chapters.map(|(_, section)| (section.parent, section.level)).collect()
    }

    /// The work that the lists of a phase, or of a numbered heading, state: those that a line above announces, else its
    /// numbered items, else its items.
    fn listed_work(&self, at: usize, certainty: Certainty, is_whole: bool) -> Vec<Task> {
        let Some(section) = self.section(at) else { return Vec::new() };
        let title = StepTitle::parse(&section.title);
        let is_phase = title.as_ref().is_some_and(|title| title.is_phase);
        let is_number = certainty == Certainty::Number && title.is_some_and(|title| !title.is_step);
        let lead = |item: &Item| role_of_lead(&item.lead);
        let mut items: Vec<&Item> = section.items.iter().collect();
        items.retain(|item| parse_label(&item.head).is_none());
        if items.iter().any(|item| lead(item) == Some(Role::Work)) {
            items.retain(|item| lead(item) == Some(Role::Work));
        } else {
            items.retain(|item| item.lead.is_empty());
            if items.iter().any(|item| item.number.is_some()) {
                items.retain(|item| item.number.is_some() && (is_phase || is_number && !is_whole));
            } else {
                items.retain(|_| (is_phase || is_number) && !is_whole);
            }
        }
        items.into_iter().map(|item| self.numbered_task(item, at)).collect()
    }

    /// Whether a section has one of these labels.
    pub(super) fn has_label(&self, section: usize, labels: &[Label]) -> bool {
        let labelled = self.labelled.get(section);
        labelled
            .is_some_and(|labelled| labels.iter().any(|label| !labelled.values(*label).is_empty()))
    }

    /// Makes a task of a section with its subsections.
    fn section_task(&self, at: usize) -> Option<Task> {
        let section = self.section(at)?;
        let end = self.outline.subtree_end(at);
        let (checkbox, title) = strip_checkbox(&section.title);
        let finished = without_done(title);
        let title = finished.as_deref().unwrap_or(title);
        let step = StepTitle::parse(title).map(|step| (step.number.to_owned(), step.text));
        let part = || self.part_of_phase(at).map(|(id, text)| (id.to_owned(), text.to_owned()));
        let (id, text) = step.or_else(part).unzip();
        let text = text.unwrap_or_else(|| without_word(title).to_owned());
        Some(Task {
            id,
            written: None,
            line: section.line,
            checkbox: checkbox.or_else(|| finished.as_ref().map(|_| Checkbox::Done)),
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

    /// The meaning of an item by the line above its list, or by the titles around it.
    fn item_role(&self, at: usize, item: &Item) -> Option<Role> {
        role_of_lead(&item.lead).or_else(|| self.role(at))
    }

    /// Selects the wanted items, which get the index of their section, of those that may be tasks.
    fn select(&self, is_wanted: impl Fn(usize, &Item) -> bool) -> Option<TaskSelection> {
        let (marks, reading) = (Marks::Items, Reading::Items);
        let mut selection = TaskSelection { marks, reading, ..self.empty_selection() };
        for (at, section) in self.outline.sections.iter().enumerate() {
            if self.is_overview(at) || self.is_checklist(at) {
                continue;
            }
            let is_open = |item: &&Item| {
                let role = self.item_role(at, item);
                matches!(role, None | Some(Role::Work)) && is_wanted(at, item)
            };
            let items = section.items.iter().filter(is_open);
            selection.tasks.extend(items.map(|item| self.numbered_task(item, at)));
        }
        (!selection.tasks.is_empty()).then(|| with_ids(selection))
    }

    /// Selects numbered items below a heading or a line such as `Tasks`.
    fn titled_numbers(&self) -> Option<TaskSelection> {
        self.select(|at, item| {
            self.item_role(at, item) == Some(Role::Work) && item.number.is_some()
        })
    }

    /// Selects items with a priority or struck through, with the others of their section; numbered items that have
    /// labels, or numbered items anywhere if the caller says so; or else all items below a heading such as `Tasks`.
    fn items(&self, is_prose_allowed: bool) -> Option<TaskSelection> {
        let is_labelled = |item: &Item| {
            let labelled = read_labels(self.outline.lines_of(item.body.clone()));
            let labels =
                [Label::Tools, Label::Changes, Label::Acceptance, Label::Success, Label::Owner];
            labels.iter().any(|label| !labelled.values(*label).is_empty())
        };
        let is_tagged = |at: usize| {
            let section = self.section(at);
            section.is_some_and(|section| section.items.iter().any(|item| has_status(&item.head)))
        };
        let mut all = self.outline.sections.iter().flat_map(|section| &section.items);
        let is_plan = is_prose_allowed
            || self.is_only_lists()
            || all.any(|item| item.number.is_some() && is_labelled(item));
        self.select(|at, _| is_tagged(at))
            .or_else(|| self.select(|_, item| is_plan && item.number.is_some()))
            .or_else(|| self.select(|at, item| self.item_role(at, item) == Some(Role::Work)))
    }

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

/// Whether a numbered item is a phase.
fn is_phase_item(item: &Item) -> bool {
    let title = StepTitle::parse(phase_title(&item.head).0);
    item.number.is_some() && title.is_some_and(|title| title.is_phase)
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
