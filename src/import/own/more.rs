//! What else is wrong with a file of our own form, when a strict reader stopped at the first.
//!
//! JSON is looked at field by field. Of YAML, which means different things where different things
//! are expected, the entry or the line with the problem is blanked, and the rest is read again.
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
    let mut search = Search {
        written: text.lines().collect(),
        lines: text.lines().map(str::to_owned).collect(),
        found: Vec::new(),
        piece: None,
    };
    if text.len() <= TEXT_MAX
        && let Some(refusal) = search.past_what_is_broken(first)
    {
        search.all(refusal);
    }
    search.found
}

/// A YAML text from which one slip after the other is taken, until the rest can be read.
struct Search<'a> {
    written: Vec<&'a str>,
    lines: Vec<String>,
    found: Vec<Finding>,
    /// Where only a piece of a line was taken last: the rest of that line has a say of its own.
    piece: Option<(u64, u64)>,
}

impl Search<'_> {
    /// The text that is left is no plan; `None` if it is one, or cannot be read at all.
    fn read(&self) -> Option<Refusal> {
        let rest = self.lines.join("\n");
        let read: Read<PlanFile> = super::yaml(&rest);
        read.err().filter(|_| !Lines::of_yaml(&rest).is_empty())
    }

    /// Takes out what keeps the text from being YAML, each piece further down than the last. If
    /// that comes to no end, only the first is said: the others may come of it.
    fn past_what_is_broken(&mut self, first: Refusal) -> Option<Refusal> {
        let (mut refusal, mut last) = (first, 0);
        while Lines::of_yaml(&self.lines.join("\n")).is_empty() {
            let Refusal::Unreadable { line: Some(line), error, .. } = refusal else { return None };
            let at = index(line).filter(|_| line > last && self.found.len() < FOUND_MAX);
            if !at.is_some_and(|at| blank(&mut self.lines, at)) {
                self.found.truncate(1);
                return None;
            }
            self.found.push(Finding::of_error(Some(line), &error));
            last = line;
            let again: Read<PlanFile> = super::yaml(&self.lines.join("\n"));
            refusal = again.err()?;
        }
        Some(refusal)
    }

    fn all(&mut self, first: Refusal) {
        let mut refusal = first;
        for _ in 0..FOUND_MAX {
            let Refusal::Unreadable { line: Some(line), column, error } = refusal else { break };
            let Some(at) = index(line) else { break };
            // Where nothing is left, what is said is about what was taken.
            if self.lines.get(at).is_none_or(|line| line.trim().is_empty()) {
                break;
            }
            let place = column.map(|column| (line, column));
            let is_missing = error.message().contains("missing field");
            // What is said where a piece was taken is that it is gone.
            let is_taken = place.is_some() && self.piece == place;
            if !is_taken && self.says_something_new(line, is_missing) {
                self.found.push(Finding::of_error(Some(line), &error));
            }
            let without = column.filter(|_| !is_missing && !is_taken);
            let line_at = self.lines.get(at);
            let without = without.zip(line_at).and_then(|(at, line)| without_entry(line, at));
            let is_changed = match (without, self.lines.get_mut(at)) {
                (Some(without), Some(line)) => {
                    *line = without;
                    self.piece = place;
                    true
                }
                _ if is_missing => blank_map(&mut self.lines, at),
                _ => blank(&mut self.lines, at),
            };
            // What the blanking itself broke is nobody's slip.
            match self.read().filter(|_| is_changed) {
                Some(again) => refusal = again,
                None => break,
            }
        }
    }

    fn says_something_new(&self, line: u64, is_missing: bool) -> bool {
        // What else is said of a line mostly comes of its first slip, unless only that was taken.
        let is_told = self.found.iter().any(|finding| finding.line == Some(line));
        let is_of_rest = self.piece.is_some_and(|(of, _)| of == line);
        // A field that has lost all that stood in it says nothing new.
        let below = index(line).map_or(usize::MAX, |at| at.saturating_add(1));
        let is_emptied = !is_missing
            && self.lines.get(below).is_some_and(|line| line.trim().is_empty())
            && self.written.get(below).is_some_and(|line| !line.trim().is_empty());
        (!is_told || is_of_rest) && !is_emptied
    }
}

/// The place of a line in a list of lines.
fn index(line: u64) -> Option<usize> {
    usize::try_from(line).ok()?.checked_sub(1)
}

/// A line without the entry at that column of a list or of fields in brackets, which has blanks in its
/// place; `None` where no bracket of the line is open there.
fn without_entry(line: &str, column: u64) -> Option<String> {
    let mut chars: Vec<char> = line.chars().collect();
    let (begin, end) = entry_at(&chars, usize::try_from(column).ok()?.checked_sub(1)?)?;
    let taken = chars.get_mut(begin..end)?;
    let is_any = taken.iter().any(|c| !c.is_whitespace());
    taken.fill(' ');
    is_any.then(|| chars.into_iter().collect())
}

/// Where the entry in brackets begins and ends that is at that place of a line, its comma with it.
fn entry_at(chars: &[char], at: usize) -> Option<(usize, usize)> {
    // Where the entries begin that are open, and with which quote.
    let (mut open, mut quote): (Vec<usize>, Option<char>) = (Vec::new(), None);
    // The one that is looked for, and how many are open with it.
    let mut entry: Option<(usize, usize)> = None;
    for (place, c) in chars.iter().copied().enumerate() {
        if place == at {
            entry = Some((*open.last()?, open.len()));
        }
        match (c, quote) {
            (c, Some(of)) => {
                quote = quote.filter(|_| c != of);
                continue;
            }
            ('"' | '\'', None) => quote = Some(c),
            _ => {}
        }
        let next = place.saturating_add(1);
        let begin = entry.filter(|(_, depth)| *depth == open.len()).map(|(begin, _)| begin);
        match (c, begin) {
            ('{' | '[', _) => open.push(next),
            (',', Some(begin)) => return Some((begin, next)),
            ('}' | ']', Some(begin)) => return Some((begin, place)),
            (',', None) => {
                if let Some(last) = open.last_mut() {
                    *last = next;
                }
            }
            ('}' | ']', None) => drop(open.pop()),
            _ => {}
        }
    }
    None
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
