//! Builds the plan from the chosen tasks: steps, phases, dependencies, and the text around them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::concurrency::{Waves, parallel_phases, waves};
use super::labels::Label;
use super::list_markers::Checkbox;
use super::outline::Outline;
use super::refused_labels;
use super::surrounding;
use super::task_ids::{self, IdStyle, without_done};
use super::tasks::{Marks, Task, TaskSelection, is_tasks_title, selections};
use crate::draft::{
    Concurrency, ImplicitOrder, PlanDraft, StepSource, TaskStatus, UniqueIds, range_note,
    success_criterion,
};
use crate::plan_file::PlanFormat;
use crate::read_report::{CorrectionKind, OPTIONAL_TAG, Reading};
use plan_ledger::plan::{Criterion, Phase, Step};

/// A plan in one of the readings of its text.
pub(crate) struct MarkdownReading {
    pub(crate) draft: PlanDraft,
    pub(crate) reading: Reading,
    /// What shows its tasks.
    pub(crate) marks: Marks,
}

/// Reads a Markdown text in the default way, if it has a task.
pub(crate) fn parse(
    name: &str,
    outline: &Outline<'_>,
    is_prose_allowed: bool,
) -> Option<PlanDraft> {
    readings(name, outline, is_prose_allowed).into_iter().next().map(|found| found.draft)
}

/// The plan of a Markdown text in each of its readings, the default first; empty if it has no task. `is_prose_allowed`:
/// numbered items anywhere are tasks, as they are where lines say `step 1:`.
pub(crate) fn readings(
    name: &str,
    outline: &Outline<'_>,
    is_prose_allowed: bool,
) -> Vec<MarkdownReading> {
    let found = selections(outline, is_prose_allowed || outline.has_step_lines).into_iter();
    let read = |selection: TaskSelection| MarkdownReading {
        reading: selection.reading,
        marks: selection.marks,
        draft: build_plan(name, outline, selection),
    };
    found.map(read).collect()
}

fn build_plan(name: &str, outline: &Outline<'_>, mut selection: TaskSelection) -> PlanDraft {
    let is_spec_kit = selection.id_style == IdStyle::SpecKit;
    let whole_status = surrounding::done_status(outline);
    let format = if is_spec_kit { PlanFormat::SpecKit } else { PlanFormat::Markdown };
    let phases = Phases::find(outline, &selection);
    let mut draft = PlanDraft::new(format);
    let repeated = assign_ids(&mut selection.tasks, &phases);
    if outline.has_step_lines {
        name_steps(&mut selection.tasks);
    }
    for (id, name, line) in repeated {
        draft.add_correction(CorrectionKind::RepeatedId, &id, &name, Some(line));
    }
    let mut builder = PlanBuilder {
        name,
        id_style: selection.id_style,
        draft,
        names: BTreeMap::new(),
        sequence: Vec::new(),
        ids: BTreeSet::new(),
        blocked: BTreeMap::new(),
        uses_order: false,
        waves: waves(outline),
        outline,
    };
    for task in &selection.tasks {
        builder.index_names(task, phases.of(task));
    }
    for task in &selection.tasks {
        builder.index_blocked(task, phases.of(task));
    }
    let mut order = ImplicitOrder::new();
    let mut phase = None;
    for task in &selection.tasks {
        let task_phase = phases.of(task).map(str::to_owned);
        if task_phase != phase {
            phase.clone_from(&task_phase);
            let is_parallel = phase.as_ref().is_some_and(|id| phases.parallel.contains(id));
            let concurrency =
                if is_parallel { Concurrency::Parallel } else { Concurrency::Sequential };
            order.begin_phase(concurrency);
        }
        builder.add_task(task, task_phase.as_deref(), None, &mut order);
    }
    let mut draft = builder.draft;
    if let [only] = phases.parallel.iter().collect::<Vec<_>>().as_slice() {
        let only = only.escape_debug();
        let message = format!(
            "phase `{only}` may run beside others, and none of them says so: it has no effect"
        );
        draft.add_note(None, message);
    }
    if let Some(status) = whole_status {
        let source = format!("{name}: {status}");
        for (index, id) in step_ids(&draft).into_iter().enumerate() {
            let line = draft.source.line_of_step(index);
            draft.close_part(&id, &status, source.clone(), line);
        }
    }
    close_finished_phases(&mut draft, name, outline, &selection.tasks);
    refused_labels::report(&mut draft, outline, &selection.tasks);
    if builder.uses_order && draft.plan_file.plan.steps.len() > 1 {
        let message = "the order is used where a task has no dependencies; tasks marked [P] run in \
                       parallel";
        draft.add_note(None, message);
    }
    draft.plan_file.plan.barriers = order.barriers;
    draft
        .plan_file
        .plan
        .barriers
        .extend(builder.waves.map(|waves| waves.barriers).unwrap_or_default());
    draft.plan_file.plan.phases = phases.list;
    surrounding::read(&mut draft, outline, &selection);
    refused_labels::report_around(&mut draft, outline, &selection);
    draft
}

/// Marks the open tasks below a heading that says that it is done (`## Phase 1: Draw (done)`).
fn close_finished_phases(draft: &mut PlanDraft, name: &str, outline: &Outline<'_>, tasks: &[Task]) {
    let finished = outline.sections.iter().enumerate().filter_map(|(at, section)| {
        without_done(&section.title).map(|title| (at, (section.line, title)))
    });
    let finished: BTreeMap<usize, (u64, String)> = finished.collect();
    for task in tasks {
        let around = outline.ancestors(task.section);
        let Some((line, title)) = around.iter().find_map(|at| finished.get(at)) else { continue };
        let source = format!("{name}: line {line}: {title} is done");
        let mut rest = vec![task];
        while let Some(task) = rest.pop().filter(|task| !task.is_optional) {
            let id = task.id.as_deref().unwrap_or_default();
            draft.close_part(id, title, source.clone(), Some(task.line));
            rest.extend(&task.subtasks);
        }
    }
}

fn step_ids(draft: &PlanDraft) -> Vec<String> {
    draft.plan_file.plan.steps.iter().map(|step| step.id.clone()).collect()
}

/// The headings that separate the tasks.
struct Phases {
    list: Vec<Phase>,
    /// The id of the phase of each section with tasks.
    by_section: BTreeMap<usize, String>,
    /// The ids of the phases that are marked `[P]`.
    parallel: BTreeSet<String>,
}

impl Phases {
    /// The id of the phase of a task.
    fn of(&self, task: &Task) -> Option<&str> {
        match task.item_phase {
            Some(at) => self.list.get(at).map(|phase| phase.id.as_str()),
            None => self.by_section.get(&task.section).map(String::as_str),
        }
    }

    fn find(outline: &Outline<'_>, selection: &TaskSelection) -> Self {
        if !selection.item_phases.is_empty() {
            let phase = |(at, title): (usize, &String)| Phase {
                id: at.saturating_add(1).to_string(),
                title: title.clone(),
            };
            let list = selection.item_phases.iter().enumerate().map(phase).collect();
            return Self::new(list, BTreeMap::new());
        }
        let sections: BTreeSet<usize> = selection.tasks.iter().map(|task| task.section).collect();
        let chains: Vec<Vec<usize>> = sections.iter().map(|at| outline.ancestors(*at)).collect();
        // A section around all tasks does not separate them.
        let first = chains.first().cloned().unwrap_or_default();
        let is_shared = |depth: &usize| {
            let at = first.get(*depth);
            chains.iter().all(|chain| chain.get(*depth) == at)
        };
        let mut shared = (0..first.len()).take_while(is_shared).count();
        let level = |at: usize| outline.sections.get(at).map_or(0, |section| section.level);
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
            outline.sections.get(*at).is_some_and(|section| is_tasks_title(&section.title))
        };
        if heads.len() == 1 && heads.iter().all(is_generic) {
            return Self::new(Vec::new(), BTreeMap::new());
        }
        let titles: Vec<&str> = heads
            .iter()
            .filter_map(|at| outline.sections.get(*at))
            .map(|section| section.title.as_str())
            .collect();
        let ids = phase_ids(&titles);
        let list = ids.iter().zip(&titles);
        let list = list.map(|(id, title)| Phase { id: id.clone(), title: (*title).to_owned() });
        let by_section = phase_numbers
            .into_iter()
            .filter_map(|(at, number)| Some((at, ids.get(number)?.clone())));
        Self::new(list.collect(), by_section.collect())
    }

    /// Takes the marks `[P]` out of the titles, and reads what they say in words.
    fn new(mut list: Vec<Phase>, by_section: BTreeMap<usize, String>) -> Self {
        let mut parallel = parallel_phases(&list);
        for phase in &mut list {
            let words = || phase.title.split_whitespace();
            if words().any(|word| PARALLEL_MARKS.contains(&word)) {
                let rest: Vec<&str> = words().filter(|it| !PARALLEL_MARKS.contains(it)).collect();
                phase.title = rest.join(" ");
                parallel.insert(phase.id.clone());
            }
        }
        Self { list, by_section, parallel }
    }
}

/// The marks of a phase that does not wait for the phase before it.
const PARALLEL_MARKS: [&str; 2] = ["[P]", "(P)"];

/// Gives tasks the names in their lines `step 1: pull_credit`, if all names differ, as in `step 4: human_review
/// (conditional)`. Their numbers remain valid in dependencies.
fn name_steps(tasks: &mut [Task]) {
    let name = |task: &Task| {
        let (name, rest) = task.text.split_once(' ').unwrap_or((&task.text, "("));
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        let is_alone = is_name && rest.starts_with('(') && task.subtasks.is_empty();
        is_alone.then(|| name.to_owned())
    };
    let names: Option<Vec<String>> = tasks.iter().map(name).collect();
    let names = names.unwrap_or_default();
    if names.iter().collect::<BTreeSet<_>>().len() == tasks.len() {
        for (task, name) in tasks.iter_mut().zip(names) {
            task.written = task.id.replace(name);
        }
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

/// Gives a position as id to tasks without one, within the phase if there are several, and makes the
/// ids unique. Numbers that begin anew in a phase get the id of the phase as a prefix; any other
/// repeated id gets `-2`, `-3`. Returns the tasks with other ids than in the file.
fn assign_ids(tasks: &mut [Task], phases: &Phases) -> Vec<(String, String, u64)> {
    let is_single_phase = phases.list.len() <= 1;
    let phase_of = |task: &Task| phases.of(task).map(str::to_owned).filter(|_| !is_single_phase);
    let is_number = |id: &str| id.chars().all(|c| c.is_ascii_digit());
    let mut first_phases: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut begins_anew = false;
    for task in tasks.iter() {
        if let Some(id) = task.id.as_ref().filter(|id| is_number(id)) {
            let phase = phase_of(task);
            let first = first_phases.entry(id.clone()).or_insert_with(|| phase.clone());
            begins_anew |= *first != phase;
        }
    }
    let mut counts: BTreeMap<Option<String>, usize> = BTreeMap::new();
    let mut unique = UniqueIds::default();
    let mut repeated = Vec::new();
    for task in tasks.iter_mut() {
        let phase = phase_of(task);
        let count = counts.entry(phase.clone()).or_default();
        *count = count.saturating_add(1);
        let id = match (&task.id, &phase) {
            (Some(id), Some(phase)) if begins_anew && is_number(id) => format!("{phase}.{id}"),
            (Some(id), _) => id.clone(),
            (None, Some(phase)) => format!("{phase}.{count}"),
            (None, None) => count.to_string(),
        };
        assign_id(&mut unique, task, &id, &mut repeated);
    }
    repeated
}

/// Gives a task and its subtasks ids of their own.
fn assign_id(
    unique: &mut UniqueIds,
    task: &mut Task,
    id: &str,
    repeated: &mut Vec<(String, String, u64)>,
) {
    let found = unique.take(id);
    if let Some(written) = task.id.as_ref().filter(|written| **written != found) {
        repeated.push((found.clone(), written.clone(), task.line));
    }
    task.written = task.id.replace(found.clone());
    for (position, subtask) in (1_usize..).zip(&mut task.subtasks) {
        let inner = match &subtask.id {
            // The id of a subtask may be only its number in the task.
            Some(id) if unique.contains(id) && id.chars().all(|c| c.is_ascii_digit()) => {
                format!("{found}.{id}")
            }
            Some(id) => id.clone(),
            None => format!("{found}.{position}"),
        };
        assign_id(unique, subtask, &inner, repeated);
    }
}

struct PlanBuilder<'a> {
    outline: &'a Outline<'a>,
    /// The name of the file.
    name: &'a str,
    id_style: IdStyle,
    draft: PlanDraft,
    /// The tasks of each name in lower case, in the order of the text: phase and id.
    names: BTreeMap<String, Vec<(Option<String>, String)>>,
    /// All ids in the order of the text, and as a set.
    sequence: Vec<String>,
    ids: BTreeSet<String>,
    /// The tasks that say that they block another one, by the id of that one.
    blocked: BTreeMap<String, Vec<String>>,
    /// Whether a task without dependencies follows the order.
    uses_order: bool,
    /// The waves that the file puts its tasks into.
    waves: Option<Waves>,
}

impl PlanBuilder<'_> {
    fn index_names(&mut self, task: &Task, phase: Option<&str>) {
        let id = task.id.clone().unwrap_or_default();
        let title = title_of(&task.text).to_lowercase();
        let mut names = vec![id.to_lowercase()];
        names.extend(task.written.as_ref().map(|written| written.to_lowercase()));
        names.push(title);
        names.dedup();
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            self.names.entry(name).or_default().push((phase.map(str::to_owned), id.clone()));
        }
        self.ids.insert(id.clone());
        self.sequence.push(id);
        for subtask in &task.subtasks {
            self.index_names(subtask, phase);
        }
    }

    /// Notes the tasks that a task blocks.
    fn index_blocked(&mut self, task: &Task, phase: Option<&str>) {
        let id = task.id.clone().unwrap_or_default();
        for name in task_ids::inline_blocked(&task.text, self.id_style) {
            if let Some(found) = self.named(&name.to_lowercase(), phase) {
                self.blocked.entry(found).or_default().push(id.clone());
            }
        }
        for subtask in &task.subtasks {
            self.index_blocked(subtask, phase);
        }
    }

    /// The id of the task with a name: the one of the same phase, or else the first one.
    fn named(&self, name: &str, phase: Option<&str>) -> Option<String> {
        let found = self.names.get(name)?;
        let own = found.iter().find(|(each, _)| each.as_deref() == phase);
        own.or_else(|| found.first()).map(|(_, id)| id.clone())
    }

    /// Adds a task after its subtasks. `around` is the task around it that is marked as done, if any.
    fn add_task(
        &mut self,
        task: &Task,
        phase: Option<&str>,
        around: Option<&Task>,
        order: &mut ImplicitOrder,
    ) {
        let id = task.id.clone().unwrap_or_default();
        let is_parallel = task.tags.iter().any(|tag| tag.eq_ignore_ascii_case("p"));
        let concurrency = if is_parallel { Concurrency::Parallel } else { Concurrency::Sequential };
        let ticked = around.or_else(|| is_marked_done(task).then_some(task));
        let parts = (!task.subtasks.is_empty()).then(|| {
            let mut parts = order.subtasks(concurrency);
            for subtask in &task.subtasks {
                self.add_task(subtask, phase, ticked, &mut parts);
            }
            parts
        });
        let (written, unknown) = self.read_dependencies(task, phase);
        let mut after = written.clone().unwrap_or_default();
        let inferred = match (parts, written) {
            (Some(parts), _) => order.add_parent(&id, concurrency, parts),
            (None, Some(names)) => {
                let all = order.add_with_dependencies(&id, concurrency, names.clone());
                all.into_iter().skip(names.len()).collect()
            }
            (None, None) => {
                self.uses_order = true;
                order.add(&id, concurrency)
            }
        };
        let inferred = match self.waves.as_ref().and_then(|waves| waves.before.get(&id)) {
            Some(before) => before.clone(),
            None => inferred,
        };
        after.extend(self.blocked.get(&id).cloned().unwrap_or_default());
        self.read_marks(&id, task);
        // An optional task may be left open on purpose.
        if let Some(around) = around.filter(|_| !task.is_optional) {
            let source = format!("{}: line {}: [x]", self.name, around.line);
            let around = around.id.as_deref().unwrap_or_default();
            self.draft.close_part(&id, around, source, Some(task.line));
        }
        let typed = task.labelled.typed().flat_map(|(_, texts)| texts);
        for text in task.labelled.texts(Label::Success).into_iter().chain(typed) {
            if let Some(note) = range_note(&text) {
                self.draft.add_note(Some(task.line), note);
            }
        }
        self.draft.facts.listed.extend(task.labelled.texts(Label::Checks));
        let mut step = step(task, phase, after, &unknown);
        step.outputs.dedup();
        let last = self.outline.line(task.range.end.saturating_sub(1));
        let status = task.labelled.values(Label::Status).first().map(|value| value.line);
        let source = StepSource::Lines { first: task.line, last, status };
        self.draft.add_step(step, source, inferred);
    }

    fn read_marks(&mut self, id: &str, task: &Task) {
        if let Some(Checkbox::Other(mark)) = task.checkbox {
            self.draft.plan_file.statuses.insert(id.to_owned(), format!("[{mark}]"));
        }
        if task.is_done() {
            let mark =
                if task.checkbox == Some(Checkbox::Done) { "[x]" } else { "all parts are ticked" };
            let source = format!("{}: line {}: {mark}", self.name, task.line);
            self.draft.plan_file.done.insert(id.to_owned(), source);
        }
        let text = task.text.trim();
        let struck = text.strip_prefix("~~").and_then(|rest| rest.strip_suffix("~~"));
        if struck.is_some_and(|inner| !inner.contains("~~")) && !task.is_done() {
            let source = format!("{}: line {}: ~~", self.name, task.line);
            self.draft.plan_file.skipped.insert(id.to_owned(), source);
        }
        if let Some(status) = task.labelled.texts(Label::Status).first() {
            let source = format!("{}: line {}: status {status}", self.name, task.line);
            self.draft.set_status(id, status, source);
        }
    }

    /// The written dependencies of a task, if there are any, and the unknown names among them.
    fn read_dependencies(
        &mut self,
        task: &Task,
        phase: Option<&str>,
    ) -> (Option<Vec<String>>, Vec<String>) {
        let inline = task_ids::inline_dependencies(&task.text, self.id_style);
        let labelled = task.labelled.names(Label::After);
        let is_written = !inline.is_empty() || !task.labelled.values(Label::After).is_empty();
        let (mut found, mut unknown) = (Vec::new(), Vec::new());
        let inline = inline.into_iter().map(|name| (task.line, name));
        for (line, name) in inline.chain(labelled) {
            if self.ids.contains(&name) {
                found.push(name);
                continue;
            }
            for part in name.split(" and ") {
                if let Some(ids) = self.resolve(part, phase) {
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

    /// The ids of the tasks that a name or range refers to. A name that looks like an id is kept;
    /// if no task has it, the dependency is dropped and reported.
    fn resolve(&self, name: &str, phase: Option<&str>) -> Option<Vec<String>> {
        let name = name.split('(').next().unwrap_or_default();
        let name = name.trim_matches(|c: char| c.is_whitespace() || "#*`.:_[]".contains(c));
        let lower = name.to_lowercase();
        if let Some(id) = self.named(&lower, phase) {
            return Some(vec![id]);
        }
        let keywords =
            ["steps ", "step ", "tasks ", "task ", "phase ", "stories ", "story ", "epic "];
        let bare =
            keywords.iter().find_map(|word| lower.strip_prefix(word)).unwrap_or(&lower).trim();
        let bare = bare.trim_start_matches('#');
        let bare = bare.split([':', ' ']).next().unwrap_or_default();
        if let Some(id) = self.named(bare, phase) {
            return Some(vec![id]);
        }
        if let Some((first, last)) = bare.split_once(['-', '\u{2013}']) {
            let position = |name: &str| {
                let id = self.named(name, phase)?;
                self.sequence.iter().position(|each| *each == id)
            };
            if let (Some(first), Some(last)) = (position(first), position(last)) {
                return self.sequence.get(first..=last).map(<[String]>::to_vec);
            }
        }
        let first = name.split([':', ' ']).next().unwrap_or_default();
        let mut names = [first, bare].into_iter();
        let found = names.find(|name| task_ids::is_id(name, self.id_style));
        found.map(|name| vec![name.to_owned()])
    }
}

/// Whether the task itself is marked as done.
fn is_marked_done(task: &Task) -> bool {
    let status = task.labelled.texts(Label::Status);
    task.checkbox == Some(Checkbox::Done)
        || status.first().is_some_and(|word| TaskStatus::parse(word) == TaskStatus::Done)
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
    let mut step = Step {
        id: task.id.clone().unwrap_or_default(),
        title: title.to_owned(),
        phase: phase.map(str::to_owned),
        after,
        ..Step::default()
    };
    // Criteria are read first, because a time limit may turn them into a question for a person.
    for text in labelled.texts(Label::Success) {
        let (criterion, name) = success_criterion(&text);
        step.acceptance.push(criterion);
        step.outputs.extend(name);
    }
    let mut words = Vec::new();
    for (field, values) in labelled.typed() {
        let values = values.into_iter().map(Value::String).collect::<Vec<_>>();
        for value in values {
            words.extend(field.set(&mut step, &value));
        }
    }
    paragraphs.extend(Some(words.join("\n")).filter(|words| !words.is_empty()));
    if let Some(word) = labelled.texts(Label::Priority).first() {
        match priority(word) {
            Some(priority) => step.priority = priority,
            None => paragraphs.push(format!("Priority: {word}")),
        }
    } else if let Some(priority) = task.tags.iter().find_map(|tag| priority(tag)) {
        step.priority = priority;
    }
    let is_plain = paragraphs.is_empty() && title == task.text;
    if !task.text.is_empty() {
        paragraphs.insert(0, task.text.clone());
    }
    let criteria = task.criteria.iter().map(|(_, text)| text.clone());
    let checks = labelled.texts(Label::Checks).into_iter();
    let criteria = labelled.texts(Label::Acceptance).into_iter().chain(checks).chain(criteria);
    step.acceptance.extend(criteria.filter(|text| !text.trim().is_empty()).map(Criterion::Text));
    let files = labelled.paths();
    paragraphs.extend(files.iter().filter_map(|(_, words)| words.clone()));
    step.changes = files.into_iter().map(|(path, _)| path).collect::<Vec<_>>().into();
    let names = |label: Label| -> Vec<String> {
        labelled.names(label).into_iter().map(|(_, name)| name).collect()
    };
    step.owner = names(Label::Owner).into_iter().next();
    step.tools = names(Label::Tools).into();
    let mut tags = task.tags.clone();
    tags.extend(Some(OPTIONAL_TAG.to_owned()).filter(|_| task.is_optional));
    step.tags = tags.into();
    step.goal = paragraphs.join("\n\n");
    if is_plain {
        step.title.clear();
    }
    step
}

/// The priority of a word such as `P0` or `high`.
fn priority(word: &str) -> Option<i32> {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    Some(match word.as_str() {
        "critical" | "urgent" | "highest" | "p0" => 20,
        "high" | "p1" => 10,
        "medium" | "normal" | "p2" => 0,
        "low" | "p3" => -10,
        "lowest" | "p4" => -20,
        _ => return None,
    })
}
