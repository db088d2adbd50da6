//! Builds the plan from the chosen tasks: steps, phases, dependencies, and the text around them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::document::Document;
use super::labels::{Label, is_acceptance_title};
use super::list_markers::Checkbox;
use super::remaining_text::RemainingText;
use super::task_ids::{self, IdStyle};
use super::tasks::{Task, TaskSelection, is_tasks_title, normalized_title, select_tasks};
use crate::files::draft::{Concurrency, ImplicitOrder, PlanDraft, StepSource, tool_extra};
use crate::files::plan_file::PlanFormat;
use crate::plan::{Criterion, Phase, Step};

/// The key of this format in `extra`.
const EXTRA: &str = "markdown";

/// Reads a Markdown text, if it has a task.
pub(crate) fn parse(name: &str, text: &str) -> Option<PlanDraft> {
    let text = text.replace("\r\n", "\n");
    let document = Document::new(&text);
    let selection = select_tasks(&document)?;
    Some(build_plan(name, &document, selection))
}

fn build_plan(name: &str, document: &Document<'_>, mut selection: TaskSelection) -> PlanDraft {
    let is_spec_kit = selection.id_style == IdStyle::SpecKit;
    let format = if is_spec_kit { PlanFormat::SpecKit } else { PlanFormat::Markdown };
    let phases = Phases::find(document, &selection);
    assign_ids(&mut selection.tasks, &phases);
    let mut builder = PlanBuilder {
        name,
        id_style: selection.id_style,
        draft: PlanDraft::new(format),
        ids: BTreeMap::new(),
        sequence: Vec::new(),
        uses_order: false,
    };
    builder.index_names(&selection.tasks);
    let mut order = ImplicitOrder::new();
    let mut phase = None;
    for task in &selection.tasks {
        let task_phase = phases.by_section.get(&task.section).cloned();
        if task_phase != phase {
            phase.clone_from(&task_phase);
            order.end_phase();
        }
        builder.add_task(task, task_phase.as_deref(), &mut order);
    }
    let mut draft = builder.draft;
    if builder.uses_order && draft.plan_file.plan.steps.len() > 1 {
        let message = "the order is used where a task has no dependencies; tasks marked [P] run in \
                       parallel";
        draft.add_note(None, message);
    }
    draft.plan_file.plan.barriers = order.barriers;
    draft.plan_file.plan.phases = phases.list;
    for (line, count) in selection.other_checkboxes.values() {
        let message = match count {
            1 => "1 checkbox is not a task: it is kept with the plan".to_owned(),
            many => format!("{many} checkboxes are not tasks: they are kept with the plan"),
        };
        draft.add_note(Some(*line), format!("{message}; add an id to make one a step"));
    }
    read_surrounding_text(&mut draft, document, &selection);
    draft
}

/// The headings that separate the tasks.
struct Phases {
    list: Vec<Phase>,
    /// The id of the phase of each section with tasks.
    by_section: BTreeMap<usize, String>,
}

impl Phases {
    fn find(document: &Document<'_>, selection: &TaskSelection) -> Self {
        let sections: BTreeSet<usize> = selection.tasks.iter().map(|task| task.section).collect();
        let chains: Vec<Vec<usize>> = sections.iter().map(|at| document.ancestors(*at)).collect();
        // A section around all tasks does not separate them.
        let first = chains.first().cloned().unwrap_or_default();
        let is_shared = |depth: &usize| {
            let at = first.get(*depth);
            chains.iter().all(|chain| chain.get(*depth) == at)
        };
        let mut shared = (0..first.len()).take_while(is_shared).count();
        let level = |at: usize| document.sections.get(at).map_or(0, |section| section.level);
        if shared == first.len()
            && chains.len() == 1
            && first.last().is_some_and(|at| level(*at) > 1)
        {
            shared = shared.saturating_sub(1);
        }
        let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
        let mut heads = Vec::new();
        let mut phase_numbers = BTreeMap::new();
        for (section, chain) in sections.iter().zip(&chains) {
            let Some(head) = chain.get(shared).copied().filter(|head| *head > 0) else { continue };
            let count = numbers.len();
            let number = *numbers.entry(head).or_insert(count);
            if number == count {
                heads.push(head);
            }
            phase_numbers.insert(*section, number);
        }
        // A single heading such as `Tasks` does not separate anything.
        let is_generic = |at: &usize| {
            document.sections.get(*at).is_some_and(|section| is_tasks_title(&section.title))
        };
        if heads.len() == 1 && heads.iter().all(is_generic) {
            return Self { list: Vec::new(), by_section: BTreeMap::new() };
        }
        let titles: Vec<&str> = heads
            .iter()
            .filter_map(|at| document.sections.get(*at))
            .map(|section| section.title.as_str())
            .collect();
        let ids = phase_ids(&titles);
        let list = ids.iter().zip(&titles);
        let list = list.map(|(id, title)| Phase { id: id.clone(), title: (*title).to_owned() });
        let by_section = phase_numbers
            .into_iter()
            .filter_map(|(at, number)| Some((at, ids.get(number)?.clone())));
        Self { list: list.collect(), by_section: by_section.collect() }
    }
}

/// The numbers of the titles if they are unique, or else the positions.
fn phase_ids(titles: &[&str]) -> Vec<String> {
    let number = |title: &&str| {
        let word = title.trim_start_matches(|c: char| c.is_alphabetic()).trim_start();
        let end = word.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(word.len());
        let number = word.get(..end)?.trim_matches('.');
        (!number.is_empty()).then(|| number.to_owned())
    };
    let numbers: Vec<String> = titles.iter().filter_map(number).collect();
    if numbers.iter().collect::<BTreeSet<_>>().len() == titles.len() {
        return numbers;
    }
    (1..=titles.len()).map(|position| position.to_string()).collect()
}

/// Gives a position as id to tasks without one, within the phase if there are several.
fn assign_ids(tasks: &mut [Task], phases: &Phases) {
    let is_single_phase = phases.list.len() <= 1;
    let ids: BTreeSet<&String> = tasks.iter().filter_map(|task| task.id.as_ref()).collect();
    // The numbers of steps under headings may restart; then positions replace them.
    let are_unique = ids.len() == tasks.len() || tasks.iter().any(|task| task.checkbox.is_some());
    let mut counts: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for task in tasks {
        let phase = phases.by_section.get(&task.section).cloned().filter(|_| !is_single_phase);
        let count = counts.entry(phase.clone()).or_default();
        *count = count.saturating_add(1);
        if task.id.is_none() || !are_unique {
            task.id = Some(match phase {
                Some(phase) => format!("{phase}.{count}"),
                None => count.to_string(),
            });
        }
        assign_subtask_ids(task);
    }
}

fn assign_subtask_ids(task: &mut Task) {
    for (position, subtask) in (1_usize..).zip(&mut task.subtasks) {
        if subtask.id.is_none() {
            subtask.id = task.id.as_ref().map(|id| format!("{id}.{position}"));
        }
        assign_subtask_ids(subtask);
    }
}

struct PlanBuilder<'a> {
    /// The name of the file.
    name: &'a str,
    id_style: IdStyle,
    draft: PlanDraft,
    /// Ids of tasks by lower-case id or title.
    ids: BTreeMap<String, String>,
    /// All ids in the order of the text.
    sequence: Vec<String>,
    /// Whether a task without dependencies follows the order.
    uses_order: bool,
}

impl PlanBuilder<'_> {
    fn index_names(&mut self, tasks: &[Task]) {
        for task in tasks {
            let id = task.id.clone().unwrap_or_default();
            self.ids.insert(id.to_lowercase(), id.clone());
            self.sequence.push(id);
            self.index_names(&task.subtasks);
        }
        for task in tasks {
            let id = task.id.clone().unwrap_or_default();
            self.ids.entry(title_of(&task.text).to_lowercase()).or_insert(id);
        }
    }

    /// Adds a task after its subtasks.
    fn add_task(&mut self, task: &Task, phase: Option<&str>, order: &mut ImplicitOrder) {
        let id = task.id.clone().unwrap_or_default();
        let is_parallel = task.tags.iter().any(|tag| tag.eq_ignore_ascii_case("p"));
        let concurrency = if is_parallel { Concurrency::Parallel } else { Concurrency::Sequential };
        let mut subtask_order = order.subtasks(concurrency);
        for subtask in &task.subtasks {
            self.add_task(subtask, phase, &mut subtask_order);
        }
        let (written, unknown) = self.read_dependencies(task);
        let after = match written {
            Some(names) if task.subtasks.is_empty() => {
                order.add_with_dependencies(&id, concurrency, names)
            }
            None if task.subtasks.is_empty() => {
                self.uses_order = true;
                order.add(&id, concurrency)
            }
            written => {
                let mut after = order.add_parent(&id, concurrency, subtask_order);
                let written = written.unwrap_or_default().into_iter();
                after.extend(written.filter(|name| !after.contains(name)).collect::<Vec<_>>());
                after
            }
        };
        if task.checkbox == Some(Checkbox::Done) {
            let source = format!("{}: line {}: [x]", self.name, task.line);
            self.draft.plan_file.done.insert(id.clone(), source);
        } else if task.checkbox == Some(Checkbox::Other) {
            self.draft.plan_file.statuses.insert(id.clone(), "[-]".to_owned());
        }
        if let Some(status) = task.labelled.texts(Label::Status).first() {
            let source = format!("{}: line {}: status {status}", self.name, task.line);
            self.draft.set_status(&id, status, source);
        }
        let step = step(task, phase, after, &unknown);
        self.draft.add_step(step, StepSource::Line(task.line));
    }

    /// The written dependencies of a task, if there are any, and the unknown names among them.
    fn read_dependencies(&mut self, task: &Task) -> (Option<Vec<String>>, Vec<String>) {
        let inline = task_ids::inline_dependencies(&task.text, self.id_style);
        let labelled = task.labelled.names(Label::After);
        let is_written = !inline.is_empty() || !task.labelled.values(Label::After).is_empty();
        let (mut found, mut unknown) = (Vec::new(), Vec::new());
        let inline = inline.into_iter().map(|name| (task.line, name));
        for (line, name) in inline.chain(labelled) {
            for part in name.split(" and ") {
                if let Some(ids) = self.resolve(part) {
                    found.extend(ids);
                } else {
                    let message = format!(
                        "there is no task `{part}`; it is kept as text, not as a dependency"
                    );
                    self.draft.add_note(Some(line), message);
                    unknown.push(part.to_owned());
                }
            }
        }
        let mut seen = BTreeSet::new();
        found.retain(|name| seen.insert(name.clone()));
        ((is_written && (unknown.is_empty() || !found.is_empty())).then_some(found), unknown)
    }

    /// The ids of the tasks that a name or range refers to. A name that looks like an id is kept; if
    /// there is no such task, the plan is invalid.
    fn resolve(&self, name: &str) -> Option<Vec<String>> {
        let name = name.split('(').next().unwrap_or_default();
        let name = name.trim_matches(|c: char| c.is_whitespace() || "#*`.:_[]".contains(c));
        let lower = name.to_lowercase();
        if let Some(id) = self.ids.get(&lower) {
            return Some(vec![id.clone()]);
        }
        let keywords = ["steps ", "step ", "tasks ", "task ", "phase "];
        let bare =
            keywords.iter().find_map(|word| lower.strip_prefix(word)).unwrap_or(&lower).trim();
        let bare = bare.trim_start_matches('#');
        let bare = bare.split([':', ' ']).next().unwrap_or_default();
        if let Some(id) = self.ids.get(bare) {
            return Some(vec![id.clone()]);
        }
        if let Some((first, last)) = bare.split_once(['-', '\u{2013}']) {
            let position = |name: &str| {
                let id = self.ids.get(name)?;
                self.sequence.iter().position(|each| each == id)
            };
            if let (Some(first), Some(last)) = (position(first), position(last)) {
                return self.sequence.get(first..=last).map(<[String]>::to_vec);
            }
        }
        let upper = name.split([':', ' ']).next().unwrap_or_default();
        task_ids::is_id(upper, self.id_style).then(|| vec![upper.to_owned()])
    }
}

/// The bold words at the start of a text, or else the whole text.
fn title_of(text: &str) -> &str {
    let bold = text.strip_prefix("**").and_then(|rest| rest.split_once("**"));
    match bold {
        Some((title, rest)) if !rest.trim().is_empty() => title.trim_end_matches(':').trim(),
        Some((title, _)) => title.trim(),
        None => text,
    }
}

fn step(task: &Task, phase: Option<&str>, after: Vec<String>, unknown: &[String]) -> Step {
    let labelled = &task.labelled;
    let mut paragraphs = labelled.texts(Label::Goal);
    paragraphs.extend(Some(labelled.notes.clone()).filter(|notes| !notes.is_empty()));
    if !unknown.is_empty() {
        paragraphs.push(format!("Depends on: {}", unknown.join(", ")));
    }
    let title = title_of(&task.text);
    let is_plain = paragraphs.is_empty() && title == task.text;
    if !task.text.is_empty() {
        paragraphs.insert(0, task.text.clone());
    }
    let criteria = labelled.texts(Label::Acceptance).into_iter().chain(task.criteria.clone());
    let files = labelled.paths();
    paragraphs.extend(files.iter().filter_map(|(_, words)| words.clone()));
    let names = |label: Label| -> Vec<String> {
        labelled.names(label).into_iter().map(|(_, name)| name).collect()
    };
    Step {
        id: task.id.clone().unwrap_or_default(),
        title: if is_plain { String::new() } else { title.to_owned() },
        goal: paragraphs.join("\n\n"),
        phase: phase.map(str::to_owned),
        owner: names(Label::Owner).into_iter().next(),
        after,
        tools: names(Label::Tools).into(),
        tags: task.tags.clone().into(),
        changes: files.into_iter().map(|(path, _)| path).collect::<Vec<_>>().into(),
        acceptance: criteria.filter(|text| !text.trim().is_empty()).map(Criterion::Text).collect(),
        ..Step::default()
    }
}

/// Reads the text around the tasks: known sections are fields of the plan, the rest is its context.
fn read_surrounding_text(
    draft: &mut PlanDraft,
    document: &Document<'_>,
    selection: &TaskSelection,
) {
    let is_spec_kit = draft.plan_file.format == PlanFormat::SpecKit;
    let plan = &mut draft.plan_file.plan;
    let mut remaining = RemainingText::new(document);
    for task in &selection.tasks {
        remaining.take(task.range.clone());
    }
    let mut top_sections = document.sections.iter().filter(|section| section.level == 1);
    if let (Some(section), None) = (top_sections.next(), top_sections.next()) {
        plan.title.clone_from(&section.title);
        remaining.take(section.range.start..section.body);
    }
    let mut fields = Map::new();
    if let Some(front) = document.front_matter.clone() {
        let text = document.slice(front.clone());
        fields.insert("front_matter".to_owned(), Value::String(text.trim_end().to_owned()));
        remaining.take(front);
    }
    plan.extra = tool_extra(EXTRA, fields);
    for (at, section) in document.sections.iter().enumerate().skip(1) {
        let range = section.range.start..document.subtree_end(at);
        if remaining.overlaps_taken(range.clone()) {
            continue;
        }
        let text = || document.slice(section.body..range.end).trim().to_owned();
        let items = || remaining.only_items(at, range.clone());
        let is_taken = match normalized_title(&section.title).as_str() {
            "outcome" => fill(&mut plan.outcome, text),
            "goal" | "objective" => fill(&mut plan.goal, text),
            "risks" | "risks and mitigations" => fill_list(&mut plan.risks, items()),
            "open questions" | "questions" => fill_list(&mut plan.open_questions, items()),
            title if is_acceptance_title(title) && !is_spec_kit => {
                let items = items().filter(|_| plan.test_criteria.is_empty());
                let items = items.map(|items| items.into_iter().map(Criterion::Text).collect());
                items.is_some_and(|items| {
                    plan.test_criteria = items;
                    true
                })
            }
            _ => false,
        };
        if is_taken {
            remaining.take(range);
        }
    }
    plan.context = remaining.into_text();
}

/// Sets a text that is still empty. Returns whether it was set.
fn fill(field: &mut String, text: impl Fn() -> String) -> bool {
    let is_free = field.is_empty();
    if is_free {
        *field = text();
    }
    is_free && !field.is_empty()
}

fn fill_list(field: &mut Vec<String>, items: Option<Vec<String>>) -> bool {
    let is_free = field.is_empty();
    match items {
        Some(items) if is_free && !items.is_empty() => *field = items,
        _ => return false,
    }
    true
}
