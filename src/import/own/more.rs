//! What else is wrong with a file of our own form, when a strict reader stopped at the first.
//!
//! JSON is looked at field by field. Of YAML, which means different things where different things
//! are expected, the line with the problem is blanked, and the rest is read again.
//!
//! Invariant: it only adds to what the strict reader said; a file that it accepts is never looked
//! at here. It stops after so many.

use serde_json::{Map, Value};

use super::{PlanFile, Read, did_you_mean, json_words};
use crate::import::finding::{Finding, Refusal, Severity};
use crate::import::lines::Lines;
use crate::plan::{Plan, Step};

/// For how many problems of form it is looked.
const FOUND_MAX: usize = 50;

/// Up to which size a YAML text is read again for more.
const TEXT_MAX: usize = 1024 * 1024;

/// All problems of form of a JSON text that can be read, but not as a plan.
pub(in crate::import) fn of_json(text: &str, value: &Value) -> Vec<Finding> {
    let mut look = Look { lines: Lines::of_json(text), found: Vec::new() };
    let Some(fields) = value.as_object() else { return Vec::new() };
    for (name, value) in fields {
        match (name.as_str(), value.as_array()) {
            ("steps", Some(steps)) => {
                for (index, step) in steps.iter().enumerate() {
                    look.step(&format!("steps[{index}]"), step);
                }
            }
            ("marks", _) => look.read::<PlanFile>(name, &with(name, value)),
            _ => look.read::<Plan>(name, &with(name, value)),
        }
    }
    look.found
}

fn with(name: &str, value: &Value) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), value.clone())])
}

struct Look {
    lines: Lines,
    found: Vec<Finding>,
}

impl Look {
    fn step(&mut self, path: &str, step: &Value) {
        let Some(fields) = step.as_object() else {
            return self.report(path, "expected a step: an object with an id");
        };
        if !fields.contains_key("id") {
            self.report(path, "missing field `id`");
        }
        for (name, value) in fields {
            let mut one = with(name, value);
            one.entry("id").or_insert_with(|| Value::String("x".to_owned()));
            self.read::<Step>(&format!("{path}.{name}"), &one);
        }
    }

    fn read<T: serde::de::DeserializeOwned>(&mut self, path: &str, fields: &Map<String, Value>) {
        if let Err(error) = serde_json::from_value::<T>(Value::Object(fields.clone())) {
            self.report(path, &json_words(&error.to_string()));
        }
    }

    fn report(&mut self, path: &str, message: &str) {
        if self.found.len() < FOUND_MAX {
            let (line, place) = (self.lines.line(path), path.to_owned());
            let message = message.to_owned();
            self.found.push(Finding { severity: Severity::Problem, line, place, message });
        }
    }
}

/// All problems of form of a YAML text, of which the first is known.
pub(in crate::import) fn of_yaml(text: &str, first: Refusal) -> Vec<Finding> {
    let written: Vec<&str> = text.lines().collect();
    let mut lines: Vec<String> = written.iter().map(|line| (*line).to_owned()).collect();
    let mut found: Vec<Finding> = Vec::new();
    let mut refusal = first;
    let is_readable = |text: &str| text.len() <= TEXT_MAX && !Lines::of_yaml(text).is_empty();
    if !is_readable(text) {
        return found;
    }
    for _ in 0..FOUND_MAX {
        let Refusal::Unreadable { line: Some(line), error } = refusal else { break };
        let Some(at) = usize::try_from(line).ok().and_then(|line| line.checked_sub(1)) else {
            break;
        };
        // Where nothing is left, what is said is about what was taken.
        if lines.get(at).is_none_or(|line| line.trim().is_empty()) {
            break;
        }
        let is_missing = error.message().contains("missing field");
        // A field that has lost all that stood in it says nothing new.
        let below = at.saturating_add(1);
        let is_emptied = !is_missing
            && lines.get(below).is_some_and(|line| line.trim().is_empty())
            && written.get(below).is_some_and(|line| !line.trim().is_empty());
        // What else is said of a line mostly comes of its first slip.
        let is_new = found.iter().all(|finding| finding.line != Some(line));
        if is_new && !is_emptied {
            found.push(Finding::of_error(Some(line), &error));
        }
        let is_blanked = if is_missing { blank_map(&mut lines, at) } else { blank(&mut lines, at) };
        if !is_blanked {
            break;
        }
        // What the blanking itself broke is nobody's slip.
        let rest = lines.join("\n");
        let again: Read<PlanFile> = super::yaml(&rest);
        match again {
            Err(again) if is_readable(&rest) => refusal = again,
            Ok(_) | Err(_) => break,
        }
    }
    found
}

/// Takes a field out of the lines: the line where it stands, and those that are deeper. Whether
/// there was anything to take.
fn blank(lines: &mut [String], at: usize) -> bool {
    let Some(line) = lines.get_mut(at) else { return false };
    let content = line.trim_start();
    if content.is_empty() {
        return false;
    }
    let mut indent = line.len().saturating_sub(content.len());
    // The first field of an item stands behind its dash, which stays, unless nothing else does.
    let inner = content.strip_prefix("- ").map(str::trim_start);
    let (kept, has_dash) = match inner {
        Some(inner) if inner.contains(": ") || inner.ends_with(':') => {
            indent = line.len().saturating_sub(inner.len());
            (line.get(..indent).unwrap_or_default().trim_end().to_owned(), true)
        }
        _ => (String::new(), false),
    };
    if has_dash && kept.trim() == content.trim() {
        return false;
    }
    *line = kept;
    for line in lines.iter_mut().skip(at.saturating_add(1)) {
        let content = line.trim_start();
        let depth = line.len().saturating_sub(content.len());
        if !content.is_empty() && depth <= indent {
            break;
        }
        line.clear();
    }
    true
}

/// Takes all of the fields out of the lines that stand beside the first one of theirs.
fn blank_map(lines: &mut [String], at: usize) -> bool {
    let Some(line) = lines.get(at) else { return false };
    let content = line.trim_start();
    let indent = line.len().saturating_sub(content.len());
    // Fields of an item stand deeper than its dash.
    let least = indent.saturating_add(usize::from(content.starts_with('-')));
    let has_content = !content.is_empty();
    for (place, line) in lines.iter_mut().enumerate().skip(at) {
        let content = line.trim_start();
        let depth = line.len().saturating_sub(content.len());
        if place > at && !content.is_empty() && depth < least {
            break;
        }
        line.clear();
    }
    has_content
}

/// What a reader of JSON says, with the name that was meant, if one is near.
pub(super) fn words(message: &str) -> String {
    let hint = match message.split_once(", expected ") {
        Some((found, expected)) if found.starts_with("unknown ") => {
            did_you_mean(super::quoted(found).next().unwrap_or_default(), super::quoted(expected))
        }
        Some((found, "a string")) if found.starts_with("invalid type: ") => super::quote_it(),
        _ => String::new(),
    };
    format!("{message}{hint}")
}
