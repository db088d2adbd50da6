//! A folder with a file for each task, the folder of a backup that splits issues into files, and the
//! folder of phases with a file for each plan that GSD writes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::embedded::task_elements;
use crate::diagnostic::{ReadResult, of_syntax, plan_error};
use crate::draft::StepSource;
use crate::markdown::Outline;
use crate::plan_file::PlanFormat;
use crate::syntax::{Field, Kind, Node, Place, json_lines, json_tree, normalized_text, read_text};
use crate::{markdown, records};
use plan_ledger::plan::Step;
use plan_ledger::{Error, Result};

/// The most files of a folder that are read.
const FILES_MAX: usize = 100_000;

/// Texts that are read instead of those of files.
pub(crate) type Texts = BTreeMap<PathBuf, String>;

/// The content of a folder.
pub(super) struct Folder {
    /// A row for each task, in order.
    pub(super) rows: Node,
    /// Where each row is.
    pub(super) places: Vec<RowPlace>,
    /// The form, if the rows do not show it.
    pub(super) format: Option<PlanFormat>,
    /// How many files have no task.
    pub(super) unread: usize,
}

/// Where a row is.
#[derive(Debug)]
pub(crate) struct RowPlace {
    pub(crate) file: PathBuf,
    /// Its lines, if it is a part of a Markdown text.
    pub(crate) lines: Option<StepSource>,
}

/// The text of a file of the folder.
fn text_of(file: &Path, kind: &str, texts: &Texts) -> Result<String> {
    if let Some(text) = texts.get(file) {
        return Ok(text.clone());
    }
    Ok(normalized_text(&read_text(file, kind)?).into_owned())
}

/// Reads the tasks of a folder, or of the folder `tasks` in it.
pub(super) fn read_folder(path: &Path, texts: &Texts) -> Result<Folder> {
    if let Some(plans) = gsd_plans(path)? {
        let (rows, unread) = gsd_tasks(&plans, texts)?;
        if !rows.is_empty() {
            let (places, rows) = rows.into_iter().unzip();
            let format = Some(PlanFormat::Gsd);
            return Ok(Folder { rows: Node::list(rows), places, format, unread });
        }
    }
    let inner = path.join("tasks");
    let path = if inner.is_dir() { inner.as_path() } else { path };
    let issues = path.join("issues.jsonl");
    if issues.is_file() {
        let rows = read_issues(path, texts)?;
        let place = |_: &Node| RowPlace { file: issues.clone(), lines: None };
        let places = rows.iter().map(place).collect();
        let format = Some(PlanFormat::Beads);
        return Ok(Folder { rows: Node::list(rows), places, format, unread: 0 });
    }
    let (mut rows, mut places, mut unread) = (Vec::new(), Vec::new(), 0_usize);
    for file in files(path)? {
        let extension = file.extension().and_then(|it| it.to_str()).unwrap_or_default();
        if !["json", "md"].contains(&extension) {
            continue;
        }
        let text = text_of(&file, "task file", texts)?;
        let row = if extension == "json" {
            of_syntax(json_tree(&text))
        } else {
            Outline::parse(&text).and_then(|outline| task(&outline))
        };
        let row = row.map_err(|error| Error::from(error).at_path(&file))?;
        match row.filter(|row| matches!(row.kind, Kind::Map(_))) {
            Some(row) => {
                rows.push(row);
                places.push(RowPlace { file, lines: None });
            }
            None => unread = unread.saturating_add(1),
        }
    }
    if rows.is_empty() {
        let message = "the folder has no task files: expected JSON files with a task each, or \
                       Markdown files with fields between `---` lines";
        return Err(plan_error(message).at_path(path));
    }
    Ok(Folder { rows: Node::list(rows), places, format: None, unread })
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
pub(super) fn task(outline: &Outline<'_>) -> ReadResult<Option<Node>> {
    let Some(mut row) = outline.front_fields()?.cloned() else { return Ok(None) };
    let place = row.place;
    let Kind::Map(fields) = &mut row.kind else { return Ok(None) };
    for (title, text) in outline.section_texts() {
        let name = if title.is_empty() { "body".to_owned() } else { title };
        if fields.iter().all(|field| field.name != name) {
            fields.push(Field { name, place, value: Node::text(text, place) });
        }
    }
    Ok(Some(row))
}

/// The issues of a backup, with the dependencies and labels that other files have.
fn read_issues(path: &Path, texts: &Texts) -> Result<Vec<Node>> {
    let mut issues = lines(&path.join("issues.jsonl"), texts)?;
    for (name, field) in [("dependencies.jsonl", "dependencies"), ("labels.jsonl", "labels")] {
        let file = path.join(name);
        if !file.is_file() {
            continue;
        }
        let mut more: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for entry in lines(&file, texts)? {
            let value = |name: &str| entry.field(name).map(Node::value);
            let Some(id) = value("issue_id") else { continue };
            let value = match field {
                "labels" => value("label").unwrap_or_default(),
                _ => entry.value(),
            };
            more.entry(id.to_string()).or_default().push(value);
        }
        for issue in &mut issues {
            let id = issue.field("id").map(|id| id.value().to_string());
            let Some(more) = id.and_then(|id| more.remove(&id)) else { continue };
            let place = issue.place;
            let known = issue.field(field).map_or(&[][..], Node::items).iter().cloned();
            let more = more.iter().map(|value| Node::of_value(value, place));
            let all = Node { place, kind: Kind::List(known.chain(more).collect()) };
            issue.set_field(field, all);
        }
    }
    Ok(issues)
}

/// The objects of a file of JSON Lines.
fn lines(path: &Path, texts: &Texts) -> Result<Vec<Node>> {
    let text = text_of(path, "backup", texts)?;
    let mut written = (1_u64..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let Some((line, _)) = written.next() else { return Ok(Vec::new()) };
    let wrong = || plan_error(format!("line {line}: expected a JSON object")).at_path(path);
    let tree = json_lines(&text).ok_or_else(wrong)?;
    Ok(tree.map_err(|error| Error::from(error).at_path(path))?.into_items())
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
fn gsd_tasks(plans: &[GsdPlan], texts: &Texts) -> Result<(Vec<(RowPlace, Node)>, usize)> {
    let (mut rows, mut unread) = (Vec::new(), 0_usize);
    let (mut before, mut current): (Vec<String>, Vec<GsdRead>) = (Vec::new(), Vec::new());
    let mut phase = "";
    for plan in plans {
        let text = text_of(&plan.path, "plan file", texts)?;
        let at_path = |error| Error::from(error).at_path(&plan.path);
        let outline = Outline::parse(&text).map_err(at_path)?;
        let elements = task_elements(&outline).into_iter();
        let mut tasks: Vec<GsdTask> =
            elements.map(|(line, fields)| GsdTask { line, fields, lines: None }).collect();
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
        for (number, GsdTask { line, mut fields, lines }) in (1_usize..).zip(tasks) {
            let id = format!("{}.{number}", plan.name);
            if let Some(fields) = fields.as_object_mut() {
                fields.insert("id".to_owned(), Value::String(id.clone()));
                fields.insert("phase".to_owned(), Value::String(plan.phase.clone()));
                fields.insert("depends_on".to_owned(), json!(after));
                if is_done {
                    fields.insert("status".to_owned(), json!("done"));
                }
            }
            let row = Node::of_value(&fields, Place { line, column: 1 });
            rows.push((RowPlace { file: plan.path.clone(), lines }, row));
            after = vec![id];
        }
        let last = after.pop().unwrap_or_default();
        current.push(GsdRead { name: plan.name.clone(), wave: order.wave, last });
    }
    Ok((rows, unread))
}

/// A task of a GSD plan.
struct GsdTask {
    line: u64,
    fields: Value,
    /// Its lines, if it is Markdown.
    lines: Option<StepSource>,
}

/// The tasks of a plan without task elements, which is Markdown: a record for each step that the same file alone
/// would have.
fn markdown_tasks(name: &str, outline: &Outline<'_>) -> Vec<GsdTask> {
    let Some(draft) = markdown::parse(name, outline, false) else { return Vec::new() };
    let plan_file = draft.plan_file;
    let task = |(index, step): (usize, &Step)| {
        let mut fields = serde_json::to_value(step).unwrap_or_default();
        if let Some(fields) = fields.as_object_mut() {
            for name in ["after", "phase", "extra"] {
                fields.remove(name);
            }
            let status = plan_file.done.get(&step.id).map(|_| "done");
            let status = status.or_else(|| plan_file.skipped.get(&step.id).map(|_| "skipped"));
            fields.extend(status.map(|status| ("status".to_owned(), json!(status))));
        }
        let line = draft.source.line_of_step(index).unwrap_or(1);
        let lines = draft.source.steps().and_then(|steps| steps.get(index)).cloned();
        GsdTask { line, fields, lines }
    };
    plan_file.plan.steps.iter().enumerate().map(task).collect()
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
