//! Which parts of a Markdown text are its tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::document::{Check, Document, Item, Section, unboxed};
use super::labels::{self, Digest, digest, is_criteria};
use super::names::{self, Ids};

/// The tasks of a text, and how they were told from the rest.
pub(super) struct Chosen {
    pub(super) tasks: Vec<Task>,
    pub(super) ids: Ids,
    /// Boxes that are no tasks, by section: the first line and how many.
    pub(super) others: BTreeMap<usize, (u64, u64)>,
}

/// A task of the text.
pub(super) struct Task {
    /// As it is written, or assigned later.
    pub(super) id: Option<String>,
    pub(super) line: u64,
    pub(super) check: Option<Check>,
    /// Its words, without id and tags.
    pub(super) text: String,
    pub(super) tags: Vec<String>,
    /// The section that it stands in.
    pub(super) section: usize,
    pub(super) range: Range<usize>,
    pub(super) digest: Digest,
    /// Boxes in it that are no tasks.
    pub(super) criteria: Vec<String>,
    pub(super) parts: Vec<Task>,
}

/// Titles of sections whose items are never tasks.
const NO_TASKS: &[&str] = &[
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

/// Titles of sections whose items are tasks if nothing else is.
const TASKS: &[&str] = &[
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

/// The title of a section as it is compared: without number and marks.
pub(super) fn plain_title(title: &str) -> String {
    let title = title.trim_matches(|c: char| c == '*' || c == '_' || c == ':' || c == ' ');
    let title = title.trim_start_matches(|c: char| c.is_ascii_digit() || ".) ".contains(c));
    title.to_lowercase()
}

/// Whether a title only says that tasks follow.
pub(super) fn is_tasks(title: &str) -> bool {
    TASKS.contains(&plain_title(title).as_str())
}

/// The tasks of a text, if there are any.
pub(super) fn choose(document: &Document<'_>) -> Option<Chosen> {
    let finder = Finder::new(document);
    finder.boxes().or_else(|| finder.headings()).or_else(|| finder.items())
}

struct Finder<'a> {
    document: &'a Document<'a>,
    ids: Ids,
    /// What stands under labels of each section.
    digests: Vec<Digest>,
}

impl<'a> Finder<'a> {
    fn new(document: &'a Document<'a>) -> Self {
        let digest_of =
            |section: &Section| digest(document.lines_of(section.body..section.range.end));
        let digests = document.sections.iter().map(digest_of).collect();
        let mut finder = Self { document, ids: Ids::None, digests };
        finder.ids = finder.ids_of_boxes();
        finder
    }

    /// How ids look in this file, as far as boxes show it.
    fn ids_of_boxes(&self) -> Ids {
        let (mut all, mut with_id) = (0_usize, 0_usize);
        let mut rest: Vec<(usize, &Item)> = Vec::new();
        for (index, section) in self.document.sections.iter().enumerate() {
            rest.extend(section.items.iter().map(|item| (index, item)));
        }
        while let Some((section, item)) = rest.pop() {
            rest.extend(item.items.iter().map(|item| (section, item)));
            if item.check.is_none() {
                continue;
            }
            if names::head(&item.head, Ids::SpecKit).id.is_some() {
                return Ids::SpecKit;
            }
            let has_id = names::head(&item.head, Ids::Any).id.is_some();
            if has_id || !self.is_checklist(section) {
                all = all.saturating_add(1);
                with_id = with_id.saturating_add(usize::from(has_id));
            }
        }
        let is_usual = with_id >= 2 && with_id.saturating_mul(3) >= all;
        if with_id > 0 && (is_usual || with_id == all) { Ids::Any } else { Ids::None }
    }

    /// Whether a section, or one that holds it, is for criteria.
    fn is_checklist(&self, section: usize) -> bool {
        self.titles(section).any(|title| is_criteria(&title) || title.contains("checklist"))
    }

    fn titles(&self, section: usize) -> impl Iterator<Item = String> {
        let chain = self.document.chain(section).into_iter();
        chain.filter_map(|at| Some(plain_title(&self.document.sections.get(at)?.title)))
    }

    fn boxes(&self) -> Option<Chosen> {
        let mut chosen = self.nothing();
        for (index, section) in self.document.sections.iter().enumerate() {
            let is_other = |item: &Item| {
                let is_labelled = self
                    .digests
                    .get(index)
                    .is_some_and(|digest| digest.label_of(item.line).is_some());
                self.ids == Ids::None && (is_labelled || self.is_checklist(index))
            };
            let (others, items): (Vec<&Item>, Vec<&Item>) =
                section.items.iter().partition(|item| is_other(item));
            let mut no_tasks: Vec<u64> = Vec::new();
            no_tasks
                .extend(others.iter().filter(|item| item.check.is_some()).map(|item| item.line));
            for item in items {
                self.collect(item, index, &mut chosen.tasks, &mut no_tasks);
            }
            if let Some(first) = no_tasks.iter().min() {
                let count = u64::try_from(no_tasks.len()).unwrap_or(u64::MAX);
                chosen.others.insert(index, (*first, count));
            }
        }
        (!chosen.tasks.is_empty()).then_some(chosen)
    }

    fn nothing(&self) -> Chosen {
        Chosen { tasks: Vec::new(), ids: self.ids, others: BTreeMap::new() }
    }

    /// The boxes of an item that are tasks: it, or what is in it.
    fn collect(&self, item: &Item, section: usize, tasks: &mut Vec<Task>, others: &mut Vec<u64>) {
        let has_id = self.ids == Ids::None || names::head(&item.head, self.ids).id.is_some();
        if item.check.is_some() && has_id {
            tasks.push(self.task(item, section));
        } else if item.check.is_some() {
            others.push(item.line);
        } else {
            for item in &item.items {
                self.collect(item, section, tasks, others);
            }
        }
    }

    /// A task that is an item, with its parts.
    fn task(&self, item: &Item, section: usize) -> Task {
        let document = self.document;
        let lines = || document.lines_of(item.body.clone());
        let whole = digest(lines());
        let mut taken = BTreeSet::new();
        let (mut parts, mut criteria) = (Vec::new(), Vec::new());
        let mut rest: Vec<&Item> = item.items.iter().rev().collect();
        while let Some(inner) = rest.pop() {
            if whole.label_of(inner.line).is_some() {
                continue;
            }
            let has_id = self.ids == Ids::None || names::head(&inner.head, self.ids).id.is_some();
            if inner.check.is_none() {
                rest.extend(inner.items.iter().rev());
                continue;
            }
            let last = document.line(inner.range.end.saturating_sub(1));
            taken.extend(inner.line..=last);
            if has_id && item.check.is_some() {
                parts.push(self.task(inner, section));
            } else {
                let text = document.slice(inner.range.clone());
                let text = unboxed(super::document::unmarked(text)).1;
                criteria.push(text.trim().to_owned());
            }
        }
        let head = names::head(&item.head, self.ids);
        Task {
            id: head.id,
            line: item.line,
            check: item.check,
            text: head.text.to_owned(),
            tags: head.tags.iter().map(|tag| (*tag).to_owned()).collect(),
            section,
            range: item.range.clone(),
            digest: if taken.is_empty() {
                whole
            } else {
                digest(lines().filter(|(line, _)| !taken.contains(line)))
            },
            criteria,
            parts,
        }
    }

    /// A task that is an item without a box.
    fn numbered(&self, item: &Item, section: usize) -> Task {
        let task = self.task(item, section);
        Task { id: item.number.map(|number| number.to_string()), ..task }
    }

    /// Headings that are tasks: `Step 1: words`, or all below a heading `Steps`.
    fn headings(&self) -> Option<Chosen> {
        let sections = &self.document.sections;
        let is_below_tasks = |section: &Section| {
            let parent = section.parent.and_then(|at| sections.get(at));
            parent.is_some_and(|parent| is_tasks(&parent.title))
        };
        let mut levels: BTreeMap<u8, (bool, usize)> = BTreeMap::new();
        for section in sections.iter().filter(|section| section.level > 0) {
            let step = StepTitle::of(&section.title);
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
                && (StepTitle::of(&section.title).is_some() || is_below_tasks(section))
        };
        let steps: Vec<usize> =
            (0..).zip(sections).filter(|(_, each)| is_step(each)).map(|(at, _)| at).collect();
        // Phases, or numbered chapters, that have lists are no tasks: their items are.
        let has_items = |at: &usize| sections.get(*at).is_some_and(|each| !each.items.is_empty());
        if !is_sure && steps.iter().any(has_items) && !steps.iter().any(|at| self.has_labels(*at)) {
            let mut chosen = self.nothing();
            for at in steps {
                let items = sections.get(at).map(|each| each.items.as_slice()).unwrap_or_default();
                chosen.tasks.extend(items.iter().map(|item| self.numbered(item, at)));
            }
            return Some(named(chosen));
        }
        let tasks = steps.into_iter().filter_map(|at| self.section_task(at)).collect();
        Some(Chosen { tasks, ids: Ids::Any, others: BTreeMap::new() })
    }

    fn has_labels(&self, section: usize) -> bool {
        use labels::Label::{Acceptance, After, Changes, Tools};
        let digest = self.digests.get(section);
        digest.is_some_and(|digest| {
            [Tools, Changes, Acceptance, After]
                .iter()
                .any(|label| !digest.values(*label).is_empty())
        })
    }

    /// A task that is a section, with all that is in it.
    fn section_task(&self, at: usize) -> Option<Task> {
        let section = self.document.sections.get(at)?;
        let end = self.document.whole_end(at);
        let (check, title) = unboxed(&section.title);
        let step = StepTitle::of(title);
        let text = step.as_ref().map_or(title, |step| step.text);
        Some(Task {
            id: step.as_ref().map(|step| step.number.to_owned()),
            line: section.line,
            check,
            text: if text.is_empty() { title.to_owned() } else { text.to_owned() },
            tags: Vec::new(),
            section: section.parent.unwrap_or(0),
            range: section.range.start..end,
            digest: digest(self.document.lines_of(section.body..end)),
            criteria: Vec::new(),
            parts: Vec::new(),
        })
    }

    /// Numbered items, or else all items below a heading such as `Tasks`.
    fn items(&self) -> Option<Chosen> {
        let sections = (0..).zip(&self.document.sections);
        let sections: Vec<(usize, &Section)> = sections
            .filter(|(at, _)| {
                !self.is_checklist(*at)
                    && !self.titles(*at).any(|title| NO_TASKS.contains(&title.as_str()))
            })
            .collect();
        let is_titled = |at: usize| self.titles(at).any(|title| TASKS.contains(&title.as_str()));
        let is_numbered = |item: &&Item| item.number.is_some();
        let pick = |is_wanted: &dyn Fn(usize, &Item) -> bool| {
            let mut chosen = self.nothing();
            for (at, section) in &sections {
                let items = section.items.iter().filter(|item| is_wanted(*at, item));
                chosen.tasks.extend(items.map(|item| self.numbered(item, *at)));
            }
            (!chosen.tasks.is_empty()).then(|| named(chosen))
        };
        pick(&|at, item| is_titled(at) && is_numbered(&item))
            .or_else(|| pick(&|_, item| is_numbered(&item)))
            .or_else(|| pick(&|at, _| is_titled(at)))
    }
}

/// Items without boxes: the ids that all of them have in words, or else their numbers, where these
/// tell them apart.
fn named(mut chosen: Chosen) -> Chosen {
    let written: Option<Vec<(String, String)>> = chosen
        .tasks
        .iter()
        .map(|task| {
            let head = names::head(&task.text, Ids::Any);
            Some((head.id?, head.text.to_owned()))
        })
        .collect();
    if let Some(written) = written {
        for (task, (id, text)) in chosen.tasks.iter_mut().zip(written) {
            (task.id, task.text) = (Some(id), text);
        }
    }
    let ids: BTreeSet<&String> = chosen.tasks.iter().filter_map(|task| task.id.as_ref()).collect();
    if ids.len() < chosen.tasks.len() {
        chosen.tasks.iter_mut().for_each(|task| task.id = None);
    }
    chosen.ids = Ids::Any;
    chosen
}

/// The title of a step: `Step 1: words`, `1. words`.
struct StepTitle<'a> {
    number: &'a str,
    text: &'a str,
    /// Whether it says that it is a step, and not, say, a phase.
    is_step: bool,
}

impl<'a> StepTitle<'a> {
    fn of(title: &'a str) -> Option<Self> {
        let title = unboxed(title).1.trim_matches('*');
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
