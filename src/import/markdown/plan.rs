//! The plan of a Markdown text whose tasks are known: steps, phases, what the sections around
//! them say, and what waits for what.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::document::{Check, Document};
use super::labels::{Label, is_criteria};
use super::names::{self, Ids};
use super::prose::Prose;
use super::tasks::{Chosen, Task, is_tasks, plain_title};
use crate::import::PlanFormat;
use crate::import::draft::{Draft, Origin, kept};
use crate::import::order::{Order, Place};
use crate::plan::{Criterion, Phase, Step};

/// The name of this form's fields in `extra`.
const EXTRA: &str = "markdown";

/// The plan.
pub(super) fn draft(name: &str, document: &Document<'_>, mut chosen: Chosen) -> Draft {
    let is_spec_kit = chosen.ids == Ids::SpecKit;
    let format = if is_spec_kit { PlanFormat::SpecKit } else { PlanFormat::Markdown };
    let phases = Phases::of(document, &chosen);
    assign(&mut chosen.tasks, &phases);
    let mut build = Build {
        name,
        ids: chosen.ids,
        draft: Draft::new(format),
        known: BTreeMap::new(),
        sequence: Vec::new(),
        is_order_used: false,
    };
    build.know(&chosen.tasks);
    let mut order = Order::new();
    let mut phase = None;
    for task in &chosen.tasks {
        let of_task = phases.of.get(&task.section).cloned();
        if of_task != phase {
            phase.clone_from(&of_task);
            order.end_phase();
        }
        build.task(task, of_task.as_deref(), &mut order);
    }
    let mut draft = build.draft;
    if build.is_order_used && draft.imported.plan.steps.len() > 1 {
        let text = "order taken as dependency where a task does not say what it waits for; tasks \
                    marked [P] run beside each other";
        draft.note(None, text);
    }
    draft.imported.plan.barriers = order.barriers;
    draft.imported.plan.phases = phases.list;
    for (line, count) in chosen.others.values() {
        let what = match count {
            1 => "a box that is no task".to_owned(),
            many => format!("{many} boxes that are no tasks"),
        };
        let text =
            format!("{what}: kept with the plan, but no steps; give one an id to make it a step");
        draft.note(Some(*line), text);
    }
    around(&mut draft, document, &chosen);
    draft
}

/// The headings that part the tasks.
struct Phases {
    list: Vec<Phase>,
    /// The id of the phase of each section that has tasks.
    of: BTreeMap<usize, String>,
}

impl Phases {
    fn of(document: &Document<'_>, chosen: &Chosen) -> Self {
        let sections: BTreeSet<usize> = chosen.tasks.iter().map(|task| task.section).collect();
        let chains: Vec<Vec<usize>> = sections.iter().map(|at| document.chain(*at)).collect();
        // What holds all tasks parts none of them.
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
        let mut of = BTreeMap::new();
        for (section, chain) in sections.iter().zip(&chains) {
            let Some(head) = chain.get(shared).copied().filter(|head| *head > 0) else { continue };
            let count = numbers.len();
            let number = *numbers.entry(head).or_insert(count);
            if number == count {
                heads.push(head);
            }
            of.insert(*section, number);
        }
        // One heading that says only that tasks follow parts nothing.
        let says_tasks =
            |at: &usize| document.sections.get(*at).is_some_and(|section| is_tasks(&section.title));
        if heads.len() == 1 && heads.iter().all(says_tasks) {
            return Self { list: Vec::new(), of: BTreeMap::new() };
        }
        let titles: Vec<&str> = heads
            .iter()
            .filter_map(|at| document.sections.get(*at))
            .map(|section| section.title.as_str())
            .collect();
        let ids = phase_ids(&titles);
        let list = ids.iter().zip(&titles);
        let list = list.map(|(id, title)| Phase { id: id.clone(), title: (*title).to_owned() });
        let of = of.into_iter().filter_map(|(at, number)| Some((at, ids.get(number)?.clone())));
        Self { list: list.collect(), of: of.collect() }
    }
}

/// The numbers that the titles have, if they tell them apart; else their places.
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
    (1..=titles.len()).map(|place| place.to_string()).collect()
}

/// Gives ids to tasks that have none: their places, in their phases if there are several.
fn assign(tasks: &mut [Task], phases: &Phases) {
    let is_one = phases.list.len() <= 1;
    let ids: BTreeSet<&String> = tasks.iter().filter_map(|task| task.id.as_ref()).collect();
    // Steps under headings may count anew; then their places tell them apart.
    let are_unique = ids.len() == tasks.len() || tasks.iter().any(|task| task.check.is_some());
    let mut counts: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for task in tasks {
        let phase = phases.of.get(&task.section).cloned().filter(|_| !is_one);
        let count = counts.entry(phase.clone()).or_default();
        *count = count.saturating_add(1);
        if task.id.is_none() || !are_unique {
            task.id = Some(match phase {
                Some(phase) => format!("{phase}.{count}"),
                None => count.to_string(),
            });
        }
        assign_parts(task);
    }
}

fn assign_parts(task: &mut Task) {
    for (place, part) in (1_usize..).zip(&mut task.parts) {
        if part.id.is_none() {
            part.id = task.id.as_ref().map(|id| format!("{id}.{place}"));
        }
        assign_parts(part);
    }
}

struct Build<'a> {
    name: &'a str,
    ids: Ids,
    draft: Draft,
    /// The id that a name means, in small letters: an id, or a title.
    known: BTreeMap<String, String>,
    /// All ids, in the order of the text.
    sequence: Vec<String>,
    is_order_used: bool,
}

impl Build<'_> {
    fn know(&mut self, tasks: &[Task]) {
        for task in tasks {
            let id = task.id.clone().unwrap_or_default();
            self.known.insert(id.to_lowercase(), id.clone());
            self.sequence.push(id);
            self.know(&task.parts);
        }
        for task in tasks {
            let id = task.id.clone().unwrap_or_default();
            self.known.entry(title_of(&task.text).to_lowercase()).or_insert(id);
        }
    }

    /// Adds a task after its parts.
    fn task(&mut self, task: &Task, phase: Option<&str>, order: &mut Order) {
        let id = task.id.clone().unwrap_or_default();
        let is_beside = task.tags.iter().any(|tag| tag.eq_ignore_ascii_case("p"));
        let place = if is_beside { Place::Beside } else { Place::Alone };
        let mut parts = order.parts(&place);
        for part in &task.parts {
            self.task(part, phase, &mut parts);
        }
        let (written, unknown) = self.named(task);
        let after = match written {
            Some(names) if task.parts.is_empty() => order.named(&id, &place, names),
            None if task.parts.is_empty() => {
                self.is_order_used = true;
                order.next(&id, &place)
            }
            written => {
                let mut after = order.whole(&id, &place, parts);
                let written = written.unwrap_or_default().into_iter();
                after.extend(written.filter(|name| !after.contains(name)).collect::<Vec<_>>());
                after
            }
        };
        if task.check == Some(Check::Done) {
            let source = format!("{}: line {}: [x]", self.name, task.line);
            self.draft.imported.done.insert(id.clone(), source);
        } else if task.check == Some(Check::Other) {
            self.draft.imported.statuses.insert(id.clone(), "[-]".to_owned());
        }
        if let Some(status) = task.digest.texts(Label::Status).first() {
            let source = format!("{}: line {}: status {status}", self.name, task.line);
            self.draft.status(&id, status, source);
        }
        let step = step(task, phase, after, &unknown);
        self.draft.step(step, Origin::Line(task.line));
    }

    /// What a task says that it waits for, if it says so at all; and what nothing is called.
    fn named(&mut self, task: &Task) -> (Option<Vec<String>>, Vec<String>) {
        let inline = names::waits_for(&task.text, self.ids);
        let labelled = task.digest.names(Label::After);
        let is_said = !inline.is_empty() || !task.digest.values(Label::After).is_empty();
        let (mut found, mut unknown) = (Vec::new(), Vec::new());
        let inline = inline.into_iter().map(|name| (task.line, name));
        for (line, name) in inline.chain(labelled) {
            for part in name.split(" and ") {
                if let Some(ids) = self.meant(part) {
                    found.extend(ids);
                } else {
                    let text = format!("no task is called `{part}`: kept as text, not waited for");
                    self.draft.note(Some(line), text);
                    unknown.push(part.to_owned());
                }
            }
        }
        let mut seen = BTreeSet::new();
        found.retain(|name| seen.insert(name.clone()));
        ((is_said && (unknown.is_empty() || !found.is_empty())).then_some(found), unknown)
    }

    /// The ids that a name stands for. One that looks like an id stands for itself: if there is no
    /// such task, the judge of plans says so.
    fn meant(&self, name: &str) -> Option<Vec<String>> {
        let name = name.split('(').next().unwrap_or_default();
        let name = name.trim_matches(|c: char| c.is_whitespace() || "#*`.:_[]".contains(c));
        let lower = name.to_lowercase();
        if let Some(id) = self.known.get(&lower) {
            return Some(vec![id.clone()]);
        }
        let word = ["steps ", "step ", "tasks ", "task ", "phase "];
        let bare = word.iter().find_map(|word| lower.strip_prefix(word)).unwrap_or(&lower).trim();
        let bare = bare.trim_start_matches('#');
        let bare = bare.split([':', ' ']).next().unwrap_or_default();
        if let Some(id) = self.known.get(bare) {
            return Some(vec![id.clone()]);
        }
        if let Some((first, last)) = bare.split_once(['-', '\u{2013}']) {
            let place = |name: &str| {
                let id = self.known.get(name)?;
                self.sequence.iter().position(|each| each == id)
            };
            if let (Some(first), Some(last)) = (place(first), place(last)) {
                return self.sequence.get(first..=last).map(<[String]>::to_vec);
            }
        }
        let upper = name.split([':', ' ']).next().unwrap_or_default();
        names::is_id(upper, self.ids).then(|| vec![upper.to_owned()])
    }
}

/// The bold words that a text begins with, or else all of it.
fn title_of(text: &str) -> &str {
    let bold = text.strip_prefix("**").and_then(|rest| rest.split_once("**"));
    match bold {
        Some((title, rest)) if !rest.trim().is_empty() => title.trim_end_matches(':').trim(),
        Some((title, _)) => title.trim(),
        None => text,
    }
}

fn step(task: &Task, phase: Option<&str>, after: Vec<String>, unknown: &[String]) -> Step {
    let digest = &task.digest;
    let mut parts = digest.texts(Label::Goal);
    parts.extend(Some(digest.notes.clone()).filter(|notes| !notes.is_empty()));
    if !unknown.is_empty() {
        parts.push(format!("Depends on: {}", unknown.join(", ")));
    }
    let title = title_of(&task.text);
    let is_plain = parts.is_empty() && title == task.text;
    if !task.text.is_empty() {
        parts.insert(0, task.text.clone());
    }
    let criteria = digest.texts(Label::Acceptance).into_iter().chain(task.criteria.clone());
    let files = digest.paths();
    parts.extend(files.iter().filter_map(|(_, words)| words.clone()));
    let names = |label: Label| -> Vec<String> {
        digest.names(label).into_iter().map(|(_, name)| name).collect()
    };
    Step {
        id: task.id.clone().unwrap_or_default(),
        title: if is_plain { String::new() } else { title.to_owned() },
        goal: parts.join("\n\n"),
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

/// What stands around the tasks: known sections are fields of the plan, the rest its context.
fn around(draft: &mut Draft, document: &Document<'_>, chosen: &Chosen) {
    let is_spec_kit = draft.imported.format == PlanFormat::SpecKit;
    let plan = &mut draft.imported.plan;
    let mut prose = Prose::new(document);
    for task in &chosen.tasks {
        prose.take(task.range.clone());
    }
    let tops: Vec<usize> =
        (1..document.sections.len()).filter(|at| is_title(document, *at)).collect();
    if let [top] = tops.as_slice()
        && let Some(section) = document.sections.get(*top)
    {
        plan.title.clone_from(&section.title);
        prose.take(section.range.start..section.body);
    }
    let mut fields = Map::new();
    if let Some(front) = document.front.clone() {
        let text = document.slice(front.clone());
        fields.insert("front_matter".to_owned(), Value::String(text.trim_end().to_owned()));
        prose.take(front);
    }
    plan.extra = kept(EXTRA, fields);
    for (at, section) in document.sections.iter().enumerate().skip(1) {
        let range = section.range.start..document.whole_end(at);
        if prose.is_touched(range.clone()) {
            continue;
        }
        let text = || document.slice(section.body..range.end).trim().to_owned();
        let items = || prose.only_items(at, range.clone());
        let is_taken = match plain_title(&section.title).as_str() {
            "outcome" => fill(&mut plan.outcome, text),
            "goal" | "objective" => fill(&mut plan.goal, text),
            "risks" | "risks and mitigations" => fill_list(&mut plan.risks, items()),
            "open questions" | "questions" => fill_list(&mut plan.open_questions, items()),
            title if is_criteria(title) && !is_spec_kit => {
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
            prose.take(range);
        }
    }
    plan.context = prose.rest();
}

/// Whether a section is the only heading of the highest level, which then is the title.
fn is_title(document: &Document<'_>, at: usize) -> bool {
    document.sections.get(at).is_some_and(|section| section.level == 1)
}

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
