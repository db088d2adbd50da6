//! A folder with a file for each task, the folder of a backup that splits issues into files, and the
//! folder of phases with a file for each plan that GSD writes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::embedded::task_elements;
use crate::diagnostic::{ReadResult, of_syntax, plan_error};
use crate::markdown::Outline;
use crate::plan_file::PlanFormat;
use crate::syntax::{Node, json_tree, read_text, without_byte_order_mark};
use crate::{markdown, records};
use plan_ledger::plan::Step;
use plan_ledger::{Error, Result};

/// The most files of a folder that are read.
const FILES_MAX: usize = 100_000;

/// The content of a folder.
pub(super) struct Folder {
    /// A row for each task, in order.
    pub(super) rows: Node,
    /// The form, if the rows do not show it.
    pub(super) format: Option<PlanFormat>,
    /// How many files have no task.
    pub(super) unread: usize,
}

/// Reads the tasks of a folder, or of the folder `tasks` in it.
pub(super) fn read_folder(path: &Path) -> Result<Folder> {
    if let Some(plans) = gsd_plans(path)? {
        let (records, unread) = gsd_tasks(&plans)?;
        if !records.is_empty() {
            let format = Some(PlanFormat::Gsd);
            return Ok(Folder { rows: Node::list_of(records), format, unread });
        }
    }
    let inner = path.join("tasks");
    let path = if inner.is_dir() { inner.as_path() } else { path };
    if path.join("issues.jsonl").is_file() {
        let (rows, format) = (Node::list_of(read_issues(path)?), Some(PlanFormat::Beads));
        return Ok(Folder { rows, format, unread: 0 });
    }
    let (mut records, mut unread) = (Vec::new(), 0_usize);
    for file in files(path)? {
        let extension = file.extension().and_then(|it| it.to_str()).unwrap_or_default();
        if !["json", "md"].contains(&extension) {
            continue;
        }
        let text = read_text(&file, "task file")?;
        let text = without_byte_order_mark(&text);
        let record = if extension == "json" {
            of_syntax(json_tree(text)).map(|tree| tree.map(|tree| records::value_of(&tree)))
        } else {
            Outline::parse(text).and_then(|outline| task(&outline))
        };
        let record = record.map_err(|error| Error::from(error).at_path(&file))?;
        match record.filter(|record: &Value| record.is_object()) {
            Some(record) => records.push((1, record)),
            None => unread = unread.saturating_add(1),
        }
    }
    if records.is_empty() {
        let message = "the folder has no task files: expected JSON files with a task each, or \
                       Markdown files with fields between `---` lines";
        return Err(plan_error(message).at_path(path));
    }
    Ok(Folder { rows: Node::list_of(records), format: None, unread })
}

/// The files of a folder, in the order of the numbers in their names.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let failed = |source| Error::io("read the folder", path, source);
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        if file.is_file() {
            files.push(file);
        }
    }
    if files.len() > FILES_MAX {
        let message = format!("{} files, at most {FILES_MAX}; split the folder", files.len());
        return Err(plan_error(message).at_path(path));
    }
    let number = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let digits: String = name.chars().filter(char::is_ascii_digit).take(18).collect();
        (digits.parse::<u64>().unwrap_or(u64::MAX), name)
    };
    files.sort_by_cached_key(number);
    Ok(files)
}

/// The record of a task in Markdown: its front matter, and a field for each section.
pub(super) fn task(outline: &Outline<'_>) -> ReadResult<Option<Value>> {
    let front = outline.front_fields()?.map(records::value_of);
    let Some(Value::Object(mut fields)) = front else { return Ok(None) };
    for (title, text) in outline.section_texts() {
        let field = if title.is_empty() { "body".to_owned() } else { title };
        fields.entry(field).or_insert(Value::String(text));
    }
    Ok(Some(Value::Object(fields)))
}

/// The issues of a backup, with the dependencies and labels that other files have.
fn read_issues(path: &Path) -> Result<Vec<(u64, Value)>> {
    let mut issues = Vec::new();
    for (line, value) in lines(&path.join("issues.jsonl"))? {
        issues.push((line, value));
    }
    for (name, field) in [("dependencies.jsonl", "dependencies"), ("labels.jsonl", "labels")] {
        let file = path.join(name);
        if !file.is_file() {
            continue;
        }
        for (_, entry) in lines(&file)? {
            let id = entry.get("issue_id").cloned();
            let found = issues.iter_mut().find(|(_, issue)| issue.get("id") == id.as_ref());
            let Some(issue) = found.and_then(|(_, issue)| issue.as_object_mut()) else { continue };
            let list = issue.entry(field).or_insert_with(|| json!([]));
            let value = match field {
                "labels" => entry.get("label").cloned().unwrap_or_default(),
                _ => entry,
            };
            if let Some(list) = list.as_array_mut() {
                list.push(value);
            }
        }
    }
    Ok(issues)
}

/// The objects of a file of JSON Lines.
fn lines(path: &Path) -> Result<Vec<(u64, Value)>> {
    let text = read_text(path, "backup")?;
    let mut found = Vec::new();
    for (line, content) in (1_u64..).zip(text.lines()).filter(|(_, it)| !it.trim().is_empty()) {
        let value = serde_json::from_str(content).map_err(|_| {
            plan_error(format!("line {line}: expected a JSON object")).at_path(path)
        })?;
        found.push((line, value));
    }
    Ok(found)
}

/// A plan file of a phase: `phases/01-login/01-02-PLAN.md`.
struct GsdPlan {
    path: PathBuf,
    /// The name of the phase's folder.
    phase: String,
    /// The name of the file before `-PLAN.md`, such as `01-02`.
    name: String,
}

/// The plans of GSD below a folder, in the order of their phases and numbers; `None` if it has none.
/// The folder is the project, its `.planning`, the folder `phases`, or one phase.
fn gsd_plans(path: &Path) -> Result<Option<Vec<GsdPlan>>> {
    let places = [path.join(".planning/phases"), path.join("phases")];
    let phases = places.iter().find(|place| place.is_dir()).map_or(path, PathBuf::as_path);
    let mut folders = folders(phases)?;
    folders.push(phases.to_owned());
    let mut plans = Vec::new();
    for folder in folders {
        let phase = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for file in files(&folder)? {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(name) = name.strip_suffix("-PLAN.md") {
                let (name, phase) = (name.to_owned(), phase.clone());
                plans.push(GsdPlan { path: file, phase, name });
            }
        }
    }
    plans.sort_by_cached_key(|plan| (numbers(&plan.phase), numbers(&plan.name), plan.name.clone()));
    Ok((!plans.is_empty()).then_some(plans))
}

fn folders(path: &Path) -> Result<Vec<PathBuf>> {
    let failed = |source| Error::io("read the folder", path, source);
    let mut folders = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let folder = entry.map_err(failed)?.path();
        if folder.is_dir() {
            folders.push(folder);
        }
    }
    Ok(folders)
}

/// The numbers in a name, in their order: 2 and 1 of `02.1-repair`.
fn numbers(name: &str) -> Vec<u64> {
    let parts = name.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().unwrap_or(u64::MAX)).collect()
}

/// The order that the front matter of a GSD plan states.
#[derive(Debug, Default)]
struct GsdOrder {
    wave: Option<u64>,
    depends_on: Vec<String>,
}

/// A plan of a phase that was read: its name, its wave, and its last task.
struct GsdRead {
    name: String,
    wave: Option<u64>,
    last: String,
}

/// The tasks of all plans, with ids and dependencies. Within a plan they follow each other. A plan
/// waits for the plans that it names; else for those of the wave before it; without a wave, for the
/// plan before it. A phase waits for all plans of the phase before it.
fn gsd_tasks(plans: &[GsdPlan]) -> Result<(Vec<(u64, Value)>, usize)> {
    let (mut records, mut unread) = (Vec::new(), 0_usize);
    let (mut before, mut current): (Vec<String>, Vec<GsdRead>) = (Vec::new(), Vec::new());
    let mut phase = "";
    for plan in plans {
        let text = read_text(&plan.path, "plan file")?;
        let text = without_byte_order_mark(&text).replace("\r\n", "\n");
        let at_path = |error| Error::from(error).at_path(&plan.path);
        let outline = Outline::parse(&text).map_err(at_path)?;
        let mut tasks = task_elements(&outline);
        if tasks.is_empty() {
            tasks = markdown_tasks(&plan.name, &outline);
        }
        if tasks.is_empty() {
            unread = unread.saturating_add(1);
            continue;
        }
        if plan.phase != phase {
            phase = &plan.phase;
            if !current.is_empty() {
                before = current.drain(..).map(|read| read.last).collect();
            }
        }
        let order = gsd_order(&outline).map_err(at_path)?;
        let mut after = gsd_dependencies(&order, &current, &before);
        let summary = format!("{}-SUMMARY.md", plan.name);
        let is_done = plan.path.with_file_name(summary).is_file();
        for (number, (line, mut task)) in (1_usize..).zip(tasks) {
            let id = format!("{}.{number}", plan.name);
            if let Some(fields) = task.as_object_mut() {
                fields.insert("id".to_owned(), Value::String(id.clone()));
                fields.insert("phase".to_owned(), Value::String(plan.phase.clone()));
                fields.insert("depends_on".to_owned(), json!(after));
                if is_done {
                    fields.insert("status".to_owned(), json!("done"));
                }
            }
            records.push((line, task));
            after = vec![id];
        }
        let last = after.pop().unwrap_or_default();
        current.push(GsdRead { name: plan.name.clone(), wave: order.wave, last });
    }
    Ok((records, unread))
}

/// The tasks of a plan without task elements, which is Markdown: a record for each step that the same file alone
/// would have.
fn markdown_tasks(name: &str, outline: &Outline<'_>) -> Vec<(u64, Value)> {
    let Some((draft, _)) = markdown::parse(name, outline, false) else { return Vec::new() };
    let plan_file = draft.plan_file;
    let record = |(index, step): (usize, &Step)| {
        let mut fields = serde_json::to_value(step).unwrap_or_default();
        if let Some(fields) = fields.as_object_mut() {
            for name in ["after", "phase", "extra"] {
                fields.remove(name);
            }
            let status = plan_file.done.get(&step.id).map(|_| "done");
            let status = status.or_else(|| plan_file.skipped.get(&step.id).map(|_| "skipped"));
            fields.extend(status.map(|status| ("status".to_owned(), json!(status))));
        }
        (draft.source.line_of_step(index).unwrap_or(1), fields)
    };
    plan_file.plan.steps.iter().enumerate().map(record).collect()
}

/// The tasks that the first task of a plan waits for.
fn gsd_dependencies(order: &GsdOrder, current: &[GsdRead], before: &[String]) -> Vec<String> {
    let last = |read: &GsdRead| read.last.clone();
    let named: Vec<String> = current
        .iter()
        .filter(|read| order.depends_on.iter().any(|on| is_named(on, &read.name)))
        .map(last)
        .collect();
    if !named.is_empty() {
        return named;
    }
    let in_wave = |wave: u64| current.iter().filter(move |read| read.wave == Some(wave)).map(last);
    let earlier = order.wave.and_then(|wave| {
        let waves = current.iter().filter_map(|read| read.wave).filter(|each| *each < wave);
        waves.max().map(|wave| in_wave(wave).collect::<Vec<_>>())
    });
    match (earlier, order.wave, current.last()) {
        (Some(earlier), ..) => earlier,
        (None, None, Some(previous)) => vec![previous.last.clone()],
        (None, ..) => before.to_vec(),
    }
}

/// Whether a name in `depends_on` is that of a plan: `01-02`, `02`, or with the name of the phase.
fn is_named(written: &str, plan: &str) -> bool {
    let (written, plan) = (numbers(written), numbers(plan));
    !written.is_empty() && plan.ends_with(&written)
}

/// Reads the order of a plan from its front matter.
fn gsd_order(outline: &Outline<'_>) -> ReadResult<GsdOrder> {
    let Some(fields) = outline.front_fields()?.map(records::value_of) else {
        return Ok(GsdOrder::default());
    };
    let text_of = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let depends_on = match fields.get("depends_on") {
        Some(Value::Array(names)) => names.iter().filter_map(text_of).collect(),
        Some(value) => text_of(value).into_iter().collect(),
        None => Vec::new(),
    };
    let wave = fields.get("wave").and_then(text_of).and_then(|wave| wave.parse().ok());
    Ok(GsdOrder { wave, depends_on })
}
