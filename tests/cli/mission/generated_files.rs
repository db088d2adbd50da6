//! Files of every form, generated with flaws of every class: what is read has the counts of what was
//! generated, every written dependency holds, and every flaw is in the report.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use plan_ledger_files::{self as files, CorrectionKind, PlanFile};
use proptest::prelude::*;
use serde_json::json;

/// A task to write into a file.
#[derive(Debug, Clone)]
struct Task {
    is_done: bool,
    /// Whether it has the id of the first task.
    repeats_id: bool,
    /// Tasks that it waits for, in an order that has no cycle.
    waits_for: Vec<usize>,
    /// Flaws of its dependencies.
    names_missing: bool,
    names_itself: bool,
    names_twice: bool,
}

/// Tasks whose dependencies follow a random order, not that of the file.
fn tasks() -> impl Strategy<Value = Vec<Task>> {
    let task = (any::<[bool; 5]>(), prop::collection::vec(0_usize..12, 0..3), any::<u8>());
    prop::collection::vec(task, 2..12).prop_map(|parts| {
        let ranks: Vec<(u8, usize)> =
            parts.iter().enumerate().map(|(index, (.., rank))| (*rank, index)).collect();
        let repeats = |index: usize, flags: &[bool; 5]| index > 0 && flags[1] && flags[2];
        let is_unique: Vec<bool> = {
            let any = parts.iter().enumerate().any(|(index, (flags, ..))| repeats(index, flags));
            let of = |(index, (flags, ..)): (usize, &([bool; 5], Vec<usize>, u8))| {
                !(repeats(index, flags) || (index == 0 && any))
            };
            parts.iter().enumerate().map(of).collect()
        };
        parts
            .iter()
            .enumerate()
            .map(|(index, (flags, wanted, _))| {
                let is_before = |other: &&usize| {
                    **other < parts.len() && is_unique[**other] && ranks[**other] < ranks[index]
                };
                let mut waits_for: Vec<usize> = wanted.iter().filter(is_before).copied().collect();
                waits_for.sort_unstable();
                waits_for.dedup();
                Task {
                    is_done: flags[0],
                    repeats_id: repeats(index, flags),
                    names_missing: flags[3],
                    names_itself: flags[4] && is_unique[index],
                    names_twice: flags[1],
                    waits_for,
                }
            })
            .collect()
    })
}

#[derive(Debug, Clone, Copy)]
enum Form {
    SpecKit,
    Boxes,
    Headings,
    List,
    Lines,
    TaskMaster,
    Ralph,
    Beads,
    Csv,
    Table,
}

const FORMS: [Form; 10] = [
    Form::SpecKit,
    Form::Boxes,
    Form::Headings,
    Form::List,
    Form::Lines,
    Form::TaskMaster,
    Form::Ralph,
    Form::Beads,
    Form::Csv,
    Form::Table,
];

impl Form {
    fn id(self, index: usize) -> String {
        match self {
            Self::SpecKit => format!("T{:03}", index + 1),
            Self::Boxes => format!("US-{}", index + 1),
            Self::Headings | Self::TaskMaster => (index + 1).to_string(),
            _ => format!("x-{}", index + 1),
        }
    }

    fn missing(self) -> String {
        self.id(98)
    }

    /// Whether lines with the same id are one record in this form.
    fn merges_repeated(self) -> bool {
        matches!(self, Self::Lines | Self::Beads | Self::Csv | Self::Table)
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each form, all of the same kind")]
    fn write(self, tasks: &[Task]) -> String {
        let id = |index: usize, task: &Task| self.id(if task.repeats_id { 0 } else { index });
        let names = |index: usize, task: &Task| {
            let mut names: Vec<String> = task.waits_for.iter().map(|it| self.id(*it)).collect();
            if task.names_twice {
                names.extend(names.first().cloned());
            }
            names.extend(task.names_missing.then(|| self.missing()));
            names.extend(task.names_itself.then(|| id(index, task)));
            names
        };
        let tick = |task: &Task| if task.is_done { 'x' } else { ' ' };
        let status = |task: &Task| if task.is_done { "done" } else { "pending" };
        let all = || tasks.iter().enumerate();
        let record = |index: usize, task: &Task, dependencies: serde_json::Value| {
            json!({"id": id(index, task), "title": format!("do {index}"), "status": status(task),
                   "dependencies": dependencies})
        };
        match self {
            Self::SpecKit | Self::Boxes => {
                let mut text = "# Tasks\n\n".to_owned();
                for (index, task) in all() {
                    let _ = write!(text, "- [{}] {} do {index}", tick(task), id(index, task));
                    let names = names(index, task).join(", ");
                    if !names.is_empty() {
                        let _ = write!(text, " (depends on {names})");
                    }
                    text.push('\n');
                }
                text
            }
            Self::Headings => {
                let mut text = "# Plan\n\n".to_owned();
                for (index, task) in all() {
                    let _ = write!(text, "### Task {}: do {index}\n\n", id(index, task));
                    let _ = writeln!(text, "- **Status**: {}", status(task));
                    let names: Vec<String> =
                        names(index, task).iter().map(|name| format!("Task {name}")).collect();
                    let names = if names.is_empty() { "None".to_owned() } else { names.join(", ") };
                    let _ = write!(text, "- **Dependencies**: {names}\n\n");
                }
                text
            }
            Self::List | Self::Ralph | Self::TaskMaster => {
                let key = if matches!(self, Self::Ralph) { "userStories" } else { "tasks" };
                let records = all().map(|(index, task)| {
                    let names = names(index, task);
                    let value = match (self, index % 3) {
                        (Self::List, 0) if names.is_empty() => json!("none"),
                        (Self::List, 0) => json!(names.join(", ")),
                        (Self::List, 1) => names.iter().map(|it| json!({"taskId": it})).collect(),
                        _ => json!(names),
                    };
                    let mut record = record(index, task, value);
                    if matches!(self, Self::TaskMaster) {
                        record["details"] = json!("d");
                    }
                    record
                });
                json!({ key: records.collect::<Vec<_>>() }).to_string()
            }
            Self::Lines => all()
                .map(|(index, task)| {
                    record(index, task, json!(names(index, task))).to_string() + "\n"
                })
                .collect(),
            Self::Beads => all()
                .map(|(index, task)| {
                    let edges: Vec<_> = names(index, task)
                        .iter()
                        .map(|name| json!({"depends_on_id": name, "type": "blocks"}))
                        .collect();
                    let mut record = record(index, task, json!(edges));
                    record["issue_type"] = json!("task");
                    record.to_string() + "\n"
                })
                .collect(),
            Self::Csv => {
                let mut text = "Id,Title,Status,Depends on\n".to_owned();
                for (index, task) in all() {
                    let names = names(index, task).join(", ");
                    let _ = writeln!(
                        text,
                        "{},do {index},{},\"{names}\"",
                        id(index, task),
                        status(task)
                    );
                }
                text
            }
            Self::Table => {
                let mut text =
                    "# T\n\n| ID | Task | Status | Depends on |\n|---|---|---|---|\n".to_owned();
                for (index, task) in all() {
                    let names = names(index, task).join(", ");
                    let _ = writeln!(
                        text,
                        "| {} | do {index} | {} | {names} |",
                        id(index, task),
                        status(task)
                    );
                }
                text
            }
        }
    }
}

/// The step of a task, by its title.
fn step_id(file: &PlanFile, index: usize) -> Option<&str> {
    let title = format!("do {index}");
    let is_it = |text: &str| text == title || text.starts_with(&format!("{title} "));
    let mut steps = file.plan.steps.iter();
    let found =
        steps.find(|step| is_it(&step.title) || is_it(step.goal.lines().next().unwrap_or("")));
    found.map(|step| step.id.as_str())
}

fn waits(file: &PlanFile, step: &str, other: &str) -> bool {
    let (mut seen, mut rest) = (BTreeSet::new(), vec![step.to_owned()]);
    while let Some(id) = rest.pop() {
        for step in file.plan.steps.iter().filter(|step| step.id == id) {
            assert_eq!(step.after.iter().collect::<BTreeSet<_>>().len(), step.after.len());
            rest.extend(step.after.iter().filter(|name| seen.insert((*name).clone())).cloned());
        }
        let barrier = file.plan.barriers.iter().filter(|barrier| barrier.id == id);
        rest.extend(barrier.flat_map(|barrier| barrier.members.clone()));
    }
    seen.contains(other)
}

/// The tasks that a file keeps: where lines with the same id are one record, only the last of them.
fn kept(form: Form, tasks: &[Task]) -> Vec<usize> {
    let last = tasks.iter().rposition(|task| task.repeats_id);
    let is_kept = |index: &usize| {
        let shares_id = tasks[*index].repeats_id || *index == 0;
        !form.merges_repeated() || last.is_none() || !shares_id || last == Some(*index)
    };
    (0..tasks.len()).filter(is_kept).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn flawed_files_of_every_form_are_read_completely(tasks in tasks()) {
        for form in FORMS {
            let text = form.write(&tasks);
            let file = files::parse("f", &text);
            prop_assert!(file.is_ok(), "{form:?}: {}\n{text}", file.unwrap_err());
            let file = file.unwrap();
            let kept = kept(form, &tasks);
            prop_assert_eq!(file.plan.steps.len(), kept.len(), "{:?}\n{}", form, text);
            let done = kept.iter().filter(|index| tasks[**index].is_done).count();
            prop_assert_eq!(file.done.len(), done, "{:?}\n{}", form, text);
            let count = |kind: CorrectionKind| {
                file.report.corrections.iter().filter(|each| each.kind == kind).count()
            };
            let missing = kept.iter().filter(|index| tasks[**index].names_missing).count();
            prop_assert_eq!(count(CorrectionKind::MissingDependency), missing, "{:?}\n{}", form, text);
            let own = kept.iter().filter(|index| tasks[**index].names_itself).count();
            prop_assert_eq!(count(CorrectionKind::OwnDependency), own, "{:?}\n{}", form, text);
            let repeated = tasks.iter().filter(|task| task.repeats_id).count();
            let found = count(CorrectionKind::RepeatedId) + count(CorrectionKind::RepeatedRecord);
            prop_assert_eq!(found, repeated, "{:?}\n{}", form, text);
            for index in kept {
                let id = step_id(&file, index).unwrap();
                for other in &tasks[index].waits_for {
                    let other = step_id(&file, *other).unwrap();
                    prop_assert!(waits(&file, id, other), "{form:?}: {id} on {other}\n{text}");
                }
            }
        }
    }
}
