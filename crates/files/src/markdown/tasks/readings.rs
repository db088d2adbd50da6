//! The readings of a Markdown text: the default one, and a second one where two kinds of marks are close.
//!
//! Few decisions of the selector are close:
//! - Boxes without ids below several headings such as `Task 1`, or numbered headings that have tools, files or
//!   dependencies: each box may be a step, or a criterion of the step that its heading is.
//! - Boxes that are only below titles about the work, such as `Tests` or `Notes`, beside other marks of work.
//! - Lists without numbers below headings of phases, or any lists below headings with numbers: the items may be the
//!   steps, or the text of the steps that the headings are.
//! - Numbered items below a title such as `Implementation order`, beside headings of phases.
//!
//! Invariants: the default reading is what the selector selects. A second reading has other steps, two or more. Neither
//! depends on whether boxes are ticked.

use std::collections::BTreeSet;

use super::selector::{Certainty, TaskSelector, box_lines};
use super::task::{Marks, Task, TaskSelection};
use crate::markdown::labels::{Label, is_acceptance_title};
use crate::markdown::outline::{Item, Outline};
use crate::markdown::task_ids::{IdStyle, StepTitle};
use crate::markdown::titles::{Role, normalized_title, role_of_lead};
use crate::read_report::Reading;

/// How many parts have to say that they are steps, so that there is a second reading.
const STEPS_MIN: usize = 2;

/// The tasks of a text in each of its readings, the default first; empty if there are none. `is_prose_allowed`:
/// numbered items anywhere are tasks.
pub(in crate::markdown) fn selections(
    outline: &Outline<'_>,
    is_prose_allowed: bool,
) -> Vec<TaskSelection> {
    let mut selector = TaskSelector::new(outline);
    let Some(default) = selector.selected(is_prose_allowed) else { return Vec::new() };
    let second = match (default.reading, default.marks) {
        (Reading::Boxes, _) => {
            selector.headings_with_boxes(&default).or_else(|| selector.beside_boxes(&default))
        }
        (Reading::Items, Marks::Sections) => selector.whole_headings(),
        (Reading::Items, Marks::Items) => selector.phases_beside(&default),
        _ => None,
    };
    let second = second.filter(|second| {
        second.tasks.len() >= STEPS_MIN
            && second.reading != default.reading
            && lines(&second.tasks) != lines(&default.tasks)
    });
    std::iter::once(default).chain(second).collect()
}

/// The lines of tasks and of their parts.
fn lines(tasks: &[Task]) -> BTreeSet<u64> {
    let parts = tasks.iter().flat_map(|task| lines(&task.subtasks));
    tasks.iter().map(|task| task.line).chain(parts).collect()
}

impl TaskSelector<'_> {
    /// The headings of steps as steps, with the boxes below them as criteria. Boxes elsewhere stay steps.
    fn headings_with_boxes(&mut self, default: &TaskSelection) -> Option<TaskSelection> {
        if self.ids.style != IdStyle::None {
            return None;
        }
        let mut found = BTreeSet::new();
        for task in &default.tasks {
            // The heading of a step with a box, or without boxes, is a step already.
            let is_item = |section: usize| {
                let range = self.section(section).map(|it| it.range.clone());
                range.is_some_and(|range| range.contains(&task.range.start))
            };
            if is_item(task.section) && !self.is_announced(task) {
                let around = self.outline.ancestors(task.section).into_iter().rev();
                found.extend(around.into_iter().find(|at| self.says_step(*at)));
            }
        }
        // Of steps inside each other, the innermost are the steps.
        let around = |at: &usize| {
            let around = self.outline.ancestors(*at);
            around.into_iter().filter(|each| each != at).collect::<Vec<_>>()
        };
        let outer: BTreeSet<usize> = found.iter().flat_map(around).collect();
        found.retain(|at| !outer.contains(at));
        if found.len() < STEPS_MIN {
            return None;
        }
        self.steps_with_boxes = found;
        let selection = self.marked();
        self.steps_with_boxes = BTreeSet::new();
        Some(TaskSelection { reading: Reading::Headings, id_style: IdStyle::Any, ..selection? })
    }

    /// Whether the line above the list of a box, or a title inside of the step around it, says that it is work.
    fn is_announced(&self, task: &Task) -> bool {
        let mut items = self.section(task.section).into_iter().flat_map(|section| &section.items);
        let item = items.find(|item| item.range.contains(&task.range.start));
        let around = self.outline.ancestors(task.section).into_iter().rev();
        let mut inside = around.take_while(|at| !self.says_step(*at));
        item.is_some_and(|item| role_of_lead(&item.lead) == Some(Role::Work))
            || inside.any(|at| self.own_role(at) == Some(Role::Work))
    }

    /// Whether a heading is that of a step: by its words, or by its number and the labels below it.
    fn says_step(&self, at: usize) -> bool {
        let labels = [Label::Tools, Label::Changes, Label::After];
        let is_numbered = || {
            let title = self.section(at).and_then(|section| StepTitle::parse(&section.title));
            title.is_some_and(|title| !title.is_phase) && self.has_label(at, &labels)
        };
        at > 0
            && !self.is_overview(at)
            && !self.is_checklist(at)
            && (self.is_step(at) || is_numbered())
    }

    /// The other marks of work, if boxes are only below titles about the work.
    fn beside_boxes(&self, default: &TaskSelection) -> Option<TaskSelection> {
        let is_about_work = |task: &Task| {
            let around = self.outline.ancestors(task.section);
            let mut titles = around.iter().filter_map(|at| self.section(*at));
            self.role(task.section) == Some(Role::Text)
                || titles.any(|section| is_acceptance_title(&normalized_title(&section.title)))
        };
        if self.ids.style != IdStyle::None || !default.tasks.iter().all(is_about_work) {
            return None;
        }
        let mut second = self.unmarked()?;
        for (at, section) in self.outline.sections.iter().enumerate() {
            let is_outside = |item: &&Item| {
                !second.tasks.iter().any(|task| task.range.contains(&item.range.start))
            };
            let boxes: Vec<u64> =
                section.items.iter().filter(is_outside).flat_map(box_lines).collect();
            if let Some(first) = boxes.first() {
                second.other_checkboxes.insert(at, (*first, boxes.len()));
            }
        }
        Some(second)
    }

    /// The headings of phases, or those with numbers, as steps with their lists as text. Numbered items of phases, and
    /// those that a line announces, stay steps.
    fn whole_headings(&self) -> Option<TaskSelection> {
        let certainties = [Certainty::Phase, Certainty::Number];
        certainties.into_iter().find_map(|certainty| self.headings(certainty, true))
    }

    /// The headings of phases as steps, if none of them has a task of the default reading.
    fn phases_beside(&self, default: &TaskSelection) -> Option<TaskSelection> {
        let second = self.headings(Certainty::Phase, true)?;
        let has = |phase: &Task, task: &Task| phase.range.contains(&task.range.start);
        let is_apart = |phase: &Task| !default.tasks.iter().any(|task| has(phase, task));
        second.tasks.iter().all(is_apart).then_some(second)
    }
}
