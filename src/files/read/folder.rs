//! A folder with a file for each task, and the folder of a backup that splits issues into files.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::embedded::front_matter;
use crate::error::{Error, Result};
use crate::files::diagnostic::plan_error;
use crate::files::markdown;
use crate::files::syntax::{parse_yaml, read_text, without_byte_order_mark};

/// The most files of a folder that are read.
const FILES_MAX: usize = 100_000;

/// What a folder contains.
pub(super) enum Folder {
    /// A record for each file.
    Records { records: Vec<(u64, Value)>, unread: usize },
    /// Issues of beads, each with its line.
    Issues(Vec<(u64, Value)>),
}

/// Reads the tasks of a folder, or of the folder `tasks` in it.
pub(super) fn read_folder(path: &Path) -> Result<Folder> {
    let inner = path.join("tasks");
    let path = if inner.is_dir() { inner.as_path() } else { path };
    if path.join("issues.jsonl").is_file() {
        return read_issues(path).map(Folder::Issues);
    }
    let (mut records, mut unread) = (Vec::new(), 0_usize);
    for file in files(path)? {
        let extension = file.extension().and_then(|it| it.to_str()).unwrap_or_default();
        if !["json", "md"].contains(&extension) {
            continue;
        }
        let text = read_text(&file, "task file")?;
        let text = without_byte_order_mark(&text);
        let record = if extension == "json" { serde_json::from_str(text).ok() } else { task(text) };
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
    Ok(Folder::Records { records, unread })
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
fn task(text: &str) -> Option<Value> {
    let (front, body) = front_matter(text)?;
    let mut fields: Map<String, Value> = parse_yaml::<Map<String, Value>>(front).ok()?;
    for (title, text) in markdown::section_texts(body) {
        let field = if title.is_empty() { "body".to_owned() } else { title };
        fields.entry(field).or_insert(Value::String(text));
    }
    Some(Value::Object(fields))
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
